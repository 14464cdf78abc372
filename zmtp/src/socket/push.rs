//! [`Push`]: deals messages out to its peers in turn, and hears nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_sink::Sink;
use tokio::sync::Notify;

use super::SocketBuilder;
use super::handle::Handle;
use super::outgoing::Outgoing;
use crate::monitor::Monitor;
use crate::pattern::Rotation;
use crate::{BindError, ConnectError, Endpoint, Message, SendError, SendFailure, SocketType};

/// A PUSH socket: round robin to the PULLs that have room (RFC 30). What peers send is discarded.
///
/// A clone is another handle of the same socket, which closes with the last of them. Also a [`Sink`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use zmtp::{Message, Pull, Push};
///
/// let push = Push::builder().build();
/// let endpoint = push.bind(&"tcp://127.0.0.1:0".parse()?).await?;
///
/// let mut pull = Pull::builder().build();
/// pull.connect(&endpoint)?;
/// push.send(Message::from("task")).await?;
/// assert_eq!(pull.recv().await?, Message::from("task"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Push {
    handle: Arc<Handle<Rotation>>,
    outgoing: Outgoing,
}

impl SocketBuilder<Push> {
    /// Makes the socket. Binding and connecting need a tokio runtime; this does not.
    pub fn build(self) -> Push {
        let rotation = Rotation::new(self.pattern.immediate);
        Push { handle: Handle::new(self.connection, self.options, rotation), outgoing: Outgoing::default() }
    }
}

impl Push {
    /// Settings of a new socket.
    pub fn builder() -> SocketBuilder<Self> {
        SocketBuilder::new(SocketType::Push)
    }

    /// Listens on an endpoint; gives it back with its actual port.
    ///
    /// # Errors
    /// The endpoint cannot be listened on, or the system refuses.
    pub async fn bind(&self, endpoint: &Endpoint) -> Result<Endpoint, BindError> {
        self.handle.bind(endpoint).await
    }

    /// Connects to an endpoint, now and whenever the connection is lost. Messages may be sent at once: they wait.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.handle.connect(endpoint, |rotation, pipe| rotation.add(pipe))
    }

    /// Stops listening on an endpoint, named as [`bind`](Self::bind) gave it back, and waits until the port is free.
    /// Its connections stay. Whether there was such a listener.
    pub async fn unbind(&self, endpoint: &Endpoint) -> bool {
        self.handle.unbind(endpoint).await
    }

    /// Ends the connection to an endpoint given to [`connect`](Self::connect); what is queued for it is still sent,
    /// within the linger time. Whether there was one.
    pub fn disconnect(&self, endpoint: &Endpoint) -> bool {
        self.handle.disconnect(endpoint)
    }

    /// What happens to the connections from now on.
    pub fn monitor(&self) -> Monitor {
        self.handle.monitor()
    }

    /// Sends to the next peer that has room, waiting while there is none.
    ///
    /// Cancel-safe: a message is either queued whole or not at all.
    ///
    /// # Errors
    /// `Closed` if the socket is closed.
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        self.handle.send(message, |message| deal(&self.handle, message)).await
    }

    /// Queues a message for the next peer that has room, or gives it back at once with the reason.
    ///
    /// # Errors
    /// `Full` if no peer has room or there is none; `Closed` if the socket is closed.
    pub fn try_send(&self, message: Message) -> Result<(), SendError> {
        deal(&self.handle, &message).map_err(|reason| reason.with(message))
    }

    /// Told when a send that found no room may be tried again.
    pub(crate) fn room(&self) -> Arc<Notify> {
        self.handle.0.room.clone()
    }

    /// Closes the socket, for all its handles: what is queued is sent, at most for as long as linger allows; waits until that is done.
    ///
    /// Dropping the socket does the same in the background.
    pub async fn close(self) {
        self.handle.close().await;
    }
}

impl Clone for Push {
    /// Another handle. What is under way through this one as a [`Sink`] stays with it.
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), outgoing: Outgoing::default() }
    }
}

impl Sink<Message> for Push {
    type Error = SendError;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.poll_flush(cx)
    }

    fn start_send(self: Pin<&mut Self>, message: Message) -> Result<(), SendError> {
        self.get_mut().outgoing.start(message);
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let Self { handle, outgoing } = self.get_mut();
        outgoing.poll_flush(cx, &handle.0.room, |message| deal(handle, message))
    }

    /// Waits until everything is queued; the socket itself stays open.
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.poll_flush(cx)
    }
}

/// Queues a message for the next peer that has room.
pub(super) fn deal(handle: &Handle<Rotation>, message: &Message) -> Result<(), SendFailure> {
    if handle.0.pattern.lock().push(message) {
        return Ok(());
    }
    Err(if handle.0.closing.is_cancelled() { SendFailure::Closed } else { SendFailure::Full })
}
