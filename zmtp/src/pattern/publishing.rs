//! [`Publishing`]: a PUB's or XPUB's subscribers.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;

use super::topics::{Added, Removed, Slot, Topics, Wish};
use super::{Admission, Joining, Origin, Pattern, nameless};
use crate::connection::Event;
use crate::engine::core::LinkId;
use crate::engine::pipe::Pipe;
use crate::monitor::Reason;
use crate::socket::Verbosity;
use crate::{Message, RoutingId};

/// What a topic costs beside its bytes, in bytes, as far as limits go.
const PER_TOPIC: usize = 64;

/// How a PUB or XPUB behaves.
#[derive(Debug, Clone)]
pub(crate) struct PublishOptions {
    /// Whether the application hears of subscriptions, and of whatever else peers send.
    pub(crate) listens: bool,
    pub(crate) verbosity: Verbosity,
    /// The application decides who gets what.
    pub(crate) manual: bool,
    /// A message that does not fit every subscriber's queue is not queued for any.
    pub(crate) nodrop: bool,
    /// Messages go to those who do *not* subscribe to them.
    pub(crate) invert: bool,
    /// Comes first on every connection.
    pub(crate) welcome: Option<Message>,
    /// Most memory for one subscriber's topics, in bytes.
    pub(crate) max_topics: usize,
}

/// Who wants what, and how to reach them.
#[derive(Debug)]
pub(crate) struct Publishing {
    options: PublishOptions,
    /// What decides who gets a message.
    topics: Topics,
    /// What peers asked for, where that does not decide.
    wishes: Topics,
    peers: Vec<Option<Subscriber>>,
    vacant: Vec<Slot>,
    slots: HashMap<RoutingId, Slot>,
    /// Counts messages, to see whom one has been queued for.
    round: u64,
    /// The receivers of the message at hand.
    chosen: Vec<Slot>,
}

#[derive(Debug)]
struct Subscriber {
    pipe: Arc<Pipe>,
    /// The round it was chosen in last.
    chosen: u64,
    /// Memory its topics take, in bytes.
    size: usize,
}

impl Publishing {
    pub(crate) fn new(options: PublishOptions) -> Self {
        Self {
            options,
            topics: Topics::default(),
            wishes: Topics::default(),
            peers: Vec::new(),
            vacant: Vec::new(),
            slots: HashMap::new(),
            round: 0,
            chosen: Vec::new(),
        }
    }

    /// Queues a message once for everybody who wants it; who has no room does not get it. Whether it was queued: with
    /// `nodrop` it is not if anybody has no room.
    pub(crate) fn push(&mut self, message: &Message) -> bool {
        self.choose(message.frame(0).unwrap_or_default());
        let pipes = || self.chosen.iter().filter_map(|slot| self.peers[*slot as usize].as_ref()).map(|peer| &peer.pipe);
        if self.options.nodrop && !pipes().all(|pipe| pipe.has_room()) {
            return false;
        }
        for pipe in pipes() {
            // An error means no room, or a peer about to leave.
            let _ = pipe.push(message);
        }
        true
    }

    fn choose(&mut self, text: &[u8]) {
        self.round += 1;
        self.chosen.clear();
        for slot in self.topics.wanted_by(text) {
            if let Some(peer) = &mut self.peers[slot as usize]
                && peer.chosen != self.round
            {
                peer.chosen = self.round;
                self.chosen.push(slot);
            }
        }
        if self.options.invert {
            let others =
                (0..).zip(&self.peers).filter(|(_, peer)| peer.as_ref().is_some_and(|p| p.chosen != self.round));
            self.chosen = others.map(|(slot, _)| slot).collect();
        }
    }

    /// For an application that decides itself: has a peer get what begins so.
    pub(crate) fn subscribe(&mut self, peer: &RoutingId, topic: &[u8]) -> bool {
        let Some(slot) = self.slots.get(peer) else { return false };
        self.topics.add(topic, *slot);
        true
    }

