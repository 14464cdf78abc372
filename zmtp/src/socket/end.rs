//! What a proxy does with a socket.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::Notify;

use super::{Dealer, Pair, Pub, Pull, Push, Router, Sub, XPub, XSub};
use crate::{Message, RecvError, RoutingId, SendError, SendFailure, SocketType};

/// Most messages taken in one go.
pub(crate) const BATCH: usize = 256;

/// One end of a proxy. Messages are as libzmq has them: a ROUTER's begin with the routing id, an XPUB's and XSUB's
/// subscriptions are messages of one frame.
pub trait End: Send {
    /// The socket's type.
    fn socket_type(&self) -> SocketType;

    /// Appends the messages that are there, up to a batch; pending if there is none.
    ///
    /// # Errors
    /// The socket is closed.
    fn poll_take(&mut self, cx: &mut Context<'_>, into: &mut VecDeque<Message>) -> Poll<Result<(), RecvError>>;

    /// Queues a message, or drops it as the type is wont to.
    ///
    /// # Errors
    /// `Full` or `Closed`.
    fn try_put(&mut self, message: Message) -> Result<(), SendError>;

    /// Told when there may be room again; `None` for who never says `Full`.
    fn room(&self) -> Option<Arc<Notify>>;
}

/// Whether messages can be received from a socket of that type.
pub(crate) fn receives(kind: SocketType) -> bool {
    !matches!(kind, SocketType::Push | SocketType::Pub)
}

/// Whether messages can be sent to a socket of that type.
pub(crate) fn sends(kind: SocketType) -> bool {
    !matches!(kind, SocketType::Pull | SocketType::Sub)
}

/// Takes what `poll_next` gives until it has to wait.
fn take(
    into: &mut VecDeque<Message>,
    mut poll_next: impl FnMut() -> Poll<Result<Message, RecvError>>,
) -> Poll<Result<(), RecvError>> {
    let before = into.len();
    while into.len() - before < BATCH {
        match poll_next() {
            Poll::Ready(Ok(message)) => into.push_back(message),
            // Told again next time, when what is here has been dealt with.
            _ if into.len() > before => break,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        }
    }
    Poll::Ready(Ok(()))
}

impl End for Router {
    fn socket_type(&self) -> SocketType {
        SocketType::Router
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, into: &mut VecDeque<Message>) -> Poll<Result<(), RecvError>> {
        take(into, || pin!(self.recv()).poll(cx).map_ok(|(peer, message)| message.prepend(peer)))
    }

    /// To who is gone or takes nothing it is dropped: others must not wait for that one.
    fn try_put(&mut self, message: Message) -> Result<(), SendError> {
        let to = message.frame(0).and_then(|id| RoutingId::any(id).ok());
        let (Some(to), Some(body)) = (to, message.skip_frames(1)) else { return Ok(()) };
        match self.try_send(&to, body) {
            Err(SendError { reason: SendFailure::Closed, .. }) => {
                Err(SendError { reason: SendFailure::Closed, message })
            }
            _ => Ok(()),
        }
    }

    fn room(&self) -> Option<Arc<Notify>> {
        None
    }
}

impl End for Dealer {
    fn socket_type(&self) -> SocketType {
        SocketType::Dealer
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, into: &mut VecDeque<Message>) -> Poll<Result<(), RecvError>> {
        take(into, || pin!(self.recv()).poll(cx))
    }

    fn try_put(&mut self, message: Message) -> Result<(), SendError> {
        self.try_send(message)
    }

    fn room(&self) -> Option<Arc<Notify>> {
        Some(Self::room(self))
    }
}

impl End for Pair {
    fn socket_type(&self) -> SocketType {
        SocketType::Pair
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, into: &mut VecDeque<Message>) -> Poll<Result<(), RecvError>> {
        take(into, || pin!(self.recv()).poll(cx))
    }

    fn try_put(&mut self, message: Message) -> Result<(), SendError> {
        self.try_send(message)
    }

    fn room(&self) -> Option<Arc<Notify>> {
        Some(Self::room(self))
    }
}

impl End for Push {
    fn socket_type(&self) -> SocketType {
        SocketType::Push
    }

    fn poll_take(&mut self, _cx: &mut Context<'_>, _into: &mut VecDeque<Message>) -> Poll<Result<(), RecvError>> {
        Poll::Pending
    }

    fn try_put(&mut self, message: Message) -> Result<(), SendError> {
        self.try_send(message)
    }

    fn room(&self) -> Option<Arc<Notify>> {
        Some(Self::room(self))
    }
}

impl End for Pull {
    fn socket_type(&self) -> SocketType {
        SocketType::Pull
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, into: &mut VecDeque<Message>) -> Poll<Result<(), RecvError>> {
        take(into, || pin!(self.recv()).poll(cx))
    }

    fn try_put(&mut self, _message: Message) -> Result<(), SendError> {
        Ok(())
    }

    fn room(&self) -> Option<Arc<Notify>> {
        None
    }
}

impl End for Pub {
    fn socket_type(&self) -> SocketType {
        SocketType::Pub
    }

    fn poll_take(&mut self, _cx: &mut Context<'_>, _into: &mut VecDeque<Message>) -> Poll<Result<(), RecvError>> {
        Poll::Pending
    }

    fn try_put(&mut self, message: Message) -> Result<(), SendError> {
        self.try_send(message)
    }

    fn room(&self) -> Option<Arc<Notify>> {
        None
    }
}

impl End for Sub {
    fn socket_type(&self) -> SocketType {
        SocketType::Sub
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, into: &mut VecDeque<Message>) -> Poll<Result<(), RecvError>> {
        take(into, || pin!(self.recv()).poll(cx))
    }

    fn try_put(&mut self, _message: Message) -> Result<(), SendError> {
        Ok(())
    }

    fn room(&self) -> Option<Arc<Notify>> {
        None
    }
}

impl End for XPub {
    fn socket_type(&self) -> SocketType {
        SocketType::XPub
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, into: &mut VecDeque<Message>) -> Poll<Result<(), RecvError>> {
        take(into, || pin!(self.recv()).poll(cx).map_ok(Message::from))
    }

    fn try_put(&mut self, message: Message) -> Result<(), SendError> {
        self.try_send(message)
    }

    fn room(&self) -> Option<Arc<Notify>> {
        Some(Self::room(self))
    }
}

impl End for XSub {
    fn socket_type(&self) -> SocketType {
        SocketType::XSub
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, into: &mut VecDeque<Message>) -> Poll<Result<(), RecvError>> {
        take(into, || pin!(self.recv()).poll(cx))
    }

    fn try_put(&mut self, message: Message) -> Result<(), SendError> {
        self.try_send(message)
    }

    fn room(&self) -> Option<Arc<Notify>> {
        None
    }
}
