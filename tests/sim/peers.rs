//! Scripted peers, after what real EventMQ programs do: messages and timers in, actions out.

use std::time::Duration;

use zmtp::{Message, RoutingId};

use crate::faults::{ClientPlan, JobPlan, Nature, Style};
use crate::frames::{Parsed, message};
pub use crate::job_manager::JobManager;
use crate::random::Random;
use crate::tally::Tally;

pub const BEAT: Duration = Duration::from_secs(3);
/// After this much silence a peer gives its broker up: HEARTBEAT_LIVENESS times HEARTBEAT_TIMEOUT.
pub const GIVE_UP: Duration = Duration::from_secs(15);

/// What a peer wants done.
#[derive(Debug)]
pub enum Action {
    Send(Message),
    After(Duration, Timer),
    /// Leave the present connection, if any, and open one under this name.
    Connect(RoutingId),
    /// Close the connection; what was sent before still arrives.
    Close,
    /// The process died: what is under way is lost.
    Die,
}

/// A peer's own timers. Sessions and tokens mark those that were set in a former life.
#[derive(Debug, Clone)]
pub enum Timer {
    Start { session: u32 },
    Beat { session: u32 },
    Unanswered { inform: u64 },
    Ready { session: u32 },
    Done { token: u64 },
    Submit(usize),
    Resend(usize),
    Fire { session: u32 },
    Command(usize),
}

/// What a peer can see and do while it reacts.
pub struct Cx<'a> {
    pub now: Duration,
    /// Heartbeats are in use on both sides.
    pub beats: bool,
    pub random: &'a mut Random,
    pub tally: &'a mut Tally,
    pub actions: Vec<Action>,
}

impl Cx<'_> {
    pub fn send(&mut self, command: &str, msgid: &str, body: &[&str]) {
        let body: Vec<&[u8]> = body.iter().map(|frame| frame.as_bytes()).collect();
        self.actions.push(Action::Send(message(command, msgid, &body)));
    }

    pub fn after(&mut self, delay: Duration, timer: Timer) {
        self.actions.push(Action::After(delay, timer));
    }

    pub fn connect(&mut self, name: &str) {
        match RoutingId::new(name) {
            Ok(id) => self.actions.push(Action::Connect(id)),
            Err(error) => panic!("the simulation made up a bad routing id {name:?}: {error}"),
        }
    }
}

/// Any peer of the broker.
#[derive(Debug)]
pub enum Peer {
    JobManager(JobManager),
    Client(Client),
    Scheduler(Scheduler),
    Admin(Admin),
    /// Only says what the faults make it say.
    Stranger,
}

impl Peer {
    pub fn on_timer(&mut self, timer: Timer, cx: &mut Cx<'_>) {
        match (self, timer) {
            (Self::JobManager(peer), timer) => peer.on_timer(timer, cx),
            (Self::Client(peer), timer) => peer.on_timer(&timer, cx),
            (Self::Scheduler(peer), timer) => peer.on_timer(&timer, cx),
            (Self::Admin(peer), Timer::Command(index)) => peer.command(index, cx),
            (Self::Admin(_) | Self::Stranger, _) => {}
        }
    }

    pub fn on_message(&mut self, message: &Message, cx: &mut Cx<'_>) {
        let Some(parsed) = Parsed::of(message) else { return };
        match self {
            Self::JobManager(peer) => peer.on_message(&parsed, cx),
            Self::Client(peer) => peer.on_message(&parsed, cx),
            Self::Scheduler(peer) => peer.on_message(&parsed, cx),
            Self::Admin(_) | Self::Stranger => {}
        }
    }
}

/// A client with some jobs to submit.
#[derive(Debug)]
pub struct Client {
    name: String,
    plan: ClientPlan,
    connected: u32,
}

impl Client {
    pub fn new(index: usize, plan: ClientPlan) -> Self {
        Self { name: format!("c{index}"), plan, connected: 0 }
    }

    pub fn open(&mut self, cx: &mut Cx<'_>) {
        for index in 0..self.plan.jobs.len() {
            let at = self.plan.jobs[index].at;
            cx.after(at.saturating_sub(cx.now), Timer::Submit(index));
        }
    }

    fn on_timer(&mut self, timer: &Timer, cx: &mut Cx<'_>) {
        match *timer {
            Timer::Submit(index) => {
                let vanishes = self.plan.style == Style::Vanishes;
                if vanishes || self.connected == 0 {
                    self.connected += 1;
                    self.connect(cx);
                }
                self.submit(index, cx);
                if vanishes {
                    cx.tally.count("client: vanished after its REQUEST");
                    cx.actions.push(Action::Close);
                } else if cx.random.chance(self.plan.resends) {
                    let pause = cx.random.millis(1, 4000);
                    cx.after(pause, Timer::Resend(index));
                }
            }
            Timer::Resend(index) => {
                cx.tally.count("client: the same msgid again");
                self.submit(index, cx);
            }
            _ => {}
        }
    }

