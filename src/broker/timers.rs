//! What the broker's timers are for.

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
