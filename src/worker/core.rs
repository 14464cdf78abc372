//! [`Core`]: slots, deadlines and the drain of anything that runs jobs, without knowing how they are run.
//!
//! A *runner* is what one job at a time runs in: a process of a pool, or a task. One is started for every slot, takes job
//! after job, and is replaced when it has run as many as it may, dies, or is out of date.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tracing::{debug, error, info, warn};
use zmtp::Message;

use super::events::{CoreConfig, Effect, Input, Order, RunnerId};
use super::job::{Exit, Job, JobEnd, RequestError};
use crate::clock::Now;
use crate::emqp::MsgId;

#[derive(Debug)]
struct Runner {
    state: State,
    /// Jobs it was given.
    jobs: usize,
    /// Not to be given another.
    last: bool,
}

#[derive(Debug)]
enum State {
    Starting,
    Idle,
    Busy {
        job: Job,
        deadline: Option<Instant>,
        since: Instant,
    },
    /// On its way out, perhaps with a job whose time is over.
    Ending {
        job: Option<Job>,
        kill_at: Option<Instant>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Jobs may go on until the first; jobs may still come until the second.
    Draining {
        until: Instant,
        last_call: Instant,
    },
    /// The grace is over: what runs is being ended.
    Killing,
    Stopped,
}

/// Slots, deadlines and the drain of anything that runs jobs in runners, as a pure state machine.
#[derive(Debug)]
pub struct Core {
    config: CoreConfig,
    runners: BTreeMap<RunnerId, Runner>,
    next_runner: u64,
    /// Jobs that are here and have no runner yet.
    queued: VecDeque<Job>,
    /// READYs the broker has not answered with a job.
    advertised: usize,
    registered: bool,
    /// Results that wait for the broker.
    held: Vec<(MsgId, Bytes)>,
    phase: Phase,
    /// Runners that ended in a row without having come up, and when another may be tried.
    failures: u32,
    start_at: Option<Instant>,
}

/// How long a runner that should end by itself may take.
const RETIRE_GRACE: Duration = Duration::from_secs(5);
/// How long jobs that crossed with our KBYE are waited for.
const LAST_CALL: Duration = Duration::from_millis(100);
/// Pause after a runner that would not start; doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Core {
    /// A core without runners; the first step starts them.
    pub fn new(config: CoreConfig) -> Self {
        Self {
            config,
            runners: BTreeMap::new(),
            next_runner: 0,
            queued: VecDeque::new(),
            advertised: 0,
            registered: false,
            held: Vec::new(),
            phase: Phase::Running,
            failures: 0,
            start_at: None,
        }
    }

