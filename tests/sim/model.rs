//! A second opinion: where every job and every worker must be, computed from what the broker was told and what it did.
//!
//! Where the specification leaves a moment open (when exactly a silent worker is given up), the model knows the earliest
//! and the latest, and takes the broker's snapshot for what lies between.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use eventmq::broker::{BrokerConfig, DownReason, Input, JobTracking, SocketId, Why};
use zmtp::{Message, RoutingId};

use crate::frames::{Asked, Parsed, result};

pub type Key = (SocketId, RoutingId);

/// Timers may be this early, for rounding.
pub const EPSILON: Duration = Duration::from_millis(1);
/// And this late.
pub const SLACK: Duration = Duration::from_secs(1);

/// A registered worker.
#[derive(Debug, Clone)]
pub struct Worker {
    pub queues: Vec<(i64, String)>,
    pub readys: i64,
    pub slots: i64,
    pub draining: bool,
    /// Last heard for certain, and at the latest.
    pub heard: (Duration, Duration),
    pub detached: Option<(Duration, DownReason)>,
    pub reconnected: Option<Duration>,
    /// Number of its last dispatch; zero before the first.
    pub used: u64,
    /// Number of the last dispatch of all when it registered.
    pub registered: u64,
    /// A message for it came back, and nothing was heard since.
    pub suspect: bool,
    /// The last HEARTBEAT to it, or what stands for one.
    pub beat: Duration,
    /// REPLYs whose READY has not come yet, and jobs it has that nobody waits for.
    pub owed: i64,
    pub untracked: i64,
    /// READYs that stand for a process each; unknown if some may instead stand for an untracked job's end.
    pub processes: Option<i64>,
    /// READYs owed over a connection that ended.
    pub cut: i64,
    /// Since when its count of slots is in doubt: it said or lost something that a good worker does not.
    pub dubious: Option<Duration>,
    /// Its last READY that belongs to no REPLY: one process more, or the replacement of one that died with its job.
    pub unexplained: Option<Duration>,
    /// The last READY of a worker that is still starting its processes.
    pub grown: Option<Duration>,
}

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Its REQUEST is being looked at.
    Arriving,
    Waiting,
    /// With the worker in `Job::worker`.
    InFlight,
    Delayed,
    Done,
    /// Given up: reported, and perhaps kept among the dead.
    Failed,
    Refused,
    /// Handed over and forgotten, as an untracked job is.
    Forgotten,
    /// What the broker held when it stopped.
    Abandoned,
}

impl Place {
    pub fn is_live(self) -> bool {
        matches!(self, Self::Arriving | Self::Waiting | Self::InFlight | Self::Delayed)
    }
}

/// One job, from its REQUEST on.
#[derive(Debug, Clone)]
pub struct Job {
    pub msgid: Bytes,
    pub client: Key,
    pub request: Message,
    pub queue: String,
    pub asked: Asked,
    pub tracked: bool,
    pub place: Place,
    pub worker: Option<Key>,
    /// Since when it is there.
    pub since: Duration,
    /// Where it waits: under its own queue or the default one.
    pub effective: Option<String>,
    pub order: usize,
    pub deliveries: u32,
    /// Number of its last dispatch.
    pub dispatch: u64,
    pub failures: u32,
    pub accepted: bool,
    pub results: u32,
    /// The worker's result that ended it.
    pub result: Option<Bytes>,
    /// A failing REPLY came for it that may or may not count.
    pub doubtful: bool,
    pub retried: bool,
}

impl Job {
    /// Most deliveries: the broker's limit, above it only what its own retries ask for.
    pub fn limit(&self, config: &BrokerConfig) -> u32 {
        config.delivery_limit.max(self.asked.retries + 1)
    }

    pub fn may_repeat(&self) -> bool {
        self.asked.guarantee || self.asked.retries > 0
    }
}

