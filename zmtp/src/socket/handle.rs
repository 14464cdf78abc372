//! What every socket can do: bind, connect, monitor, close.

use std::sync::Arc;

use crate::engine::core::Core;
use crate::engine::pipe::Pipe;
use crate::engine::{dialer, listener};
use crate::monitor::Monitor;
use crate::pattern::{Origin, Pattern};
use crate::random::Random;
use crate::{BindError, ConnectError, Endpoint};

/// Closes the socket when its last handle goes.
#[derive(Debug)]
pub(super) struct Handle<P: Pattern>(pub(super) Arc<Core<P>>);

impl<P: Pattern> Drop for Handle<P> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<P: Pattern> Handle<P> {
    pub(super) async fn bind(&self, endpoint: &Endpoint) -> Result<Endpoint, BindError> {
        listener::bind(&self.0, endpoint).await
    }

    /// Starts a dialer; the pipe it owns goes to `add` first. A second call for one endpoint does nothing.
    pub(super) fn connect(&self, endpoint: &Endpoint, add: impl FnOnce(&mut P, Arc<Pipe>)) -> Result<(), ConnectError> {
        endpoint.check_connect()?;
        self.0.options.network.ipv6.check(endpoint)?;
        if self.0.closing.is_cancelled() {
            return Err(ConnectError::Closed);
        }
        let pipe = self.0.new_pipe();
        let Some(running) = self.0.add_endpoint(endpoint, Some(pipe.clone())) else { return Ok(()) };
        add(&mut self.0.pattern.lock(), pipe.clone());
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
