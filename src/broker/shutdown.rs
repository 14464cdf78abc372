//! The polite end: no new work, time for what runs, a report of what is left.

use std::time::Instant;

use tracing::{info, warn};
use zmtp::RoutingId;

use super::Effect;
use super::core::{Broker, Turn};
use super::jobs::{JobKey, Place};
use super::losses::Loss;
use super::timers::Timer;
use super::workers::Standing;
use crate::emqp::{Command, JobErrorKind, MsgId};

/// How far the broker's life has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It takes work.
    Running,
    /// It waits for running jobs, until then at most.
    Stopping(Instant),
    /// It has ended.
    Stopped,
}

impl Broker {
    /// An admin ends the broker.
    pub(super) fn on_admin_disconnect(&mut self, turn: &mut Turn<'_>, from: &RoutingId, msgid: MsgId) {
        info!(admin = %from, "shutdown asked for");
        self.send(turn, self.sockets.admin, from, &Command::Ack { acknowledged: msgid });
        self.begin_shutdown(turn);
    }

    /// Says goodbye, closes the door, and gives running jobs their time.
    pub(super) fn begin_shutdown(&mut self, turn: &mut Turn<'_>) {
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        let until = turn.now.mono + self.config.shutdown_grace;
        self.phase = Phase::Stopping(until);
        self.timers.set(until, Timer::Shutdown);
        let running = self.jobs.in_flight();
        info!(running, waiting = self.jobs.len() - running, "shutting down");
        let schedulers: Vec<_> = self.schedulers.connected().map(|scheduler| scheduler.id.clone()).collect();
        for id in schedulers {
            self.send(turn, self.sockets.frontend, &id, &Command::Kbye);
        }
        turn.out.push(Effect::Unbind(self.sockets.frontend));
        let reachable = self.workers.iter().filter(|(_, worker)| !matches!(worker.standing(), Standing::Detached(_)));
        let workers: Vec<_> = reachable.map(|(_, worker)| worker.id.clone()).collect();
        for id in workers {
            self.send(turn, self.sockets.backend, &id, &Command::Kbye);
        }
    }

    /// Ends once nothing runs any more.
    pub(super) fn check_shutdown(&mut self, turn: &mut Turn<'_>) {
        if matches!(self.phase, Phase::Stopping(_)) && self.jobs.in_flight() == 0 {
            self.finish_shutdown(turn);
        }
    }

    /// Reports what is left, and stops.
    pub(super) fn finish_shutdown(&mut self, turn: &mut Turn<'_>) {
        if let Phase::Stopping(until) = self.phase {
            self.timers.clear(until, Timer::Shutdown);
        }
        for (job, worker) in self.running_jobs() {
            self.lose_job(turn, job, &worker, Loss::Broker);
        }
        let left: Vec<_> = self.jobs.iter().map(|(key, _)| key).collect();
        for (name, jobs) in self.queues.iter().map(|(_, queue)| (&queue.name, queue.waiting.len())) {
            if jobs > 0 {
                warn!(queue = %name, jobs, "jobs were still waiting");
            }
        }
        self.report_waiting(turn, &left);
        info!(waiting = left.len(), completed = self.counters.completed, lost = self.counters.lost, "stopped");
        turn.out.push(Effect::Stop);
        self.phase = Phase::Stopped;
    }

    fn running_jobs(&self) -> Vec<(JobKey, RoutingId)> {
        let workers = self.workers.iter();
        workers.flat_map(|(_, worker)| worker.in_flight.iter().map(|job| (*job, worker.id.clone()))).collect()
    }

    /// Clients that wait for a result of a job nobody will run any more are told.
    fn report_waiting(&mut self, turn: &mut Turn<'_>, jobs: &[JobKey]) {
        for key in jobs {
            let job = self.jobs.get(*key).filter(|job| job.headers.reply_requested);
            let Some(job) = job.filter(|job| !matches!(job.place, Place::InFlight(_))) else { continue };
            let (client, msgid) = (job.client.clone(), job.msgid.clone());
            self.send_error(turn, &client, msgid, JobErrorKind::ShuttingDown);
        }
    }
}
