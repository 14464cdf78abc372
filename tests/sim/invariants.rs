//! What must be true after every step and at the end.

use std::fmt;

use bytes::Bytes;
use eventmq::broker::{Effect, Snapshot};
use zmtp::Message;

use crate::frames::Parsed;
pub use crate::model::Model;
use crate::model::{Job, Key, Place, SLACK};
use crate::tally::Tally;
use crate::view::{Seen, View};

/// A broken invariant.
#[derive(Debug, Clone)]
pub struct Violation {
    pub rule: &'static str,
    pub detail: String,
}

pub type Checked = Result<(), Violation>;

impl Violation {
    pub fn new(rule: &'static str, detail: String) -> Self {
        Self { rule, detail }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

/// Returns a [`Violation`] of a named rule unless a condition holds.
macro_rules! ensure {
    ($holds:expr, $rule:literal, $($detail:tt)+) => {
        if !$holds {
            return Err($crate::invariants::Violation::new($rule, format!($($detail)+)));
        }
    };
}
pub(crate) use ensure;

impl Model {
    /// Checks what the broker did with the input of this step.
    pub fn after(&mut self, effects: &[Effect], snapshot: &Snapshot) -> Checked {
        let view = View::of(snapshot, &self.config);
        let dispatched: Vec<(Bytes, Key)> = sends(effects)
            .filter_map(|(key, message)| {
                let parsed = Parsed::of(message).filter(|parsed| parsed.command == b"REQUEST")?;
                Some((Bytes::copy_from_slice(parsed.msgid), key))
            })
            .collect();
        let gone = self.settle_workers(&view)?;
        self.settle_schedulers(&view)?;
        self.settle_forgotten(&view);
        self.settle_jobs(&view, &dispatched, &gone)?;
        self.settle_slots(&view, &dispatched)?;
        for (position, effect) in effects.iter().enumerate() {
            match effect {
                Effect::Send { socket, to, message, .. } => {
                    self.sent((*socket, to.clone()), message, &effects[position + 1..])?;
                }
                Effect::Stop => {
                    ensure!(self.is_stopping(), "the broker runs until told", "it stopped at {:?}", self.now)
                }
                _ => {}
            }
        }
        self.answers(effects)?;
        self.compare(&view)?;
        self.fair_choice()?;
        self.ended()?;
        self.heartbeats(effects)?;
        let late =
            self.stopping.is_some_and(|since| self.now > since.max(self.stalled) + self.config.shutdown_grace + SLACK);
        ensure!(!late, "a shutdown ends", "still running at {:?}, told at {:?}", self.now, self.stopping);
        Ok(())
    }

    /// The broker's own account agrees with the model's.
    fn compare(&mut self, view: &View) -> Checked {
        let now = self.now;
        for index in self.live.clone() {
            let (job, seen) = (&self.jobs[index], view.jobs.get(&self.jobs[index].msgid));
            let same = match (job.place, seen) {
                (Place::Waiting, Some(Seen::Waiting(queue))) => {
                    self.waits_in(index, queue)?;
                    true
                }
                (Place::InFlight, Some(Seen::InFlight(id))) => job.worker.as_ref().is_some_and(|key| key.1 == *id),
                (Place::Delayed, Some(Seen::Delayed)) => true,
                _ => false,
            };
            let job = &self.jobs[index];
            ensure!(same || self.is_stopping(), "a job is in one place", "{job:?}, seen {seen:?} at {now:?}");
        }
        let forgotten = |msgid: &&Bytes| {
            view.jobs.get(*msgid) != Some(&Seen::Dead)
                && self.by_msgid.get(*msgid).is_some_and(|index| self.jobs[*index].place == Place::Forgotten)
        };
        self.held = view.jobs.keys().filter(forgotten).cloned().collect();
        let arrival = self.step.arrival.map(|index| &self.jobs[index]).filter(|job| job.place == Place::Waiting);
        if let Some((job, queue)) = arrival.and_then(|job| Some((job, job.effective.as_deref()?))) {
            // What came back behind it does not count.
            let came_back = self.step.came_due.iter().map(|index| &self.jobs[*index]);
            let came_back =
                came_back.filter(|job| job.place == Place::Waiting && job.effective.as_deref() == Some(queue));
            let room = self.waiting_in(queue) - came_back.count() <= self.config.hwm;
            ensure!(room, "a full queue takes no more", "{job:?} at {now:?}");
        }
        for (msgid, seen) in &view.jobs {
            let known = self.by_msgid.get(msgid).map(|index| &self.jobs[*index]);
            let right = known.is_some_and(|job| match seen {
                // Perhaps its id was used again since.
                Seen::Dead => self.jobs.iter().any(|job| job.msgid == *msgid && job.place == Place::Failed),
                Seen::InFlight(_) => job.place.is_live() || job.place == Place::Forgotten,
                _ => job.place.is_live(),
            });
            let right = right || self.is_stopping();
            ensure!(right, "an ended job is gone", "{} is {seen:?}, {known:?} at {now:?}", msgid.escape_ascii());
        }
        for (key, worker) in &self.workers {
            let Some(seen) = view.workers.get(key) else { continue };
            let there = self.attached.contains(key) || !seen.attached || seen.draining;
            ensure!(there, "a worker without a connection is detached", "{key:?} {seen:?} {worker:?} at {now:?}");
            let leaving = seen.draining == worker.draining;
            ensure!(leaving, "KBYE ends dispatch", "{key:?} {seen:?} {worker:?} at {now:?}");
            let sane = seen.slots >= 0 && seen.slots <= worker.readys && seen.slots <= worker.slots;
            ensure!(sane || worker.draining, "slots come from READYs", "{key:?} {seen:?} {worker:?} at {now:?}");
            let exact = seen.slots == worker.slots || worker.dubious.is_some() || worker.draining;
            ensure!(exact || self.is_stopping(), "no slot is lost", "{key:?} {seen:?} {worker:?} at {now:?}");
        }
        Ok(())
    }

    /// No one is passed over, neither workers nor jobs; nothing waits that could run.
    fn fair_choice(&mut self) -> Checked {
        if self.is_stopping() {
            return Ok(());
        }
        let certain_slot = |key: &Key| {
            let worker = self.workers.get(key);
            worker.is_some_and(|worker| worker.slots > 0 && worker.dubious.is_none() && self.is_fit(key, worker))
        };
        for (key, queue) in &self.step.passed_over {
            let taken = &self.step.dispatched;
            ensure!(!certain_slot(key), "no better worker is passed over", "{key:?} for {queue:?}, {taken:?} instead");
        }
        let waiting: Vec<&Job> =
            self.live.iter().map(|index| &self.jobs[*index]).filter(|job| job.place == Place::Waiting).collect();
        for job in &waiting {
            let Some(queue) = &job.effective else { continue };
            let idle =
                self.workers.iter().find(|(key, worker)| Self::weight(worker, queue).is_some() && certain_slot(key));
            ensure!(idle.is_none(), "no job waits while a worker is free", "{job:?} and {idle:?} at {:?}", self.now);
        }
        for (index, key) in &self.step.dispatched {
            let (Some(worker), job) = (self.workers.get(key), &self.jobs[*index]) else { continue };
            if !self.is_fit(key, worker) {
                // A silent worker may be the last choice for one queue and none for another.
                continue;
            }
            let Some(weight) = job.effective.as_deref().and_then(|queue| Self::weight(worker, queue)) else { continue };
            for other in waiting.iter().filter(|other| !self.step.came_due.contains(&other.order)) {
                let Some(theirs) = other.effective.as_deref().and_then(|queue| Self::weight(worker, queue)) else {
                    continue;
                };
                let older = other.effective == job.effective && other.order < job.order;
                ensure!(theirs <= weight && !older, "the right job goes first", "{other:?} passed over for {job:?}");
            }
        }
        Ok(())
    }

    /// Who asked and is there gets the result in the step that ends the job.
    fn ended(&self) -> Checked {
        for index in &self.step.ended {
            let job = &self.jobs[*index];
            let owed = job.asked.reply && job.accepted && self.attached.contains(&job.client);
            ensure!(!owed || job.results == 1, "who asked gets a result", "{job:?} at {:?}", self.now);
        }
        Ok(())
    }

    fn heartbeats(&self, effects: &[Effect]) -> Checked {
        let Some(interval) = self.config.heartbeat_interval else {
            let beats =
                sends(effects).filter_map(|(_, message)| Parsed::of(message).map(|parsed| parsed.command.to_vec()));
            ensure!(
                !beats.into_iter().any(|command| command == b"HEARTBEAT"),
                "heartbeats can be disabled",
                "{effects:?}"
            );
            return Ok(());
        };
        for (key, worker) in &self.workers {
            let there = self.attached.contains(key) && !worker.draining && !worker.suspect && !self.is_stopping();
            let late = self.now > worker.beat.max(self.stalled) + interval + SLACK;
            ensure!(!there || !late, "workers hear HEARTBEATs", "{key:?} {worker:?} at {:?}", self.now);
        }
        Ok(())
    }

    pub fn not_settled(&self) -> Violation {
        let left: Vec<&Job> = self.live.iter().map(|index| &self.jobs[*index]).collect();
        let detail = format!("{left:?}, untracked {:?}, workers {:?}", self.held, self.workers);
        Violation::new("every job ends once all is well", detail)
    }

    /// The end of a schedule.
    pub fn at_end(&mut self, stopped: bool, snapshot: &Snapshot) -> Checked {
        let view = View::of(snapshot, &self.config);
        if self.is_stopping() {
            ensure!(stopped, "a shutdown ends", "no Stop");
            return Ok(());
        }
        for (msgid, seen) in &view.jobs {
            ensure!(*seen == Seen::Dead, "tables are empty at the end", "{} is {seen:?}", msgid.escape_ascii());
        }
        for job in &self.jobs {
            let ended = !job.place.is_live() && (job.place != Place::Abandoned);
            ensure!(ended, "every job ends", "{job:?}");
            // The list of dead jobs is bounded in number and in bytes.
            let room = self.config.dead_limit >= 100 && self.config.waiting_bytes >= 1 << 20;
            let kept = job.place == Place::Failed && job.may_repeat() && room;
            let listed = view.jobs.get(&job.msgid) == Some(&Seen::Dead);
            ensure!(!kept || listed, "a guaranteed job ends done or dead", "{job:?} is in no list");
        }
        Ok(())
    }

    pub fn report(&self, tally: &mut Tally) {
        tally.add("steps", self.counts.steps);
        tally.add("jobs", self.jobs.len() as u64);
        tally.add("outcome: late REPLY dropped", self.counts.late);
        tally.add("job: came back undelivered", self.counts.returned);
        tally.add("job: moved to the default queue", self.counts.moved);
        tally.add("worker: its slot used again without the READY", self.counts.slots_back);
        tally.add("worker: given up", self.counts.lost_workers);
        tally.add("job: sent to a silent worker", self.counts.silent_dispatch);
        for job in &self.jobs {
            tally.count(match job.place {
                Place::Done => "outcome: done",
                Place::Failed if job.may_repeat() => "outcome: dead",
                Place::Failed => "outcome: lost or failed",
                Place::Refused => "outcome: refused",
                Place::Forgotten => "outcome: handed over, not tracked",
                _ => "outcome: held at the end of the broker",
            });
            if job.retried {
                tally.count("outcome: delivered again or tried again");
            }
        }
    }
}

pub fn sends(effects: &[Effect]) -> impl Iterator<Item = (Key, &Message)> {
    effects.iter().filter_map(|effect| match effect {
        Effect::Send { socket, to, message, .. } => Some(((*socket, to.clone()), message)),
        _ => None,
    })
}