    /// When [`Input::Tick`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        let of_runner = |runner: &Runner| match runner.state {
            State::Busy { deadline, .. } => deadline,
            State::Ending { kill_at, .. } => kill_at,
            State::Starting | State::Idle => None,
        };
        let of_phase = match self.phase {
            Phase::Draining { until, .. } if !self.is_idle() => Some(until),
            Phase::Draining { last_call, .. } => Some(last_call),
            Phase::Running | Phase::Killing | Phase::Stopped => None,
        };
        self.runners.values().filter_map(of_runner).chain(of_phase).chain(self.start_at).min()
    }

    /// Reacts to one input; what is to be done is appended to `out`.
    pub fn step(&mut self, now: Now, input: Input, out: &mut Vec<Effect>) {
        if self.phase == Phase::Stopped {
            return;
        }
        match input {
            Input::Delivered(message) => self.on_delivered(message, out),
            Input::Registered => self.on_registered(out),
            Input::Lost => (self.registered, self.advertised) = (false, 0),
            Input::Up(runner) => self.on_up(runner),
            Input::Done { runner, end } => self.on_done(now, runner, end, out),
            Input::Gone { runner, exit } => self.on_gone(now, runner, exit, out),
            Input::Tick => {}
            Input::Reconfigure(config) => self.on_reconfigure(config),
            Input::Shutdown => self.on_shutdown(now, out),
        }
        self.expire(now, out);
        self.settle(now, out);
    }

    /// A job, or something that should have been one.
    fn on_delivered(&mut self, message: Message, out: &mut Vec<Effect>) {
        match Job::read(&message) {
            Ok(job) => {
                debug!(msgid = %job.msgid, "job received");
                self.advertised = self.advertised.saturating_sub(1);
                self.queued.push_back(job);
            }
            Err(RequestError::NotAJob) => debug!("a message that is no job, ignored"),
            Err(RequestError::Unreadable { msgid, reply, error }) => {
                let id = msgid.as_ref().map(MsgId::to_string).unwrap_or_default();
                warn!(msgid = id, "job refused: {error}");
                self.advertised = self.advertised.saturating_sub(1);
                if let Some(msgid) = msgid.filter(|_| reply) {
                    self.reply(msgid, JobEnd::failure("Malformed", &error).result, out);
                }
            }
        }
    }

    fn on_registered(&mut self, out: &mut Vec<Effect>) {
        (self.registered, self.advertised) = (true, 0);
        self.flush(out);
    }

    fn flush(&mut self, out: &mut Vec<Effect>) {
        out.extend(self.held.drain(..).map(|(msgid, result)| Effect::Reply { msgid, result }));
    }

    fn reply(&mut self, msgid: MsgId, result: Bytes, out: &mut Vec<Effect>) {
        if self.registered || self.phase != Phase::Running {
            out.push(Effect::Reply { msgid, result });
        } else {
            // No more of these than there were jobs when the broker was lost.
            self.held.push((msgid, result));
        }
    }

    fn on_up(&mut self, id: RunnerId) {
        let Some(runner) = self.runners.get_mut(&id) else { return };
        if matches!(runner.state, State::Starting) {
            runner.state = State::Idle;
            (self.failures, self.start_at) = (0, None);
        }
    }

    fn on_done(&mut self, now: Now, id: RunnerId, end: JobEnd, out: &mut Vec<Effect>) {
        let Some(runner) = self.runners.get_mut(&id) else { return };
        match std::mem::replace(&mut runner.state, State::Idle) {
            State::Busy { job, since, .. } => {
                runner.last |= end.spent;
                let took = now.mono.saturating_duration_since(since).as_secs_f64();
                match &end.error {
                    None => debug!(msgid = %job.msgid, took, "job done"),
                    Some(error) => warn!(msgid = %job.msgid, took, "job failed: {error}"),
                }
                if job.reply {
                    self.reply(job.msgid, end.result, out);
                }
            }
            State::Ending { job, .. } => {
                // Its time was over, whatever it came to say: what it was told to do is end.
                runner.state = State::Ending { job, kill_at: None };
                out.push(Effect::Order(id, Order::Kill));
            }
            other => runner.state = other,
        }
    }

    fn on_gone(&mut self, now: Now, id: RunnerId, exit: Exit, out: &mut Vec<Effect>) {
        let Some(runner) = self.runners.remove(&id) else { return };
        match runner.state {
            State::Starting => self.on_failed_start(now, &exit),
            State::Idle => {
                warn!("a worker that ran nothing {exit}; another takes its place");
                if runner.jobs == 0 {
                    // It may be its nature: no hurry with the next.
                    self.start_at = Some(now.mono + FIRST_PAUSE);
                }
            }
            State::Busy { job, .. } => {
                let end = JobEnd::died(&exit);
                warn!(msgid = %job.msgid, "job failed: its worker {exit}");
                if job.reply {
                    self.reply(job.msgid, end.result, out);
                }
            }
            State::Ending { job: Some(job), .. } if self.phase == Phase::Killing => {
                // Without a reply the broker's rule for lost workers applies: a guaranteed job runs again elsewhere.
                warn!(msgid = %job.msgid, "job ended by the shutdown");
            }
            State::Ending { job: Some(job), .. } => {
                if job.reply {
                    self.reply(job.msgid, JobEnd::timeout(job.timeout).result, out);
                }
            }
            State::Ending { job: None, .. } => debug!("a worker {exit}"),
        }
    }

    fn on_failed_start(&mut self, now: Now, exit: &Exit) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16)).min(LONGEST_PAUSE);
        self.failures += 1;
        self.start_at = Some(now.mono + pause);
        error!(again = pause.as_secs_f64(), "a worker did not start: it {exit}");
    }

    fn on_reconfigure(&mut self, config: CoreConfig) {
        self.config = config;
        (self.failures, self.start_at) = (0, None);
        for runner in self.runners.values_mut() {
            runner.last = true;
        }
    }

    fn on_shutdown(&mut self, now: Now, out: &mut Vec<Effect>) {
        if self.phase != Phase::Running {
            return;
        }
        let jobs = self.runners.values().filter(|runner| matches!(runner.state, State::Busy { .. })).count();
        info!(jobs, queued = self.queued.len(), "stopping: jobs that run are finished");
        let last_call = if self.registered { now.mono + LAST_CALL } else { now.mono };
        self.phase = Phase::Draining { until: now.mono + self.config.drain_grace, last_call };
        self.flush(out);
        out.push(Effect::Leave);
    }

    /// Whether nothing runs or waits to run.
    fn is_idle(&self) -> bool {
        let at_work = |runner: &Runner| matches!(runner.state, State::Busy { .. } | State::Ending { job: Some(_), .. });
        self.queued.is_empty() && !self.runners.values().any(at_work)
    }

    /// Ends what has taken too long.
    fn expire(&mut self, now: Now, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Draining { until, .. } if until <= now.mono) && !self.is_idle() {
            self.phase = Phase::Killing;
            for job in self.queued.drain(..) {
                warn!(msgid = %job.msgid, "job not begun before the shutdown's end");
            }
        }
        let overdue = self.phase == Phase::Killing;
        for (id, runner) in &mut self.runners {
            match &mut runner.state {
                State::Busy { job, .. } if overdue => {
                    let job = Some(job.clone());
                    runner.state = State::Ending { job, kill_at: None };
                    out.push(Effect::Order(*id, Order::Kill));
                }
                State::Busy { job, deadline: Some(deadline), .. } if *deadline <= now.mono => {
                    let timeout = job.timeout.unwrap_or_default().as_secs_f64();
                    warn!(msgid = %job.msgid, timeout, "job failed: TimeoutError, its worker is ended");
                    let job = Some(job.clone());
                    runner.state = State::Ending { job, kill_at: Some(now.mono + self.config.terminate_grace) };
                    out.push(Effect::Order(*id, Order::Terminate));
                }
                State::Ending { kill_at, .. } if kill_at.is_some_and(|at| overdue || at <= now.mono) => {
                    *kill_at = None;
                    out.push(Effect::Order(*id, Order::Kill));
                }
                _ => {}
            }
        }
    }

    /// Brings runners, jobs and READYs into line; whatever happened, this is what should be.
    fn settle(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.retire(now, out);
        self.assign(now, out);
        self.start(now, out);
        self.advertise(out);
        let called = match self.phase {
            Phase::Draining { last_call, .. } => last_call <= now.mono,
            Phase::Killing => true,
            Phase::Running | Phase::Stopped => false,
        };
        if called && self.is_idle() {
            self.phase = Phase::Stopped;
            out.push(Effect::Stop);
        }
    }

    /// Lets go of runners that are spent, out of date, or too many.
    fn retire(&mut self, now: Now, out: &mut Vec<Effect>) {
        let mut surplus = self.staff().saturating_sub(self.config.slots);
        for (id, runner) in &mut self.runners {
            match runner.state {
                State::Idle if runner.last || surplus > 0 => {
                    if !runner.last {
                        surplus -= 1;
                    }
                    runner.state = State::Ending { job: None, kill_at: Some(now.mono + RETIRE_GRACE) };
                    out.push(Effect::Order(*id, Order::Retire));
                }
                _ => {}
            }
        }
    }

    fn assign(&mut self, now: Now, out: &mut Vec<Effect>) {
        while !self.queued.is_empty() && self.busy() < self.config.slots {
            let idle = self.runners.iter_mut().find(|(_, runner)| matches!(runner.state, State::Idle));
            let Some((id, runner)) = idle else { return };
            let Some(mut job) = self.queued.pop_front() else { return };
            job.timeout = job.timeout.or(self.config.default_timeout);
            runner.jobs += 1;
            runner.last |= self.config.jobs_per_runner.is_some_and(|most| runner.jobs >= most);
            let deadline = job.timeout.and_then(|timeout| now.mono.checked_add(timeout));
            out.push(Effect::Order(*id, Order::Run(job.clone())));
            // What the runner has is enough to run it; here only its name is needed.
            job.payload = Bytes::new();
            runner.state = State::Busy { job, deadline, since: now.mono };
        }
    }

    /// Starts what is missing. The successor of a runner with its last job starts while that still runs.
    fn start(&mut self, now: Now, out: &mut Vec<Effect>) {
        if self.start_at.is_some_and(|at| now.mono < at) {
            return;
        }
        self.start_at = None;
        let wanted = match self.phase {
            Phase::Running => self.config.slots,
            Phase::Draining { .. } => self.queued.len().min(self.config.slots.saturating_sub(self.busy())),
            Phase::Killing | Phase::Stopped => 0,
        };
        let starting = self.runners.values().filter(|runner| matches!(runner.state, State::Starting)).count();
        let missing = wanted.saturating_sub(self.staff());
        // After a failure one is tried before all are.
        let missing = if self.failures > 0 { missing.min(1_usize.saturating_sub(starting)) } else { missing };
        for _ in 0..missing {
            let id = RunnerId(self.next_runner);
            self.next_runner += 1;
            self.runners.insert(id, Runner { state: State::Starting, jobs: 0, last: false });
            out.push(Effect::Order(id, Order::Start));
        }
    }

    fn advertise(&mut self, out: &mut Vec<Effect>) {
        if !self.registered || self.phase != Phase::Running || !self.queued.is_empty() {
            return;
        }
        let idle = self.runners.values().filter(|runner| matches!(runner.state, State::Idle)).count();
        let free = idle.min(self.config.slots.saturating_sub(self.busy()));
        while self.advertised < free {
            self.advertised += 1;
            out.push(Effect::Ready);
        }
    }

    /// Runners that will be there for a next job.
    fn staff(&self) -> usize {
        let stays = |runner: &&Runner| !runner.last && !matches!(runner.state, State::Ending { .. });
        self.runners.values().filter(stays).count()
    }

    fn busy(&self) -> usize {
        let works = |runner: &&Runner| matches!(runner.state, State::Busy { .. } | State::Ending { job: Some(_), .. });
        self.runners.values().filter(works).count()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
