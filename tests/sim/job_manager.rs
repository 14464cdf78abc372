//! A job manager after EventMQ 0.3.13 for Python: one READY per process, a REPLY and a READY per job.

use std::time::Duration;

use crate::faults::{Nature, Queues, WorkerPlan};
use crate::frames::{Asked, Parsed, result};
use crate::peers::{Action, BEAT, Cx, GIVE_UP, Timer};

/// A Python-like job manager with a number of worker processes.
#[derive(Debug)]
pub struct JobManager {
    plan: WorkerPlan,
    name: String,
    session: u32,
    phase: Phase,
    running: Vec<Running>,
    heard: Duration,
    count: u64,
}

#[derive(Debug, PartialEq)]
enum Phase {
    Off,
    /// Waits for the ACK of this INFORM and drops everything else.
    Informed(String),
    /// Starts its processes when the first HEARTBEAT arrives.
    Acked,
    Working,
    /// Said KBYE; finishes what it runs.
    Draining,
}

#[derive(Debug)]
struct Running {
    token: u64,
    msgid: String,
    reply: bool,
    end: Nature,
}

impl JobManager {
    pub fn new(index: usize, plan: WorkerPlan) -> Self {
        let name = format!("w{index}");
        Self { plan, name, session: 0, phase: Phase::Off, running: Vec::new(), heard: Duration::ZERO, count: 0 }
    }

    pub fn is_working(&self) -> bool {
        self.phase == Phase::Working
    }

    fn msgid(&mut self) -> String {
        self.count += 1;
        self.name_of(self.count)
    }

    fn name_of(&self, message: u64) -> String {
        format!("{}-m{message}", self.name)
    }

    fn say(&mut self, command: &str, body: &[&str], cx: &mut Cx<'_>) {
        let msgid = self.msgid();
        cx.send(command, &msgid, body);
    }

    /// Opens a connection under a new name and registers; jobs that run go on.
    pub fn open(&mut self, cx: &mut Cx<'_>) {
        self.session += 1;
        self.heard = cx.now;
        cx.connect(&format!("{}.{}", self.name, self.session));
        self.inform(cx);
        if cx.beats {
            cx.after(BEAT, Timer::Beat { session: self.session });
        }
    }

    pub fn inform(&mut self, cx: &mut Cx<'_>) {
        let msgid = self.msgid();
        match &self.plan.queues {
            Queues::Csv(names) => cx.send("INFORM", &msgid, &[&names.join(",")]),
            Queues::Configured => cx.send("INFORM", &msgid, &["", "worker"]),
            Queues::Weighted(queues) => {
                let pairs: Vec<String> =
                    queues.iter().map(|(weight, name)| format!("[{weight}, \"{name}\"]")).collect();
                cx.send("INFORM", &msgid, &[&format!("[{}]", pairs.join(", ")), "worker"]);
            }
        }
        self.phase = Phase::Informed(msgid);
        if !cx.beats {
            // Python's would wait for ever when its INFORM is lost, and a job sent to it would never end: no broker can tell.
            cx.after(GIVE_UP, Timer::Unanswered { inform: self.count });
        }
    }

    /// The whole process group is gone, and with it what it ran; it is started again later.
    pub fn crash(&mut self, cx: &mut Cx<'_>) {
        self.running.clear();
        self.phase = Phase::Off;
        cx.actions.push(Action::Die);
        let pause = cx.random.millis(500, 3000);
        cx.after(pause, Timer::Start { session: self.session });
    }

    /// SIGTERM: KBYE first, then finish what runs, then go.
    pub fn leave(&mut self, cx: &mut Cx<'_>) {
        if self.phase != Phase::Working {
            return;
        }
        self.phase = Phase::Draining;
        self.say("KBYE", &[], cx);
        self.go_if_drained(cx);
    }

    fn go_if_drained(&mut self, cx: &mut Cx<'_>) {
        if self.phase == Phase::Draining && self.running.is_empty() {
            self.phase = Phase::Off;
            cx.actions.push(Action::Close);
            let pause = cx.random.millis(500, 4000);
            cx.after(pause, Timer::Start { session: self.session });
        }
    }

    /// One worker process is killed: its job is never heard of again, a new process says READY.
    pub fn kill_child(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(at) = (!self.running.is_empty()).then(|| cx.random.below(self.running.len() as u64)) else {
            return false;
        };
        self.running.remove(at as usize);
        self.ready_later(0, 3000, cx);
        self.go_if_drained(cx);
        true
    }

    pub fn say_ready(&mut self, cx: &mut Cx<'_>) {
        if self.phase == Phase::Working {
            self.say("READY", &[], cx);
        }
    }

    fn ready_later(&mut self, low: u64, high: u64, cx: &mut Cx<'_>) {
        let pause = cx.random.millis(low, high);
        cx.after(pause, Timer::Ready { session: self.session });
    }

