//! What waits in one queue, oldest first.

use std::collections::VecDeque;

/// A queue ordered by arrival: new jobs go to the back, one that comes back goes where it was.
#[derive(Debug)]
pub(crate) struct Waiting<J> {
    jobs: VecDeque<(u64, J)>,
}

impl<J> Default for Waiting<J> {
    fn default() -> Self {
        Self { jobs: VecDeque::new() }
    }
}

impl<J> Waiting<J> {
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
        job
    }

    /// Takes out the job of this arrival.
    pub fn remove(&mut self, arrival: u64) -> Option<J> {
        let place = self.jobs.binary_search_by_key(&arrival, |(other, _)| *other).ok()?;
        self.jobs.remove(place).map(|(_, job)| job)
    }

    /// Takes all of them, oldest first.
    pub fn take(&mut self) -> impl Iterator<Item = (u64, J)> + use<J> {
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