/// What happened in the present step.
#[derive(Debug, Default)]
pub struct Step {
    /// The job whose REQUEST this is.
    pub arrival: Option<usize>,
    /// A REQUEST or SCHEDULE that cannot be read.
    pub malformed: Option<(Key, Bytes)>,
    /// An unknown worker said READY or HEARTBEAT.
    pub unknown: Option<Key>,
    /// A worker that registered, and with which message.
    pub informed: Option<(Key, Bytes)>,
    pub schedule: Option<Message>,
    /// A SCHEDULE that came back: another scheduler may get it.
    pub returned_schedule: Option<Message>,
    pub admin: Option<(Key, Bytes)>,
    /// Jobs whose retry, or whose end, came due: perhaps after what else happened in this step.
    pub came_due: Vec<usize>,
    /// Jobs that ended.
    pub ended: Vec<usize>,
    /// Dispatches: job, worker.
    pub dispatched: Vec<(usize, Key)>,
    /// Who seems to have been passed over: a worker that must have no free slot left in the end.
    pub passed_over: Vec<(Key, String)>,
    pub tick: bool,
    /// A peer said something; what the time brought comes in the same step.
    pub received: bool,
}

/// The model.
pub struct Model {
    pub config: BrokerConfig,
    pub now: Duration,
    /// End of the last time the broker stood still.
    pub stalled: Duration,
    pub workers: BTreeMap<Key, Worker>,
    pub schedulers: BTreeMap<Key, Duration>,
    pub attached: BTreeSet<Key>,
    pub disconnected: BTreeMap<Key, Duration>,
    pub jobs: Vec<Job>,
    pub live: BTreeSet<usize>,
    pub by_msgid: HashMap<Bytes, usize>,
    pub dispatches: u64,
    pub stopping: Option<Duration>,
    /// Jobs that nobody follows, but that the broker still has in flight.
    pub held: HashSet<Bytes>,
    pub step: Step,
    pub counts: Counts,
}

/// What the model alone can count.
#[derive(Debug, Default)]
pub struct Counts {
    pub steps: u64,
    pub late: u64,
    pub returned: u64,
    pub lost_workers: u64,
    pub moved: u64,
    pub silent_dispatch: u64,
    pub slots_back: u64,
}

impl Model {
    pub fn new(config: BrokerConfig) -> Self {
        Self {
            config,
            now: Duration::ZERO,
            stalled: Duration::ZERO,
            workers: BTreeMap::new(),
            schedulers: BTreeMap::new(),
            attached: BTreeSet::new(),
            disconnected: BTreeMap::new(),
            jobs: Vec::new(),
            live: BTreeSet::new(),
            by_msgid: HashMap::new(),
            dispatches: 0,
            stopping: None,
            held: HashSet::new(),
            step: Step::default(),
            counts: Counts::default(),
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// Nothing is left to do.
    pub fn is_settled(&self) -> bool {
        self.live.is_empty() && self.held.is_empty()
    }

    /// Takes note of an input, before the broker sees it.
    pub fn before(&mut self, now: Duration, stalled: Duration, input: &Input) {
        (self.now, self.stalled) = (now, stalled);
        self.counts.steps += 1;
        self.step = Step::default();
        match input {
            Input::Received { socket, from, message } => {
                self.step.received = true;
                self.received((*socket, from.clone()), message);
            }
            Input::Up { socket, peer } => self.up((*socket, peer.clone())),
            Input::Down { socket, peer, reason } => {
                let key = (*socket, peer.clone());
                self.attached.remove(&key);
                if let Some(worker) = self.workers.get_mut(&key) {
                    worker.detached = Some((now, *reason));
                }
            }
            Input::Undelivered { socket, to, message, why } => self.undelivered((*socket, to.clone()), message, *why),
            Input::Shutdown => self.stopping = self.stopping.or(Some(now)),
            Input::Tick => self.step.tick = true,
            _ => {}
        }
    }

    fn up(&mut self, key: Key) {
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.detached = None;
            worker.reconnected = Some(self.now);
            worker.cut += std::mem::take(&mut worker.owed);
            worker.suspect = false;
            worker.heard.1 = self.now;
            worker.beat = self.now;
        }
        self.attached.insert(key);
    }

    fn undelivered(&mut self, key: Key, message: &Message, why: Why) {
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.suspect = true;
            if why == Why::Gone {
                worker.detached = worker.detached.or(Some((self.now, DownReason::Closed)));
            }
        }
        if let Some(heard) = self.schedulers.get_mut(&key) {
            // As good as silent.
            *heard = Duration::ZERO;
            self.step.returned_schedule = Some(message.clone());
        }
        self.request_returned(&key, message);
    }

