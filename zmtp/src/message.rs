//! [`Message`]: one ZeroMQ message, held as the bytes that go over the wire.

mod builder;

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

pub use self::builder::MessageBuilder;
use crate::wire::frame::{self, MORE};

/// Bodies from this size on are kept by reference instead of being copied, in bytes.
pub(crate) const BY_REFERENCE: usize = 8 * 1024;

/// Length of the header of a frame that is small, in bytes: no flags, and the body's length.
const SHORT_HEADER: usize = 2;
/// Most bytes a message holds in itself, frame headers included: what makes it as large as one kept by reference.
pub(crate) const INLINE: usize = 62;

/// One message: one or more frames, sent and received whole.
///
/// The frames lie behind each other with their ZMTP headers, exactly as on the wire (RFC 37 section "Framing"), so
/// receiving a message is a slice of what was read and forwarding it is one copy of bytes that are encoded already.
/// Up to 62 bytes, headers included, lie in the message itself. A message is immutable and cheap to clone.
#[derive(Clone)]
pub struct Message(Wire);

#[derive(Clone)]
enum Wire {
    /// Whole frames, in the first `len` bytes.
    Inline { frames: u8, len: u8, bytes: [u8; INLINE] },
    Shared {
        frames: u32,
        /// Whole frames; the last may be only a header whose body is the start of `tail`.
        head: Bytes,
        /// What follows `head`: nothing, or a body (and perhaps more frames) kept by reference.
        tail: Bytes,
    },
}

impl Message {
    /// A message of one frame.
    pub fn single(body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut bytes = [0; INLINE];
        match bytes.get_mut(SHORT_HEADER..SHORT_HEADER + body.len()) {
            Some(place) => {
                place.copy_from_slice(body);
                bytes[1] = body.len() as u8;
                Self(Wire::Inline { frames: 1, len: (SHORT_HEADER + body.len()) as u8, bytes })
            }
            None => Self::builder().frame(body).build(),
        }
    }

    /// Puts a message together frame by frame.
    pub fn builder() -> MessageBuilder {
        MessageBuilder::new()
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
        let mut inline = [0; INLINE];
        let mut heap = Vec::new();
        let mut rest = match inline.get_mut(..len) {
            Some(place) => place,
            None => {
                heap.resize(len, 0);
                &mut heap[..]
            }
        };
        for (index, body) in frames.iter().enumerate() {
            frame::put(&mut rest, if index < last { MORE } else { 0 }, body);
        }
        let count = last as u32 + 1;
        match heap.is_empty() {
            true => Self(Wire::Inline { frames: count as u8, len: len as u8, bytes: inline }),
            false => Self::shared(heap.into(), Bytes::new(), count),
        }
    }

    /// A message from checked wire bytes: `frames` whole frames, MORE on all but the last, shortest length form.
    pub(crate) fn from_wire(wire: Bytes, frames: u32) -> Self {
        Self::inline(&wire, frames).unwrap_or_else(|| Self::shared(wire, Bytes::new(), frames))
    }

    /// As [`from_wire`](Self::from_wire), of the first `len` bytes of `input`, which are taken out of it.
    pub(crate) fn split_from(input: &mut BytesMut, len: usize, frames: u32) -> Self {
        if len > INLINE {
            return Self::shared(input.split_to(len).freeze(), Bytes::new(), frames);
        }
        let bytes = match input.first_chunk() {
            // Whatever comes behind: a copy of fixed length is a few instructions, one of any length is a call.
            Some(bytes) => *bytes,
            None => {
                let mut bytes = [0; INLINE];
                bytes[..len].copy_from_slice(&input[..len]);
                bytes
            }
        };
        input.advance(len);
        Self(Wire::Inline { frames: frames as u8, len: len as u8, bytes })
    }

    /// As [`from_wire`](Self::from_wire), the body of the last frame apart in `tail`, unless that is empty.
    pub(crate) fn from_head_and_tail(head: Bytes, tail: Bytes, frames: u32) -> Self {
        if tail.is_empty() { Self::from_wire(head, frames) } else { Self::shared(head, tail, frames) }
    }

