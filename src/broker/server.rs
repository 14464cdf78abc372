//! [`Server`]: the broker as a running service; the thin shell around the core.

mod hub;
mod sockets;

use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc;
use tracing::info;
use zmtp::{BindError, Endpoint, Limits};

use self::hub::Hub;
use self::sockets::Sockets;
use super::{BrokerConfig, Roles};
use crate::store::{MemoryStore, StoreError};

/// Everything a broker needs to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConf {
    /// Where clients and schedulers connect.
    pub frontend: Endpoint,
    /// Where workers connect.
    pub backend: Endpoint,
    /// Where admin shells connect.
    pub admin: Endpoint,
    /// What the core is told.
    pub core: BrokerConfig,
    /// What the sockets are told.
    pub wire: WireConf,
}

/// Limits and timers of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireConf {
    /// Most connections at a time, per socket.
    pub max_connections: usize,
    /// Most unfinished handshakes at a time, per socket.
    pub max_pending_handshakes: usize,
    /// Time for a handshake.
    pub handshake_timeout: Duration,
    /// Largest frame and message taken from a peer.
    pub limits: Limits,
    /// Pause between PINGs; `None` sends none.
    pub heartbeat_interval: Option<Duration>,
    /// Silence after a PING that ends the connection.
    pub heartbeat_timeout: Duration,
    /// Most messages queued for one peer.
    pub send_hwm: usize,
    /// Most messages of one peer read and not dealt with.
    pub receive_hwm: usize,
}

impl Default for ServerConf {
    /// EventMQ's usual ports on the loopback address.
    fn default() -> Self {
        let local = |port| Endpoint::from(SocketAddr::from(([127, 0, 0, 1], port)));
        Self {
            frontend: local(47291),
            backend: local(47290),
            admin: local(47293),
            core: BrokerConfig::default(),
            wire: WireConf::default(),
        }
    }
}

impl Default for WireConf {
    fn default() -> Self {
        Self {
            max_connections: usize::MAX,
            max_pending_handshakes: 1024,
            handshake_timeout: Duration::from_secs(30),
            limits: Limits::default(),
            heartbeat_interval: Some(Duration::from_secs(1)),
            heartbeat_timeout: Duration::from_secs(5),
            send_hwm: 10_000,
            receive_hwm: 1_000,
        }
    }
}

impl ServerConf {
    /// The sockets to bind, in the order of their [`SocketId`](super::SocketId)s.
    pub fn sockets(&self) -> impl Iterator<Item = (&Endpoint, Roles)> {
        self.core.sockets.iter().map(|roles| {
            let endpoint = match roles {
                Roles { frontend: true, .. } => &self.frontend,
                Roles { backend: true, .. } => &self.backend,
                _ => &self.admin,
            };
            (endpoint, *roles)
        })
    }
}

/// Why a broker could not start, or ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The job store failed: going on would lose what was promised.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a running broker can be told from outside.
#[derive(Debug)]
enum Control {
    Reload(Box<ServerConf>),
    Shutdown,
}

/// A broker that listens, and runs once [`run`](Self::run) is awaited.
///
/// Best on a current-thread runtime: its one hub and its links wake each other often.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use eventmq::broker::{Server, ServerConf};
///
/// let any: zmtp::Endpoint = "tcp://127.0.0.1:0".parse()?;
/// let conf = ServerConf { frontend: any.clone(), backend: any.clone(), admin: any, ..ServerConf::default() };
/// let server = Server::bind(conf).await?;
/// println!("clients connect to {}, workers to {}", server.frontend(), server.backend());
///
/// let handle = server.handle();
/// let running = tokio::spawn(server.run());
/// handle.shutdown();
/// running.await??;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Server {
    hub: Hub,
    control: mpsc::UnboundedReceiver<Control>,
    handle: ServerHandle,
}

/// Tells a running [`Server`] what to do; cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerHandle(mpsc::UnboundedSender<Control>);

impl ServerHandle {
    /// Ends the broker: no new work, running jobs get the shutdown grace, then [`Server::run`] returns.
    pub fn shutdown(&self) {
        // An error says that it has ended.
        let _ = self.0.send(Control::Shutdown);
    }

    /// Changes the settings. Addresses that changed are bound anew, everything else keeps its connections.
    pub fn reload(&self, conf: ServerConf) {
        let _ = self.0.send(Control::Reload(Box::new(conf)));
    }
}

impl Server {
    /// Binds the broker's sockets; from then on peers can connect and wait.
    ///
    /// # Errors
    /// An address cannot be listened on.
    pub async fn bind(conf: ServerConf) -> Result<Self, ServerError> {
        let sockets = Sockets::bind(&conf).await?;
        let (sender, control) = mpsc::unbounded_channel();
        info!("jobs are kept in memory only: what waits or runs when this process ends is lost");
        let hub = Hub::new(conf, sockets, Box::new(MemoryStore::default()));
        Ok(Self { hub, control, handle: ServerHandle(sender) })
    }

    /// The actual address for clients and schedulers.
    pub fn frontend(&self) -> &Endpoint {
        self.hub.sockets().bound(|roles| roles.frontend)
    }

    /// The actual address for workers.
    pub fn backend(&self) -> &Endpoint {
        self.hub.sockets().bound(|roles| roles.backend)
    }

    /// The actual address for admin shells.
    pub fn admin(&self) -> &Endpoint {
        self.hub.sockets().bound(|roles| roles.admin)
    }

    /// Takes clients and schedulers on one more address, such as an inproc one, and gives it back with its actual port.
    ///
    /// # Errors
    /// It cannot be listened on.
    pub async fn also_serve(&self, endpoint: &Endpoint) -> Result<Endpoint, BindError> {
        self.hub.sockets().bind_frontend(endpoint).await
    }

    /// Something to end or change the broker with while it runs.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Runs until it is shut down, by a [handle](Self::handle) or by an admin's DISCONNECT.
    ///
    /// # Errors
    /// The job store failed.
    pub async fn run(self) -> Result<(), ServerError> {
        // Our own sender is kept until the end, so that the receiver never reports its closing.
        let Self { hub, control, handle } = self;
        let result = hub.run(control).await;
        drop(handle);
        result
    }
}
