//! The plan of a schedule: who takes part, which jobs there are, and what goes wrong when. A plan is a plain list, so a
//! failing one can be made shorter by leaving items out.

use std::time::Duration;

use bytes::Bytes;
use eventmq::broker::{BrokerConfig, JobTracking, Roles, UnknownQueue};
use eventmq::emqp::QueueName;
use zmtp::Message;

use crate::frames::message;
use crate::random::Random;

/// Faults happen before this; then everything is repaired and a good worker comes.
pub const HEAL: Duration = Duration::from_secs(45);

/// One schedule.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub config: BrokerConfig,
    pub items: Vec<Item>,
}

/// One thing that can be left out of a plan.
#[derive(Debug, Clone)]
pub enum Item {
    Worker(WorkerPlan),
    Client(ClientPlan),
    Scheduler(Duration),
    Admin(Vec<(Duration, &'static str)>),
    Fault(Duration, Fault),
}

/// A job manager.
#[derive(Debug, Clone)]
pub struct WorkerPlan {
    pub at: Duration,
    pub processes: u8,
    pub queues: Queues,
    /// How long a job takes, in milliseconds.
    pub pace: (u64, u64),
    /// After how many of 100 jobs it says something nobody asked for.
    pub chatter: u64,
    /// Reports an exception as a plain value.
    pub python: bool,
}

/// What a worker's INFORM names.
#[derive(Debug, Clone)]
pub enum Queues {
    Weighted(Vec<(i64, &'static str)>),
    /// An empty frame: what the broker is configured to assume.
    Configured,
    /// The early specification's list, without weights and without the type frame.
    Csv(Vec<&'static str>),
}

/// A client.
#[derive(Debug, Clone)]
pub struct ClientPlan {
    pub jobs: Vec<JobPlan>,
    pub style: Style,
    /// How many of 100 REQUESTs it repeats.
    pub resends: u64,
    /// Without an identity of its own.
    pub generated: bool,
}

/// What a client does after a REQUEST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Stays,
    Vanishes,
}

/// One REQUEST, or a SCHEDULE or UNSCHEDULE.
#[derive(Debug, Clone)]
pub struct JobPlan {
    pub at: Duration,
    pub queue: &'static str,
    pub headers: String,
    pub nature: Nature,
    pub schedule: Option<&'static str>,
    /// Only the queue frame.
    pub truncated: bool,
}

/// What becomes of a job where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    Fine,
    Boom,
    /// The worker reports a timeout, and its slot comes back later.
    Timeout,
    /// Kills the process it runs in.
    Exit,
    /// Kills the job manager.
    Poison,
    /// Is still running when the broker has given it up.
    Hang,
}

const PAYLOADS: [(Nature, &str); 6] = [
    (Nature::Fine, r#"["run", {"path": "sim", "callable": "fine"}]"#),
    (Nature::Boom, r#"["run", {"path": "sim", "callable": "boom"}]"#),
    (Nature::Timeout, r#"["run", {"path": "sim", "callable": "timeout"}]"#),
    (Nature::Exit, r#"["run", {"path": "sim", "callable": "exit"}]"#),
    (Nature::Poison, "{not json"),
    (Nature::Hang, r#"["run", {"path": "sim", "callable": "hang"}]"#),
];

impl Nature {
    pub fn payload(self) -> &'static str {
        PAYLOADS.iter().find(|(nature, _)| *nature == self).map_or("", |(_, payload)| payload)
    }

    pub fn of_payload(payload: &str) -> Self {
        PAYLOADS.iter().find(|(_, known)| *known == payload).map_or(Self::Fine, |(nature, _)| *nature)
    }
}

/// Something that goes wrong. The first number names a worker or peer, modulo the number there are.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The process group of a job manager is killed.
    Crash(u8, Notice),
    /// A worker process is killed under its job.
    KillChild(u8),
    /// SIGSTOP, and SIGCONT after a while.
    Freeze(u8, Duration),
    /// SIGTERM.
    Leave(u8),
    /// The job manager opens a new socket; the old connection stays open in its children.
    Desert(u8),
    /// INFORM again on the same connection.
    Inform(u8),
    /// A READY for a slot that is not there.
    Ready(u8),
    /// A link is cut; after a while the peer comes back with the same identity.
    Cut(u8, Duration, Notice),
    /// The same to a job manager, right behind its next REPLY: the READY is lost.
    CutBehindReply(u8, Duration, Notice),
    /// A peer's queue is at its high-water mark for a while.
    Congest(u8, Duration),
    /// The network delivers one of a peer's messages twice.
    Duplicate(u8),
    /// A message that is no eMQP, or not quite: the kind of [`garbage`].
    Garbage(u8, u8),
    /// A peer nobody knows says something on the backend: the kind of [`stranger`].
    StrangerWorker(u8),
    /// The same on the frontend.
    StrangerClient(u8),
    /// The broker's host stands still; what peers send meanwhile comes in one burst.
    Stall(Duration),
    /// The wall clock is set a day forward or back.
    WallClock(bool),
    SchedulerLeaves,
    Shutdown,
    AdminShutdown,
}

/// How the broker learns that a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// By a FIN or RST, soon.
    Closed,
    /// By unanswered PINGs.
    Silent,
    /// Not at all: the connection looks alive.
    Never,
}

const QUEUES: [&str; 5] = ["default", "email", "sms", "high", "nobody"];

impl Plan {
    /// The schedule of a seed.
    pub fn new(seed: u64) -> Self {
        let r = &mut Random::new(seed);
        let config = config(r);
        let mut items = Vec::new();
        items.extend((0..r.range(1, 4)).map(|_| Item::Worker(worker(r))));
        let clients = r.range(2, 6);
        items.extend((0..clients).map(|_| Item::Client(client(r))));
        items.extend((0..r.below(3)).map(|_| Item::Scheduler(r.millis(0, 5000))));
        if r.chance(40) {
            let commands = ["STATUS", "ROUTER_SHOW_WORKERS", "ROUTER_SHOW_SCHEDULERS", "HELLO"];
            items.push(Item::Admin((0..r.range(1, 5)).map(|_| (r.millis(0, 40_000), r.pick(&commands))).collect()));
        }
        let faults = r.range(0, 8);
        items.extend((0..faults).map(|_| Item::Fault(r.millis(500, 40_000), fault(r))));
        if r.chance(15) {
            let how = if r.chance(50) { Fault::Shutdown } else { Fault::AdminShutdown };
            items.push(Item::Fault(r.millis(5000, 40_000), how));
        }
        if r.chance(25) {
            let cut = Fault::CutBehindReply(r.below(256) as u8, r.millis(100, 4500), notice(r));
            items.push(Item::Fault(r.millis(500, 25_000), cut));
        }
        Self { seed, config, items }
    }
}

fn name(queue: &'static str) -> QueueName {
    QueueName(Bytes::from_static(queue.as_bytes()))
}

fn config(r: &mut Random) -> BrokerConfig {
    let roles = |frontend, backend, admin| Roles { frontend, backend, admin };
    BrokerConfig {
        sockets: match r.below(6) {
            0 => vec![roles(true, true, false), roles(false, false, true)],
            1 => vec![roles(true, true, true)],
            _ => vec![roles(true, false, false), roles(false, true, false), roles(false, false, true)],
        },
        default_queue: name("default"),
        default_weight: 10,
        queues: vec![(10, name("default")), (5, name("sms"))],
        unknown_queue: if r.chance(25) { UnknownQueue::Hold } else { UnknownQueue::Default },
        hwm: if r.chance(30) { r.range(1, 4) as usize } else { 1000 },
        waiting_bytes: if r.chance(10) { r.range(200, 800) as usize } else { 1 << 20 },
        heartbeat_interval: (!r.chance(4)).then_some(Duration::from_secs(3)),
        heartbeat_timeout: Duration::from_secs(5),
        heartbeat_liveness: 3,
        delivery_limit: r.range(1, 4) as u32,
        retry_backoff: Duration::from_secs(1),
        retry_backoff_max: Duration::from_secs(4),
        timeout_grace: Duration::from_secs(2),
        global_timeout: Duration::from_secs(15),
        shutdown_grace: Duration::from_secs(10),
        dead_limit: if r.chance(20) { 1 } else { 100 },
        tracking: if r.chance(25) { JobTracking::Asked } else { JobTracking::All },
    }
}

fn worker(r: &mut Random) -> WorkerPlan {
    let queues = match r.below(10) {
        0 => Queues::Configured,
        1 => Queues::Csv(vec!["default", "email"]),
        _ => {
            let first = r.below(4);
            let count = r.range(1, 3);
            Queues::Weighted((0..count).map(|i| (r.pick(&[10, 20, 30]), QUEUES[((first + i) % 4) as usize])).collect())
        }
    };
    WorkerPlan {
        at: r.millis(0, 3000),
        processes: r.range(1, 3) as u8,
        queues,
        pace: r.pick(&[(1, 50), (1, 50), (10, 2000), (2000, 12_000)]),
        chatter: if r.chance(25) { 30 } else { 0 },
        python: r.chance(40),
    }
}

fn client(r: &mut Random) -> ClientPlan {
    let count = r.range(1, 6);
    let start = r.millis(0, 30_000);
    let burst = r.chance(50);
    ClientPlan {
        jobs: (0..count).map(|_| job(start + r.millis(0, if burst { 20 } else { 8000 }), r)).collect(),
        style: if r.chance(20) { Style::Vanishes } else { Style::Stays },
        resends: if r.chance(20) { 50 } else { 0 },
        generated: r.chance(15),
    }
}

fn job(at: Duration, r: &mut Random) -> JobPlan {
    let mut headers = Vec::new();
    if r.chance(60) {
        headers.push("reply-requested".to_owned());
    }
    if r.chance(35) {
        headers.push("guarantee".to_owned());
    }
    if r.chance(25) {
        headers.push(format!("retry-count:{}", r.below(5)));
    }
    if r.chance(20) {
        headers.push(format!("timeout:{}", r.range(1, 6)));
    }
    match r.below(60) {
        0 => headers.push("timeout:abc".to_owned()),
        1 => headers.push("retry-count:1.5".to_owned()),
        2..6 => headers.push("x-colour:blue".to_owned()),
        _ => {}
    }
    let natures = [Nature::Boom, Nature::Timeout, Nature::Exit, Nature::Poison, Nature::Hang];
    JobPlan {
        at,
        queue: r.pick(&QUEUES),
        headers: headers.join(","),
        nature: if r.chance(25) { r.pick(&natures) } else { Nature::Fine },
        schedule: match r.below(40) {
            0 | 1 => Some("SCHEDULE"),
            2 => Some("UNSCHEDULE"),
            _ => None,
        },
        truncated: r.chance(2),
    }
}

fn notice(r: &mut Random) -> Notice {
    r.pick(&[Notice::Closed, Notice::Closed, Notice::Silent, Notice::Never])
}

fn fault(r: &mut Random) -> Fault {
    let who = r.below(256) as u8;
    let kind = r.below(256) as u8;
    let notice = notice(r);
    match r.below(34) {
        0..4 => Fault::Crash(who, notice),
        4..6 => Fault::KillChild(who),
        6..9 => Fault::Freeze(who, r.millis(500, 25_000)),
        9..12 => Fault::Leave(who),
        12..14 => Fault::Desert(who),
        14 => Fault::Inform(who),
        15 => Fault::Ready(who),
        16..19 => Fault::Cut(who, r.millis(100, 4500), notice),
        19..21 => Fault::Cut(who, r.millis(4500, 20_000), notice),
        21..24 => Fault::Congest(who, r.millis(100, 6000)),
        24..26 => Fault::Duplicate(who),
        26..28 => Fault::Garbage(who, kind),
        28 => Fault::StrangerWorker(kind),
        29 => Fault::StrangerClient(kind),
        30..32 => Fault::Stall(r.millis(500, 25_000)),
        32 => Fault::WallClock(r.chance(50)),
        _ => Fault::SchedulerLeaves,
    }
}

/// Messages that must change nothing, from whoever they come.
pub fn garbage(kind: u8) -> Message {
    let raw = |frames: &[&[u8]]| Message::from_frames(frames);
    match kind % 16 {
        0 => raw(&[b"\xff\xfe\x80"]),
        1 => raw(&[b""]),
        2 => raw(&[b"", b"eMQP/1.0"]),
        3 => raw(&[b"", b"eMQP/1.0", b"READY"]),
        4 => raw(&[b"", b"eMQP/9.9", b"READY", b"g4"]),
        5 => raw(&[b"eMQP/1.0", b"READY", b"g5"]),
        6 => raw(&[b"", b"eMQP/1.0", b"READY", b""]),
        7 => message("FROBNICATE", "g7", &[b"x"]),
        8 => message("\u{fffd}\u{fffd}", "g8", &[]),
        9 => message("REPLY", "g9", &[]),
        10 => message("REPLY", "g10", &[b"a", b"b", b"c", b"d"]),
        11 => message("REPLY", "g11", &[b"{\"value\": 1}", b"\xff\xfe"]),
        12 => message("REQUEST", "g12", &[]),
        13 => message("ACK", "g13", &[]),
        14 => message("SCHEDULE", "g14", &[b"default"]),
        _ => message("HEARTBEAT", "g15", &[b"not a number", b"and more"]),
    }
}

/// What a peer nobody knows may say on the backend; the first three deserve an answer of DISCONNECT.
pub fn stranger(kind: u8) -> Message {
    match kind % 6 {
        0 | 1 => message("READY", "x0", &[]),
        2 => message("HEARTBEAT", "x2", &[b"1.5"]),
        3 => message("REPLY", "x3", &[b"{\"value\": 1}", b"nobody-asked"]),
        4 => message("INFORM", "x4", &[b"[[10, \"default\"", b"worker"]),
        _ => message("KBYE", "x5", &[]),
    }
}
