//! What `emq top` shows, from what a broker tells: no terminal, no clock.

use std::time::Instant;

use crate::cli::state::{Status, Worker, Workers, count};

/// All there is to see.
#[derive(Debug)]
pub(super) struct Model {
    pub broker: String,
    pub health: Health,
    pub summary: Summary,
    pub queues: Vec<QueueRow>,
    pub workers: Vec<WorkerRow>,
    /// First worker shown.
    pub first_worker: usize,
    pub picture: Picture,
    last: Option<(Instant, Status)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Health {
    /// No answer yet.
    Asking,
    Answering,
    /// The last question failed so; what is shown is from before.
    Silent(String),
}

/// Whether the picture follows the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Picture {
    Live,
    Held,
}

/// Of the whole broker.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Summary {
    pub version: String,
    /// Seconds.
    pub uptime: Option<f64>,
    pub waiting: u64,
    pub running: u64,
    pub free_slots: u64,
    /// Jobs sent to workers per second; none before the second look.
    pub rate: Option<f64>,
    pub failed: u64,
    pub dead: u64,
    pub refused: u64,
    pub lost: u64,
    pub retried: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueueRow {
    pub name: String,
    pub waiting: u64,
    pub running: u64,
    pub workers: usize,
    pub free_slots: u64,
    pub rate: Option<f64>,
    /// Milliseconds.
    pub mean_age: u64,
    /// Milliseconds.
    pub max_age: u64,
    pub processed: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct WorkerRow {
    pub id: String,
    pub state: String,
    pub free_slots: u64,
    pub running: u64,
    pub rate: Option<f64>,
    pub processed: u64,
    /// Seconds since it was heard.
    pub heard: Option<f64>,
    pub queues: Vec<(i64, String)>,
}

impl Model {
    pub(super) fn new(broker: String) -> Self {
        Self {
            broker,
            health: Health::Asking,
            summary: Summary::default(),
            queues: Vec::new(),
            workers: Vec::new(),
            first_worker: 0,
            picture: Picture::Live,
            last: None,
        }
    }

    /// The broker answered.
    pub(super) fn observe(&mut self, now: Instant, status: Status, workers: Workers) {
        self.health = Health::Answering;
        // A broker that restarted counts from zero: there is nothing to compare with.
        let restarted = |last: &Status| last.uptime > status.uptime;
        let last = self.last.take().filter(|(_, last)| !restarted(last));
        let rates = Rates { seconds: last.as_ref().map(|(then, _)| (now - *then).as_secs_f64()) };
        let before = last.map(|(_, status)| status).unwrap_or_default();
        if self.picture == Picture::Live {
            self.queues = queue_rows(&rates, &before, &status, &workers);
            self.workers = worker_rows(&rates, &before, &status, workers);
            self.summary = self.summarize(&status);
            self.scroll(0);
        }
        self.last = Some((now, status));
    }

    /// The broker did not answer.
    pub(super) fn lost(&mut self, why: String) {
        self.health = Health::Silent(why);
    }

    pub(super) fn scroll(&mut self, rows: isize) {
        let last = self.workers.len().saturating_sub(1);
        self.first_worker = self.first_worker.saturating_add_signed(rows).min(last);
    }

    pub(super) fn hold(&mut self) {
        self.picture = match self.picture {
            Picture::Live => Picture::Held,
            Picture::Held => Picture::Live,
        };
    }

    fn summarize(&self, status: &Status) -> Summary {
        let sum = |rate: fn(&QueueRow) -> Option<f64>| self.queues.iter().map(rate).sum::<Option<f64>>();
        Summary {
            version: status.version.clone().unwrap_or_default(),
            uptime: status.uptime,
            waiting: status.waiting.values().sum(),
            running: status.in_flight.values().sum(),
            free_slots: self.workers.iter().map(|worker| worker.free_slots).sum(),
            rate: sum(|queue| queue.rate).filter(|_| !self.queues.is_empty()),
            failed: status.failed,
            dead: status.dead,
            refused: status.refused,
            lost: status.lost,
            retried: status.retried,
        }
    }
}

/// Counts per second between two looks.
struct Rates {
    seconds: Option<f64>,
}

impl Rates {
    fn of(&self, before: u64, now: u64) -> Option<f64> {
        self.seconds.filter(|seconds| *seconds > 0.0).map(|seconds| now.saturating_sub(before) as f64 / seconds)
    }
}

fn queue_rows(rates: &Rates, before: &Status, status: &Status, workers: &Workers) -> Vec<QueueRow> {
    let served =
        workers.connected_workers.values().flat_map(|worker| worker.queues.iter().map(|(_, name)| name.as_str()));
    let mut names: Vec<_> = status.queues().into_iter().chain(served).collect();
    names.sort_unstable();
    names.dedup();
    let serves = |worker: &&Worker, name: &str| worker.queues.iter().any(|(_, queue)| queue == name);
    let row = |name: &str| {
        let serving: Vec<_> = workers.connected_workers.values().filter(|worker| serves(worker, name)).collect();
        let processed = count(&status.processed, name);
        QueueRow {
            name: name.to_owned(),
            waiting: count(&status.waiting, name),
            running: count(&status.in_flight, name),
            workers: serving.len(),
            free_slots: serving.iter().map(|worker| worker.available_slots).sum(),
            rate: rates.of(count(&before.processed, name), processed),
            mean_age: count(&status.mean_age, name),
            max_age: count(&status.max_age, name),
            processed,
        }
    };
    names.into_iter().map(row).collect()
}

fn worker_rows(rates: &Rates, before: &Status, status: &Status, workers: Workers) -> Vec<WorkerRow> {
    let connected = workers.connected_workers.into_iter().map(|(id, worker)| {
        let processed = count(&status.processed_by_worker, &id);
        WorkerRow {
            state: worker.state.unwrap_or_else(|| "connected".to_owned()),
            free_slots: worker.available_slots,
            running: worker.in_flight,
            rate: rates.of(count(&before.processed_by_worker, &id), processed),
            processed,
            heard: status.since(worker.hb),
            queues: worker.queues,
            id,
        }
    });
    let leaving = workers.draining_workers.into_iter().map(|id| WorkerRow {
        state: "leaving".to_owned(),
        free_slots: 0,
        running: 0,
        rate: None,
        processed: count(&status.processed_by_worker, &id),
        heard: None,
        queues: Vec::new(),
        id,
    });
    connected.chain(leaving).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// A broker after `seconds`, in which it sent `sent` jobs of the queue `email`.
    fn seen(seconds: f64, sent: u64) -> (Status, Workers) {
        let status = json!({
            "inflight_messages_by_queue": {"email": 2},
            "latency_messages_by_queue": {"email": 120},
            "max_latency_messages_by_queue": {"email": 15_500},
            "waiting_messages_by_queue": {"default": 1234},
            "processed_messages_by_queue": {"email": sent},
            "processed_messages_by_worker": {"a09246d8-89de-4fee-b3df-8c82ede608d1": sent},
            "failed": 5, "dead": 1, "refused": 0, "lost": 2, "retried": 3, "version": "0.1.0", "uptime": seconds,
        });
        let workers = json!({
            "connected_workers": {"a09246d8-89de-4fee-b3df-8c82ede608d1":
                {"queues": [[20, "email"], [10, "default"], [5, "reports"]], "hb": seconds - 0.4, "available_slots": 2,
                 "in_flight": 2, "state": "attentive"}},
            "draining_workers": ["c0f1edf1-e223-4dbe-82bb-d26c9c87c081"],
        });
        (serde_json::from_value(status).unwrap(), serde_json::from_value(workers).unwrap())
    }

    /// Two looks, two seconds apart, 500 jobs between them.
    pub(in crate::cli::top) fn model() -> Model {
        let mut model = Model::new("tcp://127.0.0.1:47293".to_owned());
        let now = Instant::now();
        for (seconds, sent) in [(3725.0, 1_000_000), (3727.0, 1_000_500)] {
            let (status, workers) = seen(seconds, sent);
            model.observe(now + Duration::from_secs_f64(seconds), status, workers);
        }
        model
    }

    #[test]
    fn rates_come_from_two_looks() {
        let mut model = Model::new("b".to_owned());
        let now = Instant::now();
        let (status, workers) = seen(10.0, 100);
        model.observe(now, status, workers);
        assert_eq!((model.summary.rate, model.workers[0].rate), (None, None));
        let (status, workers) = seen(12.0, 600);
        model.observe(now + Duration::from_secs(2), status, workers);
        assert_eq!((model.summary.rate, model.workers[0].rate), (Some(250.0), Some(250.0)));
        let rates: Vec<_> = model.queues.iter().map(|queue| (queue.name.as_str(), queue.rate)).collect();
        assert_eq!(rates, [("default", Some(0.0)), ("email", Some(250.0)), ("reports", Some(0.0))]);
        // It was restarted: its counters began anew.
        let (status, workers) = seen(1.0, 7);
        model.observe(now + Duration::from_secs(4), status, workers);
        assert_eq!(model.summary.rate, None);
    }

    #[test]
    fn rows_say_what_the_broker_said() {
        let model = model();
        assert_eq!((model.summary.waiting, model.summary.running, model.summary.free_slots), (1234, 2, 2));
        let email = &model.queues[1];
        assert_eq!((email.workers, email.free_slots, email.mean_age, email.max_age), (1, 2, 120, 15_500));
        let [worker, leaving] = &model.workers[..] else { panic!("two workers") };
        assert!(worker.heard.is_some_and(|heard| (heard - 0.4).abs() < 1e-6));
        assert_eq!(leaving.state, "leaving");
    }

    #[test]
    fn a_silent_broker_leaves_the_picture() {
        let mut model = model();
        let queues = model.queues.clone();
        model.lost("no answer".to_owned());
        assert_eq!((&model.health, &model.queues), (&Health::Silent("no answer".to_owned()), &queues));
    }

    #[test]
    fn a_held_picture_stays_and_scrolling_has_ends() {
        let mut model = model();
        model.hold();
        let (status, workers) = seen(4000.0, 2_000_000);
        model.observe(Instant::now() + Duration::from_secs(5000), status, workers);
        assert_eq!(model.queues[1].processed, 1_000_500);
        model.scroll(10);
        assert_eq!(model.first_worker, 1);
        model.scroll(-10);
        assert_eq!(model.first_worker, 0);
    }
}
