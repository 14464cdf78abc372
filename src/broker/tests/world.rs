//! A broker on virtual time, with effects as short lines of text and its consistency checked after each step.

use std::time::{Duration, Instant, SystemTime};

use zmtp::{Message, RoutingId};

use crate::broker::jobs::Place;
use crate::broker::shutdown::Phase;
use crate::broker::workers::Standing;
use crate::broker::*;
use crate::clock::Now;
use crate::emqp::*;

pub const FRONT: SocketId = SocketId(0);
pub const BACK: SocketId = SocketId(1);
pub const ADMIN: SocketId = SocketId(2);

pub struct World {
    pub broker: Broker,
    start: Instant,
    /// Since the start.
    pub time: Duration,
    out: Vec<Effect>,
    ids: u32,
}

pub fn config() -> BrokerConfig {
    BrokerConfig {
        sockets: vec![
            Roles { frontend: true, ..Roles::default() },
            Roles { backend: true, ..Roles::default() },
            Roles { admin: true, ..Roles::default() },
        ],
        default_queue: "default".into(),
        default_weight: 10,
        queues: vec![(10, "default".into())],
        unknown_queue: UnknownQueue::Default,
        hwm: 100,
        waiting_bytes: 1 << 20,
        heartbeat_interval: Some(Duration::from_secs(3)),
        heartbeat_timeout: Duration::from_secs(5),
        heartbeat_liveness: 3,
        delivery_limit: 3,
        retry_backoff: Duration::from_secs(1),
        retry_backoff_max: Duration::from_secs(60),
        timeout_grace: Duration::from_secs(10),
        global_timeout: Duration::from_secs(300),
        shutdown_grace: Duration::from_secs(20),
        dead_limit: 10,
        tracking: JobTracking::All,
    }
}

