//! [`Transmit`]: encoded bytes on their way out.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use crate::message::{BY_REFERENCE, Message};

/// An emptied buffer larger than this is given back rather than kept for the next burst, in bytes.
const KEEP: usize = 128 * 1024;

/// A queue of encoded bytes: small messages are copied into one run, large bodies are kept by reference, in order.
///
/// Reads as a [`Buf`] with several chunks, so one vectored write can take all of it.
#[derive(Debug, Default)]
pub struct Transmit {
    /// What goes out before `run`.
    segments: VecDeque<Bytes>,
    run: Vec<u8>,
    /// Bytes of `run` already written.
    written: usize,
    /// Bytes left in `segments`.
    segment_bytes: usize,
}

impl Transmit {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a whole message.
    pub fn push(&mut self, message: &Message) {
        if let Some((bytes, len)) = message.in_itself() {
            // A copy of fixed length is a few instructions, one of any length is a call.
            let end = self.run.len() + len;
            self.run.extend_from_slice(bytes);
            self.run.truncate(end);
            return;
        }
        for chunk in message.by_reference().into_iter().flatten() {
            if chunk.len() < BY_REFERENCE {
                self.run.extend_from_slice(chunk);
            } else {
                self.seal_run();
                self.segment_bytes += chunk.len();
                self.segments.push_back(chunk.clone());
            }
        }
    }

    /// The buffer that small things are appended to.
    pub(crate) fn run_mut(&mut self) -> &mut Vec<u8> {
        &mut self.run
    }

    /// Takes over everything `other` holds and leaves it empty, exchanging buffers where that saves a copy.
    pub fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        if other.segments.is_empty() && other.written == 0 {
            self.run.append(&mut other.run);
            return;
        }
        self.seal_run();
        other.seal_run();
        self.segment_bytes += other.segment_bytes;
        self.segments.append(&mut other.segments);
        other.segment_bytes = 0;
    }

    /// Takes everything out as it is kept: each chunk holds whole messages, or one of the two halves of
    /// [`Message::wire`].
    pub(crate) fn take_chunks(&mut self) -> VecDeque<Bytes> {
        self.seal_run();
        self.segment_bytes = 0;
        std::mem::take(&mut self.segments)
    }

    /// Whether nothing is left to write.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.written == self.run.len()
    }

    /// Turns the current run into a segment, so that something can follow it by reference.
    fn seal_run(&mut self) {
        if self.written < self.run.len() {
            let mut run = Bytes::from(std::mem::take(&mut self.run));
            run.advance(self.written);
            self.segment_bytes += run.len();
            self.segments.push_back(run);
        } else {
            self.run.clear();
        }
        self.written = 0;
    }
}

impl Buf for Transmit {
    fn remaining(&self) -> usize {
        self.segment_bytes + self.run.len() - self.written
    }

    fn chunk(&self) -> &[u8] {
        match self.segments.front() {
            Some(segment) => segment,
            None => &self.run[self.written..],
        }
    }

    fn chunks_vectored<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        let run = &self.run[self.written..];
        let chunks = self.segments.iter().map(|segment| &segment[..]).chain((!run.is_empty()).then_some(run));
        let mut count = 0;
        for (slot, chunk) in out.iter_mut().zip(chunks) {
            *slot = IoSlice::new(chunk);
            count += 1;
        }
        count
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(segment) = self.segments.front_mut() {
            if count < segment.len() {
                segment.advance(count);
                self.segment_bytes -= count;
                return;
            }
            count -= segment.len();
            self.segment_bytes -= segment.len();
            self.segments.pop_front();
        }
        self.written += count;
        if self.written >= self.run.len() {
            self.written = 0;
            self.run.clear();
            if self.run.capacity() > KEEP {
                self.run = Vec::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the sizes, the order of pushes and appends, and the steps of writing, the bytes come out in order.
        #[test]
        fn bytes_keep_their_order(
            sizes in proptest::collection::vec(prop_oneof![1..40usize, BY_REFERENCE..BY_REFERENCE + 9], 1..12),
            split in 0..12usize,
            step in prop_oneof![1..50usize, 1000..20_000usize],
            early in 0..3usize,
        ) {
            let mut expected = Vec::new();
            let (mut first, mut second) = (Transmit::new(), Transmit::new());
            for (i, size) in sizes.iter().enumerate() {
                let message = Message::from(Bytes::from(vec![i as u8; *size]));
                message.wire().into_iter().for_each(|chunk| expected.extend_from_slice(chunk));
                if i < split { first.push(&message) } else { second.push(&message) }
            }
            let mut seen = Vec::new();
            let take = |transmit: &mut Transmit, seen: &mut Vec<u8>, step: usize| {
                let mut slices = [IoSlice::new(&[]); 64];
                let count = transmit.chunks_vectored(&mut slices);
                assert_eq!(slices[..count].iter().map(|slice| slice.len()).sum::<usize>(), transmit.remaining());
                let n = step.min(transmit.remaining());
                seen.extend(slices[..count].iter().flat_map(|slice| slice.iter()).take(n));
                transmit.advance(n);
            };
            for _ in 0..early {
                take(&mut first, &mut seen, step);
            }
            first.append(&mut second);
            prop_assert!(second.is_empty());
            while first.has_remaining() {
                take(&mut first, &mut seen, step);
            }
            prop_assert!(first.is_empty());
            prop_assert_eq!(seen, expected);
        }
    }
}
