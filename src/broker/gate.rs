//! [`Gate`]: holds messages back until what they tell of is stored.

use std::collections::VecDeque;

use hashbrown::HashMap;
use zmtp::RoutingId;

use super::{Effect, SocketId};
use crate::store::StoreSeq;

/// Passes effects on in their order, except that a [`Effect::Send`] waits for its record, and later sends to the same
/// peer wait behind it. With nothing to wait for it is open and costs one comparison.
#[derive(Debug, Default)]
pub struct Gate {
    stored: StoreSeq,
    held: HashMap<(SocketId, RoutingId), VecDeque<Effect>>,
    /// Held messages in the order they came, so that they leave in that order.
    order: VecDeque<(StoreSeq, SocketId, RoutingId)>,
}

impl Gate {
    /// A gate with nothing stored yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives back an effect that may be carried out now, or holds it.
    pub fn pass(&mut self, effect: Effect) -> Option<Effect> {
        let Effect::Send { socket, to, after, .. } = &effect else { return Some(effect) };
        if self.order.is_empty() && *after <= self.stored {
            return Some(effect);
        }
        let peer = (*socket, to.clone());
        if *after <= self.stored && !self.held.contains_key(&peer) {
            return Some(effect);
        }
        self.order.push_back((*after, *socket, to.clone()));
        self.held.entry(peer).or_default().push_back(effect);
        None
    }

    /// Everything up to `seq` is stored: appends what may go now to `out`.
    pub fn on_stored(&mut self, seq: StoreSeq, out: &mut Vec<Effect>) {
        self.stored = self.stored.max(seq);
        let mut kept = VecDeque::new();
        // Peers whose earlier message must still wait.
        let mut blocked: HashMap<(SocketId, RoutingId), ()> = HashMap::new();
        for (after, socket, to) in std::mem::take(&mut self.order) {
            let peer = (socket, to);
            if after > self.stored || blocked.contains_key(&peer) {
                kept.push_back((after, peer.0, peer.1.clone()));
                blocked.insert(peer, ());
                continue;
            }
            if let Some(held) = self.held.get_mut(&peer) {
                out.extend(held.pop_front());
                if held.is_empty() {
                    self.held.remove(&peer);
                }
            }
        }
        self.order = kept;
    }

    /// How many messages are held back.
    pub fn held(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zmtp::Message;

    use super::*;

    fn send(to: u8, after: u64, tag: usize) -> Effect {
        Effect::Send {
            socket: SocketId(0),
            to: RoutingId::new([b'a' + to]).unwrap(),
            message: Message::single(tag.to_string()),
            after: StoreSeq(after),
        }
    }

    fn parts(effect: &Effect) -> (RoutingId, u64, usize) {
        let Effect::Send { to, message, after, .. } = effect else { panic!("not a send") };
        let tag = std::str::from_utf8(message.frame(0).unwrap()).unwrap().parse().unwrap();
        (to.clone(), after.0, tag)
    }

    #[test]
    fn is_open_with_a_memory_store() {
        let mut gate = Gate::new();
        assert!(gate.pass(send(0, 0, 0)).is_some());
        assert_eq!(gate.pass(Effect::Stop), Some(Effect::Stop));
        assert_eq!(gate.held(), 0);
    }

    proptest! {
        #[test]
        fn nothing_leaves_early_or_overtakes(steps in proptest::collection::vec((0..3u8, 0..6u64, any::<bool>()), 1..40)) {
            let (mut gate, mut out, mut stored) = (Gate::new(), Vec::new(), 0);
            for (tag, (to, seq, is_send)) in steps.iter().copied().enumerate() {
                let before = out.len();
                if is_send {
                    out.extend(gate.pass(send(to, seq, tag)));
                } else {
                    stored = stored.max(seq);
                    gate.on_stored(StoreSeq(stored), &mut out);
                }
                for effect in &out[before..] {
                    prop_assert!(parts(effect).1 <= stored);
                }
            }
            gate.on_stored(StoreSeq(10), &mut out);
            prop_assert_eq!(gate.held(), 0);
            prop_assert_eq!(out.len(), steps.iter().filter(|step| step.2).count());
            for to in 0..3u8 {
                let to = RoutingId::new([b'a' + to]).unwrap();
                let tags: Vec<_> = out.iter().map(parts).filter(|part| part.0 == to).map(|part| part.2).collect();
                prop_assert!(tags.is_sorted(), "{:?}", tags);
            }
        }
    }
}
