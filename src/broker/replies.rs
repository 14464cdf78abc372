//! REPLYs of workers: the end of a job, or a retry.

use std::time::{Duration, Instant};

use tracing::{debug, info, warn};
use zmtp::{Message, RoutingId};

use super::core::{Broker, Turn};
use super::dead::{DeadJob, DeadReason};
use super::jobs::{InFlight, Job, JobKey, Place};
use super::timers::Timer;
use super::workers::WorkerKey;
use crate::emqp::{JobErrorKind, MsgId, Outcome, QueueName};

impl Broker {
    /// A worker, or someone who was one, says how a job ended. Jobs are found by their id alone: after a reconnect a
    /// worker replies under another identity.
    pub(super) fn on_result(
        &mut self,
        turn: &mut Turn<'_>,
        from: &RoutingId,
        message: &Message,
        result: &[u8],
        request: &MsgId,
    ) {
        let sender = self.workers.find(from);
        self.take_result(turn, from, sender, message, result, request);
        // Only now: a worker heard from again is offered jobs, and this one might still be waiting.
        let there = |key: &WorkerKey| self.workers.get(*key).is_some_and(|worker| worker.id == *from);
        if let Some(worker) = sender.filter(there) {
            self.on_seen(turn, worker);
        }
    }

    fn take_result(
        &mut self,
        turn: &mut Turn<'_>,
        from: &RoutingId,
        sender: Option<WorkerKey>,
        message: &Message,
        result: &[u8],
        request: &MsgId,
    ) {
        let key = self.jobs.find(request);
        if let Some(worker) = sender {
            let in_flight = |job: &Job| matches!(job.place, Place::InFlight(flight) if flight.worker == worker);
            let its_own = key.and_then(|key| self.jobs.get(key)).is_some_and(in_flight);
            self.workers.with_slots(worker, &mut self.queues, |slots| {
                if its_own { slots.on_reply() } else { slots.on_strange_reply() }
            });
        } else {
            self.note_stranger(from);
        }
        // A job that was never sent to anyone cannot have a result.
        let held = key.and_then(|key| Some((key, self.jobs.get(key)?)));
        let Some((key, job)) = held.filter(|(_, job)| job.deliveries > 0) else {
            return self.on_late_reply(from, request);
        };
        let retries = job.headers.retry_count.is_some_and(|n| n > 0);
        let outcome = if job.is_kept() { Outcome::of(result) } else { Outcome::at_a_glance(result) };
        match (outcome, job.place) {
            // It is about to be tried again anyway: this is the failure of an earlier delivery.
            (Outcome::Failed, Place::Waiting | Place::Delayed(_)) => self.on_late_reply(from, request),
            (outcome, place) => {
                let flight = if let Place::InFlight(flight) = place { Some(flight) } else { None };
                match outcome {
                    Outcome::Failed if retries && self.may_retry(key) => {
                        if let Some(flight) = flight {
                            self.leave_worker(key, flight);
                        }
                        self.retry_later(turn, key);
                    }
                    outcome => self.conclude(turn, key, outcome, message),
                }
                if let Some(flight) = flight {
                    self.on_job_left(turn, flight, sender == Some(flight.worker));
                }
            }
        }
    }

    /// The slot account of the worker that had a job which ended.
    fn on_job_left(&mut self, turn: &mut Turn<'_>, flight: InFlight, by_reply: bool) {
        if !by_reply {
            self.workers.with_slots(flight.worker, &mut self.queues, |slots| slots.on_abandoned());
        }
        self.resolve_suspects(turn, flight.worker);
    }

    /// One result per job: this one came too late.
    fn on_late_reply(&mut self, from: &RoutingId, request: &MsgId) {
        self.counters.late_replies += 1;
        if let Some(worker) = self.workers.find(from) {
            self.workers.with_slots(worker, &mut self.queues, |slots| slots.on_late_reply());
        }
        debug!(worker = %from, msgid = %request, "late reply dropped");
    }

    /// A job ended with a worker's result, which goes to the client if it asked.
    fn conclude(&mut self, turn: &mut Turn<'_>, key: JobKey, outcome: Outcome, message: &Message) {
        let Some((job, queue)) = self.end(key) else { return };
        if job.headers.reply_requested {
            turn.send(self.sockets.frontend, job.client.clone(), message.clone());
        }
        match outcome {
            Outcome::Completed => self.counters.completed += 1,
            Outcome::Failed if job.is_kept() => {
                self.bury(turn, job, queue, DeadReason::Failed);
            }
            Outcome::Failed => self.counters.failed += 1,
        }
    }

    /// Takes a job out of wherever it is; its queue is released.
    pub(super) fn end(&mut self, key: JobKey) -> Option<(Job, Option<QueueName>)> {
        match self.jobs.get(key)?.place {
            Place::InFlight(flight) => self.leave_worker(key, flight),
            Place::Delayed(until) => self.timers.clear(until, Timer::Job(key)),
            Place::Waiting => {
                let job = self.jobs.get(key)?;
                let arrival = job.arrival;
                if let Some(queue) = self.queues.get_mut(job.queue) {
                    queue.waiting.remove(arrival);
                }
            }
        }
        let job = self.jobs.remove(key)?;
        // Only jobs that are kept need the name afterwards; cloning it for every job would show.
        let name = job.is_kept().then(|| self.queues.get(job.queue).map(|queue| queue.name.clone())).flatten();
        self.queues.release(job.queue);
        Some((job, name))
    }

