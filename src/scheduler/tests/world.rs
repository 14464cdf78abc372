//! A scheduler on virtual time with a store in memory, and the jobs it sends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;

use crate::clock::Now;
use crate::emqp::*;
use crate::scheduler::*;

/// 2026-03-02 10:00:00 UTC, a Monday.
const START: u64 = 1_772_445_600;

pub struct World {
    pub scheduler: Scheduler,
    pub store: MemoryStore,
    pub config: SchedulerConfig,
    start: Instant,
    /// Since the start, by the monotonic clock.
    pub time: Duration,
    /// What the wall clock is ahead of that, in seconds.
    pub set: i64,
    /// Whether the store works.
    pub stores: bool,
    /// Changes stored so far.
    pub changes: usize,
    ids: u32,
    sent: Vec<(f64, String)>,
}

impl World {
    pub fn new() -> Self {
        Self::with(SchedulerConfig::default())
    }

    pub fn with(config: SchedulerConfig) -> Self {
        let start = Instant::now();
        let now = Now { mono: start, wall: SystemTime::UNIX_EPOCH + Duration::from_secs(START) };
        let mut world = Self {
            scheduler: Scheduler::new(config.clone(), Saved::default(), now, 1),
            store: MemoryStore::default(),
            config,
            start,
            time: Duration::ZERO,
            set: 0,
            stores: true,
            changes: 0,
            ids: 0,
            sent: Vec::new(),
        };
        world.step(Input::Attached);
        world
    }

    pub fn now(&self) -> Now {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(START) + self.time;
        let wall = match u64::try_from(self.set) {
            Ok(ahead) => wall + Duration::from_secs(ahead),
            Err(_) => wall - Duration::from_secs(self.set.unsigned_abs()),
        };
        Now { mono: self.start + self.time, wall }
    }

    pub fn wall(&self) -> Timestamp {
        Timestamp::try_from(self.now().wall).unwrap()
    }

    pub fn step(&mut self, input: Input<'_>) {
        let mut out = Vec::new();
        self.scheduler.step(self.now(), input, &mut out);
        self.scheduler.settle(&mut out);
        self.perform(out);
    }

    fn perform(&mut self, mut effects: Vec<Effect>) {
        while !effects.is_empty() {
            for effect in std::mem::take(&mut effects) {
                match effect {
                    Effect::Send(message) => self.note(&message),
                    Effect::Store(changes) => {
                        self.changes += changes.len();
                        let stored = if self.stores {
                            self.store.commit(&changes).unwrap();
                            Stored::Safe
                        } else {
                            Stored::Failed
                        };
                        self.scheduler.step(self.now(), Input::Stored(stored), &mut effects);
                    }
                }
            }
        }
    }

    fn note(&mut self, message: &zmtp::Message) {
        let text = match Envelope::parse(message).unwrap().command {
            Command::Request(request) => {
                let payload = String::from_utf8_lossy(message.frames().nth(6).unwrap()).into_owned();
                let name = payload.split("\"callable\": \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
                let queue = String::from_utf8_lossy(request.queue).into_owned();
                format!("{name} {queue} {}", String::from_utf8_lossy(request.headers.0))
            }
            Command::Reply(Reply::Single(id)) => format!("ACCEPTED {}", String::from_utf8_lossy(id)),
            Command::Reply(Reply::Result { result, request }) => {
                format!("ERROR {request} {}", String::from_utf8_lossy(result))
            }
            other => format!("{other:?}"),
        };
        self.sent.push((self.time.as_secs_f64(), text));
    }

    /// What was sent since the last call, without times.
    pub fn sent(&mut self) -> Vec<String> {
        std::mem::take(&mut self.sent).into_iter().map(|(_, text)| text).collect()
    }

    /// How often each job ran since the last call.
    pub fn runs(&mut self) -> BTreeMap<String, usize> {
        let mut runs = BTreeMap::new();
        for text in self.sent() {
            if !text.starts_with("ACCEPTED") {
                *runs.entry(text.split(' ').next().unwrap().to_owned()).or_default() += 1;
            }
        }
        runs
    }

    /// When a job ran since the last call, in seconds since the start.
    pub fn times(&mut self, name: &str) -> Vec<f64> {
        let sent = std::mem::take(&mut self.sent);
        sent.into_iter().filter(|(_, text)| text.starts_with(name)).map(|(time, _)| time).collect()
    }

    pub fn schedule(&mut self, name: &str, headers: &str, interval: &str, cron: &str) {
        self.send(CommandName::Schedule, "q", name, headers, interval, cron);
    }

    pub fn unschedule(&mut self, name: &str) {
        self.send(CommandName::Unschedule, "q", name, "", "-1", "");
    }

    pub fn send(&mut self, command: CommandName, queue: &str, name: &str, headers: &str, interval: &str, cron: &str) {
        self.raw(command, [queue.as_bytes(), headers.as_bytes(), interval.as_bytes(), &payload(name), cron.as_bytes()]);
    }

    pub fn raw(&mut self, command: CommandName, body: [&[u8]; 5]) {
        self.ids += 1;
        let msgid = MsgId::new(self.ids.to_string()).unwrap();
        let message = Schedule::build(command, &msgid, body);
        let envelope = Envelope::parse(&message).unwrap();
        match &envelope.command {
            Command::Schedule(schedule) => self.step(Input::Schedule { msgid, schedule }),
            Command::Unschedule(schedule) => self.step(Input::Unschedule { msgid, schedule }),
            _ => unreachable!(),
        }
    }

    /// Lets time pass, stepping at each deadline.
    pub fn pass(&mut self, seconds: f64) {
        let end = self.time + Duration::from_secs_f64(seconds);
        loop {
            let due = self.scheduler.deadline().map(|due| due.saturating_duration_since(self.start));
            let Some(due) = due.filter(|due| *due <= end) else { break };
            // As in life, a little late.
            self.time = due.max(self.time) + Duration::from_micros(50);
            self.step(Input::Tick);
        }
        self.time = end.max(self.time);
    }

    /// Time passes and nobody looks.
    pub fn stall(&mut self, seconds: f64) {
        self.time += Duration::from_secs_f64(seconds);
    }

    /// The process dies and another starts with what is stored, some time later.
    pub fn restart(&mut self, seconds: f64) {
        self.stall(seconds);
        let saved = self.store.load(self.wall()).unwrap();
        self.scheduler = Scheduler::new(self.config.clone(), saved, self.now(), 2);
        self.step(Input::Attached);
    }
}

pub fn payload(name: &str) -> Vec<u8> {
    let call = "\"args\": [], \"kwargs\": {}, \"class_args\": [], \"class_kwargs\": {}";
    format!("[\"run\", {{\"path\": \"m\", \"callable\": \"{name}\", {call}}}]").into_bytes()
}
