//! [`Message`]: one ZeroMQ message, held as the bytes that go over the wire.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::wire::frame::{self, MORE};

/// Bodies from this size on are kept by reference instead of being copied, in bytes.
pub(crate) const BY_REFERENCE: usize = 8 * 1024;

/// One message: one or more frames, sent and received whole.
///
/// The frames lie behind each other with their ZMTP headers, exactly as on the wire (RFC 37 section "Framing"), so
/// receiving a message is a slice of what was read and forwarding it is one copy of bytes that are encoded already.
/// A message is immutable and cheap to clone.
#[derive(Clone)]
pub struct Message {
    /// Whole frames; the last may be only a header whose body is the start of `tail`.
    head: Bytes,
    /// What follows `head`: nothing, or a body (and perhaps more frames) kept by reference.
    tail: Bytes,
    frames: u32,
}

impl Message {
    /// A message of one frame.
    pub fn single(body: impl AsRef<[u8]>) -> Self {
        Self::builder().frame(body).build()
    }

    /// Puts a message together frame by frame.
    pub fn builder() -> MessageBuilder {
        MessageBuilder { head: BytesMut::new(), tail: Bytes::new(), last: 0, frames: 0 }
    }

    /// A message of the given frames; of one empty frame when there are none.
    pub fn from_frames<I>(frames: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<[u8]>,
    {
        frames.into_iter().fold(Self::builder(), |builder, body| builder.frame(body)).build()
    }

    /// A message of copies of these frames, in one allocation of just the size; of one empty frame when there are none.
    pub fn copy_from(frames: &[&[u8]]) -> Self {
        let Some(last) = frames.len().checked_sub(1) else { return Self::builder().build() };
        let len = frames.iter().map(|body| frame::header_len(body.len()) + body.len()).sum();
        let mut wire = Vec::with_capacity(len);
        for (index, body) in frames.iter().enumerate() {
            frame::put(&mut wire, if index < last { MORE } else { 0 }, body);
        }
        Self { head: wire.into(), tail: Bytes::new(), frames: last as u32 + 1 }
    }

    /// A message from checked wire bytes: `frames` whole frames, MORE on all but the last, shortest length form.
    pub(crate) fn from_wire(wire: Bytes, frames: u32) -> Self {
        Self { head: wire, tail: Bytes::new(), frames }
    }

    /// As [`from_wire`](Self::from_wire), the body of the last frame apart in `tail`, unless that is empty.
    pub(crate) fn from_head_and_tail(head: Bytes, tail: Bytes, frames: u32) -> Self {
        Self { head, tail, frames }
    }

    /// The number of frames, at least one.
    pub fn frame_count(&self) -> usize {
        self.frames as usize
    }

    /// The frames' bodies, first to last.
    pub fn frames(&self) -> Frames<'_> {
        Frames { head: &self.head, tail: &self.tail }
    }

    /// The body of frame `index`, counted from zero.
    pub fn frame(&self, index: usize) -> Option<&[u8]> {
        self.frames().nth(index)
    }

    /// The body of frame `index` as a reference-counted slice, without copying it.
    pub fn frame_bytes(&self, index: usize) -> Option<Bytes> {
        let body = self.frame(index)?;
        if body.is_empty() {
            return Some(Bytes::new());
        }
        let head = self.head.as_ptr_range();
        let chunk = if head.contains(&body.as_ptr()) { &self.head } else { &self.tail };
        Some(chunk.slice_ref(body))
    }

    /// The length of the message on the wire, frame headers included, in bytes.
    pub fn wire_len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// The wire bytes: they are the concatenation of these two.
    pub fn wire(&self) -> [&Bytes; 2] {
        [&self.head, &self.tail]
    }

    /// The message without its first `count` frames; `None` if that leaves none.
    pub fn skip_frames(&self, count: usize) -> Option<Self> {
        let rest = u32::try_from(count).ok().and_then(|count| self.frames.checked_sub(count)).filter(|n| *n > 0)?;
        let mut frames = self.frames();
        frames.by_ref().take(count).for_each(drop);
        let used = self.wire_len() - frames.head.len() - frames.tail.len();
        let cut = used.saturating_sub(self.head.len());
        Some(Self { head: self.head.slice(used.min(self.head.len())..), tail: self.tail.slice(cut..), frames: rest })
    }

