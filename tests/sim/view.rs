//! The broker's snapshot, in the model's words.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use eventmq::broker::{BrokerConfig, JobPlace, Snapshot, SocketId, WorkerState};
use zmtp::RoutingId;

use crate::model::Key;

/// Where the broker has a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Waiting(String),
    InFlight(RoutingId),
    Delayed,
    Dead,
    /// Not by the snapshot: the job was sent to a worker in this very step.
    GoingOut,
}

/// What the broker thinks of a worker.
#[derive(Debug, Clone)]
pub struct SeenWorker {
    pub slots: i64,
    pub attached: bool,
    pub draining: bool,
}

#[derive(Debug, Default)]
pub struct View {
    pub workers: HashMap<Key, SeenWorker>,
    pub schedulers: HashSet<Key>,
    pub jobs: HashMap<Bytes, Seen>,
}

impl View {
    pub fn of(snapshot: &Snapshot, config: &BrokerConfig) -> Self {
        let backend = config.sockets.iter().position(|roles| roles.backend).unwrap_or(0);
        let backend = SocketId(backend as u8);
        let workers = snapshot.workers.iter().map(|worker| {
            let seen = SeenWorker {
                slots: i64::from(worker.free_slots),
                attached: !matches!(worker.state, WorkerState::Detached(_)),
                draining: worker.state == WorkerState::Draining,
            };
            ((backend, worker.id.clone()), seen)
        });
        let frontend = config.sockets.iter().position(|roles| roles.frontend).unwrap_or(0);
        let schedulers = snapshot.schedulers.iter().map(|scheduler| (SocketId(frontend as u8), scheduler.id.clone()));
        let mut view = Self { workers: workers.collect(), schedulers: schedulers.collect(), jobs: HashMap::new() };
        for job in &snapshot.jobs {
            let seen = match &job.place {
                JobPlace::Waiting => Seen::Waiting(String::from_utf8_lossy(job.queue.as_bytes()).into_owned()),
                JobPlace::InFlight(worker) => Seen::InFlight(worker.clone()),
                JobPlace::Delayed(_) => Seen::Delayed,
            };
            view.jobs.insert(Bytes::copy_from_slice(job.msgid.as_bytes()), seen);
        }
        for job in &snapshot.dead {
            // A job sent again while its former self is among the dead is the living one.
            view.jobs.entry(Bytes::copy_from_slice(job.msgid.as_bytes())).or_insert(Seen::Dead);
        }
        view
    }
}