    fn connect(&self, cx: &mut Cx<'_>) {
        if self.plan.generated {
            // What a ROUTER calls a peer without an identity of its own.
            let number = self.name[1..].parse::<u32>().unwrap_or(0) * 1000 + self.connected;
            cx.actions.push(Action::Connect(RoutingId::generated(number)));
        } else {
            cx.connect(&format!("{}.{}", self.name, self.connected));
        }
    }

    fn submit(&self, index: usize, cx: &mut Cx<'_>) {
        let job = &self.plan.jobs[index];
        let msgid = format!("{}-j{index}", self.name);
        let payload = job.nature.payload();
        match job {
            JobPlan { schedule: Some(command), .. } => {
                cx.send(command, &msgid, &[job.queue, &job.headers, "10", payload, ""]);
            }
            JobPlan { truncated: true, .. } => cx.send("REQUEST", &msgid, &[job.queue]),
            _ => cx.send("REQUEST", &msgid, &[job.queue, &job.headers, payload]),
        }
    }

    fn on_message(&self, message: &Parsed<'_>, cx: &mut Cx<'_>) {
        match (message.command, message.body.len()) {
            (b"REPLY", 1) => cx.tally.count("client: got an acceptance"),
            (b"REPLY", 2) => cx.tally.count("client: got a result or an error"),
            _ => {}
        }
    }
}

/// A scheduler: registers on the frontend, beats, and sends due jobs.
#[derive(Debug)]
pub struct Scheduler {
    name: String,
    session: u32,
    informed: String,
    acked: bool,
    heard: Duration,
    fired: u32,
}

impl Scheduler {
    pub fn new(index: usize) -> Self {
        let name = format!("s{index}");
        Self { name, session: 0, informed: String::new(), acked: false, heard: Duration::ZERO, fired: 0 }
    }

    pub fn open(&mut self, cx: &mut Cx<'_>) {
        self.session += 1;
        (self.acked, self.heard) = (false, cx.now);
        cx.connect(&format!("{}.{}", self.name, self.session));
        self.informed = format!("{}-inform{}", self.name, self.session);
        cx.send("INFORM", &self.informed, &["", "scheduler"]);
        cx.after(BEAT, Timer::Beat { session: self.session });
        cx.after(Duration::from_secs(5), Timer::Fire { session: self.session });
    }

    pub fn leave(&mut self, cx: &mut Cx<'_>) {
        self.acked = false;
        self.session += 1;
        cx.send("KBYE", &format!("{}-bye", self.name), &[]);
        cx.actions.push(Action::Close);
    }

    fn on_timer(&mut self, timer: &Timer, cx: &mut Cx<'_>) {
        match *timer {
            Timer::Beat { session } if session == self.session => {
                if cx.beats && cx.now - self.heard > GIVE_UP {
                    cx.tally.count("scheduler: gave its broker up");
                    return self.open(cx);
                }
                if self.acked && cx.beats {
                    cx.send("HEARTBEAT", &format!("{}-beat", self.name), &["1796056873.0"]);
                }
                cx.after(BEAT, Timer::Beat { session });
            }
            Timer::Fire { session } if session == self.session && self.fired < 6 => {
                if self.acked {
                    self.fired += 1;
                    let msgid = format!("{}-run{}", self.name, self.fired);
                    cx.send("REQUEST", &msgid, &["default", "reply-requested", Nature::Fine.payload()]);
                }
                cx.after(Duration::from_secs(7), Timer::Fire { session });
            }
            _ => {}
        }
    }

    fn on_message(&mut self, message: &Parsed<'_>, cx: &mut Cx<'_>) {
        self.heard = cx.now;
        match message.command {
            b"ACK" if message.text(0) == self.informed => self.acked = true,
            b"SCHEDULE" | b"UNSCHEDULE" => cx.tally.count("scheduler: got a schedule"),
            _ => {}
        }
    }
}

/// An operator's shell.
#[derive(Debug)]
pub struct Admin {
    pub commands: Vec<(Duration, &'static str)>,
}

impl Admin {
    pub fn open(&self, cx: &mut Cx<'_>) {
        cx.connect("admin");
        for (index, (at, _)) in self.commands.iter().enumerate() {
            cx.after(*at, Timer::Command(index));
        }
    }

    fn command(&self, index: usize, cx: &mut Cx<'_>) {
        cx.send(self.commands[index].1, &format!("admin:{index}"), &[]);
    }
}
