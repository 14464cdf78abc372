//! What every socket can do: bind, connect, monitor, close.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Options;
use crate::connection::ConnectionConfig;
use crate::engine::core::Core;
use crate::engine::pipe::Pipe;
use crate::engine::{dialer, listener};
use crate::monitor::Monitor;
use crate::pattern::{Origin, Pattern};
use crate::random::Random;
use crate::{BindError, ConnectError, Endpoint, Message, SendError, SendFailure, SocketType};

/// Closes the socket when its last handle goes.
#[derive(Debug)]
pub(super) struct Handle<P: Pattern>(pub(super) Arc<Core<P>>, Pace);

/// Lets the links have a turn now and then while the application sends in a loop: they may be on its thread, and nothing
/// else need ever make it wait. What they take while it is still in the cache costs half.
#[derive(Debug)]
struct Pace {
    /// Messages and bytes since the last turn.
    messages: AtomicUsize,
    bytes: AtomicUsize,
    most_messages: usize,
}

/// Most messages sent without a turn for the links.
const STRETCH: usize = 1024;
/// Most bytes sent without one.
const STRETCH_BYTES: usize = 256 * 1024;

impl<P: Pattern> Drop for Handle<P> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<P: Pattern> Handle<P> {
    pub(super) fn new(connection: ConnectionConfig, options: Options, pattern: P) -> Arc<Self> {
        let most_messages = match (options.send_hwm, connection.socket_type) {
            // It answers what it receives, and waits for that.
            (_, SocketType::Router) => usize::MAX,
            (0, _) => STRETCH,
            // They never wait: more than what a pipe holds would be lost.
            (hwm, SocketType::Pub | SocketType::XPub) => (hwm / 2).clamp(1, STRETCH),
            // They wait when a pipe is full.
            _ => usize::MAX,
        };
        let pace = Pace { messages: AtomicUsize::new(0), bytes: AtomicUsize::new(0), most_messages };
        Arc::new(Self(Core::new(connection, options, pattern), pace))
    }

    /// To be called before a message is queued: gives the links a turn if they have not had one for long.
    pub(super) async fn pace(&self, message: &Message) {
        let Pace { messages, bytes, most_messages } = &self.1;
        // Not exact when several tasks send, and need not be.
        let sent = messages.load(Ordering::Relaxed) + 1;
        let sent_bytes = bytes.load(Ordering::Relaxed) + message.wire_len();
        if sent < *most_messages && sent_bytes < STRETCH_BYTES {
            messages.store(sent, Ordering::Relaxed);
            bytes.store(sent_bytes, Ordering::Relaxed);
            return;
        }
        messages.store(0, Ordering::Relaxed);
        bytes.store(0, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }

    /// Sends by `try_send`, waiting while there is no room. Cancel-safe.
    pub(super) async fn send(
        &self,
        message: Message,
        mut try_send: impl FnMut(&Message) -> Result<(), SendFailure>,
    ) -> Result<(), SendError> {
        // Before the message is queued, so that a caller who gives up while waiting has not sent it.
        self.pace(&message).await;
        let mut result = try_send(&message);
        while let Err(SendFailure::Full) = result {
            // Registered before the attempt, so that room made in between is not missed.
            let mut room = pin!(self.0.room.notified());
            room.as_mut().enable();
            result = try_send(&message);
            if let Err(SendFailure::Full) = result {
                room.await;
            }
        }
        result.map_err(|reason| reason.with(message))
    }

    pub(super) async fn bind(&self, endpoint: &Endpoint) -> Result<Endpoint, BindError> {
        listener::bind(&self.0, endpoint).await
    }

    /// Starts a dialer; the pipe it owns goes to `add` first. A second call for one endpoint does nothing.
    pub(super) fn connect(&self, endpoint: &Endpoint, add: impl FnOnce(&mut P, Arc<Pipe>)) -> Result<(), ConnectError> {
        self.try_connect(endpoint, |pattern, pipe| {
            add(pattern, pipe);
            Ok(())
        })
    }

    /// As [`connect`](Self::connect), unless `add` refuses.
    pub(super) fn try_connect(
        &self,
        endpoint: &Endpoint,
        add: impl FnOnce(&mut P, Arc<Pipe>) -> Result<(), ConnectError>,
    ) -> Result<(), ConnectError> {
        endpoint.check_connect()?;
        self.0.options.network.ipv6.check(endpoint)?;
        if self.0.closing.is_cancelled() {
            return Err(ConnectError::Closed);
        }
        let pipe = self.0.new_pipe();
        let Some(running) = self.0.add_endpoint(endpoint, Some(pipe.clone())) else { return Ok(()) };
        if let Err(refused) = add(&mut self.0.pattern.lock(), pipe.clone()) {
            self.0.forget_endpoint(endpoint, &running);
            return Err(refused);
        }
        self.0.room.notify_waiters();
        let dialing = dialer::dial(self.0.clone(), endpoint.clone(), pipe, running, Random::from_system());
        self.0.tasks.spawn(dialing);
        Ok(())
    }

    /// Ends the listener of that endpoint and waits until it is closed; whether there was one.
    pub(super) async fn unbind(&self, endpoint: &Endpoint) -> bool {
        match self.0.stop_endpoint(endpoint, Origin::Accepted) {
            Some(running) => {
                running.stopped.cancelled().await;
                true
            }
            None => false,
        }
    }

    /// Ends the dialer of that endpoint, once it has sent what it holds; whether there was one.
    pub(super) fn disconnect(&self, endpoint: &Endpoint) -> bool {
        self.0.stop_endpoint(endpoint, Origin::Connected).is_some()
    }

    pub(super) fn monitor(&self) -> Monitor {
        self.0.monitor()
    }

    /// Closes and waits until every link has written what it had, or linger is over.
    pub(super) async fn close(&self) {
        self.0.close();
        self.0.tasks.wait().await;
    }
}