pub fn id(name: &str) -> RoutingId {
    RoutingId::any(name).unwrap()
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut BrokerConfig)) -> Self {
        let mut config = config();
        change(&mut config);
        let start = Instant::now();
        let now = Now { mono: start, wall: SystemTime::UNIX_EPOCH };
        let (time, out, ids) = (Duration::ZERO, Vec::new(), 0);
        Self { broker: Broker::new(config, now, 7), start, time, out, ids }
    }

    pub fn step(&mut self, input: Input) {
        let now = Now { mono: self.start + self.time, wall: SystemTime::UNIX_EPOCH + self.time };
        self.broker.step(now, input, &mut self.out);
        self.check();
    }

    pub fn receive(&mut self, socket: SocketId, from: &str, frames: &[&[u8]]) {
        self.ids += 1;
        let own = self.ids.to_string();
        let mut all: Vec<&[u8]> = vec![b"", b"eMQP/1.0", frames[0], own.as_bytes()];
        all.extend(&frames[1..]);
        self.message(socket, from, Message::from_frames(all));
    }

    pub fn message(&mut self, socket: SocketId, from: &str, message: Message) {
        self.step(Input::Received { socket, from: id(from), message });
    }

    /// INFORM and READYs; what it is sent for it is thrown away.
    pub fn worker(&mut self, name: &str, queues: &str, slots: usize) {
        self.inform(name, queues);
        for _ in 0..slots {
            self.ready(name);
        }
    }

    pub fn inform(&mut self, name: &str, queues: &str) {
        self.receive(BACK, name, &[b"INFORM", queues.as_bytes(), b"worker"]);
    }

    pub fn ready(&mut self, name: &str) {
        self.receive(BACK, name, &[b"READY"]);
    }

    pub fn beat(&mut self, name: &str) {
        self.receive(BACK, name, &[b"HEARTBEAT", b"1.0"]);
    }

    pub fn kbye(&mut self, name: &str) {
        self.receive(BACK, name, &[b"KBYE"]);
    }

    pub fn request(&mut self, client: &str, job: &str, queue: &str, headers: &str) {
        self.payload(client, job, queue, headers, b"{}");
    }

    pub fn payload(&mut self, client: &str, job: &str, queue: &str, headers: &str, payload: &[u8]) {
        let msgid = MsgId::new(job).unwrap();
        self.message(FRONT, client, Request::build(&msgid, queue.as_bytes(), headers.as_bytes(), payload));
    }

    pub fn reply(&mut self, worker: &str, job: &str, result: &str) {
        self.receive(BACK, worker, &[b"REPLY", result.as_bytes(), job.as_bytes()]);
    }

    /// A job done: REPLY and READY.
    pub fn done(&mut self, worker: &str, job: &str) {
        self.reply(worker, job, "{\"value\": 1}");
        self.ready(worker);
    }

    pub fn up(&mut self, name: &str) {
        self.step(Input::Up { socket: BACK, peer: id(name) });
    }

    pub fn down(&mut self, name: &str, reason: DownReason) {
        self.step(Input::Down { socket: BACK, peer: id(name), reason });
    }

    /// The message last sent to this peer could not be queued.
    pub fn undelivered(&mut self, to: &str, message: Message, why: Why) {
        self.step(Input::Undelivered { socket: BACK, to: id(to), message, why });
    }

    /// Lets time pass, stepping at each deadline.
    pub fn pass(&mut self, seconds: f64) {
        self.pass_alive(seconds, &[]);
    }

    /// The same with these workers sending a HEARTBEAT every second.
    pub fn pass_alive(&mut self, seconds: f64, alive: &[&str]) {
        let end = self.time + Duration::from_secs_f64(seconds);
        let mut beat = self.time + Duration::from_secs(1);
        loop {
            let due = self.broker.deadline().map(|due| due.saturating_duration_since(self.start));
            let next = due.map_or(beat, |due| due.min(beat)).min(end).max(self.time);
            self.time = next;
            self.step(Input::Tick);
            if next == beat {
                for worker in alive {
                    self.beat(worker);
                }
                beat += Duration::from_secs(1);
            }
            if next == end {
                return;
            }
        }
    }

    /// What was sent since the last call, HEARTBEATs left out.
    pub fn sent(&mut self) -> Vec<String> {
        std::mem::take(&mut self.out).iter().map(line).filter(|line| !line.ends_with("HEARTBEAT")).collect()
    }

    /// The messages sent to this peer since the last call; what else was sent is forgotten.
    pub fn messages_to(&mut self, peer: &str) -> Vec<Message> {
        let to_peer = |effect| match effect {
            Effect::Send { to, message, .. } if to == id(peer) => Some(message),
            _ => None,
        };
        std::mem::take(&mut self.out).into_iter().filter_map(to_peer).collect()
    }

    pub fn admin(&mut self, command: &str, body: &[&str]) -> serde_json::Value {
        self.out.clear();
        let frames: Vec<&[u8]> = [command].iter().chain(body).map(|frame| frame.as_bytes()).collect();
        self.receive(ADMIN, "admin", &frames);
        let reply = self.messages_to("admin").pop().unwrap();
        serde_json::from_slice(reply.frame(4).unwrap()).unwrap()
    }

    pub fn count(&self) -> Counters {
        self.broker.counters()
    }

    pub fn view(&self, worker: &str) -> Option<WorkerView> {
        self.broker.snapshot().workers.into_iter().find(|view| view.id == id(worker))
    }

    pub fn slots(&self, worker: &str) -> u32 {
        self.view(worker).map_or(0, |view| view.free_slots)
    }

    /// The parts agree with each other.
    fn check(&self) {
        let broker = &self.broker;
        let running = matches!(broker.phase, Phase::Running);
        let mut waiting = 0;
        for (key, queue) in broker.queues.iter() {
            let serving: Vec<_> =
                broker.workers.iter().filter(|(_, w)| w.queues.iter().any(|(_, q)| *q == key)).collect();
            assert_eq!(queue.live as usize, serving.iter().filter(|(_, w)| w.is_live()).count());
            let attentive = |w: &workers::Worker| matches!(w.standing(), Standing::Attentive | Standing::Full);
            assert_eq!(queue.attentive as usize, serving.iter().filter(|(_, w)| attentive(w)).count());
            let usable = |w: &workers::Worker| matches!(w.standing(), Standing::Attentive | Standing::Silent);
            let candidates = serving.iter().filter(|(_, w)| usable(w) && w.slots.free() > 0).count();
            assert_eq!(queue.candidates.len(), candidates);
            assert!(
                !running || queue.waiting.is_empty() || queue.choose().is_none(),
                "a job waits beside a free worker"
            );
            let jobs = broker.jobs.iter().filter(|(_, job)| job.queue == key).count();
            let default = usize::from(key == broker.queues.default_key());
            assert_eq!(queue.holders() as usize, serving.len() + jobs + default);
            waiting += queue.waiting.len();
        }
        let places = |is: fn(&Place) -> bool| broker.jobs.iter().filter(|(_, job)| is(&job.place)).count();
        assert_eq!(waiting, places(|place| *place == Place::Waiting));
        let in_flight = broker.workers.iter().map(|(_, worker)| worker.in_flight.len()).sum::<usize>();
        assert_eq!(in_flight, places(|place| matches!(place, Place::InFlight(_))));
        assert_eq!(in_flight, broker.jobs.in_flight());
        for (key, worker) in broker.workers.iter() {
            for job in &worker.in_flight {
                assert!(matches!(broker.jobs.get(*job).unwrap().place, Place::InFlight(f) if f.worker == key));
            }
        }
        let timed = places(|place| match place {
            Place::Waiting => false,
            Place::InFlight(flight) => flight.deadline.is_some(),
            Place::Delayed(_) => true,
        });
        let peers = broker.workers.iter().filter(|(_, w)| w.wake.is_some()).count()
            + broker.schedulers.iter().filter(|(_, s)| s.wake.is_some()).count();
        let others = usize::from(broker.refusals.is_armed()) + usize::from(matches!(broker.phase, Phase::Stopping(_)));
        let stopped = matches!(broker.phase, Phase::Stopped);
        assert!(stopped || broker.timers.len() == timed + peers + others, "{:?}", broker.timers);
        assert!(!stopped || broker.deadline().is_none());
        let c = broker.counters();
        let ended = c.completed + c.failed + c.lost;
        assert!(ended <= c.accepted, "{c:?}");
    }
}

fn line(effect: &Effect) -> String {
    let (to, message) = match effect {
        Effect::Send { to, message, .. } => (to, message),
        Effect::Unbind(socket) => return format!("unbind {}", socket.0),
        other => return format!("{other:?}"),
    };
    let Envelope { msgid, command } = Envelope::parse(message).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match command {
        Command::Request(r) => format!("{to} REQUEST {msgid} {} {}", text(r.queue), text(r.headers.0)),
        Command::Schedule(_) => format!("{to} SCHEDULE {msgid}"),
        Command::Unschedule(_) => format!("{to} UNSCHEDULE {msgid}"),
        Command::Reply(Reply::Single(body)) => format!("{to} REPLY {}", text(body)),
        Command::Reply(Reply::Result { result, request }) => {
            let json: serde_json::Value = serde_json::from_slice(result).unwrap_or_default();
            match json.pointer("/error/type") {
                Some(kind) => format!("{to} ERROR {request} {}", kind.as_str().unwrap()),
                None => format!("{to} RESULT {request} {}", text(result)),
            }
        }
        Command::Ack { acknowledged } => format!("{to} ACK {acknowledged}"),
        command => format!("{to} {}", command.name().as_str()),
    }
}
