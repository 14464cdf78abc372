//! The registered workers: queues, slots, standing, jobs in flight.

use std::cmp::Reverse;
use std::time::Instant;

use hashbrown::HashMap;
use zmtp::RoutingId;

use super::jobs::JobKey;
use super::queues::{Candidate, QueueKey, Queues, Tier};
use super::slots::Slots;
use super::tally::Tally;
use crate::emqp::QueueWeight;

/// Counts of workers that are gone, kept.
const GONE: usize = 256;

/// Names a registered worker. Given to another once it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WorkerKey(pub u32);

/// What a worker may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Connected and heard from lately.
    Attentive,
    /// Connected, but no command for a while: only if nobody else serves the queue.
    Silent,
    /// Its connection takes no more messages: nothing until it is heard from.
    Full,
    /// Not connected: kept as it is until this time.
    Detached(Instant),
    /// It said KBYE: nothing new, but it may still reply.
    Draining,
}

/// One registered worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub id: RoutingId,
    /// By weight, highest first.
    pub queues: Vec<(QueueWeight, QueueKey)>,
    pub slots: Slots,
    /// Jobs it has, in order of dispatch.
    pub in_flight: Vec<JobKey>,
    pub last_seen: Instant,
    pub next_heartbeat: Instant,
    /// When its timer is armed for.
    pub wake: Option<Instant>,
    /// It connected anew since it registered: its next INFORM comes from a program that started anew.
    pub reconnected: bool,
    /// When its present connection was made, or it registered.
    pub connected: Instant,
    /// Until when READYs owed over an earlier connection may come over this one.
    pub readys_due: Option<Instant>,
    /// Jobs sent to it, ever.
    pub processed: u64,
    standing: Standing,
    last_used: u64,
    /// What the queues know it as; `None` if it is no candidate.
    listed: Option<(Tier, u64)>,
}

impl Worker {
    /// What it may be used for.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether it still counts as a worker of its queues.
    pub fn is_live(&self) -> bool {
        self.standing != Standing::Draining
    }

    /// Where it belongs among the candidates of its queues.
    fn listing(&self) -> Option<(Tier, u64)> {
        let tier = match self.standing {
            Standing::Attentive => Tier::Attentive,
            Standing::Silent => Tier::Silent,
            Standing::Full | Standing::Detached(_) | Standing::Draining => return None,
        };
        (self.slots.free() > 0).then_some((tier, self.last_used))
    }
}

/// All registered workers. Keeps the candidate sets and counts of the queues in step.
#[derive(Debug)]
pub(super) struct Workers {
    slab: Vec<Option<Worker>>,
    free: Vec<u32>,
    by_id: HashMap<RoutingId, WorkerKey>,
    gone: Tally<RoutingId>,
    dispatches: u64,
}

impl Workers {
    /// None.
    pub fn new() -> Self {
        Self { slab: Vec::new(), free: Vec::new(), by_id: HashMap::new(), gone: Tally::new(GONE), dispatches: 0 }
    }

    /// The worker of this routing id.
    pub fn find(&self, id: &RoutingId) -> Option<WorkerKey> {
        self.by_id.get(id).copied()
    }

    /// One worker.
    pub fn get(&self, key: WorkerKey) -> Option<&Worker> {
        self.slab.get(key.0 as usize)?.as_ref()
    }

    /// One worker, to change what no queue depends on.
    pub fn get_mut(&mut self, key: WorkerKey) -> Option<&mut Worker> {
        self.slab.get_mut(key.0 as usize)?.as_mut()
    }

    /// All workers, by key.
    pub fn iter(&self) -> impl Iterator<Item = (WorkerKey, &Worker)> {
        self.slab.iter().enumerate().filter_map(|(index, worker)| Some((WorkerKey(index as u32), worker.as_ref()?)))
    }

    /// Counts of workers that are gone.
    pub fn gone(&self) -> impl Iterator<Item = &(RoutingId, u64)> {
        self.gone.iter()
    }

