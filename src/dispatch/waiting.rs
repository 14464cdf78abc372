//! What waits in one queue, oldest first.

use std::collections::VecDeque;

use bytes::BytesMut;
use zmtp::Message;

/// Jobs that wait before blocks are worth while: a queue with a few needs none of their size.
const MANY: usize = 32;
/// Size of a block, in bytes.
const BLOCK: usize = 32 * 1024;
/// Bytes that wait before blocks are large.
const BACKLOG: usize = 8 * 1024 * 1024;
/// Size of a large block, in bytes. From 32 MiB on glibc maps each allocation by itself, so that its memory goes back to the
/// system with it, whatever else was allocated meanwhile. What is never written to costs nothing.
const LARGE_BLOCK: usize = 33 * 1024 * 1024;
/// Bytes that an edit may add to a message beside the new body.
const MARGIN: usize = 16;
/// Part of a block that a message may fill; larger ones have an allocation of their own.
const SHARE: usize = 8;

/// A queue ordered by arrival: new jobs go to the back, one that comes back goes where it was.
///
/// Its messages lie in blocks, in the order in which they leave again, so a backlog costs few allocations and gives its
/// memory back as it drains.
#[derive(Debug)]
pub(crate) struct Waiting<J> {
    jobs: VecDeque<(u64, J)>,
    block: BytesMut,
    /// The large block before, to be filled again when its messages are gone: its pages are there already, those of a new one
    /// would be filled with zeros by the system one by one.
    before: BytesMut,
}

impl<J> Default for Waiting<J> {
    fn default() -> Self {
        Self { jobs: VecDeque::new(), block: BytesMut::new(), before: BytesMut::new() }
    }
}

/// A change of one frame of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edit<'a> {
    pub frame: usize,
    pub body: &'a [u8],
}

impl<J> Waiting<J> {
    /// A message as it is kept while its job waits here: apart from the buffer it was read into.
    pub fn keep(&mut self, message: &Message, edit: Option<Edit<'_>>) -> Message {
        let own = &mut BytesMut::new();
        let block = self.block_for(message.wire_len() + edit.map_or(0, |edit| edit.body.len())).unwrap_or(own);
        match edit {
            Some(edit) => message.replace_frame_into(edit.frame, edit.body, block),
            None => message.compact_into(block),
        }
    }

    /// The block for a message of `len` bytes, if it is to lie in one.
    fn block_for(&mut self, len: usize) -> Option<&mut BytesMut> {
        let size = if self.jobs.len().saturating_mul(len) < BACKLOG { BLOCK } else { LARGE_BLOCK };
        if self.jobs.len() < MANY || len > size / SHARE {
            return None;
        }
        if self.block.try_reclaim(len + MARGIN) {
            return Some(&mut self.block);
        }
        if size == LARGE_BLOCK {
            std::mem::swap(&mut self.block, &mut self.before);
            if self.block.try_reclaim(LARGE_BLOCK / 2) {
                return Some(&mut self.block);
            }
        } else {
            self.before = BytesMut::new();
        }
        self.block = BytesMut::with_capacity(size);
        Some(&mut self.block)
    }

    /// An empty queue holds no block, however it became empty.
    fn release_blocks(&mut self) {
        if self.jobs.is_empty() {
            (self.block, self.before) = (BytesMut::new(), BytesMut::new());
        }
    }

    /// Puts a job in its place by arrival.
    pub fn insert(&mut self, arrival: u64, job: J) {
        match self.jobs.back() {
            Some((last, _)) if *last > arrival => {
                let place = self.jobs.partition_point(|(other, _)| *other < arrival);
                self.jobs.insert(place, (arrival, job));
            }
            _ => self.jobs.push_back((arrival, job)),
        }
    }

    /// Arrival of the oldest.
    pub fn oldest(&self) -> Option<u64> {
        self.jobs.front().map(|(arrival, _)| *arrival)
    }

    /// The oldest itself.
    pub fn first(&self) -> Option<&J> {
        self.jobs.front().map(|(_, job)| job)
    }

    /// Takes the oldest.
    pub fn pop(&mut self) -> Option<J> {
        let job = self.jobs.pop_front().map(|(_, job)| job);
        // Memory of a backlog is given back once it is gone, without a shrink per job.
        if self.jobs.capacity() > 1024 && self.jobs.len() < self.jobs.capacity() / 4 {
            self.jobs.shrink_to(self.jobs.capacity() / 2);
        }
        self.release_blocks();
        job
    }

