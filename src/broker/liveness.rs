//! Signs of life, heartbeats, and peers that are not known.
//!
//! A worker's timer is lazy: a sign of life only notes the time, and the timer looks at it when it fires.

use std::time::{Duration, Instant};

use tracing::{debug, info, warn};
use zmtp::RoutingId;

use super::core::{Broker, Turn};
use super::jobs::Place;
use super::losses::Lost;
use super::schedulers::{Rank, SchedulerKey};
use super::shutdown::Phase;
use super::timers::Timer;
use super::workers::{Standing, Worker, WorkerKey};
use super::{BrokerConfig, DownReason, SocketId, Why};
use crate::clock::Now;
use crate::emqp::{Command, MsgId};

impl BrokerConfig {
    /// How often heartbeats are sent; never so often that nothing else happens.
    fn beat(&self) -> Option<Duration> {
        self.heartbeat_interval.map(|interval| interval.max(Duration::from_millis(1)))
    }

    /// After this silence a peer is lost even if its connection seems alive.
    pub(super) fn patience(&self) -> Duration {
        self.heartbeat_timeout.saturating_mul(self.heartbeat_liveness.max(1))
    }
}

impl Broker {
    /// A worker showed that it lives.
    pub(super) fn on_seen(&mut self, turn: &mut Turn<'_>, key: WorkerKey) {
        let Some(worker) = self.workers.get_mut(key) else { return };
        worker.last_seen = turn.now.mono;
        match worker.standing() {
            Standing::Attentive | Standing::Draining => return,
            Standing::Detached(_) => info!(worker = %worker.id, "worker is back"),
            Standing::Silent => info!(worker = %worker.id, "worker is heard from again"),
            Standing::Full => debug!(worker = %worker.id, "worker reads again"),
        }
        self.workers.set_standing(key, Standing::Attentive, &mut self.queues);
        self.arm_worker(turn.now.mono, key);
        self.offer(turn, key);
    }

    /// A peer on the frontend showed that it lives; only schedulers are kept track of.
    pub(super) fn note_alive(&mut self, turn: &mut Turn<'_>, from: &RoutingId) {
        let now = turn.now.mono;
        let found = self.schedulers.find(from);
        let Some(scheduler) = found.and_then(|key| self.schedulers.get_mut(key)) else { return };
        scheduler.last_seen = now;
        if scheduler.detached.take().is_some() {
            info!(scheduler = %from, "scheduler is back");
            let rank = scheduler.rank;
            self.retract_from(turn, from, rank);
        }
    }

    /// A HEARTBEAT, of whoever.
    pub(super) fn on_heartbeat(&mut self, turn: &mut Turn<'_>, socket: SocketId, from: &RoutingId) {
        if let Some(key) = self.workers.find(from).filter(|_| socket == self.sockets.backend) {
            self.on_seen(turn, key);
        } else if self.schedulers.find(from).is_some() {
            self.note_alive(turn, from);
        } else if socket != self.sockets.frontend {
            self.on_stranger(turn, from);
        } else if socket != self.sockets.backend && matches!(self.phase, Phase::Running) {
            self.adopt_scheduler(turn, from);
        } else {
            // Where workers and schedulers share a socket it may be either, and a DISCONNECT would end a scheduler.
            self.note_stranger(from);
        }
    }

    /// A HEARTBEAT from the frontend: only schedulers send any there, so this one knows an earlier run of the broker. If it
    /// is busy, the replies to its jobs keep it from noticing that this run does not know it, and a DISCONNECT would end it.
    fn adopt_scheduler(&mut self, turn: &mut Turn<'_>, from: &RoutingId) {
        self.noted.forget(from);
        info!(scheduler = %from, "scheduler of an earlier run is back");
        let key = self.schedulers.add(from, Rank::Regular, turn.now.mono);
        self.note_alive(turn, from);
        self.beat_scheduler(turn, key);
        self.arm_scheduler(turn.now.mono, key);
        self.retract_from(turn, from, Rank::Regular);
    }

    /// Someone the broker does not know acts as a worker: a DISCONNECT makes it register anew. Said once.
    pub(super) fn on_stranger(&mut self, turn: &mut Turn<'_>, from: &RoutingId) {
        self.note_stranger(from);
        let noted = self.noted.entry(from);
        if !std::mem::replace(&mut noted.disconnected, true) {
            self.send(turn, self.sockets.backend, from, &Command::Disconnect);
        }
    }

