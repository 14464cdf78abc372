//! What the broker sends: each message must be one it may send now, and what has to be answered is.

use eventmq::broker::Effect;
use zmtp::Message;

use crate::frames::Parsed;
use crate::invariants::{Checked, Violation, ensure, sends};
use crate::model::{Job, Key, Model, Place};

impl Model {
    pub fn sent(&mut self, to: Key, message: &Message, rest: &[Effect]) -> Checked {
        let Some(parsed) = Parsed::of(message) else {
            return Err(Violation::new("only eMQP is sent", format!("{message:?} to {to:?}")));
        };
        match (parsed.command, parsed.body.len()) {
            (b"REQUEST", 3) => self.dispatch(to, message, &parsed),
            (b"REPLY", 1) if self.step.admin.as_ref().is_some_and(|(admin, _)| *admin == to) => Ok(()),
            (b"REPLY", 1) => self.acceptance(&to, parsed.body[0]),
            (b"REPLY", 2) => self.result(&to, parsed.body[0], parsed.body[1]),
            (b"ACK", 1) => self.acknowledged(&to, parsed.body[0], rest),
            (b"HEARTBEAT", 1) => {
                if let Some(worker) = self.workers.get_mut(&to) {
                    worker.beat = self.now;
                }
                Ok(())
            }
            (b"DISCONNECT", 0) => self.told_to_register(to),
            (b"KBYE", 0) => {
                ensure!(self.is_stopping(), "KBYE only at the end", "to {to:?} at {:?}", self.now);
                Ok(())
            }
            (b"SCHEDULE" | b"UNSCHEDULE", _) => {
                let cause = self.step.schedule.as_ref().or(self.step.returned_schedule.as_ref());
                let same = cause == Some(message) && self.schedulers.contains_key(&to);
                ensure!(same, "schedules go to schedulers unchanged", "{message:?} to {to:?}");
                Ok(())
            }
            _ => Err(Violation::new("only known commands are sent", format!("{message:?} to {to:?}"))),
        }
    }

    /// A job goes to a worker.
    fn dispatch(&mut self, to: Key, message: &Message, parsed: &Parsed<'_>) -> Checked {
        let Some(&index) = self.by_msgid.get(parsed.msgid) else {
            return Err(Violation::new("only accepted jobs are dispatched", format!("{message:?}")));
        };
        let (job, now) = (&self.jobs[index], self.now);
        let free = matches!(job.place, Place::Waiting | Place::Arriving);
        ensure!(free, "a job is dispatched from the queue", "{job:?} again to {to:?} at {now:?}");
        let once = job.may_repeat() || job.deliveries == 0;
        ensure!(once, "at most once", "{job:?} again to {to:?} at {now:?}");
        ensure!(job.deliveries < job.limit(&self.config), "the delivery limit", "{job:?} again at {now:?}");
        ensure!(!self.is_stopping(), "no dispatch after the end began", "{job:?} at {now:?}");
        ensure!(carries(job, message), "a job is forwarded unchanged", "{message:?} of {job:?}");

        let Some(worker) = self.workers.get(&to) else {
            return Err(Violation::new("jobs go to registered workers", format!("{job:?} to {to:?} at {now:?}")));
        };
        let there = self.attached.contains(&to) && !worker.draining;
        ensure!(there, "no dispatch to a detached or draining worker", "{job:?} to {worker:?} at {now:?}");
        ensure!(worker.slots > 0, "no dispatch without a READY", "{job:?} to {worker:?} at {now:?}");

        let queue = self.dispatch_queue(job, &to)?;
        let fit = |key: &Key| self.workers.get(key).is_some_and(|other| self.is_fit(key, other) && other.slots > 0);
        let others = self.workers.keys().filter(|key| **key != to);
        let before: Vec<_> = others.filter(|key| fit(key) && self.goes_before(key, &to, &queue)).cloned().collect();
        self.step.passed_over.extend(before.into_iter().map(|key| (key, queue.clone())));
        if self.is_certainly_silent(worker) {
            self.counts.silent_dispatch += 1;
        }

        self.dispatches += 1;
        let tracked = job.tracked;
        if let Some(worker) = self.workers.get_mut(&to) {
            worker.slots -= 1;
            worker.used = self.dispatches;
            worker.untracked += i64::from(!tracked);
        }
        let job = &mut self.jobs[index];
        job.deliveries += 1;
        job.dispatch = self.dispatches;
        job.result = None;
        job.effective = Some(queue);
        job.worker = Some(to.clone());
        self.step.dispatched.push((index, to));
        self.place(index, if tracked { Place::InFlight } else { Place::Forgotten });
        Ok(())
    }

