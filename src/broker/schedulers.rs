//! The registered schedulers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use zmtp::RoutingId;

use crate::emqp::STANDBY_SCHEDULER;

/// Names a registered scheduler. Given to another once it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SchedulerKey(pub u32);

/// One registered scheduler.
#[derive(Debug)]
pub(super) struct Scheduler {
    pub id: RoutingId,
    pub last_seen: Instant,
    pub next_heartbeat: Instant,
    /// When its timer is armed for.
    pub wake: Option<Instant>,
    /// Not connected, and kept until this time.
    pub detached: Option<Instant>,
    pub rank: Rank,
}

/// Which schedulers are asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Takes what nobody else is there for: the broker's own.
    Standby,
    /// Any other.
    Regular,
}

impl Rank {
    /// What the queues frame of a scheduler's INFORM says; Python's is empty.
    pub fn of(queues: &[u8]) -> Self {
        if queues == STANDBY_SCHEDULER.as_bytes() { Self::Standby } else { Self::Regular }
    }
}

/// All registered schedulers: a handful, so they are simply searched.
#[derive(Debug, Default)]
pub(super) struct Schedulers {
    slab: Vec<Option<Scheduler>>,
}

impl Schedulers {
    /// The scheduler of this routing id.
    pub fn find(&self, id: &RoutingId) -> Option<SchedulerKey> {
        self.iter().find(|(_, scheduler)| scheduler.id == *id).map(|(key, _)| key)
    }

    /// One scheduler.
    pub fn get_mut(&mut self, key: SchedulerKey) -> Option<&mut Scheduler> {
        self.slab.get_mut(key.0 as usize)?.as_mut()
    }

    /// All schedulers, by key.
    pub fn iter(&self) -> impl Iterator<Item = (SchedulerKey, &Scheduler)> {
        let keyed = |(index, scheduler): (usize, &'_ Option<Scheduler>)| {
            scheduler.is_some().then_some(SchedulerKey(index as u32))
        };
        self.slab.iter().enumerate().filter_map(move |entry| Some((keyed(entry)?, entry.1.as_ref()?)))
    }

    /// The connected ones.
    pub fn connected(&self) -> impl Iterator<Item = &Scheduler> {
        self.iter().map(|(_, scheduler)| scheduler).filter(|scheduler| scheduler.detached.is_none())
    }

    /// Registers a new one.
    pub fn add(&mut self, id: &RoutingId, rank: Rank, now: Instant) -> SchedulerKey {
        let scheduler =
            Scheduler { id: id.clone(), last_seen: now, next_heartbeat: now, wake: None, detached: None, rank };
        let place = self.slab.iter().position(Option::is_none).unwrap_or(self.slab.len());
        if place == self.slab.len() {
            self.slab.push(None);
        }
        self.slab[place] = Some(scheduler);
        SchedulerKey(place as u32)
    }

    /// The connected one that a schedule belongs to: of those with the highest rank the same one each time, however many
    /// there are, and few schedules change theirs when one comes or goes (rendezvous hashing).
    pub fn choose(&self, schedule: &[u8]) -> Option<RoutingId> {
        let weight = |scheduler: &&Scheduler| {
            let mut hasher = DefaultHasher::new();
            (schedule, scheduler.id.as_bytes()).hash(&mut hasher);
            (scheduler.rank, hasher.finish())
        };
        self.connected().max_by_key(weight).map(|scheduler| scheduler.id.clone())
    }

    /// Forgets one.
    pub fn remove(&mut self, key: SchedulerKey) -> Option<Scheduler> {
        self.slab.get_mut(key.0 as usize)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> RoutingId {
        RoutingId::new(name).unwrap()
    }

    #[test]
    fn a_schedule_belongs_to_one_and_moves_only_if_it_must() {
        let now = Instant::now();
        let mut schedulers = Schedulers::default();
        assert_eq!(schedulers.choose(b"s"), None);
        let keys = ["a", "b", "c"].map(|name| schedulers.add(&id(name), Rank::Regular, now));
        let all: Vec<[u8; 4]> = (0..1000u32).map(u32::to_be_bytes).collect();
        let before: Vec<_> = all.iter().map(|schedule| schedulers.choose(schedule).unwrap()).collect();
        for name in ["a", "b", "c"] {
            let share = before.iter().filter(|chosen| **chosen == id(name)).count();
            assert!((250..420).contains(&share), "{name} has {share}");
        }
        schedulers.get_mut(keys[1]).unwrap().detached = Some(now);
        for (schedule, before) in all.iter().zip(before) {
            let after = schedulers.choose(schedule).unwrap();
            assert!(after == before || before == id("b"), "moved without need");
            assert_ne!(after, id("b"));
        }
        assert!(schedulers.remove(keys[0]).is_some());
        assert_eq!(schedulers.find(&id("a")), None);
        assert_eq!(schedulers.add(&id("d"), Rank::Regular, now), keys[0]);
    }

    #[test]
    fn a_standby_is_chosen_only_where_there_is_no_other() {
        let now = Instant::now();
        let mut schedulers = Schedulers::default();
        schedulers.add(&id("own"), Rank::of(b"standby"), now);
        assert_eq!(schedulers.choose(b"s"), Some(id("own")));
        let other = schedulers.add(&id("other"), Rank::of(b""), now);
        assert!((0..100u8).all(|n| schedulers.choose(&[n]) == Some(id("other"))));
        schedulers.get_mut(other).unwrap().detached = Some(now);
        assert_eq!(schedulers.choose(b"s"), Some(id("own")));
    }
}
