//! [`Router`]: talks to many peers by their routing ids.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::SocketBuilder;
use super::connections::connections;
use super::handle::Handle;
use super::receiving::Receiving;
use crate::connection::PeerInfo;
use crate::engine::inbox::Delivery;
use crate::engine::pipe::PipeError;
use crate::monitor::{Monitor, Reason};
use crate::pattern::Routes;
use crate::random::Random;
use crate::{BindError, ConnectError, Endpoint, Message, RecvError, RoutingId, SendError, SendFailure, SocketType};

/// What a ROUTER does when a second connection announces a routing id in use (ROUTER_HANDOVER).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Handover {
    /// The newcomer is closed, so that it retries; the one that is there stays.
    #[default]
    Refuse,
    /// The newcomer takes the id over and the old connection is closed: for peers that come back before their old
    /// connection was noticed to be dead.
    Replace,
}

/// A ROUTER socket: receives from all its peers in turn, and sends to the one named (RFC 28).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use zmtp::{Dealer, Message, Router};
///
/// let mut router = Router::builder().build();
/// let endpoint = router.bind(&"tcp://127.0.0.1:0".parse()?).await?;
///
/// let mut dealer = Dealer::builder().build();
/// dealer.connect(&endpoint)?;
/// dealer.send(Message::from("ping")).await?;
///
/// let (peer, message) = router.recv().await?;
/// assert_eq!(message, Message::from("ping"));
/// router.send(&peer, Message::from("pong")).await?;
/// assert_eq!(dealer.recv().await?, Message::from("pong"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Router {
    sender: RouterSender,
    receiver: RouterReceiver,
}

impl SocketBuilder<Router> {
    /// What happens to a second connection with a routing id in use (ROUTER_HANDOVER). Default: it is refused.
    pub fn handover(mut self, handover: Handover) -> Self {
        self.handover = handover;
        self
    }

    /// Makes the socket. Binding and connecting need a tokio runtime; this does not.
    pub fn build(self) -> Router {
        let routes = Routes::new(self.handover, Random::from_system().next() as u32);
        let handle = Handle::new(self.connection, self.options, routes);
        Router {
            sender: RouterSender { handle: handle.clone() },
            receiver: RouterReceiver { handle, receiving: Receiving::default() },
        }
    }
}

impl Router {
    /// Settings of a new socket.
    pub fn builder() -> SocketBuilder<Self> {
        SocketBuilder::new(SocketType::Router)
    }

    /// Connects to an endpoint, now and whenever the connection is lost.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.sender.handle.connect(endpoint, |_, _| {})
    }

    /// As [`connect`](Self::connect), with a routing id of our choice for whoever is there, whatever it announces
    /// (CONNECT_ROUTING_ID). Messages may be sent to it at once: they wait.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and `RoutingIdInUse` if another peer has that id.
    pub fn connect_as(&self, endpoint: &Endpoint, peer: &RoutingId) -> Result<(), ConnectError> {
        self.sender.handle.try_connect(endpoint, |routes, pipe| match routes.name(pipe, peer.clone()) {
            true => Ok(()),
            false => Err(ConnectError::RoutingIdInUse(peer.clone())),
        })
    }

    /// Sends to a peer; waits while its queue is full. See [`RouterSender::send`].
    ///
    /// # Errors
    /// `Gone` if no connection has that routing id, `Closed` if the socket is closed.
    pub async fn send(&self, to: &RoutingId, message: Message) -> Result<(), SendError> {
        self.sender.send(to, message).await
    }

    /// Sends to a peer or says at once why not. See [`RouterSender::try_send`].
    ///
    /// # Errors
    /// `Full`, `Gone` or `Closed`.
    pub fn try_send(&self, to: &RoutingId, message: Message) -> Result<(), SendError> {
        self.sender.try_send(to, message)
    }

    /// The next message and its sender. See [`RouterReceiver::recv`].
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn recv(&mut self) -> Result<(RoutingId, Message), RecvError> {
        self.receiver.recv().await
    }

    /// The next event. See [`RouterReceiver::recv_event`].
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn recv_event(&mut self) -> Result<RouterEvent, RecvError> {
        self.receiver.recv_event().await
    }

    /// The two halves, for two tasks.
    pub fn split(self) -> (RouterSender, RouterReceiver) {
        (self.sender, self.receiver)
    }
}

connections!(Router, sender.handle);

/// The sending half of a [`Router`]; cheap to clone. The socket closes with its last handle.
#[derive(Debug, Clone)]
pub struct RouterSender {
    handle: Arc<Handle<Routes>>,
}

impl RouterSender {
    /// As [`Router::bind`].
    ///
    /// # Errors
    /// As there.
    pub async fn bind(&self, endpoint: &Endpoint) -> Result<Endpoint, BindError> {
        self.handle.bind(endpoint).await
    }

    /// Stops listening on an endpoint, named as [`bind`](Self::bind) gave it back, and waits until the port is free.
    /// Its connections stay. Whether there was such a listener.
    pub async fn unbind(&self, endpoint: &Endpoint) -> bool {
        self.handle.unbind(endpoint).await
    }

