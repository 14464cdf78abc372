//! What a broker tells of itself, read. Keys that Python's router lacks are zero.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Answer to STATUS.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    #[serde(rename = "inflight_messages_by_queue")]
    pub in_flight: BTreeMap<String, u64>,
    /// Mean age of what is in flight, in milliseconds.
    #[serde(rename = "latency_messages_by_queue")]
    pub mean_age: BTreeMap<String, u64>,
    #[serde(rename = "max_latency_messages_by_queue")]
    pub max_age: BTreeMap<String, u64>,
    #[serde(rename = "waiting_messages_by_queue")]
    pub waiting: BTreeMap<String, u64>,
    #[serde(rename = "processed_messages_by_queue")]
    pub processed: BTreeMap<String, u64>,
    #[serde(rename = "processed_messages_by_worker")]
    pub processed_by_worker: BTreeMap<String, u64>,
    pub accepted: u64,
    pub completed: u64,
    pub failed: u64,
    pub lost: u64,
    pub retried: u64,
    pub dead: u64,
    pub refused: u64,
    pub malformed: u64,
    pub version: Option<String>,
    /// Seconds since the broker started.
    pub uptime: Option<f64>,
}

/// Answer to ROUTER_SHOW_WORKERS.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Workers {
    pub connected_workers: BTreeMap<String, Worker>,
    pub draining_workers: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Worker {
    pub queues: Vec<(i64, String)>,
    /// Its last sign of life, on the clock of [`Status::uptime`].
    pub hb: f64,
    pub available_slots: u64,
    pub in_flight: u64,
    pub state: Option<String>,
}

/// Answer to ROUTER_SHOW_SCHEDULERS.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Schedulers {
    pub connected_schedulers: BTreeMap<String, Scheduler>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Scheduler {
    pub hb: f64,
}

/// One entry of the answer to ROUTER_SHOW_DEAD.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Dead {
    pub msgid: String,
    pub queue: String,
    pub reason: String,
    pub deliveries: u64,
    /// Seconds since it was given up.
    pub age: f64,
    pub workers: Vec<String>,
}

impl Status {
    /// All queues there is anything to say of.
    pub fn queues(&self) -> Vec<&str> {
        let maps = [&self.in_flight, &self.waiting, &self.processed];
        let mut names: Vec<_> = maps.into_iter().flat_map(|map| map.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// How long ago `hb` was, if this broker tells the time.
    pub fn since(&self, hb: f64) -> Option<f64> {
        self.uptime.map(|uptime| (uptime - hb).max(0.0))
    }
}

/// The number of a queue or worker.
pub(super) fn count(map: &BTreeMap<String, u64>, key: &str) -> u64 {
    map.get(key).copied().unwrap_or_default()
}
