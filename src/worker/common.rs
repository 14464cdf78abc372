//! Settings that all workers have.

use std::time::Duration;

use tokio::sync::mpsc;
use zmtp::Endpoint;

use super::events::{CoreConfig, Input};
use super::serve::{Executor, Serve};
use crate::emqp::{PeerKind, QueueList, QueueName, QueueWeight};
use crate::session::{Heartbeats, SessionConfig, WireOptions};

/// Settings that native workers and those that run programs share.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub(super) name: Option<String>,
    pub(super) address: Endpoint,
    pub(super) failover: Vec<Endpoint>,
    pub(super) queues: Vec<(QueueWeight, QueueName)>,
    pub(super) concurrency: usize,
    pub(super) default_timeout: Option<Duration>,
    pub(super) shutdown_grace: Duration,
    pub(super) heartbeats: Option<Heartbeats>,
    pub(super) reconnect_timeout: Duration,
}

impl Common {
    pub(super) fn new(address: Endpoint) -> Self {
        Self {
            name: None,
            address,
            failover: Vec::new(),
            queues: Vec::new(),
            concurrency: 4,
            default_timeout: Some(Duration::from_secs(300)),
            shutdown_grace: Duration::from_secs(300),
            heartbeats: Some(Heartbeats::default()),
            reconnect_timeout: Duration::from_secs(5),
        }
    }

    pub(super) fn serve<E: Executor>(self, executor: E, reports: mpsc::UnboundedReceiver<Input>) -> Serve<E> {
        let queues = if self.queues.is_empty() { vec![(10, QueueName::from("default"))] } else { self.queues };
        let session = SessionConfig {
            failover: self.failover,
            heartbeats: self.heartbeats,
            reconnect_timeout: self.reconnect_timeout,
            ..SessionConfig::new(PeerKind::Worker, QueueList::Weighted(queues), self.address)
        };
        let core = CoreConfig {
            slots: self.concurrency.max(1),
            jobs_per_runner: None,
            default_timeout: self.default_timeout,
            terminate_grace: Duration::from_millis(500),
            drain_grace: self.shutdown_grace,
        };
        let serve = Serve::new(session, WireOptions::default(), core, executor, reports);
        match self.name {
            Some(name) => serve.named(&name),
            None => serve,
        }
    }
}

/// The builder methods that all workers have.
macro_rules! common_settings {
    () => {
        /// Serves a queue; may be repeated. Jobs of queues with more weight come first. Default: `default`, weight 10.
        pub fn queue(mut self, weight: $crate::emqp::QueueWeight, name: impl Into<$crate::emqp::QueueName>) -> Self {
            self.common.queues.push((weight, name.into()));
            self
        }

        /// What the broker shows this worker as: its first routing id, which must be unique. Default: a random UUID.
        pub fn name(mut self, name: impl Into<String>) -> Self {
            self.common.name = Some(name.into());
            self
        }

        /// Another broker to go to when the one in use falls silent; may be repeated.
        pub fn failover(mut self, address: zmtp::Endpoint) -> Self {
            self.common.failover.push(address);
            self
        }

        /// Runs so many jobs at a time, at least one. Default: 4.
        pub fn concurrency(mut self, jobs: usize) -> Self {
            self.common.concurrency = jobs;
            self
        }

        /// How long a job may run that has no timeout of its own; `None` for as long as it likes. Default: 300 s.
        pub fn default_timeout(mut self, timeout: impl Into<Option<std::time::Duration>>) -> Self {
            self.common.default_timeout = timeout.into();
            self
        }

        /// How long running jobs may go on after a shutdown began. Default: 300 s.
        pub fn shutdown_grace(mut self, grace: std::time::Duration) -> Self {
            self.common.shutdown_grace = grace;
            self
        }

        /// Heartbeats with the broker; `None` for none. Default: every 3 s, lost after three times 5 s of silence.
        pub fn heartbeats(mut self, heartbeats: impl Into<Option<$crate::session::Heartbeats>>) -> Self {
            self.common.heartbeats = heartbeats.into();
            self
        }

        /// Pause between attempts to register. Default: 5 s.
        pub fn reconnect_timeout(mut self, pause: std::time::Duration) -> Self {
            self.common.reconnect_timeout = pause;
            self
        }
    };
}

pub(super) use common_settings;
