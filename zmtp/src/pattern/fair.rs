//! [`FairQueue`]: one message per peer and turn.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::pipe::Pipe;
use crate::{Message, RoutingId};

/// Batches received from several peers, read in turn: a peer that floods does not delay the others' messages.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    ring: VecDeque<Run>,
}

/// What one peer sent.
#[derive(Debug)]
struct Run {
    peer: RoutingId,
    pipe: Arc<Pipe>,
    messages: VecDeque<Message>,
    /// Messages taken whose credit has not been given back.
    taken: usize,
}

impl FairQueue {
    /// Adds what a link delivered.
    pub(crate) fn add(&mut self, peer: RoutingId, pipe: Arc<Pipe>, mut messages: VecDeque<Message>) {
        match self.ring.iter_mut().find(|run| Arc::ptr_eq(&run.pipe, &pipe) && run.peer == peer) {
            Some(run) => run.messages.append(&mut messages),
            None => self.ring.push_back(Run { peer, pipe, messages, taken: 0 }),
        }
    }

    /// As [`add`](Self::add), in place of what there is of that pipe.
    pub(crate) fn replace(&mut self, peer: RoutingId, pipe: Arc<Pipe>, messages: VecDeque<Message>) {
        self.ring.retain(|run| !Arc::ptr_eq(&run.pipe, &pipe));
        self.add(peer, pipe, messages);
    }

    /// The next message in turn, and whom it is from.
    pub(crate) fn pop(&mut self) -> Option<(RoutingId, Message)> {
        self.pop_with(|peer, _| peer.clone())
    }

    /// The next message in turn, and what `of` says of the peer and pipe it came from.
    pub(crate) fn pop_with<T>(&mut self, of: impl FnOnce(&RoutingId, &Arc<Pipe>) -> T) -> Option<(T, Message)> {
        let run = self.ring.front_mut()?;
        let message = run.messages.pop_front()?;
        run.taken += 1;
        let of = of(&run.peer, &run.pipe);
        if run.messages.is_empty() {
            run.pipe.consumed(run.taken);
            self.ring.pop_front();
        } else if self.ring.len() > 1 {
            self.ring.rotate_left(1);
        }
        Some((of, message))
    }

    /// Whether there is no message.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::pipe::PipeLimits;

    #[test]
    fn peers_take_turns() {
        let mut queue = FairQueue::default();
        for (peer, count) in [("a", 3), ("b", 1), ("c", 2)] {
            let pipe = Arc::new(Pipe::new(PipeLimits { send: 1, receive: 10 }));
            let messages = (0..count).map(|i| Message::from(format!("{peer}{i}"))).collect();
            queue.add(RoutingId::new(peer).unwrap(), pipe, messages);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, m)| m.frame(0).unwrap().to_vec()).collect();
        assert_eq!(order, [b"a0", b"b0", b"c0", b"a1", b"c1", b"a2"]);
    }
}
