//! A core under virtual time, spoken to in short.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use zmtp::{Message, RoutingId};

use super::super::shutdown::Phase;
use super::super::{BridgeLink, BrokerConfig, Core, Effect, Input};
use crate::dispatch::{DownReason, Why};
use crate::mdp::wire::{FromWorker, Part, Version};

pub fn id(name: &str) -> RoutingId {
    RoutingId::any(name).unwrap()
}

pub struct World {
    pub core: Core,
    pub time: Instant,
    pub effects: Vec<Effect>,
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut BrokerConfig)) -> Self {
        let mut config = BrokerConfig::default();
        change(&mut config);
        let time = Instant::now();
        Self { core: Core::new(config, time, 7), time, effects: Vec::new() }
    }

    pub fn step(&mut self, input: Input) {
        self.core.step(self.time, input, &mut self.effects);
        self.check();
    }

    pub fn receive(&mut self, from: &str, frames: &[&[u8]]) {
        self.step(Input::Received { from: id(from), message: Message::from_frames(frames) });
    }

    /// A worker's command in MDP/0.1.
    pub fn worker(&mut self, from: &str, command: &FromWorker<'_>) {
        let message = command.to_message(Version::V01).unwrap();
        self.step(Input::Received { from: id(from), message });
    }

    /// A worker's command in MDP/0.2.
    pub fn worker2(&mut self, from: &str, command: &FromWorker<'_>) {
        let message = command.to_message(Version::V02).unwrap();
        self.step(Input::Received { from: id(from), message });
    }

    pub fn ready(&mut self, worker: &str, service: &str) {
        self.worker(worker, &FromWorker::Ready { service: service.as_bytes() });
    }

    pub fn heartbeat(&mut self, worker: &str) {
        self.worker(worker, &FromWorker::Heartbeat);
    }

    pub fn request(&mut self, client: &str, service: &str, body: &str) {
        self.receive(client, &[b"", b"MDPC01", service.as_bytes(), body.as_bytes()]);
    }

    pub fn request2(&mut self, client: &str, service: &str, body: &str) {
        self.receive(client, &[b"MDPC02", b"\x01", service.as_bytes(), body.as_bytes()]);
    }

    pub fn reply(&mut self, worker: &str, client: &str, body: &str) {
        self.worker(worker, &answer(Part::Final, client, body));
    }

    pub fn reply2(&mut self, worker: &str, part: Part, client: &str, body: &str) {
        self.worker2(worker, &answer(part, client, body));
    }

    pub fn up(&mut self, peer: &str) {
        self.step(Input::Up { peer: id(peer) });
    }

    pub fn down(&mut self, peer: &str) {
        self.step(Input::Down { peer: id(peer), reason: DownReason::Closed });
    }

    pub fn undelivered(&mut self, to: &str, frames: &[&[u8]], why: Why) {
        self.step(Input::Undelivered { to: id(to), message: Message::from_frames(frames), why });
    }

    pub fn bridge(&mut self, link: BridgeLink) {
        self.step(Input::Bridge(link));
    }

    /// Lets time pass, a Tick at each deadline.
    pub fn pass(&mut self, seconds: f64) {
        let end = self.time + Duration::from_secs_f64(seconds);
        while let Some(due) = self.core.deadline().filter(|due| *due <= end) {
            self.time = self.time.max(due);
            self.step(Input::Tick);
        }
        self.time = end;
    }

    /// What was sent since the last call: the receiver and the frames, `|` between them.
    pub fn sent(&mut self) -> Vec<String> {
        self.effects.drain(..).map(|effect| line(&effect)).collect()
    }

    /// As [`sent`](Self::sent), without heartbeats.
    pub fn said(&mut self) -> Vec<String> {
        let mut lines = self.sent();
        lines.retain(|line| !line.ends_with("MDPW01|\\x04") && !line.ends_with("MDPW02|\\x05"));
        lines
    }

    /// The parts agree with each other.
    fn check(&self) {
        let core = &self.core;
        let running = core.phase == Phase::Running;
        let stopped = core.phase == Phase::Stopped;
        let mut idle: BTreeMap<_, usize> = BTreeMap::new();
        let mut busy = 0;
        for key in core.workers.keys() {
            let worker = core.workers.get(key).unwrap();
            let service = core.services.get(worker.service).unwrap();
            assert_eq!(service.idle.contains(&(worker.idle_since, key)), worker.hand.is_none());
            *idle.entry(worker.service).or_default() += 1;
            busy += usize::from(worker.hand.is_some());
            assert_eq!(core.workers.find(&worker.id), Some(key));
            assert!(worker.wake.is_some());
        }
        assert_eq!(core.workers.busy, busy);
        let (mut waiting, mut bytes, mut armed) = (0, 0, 0);
        for key in core.services.keys() {
            let service = core.services.get(key).unwrap();
            assert_eq!(service.workers, idle.get(&key).copied().unwrap_or(0));
            assert!(service.workers > 0 || service.len() > 0, "{} is kept for nothing", service.name);
            assert!(!running || service.idle.is_empty() || service.len() == 0, "a request waits beside an idle worker");
            assert!(service.len() <= core.config.max_waiting && service.bytes <= core.config.max_waiting_bytes);
            let timed = service.len() > 0 && core.config.request_expiry.is_some();
            assert!(!timed || service.wake.is_some());
            armed += usize::from(service.wake.is_some());
            waiting += service.len();
            bytes += service.bytes;
        }
        assert_eq!((core.services.waiting, core.services.bytes), (waiting, bytes));
        assert!(core.peers.orphans <= waiting);
        let others = usize::from(core.refusals.is_armed())
            + usize::from(core.bridge.is_armed())
            + usize::from(matches!(core.phase, Phase::Stopping(_)));
        assert!(stopped || core.timers.len() == core.workers.len() + armed + others, "{:?}", core.timers);
        assert!(!stopped || core.deadline().is_none());
    }
}

pub fn answer<'a>(part: Part, client: &'a str, body: &str) -> FromWorker<'a> {
    FromWorker::Reply { part, client: client.as_bytes(), body: Message::single(body) }
}

fn line(effect: &Effect) -> String {
    let (to, message) = match effect {
        Effect::Send { to, message } => (to.to_string(), message),
        Effect::Submit(message) => ("bridge".to_owned(), message),
        other => return format!("{other:?}"),
    };
    let frames: Vec<_> = message.frames().map(|frame| frame.escape_ascii().to_string()).collect();
    let start = usize::from(frames[0].is_empty());
    format!("{to}: {}", frames[start..].join("|"))
}
