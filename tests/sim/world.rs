//! The world around a broker: virtual time, links between peers and broker, and the shell that executes effects.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant, SystemTime};

use eventmq::broker::{Broker, DownReason, Effect, Gate, Input, Roles, SocketId};
use eventmq::clock::Now;
use eventmq::store::StoreSeq;
use zmtp::{Message, RoutingId};

use crate::faults::{HEAL, Item, Notice, Plan, Queues, WorkerPlan};
use crate::invariants::{Checked, Model, Violation};
use crate::links::Link;
use crate::peers::{Action, Admin, Client, Cx, JobManager, Peer, Scheduler, Timer};
use crate::random::Random;
use crate::tally::Tally;

/// By then a healed world must have come to rest.
const PATIENCE: Duration = Duration::from_secs(900);
/// How long a world that came to rest is watched for more.
const AFTERMATH: Duration = Duration::from_secs(7);

/// Wall-clock time at the start of every schedule.
pub const EPOCH: SystemTime = SystemTime::UNIX_EPOCH;

/// One input of the broker.
pub struct Recorded {
    pub at: Duration,
    pub wall: SystemTime,
    pub input: Input,
}

/// One schedule being run.
pub struct World {
    pub broker: Broker,
    pub model: Model,
    pub tally: Tally,
    pub random: Random,
    pub now: Duration,
    pub peers: Vec<PeerSlot>,
    pub links: Vec<Link>,
    pub recording: Vec<Recorded>,
    /// Every effect, when someone wants to compare.
    pub effects: Option<Vec<Effect>>,
    /// The wall clock's distance from its start, beside the time that passed.
    pub wall_offset: u64,
    /// The broker gets no input before this.
    pub stalled_until: Duration,
    plan: Plan,
    start: Instant,
    events: BinaryHeap<Reverse<Event>>,
    sequence: u64,
    /// Which link holds a routing id: the ROUTERs' tables.
    pub routes: HashMap<(SocketId, RoutingId), usize>,
    gate: Gate,
    /// Records written: the memory store answers at once.
    written: u64,
    stopped: bool,
    /// Ticks in a row at one instant.
    ticks: u32,
    /// After a standstill the broker reads its sockets before it looks at its timers.
    messages_first: bool,
    healed: bool,
}

/// A peer and its transport.
pub struct PeerSlot {
    pub peer: Peer,
    pub socket: SocketId,
    pub link: Option<usize>,
    pub id: Option<RoutingId>,
    /// Said while the link was down: libzmq keeps it and sends it later.
    pub held: Vec<Message>,
    /// The link is to be cut behind the next REPLY that arrives.
    pub cut_behind_reply: Option<(Duration, Notice)>,
    /// SIGSTOPped until then; what arrives meanwhile waits.
    frozen: bool,
    missed: Vec<What>,
}

#[derive(Debug)]
pub enum What {
    Up(usize),
    FromPeer(usize, Message),
    Down(usize, DownReason),
    ToPeer(usize, Message),
    Timer(usize, Timer),
    Reconnect(usize),
    Thaw(usize),
    Input(Input),
    Item(usize),
    Heal,
}

