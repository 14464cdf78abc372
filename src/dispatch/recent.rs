//! A small memory with a bound: who was seen before.

use std::collections::VecDeque;
use std::hash::Hash;

use hashbrown::HashMap;

/// The latest few of many: what was said about whom.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    limit: usize,
    order: VecDeque<K>,
    known: HashMap<K, V>,
}

impl<K: Clone + Eq + Hash, V: Default> Recent<K, V> {
    /// A memory for this many.
    pub fn new(limit: usize) -> Self {
        Self { limit, order: VecDeque::new(), known: HashMap::new() }
    }

    /// What is remembered of `key`; a new one takes the place of the oldest.
    pub fn entry(&mut self, key: &K) -> &mut V {
        if !self.known.contains_key(key) {
            if self.order.len() == self.limit
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
            }
            self.order.push_back(key.clone());
        }
        self.known.entry(key.clone()).or_default()
    }

    /// Forgets one.
    pub fn forget(&mut self, key: &K) {
        if self.known.remove(key).is_some() {
            self.order.retain(|other| other != key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_is_bounded_and_forgets() {
        let mut recent: Recent<u32, bool> = Recent::new(3);
        for n in 0..100 {
            *recent.entry(&n) = true;
        }
        assert_eq!((recent.known.len(), recent.order.len()), (3, 3));
        assert!(*recent.entry(&99));
        recent.forget(&99);
        assert!(!*recent.entry(&99));
        assert!(!*recent.entry(&1));
        assert_eq!((recent.known.len(), recent.order.len()), (3, 3));
    }
}
