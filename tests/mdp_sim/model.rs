//! The second opinion: what an MDP broker owes its peers, kept from its inputs and effects alone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use eventmq::mdp::core::{BrokerConfig, Effect, Input};
use eventmq::mdp::{ClientReply, Delimiter, FromWorker, Part, ToBroker, ToWorker, Version};
use zmtp::{Message, RoutingId};

use crate::Tally;

/// A request by the id in its body: no two are alike.
pub type RequestId = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Since then.
    Waiting(Instant),
    InHand,
    Answered,
    /// Nobody may do it any more.
    GivenUp,
}

#[derive(Debug)]
struct Request {
    client: RoutingId,
    /// The connection it came over is still there.
    connected: bool,
    version: Version,
    service: Vec<u8>,
    place: Place,
    attempts: u32,
    begun: bool,
    /// Its place among all that arrived.
    arrival: u64,
}

#[derive(Debug)]
struct Worker {
    service: Vec<u8>,
    version: Version,
    hand: Option<(RequestId, Instant)>,
    idle_since: u64,
    last_seen: Instant,
    beats: u32,
    beats_busy: bool,
}

pub struct Model {
    config: BrokerConfig,
    requests: BTreeMap<RequestId, Request>,
    workers: BTreeMap<RoutingId, Worker>,
    order: u64,
    pub tally: Tally,
}

type Verdict = Result<(), String>;

/// What the input in hand entitles the broker to.
#[derive(Debug, Default)]
struct Due {
    /// This reply must be among the effects.
    reply: Option<(RequestId, Part)>,
    /// This worker is to be told DISCONNECT.
    disconnect: Option<RoutingId>,
    /// What is undelivered is nobody's.
    quiet: bool,
}

/// Body frames: the id, and whatever.
pub fn id_of(body: &Message) -> Option<RequestId> {
    std::str::from_utf8(body.frame(0)?).ok()?.parse().ok()
}

