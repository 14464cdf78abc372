//! What an MDP broker is told.

use std::num::NonZeroU32;
use std::time::Duration;

/// Settings of a broker core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerConfig {
    /// Pause between the HEARTBEATs sent to each worker. Workers must be set alike, or nearly so: see
    /// [`expiry`](Self::expiry). Default 2.5 s.
    pub heartbeat_interval: Duration,
    /// Silent intervals after which an idle worker counts as dead. Default 3.
    pub heartbeat_liveness: u32,
    /// How long a request waits for a worker at most; `None`: for ever. Default 7.5 s, which is how long the usual client
    /// keeps asking.
    pub request_expiry: Option<Duration>,
    /// How long a worker may have a request before it counts as dead; `None`: as long as it likes. Default `None`.
    pub reply_timeout: Option<Duration>,
    /// Most workers a request is given to, one after another, when they are lost while they have it; 1: never again.
    /// Default 3.
    pub max_attempts: NonZeroU32,
    /// Most requests waiting for one service; then the oldest is dropped. Default 1,000,000.
    pub max_waiting: usize,
    /// Most bytes of requests waiting for one service; then the oldest are dropped. Default 256 MiB.
    pub max_waiting_bytes: usize,
    /// Most bytes of requests waiting for all services together. Default 1 GiB.
    pub max_total_bytes: usize,
    /// How long requests in hand may take to end after a shutdown was asked for. Default 5 s.
    pub shutdown_grace: Duration,
    /// Whether services `emq.QUEUE` are queues of an eMQP broker.
    pub bridge: Bridging,
}

/// Whether requests for `emq.QUEUE` become eMQP jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bridging {
    /// `emq.QUEUE` is a service like any other.
    #[default]
    Off,
    /// They do.
    On(BridgeConfig),
}

/// Bounds of bridged jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeConfig {
    /// How long the result of a job is awaited. Default 10 minutes.
    pub job_timeout: Duration,
    /// Most jobs whose results are awaited; then the oldest is forgotten. Default 100,000.
    pub max_jobs: usize,
}

impl Default for BridgeConfig {
    fn default() -> Self {
        Self { job_timeout: Duration::from_secs(600), max_jobs: 100_000 }
    }
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            heartbeat_interval: Duration::from_millis(2500),
            heartbeat_liveness: 3,
            request_expiry: Some(Duration::from_millis(7500)),
            reply_timeout: None,
            max_attempts: NonZeroU32::MIN.saturating_add(2),
            max_waiting: 1_000_000,
            max_waiting_bytes: 256 << 20,
            max_total_bytes: 1 << 30,
            shutdown_grace: Duration::from_secs(5),
            bridge: Bridging::Off,
        }
    }
}

impl BrokerConfig {
    /// How long an idle worker may be silent: the interval times the liveness. A worker whose own interval is longer than
    /// this is taken for dead between its heartbeats.
    pub fn expiry(&self) -> Duration {
        self.heartbeat_interval.saturating_mul(self.heartbeat_liveness.max(1))
    }

    /// The pause between heartbeats, never so short that nothing else happens.
    pub(super) fn beat(&self) -> Duration {
        self.heartbeat_interval.max(Duration::from_millis(1))
    }
}
