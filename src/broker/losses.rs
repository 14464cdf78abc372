//! Workers and processes that are lost, and what becomes of their jobs.

use tracing::{debug, info, warn};
use zmtp::RoutingId;

use super::core::{Broker, Turn};
use super::dead::DeadReason;
use super::jobs::{InFlight, JobKey, Place, Suspicion};
use super::queues::QueueKey;
use super::timers::Timer;
use super::workers::WorkerKey;
use crate::emqp::JobErrorKind;

/// What took a job from the broker's sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// The worker.
    Worker,
    /// The worker's process that ran it.
    Process,
    /// The broker itself: it ends.
    Broker,
}

/// Why a worker is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// It did not come back within its grace.
    NotBack,
    /// It said nothing for too long.
    Silent,
    /// It had said KBYE, and its connection ended.
    Left,
}

impl Broker {
    /// A worker is gone for good: its jobs follow their rules, its queues lose it.
    pub(super) fn lose_worker(&mut self, turn: &mut Turn<'_>, key: WorkerKey, why: Lost) {
        let Some(worker) = self.workers.remove(key, &mut self.queues) else { return };
        if let Some(wake) = worker.wake {
            self.timers.clear(wake, Timer::Worker(key));
        }
        let (jobs, left) = (worker.in_flight.len(), self.workers.live());
        match (why, jobs) {
            (Lost::Left, 0) => info!(worker = %worker.id, left, "worker left"),
            _ => warn!(worker = %worker.id, jobs, left, reason = ?why, "worker lost"),
        }
        let mut touched: Vec<QueueKey> = worker.queues.iter().map(|(_, queue)| *queue).collect();
        for job in worker.in_flight {
            touched.extend(self.lose_job(turn, job, &worker.id, Loss::Worker));
        }
        self.leave_queues(&worker.queues.iter().map(|(_, queue)| *queue).collect::<Vec<_>>());
        touched.push(self.queues.default_key());
        touched.sort_unstable();
        touched.dedup();
        for queue in touched {
            self.pump(turn, queue);
        }
    }

    /// Queues a worker no longer serves: their waiting jobs may have to move.
    pub(super) fn leave_queues(&mut self, queues: &[QueueKey]) {
        for queue in queues {
            self.rehome(*queue);
            self.queues.release(*queue);
        }
    }

    /// A job in flight is lost: put back, dead or reported by its own rules. Returns the queue it was put back in.
    pub(super) fn lose_job(
        &mut self,
        turn: &mut Turn<'_>,
        key: JobKey,
        worker: &RoutingId,
        loss: Loss,
    ) -> Option<QueueKey> {
        let job = self.jobs.get(key)?;
        let Place::InFlight(flight) = job.place else { return None };
        let again = job.deliveries < self.delivery_limit(job) && (job.headers.guarantee || job.has_retry());
        if again && loss != Loss::Broker {
            debug!(msgid = %job.msgid, %worker, ?loss, "job put back");
            let uses_retry = !job.headers.guarantee;
            self.leave_worker(key, flight);
            self.jobs.update(key, |job| job.retries += u32::from(uses_retry));
            self.requeue(key);
            self.counters.retried += 1;
            return self.jobs.get(key).map(|job| job.queue);
        }
        let name = self.queues.get(job.queue).map(|queue| queue.name.clone());
        let (job, _) = self.end(key)?;
        let kind = match loss {
            Loss::Broker => JobErrorKind::ShuttingDown,
            Loss::Worker | Loss::Process if job.is_kept() => JobErrorKind::DeliveryLimit,
            Loss::Worker => JobErrorKind::WorkerLost,
            Loss::Process => JobErrorKind::ProcessDied,
        };
        if job.headers.reply_requested {
            self.send_error(turn, &job.client, job.msgid.clone(), kind);
        }
        let reason = match loss {
            Loss::Worker => DeadReason::WorkerLost,
            Loss::Process | Loss::Broker => DeadReason::ProcessDied,
        };
        if job.is_kept() && loss != Loss::Broker {
            self.bury(turn, job, name, reason);
        } else {
            self.counters.lost += 1;
            let queue = name.map(|name| name.to_string()).unwrap_or_default();
            warn!(msgid = %job.msgid, queue, %worker, ?loss, "job lost");
        }
        None
    }

