//! [`Request`]: one piece of work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;
use tokio::sync::mpsc;
use zmtp::{Message, RoutingId};

use super::session::{Epoch, Event};
use crate::mdp::wire::{Part, Version};

/// Why a reply was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// The broker that asked was lost meanwhile: nobody waits for this reply any more.
    #[error("the broker that asked is gone")]
    Stale,
    /// MDP/0.1 has no partial replies.
    #[error("MDP/0.1 has no partial replies")]
    NoPartials,
    /// The worker is closed.
    #[error("the worker is closed")]
    Closed,
}

/// The ways to a worker's task.
#[derive(Debug, Clone)]
pub(super) struct Mail {
    /// Replies wait for room, so that no one can be faster than the connection.
    pub replies: mpsc::Sender<Event>,
    /// What is said without waiting.
    pub control: mpsc::UnboundedSender<Event>,
    /// The connection replies go over now.
    pub epoch: Arc<AtomicU64>,
}

impl Mail {
    pub fn tell(&self, event: Event) {
        // An error says that the worker has ended.
        let _ = self.control.send(event);
    }
}

/// A request. Dropped without a [reply](Self::reply), it is given back to the broker, for another worker.
#[derive(Debug)]
#[must_use = "a request dropped without a reply is given to another worker"]
pub struct Request {
    client: RoutingId,
    body: Message,
    version: Version,
    epoch: Epoch,
    mail: Option<Mail>,
}

impl Request {
    pub(super) fn new(client: RoutingId, body: Message, version: Version, epoch: Epoch, mail: Mail) -> Self {
        Self { client, body, version, epoch, mail: Some(mail) }
    }

    /// What the client sent behind the service's name: one frame or more.
    pub fn body(&self) -> &Message {
        &self.body
    }

    /// The broker's address of the client: opaque, and another one after each of the client's attempts.
    pub fn client(&self) -> &RoutingId {
        &self.client
    }

    /// Answers it.
    ///
    /// # Errors
    /// `Stale` if the broker was lost meanwhile, `Closed` if the worker has ended. Either way nobody gets the reply.
    pub async fn reply(mut self, body: impl Into<Message>) -> Result<(), ReplyError> {
        let sent = self.send(Part::Final, body.into()).await;
        if sent.is_ok() {
            self.mail = None;
        }
        sent
    }

    /// Sends a part of the reply; [`reply`](Self::reply) ends it. Once a part is sent no other worker gets the request.
    ///
    /// # Errors
    /// As [`reply`](Self::reply), and `NoPartials` in MDP/0.1.
    pub async fn partial(&mut self, body: impl Into<Message>) -> Result<(), ReplyError> {
        if self.version == Version::V01 {
            return Err(ReplyError::NoPartials);
        }
        self.send(Part::Partial, body.into()).await
    }

    async fn send(&self, part: Part, body: Message) -> Result<(), ReplyError> {
        let Some(mail) = &self.mail else { return Err(ReplyError::Closed) };
        if mail.epoch.load(Ordering::Relaxed) != self.epoch.0 {
            return Err(ReplyError::Stale);
        }
        let event = Event::Reply { epoch: self.epoch, part, body };
        mail.replies.send(event).await.map_err(|_| ReplyError::Closed)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(mail) = &self.mail {
            mail.tell(Event::Abandoned(self.epoch));
        }
    }
}