    fn request_returned(&mut self, key: &Key, message: &Message) {
        let Some(parsed) = Parsed::of(message).filter(|parsed| parsed.command == b"REQUEST") else { return };
        let Some(&index) = self.by_msgid.get(parsed.msgid) else { return };
        let job = &mut self.jobs[index];
        if job.worker.as_ref() != Some(key) || !matches!(job.place, Place::InFlight | Place::Forgotten) {
            return;
        }
        job.deliveries -= 1;
        let (tracked, dispatch) = (job.tracked, job.dispatch);
        self.counts.returned += 1;
        self.place(index, Place::Waiting);
        if let Some(worker) = self.workers.get_mut(key) {
            // The slots of a former registration are forgotten.
            worker.slots += i64::from(dispatch > worker.registered);
            // A READY too many may have stood for its end.
            if !tracked && worker.untracked <= 0 {
                self.jobs[index].doubtful = true;
                worker.dubious = worker.dubious.or(Some(self.now));
            } else {
                worker.untracked -= i64::from(!tracked);
            }
        }
    }

    fn received(&mut self, key: Key, message: &Message) {
        let roles = self.config.sockets[usize::from(key.0.0)];
        let Some(parsed) = Parsed::of(message) else {
            if let Some(worker) = self.workers.get_mut(&key) {
                worker.heard.1 = self.now;
            }
            return;
        };
        self.heard(&key, &parsed);
        match (parsed.command, parsed.body.len()) {
            (b"INFORM", 1 | 2) if parsed.text(1) == "scheduler" && roles.frontend => {
                self.schedulers.insert(key, self.now);
            }
            (b"INFORM", 1 | 2) if parsed.text(1) == "scheduler" => {}
            (b"INFORM", 1 | 2) if roles.backend => self.inform(key, &parsed),
            (b"READY", 0) if roles.backend => self.ready(key),
            (b"HEARTBEAT", 0 | 1) if roles.backend && !self.workers.contains_key(&key) => {
                self.step.unknown = (!self.schedulers.contains_key(&key)).then_some(key);
            }
            // Only schedulers send any there: it knows an earlier run of the broker.
            (b"HEARTBEAT", 0 | 1) if roles.frontend && !roles.backend && self.stopping.is_none() => {
                self.schedulers.entry(key).or_insert(self.now);
            }
            (b"KBYE" | b"KBAI", 0) => {
                self.schedulers.remove(&key);
                if let Some(worker) = self.workers.get_mut(&key) {
                    worker.draining = true;
                }
            }
            (b"REPLY", 2) if roles.backend => self.reply(&key, &parsed),
            (b"REQUEST", _) if roles.frontend => self.request(key, message, &parsed),
            (b"SCHEDULE" | b"UNSCHEDULE", 3..) if roles.frontend => self.step.schedule = Some(message.clone()),
            (b"SCHEDULE", _) if roles.frontend => {
                self.step.malformed = Some((key, Bytes::copy_from_slice(parsed.msgid)));
            }
            (b"DISCONNECT", 0) if roles.admin => {
                self.stopping = self.stopping.or(Some(self.now));
                self.step.admin = Some((key, Bytes::copy_from_slice(parsed.msgid)));
            }
            (b"STATUS" | b"ROUTER_SHOW_WORKERS" | b"ROUTER_SHOW_SCHEDULERS", 0) if roles.admin => {
                self.step.admin = Some((key, Bytes::copy_from_slice(parsed.msgid)));
            }
            _ => {}
        }
    }