    /// Which of the worker's queues the job came from.
    fn dispatch_queue(&self, job: &Job, to: &Key) -> Result<String, Violation> {
        let serves = |queue: &String| self.workers.get(to).is_some_and(|worker| Self::weight(worker, queue).is_some());
        let candidates = job.effective.iter().cloned().chain([job.queue.clone(), self.default_queue()]);
        let found = candidates.into_iter().find(|queue| serves(queue) && self.may_wait_in(job, queue));
        found.ok_or_else(|| {
            let detail = format!("{job:?} to {:?} at {:?}", self.workers.get(to), self.now);
            Violation::new("a job goes to a worker of its queue", detail)
        })
    }

    fn acceptance(&mut self, to: &Key, msgid: &[u8]) -> Checked {
        let Some(job) = self.arrival_of(msgid) else {
            // A client that repeats a REQUEST may be told again.
            let known = self.by_msgid.get(msgid).map(|index| &self.jobs[*index]);
            ensure!(
                known.is_some_and(|job| job.accepted && job.client == *to),
                "only accepted jobs are acknowledged",
                "{} to {to:?} at {:?}",
                msgid.escape_ascii(),
                self.now
            );
            return Ok(());
        };
        ensure!(job.client == *to, "the client that asked is told", "{job:?} acknowledged to {to:?}");
        ensure!(!job.accepted, "one acceptance", "{job:?} acknowledged twice at once");
        ensure!(job.results == 0, "acceptance comes before the result", "{job:?}");
        job.accepted = true;
        Ok(())
    }

    fn arrival_of(&mut self, msgid: &[u8]) -> Option<&mut Job> {
        let index = self.step.arrival?;
        Some(&mut self.jobs[index]).filter(|job| job.msgid == msgid)
    }

    /// The result of a job, or an error in its place.
    fn result(&mut self, to: &Key, result: &[u8], msgid: &[u8]) -> Checked {
        let is_error =
            serde_json::from_slice::<serde_json::Value>(result).is_ok_and(|value| value.get("error").is_some());
        let malformed = self.step.malformed.as_ref().is_some_and(|(client, id)| client == to && id == msgid);
        if malformed {
            ensure!(is_error, "a malformed REQUEST is answered with an error", "{} to {to:?}", result.escape_ascii());
            return Ok(());
        }
        // No scheduler is there, or none any more.
        let schedule = self.step.schedule.as_ref().or(self.step.returned_schedule.as_ref());
        if is_error && schedule.and_then(Parsed::of).is_some_and(|schedule| schedule.msgid == msgid) {
            return Ok(());
        }
        let arriving = self.step.arrival.filter(|index| self.jobs[*index].msgid == msgid);
        if let Some(index) = arriving.filter(|index| self.jobs[*index].place == Place::Arriving) {
            let job = &self.jobs[index];
            ensure!(is_error && !job.accepted && job.client == *to, "refused or accepted", "{job:?}");
            self.may_be_refused(job)?;
            self.place(index, Place::Refused);
            return Ok(());
        }
        let Some(&index) = self.by_msgid.get(msgid) else {
            let detail = format!("{} for {} to {to:?}", result.escape_ascii(), msgid.escape_ascii());
            return Err(Violation::new("results are of jobs", detail));
        };
        let stopping = self.is_stopping();
        let job = &mut self.jobs[index];
        job.results += 1;
        ensure!(job.asked.reply, "no result for who did not ask", "{job:?}");
        ensure!(job.client == *to, "the result goes to the client that asked", "{job:?} to {to:?}");
        ensure!(job.results == 1, "one result", "{job:?}: {}", result.escape_ascii());
        let fits = match job.place {
            Place::Done => job.result.as_deref() == Some(result),
            Place::Failed => is_error || job.result.as_deref() == Some(result),
            Place::Abandoned => is_error,
            _ => is_error && stopping,
        };
        ensure!(fits, "a result says how the job ended", "{job:?}: {}", result.escape_ascii());
        Ok(())
    }

    /// A job may be refused when its queue, or the memory, is full, or the broker is about to end.
    fn may_be_refused(&self, job: &Job) -> Checked {
        let (own, default) = self.homes(&job.queue);
        let full = |queue: &str| self.waiting_in(queue) >= self.config.hwm;
        let full = (own && full(&job.queue)) || (default && full(&self.default_queue()));
        let may = full || self.config.waiting_bytes < 10_000 || self.is_stopping();
        ensure!(may, "no refusal without a reason", "{job:?} at {:?}", self.now);
        Ok(())
    }

    pub fn waiting_in(&self, queue: &str) -> usize {
        let jobs = self.live.iter().map(|index| &self.jobs[*index]);
        jobs.filter(|job| job.place == Place::Waiting && job.effective.as_deref() == Some(queue)).count()
    }

