//! The jobs a broker holds, by key and by message id.

use std::hash::BuildHasher;
use std::time::Instant;

use hashbrown::{DefaultHashBuilder, HashTable};
use zmtp::{Message, RoutingId};

use super::queues::QueueKey;
use super::workers::WorkerKey;
use crate::emqp::{JobHeaders, MsgId};

/// Bytes a waiting job costs beside its message, for the memory limit: measured with 300,000 of them.
const OVERHEAD: usize = 384;
/// Most worker ids remembered of one job.
const HISTORY: usize = 16;

/// Names a held job. Given to another once the job has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct JobKey(pub u32);

/// A job from its acceptance to its end.
#[derive(Debug)]
pub(super) struct Job {
    pub msgid: MsgId,
    pub client: RoutingId,
    /// Where it waits, or waited; the job holds the queue.
    pub queue: QueueKey,
    /// Counts up with each accepted job.
    pub arrival: u64,
    pub headers: JobHeaders,
    /// How often it was sent to a worker.
    pub deliveries: u32,
    /// How many of its own retries are used up.
    pub retries: u32,
    /// What to send; given away with the dispatch of a job that is never sent twice.
    pub message: Option<Message>,
    /// Whether its worker will REPLY.
    pub tracked: bool,
    pub place: Place,
    /// Workers it was with, the latest last, of jobs that may be sent twice.
    pub history: Vec<RoutingId>,
}

/// The one place a held job is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In its queue.
    Waiting,
    /// With a worker.
    InFlight(InFlight),
    /// Failed, and tried again at this time.
    Delayed(Instant),
}

/// What there is to know of a job that is with a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InFlight {
    pub worker: WorkerKey,
    pub since: Instant,
    /// When the broker gives it up, and the job timer is armed for.
    pub deadline: Option<Instant>,
    /// Whether it may be lost.
    pub suspect: Option<Suspicion>,
    /// It was sent before the worker's last INFORM: the slot it took is not among those the worker has now.
    pub outlived_inform: bool,
}

/// Why a job in flight may be lost; see [`slots`](super::slots).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Suspicion {
    /// Perhaps its process died, or its REQUEST or REPLY was under way when the connection ended.
    Doubt,
    /// A process certainly died, with this job or another one under this suspicion.
    Death,
}

impl Job {
    /// Whether it may be sent to a worker more than once, so its payload is kept.
    pub fn is_kept(&self) -> bool {
        self.headers.guarantee || self.headers.retry_count.is_some_and(|n| n > 0)
    }

    /// Whether its own retries allow another try.
    pub fn has_retry(&self) -> bool {
        self.headers.retry_count.is_some_and(|n| self.retries < n)
    }

    /// Notes that it goes to this worker.
    pub fn note_delivery(&mut self, worker: &RoutingId) {
        self.deliveries += 1;
        if self.is_kept() {
            if self.history.len() == HISTORY {
                self.history.remove(0);
            }
            self.history.push(worker.clone());
        }
    }

    /// Takes a delivery back that did not happen.
    pub fn undo_delivery(&mut self) {
        self.deliveries = self.deliveries.saturating_sub(1);
        self.history.pop();
    }

    /// What it adds to the sums.
    fn load(&self) -> Load {
        match self.place {
            Place::InFlight(_) => Load { waiting: 0, in_flight: 1 },
            Place::Waiting | Place::Delayed(_) => {
                Load { waiting: OVERHEAD + self.message.as_ref().map_or(0, Message::wire_len), in_flight: 0 }
            }
        }
    }
}

/// A job's share of the sums kept in [`Jobs`].
struct Load {
    /// Bytes.
    waiting: usize,
    /// Jobs.
    in_flight: usize,
}

/// A held job and the hash of its message id.
#[derive(Debug)]
struct Entry {
    hash: u64,
    job: Job,
}

/// All held jobs. Message ids are unique among them.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    slab: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_msgid: HashTable<JobKey>,
    hasher: DefaultHashBuilder,
    arrivals: u64,
    waiting_bytes: usize,
    in_flight: usize,
}

impl Jobs {
    /// The next arrival number.
    pub fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// The job of this message id.
    pub fn find(&self, msgid: &MsgId) -> Option<JobKey> {
        let hash = self.hasher.hash_one(msgid);
        self.by_msgid.find(hash, |key| self.get(*key).is_some_and(|job| job.msgid == *msgid)).copied()
    }