    /// A worker may have lost a job: all jobs it has now are suspects, given up when any would have ended by itself, and
    /// not before what is on its way had time to arrive.
    pub(super) fn suspect_jobs(&mut self, turn: &mut Turn<'_>, worker: WorkerKey, suspicion: Suspicion) {
        let Some(jobs) = self.workers.get(worker).map(|worker| worker.in_flight.clone()) else { return };
        let limit = self.config.global_timeout;
        let soonest = turn.now.mono + self.config.heartbeat_timeout;
        for key in jobs {
            let armed = self.jobs.update(key, |job| {
                let Place::InFlight(flight) = &mut job.place else { return None };
                flight.suspect = flight.suspect.max(Some(suspicion));
                if flight.deadline.is_some() {
                    return None;
                }
                flight.deadline = flight.since.checked_add(limit).map(|deadline| deadline.max(soonest));
                flight.deadline
            });
            if let Some(deadline) = armed.flatten() {
                self.timers.set(deadline, Timer::Job(key));
            }
        }
        self.resolve_suspects(turn, worker);
    }

    /// A job may have left the suspects: if only as many are left as processes certainly died, those are lost.
    pub(super) fn resolve_suspects(&mut self, turn: &mut Turn<'_>, key: WorkerKey) {
        let Some(worker) = self.workers.get(key).filter(|worker| worker.slots.in_doubt()) else { return };
        let id = worker.id.clone();
        let deaths = worker.slots.deaths() as usize;
        let suspicion = |key: &JobKey| match self.jobs.get(*key)?.place {
            Place::InFlight(flight) => flight.suspect,
            _ => None,
        };
        let by_death = |key: &JobKey| suspicion(key) == Some(Suspicion::Death);
        let suspects: Vec<_> = worker.in_flight.iter().copied().filter(by_death).collect();
        let doubts = worker.in_flight.iter().any(|key| suspicion(key) == Some(Suspicion::Doubt));
        if deaths < suspects.len() || (deaths == 0 && doubts) {
            return;
        }
        self.workers.with_slots(key, &mut self.queues, |slots| {
            if doubts { slots.on_deaths_known() } else { slots.on_no_suspects() }
        });
        if !suspects.is_empty() {
            warn!(worker = %id, jobs = suspects.len(), "a worker process died with its job");
            // All are put back before one is given out: the oldest goes first, whichever was lost first.
            let queues: Vec<_> =
                suspects.into_iter().filter_map(|job| self.lose_job(turn, job, &id, Loss::Process)).collect();
            for queue in queues {
                self.pump(turn, queue);
            }
        }
    }

    /// A suspect had as long as any job may take.
    pub(super) fn give_up_suspect(&mut self, turn: &mut Turn<'_>, key: JobKey, flight: InFlight) {
        let worker = self.workers.get(flight.worker).map(|worker| (worker.id.clone(), worker.connected));
        let Some((id, connected)) = worker else { return };
        let interrupted = flight.since < connected;
        let suspicion = flight.suspect.unwrap_or(Suspicion::Doubt);
        let queue = self.lose_job(turn, key, &id, Loss::Process);
        self.workers
            .with_slots(flight.worker, &mut self.queues, |slots| slots.on_suspect_given_up(suspicion, interrupted));
        self.resolve_suspects(turn, flight.worker);
        // The best worker for the job first: that need not be the one that lost it.
        if let Some(queue) = queue {
            self.pump(turn, queue);
        }
        self.offer(turn, flight.worker);
    }
}