    fn acknowledged(&mut self, to: &Key, msgid: &[u8], rest: &[Effect]) -> Checked {
        if self.step.informed.as_ref().is_some_and(|(by, id)| by == to && id == msgid) {
            let beat = sends(rest).next().is_some_and(|(key, message)| {
                key == *to && Parsed::of(message).is_some_and(|parsed| parsed.command == b"HEARTBEAT")
            });
            let right = beat || self.config.heartbeat_interval.is_none() || self.is_stopping();
            ensure!(right, "a HEARTBEAT comes right behind the ACK", "{to:?}: {rest:?}");
        }
        Ok(())
    }

    fn told_to_register(&mut self, to: Key) -> Checked {
        let asked_for = self.step.unknown.as_ref() == Some(&to) && !self.schedulers.contains_key(&to);
        ensure!(asked_for, "DISCONNECT only to unknown workers that talk", "{to:?} at {:?}", self.now);
        let again = self.disconnected.insert(to.clone(), self.now);
        ensure!(again.is_none(), "DISCONNECT once", "{to:?} at {again:?} and {:?}", self.now);
        Ok(())
    }

    /// What has to be answered in the same step.
    pub fn answers(&mut self, effects: &[Effect]) -> Checked {
        let answered = |to: &Key, command: &[u8], id: Option<&[u8]>| {
            sends(effects).any(|(key, message)| {
                key == *to
                    && Parsed::of(message)
                        .is_some_and(|p| p.command == command && id.is_none_or(|id| p.body.first() == Some(&id)))
            })
        };
        if let Some((by, msgid)) = &self.step.informed {
            ensure!(answered(by, b"ACK", Some(msgid)), "INFORM is acknowledged", "{by:?} at {:?}", self.now);
        }
        if let Some((by, msgid)) = &self.step.admin {
            let right = answered(by, b"REPLY", None) || answered(by, b"ACK", Some(msgid));
            ensure!(right, "an admin gets an answer", "{by:?} at {:?}", self.now);
        }
        if let Some(by) = self.step.unknown.clone() {
            let roles = self.config.sockets[usize::from(by.0.0)];
            let told = roles.frontend || self.is_stopping() || self.disconnected.contains_key(&by);
            ensure!(told, "an unknown worker is told to register", "{by:?} at {:?}", self.now);
        }
        if let Some(schedule) = &self.step.schedule {
            self.schedule_forwarded(schedule, effects)?;
        }
        let Some(index) = self.step.arrival else { return Ok(()) };
        let job = &self.jobs[index];
        match job.place {
            Place::Arriving if job.accepted || !job.asked.reply => self.place(index, Place::Waiting),
            Place::Arriving => {
                ensure!(self.is_stopping(), "a job is accepted or refused", "{job:?}");
                self.place(index, Place::Refused);
            }
            Place::Refused => {}
            _ => ensure!(job.accepted || !job.asked.reply, "an accepted job is acknowledged", "{job:?}"),
        }
        Ok(())
    }

    fn schedule_forwarded(&self, schedule: &Message, effects: &[Effect]) -> Checked {
        let sent: Vec<Key> = sends(effects).filter(|(_, message)| *message == schedule).map(|(key, _)| key).collect();
        let fresh = |key: &&Key| {
            let heard = self.schedulers.get(*key).copied().unwrap_or_default();
            let well = heard > std::time::Duration::ZERO && self.now < heard + self.config.heartbeat_timeout;
            well && self.attached.contains(*key)
        };
        let there: Vec<&Key> = self.schedulers.keys().filter(fresh).collect();
        let to_all = Parsed::of(schedule).is_some_and(|parsed| parsed.command == b"UNSCHEDULE");
        let right = if to_all { there.iter().all(|key| sent.contains(key)) } else { sent.len() == 1 };
        let right = right || there.is_empty() || self.is_stopping();
        ensure!(right && (to_all || sent.len() <= 1), "a schedule lives in one scheduler", "{sent:?} of {there:?}");
        Ok(())
    }
}

/// Whether a message is the client's REQUEST, but for a `reply-requested` the broker may have added.
fn carries(job: &Job, message: &Message) -> bool {
    let (Some(sent), Some(asked)) = (Parsed::of(message), Parsed::of(&job.request)) else { return false };
    let headers = sent.text(1);
    let plain = headers.strip_suffix("reply-requested").map_or(headers, |rest| rest.trim_end_matches(','));
    let added = plain == asked.text(1) && job.tracked;
    sent.body.len() == 3
        && sent.msgid == asked.msgid
        && sent.body[0] == asked.body[0]
        && sent.body[2] == asked.body[2]
        && (headers == asked.text(1) || added)
}
