//! When the broker has to act although nothing arrives.

use std::collections::BTreeSet;
use std::time::Instant;

use super::jobs::JobKey;
use super::schedulers::SchedulerKey;
use super::workers::WorkerKey;

/// What a timer is for. Each has at most one entry; whoever arms it remembers when, to clear it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The next heartbeat or liveness check of a worker.
    Worker(WorkerKey),
    /// The next heartbeat or liveness check of a scheduler.
    Scheduler(SchedulerKey),
    /// A job's own timeout, or the end of its backoff.
    Job(JobKey),
    /// A summary of refused jobs is due.
    Refusals,
    /// The grace period of a shutdown is over.
    Shutdown,
}

/// All timers in order of time.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    /// Arms a timer.
    pub fn set(&mut self, at: Instant, timer: Timer) {
        self.due.insert((at, timer));
    }

    /// Disarms a timer that was armed for `at`.
    pub fn clear(&mut self, at: Instant, timer: Timer) {
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
    pub fn pop(&mut self, now: Instant) -> Option<Timer> {
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
        timers.set(at(2), Timer::Refusals);
        timers.set(at(1), Timer::Shutdown);
        timers.set(at(3), Timer::Job(JobKey(1)));
        timers.clear(at(3), Timer::Job(JobKey(1)));
        assert_eq!(timers.next(), Some(at(1)));
        assert_eq!(timers.pop(start), None);
        assert_eq!(timers.pop(at(2)), Some(Timer::Shutdown));
        assert_eq!(timers.pop(at(2)), Some(Timer::Refusals));
        assert_eq!(timers.next(), None);
    }
}
