//! [`MessageBuilder`]: frame by frame to a message.

use bytes::Bytes;

use super::{BY_REFERENCE, INLINE, Message, Wire};
use crate::wire::frame::{self, MORE};

/// Builds a [`Message`] frame by frame; see [`Message::builder`].
#[derive(Debug)]
pub struct MessageBuilder {
    head: Head,
    tail: Bytes,
    /// Offset in `head` of the last frame's flags.
    last: usize,
    frames: u32,
}

impl MessageBuilder {
    pub(super) fn new() -> Self {
        Self { head: Head::new(), tail: Bytes::new(), last: 0, frames: 0 }
    }

    /// Reserves room for `bytes` more bytes of frames, headers included.
    pub fn reserve(mut self, bytes: usize) -> Self {
        self.head.reserve(bytes);
        self
    }

    /// Appends a frame, copying its body.
    pub fn frame(mut self, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        self.start_frame();
        let header = frame::header(0, body.len());
        // Header and body in one allocation: written piece by piece, the first few bytes would have one of their own.
        self.head.reserve(header.len() + body.len());
        self.head.put(&header);
        self.head.put(body);
        self
    }

    /// Appends a frame; a large body is kept by reference instead of being copied.
    pub fn bytes(mut self, body: Bytes) -> Self {
        if body.len() < BY_REFERENCE {
            return self.frame(body);
        }
        self.start_frame();
        self.head.put(&frame::header(0, body.len()));
        self.tail = body;
        self
    }

    /// The finished message: what was added, then all frames of `rest`, of which large ones are shared instead of copied.
    pub fn followed_by(mut self, rest: &Message) -> Message {
        if self.frames == 0 {
            return rest.clone();
        }
        self.start_frame();
        let (copied, tail) = rest.to_copy_and_to_share();
        self.head.put(copied);
        self.head.into_message(tail, self.frames - 1 + rest.frame_count() as u32)
    }

    /// The finished message; one empty frame if none was added.
    pub fn build(self) -> Message {
        if self.frames == 0 {
            return self.frame("").build();
        }
        self.head.into_message(self.tail, self.frames)
    }

    /// Marks the frame before as followed by another and notes where the new one begins.
    fn start_frame(&mut self) {
        if !self.tail.is_empty() {
            self.head.put(&std::mem::take(&mut self.tail));
        }
        if self.frames > 0 {
            self.head.as_mut()[self.last] |= MORE;
        }
        self.last = self.head.as_mut().len();
        self.frames += 1;
    }
}

/// Frames so far: in the builder itself for as long as they fit.
#[derive(Debug)]
enum Head {
    Inline { len: u8, bytes: [u8; INLINE] },
    Heap(Vec<u8>),
}

impl Head {
    fn new() -> Self {
        Self::Inline { len: 0, bytes: [0; INLINE] }
    }

    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Inline { len, bytes } => &mut bytes[..usize::from(*len)],
            Self::Heap(bytes) => bytes,
        }
    }

    /// Makes room for that many more bytes.
    fn reserve(&mut self, more: usize) {
        match self {
            Self::Inline { len, bytes } if usize::from(*len) + more > INLINE => {
                let len = usize::from(*len);
                let mut heap = Vec::with_capacity(len + more);
                heap.extend_from_slice(&bytes[..len]);
                *self = Self::Heap(heap);
            }
            Self::Inline { .. } => {}
            Self::Heap(bytes) => bytes.reserve(more),
        }
    }

    fn put(&mut self, slice: &[u8]) {
        self.reserve(slice.len());
        match self {
            Self::Inline { len, bytes } => {
                bytes[usize::from(*len)..][..slice.len()].copy_from_slice(slice);
                *len += slice.len() as u8;
            }
            Self::Heap(bytes) => bytes.extend_from_slice(slice),
        }
    }

    /// The message of these frames, `tail` behind them, `frames` in all.
    fn into_message(self, tail: Bytes, frames: u32) -> Message {
        let head = match self {
            Self::Inline { len, bytes } if tail.is_empty() => {
                return Message(Wire::Inline { frames: frames as u8, len, bytes });
            }
            Self::Inline { len, bytes } => Bytes::copy_from_slice(&bytes[..len.into()]),
            Self::Heap(head) if head.capacity() > 2 * head.len() && head.len() >= BY_REFERENCE => {
                Bytes::copy_from_slice(&head)
            }
            Self::Heap(head) => head.into(),
        };
        Message::from_head_and_tail(head, tail, frames)
    }
}
