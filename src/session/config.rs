//! What a session is told.

use std::time::Duration;

use zmtp::Endpoint;

use crate::emqp::{PeerKind, QueueList};

/// Settings of a session, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionConfig {
    /// What registers.
    pub kind: PeerKind,
    /// The queues a worker asks for; a scheduler's are [`QueueList::Configured`].
    pub queues: QueueList,
    /// Where a broker listens. The first is tried first.
    pub address: Endpoint,
    /// Where to go on, in turn, when the broker falls silent; empty for staying with [`address`](Self::address).
    pub failover: Vec<Endpoint>,
    /// Pause between two INFORMs that are not acknowledged, and before a DISCONNECT that comes too soon is obeyed.
    pub reconnect_timeout: Duration,
    /// Heartbeats both ways; `None` sends none and never gives a silent broker up.
    pub heartbeats: Option<Heartbeats>,
    /// What a DISCONNECT means.
    pub on_disconnect: OnDisconnect,
}

/// When heartbeats are sent, and when a silent broker is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeats {
    /// Pause between two that are sent.
    pub interval: Duration,
    /// Silence that counts as one missed.
    pub timeout: Duration,
    /// A broker that missed so many is lost; so are as many unanswered INFORMs a reason to try another address.
    pub liveness: u32,
}

/// What to do about a DISCONNECT of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDisconnect {
    /// Register anew under another identity, as workers do.
    Rejoin,
    /// End, as schedulers do.
    End,
}

impl Default for Heartbeats {
    /// Python's defaults.
    fn default() -> Self {
        Self { interval: Duration::from_secs(3), timeout: Duration::from_secs(5), liveness: 3 }
    }
}

impl Heartbeats {
    /// The silence after which a broker is lost.
    pub(super) fn patience(&self) -> Duration {
        self.timeout.saturating_mul(self.liveness.max(1))
    }
}

impl SessionConfig {
    /// A session with Python's defaults for everything but these.
    pub fn new(kind: PeerKind, queues: QueueList, address: Endpoint) -> Self {
        let on_disconnect = match kind {
            PeerKind::Worker => OnDisconnect::Rejoin,
            PeerKind::Scheduler => OnDisconnect::End,
        };
        Self {
            kind,
            queues,
            address,
            failover: Vec::new(),
            reconnect_timeout: Duration::from_secs(5),
            heartbeats: Some(Heartbeats::default()),
            on_disconnect,
        }
    }

    /// The `n`th address, counted round and round.
    pub(super) fn endpoint(&self, n: usize) -> &Endpoint {
        match n % (self.failover.len() + 1) {
            0 => &self.address,
            n => &self.failover[n - 1],
        }
    }

    /// Whether a running session could go on under `other` without registering anew.
    pub(super) fn same_registration(&self, other: &Self) -> bool {
        let registration = |config: &Self| (config.kind, config.queues.clone());
        registration(self) == registration(other) && self.address == other.address && self.failover == other.failover
    }
}
