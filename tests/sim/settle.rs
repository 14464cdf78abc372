//! What happens without a message that shows it: workers given up, jobs taken back, retries come due. The broker's
//! snapshot says that it happened; the model says whether it may have, and what has to follow.

use bytes::Bytes;

use std::time::Duration;

use crate::invariants::{Checked, Violation, ensure};
use crate::model::{EPSILON, Key, Model, Place, SLACK, Worker};
use crate::view::{Seen, View};

impl Model {
    /// Workers the broker gave up. Returns them: their jobs follow.
    pub fn settle_workers(&mut self, view: &View) -> Result<Vec<Key>, Violation> {
        let mut gone = Vec::new();
        for (key, worker) in &self.workers {
            if view.workers.contains_key(key) {
                let over = self.must_be_lost(worker) && !self.is_stopping();
                ensure!(!over, "lost workers are given up", "{key:?} is still there: {worker:?} at {:?}", self.now);
            } else {
                let may = self.may_be_lost(key, worker) || self.is_stopping();
                ensure!(may, "workers are kept", "{key:?} is gone: {worker:?} at {:?}", self.now);
                gone.push(key.clone());
            }
        }
        for key in view.workers.keys() {
            ensure!(self.workers.contains_key(key), "only INFORM registers", "{key:?} at {:?}", self.now);
        }
        self.counts.lost_workers += gone.len() as u64;
        gone.iter().for_each(|key| drop(self.workers.remove(key)));
        Ok(gone)
    }

    /// Schedulers the broker gave up.
    pub fn settle_schedulers(&mut self, view: &View) -> Checked {
        for (key, heard) in &self.schedulers {
            // Without heartbeats nothing tells that a scheduler which did not read for a moment is well again.
            // Zero stands for one whose messages came back.
            let judged = self.config.heartbeat_interval.is_some() && *heard > Duration::ZERO;
            let quiet = !judged || self.now + EPSILON >= *heard + self.silence_limit();
            let may = quiet || !self.attached.contains(key) || self.is_stopping();
            ensure!(may || view.schedulers.contains(key), "schedulers are kept", "{key:?} is gone at {:?}", self.now);
        }
        self.schedulers.retain(|key, _| view.schedulers.contains(key));
        for key in &view.schedulers {
            ensure!(self.schedulers.contains_key(key), "only INFORM registers", "{key:?} at {:?}", self.now);
        }
        Ok(())
    }

