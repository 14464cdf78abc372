//! A worker's side of the protocol, without any I/O: registration, heartbeats both ways, and when to start over.

use std::time::{Duration, Instant};

use tracing::{debug, info, warn};
use zmtp::{Message, RoutingId};

use crate::dispatch::Stall;
use crate::mdp::wire::{FromWorker, Part, ServiceName, ToWorker, Version};

/// Heartbeats of a broker during one request after which it is known to send them to busy workers. The first may have
/// crossed with the request.
const PROOF: u32 = 2;

/// Settings of a session.
#[derive(Debug, Clone)]
pub(super) struct SessionConfig {
    pub service: ServiceName,
    pub version: Version,
    pub heartbeat: Duration,
    pub liveness: u32,
    pub reconnect: Duration,
}

/// Names a connection: a reply goes over the one its request came by, or nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch(pub u64);

/// What happens to a session.
#[derive(Debug)]
pub(super) enum Event {
    /// The broker sent a message.
    Received(Message),
    /// The connection ended.
    Lost,
    /// The application has a reply, or a part of one.
    Reply { epoch: Epoch, part: Part, body: Message },
    /// The application dropped its request without a reply.
    Abandoned(Epoch),
    /// Time passed.
    Tick,
    /// Other pauses, from the next one on.
    Heartbeat(Duration),
    /// As above.
    Reconnect(Duration),
    /// Finish what is in hand, say goodbye, end.
    Close,
}

/// What a session wants done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Make a new socket in place of the old one.
    Connect,
    /// Queue a message.
    Send(Message),
    /// Give the application a request.
    Deliver { epoch: Epoch, client: RoutingId, body: Message },
    /// Give the socket up.
    Drop,
    /// Flush, and end.
    Finish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// READY was sent.
    Registered,
    /// No socket; the application is still busy with a request of the last one.
    Busy,
    /// No socket until then.
    Paused(Instant),
    Ended,
}

#[derive(Debug)]
struct Hand {
    epoch: Epoch,
    client: RoutingId,
    since: Instant,
    beats: u32,
}

#[derive(Debug)]
pub(super) struct Session {
    config: SessionConfig,
    state: State,
    epoch: Epoch,
    hand: Option<Hand>,
    /// The last sign of life of the broker.
    heard: Instant,
    next_beat: Instant,
    /// The broker sends heartbeats to busy workers, so that its silence means something even then.
    beats_busy: bool,
    /// Registrations in a row that were answered with nothing but DISCONNECT.
    barren: u32,
    heard_here: bool,
    closing: bool,
    stall: Stall,
    /// Messages that made no sense.
    pub discarded: u64,
}

impl Session {
    /// A session that is to connect first of all.
    pub fn start(config: SessionConfig, now: Instant, out: &mut Vec<Action>) -> Self {
        let mut session = Self {
            state: State::Paused(now),
            epoch: Epoch(0),
            hand: None,
            heard: now,
            next_beat: now,
            beats_busy: false,
            barren: 0,
            heard_here: false,
            closing: false,
            stall: Stall::new(now),
            discarded: 0,
            config,
        };
        session.register(now, out);
        session
    }