    /// Counts a message of a peer that is not registered, and logs the first.
    pub(super) fn note_stranger(&mut self, from: &RoutingId) {
        self.counters.unknown_senders += 1;
        let noted = self.noted.entry(from);
        if !std::mem::replace(&mut noted.unknown, true) {
            warn!(peer = %from, "message of a peer that is not registered");
        }
    }

    /// Sends a new worker its first HEARTBEAT and arms its timer.
    pub(super) fn start_heartbeats(&mut self, turn: &mut Turn<'_>, key: WorkerKey) {
        if self.config.beat().is_some() {
            self.beat_worker(turn, key);
        }
        self.arm_worker(turn.now.mono, key);
    }

    fn beat_worker(&mut self, turn: &mut Turn<'_>, key: WorkerKey) {
        let Some(beat) = self.config.beat() else { return };
        let Some(worker) = self.workers.get_mut(key) else { return };
        worker.next_heartbeat = turn.now.mono + beat;
        let id = worker.id.clone();
        self.send_heartbeat(turn, self.sockets.backend, &id);
    }

    fn send_heartbeat(&mut self, turn: &mut Turn<'_>, socket: SocketId, to: &RoutingId) {
        let text = unix_time(turn.now);
        self.send(turn, socket, to, &Command::Heartbeat { timestamp: Some(text.as_bytes()) });
    }

    /// Arms a worker's timer for the next thing that may become due.
    pub(super) fn arm_worker(&mut self, now: Instant, key: WorkerKey) {
        let Some(worker) = self.workers.get(key) else { return };
        let due = self.worker_due(worker).map(|due| due.max(now));
        let Some(worker) = self.workers.get_mut(key) else { return };
        let old = std::mem::replace(&mut worker.wake, due);
        if old == due {
            return;
        }
        if let Some(old) = old {
            self.timers.clear(old, Timer::Worker(key));
        }
        if let Some(due) = due {
            self.timers.set(due, Timer::Worker(key));
        }
    }

    /// When a worker's state may have to change, or a heartbeat is due.
    fn worker_due(&self, worker: &Worker) -> Option<Instant> {
        if let Standing::Detached(until) = worker.standing() {
            return Some(until);
        }
        let readys = worker.readys_due.filter(|_| worker.standing() == Standing::Attentive);
        let beat = self.config.beat().map(|_| worker.next_heartbeat.min(self.silence_due(worker)));
        readys.into_iter().chain(beat).min()
    }

    /// When a connected worker's silence has consequences.
    fn silence_due(&self, worker: &Worker) -> Instant {
        let patience = match worker.standing() {
            Standing::Attentive => self.config.heartbeat_timeout,
            // A Python job manager that drains says nothing until its last job has ended, for as long as any job may
            // take; that it is gone shows in its connection.
            Standing::Draining => self.config.patience().max(self.config.global_timeout),
            Standing::Silent | Standing::Full | Standing::Detached(_) => self.config.patience(),
        };
        worker.last_seen + patience
    }

    /// A worker's timer fired.
    pub(super) fn on_worker_timer(&mut self, turn: &mut Turn<'_>, key: WorkerKey) {
        let now = turn.now.mono;
        let Some(worker) = self.workers.get_mut(key) else { return };
        worker.wake = None;
        while let Some(worker) = self.workers.get(key) {
            let silence = self.config.beat().is_some() && self.silence_due(worker) <= now;
            match worker.standing() {
                Standing::Detached(until) if until <= now => return self.lose_worker(turn, key, Lost::NotBack),
                Standing::Detached(_) => break,
                Standing::Attentive if silence => self.silence_worker(turn, key),
                _ if silence => return self.lose_worker(turn, key, Lost::Silent),
                _ => break,
            }
        }
        let beat =
            |worker: &&Worker| !matches!(worker.standing(), Standing::Detached(_)) && worker.next_heartbeat <= now;
        if self.workers.get(key).filter(beat).is_some() {
            self.beat_worker(turn, key);
        }
        self.use_slots_without_ready(turn, key);
        self.arm_worker(now, key);
    }

