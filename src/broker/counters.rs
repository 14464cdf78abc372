//! What a broker counts.

use serde::Serialize;

/// Totals since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counters {
    /// Jobs taken.
    pub accepted: u64,
    /// Jobs handed to a worker, each delivery counted.
    pub dispatched: u64,
    /// Jobs that ended with a result that is no failure, as far as that can be seen.
    pub completed: u64,
    /// Jobs that ended with a failure and are not kept.
    pub failed: u64,
    /// Jobs that ended because their worker, or its process, was lost.
    pub lost: u64,
    /// Times a job was put back after a failure or a loss.
    pub retried: u64,
    /// Jobs that were given up and kept for the operator.
    pub dead: u64,
    /// Jobs not taken.
    pub refused: u64,
    /// REPLYs for jobs that had ended, or were never here.
    pub late_replies: u64,
    /// Messages that could not be read, or came to the wrong socket.
    pub malformed: u64,
    /// Messages of peers that are not registered but should be.
    pub unknown_senders: u64,
}
