//! [`Rep`]: answers one question at a time.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::SocketBuilder;
use super::connections::connections;
use super::handle::Handle;
use super::receiving::Receiving;
use crate::pattern::{Answering, Sources};
use crate::{ConnectError, Endpoint, LockstepError, Message, SendError, SendFailure, SocketType};

/// A REP socket: a request from one of its peers in turn, then the reply to it, and so on (RFC 28).
///
/// The reply goes back through any number of proxies on the way the request came; one to a peer that is gone, or takes
/// nothing, is dropped. See [`Req`](crate::Req) for an example.
#[derive(Debug)]
pub struct Rep {
    handle: Arc<Handle<Sources>>,
    receiving: Receiving,
    answering: Answering,
}

impl SocketBuilder<Rep> {
    /// Makes the socket. Binding and connecting need a tokio runtime; this does not.
    pub fn build(self) -> Rep {
        let handle = Handle::new(self.connection, self.options, Sources);
        Rep { handle, receiving: Receiving::default(), answering: Answering::default() }
    }
}

impl Rep {
    /// Settings of a new socket.
    pub fn builder() -> SocketBuilder<Self> {
        SocketBuilder::new(SocketType::Rep)
    }

    /// Connects to an endpoint, now and whenever the connection is lost.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.handle.connect(endpoint, |_, _| {})
    }

    /// The next request, the peers taking turns. Messages that are none, for want of a delimiter, are skipped.
    ///
    /// Cancel-safe: nothing is taken out before it is returned.
    ///
    /// # Errors
    /// `OutOfTurn` if the last request has no reply yet; `Closed` if the socket is closed.
    pub async fn recv(&mut self) -> Result<Message, LockstepError> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, LockstepError>> {
        if self.answering.is_asked() {
            return Poll::Ready(Err(LockstepError::OutOfTurn));
        }
        loop {
            let next = self.receiving.poll_next(&self.handle.0.inbox, cx, |_, pipe| pipe.clone());
            let Ok((from, message)) = ready!(next) else { return Poll::Ready(Err(LockstepError::Closed)) };
            if let Some(request) = self.answering.on_message(from, &message) {
                return Poll::Ready(Ok(request));
            }
        }
    }

    /// Replies to the request received last. Never waits: a reply for which there is no room, or no peer any more, is
    /// dropped, and that is no error.
    ///
    /// # Errors
    /// `OutOfTurn` if there is no request to reply to; `Closed` if the socket is closed.
    pub fn send(&mut self, reply: Message) -> Result<(), SendError> {
        let reason = match self.answering.is_asked() {
            _ if self.handle.0.closing.is_cancelled() => SendFailure::Closed,
            false => SendFailure::OutOfTurn,
            true => {
                self.answering.reply(&reply);
                return Ok(());
            }
        };
        Err(SendError { reason, message: reply })
    }
}

connections!(Rep, handle);