    /// READYs that did not come over a worker's new connection were lost with the one before.
    fn use_slots_without_ready(&mut self, turn: &mut Turn<'_>, key: WorkerKey) {
        let now = turn.now.mono;
        let Some(worker) = self.workers.get_mut(key).filter(|worker| worker.standing() == Standing::Attentive) else {
            return;
        };
        if worker.readys_due.take_if(|due| *due <= now).is_none() {
            return;
        }
        let in_flight = worker.in_flight.len();
        let slots = self.workers.with_slots(key, &mut self.queues, |slots| slots.on_cut_over(in_flight)).unwrap_or(0);
        if slots > 0 {
            if let Some(worker) = self.workers.get(key) {
                info!(worker = %worker.id, slots, "READYs were lost with this worker's connection, its slots are used again");
            }
            self.offer(turn, key);
        }
    }

    /// Nothing was heard from a worker for a while, though it is connected.
    fn silence_worker(&mut self, turn: &mut Turn<'_>, key: WorkerKey) {
        let Some(worker) = self.workers.get(key) else { return };
        info!(worker = %worker.id, jobs = worker.in_flight.len(), "worker is silent, others get its jobs");
        let queues: Vec<_> = worker.queues.iter().map(|(_, queue)| *queue).collect();
        self.workers.set_standing(key, Standing::Silent, &mut self.queues);
        // If it was the last that was heard from, silent ones are better than none.
        for queue in queues {
            self.pump(turn, queue);
        }
    }

    /// A message for a worker could not be queued.
    pub(super) fn on_unreachable(&mut self, turn: &mut Turn<'_>, key: WorkerKey, why: Why) {
        let Some(worker) = self.workers.get(key) else { return };
        match (why, worker.standing()) {
            (Why::Gone, Standing::Draining) => self.lose_worker(turn, key, Lost::Left),
            (Why::Gone, Standing::Detached(_)) | (Why::Full, Standing::Draining | Standing::Detached(_)) => {}
            (Why::Gone, _) => self.detach_worker(turn, key, turn.now.mono + self.config.heartbeat_timeout),
            (Why::Full, Standing::Full) => {}
            (Why::Full, _) => {
                info!(worker = %worker.id, "worker does not read, it gets no jobs until it is heard from");
                self.workers.set_standing(key, Standing::Full, &mut self.queues);
                self.arm_worker(turn.now.mono, key);
            }
        }
    }

