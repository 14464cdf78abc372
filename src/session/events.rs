//! What happens to a session, and what it wants done.

use zmtp::{Endpoint, Message, RoutingId};

use super::config::SessionConfig;

/// What happens to a session.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Input {
    /// Begin. Once; anything before it does nothing.
    Start,
    /// The broker sent a message.
    Received(Message),
    /// The connection came up or went away.
    Link(Link),
    /// Time passed; at the latest at [`Session::deadline`](super::Session::deadline).
    Tick,
    /// The settings changed. Registers anew if addresses or queues did.
    Reconfigure(Box<SessionConfig>),
    /// Say KBYE: no new work, please. What is sent afterwards still goes out, and messages are still delivered. The owner
    /// ends when it is ready to.
    Leave,
}

/// The state of the connection below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// A handshake completed: what is sent arrives.
    Up,
    /// The connection ended; another is being tried.
    Down,
    /// The connection ended and the socket has given up: the broker refused it.
    Refused,
}

/// What a session wants done, in this order. Whoever carries it out has to know every one of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Open a new DEALER under this identity and connect it. A former one is closed, what it still holds is sent first.
    Open {
        /// Where.
        endpoint: Endpoint,
        /// The text of a UUID.
        identity: RoutingId,
    },
    /// Send a message on the open DEALER.
    Send(Message),
    /// The broker acknowledged: send READYs, schedules, whatever is due.
    Registered,
    /// The registration is gone; [`Effect::Registered`] comes again when there is another.
    Lost(LostReason),
    /// A message that is the owner's to understand.
    Deliver(Message),
    /// The session is over (DISCONNECT with [`OnDisconnect::End`](super::OnDisconnect::End)). The KBYE is among the effects before.
    End,
}

/// Why a registration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostReason {
    /// The broker fell silent.
    Silent,
    /// The broker sent a DISCONNECT.
    Disconnect,
    /// The broker said KBYE, and its connection ended.
    BrokerLeft,
    /// The socket will not connect again.
    Refused,
    /// The connection came back without heartbeats, so nobody can tell whether it is the same broker.
    Reconnected,
    /// The settings changed.
    Reconfigured,
}
