//! What can go wrong between a client and its broker.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zmtp::{ConnectError, Endpoint, RoutingIdError};

use super::job::ArgumentFault;
use crate::emqp::{JobErrorKind, MsgId};

/// Why a client could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The address can never be connected to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A routing id could not be made.
    #[error(transparent)]
    RoutingId(#[from] RoutingIdError),
}

/// What a broker or a worker says of a job that it did not take, or that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{kind}: {message}")]
pub struct Failure {
    /// Its type: a [`JobErrorKind`] if the broker speaks, the name of an exception if a worker does.
    #[serde(rename = "type", default = "Failure::unnamed")]
    pub kind: String,
    /// For people.
    #[serde(default)]
    pub message: String,
    /// Where it happened, if a worker told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceback: Option<String>,
}

impl Failure {
    pub(super) fn unnamed() -> String {
        "Error".to_owned()
    }

    /// The kind, if it is one of those a broker gives.
    pub fn broker_kind(&self) -> Option<JobErrorKind> {
        serde_json::from_value(serde_json::Value::String(self.kind.clone())).ok()
    }
}

/// Why a job counts as not accepted. [`may_run`](Self::may_run) tells whether it may run nevertheless.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The broker refused it: the queue is full, for example.
    #[error("the broker refused it: {0}")]
    Refused(#[source] Failure),
    /// It was never sent: there was no connection in time.
    #[error("not sent: no connection to {endpoint} within {} s", after.as_secs_f64())]
    NotConnected {
        /// The broker's address.
        endpoint: Endpoint,
        /// How long it waited.
        after: Duration,
    },
    /// It was never sent: too many jobs wait for acceptance.
    #[error("not sent: too many jobs wait for the broker's acceptance, for {} s now", after.as_secs_f64())]
    Busy {
        /// How long it waited.
        after: Duration,
    },
    /// It was sent and nothing came back in time. A Python emq-router acknowledges a job only if a worker is free for it.
    #[error("job {msgid} was sent, but not acknowledged within {} s: it may run or not", after.as_secs_f64())]
    Unconfirmed {
        /// The job.
        msgid: MsgId,
        /// How long it waited.
        after: Duration,
    },
    /// It was sent, then the connection broke. Only a job with [`guarantee`](super::Job::guarantee) is sent again.
    #[error("job {msgid} was sent, then the connection was lost: it may run or not")]
    ConnectionLost {
        /// The job.
        msgid: MsgId,
    },
    /// This client waits for a job of that id already.
    #[error("this client waits for a job {msgid} already")]
    DuplicateId {
        /// The job.
        msgid: MsgId,
    },
    /// An argument cannot be written as JSON.
    #[error(transparent)]
    Argument(#[from] ArgumentFault),
    /// The interval of a schedule is not a whole number of seconds, at least one.
    #[error("an interval of {} s: expected a whole number of seconds, at least 1", .0.as_secs_f64())]
    Interval(Duration),
    /// The client is closed, or its runtime has ended.
    #[error("the client is closed")]
    Closed,
}

impl SubmitError {
    /// Whether the broker may have taken the job all the same. If not, it can be submitted again without running twice.
    pub fn may_run(&self) -> bool {
        matches!(self, Self::Unconfirmed { .. } | Self::ConnectionLost { .. })
    }

    /// The job's message id, if the error is about one that was sent.
    pub fn msgid(&self) -> Option<&MsgId> {
        match self {
            Self::Unconfirmed { msgid, .. } | Self::ConnectionLost { msgid } | Self::DuplicateId { msgid } => {
                Some(msgid)
            }
            _ => None,
        }
    }
}

/// Why there is no value of a job.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CallError {
    /// It was not accepted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// It ran and failed, or was given up by the broker.
    #[error("the job failed: {0}")]
    Failed(#[source] Failure),
    /// No result came before the job's deadline. It may still run.
    #[error("no result of job {msgid} within {} s", after.as_secs_f64())]
    Timeout {
        /// The job.
        msgid: MsgId,
        /// How long it waited.
        after: Duration,
    },
    /// What came is not `{"value": ...}`, or not of the type asked for.
    #[error("the result cannot be read: {source}")]
    Result {
        /// What is wrong with it.
        source: serde_json::Error,
        /// The result as it came.
        raw: Bytes,
    },
    /// The client is closed, or its runtime has ended.
    #[error("the client is closed")]
    Closed,
}