#[derive(Debug)]
struct Event {
    at: Duration,
    sequence: u64,
    what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl World {
    pub fn new(plan: &Plan) -> Self {
        let start = Instant::now();
        let now = Now { mono: start, wall: EPOCH };
        let mut world = Self {
            broker: Broker::new(plan.config.clone(), now, plan.seed),
            model: Model::new(plan.config.clone()),
            tally: Tally::default(),
            random: Random::new(!plan.seed),
            now: Duration::ZERO,
            peers: Vec::new(),
            links: Vec::new(),
            recording: Vec::new(),
            effects: None,
            wall_offset: 1_796_056_873,
            stalled_until: Duration::ZERO,
            plan: plan.clone(),
            start,
            events: BinaryHeap::new(),
            sequence: 0,
            routes: HashMap::new(),
            gate: Gate::new(),
            written: 0,
            stopped: false,
            ticks: 0,
            messages_first: plan.seed.is_multiple_of(2),
            healed: false,
        };
        for (index, item) in plan.items.iter().enumerate() {
            let at = match item {
                Item::Worker(worker) => worker.at,
                Item::Scheduler(at) | Item::Fault(at, _) => *at,
                Item::Client(_) | Item::Admin(_) => Duration::ZERO,
            };
            world.at(at, What::Item(index));
        }
        world.at(HEAL, What::Heal);
        world
    }

    /// Runs the schedule to its end.
    pub fn run(&mut self) -> Checked {
        let mut rest: Option<Duration> = None;
        while !self.stopped {
            let deadline = self.deadline();
            let next = self.events.peek().map(|Reverse(event)| event.at);
            match (next, deadline) {
                (Some(at), due) if due.is_none_or(|due| at < due || (at == due && self.messages_first)) => {
                    self.event()?
                }
                (_, Some(due)) => {
                    self.now = self.now.max(due);
                    self.input(Input::Tick)?;
                }
                (Some(_), None) => self.event()?,
                (None, None) => break,
            }
            if !self.healed || self.model.is_stopping() {
                continue;
            }
            if !self.model.is_settled() {
                rest = None;
                if self.now > HEAL + PATIENCE {
                    return Err(self.model.not_settled());
                }
            } else if self.now > *rest.get_or_insert(self.now) + AFTERMATH {
                break;
            }
        }
        self.model.at_end(self.stopped, &self.broker.snapshot())?;
        self.model.report(&mut self.tally);
        Ok(())
    }

    /// When the broker wants to be woken: not while its host stands still.
    fn deadline(&self) -> Option<Duration> {
        let due = self.broker.deadline()?.saturating_duration_since(self.start);
        Some(due.max(self.stalled_until).max(self.now))
    }

    fn event(&mut self) -> Checked {
        let Some(Reverse(event)) = self.events.pop() else { return Ok(()) };
        self.now = self.now.max(event.at);
        let to_broker = matches!(event.what, What::Up(_) | What::FromPeer(..) | What::Down(..) | What::Input(_));
        if to_broker && self.now < self.stalled_until {
            // Same sequence number: the burst keeps its order.
            self.events.push(Reverse(Event { at: self.stalled_until, ..event }));
            return Ok(());
        }
        match event.what {
            What::Up(link) => self.up(link),
            What::FromPeer(link, message) => self.on_message(link, message),
            What::Down(link, reason) => self.down(link, reason),
            What::Input(input) => self.input(input),
            what => {
                self.outside(what);
                Ok(())
            }
        }
    }

    /// What the broker does not see.
    fn outside(&mut self, what: What) {
        match what {
            What::ToPeer(link, _) if !self.links[link].open => self.tally.count("lost on the way to a peer"),
            What::ToPeer(link, message) => self.wake(self.links[link].peer, What::ToPeer(link, message)),
            What::Timer(peer, timer) => self.wake(peer, What::Timer(peer, timer)),
            What::Reconnect(peer) => self.reconnect(peer),
            What::Thaw(peer) => self.thaw(peer),
            What::Item(index) => self.begin(index),
            What::Heal => self.heal(),
            What::Up(_) | What::FromPeer(..) | What::Down(..) | What::Input(_) => {}
        }
    }

    // --- the broker and its shell ---

    pub fn input(&mut self, input: Input) -> Checked {
        self.ticks = if matches!(input, Input::Tick) { self.ticks + 1 } else { 0 };
        let mono = self.start + self.now;
        let wall = EPOCH + Duration::from_secs(self.wall_offset) + self.now;
        self.recording.push(Recorded { at: self.now, wall, input: input.clone() });
        self.model.before(self.now, self.stalled_until, &input);
        let mut effects = Vec::new();
        self.broker.step(Now { mono, wall }, input, &mut effects);
        let snapshot = self.broker.snapshot();
        self.model.after(&effects, &snapshot)?;
        if let Some(all) = &mut self.effects {
            all.extend(effects.iter().cloned());
        }
        if self.ticks > 3 && self.deadline() == Some(self.now) {
            return Err(Violation::new(
                "the deadline moves on",
                "a Tick at its own deadline left one that is due".into(),
            ));
        }
        for effect in effects {
            if let Some(effect) = self.gate.pass(effect) {
                self.execute(effect);
            }
        }
        Ok(())
    }

    fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Send { socket, to, message, .. } => self.transmit(socket, to, message),
            Effect::Store(_) => {
                self.written += 1;
                let mut released = Vec::new();
                self.gate.on_stored(StoreSeq(self.written), &mut released);
                released.into_iter().for_each(|effect| self.execute(effect));
                self.at(self.now, What::Input(Input::Stored(StoreSeq(self.written))));
            }
            Effect::Unbind(_) => self.tally.count("socket unbound"),
            Effect::Stop => self.stopped = true,
            other => panic!("an effect the simulation does not know: {other:?}"),
        }
    }

    pub fn at(&mut self, at: Duration, what: What) {
        self.sequence += 1;
        self.events.push(Reverse(Event { at, sequence: self.sequence, what }));
    }

    pub fn later(&mut self, delay: Duration, what: What) {
        self.at(self.now + delay, what);
    }

    // --- peers ---

    pub fn add(&mut self, peer: Peer, socket: SocketId) -> usize {
        self.peers.push(PeerSlot {
            peer,
            socket,
            link: None,
            id: None,
            held: Vec::new(),
            cut_behind_reply: None,
            frozen: false,
            missed: Vec::new(),
        });
        self.peers.len() - 1
    }

    /// Whether heartbeats are in use.
    pub fn beats(&self) -> bool {
        self.plan.config.heartbeat_interval.is_some()
    }

    /// The socket with a role.
    pub fn socket(&self, role: impl Fn(&Roles) -> bool) -> SocketId {
        let index = self.plan.config.sockets.iter().position(role).unwrap_or(0);
        SocketId(index as u8)
    }

    fn wake(&mut self, peer: usize, what: What) {
        if self.peers[peer].frozen {
            return self.peers[peer].missed.push(what);
        }
        self.act(peer, |peer, cx| match what {
            What::ToPeer(_, message) => peer.on_message(&message, cx),
            What::Timer(_, timer) => peer.on_timer(timer, cx),
            _ => {}
        });
    }

    /// Lets a peer act, and does what it wants.
    pub fn act<T>(&mut self, index: usize, with: impl FnOnce(&mut Peer, &mut Cx<'_>) -> T) -> T {
        let beats = self.beats();
        let mut cx = Cx { now: self.now, beats, random: &mut self.random, tally: &mut self.tally, actions: Vec::new() };
        let answer = with(&mut self.peers[index].peer, &mut cx);
        for action in cx.actions {
            match action {
                Action::Send(message) => self.send(index, message),
                Action::After(delay, timer) => self.later(delay, What::Timer(index, timer)),
                Action::Connect(id) => self.connect(index, id),
                Action::Close => self.close(index),
                Action::Die => {
                    self.peers[index].held.clear();
                    self.cut(index, Notice::Closed);
                }
            }
        }
        answer
    }

    pub fn freeze(&mut self, peer: usize, length: Duration) {
        self.peers[peer].frozen = true;
        self.later(length, What::Thaw(peer));
    }

    fn thaw(&mut self, peer: usize) {
        self.peers[peer].frozen = false;
        for what in std::mem::take(&mut self.peers[peer].missed) {
            self.wake(peer, what);
        }
    }

    fn begin(&mut self, index: usize) {
        match self.plan.items[index].clone() {
            Item::Worker(plan) => self.begin_worker(plan),
            Item::Client(plan) => {
                let socket = self.socket(|roles| roles.frontend);
                let peer = self.add(Peer::Client(Client::new(index, plan)), socket);
                self.act(peer, |peer, cx| {
                    if let Peer::Client(client) = peer {
                        client.open(cx)
                    }
                });
            }
            Item::Scheduler(_) => {
                let socket = self.socket(|roles| roles.frontend);
                let peer = self.add(Peer::Scheduler(Scheduler::new(index)), socket);
                self.act(peer, |peer, cx| {
                    if let Peer::Scheduler(scheduler) = peer {
                        scheduler.open(cx)
                    }
                });
            }
            Item::Admin(commands) => {
                let socket = self.socket(|roles| roles.admin);
                let peer = self.add(Peer::Admin(Admin { commands }), socket);
                self.act(peer, |peer, cx| {
                    if let Peer::Admin(admin) = peer {
                        admin.open(cx)
                    }
                });
            }
            Item::Fault(_, fault) => self.apply(fault),
        }
    }

    fn begin_worker(&mut self, plan: WorkerPlan) {
        let socket = self.socket(|roles| roles.backend);
        let peer = self.add(Peer::JobManager(JobManager::new(self.peers.len(), plan)), socket);
        self.act(peer, |peer, cx| {
            if let Peer::JobManager(worker) = peer {
                worker.open(cx)
            }
        });
    }

    /// Everything is repaired, everyone behaves, and a good worker for all queues comes.
    fn heal(&mut self) {
        self.healed = true;
        for index in 0..self.peers.len() {
            self.thaw(index);
            if let Some(link) = self.peers[index].link {
                self.links[link].congested_until = Duration::ZERO;
            } else if !matches!(self.peers[index].peer, Peer::Client(_)) {
                self.reconnect(index);
            }
            if let Peer::JobManager(worker) = &mut self.peers[index].peer {
                worker.reform();
            }
        }
        let queues = ["default", "email", "sms", "high", "nobody"].map(|name| (10, name)).to_vec();
        self.begin_worker(WorkerPlan {
            at: self.now,
            processes: 3,
            queues: Queues::Weighted(queues),
            pace: (1, 50),
            chatter: 0,
            python: false,
        });
    }
}
