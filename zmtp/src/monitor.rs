//! [`Monitor`]: what happens to a socket's connections, as a stream of typed events.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::broadcast;

use crate::connection::{ConnectionError, PeerInfo};
use crate::{Endpoint, PeerAddress, RoutingId, Stage};

/// Something that happened to a connection, a listener or a dialer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum MonitorEvent {
    /// A listener is ready.
    Listening {
        /// The endpoint with its actual port.
        endpoint: Endpoint,
    },
    /// A listener ended.
    Unbound {
        /// Its endpoint.
        endpoint: Endpoint,
    },
    /// A listener could not accept; it tries again after a pause.
    AcceptFailed {
        /// The listener's endpoint.
        endpoint: Endpoint,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// A peer opened a connection; the handshake begins.
    Accepted {
        /// The listener's endpoint.
        endpoint: Endpoint,
        /// Who it is, as far as the transport tells.
        peer: PeerAddress,
    },
    /// A connection of ours opened; the handshake begins.
    Connected {
        /// The endpoint given to `connect`.
        endpoint: Endpoint,
        /// Who it is, as far as the transport tells.
        peer: PeerAddress,
    },
    /// A connection could not be opened, or ended; the next attempt follows after a pause.
    Retrying {
        /// The endpoint given to `connect`.
        endpoint: Endpoint,
        /// The pause.
        after: Duration,
        /// What ended the last attempt.
        reason: Reason,
    },
    /// There will be no further attempt, and what was queued is lost: the peer refused us in so many words, another
    /// connection took the peer's routing id over, or the socket was told never to reconnect.
    GaveUp {
        /// The endpoint given to `connect`.
        endpoint: Endpoint,
        /// What ended the last attempt.
        reason: Reason,
    },
    /// A handshake completed; the peer is in the socket's rotation or table.
    HandshakeSucceeded {
        /// The local listener's or the connected endpoint.
        endpoint: Endpoint,
        /// Who it is, as far as the transport tells.
        peer: PeerAddress,
        /// The routing id the peer is known by here.
        routing_id: RoutingId,
        /// What the peer told.
        info: Box<PeerInfo>,
    },
    /// A connection ended before its handshake was complete, or its peer was not let in.
    HandshakeFailed {
        /// The local listener's or the connected endpoint.
        endpoint: Endpoint,
        /// Who it is, as far as the transport tells.
        peer: PeerAddress,
        /// Why.
        reason: Reason,
    },
    /// An established connection ended.
    Disconnected {
        /// The local listener's or the connected endpoint.
        endpoint: Endpoint,
        /// Who it is, as far as the transport tells.
        peer: PeerAddress,
        /// Why.
        reason: Reason,
    },
}

/// Why a connection ended.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Reason {
    /// The peer closed it.
    #[error("closed by the peer")]
    PeerClosed,
    /// The peer closed it during the handshake of a security mechanism, without a word. Waiting for WELCOME under CURVE
    /// this is what a wrong server key looks like; waiting for READY, a refusal for the time being.
    #[error("closed by the peer instead of a {0}")]
    ClosedAwaiting(Stage),
    /// The transport failed.
    #[error("transport failed: {0}")]
    Io(#[source] Arc<io::Error>),
    /// The name or address could not be resolved or connected.
    #[error("cannot connect: {0}")]
    Connect(#[source] Arc<io::Error>),
    /// The peer broke the protocol or a limit, or fell silent.
    #[error(transparent)]
    Protocol(#[from] ConnectionError),
    /// Another connection holds the same routing id.
    #[error("routing id \"{0}\" is in use by another connection")]
    DuplicateRoutingId(RoutingId),
    /// Another connection took this one's routing id over.
    #[error("replaced by a newer connection with the same routing id")]
    Replaced,
    /// Too many connections in their handshake; this was the oldest.
    #[error("too many unfinished handshakes")]
    Crowded,
    /// The socket has as many connections as it may have.
    #[error("too many connections")]
    TooManyConnections,
    /// Too many peers have come and gone without the application reading what they left.
    #[error("the application does not read: too many visitors it has not heard of")]
    Unread,
    /// A PAIR has its one peer already.
    #[error("a PAIR takes one peer, and has one")]
    Paired,
    /// The peer subscribes to more than it may.
    #[error("too many subscriptions")]
    TooManyTopics,
    /// Our socket closed it.
    #[error("closed by us")]
    Closed,
    /// The link's task ended without a reason: a panic inside it.
    #[error("the connection's task failed")]
    Failed,
}

/// Receives a socket's [`MonitorEvent`]s from its creation on.
#[derive(Debug)]
pub struct Monitor(broadcast::Receiver<MonitorEvent>);

impl Monitor {
    pub(crate) fn new(events: broadcast::Receiver<MonitorEvent>) -> Self {
        Self(events)
    }

    /// The next event; `None` once the socket is gone.
    ///
    /// A monitor that is read too slowly loses the oldest events rather than hold connections up.
    pub async fn recv(&mut self) -> Option<MonitorEvent> {
        loop {
            match self.0.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}