    /// A sign of life. Whether broken messages count is open.
    fn heard(&mut self, key: &Key, parsed: &Parsed<'_>) {
        let certain = matches!(
            (parsed.command, parsed.body.len()),
            (b"READY", 0) | (b"REPLY", 2) | (b"HEARTBEAT", 1) | (b"INFORM", 1 | 2)
        );
        if let Some(worker) = self.workers.get_mut(key) {
            worker.heard.1 = self.now;
            if certain {
                worker.heard.0 = self.now;
                worker.suspect = false;
                if self.attached.contains(key) {
                    worker.detached = None;
                }
            }
        }
        if let Some(heard) = self.schedulers.get_mut(key) {
            *heard = self.now;
        }
    }

    fn inform(&mut self, key: Key, parsed: &Parsed<'_>) {
        let configured = self.config.queues.iter();
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let queues = match (parsed.text(0), parsed.body.len()) {
            ("", _) => configured.map(|(weight, name)| (*weight, text(&name.0))).collect(),
            (csv, 1) => csv.split(',').map(|name| (self.config.default_weight, name.to_owned())).collect(),
            (json, _) => match serde_json::from_str::<Vec<(i64, String)>>(json) {
                Ok(queues) => queues,
                Err(_) => return,
            },
        };
        self.step.informed = Some((key.clone(), Bytes::copy_from_slice(parsed.msgid)));
        self.disconnected.remove(&key);
        let certain = self.workers.get(&key).is_none_or(|before| before.untracked == 0 && before.processes.is_some());
        let worker = Worker {
            queues,
            readys: 0,
            slots: 0,
            draining: false,
            heard: (self.now, self.now),
            detached: None,
            reconnected: None,
            used: 0,
            registered: self.dispatches,
            suspect: false,
            beat: self.now,
            owed: 0,
            untracked: 0,
            processes: certain.then_some(0),
            cut: 0,
            dubious: None,
            unexplained: None,
            grown: None,
        };
        self.workers.insert(key, worker);
    }

    /// One more slot. Each READY belongs to a REPLY before it, or to a process that starts, else something is wrong.
    fn ready(&mut self, key: Key) {
        let Some(worker) = self.workers.get_mut(&key) else {
            self.step.unknown = Some(key);
            return;
        };
        worker.readys += 1;
        worker.slots += 1;
        let starts = worker.grown.is_none_or(|at| self.now + EPSILON < at + self.config.heartbeat_timeout);
        if worker.owed > 0 {
            worker.owed -= 1;
        } else if worker.untracked > 0 {
            worker.untracked -= 1;
        } else if worker.cut > 0 {
            worker.cut -= 1;
        } else {
            worker.unexplained = Some(self.now);
            if starts {
                worker.grown = Some(self.now);
                worker.processes = worker.processes.map(|n| n + 1);
            } else {
                worker.dubious = Some(self.now);
            }
        }
    }

    pub fn held_by(&self, key: &Key) -> i64 {
        let jobs = self.live.iter().map(|index| &self.jobs[*index]);
        jobs.filter(|job| job.place == Place::InFlight && job.worker.as_ref() == Some(key)).count() as i64
    }