    /// The opposite of [`subscribe`](Self::subscribe).
    pub(crate) fn unsubscribe(&mut self, peer: &RoutingId, topic: &[u8]) -> bool {
        let Some(slot) = self.slots.get(peer) else { return false };
        self.topics.remove(topic, *slot);
        true
    }

    /// Follows a peer's wish and tells the application if it is to hear of it.
    fn hear(&mut self, slot: Slot, wish: Wish<'_>, out: &mut VecDeque<Message>) -> Result<(), Reason> {
        if self.follow(slot, wish)? {
            out.push_back(wish.to_message());
        }
        Ok(())
    }

    /// Follows a peer's wish; whether the application is to hear of it.
    fn follow(&mut self, slot: Slot, wish: Wish<'_>) -> Result<bool, Reason> {
        let topics = if self.options.manual { &mut self.wishes } else { &mut self.topics };
        let Some(Some(peer)) = self.peers.get_mut(slot as usize) else { return Ok(false) };
        let verbosity = self.options.verbosity;
        let told = match wish {
            Wish::Subscribe(topic) => {
                let added = topics.add(topic, slot);
                if added != Added::Again {
                    peer.size += topic.len() + PER_TOPIC;
                    if peer.size > self.options.max_topics {
                        return Err(Reason::TooManyTopics);
                    }
                }
                added == Added::First || verbosity != Verbosity::Changes
            }
            Wish::Cancel(topic) => {
                let removed = topics.remove(topic, slot);
                if let Removed::Last | Removed::NotLast = removed {
                    peer.size -= topic.len() + PER_TOPIC;
                }
                matches!(removed, Removed::Last | Removed::Unknown) || verbosity == Verbosity::Everything
            }
        };
        Ok(self.options.listens && (told || self.options.manual))
    }
}

impl Pattern for Publishing {
    const EXAMINES: bool = true;

    fn attach(&mut self, peer: Joining<'_>) -> Admission {
        // What waits there was for the connection before: this one has not subscribed to it.
        peer.pipe.discard_queue();
        if let Some(welcome) = &self.options.welcome {
            // The pipe is empty; an error means that it is closing.
            let _ = peer.pipe.push(welcome);
        }
        let subscriber = Subscriber { pipe: peer.pipe.clone(), chosen: 0, size: 0 };
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.peers[slot as usize] = Some(subscriber);
                slot
            }
            None => {
                self.peers.push(Some(subscriber));
                (self.peers.len() - 1) as Slot
            }
        };
        let name = nameless(peer.link);
        self.slots.insert(name.clone(), slot);
        Admission::As(name)
    }

    fn detach(&mut self, _link: LinkId, peer: &RoutingId, _origin: Origin) -> bool {
        if let Some(slot) = self.slots.remove(peer) {
            self.topics.remove_all(slot);
            self.wishes.remove_all(slot);
            self.peers[slot as usize] = None;
            self.vacant.push(slot);
        }
        true
    }

    fn forget(&mut self, _pipe: &Arc<Pipe>) {}

    fn examine(&mut self, from: LinkId, event: Event, out: &mut VecDeque<Message>) -> Result<(), Reason> {
        let Some(slot) = self.slots.get(&nameless(from)).copied() else { return Ok(()) };
        match event {
            Event::Subscribe(topic) => self.hear(slot, Wish::Subscribe(&topic), out),
            Event::Cancel(topic) => self.hear(slot, Wish::Cancel(&topic), out),
            Event::Message(message) => {
                match Wish::of(&message) {
                    Some(wish) => self.hear(slot, wish, out)?,
                    None if self.options.listens => out.push_back(message),
                    None => {}
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn farewell(&mut self, link: LinkId) -> VecDeque<Message> {
        let slot = self.slots.get(&nameless(link)).filter(|_| self.options.listens);
        let Some(slot) = slot.copied() else { return VecDeque::new() };
        let topics = if self.options.manual { &self.wishes } else { &self.topics };
        let every = self.options.manual || self.options.verbosity == Verbosity::Everything;
        let gone = topics.of(slot).into_iter().filter(|(_, last)| *last || every);
        gone.map(|(topic, _)| Wish::Cancel(&topic).to_message()).collect()
    }
}
