//! [`Dealer`]: deals messages out to its peers in turn, and receives from them in turn.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use super::SocketBuilder;
use super::handle::Handle;
use super::receiving::Receiving;
use crate::engine::core::Core;
use crate::monitor::Monitor;
use crate::pattern::Rotation;
use crate::{BindError, ConnectError, Endpoint, Message, RecvError, SendError, SendFailure, SocketType};

/// A DEALER socket: round robin out, fair-queued in (RFC 28). See [`Router`](crate::Router) for an example.
#[derive(Debug)]
pub struct Dealer {
    sender: DealerSender,
    receiver: DealerReceiver,
}

impl SocketBuilder<Dealer> {
    /// Makes the socket. Binding and connecting need a tokio runtime; this does not.
    pub fn build(self) -> Dealer {
        let handle = Arc::new(Handle(Core::new(self.connection, self.options, Rotation::default())));
        Dealer {
            sender: DealerSender { handle: handle.clone() },
            receiver: DealerReceiver { handle, receiving: Receiving::default() },
        }
    }
}

impl Dealer {
    /// Settings of a new socket.
    pub fn builder() -> SocketBuilder<Self> {
        SocketBuilder::new(SocketType::Dealer)
    }

    /// Listens on an endpoint; gives it back with its actual port.
    ///
    /// # Errors
    /// The endpoint cannot be listened on, or the system refuses.
    pub async fn bind(&self, endpoint: &Endpoint) -> Result<Endpoint, BindError> {
        self.sender.handle.bind(endpoint).await
    }

    /// Connects to an endpoint, now and whenever the connection is lost. Messages may be sent at once: they wait.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.sender.handle.connect(endpoint, |rotation, pipe| rotation.add(pipe))
    }

    /// Stops listening on an endpoint, named as [`bind`](Self::bind) gave it back, and waits until the port is free.
    /// Its connections stay. Whether there was such a listener.
    pub async fn unbind(&self, endpoint: &Endpoint) -> bool {
        self.sender.handle.unbind(endpoint).await
    }

    /// Ends the connection to an endpoint given to [`connect`](Self::connect); what is queued for it is still sent,
    /// within the linger time. Whether there was one.
    pub fn disconnect(&self, endpoint: &Endpoint) -> bool {
        self.sender.handle.disconnect(endpoint)
    }

    /// Sends to the next peer that has room; waits while none has. See [`DealerSender::send`].
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        self.sender.send(message).await
    }

    /// Sends to the next peer that has room, or gives the message back. See [`DealerSender::try_send`].
    ///
    /// # Errors
    /// `Full` or `Closed`.
    pub fn try_send(&self, message: Message) -> Result<(), SendError> {
        self.sender.try_send(message)
    }

    /// The next message. See [`DealerReceiver::recv`].
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn recv(&mut self) -> Result<Message, RecvError> {
        self.receiver.recv().await
    }

    /// What happens to the connections from now on.
    pub fn monitor(&self) -> Monitor {
        self.sender.handle.monitor()
    }

    /// The two halves, for two tasks.
    pub fn split(self) -> (DealerSender, DealerReceiver) {
        (self.sender, self.receiver)
    }

    /// Closes the socket: what is queued is sent, at most for as long as linger allows; waits until that is done.
    ///
    /// Dropping the socket does the same in the background.
    pub async fn close(self) {
        self.sender.handle.close().await;
    }
}

/// The sending half of a [`Dealer`]; cheap to clone. The socket closes with its last handle.
#[derive(Debug, Clone)]
pub struct DealerSender {
    handle: Arc<Handle<Rotation>>,
}

impl DealerSender {
    /// Sends to the next peer that has room, waiting while there is none.
    ///
    /// Cancel-safe: a message is either queued whole or not at all.
    ///
    /// # Errors
    /// `Closed` if the socket is closed.
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        let mut message = message;
        loop {
            // Registered before the attempt, so that room made in between is not missed.
            let mut room = pin!(self.handle.0.room.notified());
            room.as_mut().enable();
            match self.try_send(message) {
                Err(SendError { reason: SendFailure::Full, message: back }) => message = back,
                done => return done,
            }
            room.await;
        }
    }

    /// Queues a message for the next peer that has room, or gives it back at once with the reason.
    ///
    /// # Errors
    /// `Full` if no peer has room or there is none; `Closed` if the socket is closed.
    pub fn try_send(&self, message: Message) -> Result<(), SendError> {
        let sent = self.handle.0.pattern.lock().push(&message);
        if sent {
            return Ok(());
        }
        let closed = self.handle.0.closing.is_cancelled();
        Err(SendError { reason: if closed { SendFailure::Closed } else { SendFailure::Full }, message })
    }
}

/// The receiving half of a [`Dealer`].
#[derive(Debug)]
pub struct DealerReceiver {
    handle: Arc<Handle<Rotation>>,
    receiving: Receiving,
}

impl DealerReceiver {
    /// The next message, the peers taking turns.
    ///
    /// Cancel-safe: nothing is taken out before it is returned.
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn recv(&mut self) -> Result<Message, RecvError> {
        let Self { handle, receiving } = self;
        poll_fn(|cx| receiving.poll_message(&handle.0.inbox, cx)).await.map(|(_, message)| message)
    }

    /// The next message if there is one now.
    pub fn try_recv(&mut self) -> Option<Message> {
        self.receiving.next_message(&self.handle.0.inbox).map(|(_, message)| message)
    }
}
