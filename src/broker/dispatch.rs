//! Jobs to workers.

use zmtp::{Message, RoutingId};

use tracing::{debug, info};

use super::core::{Broker, Turn};
use super::jobs::{InFlight, JobKey, Place};
use super::queues::QueueKey;
use super::shutdown::Phase;
use super::timers::Timer;
use super::workers::{Standing, WorkerKey};
use super::{SocketId, UnknownQueue, Why};
use crate::emqp::{CommandName, legible_msgid};

impl Broker {
    /// Gives waiting jobs of a queue to workers while there are both.
    pub(super) fn pump(&mut self, turn: &mut Turn<'_>, queue: QueueKey) {
        while let Some(worker) = self.best_worker(queue)
            && self.offer_one(turn, worker)
        {}
    }

    /// The worker to serve first so that this queue's jobs get on: its own best one, unless that one prefers a job of
    /// another queue, which may have a better worker in turn. Weights never fall from one to the next, and among equal
    /// ones the jobs get older, so this comes to an end.
    fn best_worker(&self, mut queue: QueueKey) -> Option<WorkerKey> {
        loop {
            let worker = self.queues.get(queue).filter(|queue| !queue.waiting.is_empty())?.choose()?;
            match self.best_queue(worker)? {
                preferred if preferred == queue => return Some(worker),
                preferred => queue = preferred,
            }
        }
    }

    /// Gives a worker jobs while it has free slots.
    pub(super) fn offer(&mut self, turn: &mut Turn<'_>, worker: WorkerKey) {
        while self.offer_one(turn, worker) {}
    }

    /// Gives a worker the oldest waiting job of its highest-weight queue that has one; tells whether there was any.
    fn offer_one(&mut self, turn: &mut Turn<'_>, key: WorkerKey) -> bool {
        if !matches!(self.phase, Phase::Running) {
            return false;
        }
        let Some(queue) = self.best_queue(key) else { return false };
        let Some(job) = self.queues.get_mut(queue).and_then(|queue| queue.waiting.pop()) else { return false };
        self.hand_over(turn, key, job);
        true
    }

    /// The queue a worker takes its next job from; among equal weights the one whose oldest job is oldest.
    fn best_queue(&self, key: WorkerKey) -> Option<QueueKey> {
        let worker = self.workers.get(key)?;
        let silent = match worker.standing() {
            Standing::Attentive => false,
            Standing::Silent => true,
            Standing::Full | Standing::Detached(_) | Standing::Draining => return None,
        };
        if worker.slots.free() == 0 {
            return None;
        }
        let mut best = None;
        for (weight, key) in &worker.queues {
            if best.is_some_and(|(found, _, _)| found > *weight) {
                break;
            }
            let Some(queue) = self.queues.get(*key) else { continue };
            let Some(oldest) = queue.waiting.oldest() else { continue };
            let better = best.is_none_or(|(_, other, _)| oldest < other);
            if better && !(silent && queue.attentive > 0) {
                best = Some((*weight, oldest, *key));
            }
        }
        best.map(|(_, _, key)| key)
    }

