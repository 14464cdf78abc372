//! Requests of clients: to a worker, to wait, or answered by the broker itself.

use tracing::{debug, warn};
use zmtp::{Message, RoutingId};

use super::bridge::queue_of;
use super::services::{Request, ServiceKey};
use super::shutdown::Phase;
use super::workers::{InHand, WorkerKey};
use super::{Bridging, Core, Timer, Turn};
use crate::dispatch::RefusalLog;
use crate::mdp::wire::{ClientReply, ClientRequest, MMI, Part, ToWorker};

/// The service whose workers are asked for, and the answers (RFC 8).
const MMI_SERVICE: &[u8] = b"mmi.service";
const FOUND: &[u8] = b"200";
const NOT_FOUND: &[u8] = b"404";
const NOT_IMPLEMENTED: &[u8] = b"501";

impl Core {
    pub(super) fn on_request(&mut self, turn: &mut Turn<'_>, from: RoutingId, asked: ClientRequest<'_>) {
        self.counters.requests += 1;
        if !matches!(self.phase, Phase::Running) {
            self.counters.dropped += 1;
            return;
        }
        if asked.service.starts_with(MMI) {
            return self.answer_mmi(turn, from, &asked);
        }
        let visit = self.peers.visit(&from);
        self.next += 1;
        let ClientRequest { version, delimiter, service, body } = asked;
        let (received, arrival) = (turn.now, self.next);
        let request = Request { client: from, visit, version, delimiter, body, arrival, received, attempts: 0 };
        if let (Some(queue), Bridging::On(config)) = (queue_of(service), self.config.bridge) {
            return self.bridge_request(turn, config, service, queue, request);
        }
        // Only a name that is empty or too long makes no service, and such a request was not read.
        let Some(key) = self.services.require(service) else { return };
        match self.services.get(key).and_then(|service| service.idle.first()) {
            Some((_, worker)) => self.hand_over(turn, *worker, request),
            None => self.enqueue(turn, key, request),
        }
    }

    /// Gives a request to an idle worker.
    fn hand_over(&mut self, turn: &mut Turn<'_>, key: WorkerKey, mut request: Request) {
        let Some(worker) = self.workers.get_mut(key) else { return };
        if let Some(service) = self.services.get_mut(worker.service) {
            service.idle.remove(&(worker.idle_since, key));
        }
        let work = ToWorker::Request { client: request.client.as_bytes(), body: request.body };
        let message = worker.say(&work);
        // The body is kept as a part of what is sent, so that what it was read with can go.
        let ToWorker::Request { body, .. } = work else { return };
        request.body = message.skip_frames(ToWorker::body_index(worker.delimiter)).unwrap_or(body);
        request.attempts += 1;
        worker.hand = Some(InHand::new(request, turn.now));
        turn.send(worker.id.clone(), message);
        self.workers.busy += 1;
        self.counters.dispatched += 1;
        if self.config.reply_timeout.is_some() {
            self.arm_worker(turn.now, key);
        }
    }

    /// Gives waiting requests of a service to its idle workers while there are both.
    pub(super) fn pump(&mut self, turn: &mut Turn<'_>, key: ServiceKey) {
        while let Some(service) = self.services.get(key)
            && let Some((_, worker)) = service.idle.first().copied()
        {
            let Some(request) = self.services.pop(key) else { return };
            if self.peers.on_waited(&request.client, request.visit) {
                self.hand_over(turn, worker, request);
            } else {
                self.counters.abandoned += 1;
            }
        }
    }

    /// Lets a request wait, in its place by arrival.
    pub(super) fn enqueue(&mut self, turn: &mut Turn<'_>, key: ServiceKey, mut request: Request) {
        request.body = request.body.compact();
        self.peers.on_waiting(&request.client, request.visit);
        self.services.push(key, request);
        self.keep_bounds(turn, key);
        if self.services.get(key).is_some_and(|service| service.wake.is_none()) {
            self.arm_service(turn.now, key);
        }
        self.tidy(key);
    }

    /// Drops the oldest requests of a service while there are too many.
    fn keep_bounds(&mut self, turn: &mut Turn<'_>, key: ServiceKey) {
        let config = &self.config;
        while let Some(service) = self.services.get(key)
            && (service.len() > config.max_waiting
                || service.bytes > config.max_waiting_bytes
                || self.services.bytes > config.max_total_bytes)
        {
            let name = service.name.clone();
            let Some(oldest) = self.services.pop(key) else { return };
            if !self.peers.on_waited(&oldest.client, oldest.visit) {
                self.counters.abandoned += 1;
                continue;
            }
            self.counters.dropped += 1;
            if let RefusalLog::LogAndArm(due) = self.refusals.on_refused(turn.now) {
                warn!(service = %name, client = %oldest.client, "too much waits: the oldest request was dropped");
                self.timers.set(due, Timer::Refusals);
            }
        }
    }