    /// If the broker itself was stopped for long, what its peers said meanwhile is still unread: nobody is silent yet.
    pub(super) fn forgive_own_stall(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.mono;
        let tolerance = self.config.heartbeat_timeout;
        let Some(stall) = self.stall.note(now, || self.timers.next(), tolerance) else { return };
        warn!(seconds = stall.as_secs(), "the broker was stopped for a while, its peers get their time again");
        let keys: Vec<_> = self.workers.iter().map(|(key, _)| key).collect();
        for key in keys {
            let Some(worker) = self.workers.get_mut(key) else { continue };
            worker.last_seen += stall;
            worker.readys_due = worker.readys_due.map(|due| due + stall);
            if let Standing::Detached(until) = worker.standing() {
                self.workers.set_standing(key, Standing::Detached(until + stall), &mut self.queues);
            }
            self.arm_worker(now, key);
        }
        self.postpone_deadlines(stall);
        let keys: Vec<_> = self.schedulers.iter().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(scheduler) = self.schedulers.get_mut(key) {
                scheduler.last_seen += stall;
                scheduler.detached = scheduler.detached.map(|until| until + stall);
            }
            self.arm_scheduler(now, key);
        }
    }

    /// Gives running jobs more time.
    fn postpone_deadlines(&mut self, by: Duration) {
        let jobs: Vec<_> = self.workers.iter().flat_map(|(_, worker)| worker.in_flight.iter().copied()).collect();
        for key in jobs {
            let moved = self.jobs.update(key, |job| {
                let Place::InFlight(flight) = &mut job.place else { return None };
                let old = flight.deadline?;
                flight.deadline = Some(old + by);
                Some((old, old + by))
            });
            if let Some((old, new)) = moved.flatten() {
                self.timers.clear(old, Timer::Job(key));
                self.timers.set(new, Timer::Job(key));
            }
        }
    }

    /// A scheduler registers, or registers anew.
    pub(super) fn on_inform_scheduler(&mut self, turn: &mut Turn<'_>, from: &RoutingId, msgid: &MsgId, rank: Rank) {
        if let Some(worker) = self.workers.find(from) {
            self.lose_worker(turn, worker, Lost::Left);
        }
        self.noted.forget(from);
        let key = match self.schedulers.find(from) {
            Some(key) => key,
            None => {
                info!(scheduler = %from, ?rank, "scheduler joined");
                self.schedulers.add(from, rank, turn.now.mono)
            }
        };
        self.note_alive(turn, from);
        self.send(turn, self.sockets.frontend, from, &Command::Ack { acknowledged: msgid.clone() });
        self.beat_scheduler(turn, key);
        self.arm_scheduler(turn.now.mono, key);
        self.retract_from(turn, from, rank);
    }

    fn beat_scheduler(&mut self, turn: &mut Turn<'_>, key: SchedulerKey) {
        let Some(beat) = self.config.beat() else { return };
        let Some(scheduler) = self.schedulers.get_mut(key) else { return };
        scheduler.next_heartbeat = turn.now.mono + beat;
        let id = scheduler.id.clone();
        self.send_heartbeat(turn, self.sockets.frontend, &id);
    }

    fn arm_scheduler(&mut self, now: Instant, key: SchedulerKey) {
        let (beat, patience) = (self.config.beat(), self.config.patience());
        let Some(scheduler) = self.schedulers.get_mut(key) else { return };
        let connected = beat.map(|_| scheduler.next_heartbeat.min(scheduler.last_seen + patience));
        let due = scheduler.detached.or(connected).map(|due| due.max(now));
        let old = std::mem::replace(&mut scheduler.wake, due);
        if let Some(old) = old {
            self.timers.clear(old, Timer::Scheduler(key));
        }
        if let Some(due) = due {
            self.timers.set(due, Timer::Scheduler(key));
        }
    }

    /// A scheduler's timer fired.
    pub(super) fn on_scheduler_timer(&mut self, turn: &mut Turn<'_>, key: SchedulerKey) {
        let now = turn.now.mono;
        let (beat, patience) = (self.config.beat(), self.config.patience());
        let Some(scheduler) = self.schedulers.get_mut(key) else { return };
        scheduler.wake = None;
        let lost = match scheduler.detached {
            Some(until) => until <= now,
            None => beat.is_some() && scheduler.last_seen + patience <= now,
        };
        if lost {
            warn!(scheduler = %scheduler.id, "scheduler lost");
            self.remove_scheduler(key);
            return;
        }
        if scheduler.detached.is_none() && scheduler.next_heartbeat <= now {
            self.beat_scheduler(turn, key);
        }
        self.arm_scheduler(now, key);
    }

    /// A scheduler's connection ended.
    pub(super) fn on_scheduler_down(&mut self, now: Instant, key: SchedulerKey, reason: DownReason) {
        let grace = self.config.heartbeat_timeout;
        let Some(scheduler) = self.schedulers.get_mut(key) else { return };
        info!(scheduler = %scheduler.id, "scheduler disconnected");
        scheduler.detached = Some(match reason {
            DownReason::Closed => now + grace,
            DownReason::Silent => scheduler.last_seen + grace,
        });
        self.arm_scheduler(now, key);
    }

    /// A message for a scheduler could not be queued: it gets none until it is heard from.
    pub(super) fn on_scheduler_unreachable(&mut self, turn: &mut Turn<'_>, id: &RoutingId, why: Why) {
        debug!(scheduler = %id, ?why, "scheduler does not take messages");
        let now = turn.now.mono;
        let grace = self.config.heartbeat_timeout;
        let Some(key) = self.schedulers.find(id) else { return };
        if let Some(scheduler) = self.schedulers.get_mut(key) {
            scheduler.detached.get_or_insert(now + grace);
        }
        self.arm_scheduler(now, key);
    }

    /// Forgets a scheduler.
    pub(super) fn remove_scheduler(&mut self, key: SchedulerKey) {
        if let Some(wake) = self.schedulers.remove(key).and_then(|scheduler| scheduler.wake) {
            self.timers.clear(wake, Timer::Scheduler(key));
        }
    }
}

/// Seconds since 1970 as decimal text, as Python's HEARTBEATs carry them.
fn unix_time(now: Now) -> String {
    let since = now.wall.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:06}", since.as_secs(), since.subsec_micros())
}