    /// Any REPLY counts by its msgid, whoever sends it; the first that counts ends the job.
    fn reply(&mut self, key: &Key, parsed: &Parsed<'_>) {
        let job = self.by_msgid.get(parsed.body[1]).map(|index| &self.jobs[*index]);
        let its_own = job.is_some_and(|job| job.place == Place::InFlight && job.worker.as_ref() == Some(key));
        if let Some(worker) = self.workers.get_mut(key) {
            worker.owed += i64::from(its_own);
            worker.dubious = worker.dubious.or((!its_own).then_some(self.now));
        }
        let Some(&index) = self.by_msgid.get(parsed.body[1]) else { return };
        let failed = result::is_failure(parsed.body[0]);
        let job = &mut self.jobs[index];
        if job.deliveries == 0 {
            // Of a former job with this msgid: what no one was given has no result.
            self.counts.late += 1;
            return;
        }
        match job.place {
            Place::InFlight | Place::Waiting | Place::Delayed if !failed => {
                job.result = Some(Bytes::copy_from_slice(parsed.body[0]));
                self.place(index, Place::Done);
            }
            Place::InFlight if job.deliveries == 1 => {
                job.result = Some(Bytes::copy_from_slice(parsed.body[0]));
                let fate = self.failed(index);
                self.decide(index, fate);
            }
            Place::InFlight | Place::Waiting | Place::Delayed => {
                job.result = Some(Bytes::copy_from_slice(parsed.body[0]));
                job.doubtful = true;
            }
            Place::Done | Place::Failed => self.counts.late += 1,
            _ => {}
        }
    }

    fn request(&mut self, key: Key, message: &Message, parsed: &Parsed<'_>) {
        let asked = (parsed.body.len() == 3).then(|| Asked::of(parsed.text(1))).flatten();
        let Some(asked) = asked else {
            self.step.malformed = Some((key, Bytes::copy_from_slice(parsed.msgid)));
            return;
        };
        // The msgid of a job that ended may be used again: nobody can remember all of them.
        let known = self.by_msgid.get(parsed.msgid).map(|index| self.jobs[*index].place);
        if known.is_some_and(Place::is_live) || self.held.contains(parsed.msgid) {
            return;
        }
        // A timeout can only be enforced on what is followed.
        let wishes = asked.reply || asked.guarantee || asked.mentions_retries || asked.timeout.is_some();
        let tracked = self.config.tracking == JobTracking::All || wishes;
        let index = self.jobs.len();
        self.jobs.push(Job {
            msgid: Bytes::copy_from_slice(parsed.msgid),
            client: key,
            request: message.clone(),
            queue: parsed.text(0).to_owned(),
            asked,
            tracked,
            place: Place::Arriving,
            worker: None,
            since: self.now,
            effective: None,
            order: index,
            deliveries: 0,
            dispatch: 0,
            failures: 0,
            accepted: false,
            results: 0,
            result: None,
            doubtful: false,
            retried: false,
        });
        self.live.insert(index);
        self.step.arrival = Some(index);
        self.by_msgid.insert(Bytes::copy_from_slice(parsed.msgid), index);
    }

    /// Moves a job, and counts what that used up.
    pub fn decide(&mut self, index: usize, fate: Place) {
        let job = &mut self.jobs[index];
        if let Some(worker) = job.worker.as_ref().and_then(|key| self.workers.get_mut(key)) {
            // It may still run there: a READY without a REPLY may follow, or a late REPLY. Or it never arrived, or its READY
            // was lost with a connection: then its slot is free.
            let given_up = job.result.is_none() && worker.reconnected.is_some_and(|at| at >= job.since);
            worker.slots += i64::from(given_up);
            worker.dubious = worker.dubious.or((job.result.is_none() || job.doubtful).then_some(self.now));
        }
        if fate == Place::Delayed || (fate == Place::Waiting && !job.asked.guarantee) {
            job.failures += 1;
        }
        if fate != Place::Failed {
            job.retried = true;
        }
        self.place(index, fate);
    }

    pub fn place(&mut self, index: usize, place: Place) {
        let job = &mut self.jobs[index];
        (job.place, job.since) = (place, self.now);
        job.doubtful = false;
        match place {
            Place::Waiting | Place::Delayed => job.worker = None,
            Place::Done | Place::Failed => self.step.ended.push(index),
            _ => {}
        }
        if place.is_live() {
            self.live.insert(index);
        } else {
            self.live.remove(&index);
        }
    }
}
