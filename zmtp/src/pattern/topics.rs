//! [`Topics`]: who subscribes to what, and how a subscription is said.

use hashbrown::HashSet;

use super::trie::{NodeId, Trie};
use crate::Message;
use crate::wire::command;
use crate::wire::frame;
use crate::wire::greeting::Version;

/// The longest topic, in bytes: a longer one is refused here, and no subscription when it comes from a peer.
pub(crate) const MAX_TOPIC: usize = 64 * 1024;

/// A wish of a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish<'a> {
    Subscribe(&'a [u8]),
    Cancel(&'a [u8]),
}

impl<'a> Wish<'a> {
    /// The wish that a message is: one frame, `01` or `00` and the topic. That is the form of ZMTP 3.0, which peers of
    /// any version may use, and of what an XPUB's or XSUB's application sees. A message of more frames is data.
    pub(crate) fn of(message: &'a Message) -> Option<Self> {
        if message.frame_count() != 1 {
            return None;
        }
        match message.frame(0)?.split_first()? {
            (1, topic) if topic.len() <= MAX_TOPIC => Some(Self::Subscribe(topic)),
            (0, topic) if topic.len() <= MAX_TOPIC => Some(Self::Cancel(topic)),
            _ => None,
        }
    }

    /// The wish as a message.
    pub(crate) fn to_message(self) -> Message {
        let mut body = Vec::new();
        self.put_body(&mut body);
        Message::from(body)
    }

    /// Writes the wish as a peer of that version understands it: in 3.1 as a command, before as a message.
    pub(crate) fn put(self, version: Version, out: &mut Vec<u8>) {
        match self {
            Self::Subscribe(topic) if version >= Version::V3_1 => command::put(out, "SUBSCRIBE", &[topic]),
            Self::Cancel(topic) if version >= Version::V3_1 => command::put(out, "CANCEL", &[topic]),
            Self::Subscribe(topic) | Self::Cancel(topic) => {
                frame::put_header(out, 0, 1 + topic.len());
                self.put_body(out);
            }
        }
    }

    fn put_body(self, out: &mut Vec<u8>) {
        let (first, topic) = match self {
            Self::Subscribe(topic) => (1, topic),
            Self::Cancel(topic) => (0, topic),
        };
        out.push(first);
        out.extend_from_slice(topic);
    }
}

/// A subscriber's number among those of its socket.
pub(crate) type Slot = u32;

/// A publisher's table: a *set* of topics for each subscriber. RFC 37 would have it count, but libzmq's SUB sends every
/// SUBSCRIBE and only one CANCEL, so a publisher that counts never forgets (zmtp.md pitfall 12).
#[derive(Debug, Default)]
pub(crate) struct Topics {
    holders: Trie<Vec<Slot>>,
    /// Where each subscriber is in `holders`.
    held: Vec<HashSet<NodeId>>,
}

/// What [`Topics::add`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    /// Nobody had it.
    First,
    /// Others have it.
    Another,
    /// This one has it already.
    Again,
}

/// What [`Topics::remove`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removed {
    /// Nobody has it any more.
    Last,
    /// Others have it.
    NotLast,
    /// This one did not have it, others do.
    NotHeld,
    /// Nobody had it.
    Unknown,
}

impl Topics {
    pub(crate) fn add(&mut self, topic: &[u8], slot: Slot) -> Added {
        let (node, holders) = self.holders.entry(topic);
        if self.held.len() <= slot as usize {
            self.held.resize_with(slot as usize + 1, HashSet::new);
        }
        if !self.held[slot as usize].insert(node) {
            return Added::Again;
        }
        holders.push(slot);
        if holders.len() == 1 { Added::First } else { Added::Another }
    }

    pub(crate) fn remove(&mut self, topic: &[u8], slot: Slot) -> Removed {
        let Some(node) = self.holders.find(topic) else { return Removed::Unknown };
        if !self.held.get_mut(slot as usize).is_some_and(|held| held.remove(&node)) {
            return Removed::NotHeld;
        }
        if self.release(node, slot) { Removed::Last } else { Removed::NotLast }
    }

    /// The topics of a subscriber in byte order, each with whether nobody else has it.
    pub(crate) fn of(&self, slot: Slot) -> Vec<(Vec<u8>, bool)> {
        let nodes = self.held.get(slot as usize).into_iter().flatten();
        let mut topics: Vec<_> = nodes
            .map(|node| (self.holders.topic(*node), self.holders.value(*node).is_some_and(|h| h.len() == 1)))
            .collect();
        topics.sort_unstable();
        topics
    }

