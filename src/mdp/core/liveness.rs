//! Heartbeats both ways, and workers that are silent or too slow.
//!
//! A worker's timer is lazy: a sign of life only notes the time, and the timer looks at it when it fires. Every worker has
//! one of its own, so that a dead one is found whatever the others do.

use std::time::Instant;

use tracing::warn;

use super::workers::{Worker, WorkerKey};
use super::{Core, Lost, Timer, Turn};
use crate::mdp::wire::ToWorker;

/// When a worker's timer has to go off, and what for.
#[derive(Debug, Clone, Copy)]
struct Dues {
    beat: Instant,
    /// It counts as silent then. A busy worker may be one that neither reads nor sends while it works: only one that was
    /// seen to send heartbeats then is judged by them.
    silence: Option<Instant>,
    /// It has had its request for too long then.
    overdue: Option<Instant>,
}

impl Core {
    pub(super) fn on_heartbeat(&mut self, turn: &mut Turn<'_>, key: WorkerKey) {
        let beat = self.config.beat();
        if let Some(worker) = self.workers.get_mut(key) {
            worker.on_heartbeat(turn.now, beat);
        }
    }

    fn dues(&self, worker: &Worker) -> Dues {
        let judged = worker.hand.is_none() || worker.beats_busy;
        let since = worker.hand.as_ref().map(|hand| hand.since);
        Dues {
            beat: worker.next_beat,
            silence: judged.then(|| worker.last_seen + self.config.expiry()),
            overdue: since.zip(self.config.reply_timeout).and_then(|(since, timeout)| since.checked_add(timeout)),
        }
    }

    /// Arms a worker's timer for the next thing that may become due.
    pub(super) fn arm_worker(&mut self, now: Instant, key: WorkerKey) {
        let Some(worker) = self.workers.get(key) else { return };
        let Dues { beat, silence, overdue } = self.dues(worker);
        let due = [silence, overdue].into_iter().flatten().fold(beat, Instant::min).max(now);
        let Some(worker) = self.workers.get_mut(key) else { return };
        let old = worker.wake.replace(due);
        if old == Some(due) {
            return;
        }
        if let Some(old) = old {
            self.timers.clear(old, Timer::Worker(key));
        }
        self.timers.set(due, Timer::Worker(key));
    }

    /// A worker's timer fired.
    pub(super) fn on_worker_timer(&mut self, turn: &mut Turn<'_>, key: WorkerKey) {
        let Some(worker) = self.workers.get_mut(key) else { return };
        worker.wake = None;
        self.inspect(turn, key);
        let beat = self.config.beat();
        let Some(worker) = self.workers.get_mut(key) else { return };
        if worker.next_beat <= turn.now {
            worker.next_beat = turn.now + beat;
            turn.send(worker.id.clone(), worker.say(&ToWorker::Heartbeat));
        }
        self.arm_worker(turn.now, key);
    }

    /// Forgets a worker that is silent or overdue.
    fn inspect(&mut self, turn: &mut Turn<'_>, key: WorkerKey) {
        let Some(worker) = self.workers.get(key) else { return };
        let Dues { silence, overdue, .. } = self.dues(worker);
        if overdue.is_some_and(|due| due <= turn.now) {
            // It is there, and what it says later about this request would be taken for a stranger's.
            turn.send(worker.id.clone(), worker.say(&ToWorker::Disconnect));
            self.lose_worker(turn, key, Lost::Overdue);
        } else if silence.is_some_and(|due| due <= turn.now) {
            self.lose_worker(turn, key, Lost::Silent);
        }
    }

    /// Looks at all workers at once.
    pub(super) fn purge(&mut self, turn: &mut Turn<'_>) {
        for key in self.workers.keys() {
            self.inspect(turn, key);
        }
    }

    /// If the broker itself was stopped for long, what its peers said meanwhile is still unread: nobody is silent yet.
    pub(super) fn forgive_own_stall(&mut self, turn: &mut Turn<'_>) {
        let tolerance = self.config.beat();
        let Some(stall) = self.stall.note(turn.now, || self.timers.next(), tolerance) else { return };
        warn!(seconds = stall.as_secs(), "the broker was stopped for a while, its peers get their time again");
        for key in self.workers.keys() {
            if let Some(worker) = self.workers.get_mut(key) {
                worker.last_seen += stall;
                if let Some(hand) = &mut worker.hand {
                    hand.since += stall;
                }
            }
            self.arm_worker(turn.now, key);
        }
    }
}