    /// The message with one more frame in front.
    pub fn prepend(&self, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut head = BytesMut::with_capacity(frame::header_len(body.len()) + body.len() + self.inline_len());
        frame::put(&mut head, MORE, body);
        let tail = self.append_to(&mut head);
        Self { head: head.freeze(), tail, frames: self.frames + 1 }
    }

    /// The message with the body of frame `index` replaced. What lies behind that frame is shared, not copied.
    ///
    /// Gives the message back unchanged when it has no such frame.
    pub fn replace_frame(&self, index: usize, body: &[u8]) -> Self {
        let Some((start, end, more)) = self.frame_range(index) else { return self.clone() };
        let mut head = BytesMut::with_capacity(start.min(self.head.len()) + frame::header_len(body.len()) + body.len());
        self.put_range(&mut head, 0, start);
        frame::put(&mut head, more, body);
        let tail = if end >= self.head.len() {
            self.tail.slice(end - self.head.len()..)
        } else if self.tail.is_empty() {
            self.head.slice(end..)
        } else {
            head.put_slice(&self.head[end..]);
            self.tail.clone()
        };
        Self { head: head.freeze(), tail, frames: self.frames }
    }

    /// A copy in one allocation of its own size, which shares nothing with the buffer the message was read into.
    ///
    /// For messages that are kept: a slice keeps all of what was read with it alive.
    pub fn compact(&self) -> Self {
        let mut wire = Vec::with_capacity(self.wire_len());
        wire.extend_from_slice(&self.head);
        wire.extend_from_slice(&self.tail);
        Self { head: wire.into(), tail: Bytes::new(), frames: self.frames }
    }

    /// As [`compact`](Self::compact), the copy a piece of `block`: cheaper for many small messages that are kept and given
    /// up in about the same order, because a block lives as long as any message in it.
    ///
    /// A full block is replaced by one of the capacity it was made with (up to 64 KiB), or reused if nothing lies in it.
    pub fn compact_into(&self, block: &mut BytesMut) -> Self {
        block.reserve(self.wire_len());
        self.put_range(block, 0, self.wire_len());
        Self { head: block.split().freeze(), tail: Bytes::new(), frames: self.frames }
    }

    /// [`replace_frame`](Self::replace_frame) and [`compact_into`](Self::compact_into) in one step.
    pub fn replace_frame_into(&self, index: usize, body: &[u8], block: &mut BytesMut) -> Self {
        let Some((start, end, more)) = self.frame_range(index) else { return self.compact_into(block) };
        block.reserve(self.wire_len() - (end - start) + frame::header_len(body.len()) + body.len());
        self.put_range(block, 0, start);
        frame::put(block, more, body);
        self.put_range(block, end, self.wire_len());
        Self { head: block.split().freeze(), tail: Bytes::new(), frames: self.frames }
    }

    /// Where frame `index` begins and ends on the wire, and its MORE flag; `None` if there is no such frame.
    fn frame_range(&self, index: usize) -> Option<(usize, usize, u8)> {
        if index >= self.frame_count() {
            return None;
        }
        let mut frames = self.frames();
        frames.by_ref().take(index).for_each(drop);
        let start = self.wire_len() - frames.head.len() - frames.tail.len();
        frames.next();
        let end = self.wire_len() - frames.head.len() - frames.tail.len();
        Some((start, end, if index + 1 < self.frame_count() { MORE } else { 0 }))
    }

    /// Copies the wire bytes from `start` to `end`.
    fn put_range(&self, out: &mut BytesMut, start: usize, end: usize) {
        let edge = self.head.len();
        out.extend_from_slice(&self.head[start.min(edge)..end.min(edge)]);
        out.extend_from_slice(&self.tail[start.saturating_sub(edge)..end.saturating_sub(edge)]);
    }

