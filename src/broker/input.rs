//! What happens to a broker.

use zmtp::{Message, RoutingId};

use super::BrokerConfig;
use crate::dispatch::{DownReason, Why};
use crate::store::StoreSeq;

/// One of the broker's sockets: an index into [`BrokerConfig::sockets`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId(pub u8);

/// Everything the core reacts to. A list of these, with their times, replays a run exactly.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Input {
    /// A peer sent a message.
    Received {
        /// Where it arrived.
        socket: SocketId,
        /// Who sent it.
        from: RoutingId,
        /// Its frames, without the routing id.
        message: Message,
    },
    /// A peer's connection completed its handshake. Comes before the first message of that connection.
    Up {
        /// Where it connected.
        socket: SocketId,
        /// Who.
        peer: RoutingId,
    },
    /// A peer's connection ended and no other holds its routing id. Comes after the last message of that connection.
    Down {
        /// Where it was connected.
        socket: SocketId,
        /// Who.
        peer: RoutingId,
        /// How it ended.
        reason: DownReason,
    },
    /// A message could not be handed to a peer's queue.
    Undelivered {
        /// The socket it was for.
        socket: SocketId,
        /// The peer it was for.
        to: RoutingId,
        /// The message, whole.
        message: Message,
        /// The reason.
        why: Why,
    },
    /// Everything up to this store record is safe.
    Stored(StoreSeq),
    /// Time passed; at the latest at [`Broker::deadline`](super::Broker::deadline).
    Tick,
    /// The settings changed (SIGHUP). The sockets are the same.
    Reconfigure(Box<BrokerConfig>),
    /// Stop taking work, let what runs finish within the grace period, then stop.
    Shutdown,
}
