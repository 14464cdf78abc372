//! [`Lone`]: one peer and no more.

use std::sync::Arc;

use super::{Admission, Joining, Origin, Pattern, nameless};
use crate::engine::core::LinkId;
use crate::engine::pipe::{Pipe, PipeError};
use crate::monitor::Reason;
use crate::{Message, RoutingId};

/// A PAIR's peer.
#[derive(Debug, Default)]
pub(crate) struct Lone {
    peer: Option<Peer>,
    /// Nothing is queued for an endpoint that is not connected.
    immediate: bool,
}

#[derive(Debug)]
struct Peer {
    pipe: Arc<Pipe>,
    /// `None` for a connected endpoint between links.
    link: Option<LinkId>,
}

impl Lone {
    pub(crate) fn new(immediate: bool) -> Self {
        Self { peer: None, immediate }
    }

    /// Takes the pipe of a connected endpoint, unless there is a peer: then the endpoint waits for it to leave.
    pub(crate) fn add(&mut self, pipe: Arc<Pipe>) {
        if self.peer.is_none() && !self.immediate {
            self.peer = Some(Peer { pipe, link: None });
        }
    }

    /// Queues a message; no room without a peer.
    pub(crate) fn push(&mut self, message: &Message) -> Result<(), PipeError> {
        self.peer.as_ref().map_or(Err(PipeError::Full), |peer| peer.pipe.push(message))
    }
}

impl Pattern for Lone {
    fn attach(&mut self, joining: Joining<'_>) -> Admission {
        let vacant = match &self.peer {
            None => true,
            Some(peer) => Arc::ptr_eq(&peer.pipe, joining.pipe) || !peer.pipe.is_running(),
        };
        if !vacant {
            return Admission::Refused(Reason::Paired);
        }
        self.peer = Some(Peer { pipe: joining.pipe.clone(), link: Some(joining.link) });
        Admission::As(nameless(joining.link))
    }

    fn detach(&mut self, link: LinkId, _name: &RoutingId, origin: Origin) -> bool {
        if let Some(peer) = self.peer.as_mut().filter(|peer| peer.link == Some(link)) {
            peer.link = None;
            if self.immediate {
                peer.pipe.discard_queue();
            }
            if origin == Origin::Accepted || self.immediate {
                self.peer = None;
            }
        }
        true
    }

    fn forget(&mut self, pipe: &Arc<Pipe>) {
        self.peer.take_if(|peer| Arc::ptr_eq(&peer.pipe, pipe));
    }
}
