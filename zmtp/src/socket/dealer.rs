//! [`Dealer`]: deals messages out to its peers in turn, and receives from them in turn.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::Notify;

use super::SocketBuilder;
use super::connections::{connections, sink};
use super::handle::Handle;
use super::outgoing::Outgoing;
use super::push::deal;
use super::receiving::Receiving;
use crate::pattern::Rotation;
use crate::{ConnectError, Endpoint, Message, RecvError, SendError, SocketType};

/// A DEALER socket: round robin out, fair-queued in (RFC 28). See [`Router`](crate::Router) for an example.
#[derive(Debug)]
pub struct Dealer {
    sender: DealerSender,
    receiver: DealerReceiver,
}

impl SocketBuilder<Dealer> {
    /// Makes the socket. Binding and connecting need a tokio runtime; this does not.
    pub fn build(self) -> Dealer {
        let (keep, rotation) = (self.options.keep, Rotation::new(self.pattern.immediate));
        let handle = Handle::new(self.connection, self.options, rotation);
        Dealer {
            sender: DealerSender { handle: handle.clone(), outgoing: Outgoing::default() },
            receiver: DealerReceiver { handle, receiving: Receiving::new(keep) },
        }
    }
}

impl Dealer {
    /// Settings of a new socket.
    pub fn builder() -> SocketBuilder<Self> {
        SocketBuilder::new(SocketType::Dealer)
    }

    /// Connects to an endpoint, now and whenever the connection is lost. Messages may be sent at once: they wait.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.sender.handle.connect(endpoint, |rotation, pipe| rotation.add(pipe))
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

    /// The two halves, for two tasks.
    pub fn split(self) -> (DealerSender, DealerReceiver) {
        (self.sender, self.receiver)
    }

    /// Told when a send that found no room may be tried again.
    pub(crate) fn room(&self) -> Arc<Notify> {
        self.sender.handle.0.room.clone()
    }
}

connections!(Dealer, sender.handle);

/// The sending half of a [`Dealer`]; cheap to clone. Also a [`Sink`](futures_sink::Sink). The socket closes with its last handle.
#[derive(Debug)]
pub struct DealerSender {
    handle: Arc<Handle<Rotation>>,
    outgoing: Outgoing,
}

impl DealerSender {
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

    /// As [`Dealer::close`].
    pub async fn close(&self) {
        self.handle.close().await;
    }
}

sink!(DealerSender, deal);

/// The receiving half of a [`Dealer`]. Also a [`Stream`], which ends when the socket is closed.
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
        poll_fn(|cx| receiving.poll_body(&handle.0.inbox, cx)).await
    }

    /// The next message if there is one now.
    pub fn try_recv(&mut self) -> Option<Message> {
        self.receiving.next_body(&self.handle.0.inbox)
    }
}

impl Stream for DealerReceiver {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let Self { handle, receiving } = self.get_mut();
        receiving.poll_body(&handle.0.inbox, cx).map(Result::ok)
    }
}
