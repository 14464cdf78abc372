//! When a core has to act although nothing arrives.

use std::collections::BTreeSet;
use std::time::Instant;

/// All timers in order of time; `T` says what one is for. Each has at most one entry: whoever arms it remembers when, to
/// clear it.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    due: BTreeSet<(Instant, T)>,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self { due: BTreeSet::new() }
    }
}

impl<T: Ord + Copy> Timers<T> {
    /// Arms a timer.
    pub fn set(&mut self, at: Instant, timer: T) {
        self.due.insert((at, timer));
    }

    /// Disarms a timer that was armed for `at`.
    pub fn clear(&mut self, at: Instant, timer: T) {
        self.due.remove(&(at, timer));
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// How many are armed.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Takes out one that is due.
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        if self.next()? > now {
            return None;
        }
        self.due.pop_first().map(|(_, timer)| timer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn come_due_in_order_and_never_early() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut timers = Timers::default();
        timers.set(at(2), "b");
        timers.set(at(1), "a");
        timers.set(at(3), "c");
        timers.clear(at(3), "c");
        assert_eq!(timers.next(), Some(at(1)));
        assert_eq!(timers.pop(start), None);
        assert_eq!(timers.pop(at(2)), Some("a"));
        assert_eq!(timers.pop(at(2)), Some("b"));
        assert_eq!(timers.next(), None);
    }
}
