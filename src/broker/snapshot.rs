//! [`Snapshot`]: what a broker knows, for tests and simulations.

use std::time::Instant;

use zmtp::RoutingId;

use super::core::Broker;
use super::counters::Counters;
use super::dead::DeadReason;
use super::jobs::Place;
use super::shutdown::Phase;
use super::workers::Standing;
use crate::emqp::{MsgId, QueueName, QueueWeight};

/// A copy of the broker's state, every list in an order that depends on its inputs only.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Registered workers.
    pub workers: Vec<WorkerView>,
    /// Registered schedulers.
    pub schedulers: Vec<SchedulerView>,
    /// Held jobs, each in one place.
    pub jobs: Vec<JobView>,
    /// Dead jobs, oldest first.
    pub dead: Vec<DeadView>,
    /// Totals.
    pub counters: Counters,
    /// Bytes counted against [`BrokerConfig::waiting_bytes`](super::BrokerConfig::waiting_bytes).
    pub waiting_bytes: usize,
    /// A shutdown is going on, or is over.
    pub stopping: bool,
    /// It has ended: it reacts to nothing any more.
    pub stopped: bool,
}

/// What a worker may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerState {
    /// Connected and heard from.
    Attentive,
    /// Connected, not heard from: used only if its queue has no other.
    Silent,
    /// Connected, does not read: not used until heard from.
    Full,
    /// Not connected: not used, kept until this time.
    Detached(Instant),
    /// Leaving: not used any more, may reply.
    Draining,
}

/// One worker.
#[derive(Debug, Clone)]
pub struct WorkerView {
    /// Its routing id.
    pub id: RoutingId,
    /// Its queues, highest weight first.
    pub queues: Vec<(QueueWeight, QueueName)>,
    /// What it may be used for.
    pub state: WorkerState,
    /// READYs not used yet.
    pub free_slots: u32,
    /// Jobs it has, in order of dispatch.
    pub in_flight: Vec<MsgId>,
    /// Its last sign of life.
    pub last_seen: Instant,
}

/// One scheduler.
#[derive(Debug, Clone)]
pub struct SchedulerView {
    /// Its routing id.
    pub id: RoutingId,
    /// Whether it can be sent anything.
    pub connected: bool,
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobPlace {
    /// In its queue.
    Waiting,
    /// With this worker.
    InFlight(RoutingId),
    /// Failed, tried again at this time.
    Delayed(Instant),
}

/// One held job.
#[derive(Debug, Clone)]
pub struct JobView {
    /// Its message id.
    pub msgid: MsgId,
    /// Who sent it.
    pub client: RoutingId,
    /// The queue it is counted in; the default queue if nobody serves the one it names.
    pub queue: QueueName,
    /// Its rank among all accepted jobs.
    pub arrival: u64,
    /// Where it is.
    pub place: JobPlace,
    /// How often it was sent to a worker.
    pub deliveries: u32,
    /// How many of its retries are used.
    pub retries: u32,
}

/// One dead job.
#[derive(Debug, Clone)]
pub struct DeadView {
    /// Its message id.
    pub msgid: MsgId,
    /// Its queue.
    pub queue: QueueName,
    /// Why it is dead.
    pub reason: DeadReason,
    /// How often it was sent to a worker.
    pub deliveries: u32,
}

impl Broker {
    /// A copy of all there is to see; costs as much as there are jobs.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            workers: self.workers.iter().map(|(_, worker)| self.worker_view(worker)).collect(),
            schedulers: self
                .schedulers
                .iter()
                .map(|(_, s)| SchedulerView { id: s.id.clone(), connected: s.detached.is_none() })
                .collect(),
            jobs: self.job_views(),
            dead: self
                .dead
                .iter()
                .map(|dead| DeadView {
                    msgid: dead.job.msgid.clone(),
                    queue: dead.queue.clone(),
                    reason: dead.reason,
                    deliveries: dead.job.deliveries,
                })
                .collect(),
            counters: self.counters,
            waiting_bytes: self.jobs.waiting_bytes(),
            stopping: !matches!(self.phase, Phase::Running),
            stopped: matches!(self.phase, Phase::Stopped),
        }
    }

    /// The totals, cheaply.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn worker_view(&self, worker: &super::workers::Worker) -> WorkerView {
        let named = |(weight, key): &(QueueWeight, _)| Some((*weight, self.queues.get(*key)?.name.clone()));
        let msgid = |key: &super::jobs::JobKey| Some(self.jobs.get(*key)?.msgid.clone());
        WorkerView {
            id: worker.id.clone(),
            queues: worker.queues.iter().filter_map(named).collect(),
            state: match worker.standing() {
                Standing::Attentive => WorkerState::Attentive,
                Standing::Silent => WorkerState::Silent,
                Standing::Full => WorkerState::Full,
                Standing::Detached(until) => WorkerState::Detached(until),
                Standing::Draining => WorkerState::Draining,
            },
            free_slots: worker.slots.free(),
            in_flight: worker.in_flight.iter().filter_map(msgid).collect(),
            last_seen: worker.last_seen,
        }
    }

    fn job_views(&self) -> Vec<JobView> {
        let place = |place: Place| match place {
            Place::Waiting => Some(JobPlace::Waiting),
            Place::Delayed(until) => Some(JobPlace::Delayed(until)),
            Place::InFlight(flight) => Some(JobPlace::InFlight(self.workers.get(flight.worker)?.id.clone())),
        };
        let view = |job: &super::jobs::Job| {
            Some(JobView {
                msgid: job.msgid.clone(),
                client: job.client.clone(),
                queue: self.queues.get(job.queue)?.name.clone(),
                arrival: job.arrival,
                place: place(job.place)?,
                deliveries: job.deliveries,
                retries: job.retries,
            })
        };
        self.jobs.iter().filter_map(|(_, job)| view(job)).collect()
    }
}