    /// Bytes of the message that [`append_to`](Self::append_to) copies.
    fn inline_len(&self) -> usize {
        if self.head.len() < BY_REFERENCE { self.head.len() } else { 0 }
    }

    /// Writes the message behind `out`, except what is returned, which has to follow it.
    fn append_to(&self, out: &mut BytesMut) -> Bytes {
        match (self.tail.is_empty(), self.head.len() < BY_REFERENCE) {
            (_, true) => {
                out.put_slice(&self.head);
                self.tail.clone()
            }
            (true, false) => self.head.clone(),
            (false, false) => {
                out.put_slice(&self.head);
                self.tail.clone()
            }
        }
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.frames == other.frames && self.frames().eq(other.frames())
    }
}

impl Eq for Message {}

impl fmt::Debug for Message {
    /// The frames, escaped, the long ones cut short.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Body<'a>(&'a [u8]);
        impl fmt::Debug for Body<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                const SHOWN: usize = 64;
                match self.0.get(..SHOWN) {
                    Some(start) => write!(f, "\"{}\"... {} bytes", start.escape_ascii(), self.0.len()),
                    None => write!(f, "\"{}\"", self.0.escape_ascii()),
                }
            }
        }
        f.debug_list().entries(self.frames().map(Body)).finish()
    }
}

impl From<&'static str> for Message {
    fn from(body: &'static str) -> Self {
        Self::single(body)
    }
}

impl From<String> for Message {
    fn from(body: String) -> Self {
        Self::from(Bytes::from(body))
    }
}

impl From<Vec<u8>> for Message {
    fn from(body: Vec<u8>) -> Self {
        Self::from(Bytes::from(body))
    }
}

impl From<Bytes> for Message {
    fn from(body: Bytes) -> Self {
        Self::builder().bytes(body).build()
    }
}

impl<'a> IntoIterator for &'a Message {
    type Item = &'a [u8];
    type IntoIter = Frames<'a>;

    fn into_iter(self) -> Frames<'a> {
        self.frames()
    }
}

/// The frames of a [`Message`], by [`Message::frames`].
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    head: &'a [u8],
    tail: &'a [u8],
}

impl<'a> Iterator for Frames<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.head.is_empty() {
            self.head = std::mem::take(&mut self.tail);
        }
        let (header, len) = frame::split_checked(self.head)?;
        let rest = &self.head[header..];
        if rest.is_empty() && len > 0 {
            self.head = std::mem::take(&mut self.tail);
        } else {
            self.head = rest;
        }
        let (body, after) = self.head.split_at(len);
        self.head = after;
        Some(body)
    }
}

/// Builds a [`Message`] frame by frame; see [`Message::builder`].
#[derive(Debug)]
pub struct MessageBuilder {
    head: BytesMut,
    tail: Bytes,
    /// Offset in `head` of the last frame's flags.
    last: usize,
    frames: u32,
}

impl MessageBuilder {
    /// Reserves room for `bytes` more bytes of frames, headers included.
    pub fn reserve(mut self, bytes: usize) -> Self {
        self.head.reserve(bytes);
        self
    }

    /// Appends a frame, copying its body.
    pub fn frame(mut self, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        self.start_frame();
        // Header and body in one allocation: written piece by piece, the first few bytes would have one of their own.
        self.head.reserve(frame::header_len(body.len()) + body.len());
        frame::put(&mut self.head, 0, body);
        self
    }

    /// Appends a frame; a large body is kept by reference instead of being copied.
    pub fn bytes(mut self, body: Bytes) -> Self {
        if body.len() < BY_REFERENCE {
            return self.frame(body);
        }
        self.start_frame();
        frame::put_header(&mut self.head, 0, body.len());
        self.tail = body;
        self
    }

    /// The finished message: what was added, then all frames of `rest`, of which large ones are shared instead of copied.
    pub fn followed_by(mut self, rest: &Message) -> Message {
        if self.frames == 0 {
            return rest.clone();
        }
        self.start_frame();
        self.head.reserve(rest.inline_len());
        let tail = rest.append_to(&mut self.head);
        Message { head: self.head.freeze(), tail, frames: self.frames - 1 + rest.frames }
    }

