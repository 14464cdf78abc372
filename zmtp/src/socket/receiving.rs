//! [`Receiving`]: the application's end of an inbox.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::engine::inbox::{Delivery, Inbox};
use crate::engine::pipe::{Keep, Pipe};
use crate::pattern::FairQueue;
use crate::{Message, RecvError, RoutingId};

/// Single messages taken before newly arrived batches are looked at.
const REFRESH: usize = 64;

/// Deliveries taken from the inbox in one go, handed out one by one.
#[derive(Debug)]
pub(super) struct Receiving {
    /// Not looked at yet.
    arrived: VecDeque<Delivery>,
    /// Looked at, and waiting for its turn.
    queue: FairQueue,
    turns: usize,
    keep: Keep,
}

impl Default for Receiving {
    fn default() -> Self {
        Self::new(Keep::Queued)
    }
}

impl Receiving {
    pub(super) fn new(keep: Keep) -> Self {
        Self { arrived: VecDeque::new(), queue: FairQueue::default(), turns: 0, keep }
    }

    /// The next message, the peers taking turns. Takes nothing out unless it is ready.
    pub(super) fn poll_message(
        &mut self,
        inbox: &Inbox,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(RoutingId, Message), RecvError>> {
        self.poll_next(inbox, cx, |peer, _| peer.clone())
    }

    /// As [`poll_message`](Self::poll_message) where it does not matter who sent it.
    pub(super) fn poll_body(&mut self, inbox: &Inbox, cx: &mut Context<'_>) -> Poll<Result<Message, RecvError>> {
        self.poll_next(inbox, cx, |_, _| ()).map_ok(|((), message)| message)
    }

    /// As [`poll_message`](Self::poll_message), with what `of` says of the peer and pipe.
    pub(super) fn poll_next<T>(
        &mut self,
        inbox: &Inbox,
        cx: &mut Context<'_>,
        of: impl Fn(&RoutingId, &Arc<Pipe>) -> T,
    ) -> Poll<Result<(T, Message), RecvError>> {
        loop {
            if let Some(next) = self.next(inbox, &of) {
                return Poll::Ready(Ok(next));
            }
            match inbox.poll_take(cx, &mut self.arrived) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(RecvError)),
                Poll::Ready(Ok(())) => {}
            }
        }
    }

    /// The next message if there is one now.
    pub(super) fn next_body(&mut self, inbox: &Inbox) -> Option<Message> {
        self.next(inbox, |_, _| ()).map(|((), message)| message)
    }

    /// As [`next_body`](Self::next_body), with what `of` says of the peer and pipe.
    pub(super) fn next<T>(&mut self, inbox: &Inbox, of: impl Fn(&RoutingId, &Arc<Pipe>) -> T) -> Option<(T, Message)> {
        self.turns += 1;
        if self.queue.is_empty() || self.turns >= REFRESH || self.keep == Keep::Newest {
            self.turns = 0;
            if self.arrived.is_empty() {
                inbox.try_take(&mut self.arrived);
            }
            for delivery in self.arrived.drain(..) {
                if let Delivery::Batch { peer, pipe, messages } = delivery {
                    match self.keep {
                        Keep::Queued => self.queue.add(peer, pipe, messages),
                        Keep::Newest => self.queue.replace(peer, pipe, messages),
                    }
                }
            }
        }
        self.queue.pop_with(of)
    }

    /// The next delivery in the order they were made.
    pub(super) fn poll_delivery(&mut self, inbox: &Inbox, cx: &mut Context<'_>) -> Poll<Result<Delivery, RecvError>> {
        loop {
            if let Some(delivery) = self.arrived.pop_front() {
                return Poll::Ready(Ok(delivery));
            }
            match inbox.poll_take(cx, &mut self.arrived) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(RecvError)),
                Poll::Ready(Ok(())) => {}
            }
        }
    }

    /// The next delivery if there is one now.
    pub(super) fn try_delivery(&mut self, inbox: &Inbox) -> Option<Delivery> {
        if self.arrived.is_empty() {
            inbox.try_take(&mut self.arrived);
        }
        self.arrived.pop_front()
    }

    /// A message that [`poll_message`](Self::poll_message) had set aside for its turn.
    pub(super) fn set_aside(&mut self) -> Option<(RoutingId, Message)> {
        self.queue.pop()
    }
}