    /// How many are registered and not leaving.
    pub fn live(&self) -> usize {
        self.iter().filter(|(_, worker)| worker.is_live()).count()
    }

    /// Adds a worker without queues; [`register`](Self::register) follows.
    pub fn add(&mut self, id: &RoutingId, now: Instant) -> WorkerKey {
        let worker = Worker {
            id: id.clone(),
            queues: Vec::new(),
            slots: Slots::new(now),
            in_flight: Vec::new(),
            last_seen: now,
            next_heartbeat: now,
            wake: None,
            reconnected: false,
            connected: now,
            readys_due: None,
            processed: self.gone.take(id),
            standing: Standing::Attentive,
            last_used: 0,
            listed: None,
        };
        let key = match self.free.pop() {
            Some(index) => {
                self.slab[index as usize] = Some(worker);
                WorkerKey(index)
            }
            None => {
                self.slab.push(Some(worker));
                WorkerKey((self.slab.len() - 1) as u32)
            }
        };
        self.by_id.insert(id.clone(), key);
        key
    }

    /// Gives a worker its queues, which it holds, and an empty account of slots. Returns the queues it had.
    pub fn register(
        &mut self,
        key: WorkerKey,
        mut held: Vec<(QueueWeight, QueueKey)>,
        now: Instant,
        queues: &mut Queues,
    ) -> Vec<(QueueWeight, QueueKey)> {
        held.sort_by_key(|(weight, _)| Reverse(*weight));
        let Some(worker) = self.get_mut(key) else { return held };
        unlist(worker, key, queues);
        count(worker, queues, Step::Down);
        let old = std::mem::replace(&mut worker.queues, held);
        worker.slots = Slots::new(now);
        worker.standing = Standing::Attentive;
        worker.reconnected = false;
        worker.readys_due = None;
        worker.last_seen = now;
        count(worker, queues, Step::Up);
        old
    }

    /// Changes what a worker may be used for.
    pub fn set_standing(&mut self, key: WorkerKey, standing: Standing, queues: &mut Queues) {
        let Some(worker) = self.get_mut(key) else { return };
        count(worker, queues, Step::Down);
        worker.standing = standing;
        count(worker, queues, Step::Up);
        relist(worker, key, queues);
    }

    /// Changes a worker's slots.
    pub fn with_slots<T>(
        &mut self,
        key: WorkerKey,
        queues: &mut Queues,
        change: impl FnOnce(&mut Slots) -> T,
    ) -> Option<T> {
        let worker = self.get_mut(key)?;
        let value = change(&mut worker.slots);
        relist(worker, key, queues);
        Some(value)
    }

    /// A job goes to this worker.
    pub fn dispatch(&mut self, key: WorkerKey, job: JobKey, queues: &mut Queues) {
        self.dispatches += 1;
        let used = self.dispatches;
        let Some(worker) = self.get_mut(key) else { return };
        worker.slots.on_dispatch();
        worker.last_used = used;
        worker.processed += 1;
        worker.in_flight.push(job);
        relist(worker, key, queues);
    }

    /// A job is no longer with this worker.
    pub fn take_job(&mut self, key: WorkerKey, job: JobKey) {
        let Some(worker) = self.get_mut(key) else { return };
        if let Some(place) = worker.in_flight.iter().position(|other| *other == job) {
            worker.in_flight.remove(place);
        }
    }

    /// Forgets a worker; its queues stay held until the caller releases them.
    pub fn remove(&mut self, key: WorkerKey, queues: &mut Queues) -> Option<Worker> {
        let mut worker = self.slab.get_mut(key.0 as usize)?.take()?;
        unlist(&mut worker, key, queues);
        count(&worker, queues, Step::Down);
        self.by_id.remove(&worker.id);
        self.gone.put(worker.id.clone(), worker.processed);
        self.free.push(key.0);
        Some(worker)
    }
}

/// Direction of a count.
#[derive(Clone, Copy)]
enum Step {
    Up,
    Down,
}

