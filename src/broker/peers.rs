//! Workers and schedulers come, say that they are ready, and go.

use tracing::{debug, info, warn};
use zmtp::RoutingId;

use super::core::{Broker, Turn};
use super::jobs::{JobKey, Place, Suspicion};
use super::losses::{Loss, Lost};
use super::queues::QueueKey;
use super::slots::{ReadyMeaning, Slots};
use super::workers::{Standing, WorkerKey};
use super::{DownReason, JobTracking, SocketId};
use crate::emqp::{Command, MsgId, QueueList, QueueWeight};

impl Broker {
    /// A worker registers, or registers anew.
    pub(super) fn on_inform_worker(&mut self, turn: &mut Turn<'_>, from: &RoutingId, msgid: &MsgId, list: QueueList) {
        let now = turn.now.mono;
        if let Some(scheduler) = self.schedulers.find(from) {
            self.remove_scheduler(scheduler);
        }
        self.noted.forget(from);
        let (key, known) = match self.workers.find(from) {
            Some(key) => (key, true),
            None => (self.workers.add(from, now), false),
        };
        let orphans = self.jobs_of_former_program(key);
        let held = self.hold_queues(list);
        let old = self.workers.register(key, held, now, &mut self.queues);
        self.mark_outlived(key);
        let given_up: Vec<QueueKey> = old.into_iter().map(|(_, queue)| queue).collect();
        let mut touched = given_up.clone();
        for job in orphans {
            touched.extend(self.lose_job(turn, job, from, Loss::Worker));
        }
        if known {
            debug!(worker = %from, "worker registered again");
        } else {
            let queues = self.queue_names(key);
            info!(worker = %from, queues, workers = self.workers.live(), "worker joined");
        }
        self.send(turn, self.sockets.backend, from, &Command::Ack { acknowledged: msgid.clone() });
        // A Python job manager starts its processes when the first HEARTBEAT arrives.
        self.start_heartbeats(turn, key);
        self.leave_queues(&given_up);
        touched.push(self.queues.default_key());
        for queue in touched {
            self.pump(turn, queue);
        }
    }

    /// Jobs of a worker whose program started anew under the same identity, as an INFORM behind a reconnect shows:
    /// libzmq reconnects without one.
    fn jobs_of_former_program(&mut self, key: WorkerKey) -> Vec<JobKey> {
        let worker = self.workers.get(key).filter(|worker| worker.reconnected);
        worker.map(|worker| worker.in_flight.clone()).unwrap_or_default()
    }

    /// The slots a worker's jobs took are forgotten with its former registration.
    fn mark_outlived(&mut self, key: WorkerKey) {
        let jobs = self.workers.get(key).map(|worker| worker.in_flight.clone()).unwrap_or_default();
        for job in jobs {
            self.jobs.update(job, |job| {
                if let Place::InFlight(flight) = &mut job.place {
                    flight.outlived_inform = true;
                }
            });
        }
    }

    /// The queues of an INFORM, held, each once.
    fn hold_queues(&mut self, list: QueueList) -> Vec<(QueueWeight, QueueKey)> {
        let weight = self.config.default_weight;
        let pairs = match list {
            QueueList::Configured => self.config.queues.clone(),
            QueueList::Weighted(pairs) => pairs,
            QueueList::Named(names) => names.into_iter().map(|name| (weight, name)).collect(),
        };
        let mut held: Vec<(QueueWeight, QueueKey)> = Vec::with_capacity(pairs.len());
        for (weight, name) in pairs {
            let key = self.queues.hold(name.as_bytes());
            match held.iter_mut().find(|(_, other)| *other == key) {
                Some((known, _)) => {
                    *known = weight.max(*known);
                    self.queues.release(key);
                }
                None => held.push((weight, key)),
            }
        }
        held
    }

    fn queue_names(&self, key: WorkerKey) -> String {
        let Some(worker) = self.workers.get(key) else { return String::new() };
        let names = worker
            .queues
            .iter()
            .filter_map(|(weight, queue)| self.queues.get(*queue).map(|queue| format!("{}:{weight}", queue.name)));
        names.collect::<Vec<_>>().join(" ")
    }

    /// A worker has a free slot.
    pub(super) fn on_ready(&mut self, turn: &mut Turn<'_>, from: &RoutingId) {
        let Some(key) = self.workers.find(from) else { return self.on_stranger(turn, from) };
        let Some(worker) = self.workers.get(key).filter(|worker| worker.is_live()) else {
            return self.on_seen(turn, key);
        };
        let in_flight = worker.in_flight.len();
        let untracked = match self.config.tracking {
            JobTracking::All => None,
            JobTracking::Asked => self.oldest_untracked(key),
        };
        let (now, settling) = (turn.now.mono, self.config.heartbeat_timeout);
        let expected = usize::from(untracked.is_some());
        let meaning =
            self.workers.with_slots(key, &mut self.queues, |slots| slots.on_ready(now, settling, in_flight, expected));
        match meaning {
            Some(ReadyMeaning::Slot) | None => {}
            Some(ReadyMeaning::UntrackedJobEnded) => {
                if let Some((job, _)) = untracked.and_then(|job| self.end(job)) {
                    self.counters.completed += 1;
                    if matches!(job.place, Place::InFlight(flight) if flight.suspect.is_some()) {
                        // It may have been lost before, and the READY that of another.
                        self.suspect_jobs(turn, key, Suspicion::Doubt);
                    }
                }
            }
            Some(ReadyMeaning::BusyProcessDied) => {
                warn!(worker = %from, "a process of this worker died and was replaced");
                self.suspect_jobs(turn, key, Suspicion::Death);
            }
            Some(ReadyMeaning::SlotOrProcessDied) => self.suspect_jobs(turn, key, Suspicion::Doubt),
            Some(ReadyMeaning::SomeProcessDied) => {
                debug!(worker = %from, "a process of this worker was replaced");
                self.suspect_jobs(turn, key, Suspicion::Doubt);
            }
        }
        // Only now: a worker heard from again is offered jobs, and the READY is not about those.
        self.on_seen(turn, key);
        self.offer(turn, key);
    }