    pub(super) fn on_refusals_timer(&mut self, turn: &mut Turn<'_>) {
        if let Some((count, due)) = self.refusals.on_due(turn.now) {
            warn!(count, "more requests were dropped");
            self.timers.set(due, Timer::Refusals);
        }
    }

    /// Arms a service's timer for its oldest request.
    pub(super) fn arm_service(&mut self, now: std::time::Instant, key: ServiceKey) {
        let Some(service) = self.services.get_mut(key) else { return };
        let expiry = self.config.request_expiry;
        let due = service.oldest().and_then(|oldest| oldest.received.checked_add(expiry?)).map(|due| due.max(now));
        let old = std::mem::replace(&mut service.wake, due);
        if old == due {
            return;
        }
        if let Some(old) = old {
            self.timers.clear(old, Timer::Service(key));
        }
        if let Some(due) = due {
            self.timers.set(due, Timer::Service(key));
        }
    }

    /// Drops requests that waited too long.
    pub(super) fn on_service_timer(&mut self, turn: &mut Turn<'_>, key: ServiceKey) {
        if let Some(service) = self.services.get_mut(key) {
            service.wake = None;
        }
        let Some(expiry) = self.config.request_expiry else { return };
        let overdue = |request: &Request| turn.now.saturating_duration_since(request.received) >= expiry;
        while let Some(service) = self.services.get(key)
            && service.oldest().is_some_and(overdue)
        {
            let (name, workers) = (service.name.clone(), service.workers);
            let Some(request) = self.services.pop(key) else { break };
            if self.peers.on_waited(&request.client, request.visit) {
                self.counters.expired += 1;
                debug!(service = %name, client = %request.client, workers, "request expired");
            } else {
                self.counters.abandoned += 1;
            }
        }
        self.arm_service(turn.now, key);
        self.tidy(key);
    }

    /// Forgets a service without workers and requests.
    pub(super) fn tidy(&mut self, key: ServiceKey) {
        if let Some(wake) = self.services.tidy(key) {
            self.timers.clear(wake, Timer::Service(key));
        }
    }

    /// A client's connection ended: once most of what waits is of clients that left, that is thrown out.
    pub(super) fn sweep(&mut self, turn: &mut Turn<'_>) {
        if self.peers.orphans * 2 <= self.services.waiting {
            return;
        }
        for key in self.services.keys() {
            for request in self.services.take(key) {
                if self.peers.is_here(&request.client, request.visit) {
                    self.services.push(key, request);
                } else {
                    self.counters.abandoned += 1;
                }
            }
            self.arm_service(turn.now, key);
            self.tidy(key);
        }
        self.peers.orphans = 0;
    }

    /// The broker's own services: the last frame is the question, the answer takes its place.
    fn answer_mmi(&mut self, turn: &mut Turn<'_>, from: RoutingId, asked: &ClientRequest<'_>) {
        self.counters.mmi += 1;
        let last = asked.body.frame_count() - 1;
        let code = match (asked.service, asked.body.frame(last)) {
            (MMI_SERVICE, Some(name)) if self.is_served(name) => FOUND,
            (MMI_SERVICE, _) => NOT_FOUND,
            _ => NOT_IMPLEMENTED,
        };
        let body = asked.body.replace_frame(last, code);
        let ClientRequest { version, delimiter, service, .. } = *asked;
        let reply = ClientReply { version, delimiter, part: Part::Final, service, body };
        if let Some(message) = reply.to_message() {
            turn.send(from, message);
        }
    }

    fn is_served(&self, name: &[u8]) -> bool {
        let bridged = matches!(self.config.bridge, Bridging::On(_)) && queue_of(name).is_some();
        let workers = || self.services.find(name).and_then(|key| self.services.get(key)).map_or(0, |s| s.workers);
        if bridged { self.bridge.is_up() } else { workers() > 0 }
    }

    /// Sends a client what belongs to its request, if it is still there.
    pub(super) fn reply(
        &mut self,
        turn: &mut Turn<'_>,
        request: &Request,
        part: Part,
        name: &[u8],
        body: Message,
    ) -> Sent {
        let Request { version, delimiter, .. } = *request;
        if !self.peers.is_here(&request.client, request.visit) {
            self.counters.undelivered += 1;
            return Sent::No;
        }
        match (ClientReply { version, delimiter, part, service: name, body }).to_message() {
            Some(message) => {
                turn.send(request.client.clone(), message);
                Sent::Yes
            }
            None => {
                self.counters.partials_dropped += 1;
                Sent::No
            }
        }
    }
}

/// Whether a reply left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Yes,
    No,
}
