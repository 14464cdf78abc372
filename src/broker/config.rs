//! What a broker core has to be told.

use std::time::Duration;

use bytes::Bytes;

use crate::emqp::{QueueName, QueueWeight};

/// Settings of the core, resolved: nothing in here means "ask elsewhere".
#[derive(Debug, Clone, PartialEq)]
pub struct BrokerConfig {
    /// What each socket is for; the index is its [`SocketId`](super::SocketId). Every role belongs to exactly one.
    pub sockets: Vec<Roles>,
    /// Where jobs for unknown queues go.
    pub default_queue: QueueName,
    /// Weight of a queue whose worker named none (CSV form of INFORM).
    pub default_weight: QueueWeight,
    /// Queues of a worker that INFORMs with an empty list.
    pub queues: Vec<(QueueWeight, QueueName)>,
    /// What happens to a job for a queue that no live worker serves.
    pub unknown_queue: UnknownQueue,
    /// Most jobs waiting in one queue.
    pub hwm: usize,
    /// Most bytes of jobs waiting in all queues together.
    pub waiting_bytes: usize,
    /// Period of HEARTBEATs to workers and schedulers; `None` disables heartbeats both ways.
    pub heartbeat_interval: Option<Duration>,
    /// A worker silent for this long gets no new jobs while others can take them; a detached one is kept this long.
    pub heartbeat_timeout: Duration,
    /// A peer silent for this many timeouts is lost even if its connection seems alive.
    pub heartbeat_liveness: u32,
    /// Most deliveries of one job before it is dead, unless its own `retry-count` asks for more.
    pub delivery_limit: u32,
    /// Pause before the first retry of a failed job; doubles with each further one.
    pub retry_backoff: Duration,
    /// Longest pause before a retry.
    pub retry_backoff_max: Duration,
    /// Added to a job's `timeout:N` before the broker itself gives it up.
    pub timeout_grace: Duration,
    /// A Python worker ends any job without a timeout of its own after this long.
    pub global_timeout: Duration,
    /// How long running jobs may go on after a shutdown began.
    pub shutdown_grace: Duration,
    /// Most dead jobs kept; the oldest go first.
    pub dead_limit: usize,
    /// Which jobs the broker follows to their end.
    pub tracking: JobTracking,
}

impl Default for BrokerConfig {
    /// Python's defaults where Python has the setting, and a socket for each role.
    fn default() -> Self {
        let default_queue = QueueName(Bytes::from_static(b"default"));
        let (no, seconds) = (Roles::default(), Duration::from_secs);
        Self {
            sockets: vec![Roles { frontend: true, ..no }, Roles { backend: true, ..no }, Roles { admin: true, ..no }],
            queues: vec![(10, default_queue.clone())],
            default_queue,
            default_weight: 10,
            unknown_queue: UnknownQueue::Default,
            hwm: 10_000,
            waiting_bytes: 1 << 30,
            heartbeat_interval: Some(seconds(3)),
            heartbeat_timeout: seconds(5),
            heartbeat_liveness: 3,
            delivery_limit: 3,
            retry_backoff: seconds(1),
            retry_backoff_max: seconds(60),
            timeout_grace: seconds(5),
            global_timeout: seconds(300),
            shutdown_grace: seconds(30),
            dead_limit: 1000,
            tracking: JobTracking::All,
        }
    }
}

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles {
    /// Clients and schedulers connect here.
    pub frontend: bool,
    /// Workers connect here.
    pub backend: bool,
    /// Admin shells connect here.
    pub admin: bool,
}

/// Fate of a job whose queue no live worker serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownQueue {
    /// It goes to the default queue, its queue frame unchanged, as in Python.
    Default,
    /// It waits under its own name.
    Hold,
}

/// Which jobs the broker follows to their end, by adding `reply-requested` to what it forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobTracking {
    /// Every job: a lost one is always reported by its id.
    All,
    /// Only those whose own headers ask for a reply, a guarantee or retries.
    Asked,
}