    /// Takes out the job of this arrival.
    pub fn remove(&mut self, arrival: u64) -> Option<J> {
        let place = self.jobs.binary_search_by_key(&arrival, |(other, _)| *other).ok()?;
        let job = self.jobs.remove(place).map(|(_, job)| job);
        self.release_blocks();
        job
    }

    /// Takes all of them, oldest first.
    pub fn take(&mut self) -> impl Iterator<Item = (u64, J)> + use<J> {
        let all = std::mem::take(&mut self.jobs);
        self.release_blocks();
        all.into_iter()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_kept_as_they_are_wherever_they_lie() {
        for (waiting, len) in [(0, 50), (MANY, 50), (MANY, BLOCK), (200_000, 50), (200_000, BLOCK), (200, LARGE_BLOCK)]
        {
            let mut queue = Waiting::default();
            (0..waiting).for_each(|n| queue.insert(n as u64, 0));
            let body = vec![7; len];
            let message = Message::copy_from(&[b"id", b"", &body]);
            let edited = Message::copy_from(&[b"id", b"more", &body]);
            for _ in 0..3 {
                assert_eq!(queue.keep(&message, None), message);
                assert_eq!(queue.keep(&message, Some(Edit { frame: 1, body: b"more" })), edited);
            }
            while queue.pop().is_some() {}
            assert_eq!(held(&queue), 0, "an empty queue holds no block");
        }
    }

    fn held(queue: &Waiting<u64>) -> usize {
        queue.block.capacity() + queue.before.capacity()
    }

    #[test]
    fn a_queue_that_shrinks_or_empties_keeps_no_large_block() {
        let large = Message::single(vec![7; BLOCK]);
        let many = (BACKLOG / BLOCK) as u64 + 64;
        let filled = || {
            let mut queue = Waiting::default();
            for n in 0..2 * many {
                queue.keep(&large, None);
                queue.insert(n, n);
            }
            assert!(queue.block.capacity() > 0);
            queue
        };
        let mut queue = filled();
        assert_eq!((0..2 * many).filter_map(|n| queue.remove(n)).count() as u64, 2 * many);
        assert_eq!(held(&queue), 0);
        let mut queue = filled();
        assert_eq!(queue.take().count() as u64, 2 * many);
        assert_eq!(held(&queue), 0);
        // Few are left: what is kept from now on lies in small blocks, also if a large one is free by now.
        let mut queue = filled();
        queue.before = BytesMut::with_capacity(LARGE_BLOCK);
        queue.block = BytesMut::new();
        let gone = 2 * many - MANY as u64;
        assert_eq!((0..gone).filter_map(|n| queue.remove(n)).count() as u64, gone);
        queue.keep(&Message::single([7; 100]), None);
        assert!(held(&queue) <= BLOCK, "{} bytes", held(&queue));
    }

    #[test]
    fn a_backlog_that_stays_as_long_uses_two_large_blocks_by_turns() {
        let message = Message::single(vec![7; BLOCK]);
        let many = BACKLOG / BLOCK + 64;
        let mut queue = Waiting::default();
        let mut places = std::collections::BTreeSet::new();
        for n in 0..5 * LARGE_BLOCK / BLOCK {
            let kept = queue.keep(&message, None);
            if queue.len() == many {
                places.insert(kept.wire()[0].as_ptr() as usize);
                queue.pop();
            }
            queue.insert(n as u64, kept);
        }
        assert!(places.len() <= 2 * LARGE_BLOCK / BLOCK, "{} places", places.len());
    }

    #[test]
    fn a_job_that_comes_back_goes_ahead_of_younger_ones() {
        let mut waiting = Waiting::default();
        for n in [1, 4, 5, 2, 3] {
            waiting.insert(n, n);
        }
        assert_eq!(waiting.remove(4), Some(4));
        assert_eq!(waiting.remove(4), None);
        assert_eq!(waiting.oldest(), Some(1));
        let order: Vec<_> = std::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(order, [1, 2, 3, 5]);
        assert!(waiting.is_empty());
    }
}
