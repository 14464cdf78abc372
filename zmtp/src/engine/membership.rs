//! [`Membership`]: a link's place in its socket.

use std::collections::VecDeque;
use std::sync::Arc;

use super::core::{Core, LinkId};
use super::link::now;
use super::pipe::Pipe;
use crate::connection::{ConnectionError, Event};
use crate::monitor::{MonitorEvent, Reason};
use crate::pattern::{Origin, Pattern};
use crate::{Endpoint, PeerAddress, RoutingId};

/// Where a link comes from.
#[derive(Debug, Clone)]
pub(crate) struct LinkContext {
    pub(crate) id: LinkId,
    pub(crate) endpoint: Endpoint,
    pub(crate) peer: PeerAddress,
    pub(crate) origin: Origin,
}

/// How a link ended.
#[derive(Debug)]
pub(crate) struct LinkEnd {
    pub(crate) reason: Reason,
    /// Whether the handshake had been completed.
    pub(crate) established: bool,
}

/// A link's place in its socket. Leaves it when dropped, however the link ends.
pub(super) struct Membership<P: Pattern> {
    pub(super) core: Arc<Core<P>>,
    context: LinkContext,
    pub(super) pipe: Arc<Pipe>,
    /// Set once the peer has been let in.
    peer: Option<RoutingId>,
    reason: Option<Reason>,
}

impl<P: Pattern> Drop for Membership<P> {
    fn drop(&mut self) {
        let reason = self.reason.take().unwrap_or(Reason::Failed);
        self.core.leave(self.context.id, &self.pipe, self.context.origin, self.peer.as_ref(), &reason);
        self.report(&reason);
        self.core.tell(|| {
            let (endpoint, peer) = (self.context.endpoint.clone(), self.context.peer);
            match self.peer {
                Some(_) => MonitorEvent::Disconnected { endpoint, peer, reason },
                None => MonitorEvent::HandshakeFailed { endpoint, peer, reason },
            }
        });
    }
}

impl<P: Pattern> Membership<P> {
    pub(super) fn new(context: LinkContext, pipe: Arc<Pipe>, core: Arc<Core<P>>) -> Self {
        Self { core, context, pipe, peer: None, reason: None }
    }

    /// Where the peer is.
    pub(super) fn peer_address(&self) -> PeerAddress {
        self.context.peer
    }

    /// Leaves for that reason.
    pub(super) fn end(mut self, reason: Reason) -> LinkEnd {
        self.reason = Some(reason.clone());
        LinkEnd { reason, established: self.peer.is_some() }
    }

    /// Hands what a connection has to tell to the socket; the peer is let in at `Ready`.
    pub(super) fn deliver(&mut self, events: &mut Vec<Event>) -> Result<(), Reason> {
        if let Some(Event::Ready(_)) = events.first()
            && let Event::Ready(info) = events.remove(0)
        {
            let told = info.clone();
            let id = self.core.attach(self.context.id, &self.pipe, self.context.origin, info)?;
            self.core.tell(|| MonitorEvent::HandshakeSucceeded {
                endpoint: self.context.endpoint.clone(),
                peer: self.context.peer,
                routing_id: id.clone(),
                info: told,
            });
            self.peer = Some(id);
        }
        let (Some(peer), false) = (&self.peer, events.is_empty()) else { return Ok(()) };
        let mut messages = VecDeque::new();
        if P::EXAMINES {
            // Held until all is handed over: subscriptions reach the application in the order in which they took effect.
            let mut pattern = self.core.pattern.lock();
            let examined = events.drain(..).try_for_each(|e| pattern.examine(self.context.id, e, &mut messages));
            self.core.deliver(peer, &self.pipe, messages);
            return examined;
        } else if self.core.receives() {
            messages.reserve(events.len());
            for event in events.drain(..) {
                // Subscriptions are nothing to these: libzmq would hand them to the application as data.
                if let Event::Message(message) = event {
                    messages.push_back(message);
                }
            }
            self.core.deliver(peer, &self.pipe, messages);
        } else {
            events.clear();
        }
        Ok(())
    }

    /// One line for what an operator should know; a flood of like troubles gives one line.
    fn report(&self, reason: &Reason) {
        let kind = match reason {
            Reason::Protocol(ConnectionError::Silent) => None,
            Reason::Protocol(error) => Some(error.kind()),
            Reason::DuplicateRoutingId(_) => Some(15),
            Reason::Crowded => Some(16),
            Reason::Failed => Some(17),
            Reason::Unread => Some(19),
            Reason::Paired => Some(20),
            Reason::TooManyTopics => Some(21),
            _ => None,
        };
        let (endpoint, peer) = (&self.context.endpoint, self.context.peer);
        match kind.map(|kind| self.core.throttle.admit(kind, now())) {
            None => tracing::debug!(%endpoint, %peer, %reason, "connection ended"),
            Some(None) => {}
            Some(Some(0)) => tracing::warn!(%endpoint, %peer, %reason, "connection dropped"),
            Some(Some(more)) => {
                tracing::warn!(%endpoint, %peer, %reason, "connection dropped, and {more} more like it since the last such line");
            }
        }
    }
}
