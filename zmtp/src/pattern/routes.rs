//! [`Routes`]: a ROUTER's table from routing ids to pipes.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{Admission, Joining, Origin, Pattern};
use crate::engine::core::LinkId;
use crate::engine::pipe::{Pipe, PipeError};
use crate::monitor::Reason;
use crate::{Handover, Message, RoutingId};

/// Which pipe leads to which peer.
#[derive(Debug)]
pub(crate) struct Routes {
    routes: HashMap<RoutingId, Route>,
    /// Names that we gave to connected endpoints, whatever their peers announce.
    given: Vec<(Arc<Pipe>, RoutingId)>,
    handover: Handover,
    /// Counter of generated ids.
    next: u32,
}

#[derive(Debug)]
struct Route {
    /// `None` for a connected endpoint that was never there.
    link: Option<LinkId>,
    pipe: Arc<Pipe>,
    origin: Origin,
}

impl Routes {
    /// `start` should be random: with it, generated ids of one run mean nothing in the next.
    pub(crate) fn new(handover: Handover, start: u32) -> Self {
        Self { routes: HashMap::new(), given: Vec::new(), handover, next: start }
    }

    /// Gives a connected endpoint a name of ours, under which it takes messages at once; whether the name was free.
    pub(crate) fn name(&mut self, pipe: Arc<Pipe>, id: RoutingId) -> bool {
        if self.routes.get(&id).is_some_and(|route| route.pipe.is_running()) {
            return false;
        }
        self.routes.insert(id.clone(), Route { link: None, pipe: pipe.clone(), origin: Origin::Connected });
        self.given.push((pipe, id));
        true
    }

    /// Queues a message for a peer; `None` if nobody has that id.
    pub(crate) fn push(&self, to: &RoutingId, message: &Message) -> Option<Result<(), PipeError>> {
        self.routes.get(to).map(|route| route.pipe.push(message))
    }

    /// The routing ids there are.
    pub(crate) fn peers(&self) -> impl Iterator<Item = &RoutingId> {
        self.routes.keys()
    }

    fn generate(&mut self) -> RoutingId {
        loop {
            let id = RoutingId::generated(self.next);
            self.next = self.next.wrapping_add(1);
            if !self.routes.contains_key(&id) {
                return id;
            }
        }
    }
}

impl Pattern for Routes {
    fn attach(&mut self, peer: Joining<'_>) -> Admission {
        // A connected endpoint may come back as somebody else.
        if peer.origin == Origin::Connected {
            self.routes.retain(|_, route| !Arc::ptr_eq(&route.pipe, peer.pipe));
        }
        let given = self.given.iter().find(|(pipe, _)| Arc::ptr_eq(pipe, peer.pipe)).map(|(_, id)| id);
        let id = match given.or(peer.info.routing_id.as_ref()) {
            Some(id) => id.clone(),
            None => self.generate(),
        };
        let route = Route { link: Some(peer.link), pipe: peer.pipe.clone(), origin: peer.origin };
        match self.routes.entry(id.clone()) {
            hashbrown::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(route);
                Admission::As(id)
            }
            // A connection that is only finishing holds no name.
            hashbrown::hash_map::Entry::Occupied(mut held) if !held.get().pipe.is_running() => {
                held.insert(route);
                Admission::Replacing { peer: id, old: None }
            }
            hashbrown::hash_map::Entry::Occupied(mut held) => match self.handover {
                Handover::Refuse => Admission::Refused(Reason::DuplicateRoutingId(id)),
                Handover::Replace => Admission::Replacing { peer: id, old: Some(held.insert(route).pipe) },
            },
        }
    }

    fn detach(&mut self, link: LinkId, peer: &RoutingId, _origin: Origin) -> bool {
        match self.routes.get(peer) {
            Some(route) if route.link == Some(link) => {
                // What is queued for a connected endpoint waits for its return, unless it was told to finish.
                if route.origin == Origin::Accepted || !route.pipe.is_running() {
                    self.routes.remove(peer);
                }
                true
            }
            _ => false,
        }
    }

    fn forget(&mut self, pipe: &Arc<Pipe>) {
        self.routes.retain(|_, route| !Arc::ptr_eq(&route.pipe, pipe));
        self.given.retain(|(of, _)| !Arc::ptr_eq(of, pipe));
    }
}