    /// Forgets a subscriber.
    pub(crate) fn remove_all(&mut self, slot: Slot) {
        let Some(held) = self.held.get_mut(slot as usize) else { return };
        for node in std::mem::take(held) {
            self.release(node, slot);
        }
    }

    /// Those who want a message whose first frame is `text`, some of them more than once.
    pub(crate) fn wanted_by<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = Slot> {
        self.holders.prefixes(text).flatten().copied()
    }

    /// Takes a holder from a topic; whether it was the last.
    fn release(&mut self, node: NodeId, slot: Slot) -> bool {
        let Some(holders) = self.holders.value_mut(node) else { return false };
        if let Some(at) = holders.iter().position(|holder| *holder == slot) {
            holders.swap_remove(at);
        }
        let last = holders.is_empty();
        if last {
            self.holders.remove(node);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wishes_as_libzmq_writes_them() {
        let wire = |wish: Wish<'_>, version| {
            let mut out = Vec::new();
            wish.put(version, &mut out);
            out
        };
        let (long, longer) = (vec![b'x'; 245], vec![b'x'; 246]);
        for (wish, old, new) in [
            (Wish::Subscribe(b"A"), &b"\0\x02\x01A"[..], &b"\x04\x0b\x09SUBSCRIBEA"[..]),
            (Wish::Subscribe(b""), b"\0\x01\x01", b"\x04\x0a\x09SUBSCRIBE"),
            (Wish::Cancel(b"A"), b"\0\x02\x00A", b"\x04\x08\x06CANCELA"),
            (Wish::Cancel(b""), b"\0\x01\x00", b"\x04\x07\x06CANCEL"),
        ] {
            assert_eq!(wire(wish, Version::V3_0), old);
            assert_eq!(wire(wish, Version::V3_1), new);
            assert_eq!(Wish::of(&wish.to_message()), Some(wish));
        }
        assert!(wire(Wish::Subscribe(&long), Version::V3_1).starts_with(b"\x04\xff\x09SUB"));
        assert!(wire(Wish::Subscribe(&longer), Version::V3_1).starts_with(b"\x06\0\0\0\0\0\0\x01\0\x09SUB"));
    }

    #[test]
    fn data_is_no_wish() {
        let longest = |more: usize| Message::from([&[1][..], &vec![b'x'; MAX_TOPIC + more]].concat());
        for data in [Message::from(""), Message::from("\u{2}A"), Message::from_frames(["\u{1}A", "B"]), longest(1)] {
            assert_eq!(Wish::of(&data), None);
        }
        assert!(Wish::of(&longest(0)).is_some());
    }

    fn topic() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(0..3u8, 0..4)
    }

    proptest! {
        /// Sets of pairs, with a look at every one of them.
        #[test]
        fn as_a_naive_model(steps in proptest::collection::vec((0..9u8, topic(), 0..4u32), 0..80), text in topic()) {
            let mut topics = Topics::default();
            let mut model = BTreeSet::new();
            for (what, topic, slot) in steps {
                let holders = |model: &BTreeSet<(Vec<u8>, u32)>| model.iter().filter(|(t, _)| *t == topic).count();
                match what {
                    0..5 => {
                        let fresh = model.insert((topic.clone(), slot));
                        let expected = match holders(&model) {
                            _ if !fresh => Added::Again,
                            1 => Added::First,
                            _ => Added::Another,
                        };
                        prop_assert_eq!(topics.add(&topic, slot), expected);
                    }
                    5..8 => {
                        let held = model.remove(&(topic.clone(), slot));
                        let expected = match (held, holders(&model)) {
                            (true, 0) => Removed::Last,
                            (true, _) => Removed::NotLast,
                            (false, 0) => Removed::Unknown,
                            (false, _) => Removed::NotHeld,
                        };
                        prop_assert_eq!(topics.remove(&topic, slot), expected);
                    }
                    _ => {
                        let all = model.iter().filter(|(_, s)| *s == slot).map(|(t, _)| {
                            (t.clone(), model.iter().filter(|(other, _)| other == t).count() == 1)
                        });
                        prop_assert_eq!(topics.of(slot), all.collect::<Vec<_>>());
                        topics.remove_all(slot);
                        model.retain(|(_, s)| *s != slot);
                    }
                }
            }
            let wanted: BTreeSet<u32> = topics.wanted_by(&text).collect();
            let expected = model.iter().filter(|(topic, _)| text.starts_with(topic)).map(|(_, slot)| *slot).collect();
            prop_assert_eq!(wanted, expected);
        }
    }
}
