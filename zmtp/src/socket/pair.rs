//! [`Pair`]: talks to one peer.

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
use super::receiving::Receiving;
use crate::engine::pipe::PipeError;
use crate::pattern::Lone;
use crate::{ConnectError, Endpoint, Message, RecvError, SendError, SendFailure, SocketType};

/// A PAIR socket: one peer at a time, messages both ways (RFC 31).
///
/// A second peer is closed as soon as its handshake is complete; it gets in once the first has left. libzmq leaves it
/// open and ignores it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use zmtp::{Message, Pair};
///
/// let mut here = Pair::builder().build();
/// let endpoint = here.bind(&"tcp://127.0.0.1:0".parse()?).await?;
/// let mut there = Pair::builder().build();
/// there.connect(&endpoint)?;
///
/// there.send(Message::from("hello")).await?;
/// assert_eq!(here.recv().await?, Message::from("hello"));
/// here.send(Message::from("hello yourself")).await?;
/// assert_eq!(there.recv().await?, Message::from("hello yourself"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Pair {
    sender: PairSender,
    receiver: PairReceiver,
}

impl SocketBuilder<Pair> {
    /// Makes the socket. Binding and connecting need a tokio runtime; this does not.
    pub fn build(self) -> Pair {
        let handle = Handle::new(self.connection, self.options, Lone::new(self.pattern.immediate));
        Pair {
            sender: PairSender { handle: handle.clone(), outgoing: Outgoing::default() },
            receiver: PairReceiver { handle, receiving: Receiving::default() },
        }
    }
}

impl Pair {
    /// Settings of a new socket.
    pub fn builder() -> SocketBuilder<Self> {
        SocketBuilder::new(SocketType::Pair)
    }

    /// Connects to an endpoint, now and whenever the connection is lost. Messages may be sent at once: they wait.
    ///
    /// While there is another peer, that one stays and the endpoint is tried again and again.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.sender.handle.connect(endpoint, |lone, pipe| lone.add(pipe))
    }

    /// Sends to the peer; waits while there is none or its queue is full. See [`PairSender::send`].
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        self.sender.send(message).await
    }

    /// Sends to the peer, or gives the message back. See [`PairSender::try_send`].
    ///
    /// # Errors
    /// `Full` or `Closed`.
    pub fn try_send(&self, message: Message) -> Result<(), SendError> {
        self.sender.try_send(message)
    }

    /// The next message. See [`PairReceiver::recv`].
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn recv(&mut self) -> Result<Message, RecvError> {
        self.receiver.recv().await
    }

    /// The next message if there is one now.
    pub fn try_recv(&mut self) -> Option<Message> {
        self.receiver.try_recv()
    }

    /// The two halves, for two tasks.
    pub fn split(self) -> (PairSender, PairReceiver) {
        (self.sender, self.receiver)
    }

    /// Told when a send that found no room may be tried again.
    pub(crate) fn room(&self) -> Arc<Notify> {
        self.sender.handle.0.room.clone()
    }
}

connections!(Pair, sender.handle);

/// The sending half of a [`Pair`]; cheap to clone. Also a [`Sink`](futures_sink::Sink). The socket closes with its last handle.
#[derive(Debug)]
pub struct PairSender {
    handle: Arc<Handle<Lone>>,
    outgoing: Outgoing,
}

impl PairSender {
    /// Sends to the peer, waiting while there is none or its queue is full.
    ///
    /// Cancel-safe: a message is either queued whole or not at all.
    ///
    /// # Errors
    /// `Closed` if the socket is closed.
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        self.handle.send(message, |message| push(&self.handle, message)).await
    }

    /// Queues a message for the peer, or gives it back at once with the reason.
    ///
    /// # Errors
    /// `Full` if the peer has no room or there is none; `Closed` if the socket is closed.
    pub fn try_send(&self, message: Message) -> Result<(), SendError> {
        push(&self.handle, &message).map_err(|reason| reason.with(message))
    }
}

sink!(PairSender, push);

fn push(handle: &Handle<Lone>, message: &Message) -> Result<(), SendFailure> {
    match handle.0.pattern.lock().push(message) {
        Ok(()) => Ok(()),
        Err(_) if handle.0.closing.is_cancelled() => Err(SendFailure::Closed),
        // A peer that is leaving: the next one will have room.
        Err(PipeError::Full | PipeError::Closed) => Err(SendFailure::Full),
    }
}

/// The receiving half of a [`Pair`]. Also a [`Stream`], which ends when the socket is closed.
#[derive(Debug)]
pub struct PairReceiver {
    handle: Arc<Handle<Lone>>,
    receiving: Receiving,
}

impl PairReceiver {
    /// The next message.
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

impl Stream for PairReceiver {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let Self { handle, receiving } = self.get_mut();
        receiving.poll_body(&handle.0.inbox, cx).map(Result::ok)
    }
}
