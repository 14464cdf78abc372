//! The jobs waiting in one queue, oldest first.

use std::collections::VecDeque;

use bytes::BytesMut;
use zmtp::Message;

use super::jobs::JobKey;

/// Bytes of messages kept in one allocation, once many wait.
const BLOCK: usize = 32 * 1024;
/// Messages from this size on have an allocation of their own, in bytes.
const LARGE: usize = BLOCK / 8;
/// Jobs that wait before blocks are worth while: a queue with a few needs none of their size.
const MANY: usize = 32;

/// A queue ordered by arrival: new jobs go to the back, one that comes back goes where it was.
///
/// Its messages lie in blocks, in the order in which they leave again, so a backlog costs few allocations and gives its
/// memory back as it drains.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    jobs: VecDeque<(u64, JobKey)>,
    block: BytesMut,
}

/// A change of one frame of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edit<'a> {
    pub frame: usize,
    pub body: &'a [u8],
}

impl Waiting {
    /// A message as it is kept while its job waits here: apart from the buffer it was read into.
    pub fn keep(&mut self, message: &Message, edit: Option<Edit<'_>>) -> Message {
        if self.jobs.len() < MANY || message.wire_len() >= LARGE {
            return match edit {
                Some(edit) => message.replace_frame_into(edit.frame, edit.body, &mut BytesMut::new()),
                None => message.compact(),
            };
        }
        if self.block.capacity() == 0 {
            self.block = BytesMut::with_capacity(BLOCK);
        }
        match edit {
            Some(edit) => message.replace_frame_into(edit.frame, edit.body, &mut self.block),
            None => message.compact_into(&mut self.block),
        }
    }

    /// Puts a job in its place by arrival.
    pub fn insert(&mut self, arrival: u64, job: JobKey) {
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

    /// Takes the oldest.
    pub fn pop(&mut self) -> Option<JobKey> {
        let job = self.jobs.pop_front().map(|(_, job)| job);
        // Memory of a backlog is given back once it is gone, without a shrink per job.
        if self.jobs.capacity() > 1024 && self.jobs.len() < self.jobs.capacity() / 4 {
            self.jobs.shrink_to(self.jobs.capacity() / 2);
        }
        if self.jobs.is_empty() {
            self.block = BytesMut::new();
        }
        job
    }

    /// Takes out the job of this arrival.
    pub fn remove(&mut self, arrival: u64) -> Option<JobKey> {
        let place = self.jobs.binary_search_by_key(&arrival, |(other, _)| *other).ok()?;
        self.jobs.remove(place).map(|(_, job)| job)
    }

    /// Takes all of them, oldest first.
    pub fn take(&mut self) -> impl Iterator<Item = (u64, JobKey)> + use<> {
        std::mem::take(&mut self.jobs).into_iter()
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
    fn a_job_that_comes_back_goes_ahead_of_younger_ones() {
        let mut waiting = Waiting::default();
        for n in [1, 4, 5, 2, 3] {
            waiting.insert(n, JobKey(n as u32));
        }
        assert_eq!(waiting.remove(4), Some(JobKey(4)));
        assert_eq!(waiting.remove(4), None);
        assert_eq!(waiting.oldest(), Some(1));
        let order: Vec<_> = std::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(order, [JobKey(1), JobKey(2), JobKey(3), JobKey(5)]);
        assert!(waiting.is_empty());
    }
}
