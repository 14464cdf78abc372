//! [`Throttle`]: one log line per kind of trouble, however many peers cause it.

use std::time::{Duration, Instant};

use super::lock::Lock;

/// Least time between two lines of one kind.
const QUIET: Duration = Duration::from_secs(10);
const KINDS: usize = 32;

/// Decides which of many like events is logged.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Lock<[Slot; KINDS]>);

#[derive(Debug, Default, Clone, Copy)]
struct Slot {
    last: Option<Instant>,
    suppressed: u64,
}

impl Throttle {
    /// `Some(n)` if an event of this kind is to be logged now, n like ones having gone unlogged since the last line.
    pub(crate) fn admit(&self, kind: usize, now: Instant) -> Option<u64> {
        let mut slots = self.0.lock();
        let slot = &mut slots[kind % KINDS];
        if slot.last.is_some_and(|last| now.duration_since(last) < QUIET) {
            slot.suppressed += 1;
            return None;
        }
        slot.last = Some(now);
        Some(std::mem::take(&mut slot.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_kind_and_period() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        assert_eq!(throttle.admit(1, start), Some(0));
        assert_eq!(throttle.admit(1, start), None);
        assert_eq!(throttle.admit(2, start), Some(0));
        assert_eq!(throttle.admit(1, start + QUIET / 2), None);
        assert_eq!(throttle.admit(1, start + QUIET), Some(2));
    }
}
