//! Workers: their coming, their replies, their going, and what becomes of the requests they have.

use tracing::{debug, info, warn};
use zmtp::{Message, RoutingId};

use super::bridge::queue_of;
use super::requests::Sent;
use super::services::{Request, ServiceKey};
use super::shutdown::Phase;
use super::workers::{InHand, Worker, WorkerKey};
use super::{Bridging, Core, Lost, Timer, Turn};
use crate::mdp::wire::{Delimiter, MMI, Part, ServiceName, ToWorker, Version};

impl Core {
    /// A worker registers.
    pub(super) fn on_ready(
        &mut self,
        turn: &mut Turn<'_>,
        from: RoutingId,
        version: Version,
        delimiter: Delimiter,
        service: &[u8],
    ) {
        let reserved =
            service.starts_with(MMI) || matches!(self.config.bridge, Bridging::On(_)) && queue_of(service).is_some();
        if reserved {
            return self.on_unexpected(turn, &from, version, delimiter, "READY for a service of the broker's own");
        }
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        let Some(key) = self.services.require(service) else { return };
        self.peers.visit(&from);
        self.counters.registered += 1;
        self.next += 1;
        let id = from.clone();
        let worker = self.workers.add(Worker {
            id: from,
            version,
            delimiter,
            service: key,
            hand: None,
            idle_since: self.next,
            last_seen: turn.now,
            next_beat: turn.now + self.config.beat(),
            wake: None,
            beats_busy: false,
        });
        if let Some(service) = self.services.get_mut(key) {
            service.workers += 1;
            service.idle.insert((self.next, worker));
            info!(worker = %id, service = %service.name, %version, workers = service.workers, "worker registered");
        }
        self.arm_worker(turn.now, worker);
        self.pump(turn, key);
    }

    /// A reply, or a part of one.
    pub(super) fn on_reply(&mut self, turn: &mut Turn<'_>, key: WorkerKey, part: Part, client: &[u8], body: Message) {
        let Some(worker) = self.workers.get_mut(key) else { return };
        worker.last_seen = turn.now;
        let service = worker.service;
        let what = match &worker.hand {
            None => "reply without a request",
            Some(hand) if hand.request.client.as_bytes() != client => "reply to another client than its request's",
            Some(_) => return self.on_due_reply(turn, key, service, part, body),
        };
        let (id, version, delimiter) = (worker.id.clone(), worker.version, worker.delimiter);
        self.on_unexpected(turn, &id, version, delimiter, what);
    }

    fn on_due_reply(&mut self, turn: &mut Turn<'_>, key: WorkerKey, service: ServiceKey, part: Part, body: Message) {
        let Some(name) = self.services.get(service).map(|service| service.name.clone()) else { return };
        let Some(hand) = self.workers.get_mut(key).and_then(|worker| worker.hand.take()) else { return };
        let sent = self.reply(turn, &hand.request, part, name.as_bytes(), body);
        if part == Part::Partial {
            let begun = hand.begun || sent == Sent::Yes;
            self.counters.partials += u64::from(sent == Sent::Yes);
            if let Some(worker) = self.workers.get_mut(key) {
                worker.hand = Some(InHand { begun, ..hand });
            }
            return;
        }
        self.counters.replies += u64::from(sent == Sent::Yes);
        self.workers.busy -= 1;
        self.next += 1;
        if let (Some(worker), Some(service)) = (self.workers.get_mut(key), self.services.get_mut(service)) {
            worker.idle_since = self.next;
            service.idle.insert((self.next, key));
        }
        self.pump(turn, service);
    }

    /// A worker is gone for good: somebody else gets its request, if that may be.
    pub(super) fn lose_worker(&mut self, turn: &mut Turn<'_>, key: WorkerKey, why: Lost) {
        let Some(worker) = self.workers.remove(key) else { return };
        if let Some(wake) = worker.wake {
            self.timers.clear(wake, Timer::Worker(key));
        }
        let Some(service) = self.services.get_mut(worker.service) else { return };
        service.workers -= 1;
        service.idle.remove(&(worker.idle_since, key));
        let (name, left) = (service.name.clone(), service.workers);
        match (&worker.hand, why) {
            (None, Lost::Left | Lost::Closed) => info!(worker = %worker.id, service = %name, left, "worker left"),
            (hand, _) => {
                let busy = hand.is_some();
                warn!(worker = %worker.id, service = %name, left, busy, reason = ?why, "worker lost");
            }
        }
        self.counters.silent += u64::from(why == Lost::Silent);
        if let Some(hand) = worker.hand {
            self.take_back(turn, worker.service, &name, hand, why);
        }
        self.pump(turn, worker.service);
        self.tidy(worker.service);
    }

    /// A request whose worker is lost: back in its place, or the end of it.
    fn take_back(&mut self, turn: &mut Turn<'_>, service: ServiceKey, name: &ServiceName, hand: InHand, why: Lost) {
        let InHand { mut request, begun, .. } = hand;
        if matches!(why, Lost::Left | Lost::NeverReached) {
            // It was not this request that cost the worker.
            request.attempts = request.attempts.saturating_sub(1);
        }
        if !self.peers.is_here(&request.client, request.visit) {
            self.counters.abandoned += 1;
            return;
        }
        let again = !begun && request.attempts < self.config.max_attempts.get();
        if !again || !matches!(self.phase, Phase::Running) {
            self.counters.given_up += 1;
            let Request { client, attempts, .. } = &request;
            return warn!(service = %name, %client, attempts, begun, "request given up");
        }
        debug!(service = %name, client = %request.client, attempts = request.attempts, "request put back");
        self.counters.put_back += 1;
        self.put_back(turn, service, request);
    }

    fn put_back(&mut self, turn: &mut Turn<'_>, service: ServiceKey, request: Request) {
        // As old as it is, it may have expired already: being with a worker was not waiting.
        let request = Request { received: turn.now, ..request };
        self.enqueue(turn, service, request);
        self.arm_service(turn.now, service);
    }

    /// A connection was made: what was under way over an earlier one is lost, and a worker registers over its own.
    pub(super) fn on_up(&mut self, turn: &mut Turn<'_>, peer: RoutingId) {
        if let Some(key) = self.workers.find(&peer) {
            self.lose_worker(turn, key, Lost::Closed);
        }
        self.peers.up(peer);
        self.sweep(turn);
    }

    /// A connection ended.
    pub(super) fn on_down(&mut self, turn: &mut Turn<'_>, peer: &RoutingId, reason: crate::dispatch::DownReason) {
        debug!(%peer, ?reason, "disconnected");
        if let Some(key) = self.workers.find(peer) {
            self.lose_worker(turn, key, Lost::Closed);
        }
        self.peers.down(peer);
        self.sweep(turn);
    }

    /// Tells all workers to register elsewhere.
    pub(super) fn dismiss_all(&mut self, turn: &mut Turn<'_>) {
        for key in self.workers.keys() {
            if let Some(worker) = self.workers.get(key) {
                turn.send(worker.id.clone(), worker.say(&ToWorker::Disconnect));
            }
        }
    }
}
