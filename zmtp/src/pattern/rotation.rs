//! [`Rotation`]: round robin over the pipes that have room, one whole message per turn.

use std::sync::Arc;

use super::{Admission, Joining, Origin, Pattern, nameless};
use crate::engine::core::LinkId;
use crate::engine::pipe::{Pipe, PipeError};
use crate::{Message, RoutingId};

/// The peers of a DEALER, PUSH or REQ in turn.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    members: Vec<Member>,
    /// Whose turn it is.
    turn: usize,
    /// Nothing is queued for endpoints that are not connected.
    immediate: bool,
}

#[derive(Debug)]
struct Member {
    /// The link that serves the pipe now; `None` for a connected endpoint between links.
    link: Option<LinkId>,
    pipe: Arc<Pipe>,
}

impl Rotation {
    pub(crate) fn new(immediate: bool) -> Self {
        Self { immediate, ..Self::default() }
    }

    /// Adds the pipe of a connected endpoint: it takes messages before there is a connection, unless told otherwise.
    pub(crate) fn add(&mut self, pipe: Arc<Pipe>) {
        if !self.immediate {
            self.members.push(Member { link: None, pipe });
        }
    }

    /// Queues a message for the next peer that has room; whether there was one.
    pub(crate) fn push(&mut self, message: &Message) -> bool {
        self.deal(|pipe| pipe.push(message)).is_some()
    }

    /// As [`push`](Self::push), with `put` to queue what there is; gives the pipe that took it.
    pub(crate) fn deal(&mut self, put: impl Fn(&Pipe) -> Result<(), PipeError>) -> Option<&Arc<Pipe>> {
        let count = self.members.len();
        for step in 0..count {
            let at = (self.turn + step) % count;
            if put(&self.members[at].pipe).is_ok() {
                self.turn = (at + 1) % count;
                return Some(&self.members[at].pipe);
            }
        }
        None
    }
}

impl Pattern for Rotation {
    fn attach(&mut self, peer: Joining<'_>) -> Admission {
        match self.members.iter_mut().find(|member| Arc::ptr_eq(&member.pipe, peer.pipe)) {
            Some(member) => member.link = Some(peer.link),
            None => self.members.push(Member { link: Some(peer.link), pipe: peer.pipe.clone() }),
        }
        Admission::As(nameless(peer.link))
    }

    fn detach(&mut self, link: LinkId, _peer: &RoutingId, origin: Origin) -> bool {
        match origin {
            Origin::Connected if self.immediate => {
                let gone = self.members.extract_if(.., |member| member.link == Some(link));
                gone.for_each(|member| member.pipe.discard_queue());
            }
            Origin::Accepted => self.members.retain(|member| member.link != Some(link)),
            Origin::Connected => {
                self.members.iter_mut().filter(|member| member.link == Some(link)).for_each(|m| m.link = None);
            }
        }
        true
    }

    fn forget(&mut self, pipe: &Arc<Pipe>) {
        self.members.retain(|member| !Arc::ptr_eq(&member.pipe, pipe));
    }
}