/// Adds the worker to the counts of its queues, or takes it away.
fn count(worker: &Worker, queues: &mut Queues, step: Step) {
    let live = u32::from(worker.is_live());
    let attentive = u32::from(matches!(worker.standing, Standing::Attentive | Standing::Full));
    for (_, key) in &worker.queues {
        let Some(queue) = queues.get_mut(*key) else { continue };
        match step {
            Step::Up => {
                queue.live += live;
                queue.attentive += attentive;
            }
            Step::Down => {
                queue.live -= live;
                queue.attentive -= attentive;
            }
        }
    }
}

/// Brings the candidate sets of its queues up to date.
fn relist(worker: &mut Worker, key: WorkerKey, queues: &mut Queues) {
    let listing = worker.listing();
    if listing == worker.listed {
        return;
    }
    unlist(worker, key, queues);
    if let Some((tier, last_used)) = listing {
        for (weight, queue) in &worker.queues {
            if let Some(queue) = queues.get_mut(*queue) {
                queue.candidates.insert(Candidate { tier, weight: Reverse(*weight), last_used, worker: key });
            }
        }
    }
    worker.listed = listing;
}

/// Takes it out of the candidate sets of its queues.
fn unlist(worker: &mut Worker, key: WorkerKey, queues: &mut Queues) {
    let Some((tier, last_used)) = worker.listed.take() else { return };
    for (weight, queue) in &worker.queues {
        if let Some(queue) = queues.get_mut(*queue) {
            queue.candidates.remove(&Candidate { tier, weight: Reverse(*weight), last_used, worker: key });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A worker of two queues with two free slots.
    fn setup() -> (Workers, Queues, WorkerKey, [QueueKey; 2]) {
        let now = Instant::now();
        let mut queues = Queues::new(&"default".into());
        let keys = [queues.hold(b"low"), queues.hold(b"high")];
        let mut workers = Workers::new();
        let key = workers.add(&RoutingId::new("w").unwrap(), now);
        assert!(workers.register(key, vec![(10, keys[0]), (30, keys[1])], now, &mut queues).is_empty());
        for _ in 0..2 {
            workers.with_slots(key, &mut queues, |slots| slots.on_ready(now, Duration::from_secs(5), 0, 0));
        }
        (workers, queues, key, keys)
    }

    fn chosen(queues: &Queues, keys: [QueueKey; 2]) -> [Option<WorkerKey>; 2] {
        keys.map(|key| queues.get(key).unwrap().choose())
    }

    #[test]
    fn is_a_candidate_while_it_has_a_slot() {
        let (mut workers, mut queues, key, keys) = setup();
        assert_eq!(workers.get(key).unwrap().queues, [(30, keys[1]), (10, keys[0])]);
        for left in [Some(key), None] {
            workers.dispatch(key, JobKey(0), &mut queues);
            assert_eq!(chosen(&queues, keys), [left, left]);
        }
        workers.take_job(key, JobKey(0));
        assert_eq!(workers.get(key).unwrap().in_flight.len(), 1);
    }

    #[test]
    fn only_an_attached_one_is_a_candidate() {
        let (mut workers, mut queues, key, keys) = setup();
        for (standing, candidate, live, attentive) in [
            (Standing::Silent, true, 1, 0),
            (Standing::Full, false, 1, 1),
            (Standing::Detached(Instant::now()), false, 1, 0),
            (Standing::Draining, false, 0, 0),
            (Standing::Attentive, true, 1, 1),
        ] {
            workers.set_standing(key, standing, &mut queues);
            assert_eq!(chosen(&queues, keys), [candidate.then_some(key); 2], "{standing:?}");
            let queue = queues.get(keys[0]).unwrap();
            assert_eq!((queue.live, queue.attentive), (live, attentive), "{standing:?}");
        }
        workers.remove(key, &mut queues);
        assert_eq!(chosen(&queues, keys), [None, None]);
        assert_eq!(queues.get(keys[0]).unwrap().live, 0);
    }
}
