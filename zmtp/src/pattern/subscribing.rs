//! [`Subscribing`]: what a SUB or XSUB wants, and the publishers it tells.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::topics::Wish;
use super::trie::Trie;
use super::{Admission, Joining, Origin, Pattern, nameless};
use crate::connection::Event;
use crate::engine::core::LinkId;
use crate::engine::pipe::Pipe;
use crate::monitor::Reason;
use crate::wire::greeting::Version;
use crate::{Message, RoutingId};

/// A subscriber's topics and publishers.
#[derive(Debug)]
pub(crate) struct Subscribing {
    /// How often each topic is subscribed to.
    topics: Trie<usize>,
    members: Vec<Member>,
    filter: Filter,
    /// Topics given up so far: what was let through before may not be wanted any more.
    cancels: Arc<AtomicU64>,
}

/// Which of the arriving messages the application gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filter {
    /// Those it subscribes to: a publisher may not have heard of a change yet, or not filter at all.
    Matching,
    /// Those it does not subscribe to.
    Others,
    /// All.
    Off,
}

#[derive(Debug)]
struct Member {
    pipe: Arc<Pipe>,
    /// The link that serves the pipe now and its peer's version; `None` for a connected endpoint between links.
    link: Option<(LinkId, Version)>,
}

impl Subscribing {
    pub(crate) fn new(filter: Filter) -> Self {
        Self { topics: Trie::default(), members: Vec::new(), filter, cancels: Arc::default() }
    }

    /// The count of topics given up, to be compared with what it was.
    pub(crate) fn cancels(&self) -> Arc<AtomicU64> {
        self.cancels.clone()
    }

    /// Adds the pipe of a connected endpoint: it takes messages before there is a connection.
    pub(crate) fn add(&mut self, pipe: Arc<Pipe>) {
        self.members.push(Member { pipe, link: None });
    }

    /// Subscribes once more. Told every time, as by libzmq.
    pub(crate) fn subscribe(&mut self, topic: &[u8]) {
        *self.topics.entry(topic).1 += 1;
        self.tell(Wish::Subscribe(topic));
    }

    /// Takes one subscription back, which is told when it was the last; whether there was one.
    pub(crate) fn unsubscribe(&mut self, topic: &[u8]) -> bool {
        let Some(at) = self.topics.find(topic) else { return false };
        if let Some(count) = self.topics.value_mut(at)
            && *count > 1
        {
            *count -= 1;
            return true;
        }
        self.topics.remove(at);
        self.cancels.fetch_add(1, Ordering::Release);
        self.tell(Wish::Cancel(topic));
        true
    }

    /// Whether the application wants a message.
    pub(crate) fn wants(&self, message: &Message) -> bool {
        let matches = || self.topics.prefixes(message.frame(0).unwrap_or_default()).next().is_some();
        match self.filter {
            Filter::Matching => matches(),
            Filter::Others => !matches(),
            Filter::Off => true,
        }
    }

    /// Queues a message for every publisher that has room.
    pub(crate) fn push(&self, message: &Message) {
        for member in &self.members {
            // An error means no room, or a peer about to leave.
            let _ = member.pipe.push(message);
        }
    }

    /// Tells those who are there. Who comes later is told all topics then.
    fn tell(&self, wish: Wish<'_>) {
        for member in &self.members {
            if let Some((_, version)) = member.link {
                member.pipe.push_control(|out| wish.put(version, out));
            }
        }
    }
}

impl Pattern for Subscribing {
    const EXAMINES: bool = true;

    fn attach(&mut self, peer: Joining<'_>) -> Admission {
        let version = peer.info.version;
        // Not as messages: libzmq drops what exceeds the high-water mark (zmtp.md pitfall 11).
        peer.pipe.push_control(|out| self.topics.for_each(|topic| Wish::Subscribe(topic).put(version, out)));
        let link = Some((peer.link, version));
        match self.members.iter_mut().find(|member| Arc::ptr_eq(&member.pipe, peer.pipe)) {
            Some(member) => member.link = link,
            None => self.members.push(Member { pipe: peer.pipe.clone(), link }),
        }
        Admission::As(nameless(peer.link))
    }

    fn detach(&mut self, link: LinkId, _peer: &RoutingId, origin: Origin) -> bool {
        let is_its = |member: &Member| member.link.is_some_and(|(id, _)| id == link);
        match origin {
            Origin::Accepted => self.members.retain(|member| !is_its(member)),
            Origin::Connected => self.members.iter_mut().filter(|m| is_its(m)).for_each(|member| member.link = None),
        }
        true
    }

    fn forget(&mut self, pipe: &Arc<Pipe>) {
        self.members.retain(|member| !Arc::ptr_eq(&member.pipe, pipe));
    }

    fn examine(&mut self, _from: LinkId, event: Event, out: &mut VecDeque<Message>) -> Result<(), Reason> {
        if let Event::Message(message) = event
            && self.wants(&message)
        {
            out.push_back(message);
        }
        Ok(())
    }
}
