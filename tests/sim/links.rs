//! Connections between peers and the broker, as its ROUTER sockets see them.

use std::time::Duration;

use eventmq::broker::{DownReason, Input, SocketId, Why};
use zmtp::{Message, RoutingId};

use crate::faults::Notice;
use crate::frames::Parsed;
use crate::invariants::Checked;
use crate::world::{What, World};

/// One connection. Each direction is a FIFO queue with random delay.
pub struct Link {
    pub peer: usize,
    pub socket: SocketId,
    pub id: RoutingId,
    /// The two ends still reach each other.
    pub open: bool,
    /// What was sent before the end still arrives.
    graceful: bool,
    pub congested_until: Duration,
    last_to_broker: Duration,
    last_to_peer: Duration,
}

impl World {
    pub fn transmit(&mut self, socket: SocketId, to: RoutingId, message: Message) {
        let link = self.routes.get(&(socket, to.clone())).copied();
        let why = match link {
            Some(link) if self.links[link].congested_until > self.now => Why::Full,
            Some(link) => {
                let at = self.arrival(link, true);
                return self.at(at, What::ToPeer(link, message));
            }
            None => Why::Gone,
        };
        self.tally.count(if why == Why::Full { "undelivered: full" } else { "undelivered: gone" });
        let at = self.now + self.random.millis(0, 2);
        self.at(at, What::Input(Input::Undelivered { socket, to, message, why }));
    }

    /// When something sent now arrives: after everything sent before in that direction.
    fn arrival(&mut self, link: usize, to_peer: bool) -> Duration {
        let delay = if self.random.chance(5) { self.random.millis(5, 200) } else { self.random.millis(0, 3) };
        let link = &mut self.links[link];
        let last = if to_peer { &mut link.last_to_peer } else { &mut link.last_to_broker };
        *last = (self.now + delay).max(*last + Duration::from_micros(1));
        *last
    }

    pub fn up(&mut self, link: usize) -> Checked {
        if !self.links[link].open && !self.links[link].graceful {
            return Ok(());
        }
        let (socket, peer) = (self.links[link].socket, self.links[link].id.clone());
        self.routes.insert((socket, peer.clone()), link);
        self.input(Input::Up { socket, peer })
    }

    pub fn on_message(&mut self, link: usize, message: Message) -> Checked {
        let Link { socket, ref id, open, graceful, .. } = self.links[link];
        let (key, route) = ((socket, id.clone()), link);
        if (!open && !graceful) || self.routes.get(&key) != Some(&route) {
            self.tally.count("lost on the way to the broker");
            return Ok(());
        }
        let cut = self.cut_behind(link, &message);
        self.input(Input::Received { socket, from: key.1, message })?;
        if let Some((away, notice)) = cut {
            self.tally.count("fault: link cut between REPLY and READY");
            let peer = self.links[link].peer;
            self.cut(peer, notice);
            self.later(away, What::Reconnect(peer));
        }
        Ok(())
    }

    /// Whether the link is to be cut behind this message.
    fn cut_behind(&mut self, link: usize, message: &Message) -> Option<(Duration, Notice)> {
        let is_reply = Parsed::of(message).is_some_and(|parsed| parsed.command == b"REPLY");
        let slot = &mut self.peers[self.links[link].peer];
        slot.cut_behind_reply.take_if(|_| is_reply && slot.link == Some(link))
    }

    /// The broker's end notices; not reported when another link holds the routing id by now.
    pub fn down(&mut self, link: usize, reason: DownReason) -> Checked {
        let (socket, peer) = (self.links[link].socket, self.links[link].id.clone());
        if self.routes.get(&(socket, peer.clone())) != Some(&link) {
            return Ok(());
        }
        self.routes.remove(&(socket, peer.clone()));
        self.tally.count(if reason == DownReason::Closed { "down: closed" } else { "down: silent" });
        self.input(Input::Down { socket, peer, reason })
    }

    /// Ends a link without ceremony: what is under way is lost in both directions.
    pub fn cut(&mut self, peer: usize, notice: Notice) {
        let Some(link) = self.peers[peer].link.take() else { return };
        self.links[link].open = false;
        let (delay, reason) = match notice {
            Notice::Closed => (self.random.millis(0, 300), DownReason::Closed),
            Notice::Silent => (self.random.millis(2000, 9000), DownReason::Silent),
            Notice::Never if self.beats() => return,
            Notice::Never => (self.random.millis(2000, 9000), DownReason::Closed),
        };
        self.later(delay, What::Down(link, reason));
    }

    pub fn close(&mut self, peer: usize) {
        let Some(link) = self.peers[peer].link.take() else { return };
        self.links[link].open = false;
        self.links[link].graceful = true;
        let at = self.arrival(link, false);
        self.at(at, What::Down(link, DownReason::Closed));
    }

    pub fn connect(&mut self, peer: usize, id: RoutingId) {
        self.close(peer);
        let slot = &mut self.peers[peer];
        slot.id = Some(id.clone());
        slot.link = Some(self.links.len());
        self.links.push(Link {
            peer,
            socket: slot.socket,
            id,
            open: true,
            graceful: false,
            congested_until: Duration::ZERO,
            last_to_broker: self.now,
            last_to_peer: self.now,
        });
        let link = self.links.len() - 1;
        let at = self.arrival(link, false);
        self.at(at, What::Up(link));
        for message in std::mem::take(&mut self.peers[peer].held) {
            self.send(peer, message);
        }
    }

    pub fn reconnect(&mut self, peer: usize) {
        let slot = &self.peers[peer];
        if let (None, Some(id)) = (slot.link, slot.id.clone()) {
            self.tally.count("link: back with the same identity");
            self.connect(peer, id);
        }
    }

    pub fn send(&mut self, peer: usize, message: Message) {
        match self.peers[peer].link {
            Some(link) => {
                let at = self.arrival(link, false);
                self.at(at, What::FromPeer(link, message));
            }
            None => self.peers[peer].held.push(message),
        }
    }
}
