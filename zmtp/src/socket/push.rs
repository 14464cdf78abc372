//! [`Push`]: deals messages out to its peers in turn, and hears nothing.

use std::sync::Arc;

use tokio::sync::Notify;

use super::SocketBuilder;
use super::connections::{connections, sink};
use super::handle::Handle;
use super::outgoing::Outgoing;
use crate::pattern::Rotation;
use crate::{ConnectError, Endpoint, Message, SendError, SendFailure, SocketType};

/// A PUSH socket: round robin to the PULLs that have room (RFC 30). What peers send is discarded.
///
/// A clone is another handle of the same socket, which closes with the last of them. Also a [`Sink`](futures_sink::Sink).
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

    /// Connects to an endpoint, now and whenever the connection is lost. Messages may be sent at once: they wait.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.handle.connect(endpoint, |rotation, pipe| rotation.add(pipe))
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
}

connections!(Push, handle);

sink!(Push, deal);

/// Queues a message for the next peer that has room.
pub(super) fn deal(handle: &Handle<Rotation>, message: &Message) -> Result<(), SendFailure> {
    if handle.0.pattern.lock().push(message) {
        return Ok(());
    }
    Err(if handle.0.closing.is_cancelled() { SendFailure::Closed } else { SendFailure::Full })
}
