//! [`Pipe`]: what a socket and the link to one peer share.

use std::task::{Context, Waker};
use std::time::Instant;

use super::lock::Lock;
use crate::Message;
use crate::connection::Transmit;

/// A peer's outgoing queue and the credit for what it sends us.
///
/// Messages are encoded when they are queued, so the link only has to write what it takes. An accepted peer's pipe
/// lives as long as its link; that of a connected endpoint outlives its links and keeps unsent messages.
#[derive(Debug)]
pub(crate) struct Pipe {
    state: Lock<State>,
    limits: PipeLimits,
    keep: Keep,
}

/// What a full pipe keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// What is in it.
    Queued,
    /// Only the newest message: it is full with one, and the next takes its place.
    Newest,
}

/// High-water marks, in messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PipeLimits {
    pub(crate) send: usize,
    pub(crate) receive: usize,
}

#[derive(Debug)]
struct State {
    /// Commands and the like, which go out before any message and which no high-water mark holds back.
    control: Vec<u8>,
    out: Transmit,
    /// Messages in `out`. What the link has taken is the kernel's business, as with libzmq's encoder.
    queued: usize,
    /// A sender met a full queue and wants to hear of room.
    was_full: bool,
    /// Messages delivered to the socket that the application has not taken yet, by whichever link.
    unread: usize,
    /// Wakes the link; only there while the link sleeps, so a burst wakes it once.
    link: Option<Waker>,
    /// The link waits for `unread` to fall.
    out_of_credit: bool,
    order: Order,
}

/// What the socket wants of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Run,
    /// Write what is queued, at the latest until then, and close.
    Finish(Option<Instant>),
    /// Close at once.
    Abort(AbortReason),
}

/// Why a link is closed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AbortReason {
    /// Another connection took the routing id over.
    Replaced,
    /// Too many connections are in their handshake; this is the oldest.
    Crowded,
    /// The socket or the endpoint is closed and nothing is to be kept.
    Closed,
}

/// Why a pipe takes no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipeError {
    Full,
    Closed,
}

impl Pipe {
    pub(crate) fn new(limits: PipeLimits) -> Self {
        Self::keeping(Keep::Queued, limits)
    }

    pub(crate) fn keeping(keep: Keep, limits: PipeLimits) -> Self {
        let state = State {
            control: Vec::new(),
            out: Transmit::new(),
            queued: 0,
            was_full: false,
            unread: 0,
            link: None,
            out_of_credit: false,
            order: Order::Run,
        };
        Self { state: Lock::new(state), limits, keep }
    }

    /// Queues a message and wakes the link if it sleeps.
    pub(crate) fn push(&self, message: &Message) -> Result<(), PipeError> {
        self.enqueue(|out| out.push(message))
    }

    /// As [`push`](Self::push), with frames in front: `prefix` is their wire form, MORE set on all of them.
    pub(crate) fn push_behind(&self, prefix: &[u8], message: &Message) -> Result<(), PipeError> {
        self.enqueue(|out| {
            out.run_mut().extend_from_slice(prefix);
            out.push(message);
        })
    }

    fn enqueue(&self, put: impl FnOnce(&mut Transmit)) -> Result<(), PipeError> {
        let mut state = self.state.lock();
        if state.order != Order::Run {
            return Err(PipeError::Closed);
        }
        if state.queued >= self.limits.send {
            if self.keep == Keep::Queued {
                state.was_full = true;
                return Err(PipeError::Full);
            }
            state.discard_queue();
        }
        put(&mut state.out);
        state.queued += 1;
        let link = state.link.take();
        drop(state);
        if let Some(link) = link {
            link.wake();
        }
        Ok(())
    }

    /// Queues bytes in front of all messages, whatever the high-water mark.
    pub(crate) fn push_control(&self, put: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state.lock();
        put(&mut state.control);
        let link = state.link.take();
        drop(state);
        if let Some(link) = link {
            link.wake();
        }
    }

