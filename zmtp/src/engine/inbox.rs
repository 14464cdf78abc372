//! [`Inbox`]: the one ordered stream from all links of a socket to its application.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::lock::Lock;
use super::pipe::Pipe;
use crate::connection::PeerInfo;
use crate::monitor::Reason;
use crate::{Message, RoutingId};

/// Something a link hands to its socket. Up comes before the first message of a connection, Down after the last.
#[derive(Debug)]
pub(crate) enum Delivery {
    Up { peer: RoutingId, info: Box<PeerInfo> },
    Batch { peer: RoutingId, pipe: Arc<Pipe>, messages: VecDeque<Message> },
    Down { peer: RoutingId, reason: Reason },
}

/// Unbounded by itself: each link's credit bounds what it may deliver, so handing over never waits.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Lock<State>);

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Delivery>,
    reader: Option<Waker>,
    closed: bool,
}

impl Inbox {
    pub(crate) fn push(&self, delivery: Delivery) {
        let mut state = self.0.lock();
        if state.closed {
            return;
        }
        state.queue.push_back(delivery);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Moves everything into `into`, which must be empty. Ready with `Err` once closed and empty.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>, into: &mut VecDeque<Delivery>) -> Poll<Result<(), Closed>> {
        let mut state = self.0.lock();
        if !state.queue.is_empty() {
            std::mem::swap(&mut state.queue, into);
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
            std::mem::swap(&mut state.queue, into);
        }
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

/// The socket is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;