    /// A copy of whole frames, if they are few bytes.
    fn inline(wire: &[u8], frames: u32) -> Option<Self> {
        let mut bytes = [0; INLINE];
        bytes.get_mut(..wire.len())?.copy_from_slice(wire);
        // A frame has two bytes at least: there are far fewer than 256.
        Some(Self(Wire::Inline { frames: frames as u8, len: wire.len() as u8, bytes }))
    }

    fn shared(head: Bytes, tail: Bytes, frames: u32) -> Self {
        Self(Wire::Shared { frames, head, tail })
    }

    /// The number of frames, at least one.
    pub fn frame_count(&self) -> usize {
        match self.0 {
            Wire::Inline { frames, .. } => frames.into(),
            Wire::Shared { frames, .. } => frames as usize,
        }
    }

    /// The frames' bodies, first to last.
    pub fn frames(&self) -> Frames<'_> {
        let [head, tail] = self.wire();
        Frames { head, tail }
    }

    /// The body of frame `index`, counted from zero.
    pub fn frame(&self, index: usize) -> Option<&[u8]> {
        self.frames().nth(index)
    }

    /// The body of frame `index` as a reference-counted slice: without copying it, unless the message is small.
    pub fn frame_bytes(&self, index: usize) -> Option<Bytes> {
        let body = self.frame(index)?;
        let Some([head, tail]) = self.by_reference().filter(|_| !body.is_empty()) else {
            return Some(Bytes::copy_from_slice(body));
        };
        let chunk = if head.as_ptr_range().contains(&body.as_ptr()) { head } else { tail };
        Some(chunk.slice_ref(body))
    }

    /// The length of the message on the wire, frame headers included, in bytes.
    pub fn wire_len(&self) -> usize {
        let [head, tail] = self.wire();
        head.len() + tail.len()
    }

    /// The wire bytes: they are the concatenation of these two.
    pub fn wire(&self) -> [&[u8]; 2] {
        match &self.0 {
            Wire::Inline { len, bytes, .. } => [bytes.get(..usize::from(*len)).unwrap_or(bytes), &[]],
            Wire::Shared { head, tail, .. } => [head, tail],
        }
    }

    /// The wire bytes and what lies behind them, and how many they are, if the message holds them in itself.
    pub(crate) fn in_itself(&self) -> Option<(&[u8; INLINE], usize)> {
        match &self.0 {
            Wire::Inline { len, bytes, .. } => Some((bytes, usize::from(*len))),
            Wire::Shared { .. } => None,
        }
    }

    /// The same two, if the message is not one that holds its bytes in itself.
    pub(crate) fn by_reference(&self) -> Option<[&Bytes; 2]> {
        match &self.0 {
            Wire::Inline { .. } => None,
            Wire::Shared { head, tail, .. } => Some([head, tail]),
        }
    }

    /// The message without its first `count` frames; `None` if that leaves none.
    pub fn skip_frames(&self, count: usize) -> Option<Self> {
        let rest = self.frame_count().checked_sub(count).filter(|n| *n > 0)? as u32;
        let mut frames = self.frames();
        frames.by_ref().take(count).for_each(drop);
        let Some([head, tail]) = self.by_reference() else { return Self::inline(frames.head, rest) };
        let used = self.wire_len() - frames.head.len() - frames.tail.len();
        let cut = used.saturating_sub(head.len());
        Some(Self::from_head_and_tail(head.slice(used.min(head.len())..), tail.slice(cut..), rest))
    }

    /// The message with one more frame in front.
    pub fn prepend(&self, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let (copied, tail) = self.to_copy_and_to_share();
        let mut new = BytesMut::with_capacity(frame::header_len(body.len()) + body.len() + copied.len());
        frame::put(&mut new, MORE, body);
        new.put_slice(copied);
        Self::from_head_and_tail(new.freeze(), tail, self.frame_count() as u32 + 1)
    }

    /// What of the wire bytes is worth copying behind other frames, and what has to follow, shared.
    fn to_copy_and_to_share(&self) -> (&[u8], Bytes) {
        match self.by_reference() {
            Some([head, tail]) if tail.is_empty() && head.len() >= BY_REFERENCE => (&[], head.clone()),
            Some([head, tail]) => (head, tail.clone()),
            None => (self.wire()[0], Bytes::new()),
        }
    }

    /// The message with the body of frame `index` replaced. What lies behind that frame is shared, not copied.
    ///
    /// Gives the message back unchanged when it has no such frame.
    pub fn replace_frame(&self, index: usize, body: &[u8]) -> Self {
        let Some((start, end, more)) = self.frame_range(index) else { return self.clone() };
        let [head, _] = self.wire();
        let mut new = BytesMut::with_capacity(start.min(head.len()) + frame::header_len(body.len()) + body.len());
        self.put_range(&mut new, 0, start);
        frame::put(&mut new, more, body);
        let behind = match self.by_reference() {
            Some([head, tail]) if end >= head.len() => tail.slice(end - head.len()..),
            Some([head, tail]) if tail.is_empty() => head.slice(end..),
            Some([_, tail]) => {
                new.put_slice(&head[end..]);
                tail.clone()
            }
            None => {
                new.put_slice(&head[end..]);
                Bytes::new()
            }
        };
        Self::from_head_and_tail(new.freeze(), behind, self.frame_count() as u32)
    }

    /// A copy in one allocation of its own size, which shares nothing with the buffer the message was read into.
    ///
    /// For messages that are kept: a slice keeps all of what was read with it alive.
    pub fn compact(&self) -> Self {
        match self.by_reference() {
            None => self.clone(),
            Some(_) => Self::from_wire(self.wire().concat().into(), self.frame_count() as u32),
        }
    }

    /// As [`compact`](Self::compact), the copy a piece of `block`: cheaper for many small messages that are kept and given
    /// up in about the same order, because a block lives as long as any message in it.
    ///
    /// A full block is replaced by one of the capacity it was made with (up to 64 KiB), or reused if nothing lies in it.
    pub fn compact_into(&self, block: &mut BytesMut) -> Self {
        if self.by_reference().is_none() {
            return self.clone();
        }
        block.reserve(self.wire_len());
        self.put_range(block, 0, self.wire_len());
        Self::from_wire(block.split().freeze(), self.frame_count() as u32)
    }

    /// [`replace_frame`](Self::replace_frame) and [`compact_into`](Self::compact_into) in one step.
    pub fn replace_frame_into(&self, index: usize, body: &[u8], block: &mut BytesMut) -> Self {
        let Some((start, end, more)) = self.frame_range(index) else { return self.compact_into(block) };
        block.reserve(self.wire_len() - (end - start) + frame::header_len(body.len()) + body.len());
        self.put_range(block, 0, start);
        frame::put(block, more, body);
        self.put_range(block, end, self.wire_len());
        Self::from_wire(block.split().freeze(), self.frame_count() as u32)
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
        let [head, tail] = self.wire();
        let edge = head.len();
        out.extend_from_slice(&head[start.min(edge)..end.min(edge)]);
        out.extend_from_slice(&tail[start.saturating_sub(edge)..end.saturating_sub(edge)]);
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.frame_count() == other.frame_count() && self.frames().eq(other.frames())
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let len = prop_oneof![0..20usize, INLINE - 6..INLINE + 6, 250..260usize, BY_REFERENCE - 2..BY_REFERENCE + 3];
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

    /// One cache line and a bit, however the bytes are held.
    #[test]
    fn small_messages_cost_no_more_room_than_large_ones() {
        assert_eq!(size_of::<Message>(), 2 * size_of::<Bytes>() + 8);
        assert!(Message::single([1; INLINE - 2]).by_reference().is_none());
        assert!(Message::single([1; INLINE - 1]).by_reference().is_some());
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
