//! [`Core`]: the logic of an MDP broker, without any I/O.
//!
//! It owns no socket, task or clock. A shell tells it what happened with [`Core::step`], carries out the [`Effect`]s in
//! their order, and steps an [`Input::Tick`] no later than [`Core::deadline`]. Its parts: `services` and `workers` know
//! who can take a request, `peers` who is connected, `bridge` which jobs are under way; `requests`, `replies`, `liveness`
//! and `shutdown` say what follows from each input.

mod bridge;
mod config;
mod io;
mod liveness;
mod peers;
mod replies;
mod requests;
mod services;
mod shutdown;
mod workers;

use std::time::Instant;

use tracing::{debug, warn};
use zmtp::{Message, RoutingId};

pub use config::{BridgeConfig, Bridging, BrokerConfig};
pub use io::{BridgeLink, Counters, Effect, Input, ServiceView};

use self::bridge::Bridge;
use self::peers::Peers;
use self::services::{ServiceKey, Services};
use self::shutdown::Phase;
use self::workers::{WorkerKey, Workers};
use super::wire::{Delimiter, FromWorker, ParseError, ToBroker, ToWorker, Version};
use crate::dispatch::{Recent, Refusals, Stall, Timers, Why};

/// Peers whose misbehaviour is remembered, so that it is logged once.
const NOTED: usize = 4096;

/// The logic of an MDP broker, fed by hand.
///
/// ```
/// use std::time::Instant;
/// use eventmq::mdp::core::{BrokerConfig, Core, Effect, Input};
/// use zmtp::{Message, RoutingId};
///
/// let (worker, client) = (RoutingId::new("w")?, RoutingId::new("c")?);
/// let mut core = Core::new(BrokerConfig::default(), Instant::now(), 0);
/// let mut effects = Vec::new();
///
/// let ready = Message::from_frames([&b""[..], b"MDPW01", b"\x01", b"echo"]);
/// core.step(Instant::now(), Input::Received { from: worker.clone(), message: ready }, &mut effects);
/// let request = Message::from_frames(["", "MDPC01", "echo", "hello"]);
/// core.step(Instant::now(), Input::Received { from: client, message: request }, &mut effects);
///
/// let work = Message::from_frames([&b""[..], b"MDPW01", b"\x02", b"c", b"", b"hello"]);
/// assert_eq!(effects, [Effect::Send { to: worker, message: work }]);
/// # Ok::<(), zmtp::RoutingIdError>(())
/// ```
#[derive(Debug)]
pub struct Core {
    config: BrokerConfig,
    stall: Stall,
    peers: Peers,
    services: Services,
    workers: Workers,
    bridge: Bridge,
    noted: Recent<RoutingId, Noted>,
    timers: Timers<Timer>,
    counters: Counters,
    refusals: Refusals,
    phase: Phase,
    /// Number of the next request or of the next worker to become idle: both are served in their order.
    next: u64,
}

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The next heartbeat or liveness check of a worker.
    Worker(WorkerKey),
    /// The oldest waiting request of a service may have expired.
    Service(ServiceKey),
    /// The oldest bridged job may have.
    Bridge,
    /// A summary of dropped requests is due.
    Refusals,
    /// The grace period of a shutdown is over.
    Shutdown,
}

/// What was said about a peer already.
#[derive(Debug, Clone, Copy, Default)]
struct Noted {
    malformed: bool,
    unexpected: bool,
}

/// One step's time and effects.
struct Turn<'a> {
    now: Instant,
    out: &'a mut Vec<Effect>,
}

impl Turn<'_> {
    fn send(&mut self, to: RoutingId, message: Message) {
        self.out.push(Effect::Send { to, message });
    }
}

impl Core {
    /// A broker nobody is connected to. The same `seed` and inputs give the same effects.
    pub fn new(config: BrokerConfig, now: Instant, seed: u64) -> Self {
        Self {
            stall: Stall::new(now),
            peers: Peers::default(),
            services: Services::default(),
            workers: Workers::default(),
            bridge: Bridge::new(seed),
            noted: Recent::new(NOTED),
            timers: Timers::default(),
            counters: Counters::default(),
            refusals: Refusals::default(),
            phase: Phase::Running,
            next: 0,
            config,
        }
    }

