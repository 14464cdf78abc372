//! [`Sources`]: peers that one only hears, or answers where they spoke.

use std::sync::Arc;

use super::{Admission, Joining, Origin, Pattern, nameless};
use crate::RoutingId;
use crate::engine::core::LinkId;
use crate::engine::pipe::Pipe;

/// The peers of a PULL or REP: everybody is let in, and nothing need be remembered.
#[derive(Debug, Default)]
pub(crate) struct Sources;

impl Pattern for Sources {
    fn attach(&mut self, peer: Joining<'_>) -> Admission {
        Admission::As(nameless(peer.link))
    }

    fn detach(&mut self, _link: LinkId, _peer: &RoutingId, _origin: Origin) -> bool {
        true
    }

    fn forget(&mut self, _pipe: &Arc<Pipe>) {}
}