    /// Drops control bytes that the link before did not take: they were for its connection.
    pub(crate) fn discard_control(&self) {
        self.state.lock().control.clear();
    }

    /// Drops the messages that are queued.
    pub(crate) fn discard_queue(&self) {
        self.state.lock().discard_queue();
    }

    /// Whether a message would be queued now. If not, the sender is told when there is room.
    pub(crate) fn has_room(&self) -> bool {
        let mut state = self.state.lock();
        let room = state.queued < self.limits.send || self.keep == Keep::Newest || state.order != Order::Run;
        state.was_full |= !room;
        room
    }

    /// For the link: moves everything queued into `into`, which must be empty. Tells whether a sender waits for room.
    pub(crate) fn take(&self, into: &mut Transmit) -> Taken {
        let mut state = self.state.lock();
        if !state.control.is_empty() {
            into.run_mut().append(&mut state.control);
        }
        into.append(&mut state.out);
        state.queued = 0;
        if std::mem::take(&mut state.was_full) { Taken::MadeRoom } else { Taken::Quietly }
    }

    /// For the link about to sleep: leaves its waker, unless something came in meanwhile.
    pub(crate) fn sleep(&self, cx: &Context<'_>, until: LinkWaits) -> Asleep {
        let mut state = self.state.lock();
        let has_output = until.for_output && (state.queued > 0 || !state.control.is_empty());
        let has_credit = until.for_credit && state.unread < self.limits.receive;
        if has_output || has_credit || state.order != until.order {
            return Asleep::No;
        }
        state.out_of_credit = until.for_credit;
        match &mut state.link {
            Some(link) => link.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Asleep::Yes
    }

    /// Whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().queued == 0
    }

    pub(crate) fn order(&self) -> Order {
        self.state.lock().order
    }

    /// Whether it takes messages, as far as there is room.
    pub(crate) fn is_running(&self) -> bool {
        self.order() == Order::Run
    }

    /// For the link: how many messages it may still deliver.
    pub(crate) fn credit(&self) -> usize {
        self.limits.receive.saturating_sub(self.state.lock().unread)
    }

    /// For the link: notes messages that `hand_over` passes on. Not once the link is to be closed at once: a peer that
    /// took its routing id over may have been announced by then, and the messages would be taken for that one's.
    pub(crate) fn deliver(&self, count: usize, hand_over: impl FnOnce()) {
        let mut state = self.state.lock();
        if let Order::Abort(_) = state.order {
            return;
        }
        state.unread += count;
        hand_over();
    }

    /// For the socket: notes messages the application has taken.
    pub(crate) fn consumed(&self, count: usize) {
        let mut state = self.state.lock();
        state.unread = state.unread.saturating_sub(count);
        // Half empty before reading goes on, as libzmq: not a stop and go for every message.
        let resume = state.out_of_credit && state.unread <= self.limits.receive / 2;
        let link = if resume { state.link.take() } else { None };
        drop(state);
        if let Some(link) = link {
            link.wake();
        }
    }

    /// Gives the link an order. A stronger one is never replaced by a weaker.
    pub(crate) fn give(&self, order: Order) {
        let mut state = self.state.lock();
        if !matches!(state.order, Order::Abort(_)) {
            state.order = order;
        }
        let link = state.link.take();
        drop(state);
        if let Some(link) = link {
            link.wake();
        }
    }
}

impl State {
    fn discard_queue(&mut self) {
        self.out = Transmit::new();
        self.queued = 0;
    }
}

/// Whether [`Pipe::take`] made room that somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    MadeRoom,
    Quietly,
}

/// Whether [`Pipe::sleep`] left the waker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asleep {
    Yes,
    No,
}

/// What a sleeping link wants to be woken for, beside its stream and timer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkWaits {
    pub(crate) for_output: bool,
    pub(crate) for_credit: bool,
    /// The order it is following.
    pub(crate) order: Order,
}