    /// Whether a failed job is tried again.
    pub(super) fn may_retry(&self, key: JobKey) -> bool {
        self.jobs.get(key).is_some_and(|job| job.has_retry() && job.deliveries < self.delivery_limit(job))
    }

    /// How often a job may be delivered: a job that kills its worker must not walk through the fleet.
    pub(super) fn delivery_limit(&self, job: &Job) -> u32 {
        self.config.delivery_limit.max(job.headers.retry_count.map_or(0, |n| n.saturating_add(1)))
    }

    /// Tries a failed job again after a pause. It must not be anywhere else any more.
    pub(super) fn retry_later(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        let Some(retries) = self.jobs.get(key).map(|job| job.retries) else { return };
        let until = turn.now.mono + self.backoff(retries);
        self.counters.retried += 1;
        let delayed = self.jobs.update(key, |job| {
            job.retries += 1;
            job.place = Place::Delayed(until);
            job.msgid.clone()
        });
        if let Some(msgid) = delayed {
            debug!(%msgid, retry = retries + 1, "job failed, tried again later");
            self.timers.set(until, Timer::Job(key));
        }
    }

    /// The pause before retry number `retries + 1`, up to a quarter shorter so that retries do not come in step.
    fn backoff(&mut self, retries: u32) -> Duration {
        let factor = 1u32.checked_shl(retries).unwrap_or(u32::MAX);
        let pause = self.config.retry_backoff.saturating_mul(factor).min(self.config.retry_backoff_max);
        let quarter = u64::try_from(pause.as_micros() / 4).unwrap_or(u64::MAX);
        let jitter = if quarter == 0 { 0 } else { self.ids.next_u64() % quarter };
        pause.saturating_sub(Duration::from_micros(jitter))
    }

    /// A backoff or a job's own time is over.
    pub(super) fn on_job_timer(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        let Some(job) = self.jobs.get(key) else { return };
        match job.place {
            Place::Waiting => {}
            Place::Delayed(_) => {
                self.requeue(key);
                if let Some(queue) = self.jobs.get(key).map(|job| job.queue) {
                    self.pump(turn, queue);
                }
            }
            // Of a suspect nobody knows whether it hung or its process died: it was not heard of in time, so it is lost.
            Place::InFlight(flight) if flight.suspect.is_some() => self.give_up_suspect(turn, key, flight),
            Place::InFlight(flight) => self.time_out(turn, key, flight),
        }
    }

    /// A worker did not keep a job's timeout.
    fn time_out(&mut self, turn: &mut Turn<'_>, key: JobKey, flight: InFlight) {
        if self.may_retry(key) {
            self.leave_worker(key, flight);
            self.retry_later(turn, key);
        } else if let Some((job, queue)) = self.end(key) {
            let worker = self.workers.get(flight.worker).map(|worker| worker.id.to_string()).unwrap_or_default();
            warn!(msgid = %job.msgid, worker, "job did not reply within its timeout and grace, given up");
            if job.headers.reply_requested {
                self.send_error(turn, &job.client, job.msgid.clone(), JobErrorKind::Timeout);
            }
            if job.is_kept() {
                self.bury(turn, job, queue, DeadReason::TimedOut);
            } else {
                self.counters.failed += 1;
            }
        }
        self.on_job_left(turn, flight, false);
    }

    /// Keeps a job that was given up.
    pub(super) fn bury(&mut self, turn: &mut Turn<'_>, job: Job, queue: Option<QueueName>, reason: DeadReason) {
        self.counters.dead += 1;
        let queue = queue.unwrap_or_else(|| self.config.default_queue.clone());
        warn!(msgid = %job.msgid, %queue, ?reason, deliveries = job.deliveries, "job is dead");
        let dead = DeadJob { job, queue, reason, died: turn.now.mono };
        self.dead.bury(dead, self.config.dead_limit, self.config.waiting_bytes);
    }

    /// Runs dead jobs again, this one or all; returns how many.
    pub(super) fn revive(&mut self, turn: &mut Turn<'_>, msgid: Option<&MsgId>) -> usize {
        let mut revived = 0;
        for dead in self.dead.exhume(msgid) {
            if self.jobs.find(&dead.job.msgid).is_some() {
                // The client sent it again meanwhile; the dead one stays where it was.
                self.dead.bury(dead, self.config.dead_limit, self.config.waiting_bytes);
                continue;
            }
            let queue = self.route(dead.queue.as_bytes());
            let arrival = self.jobs.next_arrival();
            let (deliveries, retries, place) = (0, 0, Place::Waiting);
            let key = self.jobs.insert(Job { queue, arrival, deliveries, retries, place, ..dead.job });
            if let Some(queue) = self.queues.get_mut(queue) {
                queue.waiting.insert(arrival, key);
            }
            self.pump(turn, queue);
            revived += 1;
        }
        if revived > 0 {
            info!(jobs = revived, "dead jobs run again");
        }
        revived
    }

    /// Seconds since `then`, for people.
    pub(super) fn age(now: Instant, then: Instant) -> f64 {
        let age = now.saturating_duration_since(then).as_secs_f64();
        (age * 1000.0).round() / 1000.0
    }
}