impl Model {
    pub fn new(config: BrokerConfig) -> Self {
        Self { config, requests: BTreeMap::new(), workers: BTreeMap::new(), order: 0, tally: Tally::new() }
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    /// Judges one step.
    pub fn judge(&mut self, now: Instant, input: &Input, effects: &[Effect]) -> Verdict {
        let due = self.on_input(now, input);
        if matches!(input, Input::Tick) {
            self.expire(now);
        }
        let mut replied = None;
        let mut disconnected = None;
        for effect in effects {
            let Effect::Send { to, message } = effect else { return Err(format!("{effect:?} out of the blue")) };
            match ToWorker::parse(message) {
                Ok((version, ToWorker::Request { client, body })) => {
                    self.on_dispatch(now, to, version, client, &body)?;
                }
                Ok((_, ToWorker::Heartbeat)) => {
                    self.workers.get(to).ok_or_else(|| format!("HEARTBEAT to {to}, which is no worker"))?;
                }
                Ok((_, ToWorker::Disconnect)) => {
                    self.count("worker: told DISCONNECT");
                    disconnected = Some(to.clone());
                    self.lose(now, to, Loss::Counts);
                }
                Err(_) => replied = Some(self.on_reply(to, message)?),
            }
        }
        if due.reply != replied && !(due.quiet && replied.is_none()) {
            return Err(format!("due was {:?}, sent {replied:?}", due.reply));
        }
        if let Some(worker) = due.disconnect
            && disconnected.as_ref() != Some(&worker)
        {
            return Err(format!("{worker} was not told DISCONNECT"));
        }
        self.expire(now);
        self.check_idle(now)
    }

    fn on_input(&mut self, now: Instant, input: &Input) -> Due {
        match input {
            Input::Received { from, message } => self.on_message(now, from, message),
            Input::Up { peer } | Input::Down { peer, .. } => {
                self.lose(now, peer, Loss::Counts);
                for request in self.requests.values_mut().filter(|request| request.client == *peer) {
                    request.connected = false;
                }
                Due::default()
            }
            Input::Undelivered { to, message, .. } => {
                self.count("undelivered");
                match ToWorker::parse(message) {
                    Ok((_, ToWorker::Request { .. })) => self.lose(now, to, Loss::NeverBegan),
                    Ok(_) => self.lose(now, to, Loss::Counts),
                    Err(_) => {}
                }
                Due::default()
            }
            _ => Due::default(),
        }
    }

    fn on_message(&mut self, now: Instant, from: &RoutingId, message: &Message) -> Due {
        let disconnect = Due { disconnect: Some(from.clone()), ..Due::default() };
        let (version, command) = match ToBroker::parse(message) {
            Ok(ToBroker::Request(request)) => {
                let id = id_of(&request.body).unwrap_or_default();
                let service = request.service.to_vec();
                let (client, version, place) = (from.clone(), request.version, Place::Waiting(now));
                self.order += 1;
                let arrival = self.order;
                let request =
                    Request { client, connected: true, version, service, place, attempts: 0, begun: false, arrival };
                self.requests.insert(id, request);
                return Due::default();
            }
            Ok(ToBroker::Worker { version, command, .. }) => (version, command),
            Err(_) if self.workers.contains_key(from) => return disconnect,
            Err(_) => return Due::default(),
        };
        let registered = self.workers.contains_key(from);
        let known = self.workers.get_mut(from).filter(|worker| worker.version == version);
        match (command, known) {
            (FromWorker::Ready { service }, None) if !registered => {
                self.order += 1;
                let (service, idle_since) = (service.to_vec(), self.order);
                let worker =
                    Worker { service, version, hand: None, idle_since, last_seen: now, beats: 0, beats_busy: false };
                self.workers.insert(from.clone(), worker);
                Due::default()
            }
            (FromWorker::Heartbeat, Some(worker)) => {
                worker.last_seen = now;
                if let Some((_, since)) = worker.hand {
                    worker.beats += 1;
                    worker.beats_busy |= worker.beats >= 2 && now - since >= self.config.heartbeat_interval;
                }
                Due::default()
            }
            (FromWorker::Disconnect, known) => {
                if known.is_some() {
                    self.lose(now, from, Loss::NeverBegan);
                }
                Due::default()
            }
            (FromWorker::Reply { part, client, .. }, Some(worker)) => {
                worker.last_seen = now;
                match worker.hand {
                    Some((id, _)) if self.requests[&id].client.as_bytes() == client => {
                        self.on_due_reply(from, id, part)
                    }
                    _ => disconnect,
                }
            }
            _ => disconnect,
        }
    }

    fn on_due_reply(&mut self, from: &RoutingId, id: RequestId, part: Part) -> Due {
        self.order += 1;
        if let (Some(worker), Part::Final) = (self.workers.get_mut(from), part) {
            (worker.hand, worker.idle_since, worker.beats) = (None, self.order, 0);
        }
        let Some(request) = self.requests.get_mut(&id) else { return Due::default() };
        let tellable = request.version == Version::V02 || part == Part::Final;
        let reply = (request.connected && tellable).then_some((id, part));
        if part == Part::Final {
            request.place = Place::Answered;
        }
        request.begun |= reply.is_some();
        Due { reply, ..Due::default() }
    }

    /// A request goes to a worker: it must wait, be the oldest, and the worker be the longest idle one that lives.
    fn on_dispatch(
        &mut self,
        now: Instant,
        to: &RoutingId,
        version: Version,
        client: &[u8],
        body: &Message,
    ) -> Verdict {
        let id = id_of(body).ok_or("a request without its body")?;
        let worker = self.workers.get(to).ok_or_else(|| format!("request {id} to {to}, which is no worker"))?;
        let request = self.requests.get(&id).ok_or_else(|| format!("request {id} was never sent"))?;
        let Place::Waiting(since) = request.place else { return Err(format!("{id} dispatched while {request:?}")) };
        if worker.hand.is_some() || worker.service != request.service || worker.version != version {
            return Err(format!("{id} of {request:?} to {worker:?}"));
        }
        if now - worker.last_seen >= self.config.expiry() {
            return Err(format!("{id} to {to}, which has expired"));
        }
        if request.client.as_bytes() != client || !request.connected {
            return Err(format!("{id} for {request:?} with address {}", client.escape_ascii()));
        }
        if request.attempts >= self.config.max_attempts.get() || request.begun {
            return Err(format!("{id} once more: {request:?}"));
        }
        let expiry = self.config.request_expiry.unwrap_or(Duration::MAX);
        if now - since > 2 * expiry {
            return Err(format!("{id} after {:?}", now - since));
        }
        let alike = |other: &Request| other.service == request.service && other.connected;
        let older = |other: &&Request| {
            let waits = matches!(other.place, Place::Waiting(since) if now - since < expiry);
            other.arrival < request.arrival && alike(other) && waits
        };
        if let Some(older) = self.requests.values().find(older) {
            return Err(format!("{id} before {older:?}"));
        }
        let longer = |other: &&Worker| {
            other.service == worker.service && other.hand.is_none() && other.idle_since < worker.idle_since
        };
        if let Some(longer) = self.workers.values().find(longer) {
            return Err(format!("{id} to {worker:?}, not to {longer:?}"));
        }
        if let Some(worker) = self.workers.get_mut(to) {
            (worker.hand, worker.beats) = (Some((id, now)), 0);
        }
        if let Some(request) = self.requests.get_mut(&id) {
            request.place = Place::InHand;
            request.attempts += 1;
        }
        Ok(())
    }

    /// What goes to a client: which request it answers.
    fn on_reply(&mut self, to: &RoutingId, message: &Message) -> Result<(RequestId, Part), String> {
        let reply = ClientReply::parse(message).map_err(|error| format!("{message:?} to {to}: {error}"))?;
        let id = id_of(&reply.body).ok_or_else(|| format!("{message:?} answers nothing"))?;
        let request = &self.requests[&id];
        let right = request.client == *to
            && request.version == reply.version
            && Delimiter::of(reply.version) == reply.delimiter
            && request.service == reply.service;
        if !right {
            return Err(format!("{message:?} to {to} for {request:?}"));
        }
        self.count(if reply.part == Part::Final { "request: answered" } else { "request: part forwarded" });
        Ok((id, reply.part))
    }

    /// A worker is gone: its request waits again, where it was, or is given up.
    fn lose(&mut self, now: Instant, id: &RoutingId, loss: Loss) {
        let Some(Worker { hand: Some((id, _)), .. }) = self.workers.remove(id) else { return };
        let Some(request) = self.requests.get_mut(&id) else { return };
        if loss == Loss::NeverBegan {
            request.attempts -= 1;
        }
        let again = !request.begun && request.attempts < self.config.max_attempts.get();
        request.place = if again { Place::Waiting(now) } else { Place::GivenUp };
        self.count(if again { "request: put back" } else { "request: given up" });
    }

    /// Workers whose silence lasted too long.
    fn expire(&mut self, now: Instant) {
        let expiry = self.config.expiry();
        let overdue =
            |worker: &Worker| (worker.hand.is_none() || worker.beats_busy) && now - worker.last_seen >= expiry;
        let dead: Vec<_> = self.workers.iter().filter(|(_, w)| overdue(w)).map(|(id, _)| id.clone()).collect();
        for id in dead {
            self.count("worker: expired");
            self.lose(now, &id, Loss::Counts);
        }
    }

    /// No request waits beside an idle worker: if one does, the broker has lost it.
    fn check_idle(&self, now: Instant) -> Verdict {
        let expiry = self.config.request_expiry.unwrap_or(Duration::MAX);
        for worker in self.workers.values().filter(|worker| worker.hand.is_none()) {
            let lost = |request: &Request| {
                let waits = matches!(request.place, Place::Waiting(since) if now - since < expiry);
                waits && request.connected && request.service == worker.service
            };
            if let Some((id, _)) = self.requests.iter().find(|(_, request)| lost(request)) {
                return Err(format!("request {id} was lost: it waits beside {worker:?}"));
            }
        }
        Ok(())
    }

    /// At the end, everything was answered, given up, or waited too long.
    pub fn settle(&mut self, now: Instant) -> Verdict {
        let expiry = self.config.request_expiry.unwrap_or(Duration::MAX);
        let mut expired = 0;
        for (id, request) in self.requests.iter().filter(|(_, request)| request.connected) {
            match request.place {
                Place::Answered | Place::GivenUp => {}
                Place::Waiting(since) if now - since >= expiry => expired += 1,
                Place::Waiting(_) | Place::InHand => return Err(format!("request {id} is left over: {request:?}")),
            }
        }
        *self.tally.entry("request: expired").or_default() += expired;
        Ok(())
    }
}

/// Whether a lost worker counts as an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Counts,
    NeverBegan,
}
