//! The JSON admins read. Keys up to `processed_messages_by_worker` are those the Python emq-cli knows.

use std::collections::BTreeMap;

use serde::Serialize;

use super::core::{Broker, Turn};
use super::counters::Counters;
use super::dead::DeadReason;
use super::jobs::{Job, Place};
use super::schedulers::Rank;
use super::workers::Standing;
use crate::emqp::{QueueName, QueueWeight};

/// Answer to STATUS.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    inflight_messages_by_queue: BTreeMap<String, u64>,
    latency_messages_by_queue: BTreeMap<String, u64>,
    max_latency_messages_by_queue: BTreeMap<String, u64>,
    waiting_messages_by_queue: BTreeMap<String, u64>,
    processed_messages_by_queue: BTreeMap<String, u64>,
    processed_messages_by_worker: BTreeMap<String, u64>,
    #[serde(flatten)]
    counters: Counters,
    version: &'static str,
    uptime: f64,
}

/// Answer to ROUTER_SHOW_WORKERS.
#[derive(Debug, Serialize)]
pub(super) struct WorkersReport {
    connected_workers: BTreeMap<String, WorkerReport>,
    connected_queues: BTreeMap<String, Vec<(QueueWeight, String)>>,
    draining_workers: Vec<String>,
}

#[derive(Debug, Serialize)]
struct WorkerReport {
    queues: Vec<(QueueWeight, String)>,
    /// Last sign of life, in seconds since the broker started.
    hb: f64,
    available_slots: u32,
    in_flight: usize,
    state: &'static str,
}

/// Answer to ROUTER_SHOW_SCHEDULERS.
#[derive(Debug, Serialize)]
pub(super) struct SchedulersReport {
    connected_schedulers: BTreeMap<String, SchedulerReport>,
}

#[derive(Debug, Serialize)]
struct SchedulerReport {
    /// Last sign of life, in seconds since the broker started.
    hb: f64,
}

/// One entry of the answer to ROUTER_SHOW_DEAD.
#[derive(Debug, Serialize)]
pub(super) struct DeadReport {
    msgid: String,
    queue: String,
    reason: DeadReason,
    deliveries: u32,
    age: f64,
    workers: Vec<String>,
}

/// A queue's name for people: as it is if it is text, else escaped.
fn readable(name: &QueueName) -> String {
    match std::str::from_utf8(name.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(_) => name.to_string(),
    }
}

/// Milliseconds, whole.
fn millis(age: f64) -> u64 {
    (age * 1000.0) as u64
}

impl Broker {
    pub(super) fn status(&self, turn: &Turn<'_>) -> Status {
        let now = turn.now.mono;
        let mut ages: BTreeMap<String, (u64, f64, f64)> = BTreeMap::new();
        for job in self.workers.iter().flat_map(|(_, worker)| &worker.in_flight).filter_map(|key| self.jobs.get(*key)) {
            let Some((queue, Place::InFlight(flight))) = self.queue_of(job).map(|queue| (queue, job.place)) else {
                continue;
            };
            let age = Self::age(now, flight.since);
            let (count, sum, max) = ages.entry(queue).or_default();
            *count += 1;
            *sum += age;
            *max = max.max(age);
        }
        let mut processed: BTreeMap<_, _> = self.queues.gone().map(|(name, n)| (readable(name), *n)).collect();
        let queues = self.queues.iter().map(|(_, queue)| queue).filter(|queue| queue.processed > 0);
        processed.extend(queues.map(|queue| (readable(&queue.name), queue.processed)));
        let mut by_worker: BTreeMap<_, _> = self.workers.gone().map(|(id, n)| (id.to_string(), *n)).collect();
        let workers = self.workers.iter().map(|(_, worker)| worker).filter(|worker| worker.processed > 0);
        by_worker.extend(workers.map(|worker| (worker.id.to_string(), worker.processed)));
        let waiting = self.queues.iter().filter(|(_, queue)| !queue.waiting.is_empty());
        Status {
            inflight_messages_by_queue: ages.iter().map(|(queue, age)| (queue.clone(), age.0)).collect(),
            latency_messages_by_queue: ages.iter().map(|(q, age)| (q.clone(), millis(age.1 / age.0 as f64))).collect(),
            max_latency_messages_by_queue: ages.iter().map(|(queue, age)| (queue.clone(), millis(age.2))).collect(),
            waiting_messages_by_queue: waiting.map(|(_, q)| (readable(&q.name), q.waiting.len() as u64)).collect(),
            processed_messages_by_queue: processed,
            processed_messages_by_worker: by_worker,
            counters: self.counters,
            version: env!("CARGO_PKG_VERSION"),
            uptime: Self::age(now, self.started),
        }
    }

    pub(super) fn workers_report(&self) -> WorkersReport {
        let mut report = WorkersReport {
            connected_workers: BTreeMap::new(),
            connected_queues: BTreeMap::new(),
            draining_workers: Vec::new(),
        };
        for (_, worker) in self.workers.iter() {
            let id = worker.id.to_string();
            let state = match worker.standing() {
                Standing::Attentive => "attentive",
                Standing::Silent => "silent",
                Standing::Full => "full",
                Standing::Detached(_) => "detached",
                Standing::Draining => {
                    report.draining_workers.push(id);
                    continue;
                }
            };
            let named = |(weight, key): &(QueueWeight, _)| Some((*weight, readable(&self.queues.get(*key)?.name)));
            let queues: Vec<_> = worker.queues.iter().filter_map(named).collect();
            for (weight, queue) in &queues {
                report.connected_queues.entry(queue.clone()).or_default().push((*weight, id.clone()));
            }
            let entry = WorkerReport {
                queues,
                hb: Self::age(worker.last_seen, self.started),
                available_slots: worker.slots.free(),
                in_flight: worker.in_flight.len(),
                state,
            };
            report.connected_workers.insert(id, entry);
        }
        for workers in report.connected_queues.values_mut() {
            workers.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        }
        report.draining_workers.sort();
        report
    }

    pub(super) fn schedulers_report(&self) -> SchedulersReport {
        let entry = |scheduler: &super::schedulers::Scheduler| {
            (scheduler.id.to_string(), SchedulerReport { hb: Self::age(scheduler.last_seen, self.started) })
        };
        // Our own is no peer: whoever asks wants to know whether one came.
        let others = self.schedulers.iter().filter(|(_, scheduler)| scheduler.rank == Rank::Regular);
        SchedulersReport { connected_schedulers: others.map(|(_, s)| entry(s)).collect() }
    }

    pub(super) fn dead_report(&self, turn: &Turn<'_>) -> Vec<DeadReport> {
        let report = |dead: &super::dead::DeadJob| DeadReport {
            msgid: dead.job.msgid.to_string(),
            queue: readable(&dead.queue),
            reason: dead.reason,
            deliveries: dead.job.deliveries,
            age: Self::age(turn.now.mono, dead.died),
            workers: dead.job.history.iter().map(ToString::to_string).collect(),
        };
        self.dead.iter().map(report).collect()
    }

    fn queue_of(&self, job: &Job) -> Option<String> {
        self.queues.get(job.queue).map(|queue| readable(&queue.name))
    }
}
