//! What a broker wants done.

use zmtp::{Message, RoutingId};

use super::SocketId;
use crate::store::{Record, StoreSeq};

/// One thing for the shell to do, in the order given.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Queue a message for a peer, once everything up to `after` is stored.
    Send {
        /// The socket to send on.
        socket: SocketId,
        /// The peer.
        to: RoutingId,
        /// The frames, without the routing id.
        message: Message,
        /// Held back until [`Input::Stored`](super::Input::Stored) says so; [`StoreSeq::NONE`] never waits.
        after: StoreSeq,
    },
    /// Append a record to the store.
    Store(Record),
    /// Take no new connections on this socket; those there are stay.
    Unbind(SocketId),
    /// The broker has finished: flush what is queued for peers and end.
    Stop,
}