    /// Takes a job in. Its message id must not be held.
    pub fn insert(&mut self, job: Job) -> JobKey {
        let hash = self.hasher.hash_one(&job.msgid);
        let load = job.load();
        self.waiting_bytes += load.waiting;
        self.in_flight += load.in_flight;
        let entry = Some(Entry { hash, job });
        let key = match self.free.pop() {
            Some(index) => {
                self.slab[index as usize] = entry;
                JobKey(index)
            }
            None => {
                self.slab.push(entry);
                JobKey((self.slab.len() - 1) as u32)
            }
        };
        let slab = &self.slab;
        self.by_msgid.insert_unique(hash, key, |key| slab[key.0 as usize].as_ref().map_or(0, |entry| entry.hash));
        key
    }

    /// Takes a job out: it has ended.
    pub fn remove(&mut self, key: JobKey) -> Option<Job> {
        let Entry { hash, job } = self.slab.get_mut(key.0 as usize)?.take()?;
        if let Ok(entry) = self.by_msgid.find_entry(hash, |other| *other == key) {
            entry.remove();
        }
        let load = job.load();
        self.waiting_bytes -= load.waiting;
        self.in_flight -= load.in_flight;
        self.free.push(key.0);
        self.give_back();
        Some(job)
    }

    /// Moves a job to another place and changes it otherwise; the sums follow.
    pub fn update<T>(&mut self, key: JobKey, change: impl FnOnce(&mut Job) -> T) -> Option<T> {
        let Entry { job, .. } = self.slab.get_mut(key.0 as usize)?.as_mut()?;
        let before = job.load();
        let value = change(job);
        let after = job.load();
        self.waiting_bytes = self.waiting_bytes - before.waiting + after.waiting;
        self.in_flight = self.in_flight - before.in_flight + after.in_flight;
        Some(value)
    }

    /// One job.
    pub fn get(&self, key: JobKey) -> Option<&Job> {
        self.slab.get(key.0 as usize)?.as_ref().map(|entry| &entry.job)
    }

    /// All jobs, by key.
    pub fn iter(&self) -> impl Iterator<Item = (JobKey, &Job)> {
        self.slab.iter().enumerate().filter_map(|(index, entry)| Some((JobKey(index as u32), &entry.as_ref()?.job)))
    }

    /// Bytes of the jobs that wait or are delayed.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// How many are with workers.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_msgid.len()
    }

    /// What a job that would have to wait adds to [`waiting_bytes`](Self::waiting_bytes).
    pub fn weight_of(message: &Message) -> usize {
        OVERHEAD + message.wire_len()
    }

    /// After a backlog has drained its memory is released.
    fn give_back(&mut self) {
        if self.by_msgid.is_empty() && self.slab.capacity() > 4096 {
            *self = Self { hasher: self.hasher.clone(), arrivals: self.arrivals, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, message: &str) -> Job {
        Job {
            msgid: MsgId::new(id).unwrap(),
            client: RoutingId::new("c").unwrap(),
            queue: QueueKey(0),
            arrival: 1,
            headers: JobHeaders::default(),
            deliveries: 0,
            retries: 0,
            message: Some(Message::single(message)),
            tracked: true,
            place: Place::Waiting,
            history: Vec::new(),
        }
    }

    #[test]
    fn a_job_is_found_by_its_id_until_it_ends() {
        let mut jobs = Jobs::default();
        let keys: Vec<_> = (0..100).map(|n| jobs.insert(job(&n.to_string(), "x"))).collect();
        let id = |n: i32| MsgId::new(n.to_string()).unwrap();
        assert_eq!(jobs.find(&id(42)), Some(keys[42]));
        assert_eq!(jobs.remove(keys[42]).unwrap().msgid, id(42));
        assert_eq!(jobs.find(&id(42)), None);
        assert!(jobs.remove(keys[42]).is_none());
        assert_eq!(jobs.insert(job("new", "x")), keys[42], "keys are used again");
        assert_eq!((jobs.len(), jobs.iter().count()), (100, 100));
    }

    #[test]
    fn sums_follow_each_move() {
        let mut jobs = Jobs::default();
        let key = jobs.insert(job("1", "payload"));
        let waiting = jobs.waiting_bytes();
        assert!(waiting > OVERHEAD);
        let place = InFlight {
            worker: WorkerKey(0),
            since: Instant::now(),
            deadline: None,
            suspect: None,
            outlived_inform: false,
        };
        jobs.update(key, |job| job.place = Place::InFlight(place));
        assert_eq!((jobs.waiting_bytes(), jobs.in_flight()), (0, 1));
        jobs.update(key, |job| job.place = Place::Delayed(Instant::now()));
        assert_eq!((jobs.waiting_bytes(), jobs.in_flight()), (waiting, 0));
        jobs.remove(key);
        assert_eq!((jobs.waiting_bytes(), jobs.in_flight()), (0, 0));
    }
}
