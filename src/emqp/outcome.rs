//! What a result says: whether the job failed, and the error results a broker sends itself.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// Results longer than this are not searched whole just to count a failure.
const GLANCE: usize = 4 * 1024;

/// How a job ended, judged by its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It returned, or so its worker says: Python puts the text of an exception where a value goes.
    Completed,
    /// The result has an `error`, or is Python's "TimeoutError".
    Failed,
}

impl Outcome {
    /// Judges a result exactly: for jobs whose fate depends on it.
    pub fn of(result: &[u8]) -> Self {
        if is_python_timeout(result) || (mentions_error(result) && has_error(result)) {
            Self::Failed
        } else {
            Self::Completed
        }
    }

    /// Judges a result for a counter: a long one that would have to be searched whole counts as completed.
    pub fn at_a_glance(result: &[u8]) -> Self {
        if result.len() <= GLANCE { Self::of(result) } else { Self::Completed }
    }
}

fn is_python_timeout(result: &[u8]) -> bool {
    matches!(result, b"{\"value\": \"TimeoutError\"}" | b"{\"value\":\"TimeoutError\"}")
}

/// A cheap look that spares nearly every result the parser.
fn mentions_error(result: &[u8]) -> bool {
    std::str::from_utf8(result).is_ok_and(|text| text.contains("\"error\""))
}

fn has_error(result: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Probe {
        error: Option<IgnoredAny>,
    }
    // Serde would read an array as the fields of the struct in order.
    result.trim_ascii_start().starts_with(b"{")
        && serde_json::from_slice::<Probe>(result).is_ok_and(|probe| probe.error.is_some())
}

/// Why a broker answers a job itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum JobErrorKind {
    /// The queue, or the memory for waiting jobs, is full.
    QueueFull,
    /// The message could not be read.
    Malformed,
    /// Another client has a job of this id running.
    DuplicateId,
    /// The broker is shutting down.
    ShuttingDown,
    /// No scheduler is connected.
    NoScheduler,
    /// The worker was lost while it had the job.
    WorkerLost,
    /// The worker's process that ran the job died.
    ProcessDied,
    /// The job's own timeout passed without a reply.
    Timeout,
    /// The job was delivered as often as it may be.
    DeliveryLimit,
}

/// The `error` of a result a broker makes up.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct JobError {
    /// What kind.
    #[serde(rename = "type")]
    pub kind: JobErrorKind,
    /// For people.
    pub message: &'static str,
}

impl From<JobErrorKind> for JobError {
    fn from(kind: JobErrorKind) -> Self {
        let message = match kind {
            JobErrorKind::QueueFull => "the queue is full, the job was not taken",
            JobErrorKind::Malformed => "the message could not be read",
            JobErrorKind::DuplicateId => "another client has a job with this id",
            JobErrorKind::ShuttingDown => "the broker is shutting down",
            JobErrorKind::NoScheduler => "no scheduler is connected",
            JobErrorKind::WorkerLost => "the worker was lost while it had the job",
            JobErrorKind::ProcessDied => "the worker's process died while it ran the job",
            JobErrorKind::Timeout => "the job's timeout passed without a reply",
            JobErrorKind::DeliveryLimit => "the job was delivered as often as allowed without being completed",
        };
        Self { kind, message }
    }
}

impl JobError {
    /// The result frame: `{"error": {"type": ..., "message": ...}}`.
    pub fn to_result(self) -> Vec<u8> {
        #[derive(Serialize)]
        struct ErrorResult {
            error: JobError,
        }
        // Serializing two strings cannot fail; an empty object would still be a valid result.
        serde_json::to_vec(&ErrorResult { error: self }).unwrap_or_else(|_| b"{}".to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_an_error_or_is_pythons_timeout() {
        for failed in [
            &br#"{"value": "TimeoutError"}"#[..],
            br#"{"value": "x", "error": {"type": "ValueError"}}"#,
            br#"{"error": "no", "value": null}"#,
        ] {
            assert_eq!(Outcome::of(failed), Outcome::Failed);
            assert_eq!(Outcome::at_a_glance(failed), Outcome::Failed);
        }
        for fine in [
            &br#"{"value": 3}"#[..],
            br#"{"value": "TimeoutError!"}"#,
            br#"{"value": {"error": 1}}"#,
            br#"{"value": "\"error\""}"#,
            br#"{"value": 1, "error": null}"#,
            br#"["error"]"#,
            b"{\"error\"",
            b"\xff\"error\"",
        ] {
            assert_eq!(Outcome::of(fine), Outcome::Completed, "{}", fine.escape_ascii());
        }
    }

    #[test]
    fn a_brokers_error_is_a_failure() {
        assert_eq!(Outcome::of(&JobError::from(JobErrorKind::QueueFull).to_result()), Outcome::Failed);
    }
}
