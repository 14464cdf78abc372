//! [`Pull`]: hears its peers in turn, and says nothing.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::SocketBuilder;
use super::handle::Handle;
use super::receiving::Receiving;
use crate::monitor::Monitor;
use crate::pattern::Sources;
use crate::{BindError, ConnectError, Endpoint, Message, RecvError, SocketType};

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

    /// Listens on an endpoint; gives it back with its actual port.
    ///
    /// # Errors
    /// The endpoint cannot be listened on, or the system refuses.
    pub async fn bind(&self, endpoint: &Endpoint) -> Result<Endpoint, BindError> {
        self.handle.bind(endpoint).await
    }

    /// Connects to an endpoint, now and whenever the connection is lost.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.handle.connect(endpoint, |_, _| {})
    }

    /// Stops listening on an endpoint, named as [`bind`](Self::bind) gave it back, and waits until the port is free.
    /// Its connections stay. Whether there was such a listener.
    pub async fn unbind(&self, endpoint: &Endpoint) -> bool {
        self.handle.unbind(endpoint).await
    }

    /// Ends the connection to an endpoint given to [`connect`](Self::connect); what is queued for it is still sent,
    /// within the linger time. Whether there was one.
    pub fn disconnect(&self, endpoint: &Endpoint) -> bool {
        self.handle.disconnect(endpoint)
    }

    /// What happens to the connections from now on.
    pub fn monitor(&self) -> Monitor {
        self.handle.monitor()
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

    /// Closes the socket: what is queued is sent, at most for as long as linger allows; waits until that is done.
    ///
    /// Dropping the socket does the same in the background.
    pub async fn close(self) {
        self.handle.close().await;
    }
}

impl Stream for Pull {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let Self { handle, receiving } = self.get_mut();
        receiving.poll_body(&handle.0.inbox, cx).map(Result::ok)
    }
}