    /// Sends a job, taken out of its queue, to a worker that has a free slot.
    pub(super) fn hand_over(&mut self, turn: &mut Turn<'_>, worker: WorkerKey, key: JobKey) {
        let Some(id) = self.workers.get(worker).map(|worker| worker.id.clone()) else { return };
        let (since, grace) = (turn.now.mono, self.config.timeout_grace);
        let sent = self.jobs.update(key, |job| {
            let timeout = job.headers.timeout.map(std::time::Duration::from_secs);
            let deadline = timeout.and_then(|timeout| since.checked_add(timeout)?.checked_add(grace));
            job.note_delivery(&id);
            job.place = Place::InFlight(InFlight { worker, since, deadline, suspect: None, outlived_inform: false });
            let message = job.message.take();
            // What is never sent again need not be kept, and what is must not keep what it lay in.
            if job.is_kept() {
                job.message = message.as_ref().map(Message::compact);
            }
            (message, deadline, job.queue)
        });
        let Some((Some(message), deadline, queue)) = sent else { return };
        if let Some(deadline) = deadline {
            self.timers.set(deadline, Timer::Job(key));
        }
        self.workers.dispatch(worker, key, &mut self.queues);
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.processed += 1;
        }
        self.counters.dispatched += 1;
        turn.send(self.sockets.backend, id, message);
    }

    /// Puts a job back in its queue, by its arrival. It must not be anywhere else any more.
    pub(super) fn requeue(&mut self, key: JobKey) {
        let queue = self.jobs.get(key).map(|job| job.queue).and_then(|queue| Some((queue, self.queues.get(queue)?)));
        let Some((mut target, queue)) = queue else { return };
        let default = self.queues.default_key();
        if queue.live == 0 && self.config.unknown_queue == UnknownQueue::Default && target != default {
            self.queues.retain(default);
            self.queues.release(target);
            target = default;
        }
        let arrival = self.jobs.update(key, |job| {
            job.place = Place::Waiting;
            job.queue = target;
            job.arrival
        });
        if let (Some(arrival), Some(queue)) = (arrival, self.queues.get_mut(target)) {
            queue.waiting.insert(arrival, key);
        }
    }

    /// Moves the jobs of a queue that no live worker serves any more to the default queue, if that is the rule.
    pub(super) fn rehome(&mut self, from: QueueKey) {
        let default = self.queues.default_key();
        if from == default || self.config.unknown_queue != UnknownQueue::Default {
            return;
        }
        let Some(queue) = self.queues.get_mut(from).filter(|queue| queue.live == 0 && !queue.waiting.is_empty()) else {
            return;
        };
        let moved: Vec<_> = queue.waiting.take().collect();
        info!(queue = %queue.name, jobs = moved.len(), "no worker serves this queue any more, its jobs go to the default queue");
        for (arrival, key) in moved {
            self.jobs.update(key, |job| job.queue = default);
            self.queues.retain(default);
            self.queues.release(from);
            if let Some(queue) = self.queues.get_mut(default) {
                queue.waiting.insert(arrival, key);
            }
        }
    }

    /// A message did not reach a peer's connection.
    pub(super) fn on_undelivered(
        &mut self,
        turn: &mut Turn<'_>,
        socket: SocketId,
        to: &RoutingId,
        message: &Message,
        why: Why,
    ) {
        let worker = self.workers.find(to).filter(|_| socket == self.sockets.backend);
        if let Some(worker) = worker {
            let queue = self.take_back(worker, message);
            self.on_unreachable(turn, worker, why);
            if let Some(queue) = queue {
                self.pump(turn, queue);
            }
        } else if socket == self.sockets.frontend && self.schedulers.find(to).is_some() {
            self.on_scheduler_unreachable(turn, to, why);
            self.on_schedule_undelivered(turn, message);
        } else {
            debug!(peer = %to, ?why, "message for a peer that is gone dropped");
        }
    }

    /// A job that never left goes back where it was; returns its queue.
    fn take_back(&mut self, worker: WorkerKey, message: &Message) -> Option<QueueKey> {
        let key = self.jobs.find(&legible_msgid(message, CommandName::Request)?)?;
        let Place::InFlight(flight) = self.jobs.get(key)?.place else { return None };
        if flight.worker != worker {
            return None;
        }
        self.leave_worker(key, flight);
        if !flight.outlived_inform {
            self.workers.with_slots(worker, &mut self.queues, |slots| slots.on_undelivered());
        }
        self.jobs.update(key, |job| {
            job.undo_delivery();
            // The payload of a job that is sent once only was given away with it.
            job.message.get_or_insert_with(|| message.compact());
        });
        self.requeue(key);
        self.counters.dispatched = self.counters.dispatched.saturating_sub(1);
        self.jobs.get(key).map(|job| job.queue)
    }

    /// The job is no longer with its worker, and its timer is off.
    pub(super) fn leave_worker(&mut self, key: JobKey, flight: InFlight) {
        self.workers.take_job(flight.worker, key);
        if let Some(deadline) = flight.deadline {
            self.timers.clear(deadline, Timer::Job(key));
        }
    }
}
