//! [`Sub`]: hears what it subscribes to.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;

use super::SocketBuilder;
use super::connections::connections;
use super::handle::Handle;
use super::receiving::Receiving;
use crate::pattern::{Filter, MAX_TOPIC, Subscribing};
use crate::{ConnectError, Endpoint, Message, RecvError, SocketType, SubscribeError};

/// A SUB socket: the messages of its publishers whose first frame begins with a topic it subscribes to (RFC 29).
///
/// Subscriptions are told to every publisher first of all, on each new connection again. At the high-water mark a
/// connection is not read any more, and it is the publisher that drops. LINGER is 0 by default. Also a [`Stream`], which
/// ends when the socket is closed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use zmtp::{Message, Pub, Sub};
///
/// let publisher = Pub::builder().build();
/// let endpoint = publisher.bind(&"tcp://127.0.0.1:0".parse()?).await?;
/// let mut sub = Sub::builder().build();
/// sub.subscribe("news")?;
/// sub.connect(&endpoint)?;
///
/// // What is published before the subscription has arrived is not for us.
/// let heard = loop {
///     publisher.send(Message::from_frames(["news", "it rains"])).await?;
///     tokio::select! {
///         message = sub.recv() => break message?,
///         () = tokio::time::sleep(std::time::Duration::from_millis(10)) => {}
///     }
/// };
/// assert_eq!(heard, Message::from_frames(["news", "it rains"]));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Sub {
    subscriber: Subscriber,
    receiver: SubReceiver,
}

impl SocketBuilder<Sub> {
    /// Makes the socket. Binding and connecting need a tokio runtime; this does not.
    pub fn build(self) -> Sub {
        let filter = if self.pattern.publish.invert { Filter::Others } else { Filter::Matching };
        let (subscribing, receiving) = (Subscribing::new(filter), Receiving::new(self.options.keep));
        let cancels = subscribing.cancels();
        let handle = Handle::new(self.connection, self.options, subscribing);
        Sub {
            subscriber: Subscriber { handle: handle.clone() },
            receiver: SubReceiver { handle, receiving, cancels, settled: 0 },
        }
    }
}

impl Sub {
    /// Settings of a new socket.
    pub fn builder() -> SocketBuilder<Self> {
        SocketBuilder::new(SocketType::Sub).linger(Duration::ZERO)
    }

    /// Connects to an endpoint, now and whenever the connection is lost.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.subscriber.handle.connect(endpoint, |subscribing, pipe| subscribing.add(pipe))
    }

    /// Subscribes to what begins so. See [`Subscriber::subscribe`].
    ///
    /// # Errors
    /// The topic is too long.
    pub fn subscribe(&self, topic: impl AsRef<[u8]>) -> Result<(), SubscribeError> {
        self.subscriber.subscribe(topic)
    }

    /// Takes one subscription back. See [`Subscriber::unsubscribe`].
    pub fn unsubscribe(&self, topic: impl AsRef<[u8]>) -> bool {
        self.subscriber.unsubscribe(topic)
    }

    /// The next message. See [`SubReceiver::recv`].
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

    /// Subscribing and receiving, for two tasks.
    pub fn split(self) -> (Subscriber, SubReceiver) {
        (self.subscriber, self.receiver)
    }
}

connections!(Sub, subscriber.handle);

impl Stream for Sub {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.get_mut().receiver.poll_recv(cx).map(Result::ok)
    }
}

/// What changes the subscriptions of a [`Sub`]; cheap to clone. The socket closes with its last handle.
#[derive(Debug, Clone)]
pub struct Subscriber {
    handle: Arc<Handle<Subscribing>>,
}

impl Subscriber {
    /// Subscribes to messages whose first frame begins with `topic`; with an empty one, to all. A topic may be subscribed
    /// to more than once and then counts until it has been taken back as often.
    ///
    /// # Errors
    /// The topic is longer than 65,536 bytes.
    pub fn subscribe(&self, topic: impl AsRef<[u8]>) -> Result<(), SubscribeError> {
        let topic = checked(topic.as_ref())?;
        self.handle.0.pattern.lock().subscribe(topic);
        Ok(())
    }

    /// Takes one subscription back; whether there was one. After the last no such message is received any more, even if
    /// it has arrived.
    pub fn unsubscribe(&self, topic: impl AsRef<[u8]>) -> bool {
        self.handle.0.pattern.lock().unsubscribe(topic.as_ref())
    }
}

/// The topic, if it is one.
pub(super) fn checked(topic: &[u8]) -> Result<&[u8], SubscribeError> {
    if topic.len() > MAX_TOPIC { Err(SubscribeError::TooLong(topic.len())) } else { Ok(topic) }
}

/// The receiving half of a [`Sub`]. Also a [`Stream`], which ends when the socket is closed.
#[derive(Debug)]
pub struct SubReceiver {
    handle: Arc<Handle<Subscribing>>,
    receiving: Receiving,
    /// Topics given up so far.
    cancels: Arc<AtomicU64>,
    /// As many of them as cannot concern a message any more that has been let through.
    settled: u64,
}

impl SubReceiver {
    /// The next message subscribed to, the publishers taking turns.
    ///
    /// Cancel-safe: nothing is taken out before it is returned.
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn recv(&mut self) -> Result<Message, RecvError> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// The next message if there is one now.
    pub fn try_recv(&mut self) -> Option<Message> {
        loop {
            let message = self.receiving.next_body(&self.handle.0.inbox)?;
            if self.is_wanted(&message) {
                return Some(message);
            }
        }
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, RecvError>> {
        loop {
            let cancels = self.cancels.load(Ordering::Acquire);
            let polled = self.receiving.poll_body(&self.handle.0.inbox, cx);
            if polled.is_pending() {
                // All that was let through before those topics were given up has been taken.
                self.settled = cancels;
            }
            let message = ready!(polled)?;
            if self.is_wanted(&message) {
                return Poll::Ready(Ok(message));
            }
        }
    }

    /// The links let through what was wanted when it arrived; seldom has that changed.
    fn is_wanted(&self, message: &Message) -> bool {
        self.cancels.load(Ordering::Acquire) == self.settled || self.handle.0.pattern.lock().wants(message)
    }
}

impl Stream for SubReceiver {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.get_mut().poll_recv(cx).map(Result::ok)
    }
}
