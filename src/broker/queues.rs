//! Queues: their names, waiting jobs, and the workers that can take one.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::jobs::JobKey;
use super::tally::Tally;
use super::workers::WorkerKey;
use crate::dispatch::Waiting;
use crate::emqp::{QueueName, QueueWeight};

/// Counts of queues that are gone, kept.
const GONE: usize = 256;

/// Names a queue. Given to another once nothing holds the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct QueueKey(pub u32);

/// How eagerly a worker is given jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tier {
    /// Heard from lately.
    Attentive,
    /// Not heard from: only if its queue has no other.
    Silent,
}

/// A worker with a free slot, in the order of choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub tier: Tier,
    pub weight: Reverse<QueueWeight>,
    /// Number of its last dispatch.
    pub last_used: u64,
    pub worker: WorkerKey,
}

/// One queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub name: QueueName,
    pub waiting: Waiting<JobKey>,
    /// Exactly the workers of this queue that can take a job now, or could if they were not silent.
    pub candidates: BTreeSet<Candidate>,
    /// Registered workers that are not leaving.
    pub live: u32,
    /// Those of them that are connected and heard from.
    pub attentive: u32,
    /// Jobs sent to workers, ever.
    pub processed: u64,
    /// Registrations and held jobs that name this queue.
    holders: u32,
}

impl Queue {
    /// Registrations and held jobs that name it.
    #[cfg(test)]
    pub fn holders(&self) -> u32 {
        self.holders
    }

    /// The worker to give the next job to.
    pub fn choose(&self) -> Option<WorkerKey> {
        let first = self.candidates.first()?;
        (first.tier == Tier::Attentive || self.attentive == 0).then_some(first.worker)
    }
}

/// All queues that something holds: a registration, a job, or being the default.
///
/// A client that invents names adds none: looking one up does not create it.
#[derive(Debug)]
pub(super) struct Queues {
    slab: Vec<Option<Queue>>,
    free: Vec<u32>,
    by_name: HashMap<QueueName, QueueKey>,
    gone: Tally<QueueName>,
    default: QueueKey,
}

impl Queues {
    /// Only the default queue.
    pub fn new(default: &QueueName) -> Self {
        let mut queues = Self {
            slab: Vec::new(),
            free: Vec::new(),
            by_name: HashMap::new(),
            gone: Tally::new(GONE),
            default: QueueKey(0),
        };
        queues.default = queues.hold(default.as_bytes());
        queues
    }

    /// The default queue.
    pub fn default_key(&self) -> QueueKey {
        self.default
    }

    /// Makes another queue the default.
    pub fn set_default(&mut self, name: &QueueName) {
        let old = std::mem::replace(&mut self.default, QueueKey(0));
        self.default = self.hold(name.as_bytes());
        self.release(old);
    }

    /// The queue of this name, if something holds it.
    pub fn find(&self, name: &[u8]) -> Option<QueueKey> {
        self.by_name.get(name).copied()
    }

    /// The queue of this name, held once more.
    pub fn hold(&mut self, name: &[u8]) -> QueueKey {
        if let Some(key) = self.find(name) {
            self.retain(key);
            return key;
        }
        let name = QueueName::copy_from(name);
        let queue = Queue {
            waiting: Waiting::default(),
            candidates: BTreeSet::new(),
            live: 0,
            attentive: 0,
            processed: self.gone.take(&name),
            holders: 1,
            name: name.clone(),
        };
        let key = match self.free.pop() {
            Some(index) => {
                self.slab[index as usize] = Some(queue);
                QueueKey(index)
            }
            None => {
                self.slab.push(Some(queue));
                QueueKey((self.slab.len() - 1) as u32)
            }
        };
        self.by_name.insert(name, key);
        key
    }

    /// Holds a queue once more.
    pub fn retain(&mut self, key: QueueKey) {
        if let Some(queue) = self.get_mut(key) {
            queue.holders += 1;
        }
    }

    /// Holds a queue once less; without holders it is dropped.
    pub fn release(&mut self, key: QueueKey) {
        let Some(queue) = self.get_mut(key) else { return };
        queue.holders -= 1;
        if queue.holders > 0 {
            return;
        }
        if let Some(queue) = self.slab[key.0 as usize].take() {
            self.by_name.remove(&queue.name);
            self.gone.put(queue.name, queue.processed);
            self.free.push(key.0);
        }
    }

    /// One queue.
    pub fn get(&self, key: QueueKey) -> Option<&Queue> {
        self.slab.get(key.0 as usize)?.as_ref()
    }

    /// One queue, to change it.
    pub fn get_mut(&mut self, key: QueueKey) -> Option<&mut Queue> {
        self.slab.get_mut(key.0 as usize)?.as_mut()
    }

    /// All queues, by key.
    pub fn iter(&self) -> impl Iterator<Item = (QueueKey, &Queue)> {
        self.slab.iter().enumerate().filter_map(|(index, queue)| Some((QueueKey(index as u32), queue.as_ref()?)))
    }

    /// Counts of queues that are gone.
    pub fn gone(&self) -> impl Iterator<Item = &(QueueName, u64)> {
        self.gone.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_lives_as_long_as_something_holds_it() {
        let mut queues = Queues::new(&"default".into());
        assert_eq!(queues.find(b"email"), None);
        let key = queues.hold(b"email");
        queues.retain(key);
        queues.get_mut(key).unwrap().processed = 7;
        queues.release(key);
        assert_eq!(queues.find(b"email"), Some(key));
        queues.release(key);
        assert_eq!(queues.find(b"email"), None);
        assert_eq!(queues.gone().count(), 1);
        let key = queues.hold(b"email");
        assert_eq!(queues.get(key).unwrap().processed, 7, "its count comes back with it");
        assert_eq!(queues.gone().count(), 0);
        assert_eq!(queues.find(b"default"), Some(queues.default_key()));
    }

    #[test]
    fn a_silent_worker_is_chosen_only_if_there_is_no_other() {
        let mut queues = Queues::new(&"default".into());
        let queue = queues.get_mut(QueueKey(0)).unwrap();
        let silent = Candidate { tier: Tier::Silent, weight: Reverse(9), last_used: 0, worker: WorkerKey(1) };
        queue.candidates.insert(silent);
        queue.attentive = 1;
        assert_eq!(queue.choose(), None, "another one is only busy");
        queue.attentive = 0;
        assert_eq!(queue.choose(), Some(WorkerKey(1)));
        for (weight, last_used, worker) in [(10, 5, 2), (20, 9, 3), (20, 8, 4)] {
            let worker = WorkerKey(worker);
            queue.candidates.insert(Candidate { tier: Tier::Attentive, weight: Reverse(weight), last_used, worker });
        }
        assert_eq!(queue.choose(), Some(WorkerKey(4)), "highest weight, then least recently used");
    }
}
