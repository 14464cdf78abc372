//! The rules of the specification: what may be and what must be, given what the model knows.

use std::time::Duration;

use eventmq::broker::{DownReason, UnknownQueue};

use crate::model::{EPSILON, Job, Key, Model, Place, SLACK, Worker};

impl Model {
    /// What a failure (a failing REPLY, a timeout) makes of a job.
    pub fn failed(&self, index: usize) -> Place {
        let job = &self.jobs[index];
        let again = job.failures < job.asked.retries && job.deliveries < job.limit(&self.config);
        if again { Place::Delayed } else { Place::Failed }
    }

    /// What the loss of its worker makes of a job.
    pub fn lost(&self, index: usize) -> Place {
        let job = &self.jobs[index];
        let again = job.asked.guarantee || job.failures < job.asked.retries;
        if again && job.deliveries < job.limit(&self.config) { Place::Waiting } else { Place::Failed }
    }

    pub fn silence_limit(&self) -> Duration {
        self.config.heartbeat_timeout * self.config.heartbeat_liveness
    }

    /// Whether the broker may have given this worker up by now.
    pub fn may_be_lost(&self, key: &Key, worker: &Worker) -> bool {
        let silent =
            self.config.heartbeat_interval.is_some() && self.now + EPSILON >= worker.heard.0 + self.silence_limit();
        let gone = worker.detached.is_some_and(|(at, reason)| {
            worker.draining || reason == DownReason::Silent || self.now + EPSILON >= at + self.config.heartbeat_timeout
        });
        silent || gone || (worker.draining && self.held_by(key) == 0)
    }

    /// Whether it must have.
    pub fn must_be_lost(&self, worker: &Worker) -> bool {
        let silent = self.config.heartbeat_interval.is_some()
            && !worker.draining
            && worker.detached.is_none()
            && self.now > worker.heard.1.max(self.stalled) + self.silence_limit() + SLACK;
        let gone = worker
            .detached
            .is_some_and(|(at, _)| self.now > at.max(self.stalled) + self.config.heartbeat_timeout + SLACK);
        silent || gone
    }

    /// Whether the broker must take this worker for well and there.
    pub fn is_fit(&self, key: &Key, worker: &Worker) -> bool {
        let fresh = self.config.heartbeat_interval.is_none()
            || self.now + EPSILON < worker.heard.0 + self.config.heartbeat_timeout;
        fresh && self.attached.contains(key) && !worker.draining && !worker.suspect
    }

    pub fn is_certainly_silent(&self, worker: &Worker) -> bool {
        self.config.heartbeat_interval.is_some()
            && self.now > worker.heard.1.max(self.stalled) + self.config.heartbeat_timeout + SLACK
    }

    /// Whether a job may be in its own queue, and whether in the default one.
    pub fn homes(&self, queue: &str) -> (bool, bool) {
        let default = queue.as_bytes() == &self.config.default_queue.0[..];
        if default || self.config.unknown_queue == UnknownQueue::Hold {
            return (true, default);
        }
        let serves = |worker: &Worker| worker.queues.iter().any(|(_, name)| name == queue);
        let served = self.workers.values().any(serves);
        let served_well = self.workers.iter().any(|(key, worker)| serves(worker) && self.is_fit(key, worker));
        (served, !served_well)
    }

    /// A job waits under its own queue's name or the default one. It leaves its own only when nobody serves it, and goes
    /// there from the default one only when it comes back from a worker.
    pub fn may_wait_in(&self, job: &Job, queue: &str) -> bool {
        let (own, default) = self.homes(&job.queue);
        let (is_own, is_default) = (queue == job.queue, queue == self.default_queue());
        match &job.effective {
            Some(before) if before == queue => !is_own || own,
            Some(_) => (is_own && own && job.deliveries > 0) || (is_default && default),
            None => (is_own && own) || (is_default && default),
        }
    }

    /// When a job in flight may be given up, and when it must have been. Without a timeout of its own that happens only
    /// if there are signs that its process died.
    pub fn timeout(&self, job: &Job) -> (Duration, Option<Duration>) {
        match job.asked.timeout.map(Duration::from_secs) {
            Some(limit) => {
                let due = job.since + limit + self.config.timeout_grace;
                // A REPLY may be among what was not read while the broker stood still.
                (due, Some(due + self.stalled.saturating_sub(job.since) + SLACK))
            }
            None => (job.since + self.config.global_timeout, None),
        }
    }

    pub fn weight(worker: &Worker, queue: &str) -> Option<i64> {
        worker.queues.iter().filter(|(_, name)| name == queue).map(|(weight, _)| *weight).max()
    }

    pub fn default_queue(&self) -> String {
        String::from_utf8_lossy(&self.config.default_queue.0).into_owned()
    }

    /// A worker's place in the order of choice for a queue: whether `this` goes before `that` for certain.
    pub fn goes_before(&self, this: &Key, that: &Key, queue: &str) -> bool {
        let (Some(a), Some(b)) = (self.workers.get(this), self.workers.get(that)) else { return false };
        let (Some(weight), Some(other)) = (Self::weight(a, queue), Self::weight(b, queue)) else { return false };
        if self.is_certainly_silent(b) {
            return true;
        }
        let less_recent = match (a.used, b.used) {
            (0, used) => used > 0 && a.registered <= used,
            (used, other) => used < other,
        };
        weight > other || (weight == other && less_recent)
    }
}
