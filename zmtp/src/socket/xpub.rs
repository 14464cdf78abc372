//! [`XPub`]: publishes, and hears who subscribes.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::Notify;

use super::SocketBuilder;
use super::connections::connections;
use super::handle::Handle;
use super::publish::publish;
use crate::engine::inbox::Delivery;
use crate::engine::pipe::Pipe;
use crate::pattern::{PublishOptions, Publishing, Wish};
use crate::{ConnectError, Endpoint, Message, RecvError, RoutingId, SendError, SocketType};

/// Default receive high-water mark: subscriptions count, and there may be many in one go.
const RECEIVE_HWM: usize = 64 * 1024;

/// Which subscriptions an [`XPub`]'s application hears of (XPUB_VERBOSE, XPUB_VERBOSER).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verbosity {
    /// The first of each topic, and when the last is taken back: what changes the set of topics that anybody wants.
    #[default]
    Changes,
    /// Every subscription, and when the last of a topic is taken back.
    Subscriptions,
    /// Every subscription, and every one taken back.
    Everything,
}

/// An XPUB socket: as [`Pub`](crate::Pub), but it hears of subscriptions, and of what XSUBs send.
///
/// Subscriptions take effect as they arrive, whether or not [`recv`](Self::recv) is called. A peer that leaves is heard
/// of as having taken its subscriptions back. See [`XSub`](crate::XSub) for an example.
#[derive(Debug)]
pub struct XPub {
    sender: XPubSender,
    receiver: XPubReceiver,
}

impl SocketBuilder<XPub> {
    /// Which subscriptions the application hears of (XPUB_VERBOSE, XPUB_VERBOSER). Default: [`Verbosity::Changes`].
    pub fn verbosity(mut self, verbosity: Verbosity) -> Self {
        self.pattern.publish.verbosity = verbosity;
        self
    }

    /// Leaves it to the application who gets what (XPUB_MANUAL): a subscription is only heard of, every one of them, and
    /// [`XPub::subscribe`] makes it so, or makes another of it. Default: off.
    pub fn manual(mut self, on: bool) -> Self {
        self.pattern.publish.manual = on;
        self
    }

    /// Sends a message to all who want it or to nobody (XPUB_NODROP): [`XPub::send`] waits while one of them has no room,
    /// `try_send` says `Full`. Default: off, who has no room does not get it.
    pub fn nodrop(mut self, on: bool) -> Self {
        self.pattern.publish.nodrop = on;
        self
    }

    /// What every new subscriber is sent first, whatever it subscribes to (XPUB_WELCOME_MSG). Default: nothing.
    ///
    /// A SUB filters what it receives: it sees the message only if it subscribes to it.
    pub fn welcome(mut self, message: impl Into<Option<Message>>) -> Self {
        self.pattern.publish.welcome = message.into();
        self
    }

    /// Makes the socket. Binding and connecting need a tokio runtime; this does not.
    pub fn build(self) -> XPub {
        let options = PublishOptions { listens: true, ..self.pattern.publish };
        let handle = Handle::new(self.connection, self.options, Publishing::new(options));
        XPub {
            sender: XPubSender { handle: handle.clone() },
            receiver: XPubReceiver { handle, arrived: VecDeque::new(), run: None, last: None },
        }
    }
}

impl XPub {
    /// Settings of a new socket. The receive high-water mark is 65,536 unless set: subscriptions count.
    pub fn builder() -> SocketBuilder<Self> {
        SocketBuilder::new(SocketType::XPub).receive_hwm(RECEIVE_HWM)
    }

    /// Connects to an endpoint, now and whenever the connection is lost.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.sender.handle.connect(endpoint, |_, _| {})
    }

    /// Sends to everybody who subscribes to it and has room. See [`XPubSender::send`].
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        self.sender.send(message).await
    }

    /// As [`send`](Self::send), without ever waiting. See [`XPubSender::try_send`].
    ///
    /// # Errors
    /// `Full`, for a socket that is to drop nothing, or `Closed`.
    pub fn try_send(&self, message: Message) -> Result<(), SendError> {
        self.sender.try_send(message)
    }

    /// What happened next. See [`XPubReceiver::recv`].
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn recv(&mut self) -> Result<XPubEvent, RecvError> {
        self.receiver.recv().await
    }

    /// What happened next, if anything has.
    pub fn try_recv(&mut self) -> Option<XPubEvent> {
        self.receiver.try_recv()
    }

    /// Has the peer last heard of receive what begins so. See [`XPubReceiver::subscribe`].
    pub fn subscribe(&self, topic: impl AsRef<[u8]>) -> bool {
        self.receiver.subscribe(topic)
    }

    /// The opposite of [`subscribe`](Self::subscribe). See [`XPubReceiver::unsubscribe`].
    pub fn unsubscribe(&self, topic: impl AsRef<[u8]>) -> bool {
        self.receiver.unsubscribe(topic)
    }

    /// The two halves, for two tasks.
    pub fn split(self) -> (XPubSender, XPubReceiver) {
        (self.sender, self.receiver)
    }

    /// Told when a send that found no room may be tried again.
    pub(crate) fn room(&self) -> Arc<Notify> {
        self.sender.handle.0.room.clone()
    }
}