    /// The finished message; one empty frame if none was added.
    pub fn build(mut self) -> Message {
        if self.frames == 0 {
            return self.frame("").build();
        }
        if self.head.capacity() > 2 * self.head.len() && self.head.len() >= BY_REFERENCE {
            self.head = BytesMut::from(&self.head[..]);
        }
        Message { head: self.head.freeze(), tail: self.tail, frames: self.frames }
    }

    /// Marks the frame before as followed by another and notes where the new one begins.
    fn start_frame(&mut self) {
        if !self.tail.is_empty() {
            self.head.put_slice(&self.tail);
            self.tail = Bytes::new();
        }
        if self.frames > 0 {
            self.head[self.last] |= MORE;
        }
        self.last = self.head.len();
        self.frames += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let len = prop_oneof![0..20usize, 250..260usize, BY_REFERENCE - 2..BY_REFERENCE + 3];
        proptest::collection::vec((len, any::<u8>()).prop_map(|(n, b)| vec![b; n]), 1..6)
    }

    /// The same frames in one chunk and with the last body by reference.
    fn both(bodies: &[Vec<u8>]) -> [Message; 2] {
        let whole = Message::from_frames(bodies).compact();
        let mut split = Message::builder();
        for body in bodies {
            split = split.bytes(Bytes::copy_from_slice(body));
        }
        [whole, split.build()]
    }

    proptest! {
        #[test]
        fn frames_come_back(bodies in bodies()) {
            let slices: Vec<_> = bodies.iter().map(Vec::as_slice).collect();
            for message in both(&bodies) {
                prop_assert_eq!(&message, &Message::copy_from(&slices));
                prop_assert_eq!(message.frame_count(), bodies.len());
                prop_assert!(message.frames().eq(bodies.iter().map(Vec::as_slice)));
                for (i, body) in bodies.iter().enumerate() {
                    prop_assert_eq!(&message.frame_bytes(i).unwrap()[..], &body[..]);
                }
                prop_assert_eq!(message.frame(bodies.len()), None);
                prop_assert_eq!(&message.compact(), &message);
                let mut block = BytesMut::new();
                let copies: Vec<_> = (0..3).map(|_| message.compact_into(&mut block)).collect();
                prop_assert!(copies.iter().all(|copy| copy.wire()[0] == message.compact().wire()[0]));
            }
        }

        #[test]
        fn edits_equal_edits_of_a_list(bodies in bodies(), at in 0..7usize, new in prop_oneof![Just(0usize), Just(3), Just(300), Just(BY_REFERENCE)]) {
            let new = vec![7; new];
            for message in both(&bodies) {
                let mut list = bodies.clone();
                list.insert(0, new.clone());
                prop_assert_eq!(message.prepend(&new), Message::from_frames(&list));
                list.insert(0, vec![1]);
                let joined = Message::builder().frame([1]).bytes(new.clone().into()).followed_by(&message);
                prop_assert_eq!(&joined, &Message::from_frames(&list));
                let (joined, rebuilt) = (joined.compact(), Message::from_frames(&list).compact());
                prop_assert_eq!(joined.wire(), rebuilt.wire());

                let rest = message.skip_frames(at);
                prop_assert_eq!(rest.is_some(), at < bodies.len());
                if let Some(rest) = rest {
                    prop_assert_eq!(rest, Message::from_frames(&bodies[at..]));
                }

                let mut list = bodies.clone();
                if let Some(body) = list.get_mut(at) {
                    *body = new.clone();
                }
                let edited = message.replace_frame(at, &new);
                prop_assert_eq!(&edited, &Message::from_frames(&list));
                let (edited, rebuilt) = (edited.compact(), Message::from_frames(&list).compact());
                prop_assert_eq!(edited.wire(), rebuilt.wire());
                let copied = message.replace_frame_into(at, &new, &mut BytesMut::with_capacity(64));
                prop_assert_eq!(copied.wire(), rebuilt.wire());
            }
        }
    }
}