    pub fn settle_jobs(&mut self, view: &View, dispatched: &[(Bytes, Key)], gone: &[Key]) -> Checked {
        for index in self.live.clone() {
            let job = &self.jobs[index];
            let went_out = dispatched.iter().any(|(id, _)| *id == job.msgid);
            let seen = if went_out { Some(&Seen::GoingOut) } else { view.jobs.get(&job.msgid) };
            match job.place {
                Place::InFlight => self.settle_in_flight(index, seen, gone)?,
                Place::Delayed => self.settle_delayed(index, seen)?,
                Place::Waiting => self.settle_waiting(index, seen)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Slots whose READY was lost with a connection: used again when it had its time to come over the new one.
    pub fn settle_slots(&mut self, view: &View, dispatched: &[(Bytes, Key)]) -> Checked {
        let limit = self.silence_limit();
        let waits =
            |worker: &Worker| worker.cut > 0 && worker.reconnected.is_some_and(|at| self.now + EPSILON >= at + limit);
        let due: Vec<Key> =
            self.workers.iter().filter(|(_, worker)| waits(worker)).map(|(key, _)| key.clone()).collect();
        for key in due {
            let (held, Some(worker)) = (self.held_by(&key), self.workers.get(&key)) else { continue };
            // Jobs it had before an INFORM count beside its processes.
            let missing = worker.processes.map_or(0, |n| n - worker.slots - held - worker.owed - worker.untracked);
            let expected = worker.cut.min(missing.max(0));
            let went_out = dispatched.iter().filter(|(_, to)| *to == key).count() as i64;
            let seen = view.workers.get(&key).map_or(0, |seen| seen.slots);
            let gained = seen + went_out - worker.slots;
            let certain = worker.dubious.is_none() && expected > 0;
            if certain && gained != expected {
                let since = worker.reconnected.unwrap_or_default().max(self.stalled);
                let late = self.step.tick && self.now > since + limit + SLACK && self.is_fit(&key, worker);
                let right = gained == 0 && (!late || self.is_stopping());
                ensure!(
                    right,
                    "no slot is lost with a connection",
                    "{key:?} {worker:?}, seen {seen} at {:?}",
                    self.now
                );
                continue;
            }
            let now = self.now;
            self.counts.slots_back += if certain { expected as u64 } else { 0 };
            let Some(worker) = self.workers.get_mut(&key) else { continue };
            worker.slots += if certain { expected } else { worker.cut };
            worker.dubious = worker.dubious.or((!certain).then_some(now));
            worker.cut = 0;
        }
        Ok(())
    }

    /// Jobs that nobody follows: given up like others, when there are signs that they are lost, and only that shows.
    pub fn settle_forgotten(&mut self, view: &View) {
        for msgid in std::mem::take(&mut self.held) {
            if matches!(view.jobs.get(&msgid), Some(Seen::InFlight(_))) {
                continue;
            }
            let Some(job) = self.by_msgid.get(&msgid).map(|index| &self.jobs[*index]) else { continue };
            let Some(worker) = job.worker.as_ref().and_then(|key| self.workers.get_mut(key)) else { continue };
            let still = view.jobs.iter().filter(|(id, seen)| {
                let other = self.by_msgid.get(*id).map(|index| &self.jobs[*index]);
                let its_own = other.is_some_and(|other| other.place == Place::Forgotten && other.worker == job.worker);
                its_own && matches!(seen, Seen::InFlight(_))
            });
            // A READY explains the end of one of them; any other was given up, and its slot with it.
            if worker.untracked > still.count() as i64 {
                worker.untracked -= 1;
                worker.slots += i64::from(worker.reconnected.is_some_and(|at| at >= job.since));
                worker.dubious = worker.dubious.or(Some(self.now));
            }
        }
    }

    fn settle_in_flight(&mut self, index: usize, seen: Option<&Seen>, gone: &[Key]) -> Checked {
        let job = &self.jobs[index];
        let Some(key) = job.worker.clone() else { return Ok(()) };
        let lost = gone.contains(&key);
        let (due, overdue) = self.timeout(job);
        if seen == Some(&Seen::InFlight(key.1.clone())) {
            let late = overdue.is_some_and(|overdue| self.now > overdue) && !self.is_stopping();
            ensure!(!late, "a hung job is given up", "{job:?} should have ended at {due:?}, now {:?}", self.now);
            let orphan = lost && !self.attached.contains(&key) && !self.is_stopping();
            ensure!(!orphan, "a lost worker's jobs are taken back", "{job:?} is still in flight");
            return Ok(());
        }
        let mut fates = Vec::new();
        let informed = self.step.informed.as_ref().is_some_and(|(by, _)| *by == key);
        let orphan = lost || informed || (!self.workers.contains_key(&key) && !self.attached.contains(&key));
        if orphan || self.process_died(&key, job.since) {
            fates.push(self.lost(index));
        }
        if gone.len() > 1 || (lost && self.step.received) {
            // Workers lost in one step are lost one after the other; or this one behind what the message led to.
            self.step.came_due.push(index);
        }
        if self.now + EPSILON >= due || job.doubtful {
            fates.extend([self.failed(index), self.lost(index)]);
            self.step.came_due.push(index);
        }
        self.choose(index, seen, &fates)
    }

    /// A READY more than REPLYs tells that a process was replaced, and perhaps that it had this job.
    fn process_died(&self, key: &Key, since: Duration) -> bool {
        self.workers.get(key).is_some_and(|worker| worker.unexplained.is_some_and(|at| at >= since))
    }

    fn settle_delayed(&mut self, index: usize, seen: Option<&Seen>) -> Checked {
        let job = &self.jobs[index];
        let (since, longest) = (job.since.max(self.stalled), self.config.retry_backoff_max * 3 / 2);
        match seen {
            Some(Seen::Delayed) => {
                let late = self.now > since + longest + SLACK && !self.is_stopping();
                ensure!(!late, "a retry comes due", "{job:?} is still delayed at {:?}", self.now);
                Ok(())
            }
            Some(Seen::Waiting(_) | Seen::GoingOut) if self.now >= job.since + self.config.retry_backoff / 2 => {
                self.place(index, Place::Waiting);
                self.step.came_due.push(index);
                self.settle_waiting(index, seen)
            }
            _ if job.doubtful => {
                let fates = [self.failed(index)];
                self.choose(index, seen, &fates)
            }
            _ => self.choose(index, seen, &[]),
        }
    }

    fn settle_waiting(&mut self, index: usize, seen: Option<&Seen>) -> Checked {
        let job = &self.jobs[index];
        match seen {
            Some(Seen::GoingOut) => Ok(()),
            Some(Seen::Waiting(queue)) => self.waits_in(index, queue),
            _ if job.doubtful => {
                let fates = [self.failed(index)];
                self.choose(index, seen, &fates)
            }
            _ => self.choose(index, seen, &[]),
        }
    }

    /// Notes where a job waits.
    pub fn waits_in(&mut self, index: usize, queue: &str) -> Checked {
        let job = &self.jobs[index];
        let may = self.may_wait_in(job, queue);
        ensure!(may, "a job waits where a worker can take it", "{job:?} waits in {queue:?} at {:?}", self.now);
        if job.effective.as_deref().is_some_and(|before| before != queue) {
            self.counts.moved += 1;
        }
        self.jobs[index].effective = Some(queue.to_owned());
        Ok(())
    }

    /// Takes the fate that fits what the snapshot shows.
    fn choose(&mut self, index: usize, seen: Option<&Seen>, fates: &[Place]) -> Checked {
        let job = &self.jobs[index];
        let fits = |fate: Place| match seen {
            // Handed out at once: a retry has its pause first.
            Some(Seen::Waiting(_) | Seen::GoingOut) => fate == Place::Waiting,
            Some(Seen::Delayed) => fate == Place::Delayed,
            None | Some(Seen::Dead) => fate == Place::Failed,
            Some(Seen::InFlight(_)) => false,
        };
        let Some(fate) = fates.iter().copied().find(|fate| fits(*fate)) else {
            if self.is_stopping() && matches!(seen, None | Some(Seen::Dead)) {
                self.place(index, Place::Abandoned);
                return Ok(());
            }
            let detail = format!("{job:?} is now {seen:?}, possible {fates:?}, at {:?}", self.now);
            return Err(Violation::new("a job is in one place", detail));
        };
        self.decide(index, fate);
        if let Some(Seen::Waiting(queue)) = seen {
            return self.waits_in(index, queue);
        }
        Ok(())
    }
}
