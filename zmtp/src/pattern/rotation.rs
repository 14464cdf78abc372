//! [`Rotation`]: round robin over the pipes that have room, one whole message per turn.

use std::sync::Arc;

use super::{Admission, Joining, Origin, Pattern};
use crate::engine::core::LinkId;
use crate::engine::pipe::Pipe;
use crate::{Message, RoutingId};

/// A DEALER's peers in turn.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    members: Vec<Member>,
    /// Whose turn it is.
    turn: usize,
}

#[derive(Debug)]
struct Member {
    /// The link that serves the pipe now; `None` for a connected endpoint between links.
    link: Option<LinkId>,
    pipe: Arc<Pipe>,
}

impl Rotation {
    /// Adds the pipe of a connected endpoint: it takes messages before there is a connection.
    pub(crate) fn add(&mut self, pipe: Arc<Pipe>) {
        self.members.push(Member { link: None, pipe });
    }

    /// Queues a message for the next peer that has room; whether there was one.
    pub(crate) fn push(&mut self, message: &Message) -> bool {
        let count = self.members.len();
        for step in 0..count {
            let at = (self.turn + step) % count;
            if self.members[at].pipe.push(message).is_ok() {
                self.turn = (at + 1) % count;
                return true;
            }
        }
        false
    }
}

impl Pattern for Rotation {
    fn attach(&mut self, peer: Joining<'_>) -> Admission {
        match self.members.iter_mut().find(|member| Arc::ptr_eq(&member.pipe, peer.pipe)) {
            Some(member) => member.link = Some(peer.link),
            None => self.members.push(Member { link: Some(peer.link), pipe: peer.pipe.clone() }),
        }
        // Names mean nothing to a DEALER, but the fair queue tells its peers apart by them.
        Admission::As(RoutingId::generated(peer.link.0 as u32))
    }

    fn detach(&mut self, link: LinkId, _peer: &RoutingId, origin: Origin) -> bool {
        match origin {
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
