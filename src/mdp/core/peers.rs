//! Who is connected, and whose waiting requests nobody waits for any more.

use hashbrown::HashMap;
use zmtp::RoutingId;

/// Names one connection of a peer: a request's reply goes to the connection it came from, or nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Visit(u64);

#[derive(Debug)]
struct Peer {
    visit: Visit,
    /// Its requests that wait for a worker.
    waiting: usize,
}

/// All connected peers.
#[derive(Debug, Default)]
pub(super) struct Peers {
    known: HashMap<RoutingId, Peer>,
    visits: u64,
    /// Waiting requests whose peer is gone.
    pub orphans: usize,
}

impl Peers {
    /// A new connection.
    pub fn up(&mut self, id: RoutingId) {
        self.down(&id);
        self.visits += 1;
        self.known.insert(id, Peer { visit: Visit(self.visits), waiting: 0 });
    }

    /// A connection ended.
    pub fn down(&mut self, id: &RoutingId) {
        if let Some(peer) = self.known.remove(id) {
            self.orphans += peer.waiting;
        }
    }

    /// The connection a message came over; a peer that nobody announced is there as well.
    pub fn visit(&mut self, id: &RoutingId) -> Visit {
        if let Some(peer) = self.known.get(id) {
            return peer.visit;
        }
        self.up(id.clone());
        Visit(self.visits)
    }

    /// Whether that connection is still there.
    pub fn is_here(&self, id: &RoutingId, visit: Visit) -> bool {
        self.known.get(id).is_some_and(|peer| peer.visit == visit)
    }

    /// A request begins to wait.
    pub fn on_waiting(&mut self, id: &RoutingId, visit: Visit) {
        match self.known.get_mut(id).filter(|peer| peer.visit == visit) {
            Some(peer) => peer.waiting += 1,
            None => self.orphans += 1,
        }
    }

    /// A request no longer waits; whether somebody waits for its reply.
    pub fn on_waited(&mut self, id: &RoutingId, visit: Visit) -> bool {
        match self.known.get_mut(id).filter(|peer| peer.visit == visit) {
            Some(peer) => {
                peer.waiting = peer.waiting.saturating_sub(1);
                true
            }
            None => {
                self.orphans = self.orphans.saturating_sub(1);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_connection_is_another_visit() {
        let id = RoutingId::new("a").unwrap();
        let mut peers = Peers::default();
        peers.up(id.clone());
        let first = peers.visit(&id);
        peers.on_waiting(&id, first);
        peers.on_waiting(&id, first);
        assert!(peers.on_waited(&id, first));
        peers.up(id.clone());
        assert_eq!((peers.is_here(&id, first), peers.orphans), (false, 1));
        let second = peers.visit(&id);
        assert!(peers.is_here(&id, second));
        assert!(!peers.on_waited(&id, first));
        assert_eq!(peers.orphans, 0);
        peers.down(&id);
        assert!(!peers.is_here(&id, second));
    }
}
