//! [`Inbox`]: the one ordered stream from all links of a socket to its application.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hashbrown::HashMap;

use super::lock::Lock;
use super::pipe::Pipe;
use crate::connection::PeerInfo;
use crate::monitor::Reason;
use crate::{Message, RoutingId};

/// Something a link hands to its socket. Up comes before the first message of a connection, Down after the last.
#[derive(Debug)]
pub(crate) enum Delivery {
    Up { peer: RoutingId, info: Box<PeerInfo>, arrival: Arrival },
    Batch { peer: RoutingId, pipe: Arc<Pipe>, messages: VecDeque<Message> },
    Down { peer: RoutingId, reason: Reason },
}

/// Whether a peer's routing id was free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Fresh,
    /// It was another connection's, whose Down is not told.
    Replacing,
}

/// Most peers let in that the application has not heard of. Past it, no more are: each may leave what its credit
/// allows, and then leave.
const MAX_UNHEARD: usize = 64 * 1024;
/// Fewest peers that make looking for visits without a trace worth while.
const SWEEP: usize = 1024;

/// Handing over never waits: each link's credit bounds what it may deliver, and [`is_crowded`](Self::is_crowded)
/// bounds the number of links.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Lock<State>);

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Delivery>,
    /// Ups in `queue`.
    unheard: usize,
    /// As many as make the next sweep.
    sweep_at: usize,
    reader: Option<Waker>,
    closed: bool,
}

impl Inbox {
    pub(crate) fn push(&self, delivery: Delivery) {
        let mut state = self.0.lock();
        if state.closed {
            return;
        }
        if let Delivery::Up { .. } = delivery {
            if state.unheard >= state.sweep_at.max(SWEEP) {
                state.sweep();
            }
            state.unheard += 1;
        }
        state.queue.push_back(delivery);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// As [`push`](Self::push), in place of what the pipe delivered and nobody has taken.
    pub(crate) fn replace(&self, pipe: &Arc<Pipe>, delivery: Delivery) {
        self.0.lock().queue.retain(|there| !matches!(there, Delivery::Batch { pipe: of, .. } if Arc::ptr_eq(of, pipe)));
        self.push(delivery);
    }

    /// Moves everything into `into`, which must be empty. Ready with `Err` once closed and empty.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>, into: &mut VecDeque<Delivery>) -> Poll<Result<(), Closed>> {
        let mut state = self.0.lock();
        if !state.queue.is_empty() {
            state.hand_out(into);
            return Poll::Ready(Ok(()));
        }
        if state.closed {
            return Poll::Ready(Err(Closed));
        }
        match &mut state.reader {
            Some(reader) => reader.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// As [`poll_take`](Self::poll_take), without waiting.
    pub(crate) fn try_take(&self, into: &mut VecDeque<Delivery>) {
        let mut state = self.0.lock();
        if !state.queue.is_empty() {
            state.hand_out(into);
        }
    }

    /// Whether so many peers wait to be heard of that no more may be let in.
    pub(crate) fn is_crowded(&self) -> bool {
        self.0.lock().unheard >= MAX_UNHEARD
    }

    /// Takes nothing any more and drops what is queued.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        let (queue, reader) = (std::mem::take(&mut state.queue), state.reader.take());
        drop(state);
        drop(queue);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl State {
    fn hand_out(&mut self, into: &mut VecDeque<Delivery>) {
        std::mem::swap(&mut self.queue, into);
        self.unheard = 0;
        self.sweep_at = 0;
    }

    /// Drops the Up and Down of peers that came and went without a message, so that a socket which only sends does not
    /// keep a list of all its visitors.
    fn sweep(&mut self) {
        let mut silent = HashMap::new();
        let mut traceless = vec![false; self.queue.len()];
        for (at, delivery) in self.queue.iter().enumerate() {
            match delivery {
                Delivery::Up { peer, arrival: Arrival::Fresh, .. } => {
                    silent.insert(peer, at);
                }
                // Its Down is also that of the connection before, whose Up may have been heard.
                Delivery::Up { peer, arrival: Arrival::Replacing, .. } | Delivery::Batch { peer, .. } => {
                    silent.remove(peer);
                }
                Delivery::Down { peer, .. } => {
                    if let Some(up) = silent.remove(peer) {
                        (traceless[up], traceless[at]) = (true, true);
                    }
                }
            }
        }
        drop(silent);
        let mut traceless = traceless.into_iter();
        self.queue.retain(|_| traceless.next() != Some(true));
        self.unheard = self.queue.iter().filter(|delivery| matches!(delivery, Delivery::Up { .. })).count();
        self.sweep_at = 2 * self.unheard;
    }
}

/// The socket is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::pipe::PipeLimits;
    use crate::wire::greeting::Version;

    fn up(peer: u32, arrival: Arrival) -> Delivery {
        let info = PeerInfo::new(Version::V3_1);
        Delivery::Up { peer: RoutingId::generated(peer), info: Box::new(info), arrival }
    }

    fn down(peer: u32) -> Delivery {
        Delivery::Down { peer: RoutingId::generated(peer), reason: Reason::PeerClosed }
    }

    fn batch(peer: u32) -> Delivery {
        let pipe = Arc::new(Pipe::new(PipeLimits { send: 1, receive: 1 }));
        Delivery::Batch { peer: RoutingId::generated(peer), pipe, messages: VecDeque::from([Message::from("x")]) }
    }

    fn queued(inbox: &Inbox) -> usize {
        inbox.0.lock().queue.len()
    }

    #[test]
    fn silent_visitors_leave_no_trace() {
        let inbox = Inbox::default();
        inbox.push(down(7)); // of a peer heard of before
        inbox.push(up(1, Arrival::Fresh));
        inbox.push(batch(1));
        inbox.push(up(2, Arrival::Replacing));
        inbox.push(down(2));
        for visitor in 10..100_000 {
            inbox.push(up(visitor, Arrival::Fresh));
            inbox.push(down(visitor));
            assert!(queued(&inbox) <= 2 * SWEEP + 5);
        }
        assert!(!inbox.is_crowded());
        let mut taken = VecDeque::new();
        inbox.try_take(&mut taken);
        let ups = taken.iter().filter(|delivery| matches!(delivery, Delivery::Up { .. })).count();
        let downs = taken.iter().filter(|delivery| matches!(delivery, Delivery::Down { .. })).count();
        // Those of 2 and 7 are there; of 1 there is no Down yet.
        assert_eq!(ups, downs);
        assert!(matches!(&taken[0], Delivery::Down { .. }) && matches!(&taken[2], Delivery::Batch { .. }));
    }

    #[test]
    fn visitors_that_leave_messages_are_bounded_until_somebody_reads() {
        let inbox = Inbox::default();
        let mut let_in = 0;
        while !inbox.is_crowded() {
            inbox.push(up(let_in, Arrival::Fresh));
            inbox.push(batch(let_in));
            inbox.push(down(let_in));
            let_in += 1;
        }
        assert_eq!(let_in as usize, MAX_UNHEARD);
        inbox.try_take(&mut VecDeque::new());
        assert!(!inbox.is_crowded());
    }
}
