//! [`SocketBuilder`]: the options all socket types share.

use std::marker::PhantomData;
use std::time::Duration;

use super::options::PatternOptions;
use super::{Options, Reconnect};
use crate::connection::{ConnectionConfig, Heartbeat, Limits};
use crate::{Handover, RoutingId, Security, SocketType};

/// Settings of a socket to be; `T` is the socket's type. Made by `Router::builder()` and its like.
///
/// Each method names the libzmq option it stands for.
#[derive(Debug, Clone)]
#[must_use]
pub struct SocketBuilder<T> {
    pub(super) options: Options,
    pub(super) connection: ConnectionConfig,
    pub(super) handover: Handover,
    pub(super) pattern: PatternOptions,
    kind: PhantomData<T>,
}

impl<T> SocketBuilder<T> {
    pub(super) fn new(socket_type: SocketType) -> Self {
        let connection = ConnectionConfig::new(socket_type);
        Self {
            options: Options::default(),
            connection,
            handover: Handover::Refuse,
            pattern: PatternOptions::default(),
            kind: PhantomData,
        }
    }

    /// Our own routing id, announced to peers (ROUTING_ID). Default: none, a ROUTER peer makes one up.
    pub fn routing_id(mut self, id: RoutingId) -> Self {
        self.connection.routing_id = Some(id);
        self
    }

    /// Most messages queued for one peer (SNDHWM). Default 1000; 0: no limit.
    ///
    /// What the connection has taken to write is no longer counted, as in libzmq.
    pub fn send_hwm(mut self, messages: usize) -> Self {
        self.options.send_hwm = messages;
        self
    }

    /// Most messages received from one peer and not yet taken (RCVHWM); then its connection is not read. Default
    /// 1000; 0: no limit.
    pub fn receive_hwm(mut self, messages: usize) -> Self {
        self.options.receive_hwm = messages;
        self
    }

    /// How long queued messages are still sent after the socket is closed (LINGER). Default `None`: for ever.
    pub fn linger(mut self, linger: impl Into<Option<Duration>>) -> Self {
        self.options.linger = linger.into();
        self
    }

    /// Pauses between attempts to connect (RECONNECT_IVL, RECONNECT_IVL_MAX). Default 100 ms, doubling up to 5 s, with
    /// jitter; starts over only after a completed handshake.
    pub fn reconnect(mut self, reconnect: Reconnect) -> Self {
        self.options.reconnect = reconnect;
        self
    }

    /// Limit for opening the transport (CONNECT_TIMEOUT). Default `None`: the system's.
    pub fn connect_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.options.connect_timeout = limit.into();
        self
    }

    /// From the transport's opening to the end of the handshake (HANDSHAKE_IVL). Default 30 s; `None`: no limit.
    pub fn handshake_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.connection.handshake_timeout = limit.into();
        self
    }

    /// Largest frame and message accepted (MAXMSGSIZE, which is per frame). Default 256 MiB and 512 MiB.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.connection.limits = limits;
        self
    }

    /// Heartbeats (HEARTBEAT_IVL, HEARTBEAT_TIMEOUT, HEARTBEAT_TTL). Default `None`: we send no PING, but answer all.
    pub fn heartbeat(mut self, heartbeat: impl Into<Option<Heartbeat>>) -> Self {
        self.connection.heartbeat = heartbeat.into();
        self
    }

    /// The security mechanism and our part in it (PLAIN_*, CURVE_*, ZAP_DOMAIN). Default: NULL, no security at all.
    ///
    /// Both sides of a connection need the same mechanism and opposite parts, client and server.
    pub fn security(mut self, security: Security) -> Self {
        self.connection.security = security;
        self
    }

    /// Most accepted connections whose handshake is not complete. Default 1024; past it the oldest is closed.
    pub fn max_handshakes(mut self, connections: usize) -> Self {
        self.options.max_handshakes = connections;
        self
    }

    /// Most connections at a time; past it new ones are closed at once. Default: no limit but the system's.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.options.max_connections = connections;
        self
    }

    /// Length of the system's queue of connections to accept (BACKLOG). Default 1024.
    pub fn backlog(mut self, connections: u32) -> Self {
        self.options.backlog = connections;
        self
    }
}
