//! A small memory with a bound: counts of what is gone.

use std::collections::VecDeque;

/// Last counts of queues or workers that are gone: the latest few.
#[derive(Debug)]
pub(super) struct Tally<K> {
    limit: usize,
    counts: VecDeque<(K, u64)>,
}

impl<K: PartialEq> Tally<K> {
    /// A memory for this many.
    pub fn new(limit: usize) -> Self {
        Self { limit, counts: VecDeque::new() }
    }

    /// Remembers a count that is not zero.
    pub fn put(&mut self, key: K, count: u64) {
        if count == 0 {
            return;
        }
        if self.counts.len() == self.limit {
            self.counts.pop_front();
        }
        self.counts.push_back((key, count));
    }

    /// Takes the count of one that is back.
    pub fn take(&mut self, key: &K) -> u64 {
        let place = self.counts.iter().position(|(other, _)| other == key);
        place.and_then(|place| self.counts.remove(place)).map_or(0, |(_, count)| count)
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &(K, u64)> {
        self.counts.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_keeps_the_latest() {
        let mut tally = Tally::new(2);
        for (name, count) in [("a", 1), ("b", 0), ("c", 3), ("d", 4)] {
            tally.put(name, count);
        }
        assert_eq!(tally.iter().copied().collect::<Vec<_>>(), [("c", 3), ("d", 4)]);
        assert_eq!((tally.take(&"c"), tally.take(&"c"), tally.take(&"a")), (3, 0, 0));
    }
}