    /// Something happened: appends what is to be done to `out`.
    pub fn step(&mut self, now: Instant, input: Input, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Stopped) {
            return;
        }
        let turn = &mut Turn { now, out };
        self.forgive_own_stall(turn);
        match input {
            Input::Received { from, message } => self.on_message(turn, from, &message),
            Input::Up { peer } => self.on_up(turn, peer),
            Input::Down { peer, reason } => self.on_down(turn, &peer, reason),
            Input::Undelivered { to, message, why } => self.on_undelivered(turn, &to, &message, why),
            Input::Bridge(link) => self.bridge.link = link,
            Input::FromBridge(message) => self.on_bridge_message(turn, &message),
            Input::Unsubmitted(message) => self.on_unsubmitted(&message),
            Input::Tick => {}
            Input::Purge => self.purge(turn),
            Input::Reconfigure(config) => self.reconfigure(turn, *config),
            Input::Shutdown => self.begin_shutdown(turn),
        }
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::Worker(key) => self.on_worker_timer(turn, key),
                Timer::Service(key) => self.on_service_timer(turn, key),
                Timer::Bridge => self.on_bridge_timer(turn),
                Timer::Refusals => self.on_refusals_timer(turn),
                Timer::Shutdown => self.finish_shutdown(turn),
            }
        }
        self.check_shutdown(turn);
    }

    /// When to step a [`Input::Tick`] at the latest; never again once the broker has stopped.
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.next().filter(|_| !matches!(self.phase, Phase::Stopped))
    }

    /// The settings in force.
    pub fn config(&self) -> &BrokerConfig {
        &self.config
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The services that have workers or waiting requests, in no order.
    pub fn services(&self) -> Vec<ServiceView> {
        self.services.views()
    }

    fn on_message(&mut self, turn: &mut Turn<'_>, from: RoutingId, message: &Message) {
        let (version, delimiter, command) = match ToBroker::parse(message) {
            Ok(ToBroker::Request(request)) => return self.on_request(turn, from, request),
            Ok(ToBroker::Worker { version, delimiter, command }) => (version, delimiter, command),
            Err(error) => return self.on_malformed(turn, &from, message, error),
        };
        let known = self.workers.find(&from).filter(|key| self.workers.speaks(*key, version));
        match (command, known) {
            (FromWorker::Ready { service }, None) if self.workers.find(&from).is_none() => {
                self.on_ready(turn, from, version, delimiter, service);
            }
            (FromWorker::Heartbeat, Some(key)) => self.on_heartbeat(turn, key),
            (FromWorker::Reply { part, client, body }, Some(key)) => self.on_reply(turn, key, part, client, body),
            (FromWorker::Disconnect, Some(key)) => self.lose_worker(turn, key, Lost::Left),
            (FromWorker::Disconnect, None) => {}
            (FromWorker::Ready { .. }, _) => self.on_unexpected(turn, &from, version, delimiter, "READY once more"),
            (FromWorker::Heartbeat, None) => {
                self.on_unexpected(turn, &from, version, delimiter, "HEARTBEAT of a worker that is not registered");
            }
            (FromWorker::Reply { .. }, None) => {
                self.on_unexpected(turn, &from, version, delimiter, "reply of a worker that is not registered");
            }
        }
    }

    /// Drops what is not MDP, and says who sent it, once per peer. A worker that does that is to register anew; of others
    /// nothing is kept.
    fn on_malformed(&mut self, turn: &mut Turn<'_>, from: &RoutingId, message: &Message, error: ParseError) {
        self.counters.malformed += 1;
        if std::mem::replace(&mut self.noted.entry(from).malformed, true) {
            debug!(%from, %error, ?message, "malformed message dropped");
        } else {
            warn!(%from, %error, ?message, "malformed message dropped; further ones of this peer are logged at debug level");
        }
        if let Some(key) = self.workers.find(from) {
            self.dismiss(turn, key);
        }
    }

    /// A worker's message that is right in itself, but not now: whoever sent it is to register anew.
    fn on_unexpected(
        &mut self,
        turn: &mut Turn<'_>,
        from: &RoutingId,
        version: Version,
        delimiter: Delimiter,
        what: &'static str,
    ) {
        self.counters.unexpected += 1;
        if std::mem::replace(&mut self.noted.entry(from).unexpected, true) {
            debug!(worker = %from, what, "told to register anew");
        } else {
            warn!(worker = %from, what, "told to register anew; further times are logged at debug level");
        }
        match self.workers.find(from) {
            Some(key) => self.dismiss(turn, key),
            None => turn.send(from.clone(), ToWorker::Disconnect.to_message(version, delimiter)),
        }
    }

    /// Tells a registered worker to register anew, and forgets it.
    fn dismiss(&mut self, turn: &mut Turn<'_>, key: WorkerKey) {
        let Some(worker) = self.workers.get(key) else { return };
        turn.send(worker.id.clone(), worker.say(&ToWorker::Disconnect));
        self.lose_worker(turn, key, Lost::Dismissed);
    }

    fn on_undelivered(&mut self, turn: &mut Turn<'_>, to: &RoutingId, message: &Message, why: Why) {
        let Ok((_, command)) = ToWorker::parse(message) else {
            self.counters.undelivered += 1;
            return debug!(client = %to, ?why, "reply dropped");
        };
        let Some(key) = self.workers.find(to) else { return };
        match (command, why) {
            (ToWorker::Request { .. }, _) => self.lose_worker(turn, key, Lost::NeverReached),
            (_, Why::Gone) => self.lose_worker(turn, key, Lost::Closed),
            // It does not read; if it does not speak either, its time will come.
            (_, Why::Full) => debug!(worker = %to, "worker does not read"),
        }
    }

    fn reconfigure(&mut self, turn: &mut Turn<'_>, config: BrokerConfig) {
        self.config = config;
        for key in self.workers.keys() {
            if let Some(worker) = self.workers.get_mut(key) {
                worker.next_beat = worker.next_beat.min(turn.now + self.config.beat());
            }
            self.arm_worker(turn.now, key);
        }
        for key in self.services.keys() {
            self.arm_service(turn.now, key);
        }
    }
}

/// Why a worker is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// It said DISCONNECT.
    Left,
    /// It was told DISCONNECT.
    Dismissed,
    /// Its connection ended, or is a new one.
    Closed,
    /// What was sent to it never left.
    NeverReached,
    /// It said nothing for too long.
    Silent,
    /// It had a request for longer than it may.
    Overdue,
}

#[cfg(test)]
mod tests;
