//! [`XSub`]: subscribes by hand, and talks back.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;

use super::SocketBuilder;
use super::connections::connections;
use super::handle::Handle;
use super::receiving::Receiving;
use super::subscribe::checked;
use crate::pattern::{Filter, Subscribing, Wish};
use crate::{ConnectError, Endpoint, Message, RecvError, SendError, SendFailure, SocketType, SubscribeError};

/// An XSUB socket: as [`Sub`](crate::Sub), but it hands on whatever its publishers send, and can send to them: what a
/// proxy between publishers and subscribers needs.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use zmtp::{Message, XPub, XPubEvent, XSub};
///
/// let mut xpub = XPub::builder().build();
/// let endpoint = xpub.bind(&"tcp://127.0.0.1:0".parse()?).await?;
/// let mut xsub = XSub::builder().build();
/// xsub.connect(&endpoint)?;
/// xsub.subscribe("A")?;
/// assert_eq!(xpub.recv().await?, XPubEvent::Subscribe("A".into()));
///
/// xsub.send(Message::from("a question")).await?;
/// assert_eq!(xpub.recv().await?, XPubEvent::Message("a question".into()));
/// xpub.send(Message::from("A: the answer")).await?;
/// assert_eq!(xsub.recv().await?, Message::from("A: the answer"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct XSub {
    sender: XSubSender,
    receiver: XSubReceiver,
}

impl SocketBuilder<XSub> {
    /// Makes the socket. Binding and connecting need a tokio runtime; this does not.
    pub fn build(self) -> XSub {
        let handle = Handle::new(self.connection, self.options, Subscribing::new(Filter::Off));
        XSub {
            sender: XSubSender { handle: handle.clone() },
            receiver: XSubReceiver { handle, receiving: Receiving::default() },
        }
    }
}

impl XSub {
    /// Settings of a new socket.
    pub fn builder() -> SocketBuilder<Self> {
        SocketBuilder::new(SocketType::XSub).linger(Duration::ZERO)
    }

    /// Connects to an endpoint, now and whenever the connection is lost. Messages may be sent at once: they wait.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.sender.handle.connect(endpoint, |subscribing, pipe| subscribing.add(pipe))
    }

    /// Subscribes to what begins so. See [`XSubSender::subscribe`].
    ///
    /// # Errors
    /// The topic is too long.
    pub fn subscribe(&self, topic: impl AsRef<[u8]>) -> Result<(), SubscribeError> {
        self.sender.subscribe(topic)
    }

    /// Takes one subscription back. See [`XSubSender::unsubscribe`].
    pub fn unsubscribe(&self, topic: impl AsRef<[u8]>) -> bool {
        self.sender.unsubscribe(topic)
    }

    /// Sends to all publishers. See [`XSubSender::send`].
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        self.sender.send(message).await
    }

    /// As [`send`](Self::send), without ever giving up its turn.
    ///
    /// # Errors
    /// The socket is closed.
    pub fn try_send(&self, message: Message) -> Result<(), SendError> {
        self.sender.try_send(message)
    }

    /// The next message. See [`XSubReceiver::recv`].
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
    pub fn split(self) -> (XSubSender, XSubReceiver) {
        (self.sender, self.receiver)
    }
}

connections!(XSub, sender.handle);

/// The subscribing and sending half of an [`XSub`]; cheap to clone. The socket closes with its last handle.
#[derive(Debug, Clone)]
pub struct XSubSender {
    handle: Arc<Handle<Subscribing>>,
}

impl XSubSender {
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

    /// Takes one subscription back; whether there was one.
    pub fn unsubscribe(&self, topic: impl AsRef<[u8]>) -> bool {
        self.handle.0.pattern.lock().unsubscribe(topic.as_ref())
    }

    /// Sends to all publishers that have room, and never waits for any. A message of one frame that begins with a byte 1
    /// or 0 subscribes to or unsubscribes from the topic behind it.
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
        if self.handle.0.closing.is_cancelled() {
            return Err(SendError { reason: SendFailure::Closed, message });
        }
        let mut pattern = self.handle.0.pattern.lock();
        match Wish::of(&message) {
            Some(Wish::Subscribe(topic)) => pattern.subscribe(topic),
            Some(Wish::Cancel(topic)) => {
                pattern.unsubscribe(topic);
            }
            None => pattern.push(&message),
        }
        Ok(())
    }
}

/// The receiving half of an [`XSub`]. Also a [`Stream`], which ends when the socket is closed.
#[derive(Debug)]
pub struct XSubReceiver {
    handle: Arc<Handle<Subscribing>>,
    receiving: Receiving,
}

impl XSubReceiver {
    /// The next message of any topic, the publishers taking turns.
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
        self.receiving.next_body(&self.handle.0.inbox)
    }

    pub(crate) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, RecvError>> {
        self.receiving.poll_body(&self.handle.0.inbox, cx)
    }
}

impl Stream for XSubReceiver {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.get_mut().poll_recv(cx).map(Result::ok)
    }
}
