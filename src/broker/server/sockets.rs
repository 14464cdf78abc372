//! The broker's ROUTER sockets.

use std::time::Duration;

use tracing::{error, info, warn};
use zmtp::{BindError, Endpoint, Handover, Heartbeat, Router, RouterReceiver, RouterSender};

use super::{ServerConf, WireConf};
use crate::broker::{Roles, SocketId};

/// How long messages queued for peers are still sent after the end.
const LINGER: Duration = Duration::from_secs(2);

/// All sockets, by their [`SocketId`].
#[derive(Debug)]
pub(super) struct Sockets(pub(super) Vec<Socket>);

/// One socket.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) sender: RouterSender,
    pub(super) receiver: RouterReceiver,
    roles: Roles,
    /// As configured.
    endpoint: Endpoint,
    /// As bound, with the actual port; `None` once it takes no new connections.
    bound: Endpoint,
}

impl Sockets {
    pub(super) async fn bind(conf: &ServerConf) -> Result<Self, BindError> {
        let mut sockets = Vec::new();
        for (endpoint, roles) in conf.sockets() {
            let (sender, receiver) = new_router(&conf.wire).split();
            let bound = sender.bind(endpoint).await?;
            info!(endpoint = %bound, "listening for {}", purpose(roles));
            sockets.push(Socket { sender, receiver, roles, endpoint: endpoint.clone(), bound });
        }
        Ok(Self(sockets))
    }

    /// The address of the socket with a role.
    pub(super) fn bound(&self, has: impl Fn(&Roles) -> bool) -> &Endpoint {
        let socket = self.0.iter().find(|socket| has(&socket.roles));
        &socket.unwrap_or(&self.0[0]).bound
    }

    /// Listens for clients and schedulers on one more address.
    pub(super) async fn bind_frontend(&self, endpoint: &Endpoint) -> Result<Endpoint, BindError> {
        let frontend = self.0.iter().find(|socket| socket.roles.frontend).unwrap_or(&self.0[0]);
        frontend.sender.bind(endpoint).await
    }

    pub(super) fn sender(&self, id: SocketId) -> Option<&RouterSender> {
        self.0.get(usize::from(id.0)).map(|socket| &socket.sender)
    }

    /// Takes no new connections on a socket.
    pub(super) async fn unbind(&self, id: SocketId) {
        if let Some(socket) = self.0.get(usize::from(id.0)) {
            socket.sender.unbind(&socket.bound).await;
        }
    }

    /// Binds addresses that changed. One that cannot be bound leaves the socket where it was.
    pub(super) async fn rebind(&mut self, conf: &ServerConf) {
        for (socket, (endpoint, _)) in self.0.iter_mut().zip(conf.sockets()) {
            if socket.endpoint == *endpoint {
                continue;
            }
            match socket.sender.bind(endpoint).await {
                Ok(bound) => {
                    socket.sender.unbind(&socket.bound).await;
                    info!(from = %socket.bound, to = %bound, "now listening for {}", purpose(socket.roles));
                    socket.endpoint = endpoint.clone();
                    socket.bound = bound;
                }
                Err(error) => {
                    error!(%error, "listening for {} stays on {}", purpose(socket.roles), socket.bound);
                }
            }
        }
    }

    /// Sends what is queued, for a moment, and closes.
    pub(super) async fn close(self) {
        for socket in self.0 {
            socket.sender.close().await;
        }
    }
}

fn new_router(wire: &WireConf) -> Router {
    let timeout = wire.heartbeat_timeout;
    let heartbeat = wire.heartbeat_interval.map(|interval| Heartbeat { interval, timeout, ttl: Duration::ZERO });
    Router::builder()
        // A worker that returns before its old connection was noticed to be dead takes its name over.
        .handover(Handover::Replace)
        .heartbeat(heartbeat)
        .limits(wire.limits)
        .handshake_timeout(wire.handshake_timeout)
        .max_handshakes(wire.max_pending_handshakes)
        .max_connections(wire.max_connections)
        .send_hwm(wire.send_hwm)
        .receive_hwm(wire.receive_hwm)
        .linger(LINGER)
        .build()
}

fn purpose(roles: Roles) -> &'static str {
    match (roles.frontend, roles.backend, roles.admin) {
        (true, false, false) => "clients and schedulers",
        (false, true, false) => "workers",
        (false, false, true) => "administration",
        (true, true, false) => "clients, schedulers and workers",
        (true, false, true) => "clients, schedulers and administration",
        (false, true, true) => "workers and administration",
        (true, true, true) => "all peers",
        (false, false, false) => "nobody",
    }
}

/// Says what of a change needs a restart.
pub(super) fn warn_fixed(old: &ServerConf, new: &ServerConf) {
    if old.core.sockets != new.core.sockets {
        warn!("which roles share an address changes only with a restart: all addresses stay");
    }
    if old.wire != new.wire {
        warn!("settings of connections (sizes, heartbeats of ZMTP, hwm of peers) change only with a restart");
    }
}
