//! [`Outgoing`]: what a socket needs to be a `Sink`.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::{Message, SendError, SendFailure};

/// A message that has no room yet, and the notice to come when there is.
#[derive(Default)]
pub(super) struct Outgoing {
    message: Option<Message>,
    room: Option<Pin<Box<OwnedNotified>>>,
}

impl Outgoing {
    /// Takes a message over; there must be none.
    pub(super) fn start(&mut self, message: Message) {
        self.message = Some(message);
    }

    /// Ready once the message is queued and another can be taken over.
    pub(super) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        room: &Arc<Notify>,
        try_send: impl Fn(&Message) -> Result<(), SendFailure>,
    ) -> Poll<Result<(), SendError>> {
        while let Some(message) = self.message.take() {
            match try_send(&message) {
                Err(SendFailure::Full) => self.message = Some(message),
                done => {
                    self.room = None;
                    return Poll::Ready(done.map_err(|reason| reason.with(message)));
                }
            }
            match &mut self.room {
                Some(notified) => {
                    ready!(notified.as_mut().poll(cx));
                    self.room = None;
                }
                none => {
                    // Registered before the next attempt, so that room made in between is not missed.
                    none.insert(Box::pin(room.clone().notified_owned())).as_mut().enable();
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("message", &self.message).finish_non_exhaustive()
    }
}
