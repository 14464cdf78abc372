//! What happens to an MDP broker, and what it wants done.

use zmtp::{Message, RoutingId};

use super::BrokerConfig;
use crate::dispatch::{DownReason, Why};

/// Everything the core reacts to. A list of these, with their times, replays a run exactly.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Input {
    /// A peer sent a message.
    Received {
        /// Who.
        from: RoutingId,
        /// Its frames, without the routing id.
        message: Message,
    },
    /// A peer's connection completed its handshake. Comes before the first message of that connection.
    Up {
        /// Who.
        peer: RoutingId,
    },
    /// A peer's connection ended and no other holds its routing id. Comes after the last message of that connection.
    Down {
        /// Who.
        peer: RoutingId,
        /// How it ended.
        reason: DownReason,
    },
    /// A message could not be handed to a peer's queue.
    Undelivered {
        /// The peer it was for.
        to: RoutingId,
        /// The message, whole.
        message: Message,
        /// The reason.
        why: Why,
    },
    /// The eMQP broker of the bridge is there, or no longer.
    Bridge(BridgeLink),
    /// The eMQP broker sent a message.
    FromBridge(Message),
    /// A message for the eMQP broker could not be queued.
    Unsubmitted(Message),
    /// Time passed; at the latest at [`Core::deadline`](super::Core::deadline).
    Tick,
    /// Look at all workers now and forget those that are overdue. They are found without it, too.
    Purge,
    /// The settings changed; they count from now on.
    Reconfigure(Box<BrokerConfig>),
    /// Take no more requests, let those in hand end within the grace period, then stop.
    Shutdown,
}

/// Whether the bridge's eMQP broker is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BridgeLink {
    /// It is.
    Up,
    /// It is not.
    Down,
}

/// One thing for the shell to do, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Queue a message for a peer.
    Send {
        /// The peer.
        to: RoutingId,
        /// The frames, without the routing id.
        message: Message,
    },
    /// Send an eMQP REQUEST to the bridge's broker.
    Submit(Message),
    /// Take no new connections; those there are stay.
    Unbind,
    /// The broker has finished: flush what is queued for peers and end.
    Stop,
}

/// What happened so far, in numbers that only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// Requests of clients, those for `mmi.` and bridged ones included.
    pub requests: u64,
    /// Requests handed to a worker, those handed over again counted again.
    pub dispatched: u64,
    /// Final replies passed on to clients.
    pub replies: u64,
    /// Partial replies passed on to clients.
    pub partials: u64,
    /// Requests for `mmi.`, answered.
    pub mmi: u64,
    /// Requests put back because their worker was lost.
    pub put_back: u64,
    /// Requests given up because the last of their workers was lost, or one that had sent a part already.
    pub given_up: u64,
    /// Requests that waited longer than they may.
    pub expired: u64,
    /// Requests dropped because too many, or too many bytes, waited; or because the broker was ending.
    pub dropped: u64,
    /// Requests dropped because their client had left.
    pub abandoned: u64,
    /// Replies dropped because their client had left or did not read.
    pub undelivered: u64,
    /// Partial replies dropped because their client speaks MDP/0.1.
    pub partials_dropped: u64,
    /// Messages that are not MDP.
    pub malformed: u64,
    /// Messages of workers that are right in themselves but not at that moment, and those of strangers.
    pub unexpected: u64,
    /// Workers that registered.
    pub registered: u64,
    /// Workers forgotten because of their silence.
    pub silent: u64,
    /// Jobs given to the bridge.
    pub jobs: u64,
    /// Results of jobs passed on to clients.
    pub results: u64,
    /// Jobs that could not be given to the bridge, or whose result never came.
    pub jobs_lost: u64,
}

/// One service, as [`Core::services`](super::Core::services) shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceView {
    /// Its name.
    pub name: crate::mdp::ServiceName,
    /// Registered workers.
    pub workers: usize,
    /// Those of them that have no request.
    pub idle: usize,
    /// Requests waiting.
    pub waiting: usize,
}
