//! [`Receiving`]: the application's end of an inbox.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use crate::engine::inbox::{Delivery, Inbox};
use crate::pattern::FairQueue;
use crate::{Message, RecvError, RoutingId};

/// Single messages taken before newly arrived batches are looked at.
const REFRESH: usize = 64;

/// Deliveries taken from the inbox in one go, handed out one by one.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    /// Not looked at yet.
    arrived: VecDeque<Delivery>,
    /// Looked at, and waiting for its turn.
    queue: FairQueue,
    turns: usize,
}

impl Receiving {
    /// The next message, the peers taking turns. Takes nothing out unless it is ready.
    pub(super) fn poll_message(
        &mut self,
        inbox: &Inbox,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(RoutingId, Message), RecvError>> {
        loop {
            if let Some(next) = self.next_message(inbox) {
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
    pub(super) fn next_message(&mut self, inbox: &Inbox) -> Option<(RoutingId, Message)> {
        self.turns += 1;
        if self.queue.is_empty() || self.turns >= REFRESH {
            self.turns = 0;
            if self.arrived.is_empty() {
                inbox.try_take(&mut self.arrived);
            }
            for delivery in self.arrived.drain(..) {
                if let Delivery::Batch { peer, pipe, messages } = delivery {
                    self.queue.add(peer, pipe, messages);
                }
            }
        }
        self.queue.pop()
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