    pub fn on_timer(&mut self, timer: Timer, cx: &mut Cx<'_>) {
        match timer {
            Timer::Start { session } if session == self.session && self.phase == Phase::Off => self.open(cx),
            Timer::Beat { session } if session == self.session && self.phase != Phase::Off => {
                if cx.now - self.heard > GIVE_UP && self.phase != Phase::Draining {
                    cx.tally.count("worker: gave its broker up");
                    return self.open(cx);
                }
                if matches!(self.phase, Phase::Acked | Phase::Working) {
                    self.say("HEARTBEAT", &["1796056873.054339"], cx);
                }
                cx.after(BEAT, Timer::Beat { session });
            }
            Timer::Unanswered { inform } if self.phase == Phase::Informed(self.name_of(inform)) => self.inform(cx),
            Timer::Ready { session } if session == self.session => self.say_ready(cx),
            Timer::Done { token } => self.on_done(token, cx),
            _ => {}
        }
    }

    pub fn on_message(&mut self, message: &Parsed<'_>, cx: &mut Cx<'_>) {
        if self.phase == Phase::Off {
            return;
        }
        match (message.command, &self.phase) {
            (b"DISCONNECT", Phase::Informed(_) | Phase::Acked | Phase::Working) => {
                cx.tally.count("worker: told to register anew");
                self.say("KBYE", &[], cx);
                self.open(cx);
            }
            (b"ACK", Phase::Informed(msgid)) if message.text(0) == msgid => {
                self.heard = cx.now;
                self.phase = Phase::Acked;
                if !cx.beats {
                    self.start_processes(cx);
                }
            }
            (_, Phase::Informed(_)) => {}
            (b"HEARTBEAT", Phase::Acked) => {
                self.heard = cx.now;
                self.start_processes(cx);
            }
            (b"REQUEST", Phase::Working) => {
                self.heard = cx.now;
                self.run(message, cx);
            }
            _ => self.heard = cx.now,
        }
    }

    fn start_processes(&mut self, cx: &mut Cx<'_>) {
        self.phase = Phase::Working;
        (0..self.plan.processes).for_each(|_| self.ready_later(1, 100, cx));
    }

    fn run(&mut self, request: &Parsed<'_>, cx: &mut Cx<'_>) {
        let msgid = String::from_utf8_lossy(request.msgid).into_owned();
        let reply = Asked::of(request.text(1)).is_some_and(|asked| asked.reply);
        let end = Nature::of_payload(request.text(2));
        self.count += 1;
        let token = self.count;
        let (low, high) = self.plan.pace;
        let takes = match end {
            Nature::Hang => Duration::from_secs(cx.random.range(20, 40)),
            _ => cx.random.millis(low, high),
        };
        self.running.push(Running { token, msgid, reply, end });
        cx.after(takes, Timer::Done { token });
    }

    fn on_done(&mut self, token: u64, cx: &mut Cx<'_>) {
        let Some(at) = self.running.iter().position(|job| job.token == token) else { return };
        let job = self.running.remove(at);
        match job.end {
            Nature::Poison => {
                cx.tally.count("worker: killed by a job");
                return self.crash(cx);
            }
            Nature::Exit => {
                cx.tally.count("worker: child killed by a job");
                self.ready_later(0, 3000, cx);
            }
            Nature::Timeout => {
                self.reply(&job, result::TIMEOUT, cx);
                self.ready_later(1000, 6000, cx);
            }
            Nature::Boom => {
                self.reply(&job, if self.plan.python { result::PYTHON_BOOM } else { result::BOOM }, cx);
                self.say_ready(cx);
            }
            Nature::Fine | Nature::Hang => {
                self.reply(&job, result::FINE, cx);
                self.say_ready(cx);
            }
        }
        self.chatter(&job, cx);
        self.go_if_drained(cx);
    }

    fn reply(&mut self, job: &Running, result: &str, cx: &mut Cx<'_>) {
        if job.reply {
            self.say("REPLY", &[result, &job.msgid], cx);
        }
    }

    /// A worker that talks too much.
    fn chatter(&mut self, job: &Running, cx: &mut Cx<'_>) {
        if !cx.random.chance(self.plan.chatter) {
            return;
        }
        match cx.random.below(3) {
            0 => {
                cx.tally.count("chatter: a second REPLY");
                self.reply(job, result::FINE, cx);
            }
            1 => {
                cx.tally.count("chatter: a REPLY to no job");
                self.say("REPLY", &[result::FINE, "nobody-asked"], cx);
            }
            _ => {
                cx.tally.count("chatter: a second READY");
                self.say_ready(cx);
            }
        }
    }

    /// All faults are over: from now on a good worker.
    pub fn reform(&mut self) {
        self.plan.chatter = 0;
        self.plan.pace = (1, 50);
    }
}
