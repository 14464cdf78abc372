//! [`Device`]: the publisher as a running service.

use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tracing::{debug, info, warn};
use zmtp::{BindError, Endpoint, Heartbeat, Limits, Pub, Router};

use super::core::Publisher;

/// How long messages for subscribers are still sent after the end.
const LINGER: Duration = Duration::from_secs(2);

/// Everything a publisher needs to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConf {
    /// Where clients publish.
    pub incoming: Endpoint,
    /// Where subscribers connect.
    pub outgoing: Endpoint,
    /// Most connections at a time, for each of the two.
    pub max_connections: usize,
    /// Largest frame and message taken from a peer.
    pub limits: Limits,
    /// PINGs of connections; `None` sends none.
    pub heartbeat: Option<Heartbeat>,
    /// Most messages queued for one subscriber; one that is slower loses what comes on top.
    pub send_hwm: usize,
    /// Most messages of one client read and not published yet.
    pub receive_hwm: usize,
}

impl Default for DeviceConf {
    /// EventMQ's usual ports on the loopback address.
    fn default() -> Self {
        let local = |port| Endpoint::from(SocketAddr::from(([127, 0, 0, 1], port)));
        Self {
            incoming: local(47298),
            outgoing: local(47299),
            max_connections: usize::MAX,
            limits: Limits::default(),
            heartbeat: None,
            send_hwm: 10_000,
            receive_hwm: 1_000,
        }
    }
}

/// Why a publisher could not start, or ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
}

/// A publisher that listens; [`run`](Self::run) makes it work.
#[derive(Debug)]
pub struct Device {
    core: Publisher,
    incoming: Router,
    outgoing: Pub,
    bound: (Endpoint, Endpoint),
    stop: watch::Receiver<bool>,
    handle: DeviceHandle,
}

/// Tells a running [`Device`] to end; cheap to clone.
#[derive(Debug, Clone)]
pub struct DeviceHandle(watch::Sender<bool>);

impl DeviceHandle {
    /// Ends the publisher: what it has taken is still sent, then [`Device::run`] returns.
    pub fn shutdown(&self) {
        self.0.send_replace(true);
    }
}

impl Device {
    /// Listens on both addresses; needs a tokio runtime.
    ///
    /// # Errors
    /// One of them cannot be listened on.
    pub async fn bind(conf: &DeviceConf) -> Result<Self, DeviceError> {
        let incoming = Router::builder()
            .limits(conf.limits)
            .max_connections(conf.max_connections)
            .heartbeat(conf.heartbeat)
            .receive_hwm(conf.receive_hwm)
            .linger(LINGER)
            .build();
        let outgoing = Pub::builder()
            .limits(conf.limits)
            .max_connections(conf.max_connections)
            .heartbeat(conf.heartbeat)
            .send_hwm(conf.send_hwm)
            .linger(LINGER)
            .build();
        let bound = (incoming.bind(&conf.incoming).await?, outgoing.bind(&conf.outgoing).await?);
        info!(endpoint = %bound.0, "listening for what is published");
        info!(endpoint = %bound.1, "listening for subscribers");
        let (sender, stop) = watch::channel(false);
        Ok(Self { core: Publisher::new(), incoming, outgoing, bound, stop, handle: DeviceHandle(sender) })
    }

    /// The actual address for clients.
    pub fn incoming(&self) -> &Endpoint {
        &self.bound.0
    }

    /// The actual address for subscribers.
    pub fn outgoing(&self) -> &Endpoint {
        &self.bound.1
    }

    /// Something to end the publisher with while it runs.
    pub fn handle(&self) -> DeviceHandle {
        self.handle.clone()
    }

    /// Publishes until it is shut down by a [handle](Self::handle).
    ///
    /// # Errors
    /// None so far.
    pub async fn run(self) -> Result<(), DeviceError> {
        let Self { mut core, mut incoming, outgoing, mut stop, handle, .. } = self;
        loop {
            let (from, message) = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                received = incoming.recv() => match received {
                    Ok(received) => received,
                    Err(_) => break,
                },
            };
            if let Some(publication) = core.on_message(&from, &message)
                && let Err(error) = outgoing.send(publication).await
            {
                warn!(reason = ?error.reason, "a message was not published");
            }
        }
        let counters = core.counters();
        debug!(counters.published, counters.dropped, "publisher ends");
        drop(handle);
        incoming.close().await;
        outgoing.close().await;
        Ok(())
    }
}