    fn oldest_untracked(&self, key: WorkerKey) -> Option<JobKey> {
        let untracked = |job: &&JobKey| self.jobs.get(**job).is_some_and(|job| !job.tracked);
        self.workers.get(key)?.in_flight.iter().find(untracked).copied()
    }

    /// A peer says that it leaves.
    pub(super) fn on_kbye(&mut self, turn: &mut Turn<'_>, from: &RoutingId) {
        if let Some(key) = self.schedulers.find(from) {
            self.remove_scheduler(key);
            info!(scheduler = %from, "scheduler left");
        }
        let Some(key) = self.workers.find(from) else { return };
        let Some(worker) = self.workers.get(key).filter(|worker| worker.is_live()) else { return };
        let served = worker.queues.iter().map(|(_, queue)| *queue);
        let queues: Vec<_> = served.chain([self.queues.default_key()]).collect();
        info!(worker = %from, jobs = worker.in_flight.len(), "worker is leaving, it gets no more jobs");
        self.workers.set_standing(key, Standing::Draining, &mut self.queues);
        // Only now: a worker that was silent is offered jobs when it is heard from again.
        self.on_seen(turn, key);
        self.arm_worker(turn.now.mono, key);
        // All are moved before one is given out: the oldest goes first, whichever queue it was in.
        for queue in &queues {
            self.rehome(*queue);
        }
        for queue in queues {
            self.pump(turn, queue);
        }
    }

    /// A connection was made.
    pub(super) fn on_up(&mut self, turn: &mut Turn<'_>, socket: SocketId, peer: &RoutingId) {
        if let Some(key) = self.workers.find(peer).filter(|_| socket == self.sockets.backend) {
            // What was under way, a REQUEST or a REPLY and its READY, is lost.
            let cut = self.workers.with_slots(key, &mut self.queues, Slots::on_reconnected);
            let patience = self.config.patience();
            if let Some(worker) = self.workers.get_mut(key) {
                worker.reconnected = true;
                worker.connected = turn.now.mono;
                worker.readys_due = cut.filter(|cut| *cut > 0).map(|_| turn.now.mono + patience);
            }
            self.suspect_jobs(turn, key, Suspicion::Doubt);
            self.on_seen(turn, key);
            self.arm_worker(turn.now.mono, key);
        } else if socket == self.sockets.frontend {
            self.note_alive(turn, peer);
        }
    }

    /// A connection ended. That alone proves nothing: libzmq reconnects by itself.
    pub(super) fn on_down(&mut self, turn: &mut Turn<'_>, socket: SocketId, peer: &RoutingId, reason: DownReason) {
        if let Some(key) = self.workers.find(peer).filter(|_| socket == self.sockets.backend) {
            self.on_worker_down(turn, key, reason);
        } else if let Some(key) = self.schedulers.find(peer).filter(|_| socket == self.sockets.frontend) {
            self.on_scheduler_down(turn.now.mono, key, reason);
        }
    }

    fn on_worker_down(&mut self, turn: &mut Turn<'_>, key: WorkerKey, reason: DownReason) {
        let Some(worker) = self.workers.get(key) else { return };
        let grace = self.config.heartbeat_timeout;
        let until = match reason {
            DownReason::Closed => turn.now.mono + grace,
            DownReason::Silent => worker.last_seen + grace,
        };
        if worker.standing() == Standing::Draining {
            return self.lose_worker(turn, key, Lost::Left);
        }
        if until <= turn.now.mono {
            return self.lose_worker(turn, key, Lost::Silent);
        }
        self.detach_worker(turn, key, until);
    }

    /// Keeps a worker as it is, without new jobs, until it is back or the time is over.
    pub(super) fn detach_worker(&mut self, turn: &mut Turn<'_>, key: WorkerKey, until: std::time::Instant) {
        let Some(worker) = self.workers.get(key) else { return };
        info!(worker = %worker.id, jobs = worker.in_flight.len(), "worker disconnected, kept for its return");
        let queues: Vec<_> = worker.queues.iter().map(|(_, queue)| *queue).collect();
        self.workers.set_standing(key, Standing::Detached(until), &mut self.queues);
        self.arm_worker(turn.now.mono, key);
        // A silent worker may be the best that is left.
        for queue in queues {
            self.pump(turn, queue);
        }
    }
}
