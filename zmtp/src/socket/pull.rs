//! [`Pull`]: hears its peers in turn, and says nothing.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::SocketBuilder;
use super::connections::connections;
use super::handle::Handle;
use super::receiving::Receiving;
use crate::pattern::Sources;
use crate::{ConnectError, Endpoint, Message, RecvError, SocketType};

/// A PULL socket: fair-queued from its PUSHes (RFC 30). Also a [`Stream`], which ends when the socket is closed.
///
/// See [`Push`](crate::Push) for an example.
#[derive(Debug)]
pub struct Pull {
    handle: Arc<Handle<Sources>>,
    receiving: Receiving,
}

impl SocketBuilder<Pull> {
    /// Makes the socket. Binding and connecting need a tokio runtime; this does not.
    pub fn build(self) -> Pull {
        let receiving = Receiving::new(self.options.keep);
        Pull { handle: Handle::new(self.connection, self.options, Sources), receiving }
    }
}

impl Pull {
    /// Settings of a new socket.
    pub fn builder() -> SocketBuilder<Self> {
        SocketBuilder::new(SocketType::Pull)
    }

    /// Connects to an endpoint, now and whenever the connection is lost.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.handle.connect(endpoint, |_, _| {})
    }

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

connections!(Pull, handle);

impl Stream for Pull {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let Self { handle, receiving } = self.get_mut();
        receiving.poll_body(&handle.0.inbox, cx).map(Result::ok)
    }
}
