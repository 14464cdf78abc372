//! Memory that grows with what peers make up must have a bound: who only passes by leaves nothing behind.

use std::time::{Duration, Instant};

use eventmq::broker::{Broker, BrokerConfig, DownReason, Effect, Input, SocketId, UnknownQueue};
use eventmq::clock::Now;
use zmtp::{Message, RoutingId};

use crate::faults::{Nature, Plan};
use crate::frames::message;
use crate::world::EPOCH;

const FRONTEND: SocketId = SocketId(0);
const BACKEND: SocketId = SocketId(1);

/// A broker fed by hand.
struct Bench {
    broker: Broker,
    start: Instant,
    now: Duration,
    effects: Vec<Effect>,
}

impl Bench {
    fn new() -> Self {
        let start = Instant::now();
        let three = (0..).map(Plan::new).find(|plan| plan.config.sockets.len() == 3);
        let Some(Plan { config, .. }) = three else { unreachable!("some plan has a socket per role") };
        let config = BrokerConfig {
            unknown_queue: UnknownQueue::Default,
            hwm: 10,
            dead_limit: 10,
            waiting_bytes: 1 << 20,
            heartbeat_interval: Some(Duration::from_secs(3)),
            ..config
        };
        let broker = Broker::new(config, Now { mono: start, wall: EPOCH }, 1);
        Self { broker, start, now: Duration::ZERO, effects: Vec::new() }
    }

    fn step(&mut self, input: Input) {
        self.effects.clear();
        let now = Now { mono: self.start + self.now, wall: EPOCH + self.now };
        self.broker.step(now, input, &mut self.effects);
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.broker.deadline().map(|due| due.saturating_duration_since(self.start)) {
            if due > end {
                break;
            }
            self.now = self.now.max(due);
            self.step(Input::Tick);
        }
        self.now = end;
    }

    /// Someone comes, says something and goes.
    fn visit(&mut self, socket: SocketId, name: &str, says: Message) {
        let peer = match RoutingId::new(name) {
            Ok(peer) => peer,
            Err(error) => panic!("bad name {name:?}: {error}"),
        };
        self.step(Input::Up { socket, peer: peer.clone() });
        self.step(Input::Received { socket, from: peer.clone(), message: says });
        self.step(Input::Down { socket, peer, reason: DownReason::Closed });
    }

    /// What the broker holds, by the length of its own description: it names every table.
    fn size(&self) -> usize {
        format!("{:?}", self.broker).len()
    }
}

/// Lets `many` visitors pass by and compares what is held after half of them and after all.
fn leaves_nothing(many: u32, mut visit: impl FnMut(&mut Bench, u32)) {
    let mut bench = Bench::new();
    let mut sizes = [0; 2];
    for size in &mut sizes {
        for n in 0..many {
            visit(&mut bench, n);
        }
        bench.pass(Duration::from_secs(60));
        *size = bench.size();
    }
    // Numbers get longer, tables do not.
    assert!(sizes[1] < sizes[0] + sizes[0] / 10 + 1000, "what is held grew from {} to {}", sizes[0], sizes[1]);
    let snapshot = bench.broker.snapshot();
    assert!(snapshot.workers.is_empty() && snapshot.schedulers.is_empty(), "visitors are still registered");
    assert!(snapshot.jobs.len() <= 10 && snapshot.dead.len() <= 10, "more jobs are held than allowed");
}

#[test]
fn strangers_leave_nothing() {
    let mut visitor = 0;
    leaves_nothing(6000, |bench, n| {
        visitor += 1;
        let says = if n % 2 == 0 { message("READY", "m", &[]) } else { message("REPLY", "m", &[b"{}", b"job"]) };
        bench.visit(BACKEND, &format!("stranger-{visitor}"), says);
    });
}

#[test]
fn workers_and_their_queues_leave_nothing() {
    let mut visitor = 0;
    leaves_nothing(3000, |bench, _| {
        visitor += 1;
        let queues = format!("[[10, \"queue-{visitor}\"], [20, \"other-{visitor}\"]]");
        bench.visit(BACKEND, &format!("worker-{visitor}"), message("INFORM", "m", &[queues.as_bytes(), b"worker"]));
    });
}

#[test]
fn jobs_for_made_up_queues_leave_nothing() {
    let mut visitor = 0;
    leaves_nothing(3000, |bench, _| {
        visitor += 1;
        let (queue, payload) = (format!("queue-{visitor}"), Nature::Fine.payload().as_bytes());
        let says = message("REQUEST", &format!("job-{visitor}"), &[queue.as_bytes(), b"reply-requested", payload]);
        bench.visit(FRONTEND, &format!("client-{visitor}"), says);
    });
}

#[test]
fn schedulers_and_garbage_leave_nothing() {
    let mut visitor = 0;
    leaves_nothing(6000, |bench, n| {
        visitor += 1;
        bench.visit(FRONTEND, &format!("scheduler-{visitor}"), message("INFORM", "m", &[b"", b"scheduler"]));
        bench.visit(FRONTEND, &format!("garbage-{visitor}"), crate::faults::garbage((n % 256) as u8));
    });
}