connections!(XPub, sender.handle);

/// The sending half of an [`XPub`]; cheap to clone. The socket closes with its last handle.
#[derive(Debug, Clone)]
pub struct XPubSender {
    handle: Arc<Handle<Publishing>>,
}

impl XPubSender {
    /// Sends to everybody who subscribes to it. Who has no room does not get it; waits for room only in a socket that is
    /// to [drop nothing](SocketBuilder::nodrop). Lets connections work now and then, so that a loop of it does not drop
    /// what could be sent.
    ///
    /// Cancel-safe: a message is either queued or not.
    ///
    /// # Errors
    /// `Closed` if the socket is closed.
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        self.handle.send(message, |message| publish(&self.handle, message)).await
    }

    /// As [`send`](Self::send), without ever waiting.
    ///
    /// # Errors
    /// `Full` if the socket is to drop nothing and somebody who wants the message has no room; `Closed` if it is closed.
    pub fn try_send(&self, message: Message) -> Result<(), SendError> {
        publish(&self.handle, &message).map_err(|reason| reason.with(message))
    }
}

/// What an [`XPub`] hears.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum XPubEvent {
    /// A topic is subscribed to. Which are told depends on [`Verbosity`].
    Subscribe(Bytes),
    /// A subscription was taken back, or went with its peer.
    Cancel(Bytes),
    /// An XSUB sent a message.
    Message(Message),
}

impl From<Message> for XPubEvent {
    /// A message of one frame that begins with a byte 1 or 0 is a subscription.
    fn from(message: Message) -> Self {
        match Wish::of(&message) {
            Some(Wish::Subscribe(topic)) => Self::Subscribe(Bytes::copy_from_slice(topic)),
            Some(Wish::Cancel(topic)) => Self::Cancel(Bytes::copy_from_slice(topic)),
            None => Self::Message(message),
        }
    }
}

impl From<XPubEvent> for Message {
    /// The opposite: in the form that an [`XSub`](crate::XSub) sends on.
    fn from(event: XPubEvent) -> Self {
        match event {
            XPubEvent::Subscribe(topic) => Wish::Subscribe(&topic).to_message(),
            XPubEvent::Cancel(topic) => Wish::Cancel(&topic).to_message(),
            XPubEvent::Message(message) => message,
        }
    }
}

/// The receiving half of an [`XPub`]. Also a [`Stream`], which ends when the socket is closed.
#[derive(Debug)]
pub struct XPubReceiver {
    handle: Arc<Handle<Publishing>>,
    arrived: VecDeque<Delivery>,
    run: Option<Run>,
    /// Whom the last event came from.
    last: Option<RoutingId>,
}

/// What came from one peer in one go. In the order in which the subscriptions took effect, not by turns.
#[derive(Debug)]
struct Run {
    peer: RoutingId,
    pipe: Arc<Pipe>,
    messages: VecDeque<Message>,
    taken: usize,
}

impl XPubReceiver {
    /// What happened next.
    ///
    /// Cancel-safe: nothing is taken out before it is returned.
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn recv(&mut self) -> Result<XPubEvent, RecvError> {
        poll_fn(|cx| self.poll_recv(cx)).await.map(XPubEvent::from)
    }

    /// What happened next, if anything has.
    pub fn try_recv(&mut self) -> Option<XPubEvent> {
        self.next()
            .or_else(|| {
                self.handle.0.inbox.try_take(&mut self.arrived);
                self.next()
            })
            .map(XPubEvent::from)
    }

    /// In a [manual](SocketBuilder::manual) socket, has the peer of the event received last get messages that begin with
    /// `topic`. Whether that peer is still there.
    pub fn subscribe(&self, topic: impl AsRef<[u8]>) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|peer| self.handle.0.pattern.lock().subscribe(peer, topic.as_ref()))
    }

    /// The opposite of [`subscribe`](Self::subscribe).
    pub fn unsubscribe(&self, topic: impl AsRef<[u8]>) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|peer| self.handle.0.pattern.lock().unsubscribe(peer, topic.as_ref()))
    }

    pub(crate) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, RecvError>> {
        loop {
            if let Some(message) = self.next() {
                return Poll::Ready(Ok(message));
            }
            if ready!(self.handle.0.inbox.poll_take(cx, &mut self.arrived)).is_err() {
                return Poll::Ready(Err(RecvError));
            }
        }
    }

    /// The next message among those taken from the inbox.
    fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(run) = &mut self.run {
                if let Some(message) = run.messages.pop_front() {
                    run.taken += 1;
                    if self.last.as_ref() != Some(&run.peer) {
                        self.last = Some(run.peer.clone());
                    }
                    return Some(message);
                }
                run.pipe.consumed(run.taken);
                self.run = None;
            }
            if let Delivery::Batch { peer, pipe, messages } = self.arrived.pop_front()? {
                self.run = Some(Run { peer, pipe, messages, taken: 0 });
            }
        }
    }
}

impl Stream for XPubReceiver {
    type Item = XPubEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<XPubEvent>> {
        self.get_mut().poll_recv(cx).map(|polled| polled.ok().map(XPubEvent::from))
    }
}