    /// Sends to a peer, waiting while its queue is at the high-water mark (ROUTER_MANDATORY).
    ///
    /// Cancel-safe: a message is either queued whole or not at all.
    ///
    /// # Errors
    /// `Gone` if no connection has that routing id, also if the peer leaves while we wait; `Closed` if the socket is.
    pub async fn send(&self, to: &RoutingId, message: Message) -> Result<(), SendError> {
        self.handle.send(message, |message| self.route(to, message)).await
    }

    /// Queues a message for a peer, or gives it back at once with the reason.
    ///
    /// # Errors
    /// `Full` at the high-water mark, `Gone` if no connection has that routing id, `Closed` if the socket is.
    pub fn try_send(&self, to: &RoutingId, message: Message) -> Result<(), SendError> {
        self.route(to, &message).map_err(|reason| reason.with(message))
    }

    fn route(&self, to: &RoutingId, message: &Message) -> Result<(), SendFailure> {
        let result = self.handle.0.pattern.lock().push(to, message);
        match result {
            Some(Ok(())) => Ok(()),
            Some(Err(PipeError::Full)) => Err(SendFailure::Full),
            Some(Err(PipeError::Closed)) | None if self.handle.0.closing.is_cancelled() => Err(SendFailure::Closed),
            Some(Err(PipeError::Closed)) | None => Err(SendFailure::Gone),
        }
    }

    /// The routing ids that can be sent to now, in no order: of peers that are there, and of connected endpoints that
    /// are to come back.
    pub fn peers(&self) -> Vec<RoutingId> {
        self.handle.0.pattern.lock().peers().cloned().collect()
    }

    /// As [`Router::monitor`].
    pub fn monitor(&self) -> Monitor {
        self.handle.monitor()
    }

    /// As [`Router::close`].
    pub async fn close(&self) {
        self.handle.close().await;
    }
}

/// The receiving half of a [`Router`]. Also a [`Stream`], which ends when the socket is closed.
#[derive(Debug)]
pub struct RouterReceiver {
    handle: Arc<Handle<Routes>>,
    receiving: Receiving,
}

/// What a ROUTER receives, in the order it happened per peer.
#[derive(Debug)]
#[non_exhaustive]
pub enum RouterEvent {
    /// A peer's handshake is complete. Comes before its first message.
    Up {
        /// What it is known by.
        peer: RoutingId,
        /// What it told.
        info: Box<PeerInfo>,
    },
    /// Messages of one peer that arrived together, at least one.
    Messages {
        /// Who sent them.
        peer: RoutingId,
        /// The messages, oldest first.
        messages: VecDeque<Message>,
    },
    /// A peer's connection ended, and no other has its routing id. Comes after its last message.
    Down {
        /// Who is gone.
        peer: RoutingId,
        /// Why.
        reason: Reason,
    },
}

impl RouterReceiver {
    /// The next message and its sender, the peers taking turns.
    ///
    /// Cancel-safe: nothing is taken out before it is returned.
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn recv(&mut self) -> Result<(RoutingId, Message), RecvError> {
        let Self { handle, receiving } = self;
        poll_fn(|cx| receiving.poll_message(&handle.0.inbox, cx)).await
    }

    /// The next event: a peer's coming, a run of its messages, its going.
    ///
    /// For servers that handle everything that is there before they answer: see [`try_recv_event`](Self::try_recv_event).
    /// Cancel-safe.
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn recv_event(&mut self) -> Result<RouterEvent, RecvError> {
        poll_fn(|cx| self.poll_recv_event(cx)).await
    }

    /// The next event if there is one now.
    pub fn try_recv_event(&mut self) -> Option<RouterEvent> {
        self.set_aside().or_else(|| self.receiving.try_delivery(&self.handle.0.inbox).map(RouterEvent::from))
    }

    /// As [`recv_event`](Self::recv_event), for hand-written futures.
    pub fn poll_recv_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<RouterEvent, RecvError>> {
        match self.set_aside() {
            Some(event) => Poll::Ready(Ok(event)),
            None => self.receiving.poll_delivery(&self.handle.0.inbox, cx).map_ok(RouterEvent::from),
        }
    }

    /// What an earlier `recv` took in with the message it returned.
    fn set_aside(&mut self) -> Option<RouterEvent> {
        let (peer, message) = self.receiving.set_aside()?;
        Some(RouterEvent::Messages { peer, messages: VecDeque::from([message]) })
    }
}

impl Stream for RouterReceiver {
    type Item = (RoutingId, Message);

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { handle, receiving } = self.get_mut();
        receiving.poll_message(&handle.0.inbox, cx).map(Result::ok)
    }
}

impl From<Delivery> for RouterEvent {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Up { peer, info, .. } => Self::Up { peer, info },
            Delivery::Down { peer, reason } => Self::Down { peer, reason },
            Delivery::Batch { peer, pipe, messages } => {
                pipe.consumed(messages.len());
                Self::Messages { peer, messages }
            }
        }
    }
}
