//! Log lines about refused work: the first at once, the others summed up.

use std::time::{Duration, Instant};

/// Time between two summaries.
const PERIOD: Duration = Duration::from_secs(10);

/// Counts refusals between log lines.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// When the next summary is due, and how many were refused without a line of their own.
    open: Option<(Instant, u64)>,
}

/// What to do about one more refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalLog {
    /// Log it, and arm the timer for a summary.
    LogAndArm(Instant),
    /// It will be in the summary.
    Summed,
}

impl Refusals {
    /// Whether a summary is due some time.
    #[cfg(test)]
    pub fn is_armed(&self) -> bool {
        self.open.is_some()
    }

    /// One more.
    pub fn on_refused(&mut self, now: Instant) -> RefusalLog {
        match &mut self.open {
            Some((_, count)) => {
                *count += 1;
                RefusalLog::Summed
            }
            None => {
                self.open = Some((now + PERIOD, 0));
                RefusalLog::LogAndArm(now + PERIOD)
            }
        }
    }

    /// A summary is due: how many it covers, and when the next is, if there were any.
    pub fn on_due(&mut self, now: Instant) -> Option<(u64, Instant)> {
        let (_, count) = self.open.take()?;
        if count == 0 {
            return None;
        }
        self.open = Some((now + PERIOD, 0));
        Some((count, now + PERIOD))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_and_a_summary() {
        let now = Instant::now();
        let mut refusals = Refusals::default();
        assert_eq!(refusals.on_refused(now), RefusalLog::LogAndArm(now + PERIOD));
        for _ in 0..999 {
            assert_eq!(refusals.on_refused(now), RefusalLog::Summed);
        }
        let due = now + PERIOD;
        assert_eq!(refusals.on_due(due), Some((999, due + PERIOD)));
        assert_eq!(refusals.on_due(due + PERIOD), None);
        assert_eq!(refusals.on_refused(due + 2 * PERIOD), RefusalLog::LogAndArm(due + 3 * PERIOD));
    }
}
