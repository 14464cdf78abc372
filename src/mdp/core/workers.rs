//! Workers, and the request each has. The one owner of a worker's state: a service only lists its idle ones.

use std::time::Instant;

use hashbrown::HashMap;
use slab::Slab;
use zmtp::{Message, RoutingId};

use super::services::{Request, ServiceKey};
use crate::mdp::wire::{Delimiter, ToWorker, Version};

/// Names a worker. Given to another once the worker is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WorkerKey(usize);

/// Heartbeats of a busy worker after which it is known to send them while it works. The first may have crossed with its
/// request.
const PROOF: u32 = 2;

/// One registered worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub id: RoutingId,
    pub version: Version,
    pub delimiter: Delimiter,
    pub service: ServiceKey,
    pub hand: Option<InHand>,
    /// Number of its becoming idle.
    pub idle_since: u64,
    pub last_seen: Instant,
    pub next_beat: Instant,
    /// When it is looked at.
    pub wake: Option<Instant>,
    /// It sends heartbeats while it works, so that its silence means something even then.
    pub beats_busy: bool,
}

/// The request a worker has.
#[derive(Debug)]
pub(super) struct InHand {
    pub request: Request,
    pub since: Instant,
    /// A part of the reply went to the client: nobody else can answer any more.
    pub begun: bool,
    /// Heartbeats since it has it.
    pub beats: u32,
}

impl InHand {
    pub fn new(request: Request, now: Instant) -> Self {
        Self { request, since: now, begun: false, beats: 0 }
    }
}

impl Worker {
    /// A message for it, the way it speaks.
    pub fn say(&self, what: &ToWorker<'_>) -> Message {
        what.to_message(self.version, self.delimiter)
    }

    /// It showed a sign of life of its own accord. `beat`: the usual pause between two.
    pub fn on_heartbeat(&mut self, now: Instant, beat: std::time::Duration) {
        self.last_seen = now;
        if let Some(hand) = &mut self.hand {
            hand.beats = hand.beats.saturating_add(1);
            self.beats_busy |= hand.beats >= PROOF && now.saturating_duration_since(hand.since) >= beat;
        }
    }
}

/// All registered workers.
#[derive(Debug, Default)]
pub(super) struct Workers {
    slab: Slab<Worker>,
    by_id: HashMap<RoutingId, WorkerKey>,
    /// Those that have a request.
    pub busy: usize,
}

impl Workers {
    pub fn find(&self, id: &RoutingId) -> Option<WorkerKey> {
        self.by_id.get(id).copied()
    }

    /// Whether a worker registered with that version.
    pub fn speaks(&self, key: WorkerKey, version: Version) -> bool {
        self.get(key).is_some_and(|worker| worker.version == version)
    }

    pub fn add(&mut self, worker: Worker) -> WorkerKey {
        let id = worker.id.clone();
        let key = WorkerKey(self.slab.insert(worker));
        self.by_id.insert(id, key);
        key
    }

    pub fn remove(&mut self, key: WorkerKey) -> Option<Worker> {
        let worker = self.slab.try_remove(key.0)?;
        self.by_id.remove(&worker.id);
        self.busy -= usize::from(worker.hand.is_some());
        Some(worker)
    }

    pub fn get(&self, key: WorkerKey) -> Option<&Worker> {
        self.slab.get(key.0)
    }

    pub fn get_mut(&mut self, key: WorkerKey) -> Option<&mut Worker> {
        self.slab.get_mut(key.0)
    }

    pub fn keys(&self) -> Vec<WorkerKey> {
        self.slab.iter().map(|(key, _)| WorkerKey(key)).collect()
    }

    pub fn len(&self) -> usize {
        self.slab.len()
    }
}
