//! [`Pub`]: sends to whoever subscribes, and hears nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_sink::Sink;

use super::SocketBuilder;
use super::connections::connections;
use super::handle::Handle;
use crate::pattern::{PublishOptions, Publishing};
use crate::{ConnectError, Endpoint, Message, SendError, SendFailure, SocketType};

/// A PUB socket: each message goes to the subscribers whose topics its first frame begins with, once however many do
/// (RFC 29). It never waits: a subscriber whose queue is full does not get the message. What peers send is discarded.
///
/// A clone is another handle of the same socket, which closes with the last of them. Also a [`Sink`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use zmtp::{Message, Sub, XPub, XPubEvent};
///
/// // A PUB cannot tell when somebody subscribes; the XPUB that it otherwise resembles can.
/// let mut publisher = XPub::builder().build();
/// let endpoint = publisher.bind(&"tcp://127.0.0.1:0".parse()?).await?;
/// let mut sub = Sub::builder().build();
/// sub.subscribe("weather.")?;
/// sub.connect(&endpoint)?;
///
/// assert_eq!(publisher.recv().await?, XPubEvent::Subscribe("weather.".into()));
/// publisher.send(Message::from_frames(["sports.results", "3:1"])).await?;
/// publisher.send(Message::from_frames(["weather.today", "rain"])).await?;
/// assert_eq!(sub.recv().await?, Message::from_frames(["weather.today", "rain"]));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Pub {
    handle: Arc<Handle<Publishing>>,
}

impl SocketBuilder<Pub> {
    /// Makes the socket. Binding and connecting need a tokio runtime; this does not.
    pub fn build(self) -> Pub {
        let options = PublishOptions { listens: false, ..self.pattern.publish };
        Pub { handle: Handle::new(self.connection, self.options, Publishing::new(options)) }
    }
}

impl Pub {
    /// Settings of a new socket.
    pub fn builder() -> SocketBuilder<Self> {
        SocketBuilder::new(SocketType::Pub)
    }

    /// Connects to an endpoint, now and whenever the connection is lost.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.handle.connect(endpoint, |_, _| {})
    }

    /// Sends to everybody who subscribes to it and has room. Does not wait for room, but lets connections work now and
    /// then, so that a loop of it does not drop what could be sent.
    ///
    /// Cancel-safe: a message is either queued or not.
    ///
    /// # Errors
    /// `Closed` if the socket is closed.
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        self.handle.pace(&message).await;
        self.try_send(message)
    }

    /// As [`send`](Self::send), without ever giving up its turn.
    ///
    /// # Errors
    /// `Closed` if the socket is closed.
    pub fn try_send(&self, message: Message) -> Result<(), SendError> {
        publish(&self.handle, &message).map_err(|reason| reason.with(message))
    }
}

connections!(Pub, handle);

impl Sink<Message> for Pub {
    type Error = SendError;

    fn poll_ready(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(self: Pin<&mut Self>, message: Message) -> Result<(), SendError> {
        self.try_send(message)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    /// Nothing is left to do; the socket itself stays open.
    fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }
}

/// Queues a message for all who want it; `Full` only for a socket that is to drop nothing.
pub(super) fn publish(handle: &Handle<Publishing>, message: &Message) -> Result<(), SendFailure> {
    match handle.0.closing.is_cancelled() {
        true => Err(SendFailure::Closed),
        false if handle.0.pattern.lock().push(message) => Ok(()),
        false => Err(SendFailure::Full),
    }
}
