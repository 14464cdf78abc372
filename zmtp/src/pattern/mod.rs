//! Pure routing state: who is there, and whose turn it is.

mod fair;
mod lockstep;
mod lone;
mod publishing;
mod rotation;
mod routes;
mod sources;
mod subscribing;
mod topics;
mod trie;

use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) use self::fair::FairQueue;
pub(crate) use self::lockstep::{Answering, Asking};
pub(crate) use self::lone::Lone;
pub(crate) use self::publishing::{PublishOptions, Publishing};
pub(crate) use self::rotation::Rotation;
pub(crate) use self::routes::Routes;
pub(crate) use self::sources::Sources;
pub(crate) use self::subscribing::{Filter, Subscribing};
pub(crate) use self::topics::{MAX_TOPIC, Wish};
use crate::connection::{Event, PeerInfo};
use crate::engine::core::LinkId;
use crate::engine::pipe::Pipe;
use crate::monitor::Reason;
use crate::{Message, RoutingId};

/// What makes a socket's type: how it keeps its peers.
pub(crate) trait Pattern: Send + 'static {
    /// Whether what peers send goes through [`examine`](Self::examine). Otherwise messages go to the application as they
    /// are, and subscriptions, which are nothing to it, are dropped.
    const EXAMINES: bool = false;

    /// A peer's handshake is complete.
    fn attach(&mut self, peer: Joining<'_>) -> Admission;

    /// The link of a peer that had been let in ended. Whether it still held that routing id.
    fn detach(&mut self, link: LinkId, peer: &RoutingId, origin: Origin) -> bool;

    /// A connected endpoint is given up, and with it its pipe.
    fn forget(&mut self, pipe: &Arc<Pipe>);

    /// Takes in what a peer sent, in the link's task; what the application is to receive goes to `out`. An error ends
    /// the connection.
    fn examine(&mut self, _from: LinkId, _event: Event, _out: &mut VecDeque<Message>) -> Result<(), Reason> {
        Ok(())
    }

    /// What the application is to receive in the name of a peer that is gone.
    fn farewell(&mut self, _link: LinkId) -> VecDeque<Message> {
        VecDeque::new()
    }
}

/// The name of a peer where names mean nothing: the fair queue tells peers apart by it.
fn nameless(link: LinkId) -> RoutingId {
    RoutingId::generated(link.0 as u32)
}

/// A peer about to be let in.
#[derive(Debug)]
pub(crate) struct Joining<'a> {
    pub(crate) link: LinkId,
    pub(crate) pipe: &'a Arc<Pipe>,
    pub(crate) origin: Origin,
    pub(crate) info: &'a PeerInfo,
}

/// Who opened a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// The peer: the pipe goes with the link.
    Accepted,
    /// We: the pipe belongs to the endpoint and outlives the link.
    Connected,
}

/// The answer to a [`Joining`].
#[derive(Debug)]
pub(crate) enum Admission {
    /// In, under this name.
    As(RoutingId),
    /// In, and the connection that had this name is to be closed, if it is not finishing anyway.
    Replacing { peer: RoutingId, old: Option<Arc<Pipe>> },
    /// Out.
    Refused(Reason),
}
