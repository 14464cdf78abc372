//! [`Wire`]: the DEALER socket of a session.

use std::future::pending;
use std::time::Duration;

use tracing::{debug, error, warn};
use zmtp::{Dealer, Endpoint, Limits, Message, Monitor, MonitorEvent, RoutingId};

use super::{Input, Link};

/// What the socket is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireOptions {
    /// Largest frame and message taken from the broker.
    pub limits: Limits,
    /// How long what is queued is still sent after the end.
    pub linger: Duration,
    /// Most messages queued for the broker.
    pub send_hwm: usize,
}

impl Default for WireOptions {
    fn default() -> Self {
        Self { limits: Limits::default(), linger: Duration::from_secs(2), send_hwm: 10_000 }
    }
}

/// The socket a [`Session`](super::Session)'s effects are carried out on; needs a tokio runtime.
#[derive(Debug)]
pub struct Wire {
    options: WireOptions,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    dealer: Dealer,
    monitor: Monitor,
    /// The state of the connection, as last reported.
    link: Link,
    /// The address cannot be connected to at all; said once.
    refused: bool,
}

impl Wire {
    /// A wire that is not open.
    pub fn new(options: WireOptions) -> Self {
        Self { options, open: None }
    }

    /// Opens a socket in place of the former one, which is closed behind what it still has to send.
    pub fn open(&mut self, endpoint: &Endpoint, identity: RoutingId) {
        let dealer = Dealer::builder()
            .routing_id(identity)
            .linger(self.options.linger)
            .send_hwm(self.options.send_hwm)
            .limits(self.options.limits)
            .build();
        let monitor = dealer.monitor();
        let refused =
            dealer.connect(endpoint).inspect_err(|error| error!(%endpoint, "cannot connect: {error}")).is_err();
        self.open = Some(Open { dealer, monitor, link: Link::Down, refused });
    }

    /// Queues a message for the broker, now or once it is there.
    pub fn send(&self, message: Message) {
        let Some(open) = &self.open else { return };
        if let Err(error) = open.dealer.try_send(message) {
            warn!(reason = ?error.reason, "a message for the broker is dropped");
        }
    }

    /// What happens next on the socket; never returns while none is open. Cancel-safe.
    pub async fn next(&mut self) -> Input {
        let Some(open) = &mut self.open else { return pending().await };
        if std::mem::take(&mut open.refused) {
            return Input::Link(Link::Refused);
        }
        loop {
            tokio::select! {
                // In this order a message never comes before the connection it came on.
                biased;
                Some(event) = open.monitor.recv() => {
                    if let Some(link) = link(&event) {
                        open.link = link;
                        return Input::Link(link);
                    }
                }
                Ok(message) = open.dealer.recv() => return Input::Received(message),
                else => return pending().await,
            }
        }
    }

    /// Closes; what is queued for a broker that is there is sent first, within linger.
    pub async fn close(mut self) {
        match self.open.take() {
            Some(open) if open.link == Link::Up => open.dealer.close().await,
            // Nobody is there to wait for.
            other => drop(other),
        }
    }
}

fn link(event: &MonitorEvent) -> Option<Link> {
    match event {
        MonitorEvent::HandshakeSucceeded { .. } => Some(Link::Up),
        MonitorEvent::Disconnected { reason, .. } => {
            debug!(%reason, "connection to the broker lost");
            Some(Link::Down)
        }
        MonitorEvent::GaveUp { reason, .. } => {
            warn!(%reason, "the broker refuses the connection");
            Some(Link::Refused)
        }
        _ => None,
    }
}
