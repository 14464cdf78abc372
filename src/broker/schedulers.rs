//! The registered schedulers.

use std::time::Instant;

use zmtp::RoutingId;

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
    last_used: u64,
}

/// All registered schedulers: a handful, so they are simply searched.
#[derive(Debug, Default)]
pub(super) struct Schedulers {
    slab: Vec<Option<Scheduler>>,
    uses: u64,
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
    pub fn add(&mut self, id: &RoutingId, now: Instant) -> SchedulerKey {
        let scheduler =
            Scheduler { id: id.clone(), last_seen: now, next_heartbeat: now, wake: None, detached: None, last_used: 0 };
        let place = self.slab.iter().position(Option::is_none).unwrap_or(self.slab.len());
        if place == self.slab.len() {
            self.slab.push(None);
        }
        self.slab[place] = Some(scheduler);
        SchedulerKey(place as u32)
    }

    /// The connected one that was given nothing for the longest time; notes the use.
    pub fn choose(&mut self) -> Option<RoutingId> {
        self.uses += 1;
        let uses = self.uses;
        let connected = self.slab.iter_mut().flatten().filter(|scheduler| scheduler.detached.is_none());
        let chosen = connected.min_by_key(|scheduler| scheduler.last_used)?;
        chosen.last_used = uses;
        Some(chosen.id.clone())
    }

    /// Forgets one.
    pub fn remove(&mut self, key: SchedulerKey) -> Option<Scheduler> {
        self.slab.get_mut(key.0 as usize)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_turns_among_the_connected() {
        let now = Instant::now();
        let id = |name: &str| RoutingId::new(name).unwrap();
        let mut schedulers = Schedulers::default();
        assert_eq!(schedulers.choose(), None);
        let keys = ["a", "b", "c"].map(|name| schedulers.add(&id(name), now));
        schedulers.get_mut(keys[1]).unwrap().detached = Some(now);
        let turns: Vec<_> = (0..4).filter_map(|_| schedulers.choose()).collect();
        assert_eq!(turns, [id("a"), id("c"), id("a"), id("c")]);
        assert!(schedulers.remove(keys[0]).is_some());
        assert_eq!(schedulers.find(&id("a")), None);
        assert_eq!(schedulers.add(&id("d"), now), keys[0]);
        assert_eq!(schedulers.choose(), Some(id("d")));
    }
}