    /// The connection replies go over now.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// When to step a [`Event::Tick`] at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Registered => Some(self.silence().map_or(self.next_beat, |silence| silence.min(self.next_beat))),
            State::Paused(until) => Some(until),
            State::Busy | State::Ended => None,
        }
    }

    pub fn step(&mut self, now: Instant, event: Event, out: &mut Vec<Action>) {
        let (due, tolerance) = (self.deadline(), self.beat());
        if let Some(stall) = self.stall.note(now, || due, tolerance) {
            debug!(seconds = stall.as_secs(), "this worker was stopped for a while, the broker gets its time again");
            self.heard += stall;
        }
        match event {
            Event::Received(message) => self.on_message(now, &message, out),
            Event::Lost if self.state == State::Registered => {
                info!(service = %self.config.service, "connection to the broker lost, registering anew");
                self.start_over(now, Duration::ZERO, out);
            }
            Event::Lost => {}
            Event::Reply { epoch, part, body } => self.on_reply(now, epoch, part, &body, out),
            Event::Abandoned(epoch) => self.on_abandoned(now, epoch, out),
            Event::Tick => {}
            Event::Heartbeat(interval) => {
                self.config.heartbeat = interval;
                self.next_beat = self.next_beat.min(now + self.beat());
            }
            Event::Reconnect(pause) => self.config.reconnect = pause,
            Event::Close => self.closing = true,
        }
        self.on_time(now, out);
        if self.closing && self.hand.is_none() && self.state != State::Ended {
            if self.state == State::Registered {
                self.say(&FromWorker::Disconnect, out);
            }
            self.state = State::Ended;
            out.push(Action::Finish);
        }
    }

    /// The heartbeat interval, never so short that nothing else happens.
    fn beat(&self) -> Duration {
        self.config.heartbeat.max(Duration::from_millis(1))
    }

    /// When the broker counts as dead, unless it may be one that leaves busy workers alone.
    fn silence(&self) -> Option<Instant> {
        let judged = self.hand.is_none() || self.beats_busy;
        judged.then(|| self.heard + self.beat().saturating_mul(self.config.liveness.max(1)))
    }

    fn say(&self, command: &FromWorker<'_>, out: &mut Vec<Action>) {
        out.extend(command.to_message(self.config.version).map(Action::Send));
    }

    fn register(&mut self, now: Instant, out: &mut Vec<Action>) {
        self.epoch = Epoch(self.epoch.0 + 1);
        self.state = State::Registered;
        self.heard = now;
        self.heard_here = false;
        self.next_beat = now + self.beat();
        out.push(Action::Connect);
        self.say(&FromWorker::Ready { service: self.config.service.as_bytes() }, out);
    }

    /// A new socket, and so a new identity, as soon as nothing is in hand and the pause is over.
    fn start_over(&mut self, now: Instant, pause: Duration, out: &mut Vec<Action>) {
        out.push(Action::Drop);
        // Replies over the old connection are no good any more.
        self.epoch = Epoch(self.epoch.0 + 1);
        self.state = if self.hand.is_some() { State::Busy } else { State::Paused(now + pause) };
    }

    fn on_message(&mut self, now: Instant, message: &Message, out: &mut Vec<Action>) {
        if self.state != State::Registered {
            return;
        }
        let command = match ToWorker::parse(message) {
            Ok((version, command)) if version == self.config.version => command,
            Ok((version, _)) => return self.discard(message, &format!("the broker speaks {version}")),
            Err(error) => return self.discard(message, &error.to_string()),
        };
        self.heard = now;
        match command {
            ToWorker::Request { client, body } => {
                self.heard_here = true;
                self.on_request(now, client, body, message, out);
            }
            ToWorker::Heartbeat => {
                self.heard_here = true;
                let beat = self.beat();
                if let Some(hand) = &mut self.hand {
                    hand.beats = hand.beats.saturating_add(1);
                    self.beats_busy |= hand.beats >= PROOF && now.saturating_duration_since(hand.since) >= beat;
                }
            }
            ToWorker::Disconnect => {
                self.barren = if self.heard_here { 0 } else { self.barren.saturating_add(1) };
                // Who is sent away again and again does not knock without a pause.
                let pause = if self.barren > 1 { self.config.reconnect } else { Duration::ZERO };
                info!(service = %self.config.service, "the broker asks to register anew");
                self.start_over(now, pause, out);
            }
        }
    }

    fn on_request(&mut self, now: Instant, client: &[u8], body: Message, message: &Message, out: &mut Vec<Action>) {
        let Ok(client) = RoutingId::any(client) else { return self.discard(message, "no client's address") };
        if self.hand.is_some() {
            return self.discard(message, "a second request before the reply to the first");
        }
        if self.closing {
            return;
        }
        self.hand = Some(Hand { epoch: self.epoch, client: client.clone(), since: now, beats: 0 });
        out.push(Action::Deliver { epoch: self.epoch, client, body });
    }

    fn discard(&mut self, message: &Message, why: &str) {
        self.discarded += 1;
        if self.discarded == 1 {
            warn!(?message, why, "message from the broker discarded; further ones are logged at debug level");
        } else {
            debug!(?message, why, "message from the broker discarded");
        }
    }

    fn on_reply(&mut self, now: Instant, epoch: Epoch, part: Part, body: &Message, out: &mut Vec<Action>) {
        let Some(hand) = self.hand.as_ref().filter(|hand| hand.epoch == epoch) else { return };
        if epoch == self.epoch {
            let reply = FromWorker::Reply { part, client: hand.client.as_bytes(), body: body.clone() };
            self.say(&reply, out);
        }
        if part == Part::Final {
            self.on_free(now);
        }
    }

    /// Another worker may do it: the broker gives it to one when this one leaves.
    fn on_abandoned(&mut self, now: Instant, epoch: Epoch, out: &mut Vec<Action>) {
        if self.hand.as_ref().is_none_or(|hand| hand.epoch != epoch) {
            return;
        }
        self.on_free(now);
        // Who is closing says goodbye anyway.
        if self.state == State::Registered && epoch == self.epoch && !self.closing {
            self.say(&FromWorker::Disconnect, out);
            self.start_over(now, Duration::ZERO, out);
        }
    }

    /// Nothing is in hand any more.
    fn on_free(&mut self, now: Instant) {
        self.hand = None;
        if !self.beats_busy {
            // The broker had no reason to say anything meanwhile.
            self.heard = now;
        }
        if self.state == State::Busy {
            self.state = State::Paused(now);
        }
    }

    fn on_time(&mut self, now: Instant, out: &mut Vec<Action>) {
        if self.state == State::Registered && self.silence().is_some_and(|due| due <= now) {
            warn!(service = %self.config.service, "the broker is silent, trying again after a pause");
            self.start_over(now, self.config.reconnect, out);
        }
        match self.state {
            State::Registered if self.next_beat <= now => {
                self.next_beat = now + self.beat();
                self.say(&FromWorker::Heartbeat, out);
            }
            State::Paused(until) if until <= now && !self.closing => self.register(now, out),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
