//! Jobs that were given up and are kept for the operator.

use std::collections::VecDeque;
use std::time::Instant;

use serde::Serialize;
use zmtp::Message;

use super::jobs::Job;
use crate::emqp::{MsgId, QueueName};

/// Why a job is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DeadReason {
    /// It failed, and no retry was left.
    Failed,
    /// It did not reply within its timeout, and no retry was left.
    TimedOut,
    /// Its worker was lost, and it may not be delivered again.
    WorkerLost,
    /// The process that ran it died, and it may not be delivered again.
    ProcessDied,
}

/// One dead job.
#[derive(Debug)]
pub(super) struct DeadJob {
    pub job: Job,
    pub queue: QueueName,
    pub reason: DeadReason,
    pub died: Instant,
}

/// The latest dead jobs, bounded in number and bytes.
#[derive(Debug, Default)]
pub(super) struct DeadJobs {
    jobs: VecDeque<DeadJob>,
    bytes: usize,
}

impl DeadJobs {
    /// Keeps one more; the oldest go when there are more than `limit`, or than `bytes` of messages.
    pub fn bury(&mut self, job: DeadJob, limit: usize, bytes: usize) {
        self.bytes += size(&job);
        self.jobs.push_back(job);
        while self.jobs.len() > limit || (self.bytes > bytes && !self.jobs.is_empty()) {
            if let Some(oldest) = self.jobs.pop_front() {
                self.bytes -= size(&oldest);
            }
        }
    }

    /// Takes out the one of this id, or all.
    pub fn exhume(&mut self, msgid: Option<&MsgId>) -> Vec<DeadJob> {
        let (taken, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.jobs)
            .into_iter()
            .partition(|dead| msgid.is_none_or(|msgid| dead.job.msgid == *msgid));
        self.jobs = left.into();
        self.bytes = self.jobs.iter().map(size).sum();
        taken
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &DeadJob> {
        self.jobs.iter()
    }
}

fn size(dead: &DeadJob) -> usize {
    dead.job.message.as_ref().map_or(0, Message::wire_len)
}
