//! [`Publisher`] and [`Subscriber`]: the two sides of a pub/sub device.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use zmtp::{
    Dealer, Endpoint, Message, Monitor, MonitorEvent, Reconnect, RecvError, RoutingId, SendFailure, Sub, SubscribeError,
};

use super::ClientError;
use crate::emqp::{Command, MsgIds, Publish};

/// How long what is published may take to be written once a publisher is closed.
const LINGER: Duration = Duration::from_secs(5);

const RECONNECT: Reconnect = Reconnect { first: Duration::from_millis(50), longest: Duration::from_secs(2) };

/// Publishes through a pub/sub device (`emq pubsub`, or Python's emq-pubsub).
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use eventmq::client::Publisher;
///
/// let publisher = Publisher::connect(&"tcp://127.0.0.1:47298".parse()?)?;
/// publisher.publish("orders.new", r#"{"id": 4711}"#).await?;
/// publisher.close().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Publisher {
    dealer: Dealer,
    monitor: Monitor,
    ids: Mutex<MsgIds>,
}

/// A message was not published.
#[derive(Debug, Error)]
#[error("not published: {0}")]
pub struct PublishError(#[source] SendFailure);

impl Publisher {
    /// Connects to a device's incoming address, now and whenever the connection is lost. Needs a tokio runtime.
    ///
    /// # Errors
    /// Only for an address that can never be connected to.
    pub fn connect(endpoint: &Endpoint) -> Result<Self, ClientError> {
        let unique = uuid::Uuid::new_v4();
        let dealer = Dealer::builder()
            .routing_id(RoutingId::new(unique.to_string())?)
            .reconnect(RECONNECT)
            .linger(LINGER)
            .build();
        let monitor = dealer.monitor();
        dealer.connect(endpoint)?;
        Ok(Self { dealer, monitor, ids: Mutex::new(MsgIds::new(unique.as_u64_pair().0)) })
    }

    /// Waits until the device is connected to for the first time.
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn connected(&mut self) -> Result<(), PublishError> {
        loop {
            match self.monitor.recv().await {
                Some(MonitorEvent::HandshakeSucceeded { .. }) => return Ok(()),
                Some(_) => {}
                None => return Err(PublishError(SendFailure::Closed)),
            }
        }
    }

    /// Publishes a message; ready once it is queued for the device, which acknowledges nothing. Waits while there is no
    /// room. Cancel-safe.
    ///
    /// Python's device decodes topic and message as UTF-8, and ends if they are not.
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn publish(&self, topic: impl AsRef<[u8]>, payload: impl AsRef<[u8]>) -> Result<(), PublishError> {
        let msgid = self.ids.lock().unwrap_or_else(PoisonError::into_inner).next_id();
        let publish = Publish { topic: topic.as_ref(), headers: None, payload: payload.as_ref() };
        let message = Command::Publish(publish).to_message(&msgid);
        self.dealer.send(message).await.map_err(|error| PublishError(error.reason))
    }

    /// Ends the connection once everything is written, or after 5 s.
    pub async fn close(self) {
        self.dealer.close().await;
    }
}

/// Receives what is published through a pub/sub device.
#[derive(Debug)]
pub struct Subscriber {
    sub: Sub,
}

/// A published message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// What it was published under.
    pub topic: Bytes,
    /// The message.
    pub payload: Bytes,
}

impl Subscriber {
    /// Connects to a device's outgoing address, now and whenever the connection is lost. Needs a tokio runtime.
    ///
    /// # Errors
    /// Only for an address that can never be connected to.
    pub fn connect(endpoint: &Endpoint) -> Result<Self, ClientError> {
        let sub = Sub::builder().reconnect(RECONNECT).build();
        sub.connect(endpoint)?;
        Ok(Self { sub })
    }

    /// From now on also what is published under topics that begin with this; `""` is everything.
    ///
    /// # Errors
    /// The topic is too long.
    pub fn subscribe(&self, topic: impl AsRef<[u8]>) -> Result<(), SubscribeError> {
        self.sub.subscribe(topic)
    }

    /// The next message. Cancel-safe.
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn recv(&mut self) -> Result<Publication, RecvError> {
        let message: Message = self.sub.recv().await?;
        // A device sends topic and message; what other publishers may send is one frame, or more: the last is taken.
        let topic = message.frame_bytes(0).unwrap_or_default();
        let payload = message.frame_bytes(message.frame_count() - 1).unwrap_or_default();
        Ok(Publication { topic, payload })
    }
}
