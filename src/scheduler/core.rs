//! [`Scheduler`]: the schedules and what is due, without any I/O.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tracing::{debug, info, warn};
use zmtp::Message;

use super::orders::{Becomes, Order};
use super::record::{Haste, Record};
use super::store::{Change, Saved};
use crate::clock::Now;
use crate::emqp::{MsgId, MsgIds, Request, Schedule, ScheduleId, ScheduledCall};

/// A run that is later than this was missed.
const LATE: SignedDuration = SignedDuration::from_secs(1);
/// The clock was set, and not only corrected, if it goes back by more.
const SET_BACK: SignedDuration = SignedDuration::from_secs(1);
/// If it goes back by more than this, cron times are found anew; by less, they wait for it to catch up, so that none runs
/// twice.
const SET_FAR_BACK: SignedDuration = SignedDuration::from_mins(5);
/// Longest sleep, so that a clock that was set is noticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Shortest time between two looks at what is due: what falls in between is stored in one go.
const SHORTEST_SLEEP: Duration = Duration::from_millis(10);
/// Pause before changes that could not be stored are tried again.
const STORE_AGAIN: Duration = Duration::from_secs(5);

/// What a scheduler is told.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulerConfig {
    /// The time zone of cron expressions.
    pub zone: TimeZone,
    /// What becomes of runs that were missed.
    pub missed: MissedRuns,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self { zone: TimeZone::UTC, missed: MissedRuns::Once }
    }
}

/// What becomes of runs that came due while the scheduler or its broker was away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissedRuns {
    /// However many they are, the schedule runs once, at once.
    Once,
    /// They are left out.
    Skip,
}

/// Everything the core reacts to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Input<'a> {
    /// A client's SCHEDULE.
    Schedule {
        /// Its message id.
        msgid: MsgId,
        /// What it says.
        schedule: &'a Schedule<'a>,
    },
    /// A client's UNSCHEDULE.
    Unschedule {
        /// Its message id.
        msgid: MsgId,
        /// What it says.
        schedule: &'a Schedule<'a>,
    },
    /// A broker takes jobs.
    Attached,
    /// It does not, for the time being: what comes due is missed.
    Detached,
    /// The changes of the last [`Effect::Store`] are safe, or are not.
    Stored(Stored),
    /// The settings changed.
    Reconfigure(SchedulerConfig),
    /// Time passed; at the latest at [`Scheduler::deadline`].
    Tick,
}

/// What became of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// They will be there after a crash.
    Safe,
    /// They could not be stored.
    Failed,
}

/// What the core wants done, in this order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Make these changes safe, and say [`Input::Stored`]. There is no other until then.
    Store(Vec<Change>),
    /// Send a message to the broker.
    Send(Message),
}

/// One schedule, for people and programs to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleView {
    /// The schedule.
    pub record: Record,
    /// When it runs next.
    pub next: Timestamp,
}

/// The logic of a scheduler.
///
/// What a run changes is stored before the run is sent, so a crash loses at most the runs of one moment and doubles none.
/// All that is kept of the past is one time, up to which everything due has been dealt with.
#[derive(Debug)]
pub struct Scheduler {
    config: SchedulerConfig,
    entries: HashMap<ScheduleId, Entry>,
    due: BTreeSet<(Timestamp, ScheduleId)>,
    ran_until: Timestamp,
    broker: Broker,
    /// What is not stored yet.
    unsaved: Unsaved,
    orders: Vec<Order>,
    /// Jobs of runs that are to be stored first.
    runs: Vec<Message>,
    storing: Option<Storing>,
    ids: MsgIds,
    last: Now,
    /// Nothing that is due is looked at before.
    rest_until: Instant,
}

#[derive(Debug)]
struct Entry {
    record: Record,
    next: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broker {
    Attached,
    Away,
}

#[derive(Debug, Default)]
struct Unsaved {
    ids: BTreeSet<ScheduleId>,
    ran_until: bool,
    /// After a failure.
    again: Option<Instant>,
}

/// What the store is busy with.
#[derive(Debug)]
struct Storing {
    ids: BTreeSet<ScheduleId>,
    ran_until: bool,
    orders: Vec<Order>,
}

/// Runs that were missed, for one log line.
#[derive(Debug, Default)]
struct Missed {
    schedules: u64,
    runs: u64,
    caught_up: u64,
}

impl Scheduler {
    /// A scheduler with what was saved by an earlier one. The same `seed` and inputs give the same effects.
    pub fn new(config: SchedulerConfig, saved: Saved, now: Now, seed: u64) -> Self {
        let wall = wall(now);
        let mut ran_until = saved.ran_until.unwrap_or(Timestamp::UNIX_EPOCH);
        if ran_until > wall.saturating_add(SET_FAR_BACK).unwrap_or(wall) {
            warn!(%ran_until, "the clock was set back since the scheduler ran last: cron times are found anew");
            ran_until = wall;
        }
        let mut scheduler = Self {
            config,
            entries: HashMap::new(),
            due: BTreeSet::new(),
            ran_until,
            broker: Broker::Away,
            unsaved: Unsaved::default(),
            orders: Vec::new(),
            runs: Vec::new(),
            storing: None,
            ids: MsgIds::new(seed),
            last: now,
            rest_until: now.mono,
        };
        for mut record in saved.records {
            record.since = record.since.min(wall);
            let from = record.since.max(ran_until);
            scheduler.insert(record, from);
        }
        scheduler
    }

    /// Something happened: appends what is to be done to `out`.
    pub fn step(&mut self, now: Now, input: Input<'_>, out: &mut Vec<Effect>) {
        self.watch_clock(now);
        self.last = now;
        match input {
            Input::Schedule { msgid, schedule } => self.on_schedule(msgid, schedule, out),
            Input::Unschedule { msgid, schedule } => self.on_unschedule(msgid, schedule, out),
            Input::Attached => self.broker = Broker::Attached,
            Input::Detached => self.broker = Broker::Away,
            Input::Stored(stored) => self.on_stored(stored, out),
            Input::Reconfigure(config) => self.reconfigure(config),
            Input::Tick => {}
        }
    }

    /// Deals with everything that is due and has been asked for; to be called when there is nothing left to step.
    pub fn settle(&mut self, out: &mut Vec<Effect>) {
        if self.storing.is_some() {
            return;
        }
        if self.broker == Broker::Attached && self.rest_until <= self.last.mono {
            self.run_due();
        }
        let again = self.unsaved.again.is_none_or(|again| again <= self.last.mono);
        let mut changes = Vec::new();
        let mut storing = Storing { ids: BTreeSet::new(), ran_until: false, orders: std::mem::take(&mut self.orders) };
        if again || !storing.orders.is_empty() {
            storing.ids = std::mem::take(&mut self.unsaved.ids);
            storing.ran_until = std::mem::take(&mut self.unsaved.ran_until);
            self.unsaved.again = None;
            changes.extend(storing.ids.iter().map(|id| match self.entries.get(id) {
                Some(entry) => Change::Put(entry.record.clone()),
                None => Change::Remove(*id),
            }));
            changes.extend(storing.orders.iter().filter_map(Order::change));
            changes.extend(storing.ran_until.then_some(Change::RanUntil(self.ran_until)));
        }
        self.storing = Some(storing);
        if changes.is_empty() {
            self.on_stored(Stored::Safe, out);
        } else {
            out.push(Effect::Store(changes));
        }
    }

    /// When to step a [`Input::Tick`] and settle, at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        if self.storing.is_some() {
            return None;
        }
        if !self.orders.is_empty() {
            return Some(self.last.mono);
        }
        let due = self.due.first().filter(|_| self.broker == Broker::Attached).map(|(due, _)| {
            let wait = due.duration_since(wall(self.last));
            let wait = Duration::try_from(wait).unwrap_or_default().min(LONGEST_SLEEP);
            (self.last.mono + wait).max(self.rest_until)
        });
        due.into_iter().chain(self.unsaved.again).min()
    }

    /// All schedules, the next due first.
    pub fn schedules(&self) -> impl Iterator<Item = ScheduleView> {
        let entries = self.due.iter().filter_map(|(_, id)| self.entries.get(id));
        entries.map(|entry| ScheduleView { record: entry.record.clone(), next: entry.next })
    }

    /// How many schedules there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn on_schedule(&mut self, msgid: MsgId, schedule: &Schedule<'_>, out: &mut Vec<Effect>) {
        let now = wall(self.last);
        let (mut record, haste) = match Record::read(schedule, now, &self.config.zone) {
            Ok(read) => read,
            Err(refusal) => {
                warn!(%msgid, queue = %schedule.queue.escape_ascii(), "SCHEDULE refused: {refusal}");
                out.push(Effect::Send(super::orders::refusal(&msgid, &refusal, &mut self.ids)));
                return;
            }
        };
        let id = record.id();
        if self.latest(id).is_some_and(|known| known.is_resent_as(&record)) {
            debug!(%id, "schedule sent again, it goes on as it is");
            self.orders.push(Order { msgid, id, becomes: Becomes::Same, run: None });
            return;
        }
        let run = (haste == Haste::Now && record.left != Some(0)).then(|| self.job(&record));
        if run.is_some() {
            record.left = record.left.map(|left| left - 1);
        }
        let becomes = match record.left {
            Some(0) => Becomes::Gone,
            _ => Becomes::Record(Box::new(record)),
        };
        self.orders.push(Order { msgid, id, becomes, run });
    }

    fn on_unschedule(&mut self, msgid: MsgId, schedule: &Schedule<'_>, out: &mut Vec<Effect>) {
        match ScheduledCall::read(schedule.payload) {
            Ok(call) => self.orders.push(Order { msgid, id: call.id, becomes: Becomes::Gone, run: None }),
            Err(error) => {
                warn!(%msgid, "UNSCHEDULE refused: {error}");
                out.push(Effect::Send(super::orders::refusal(&msgid, &error.into(), &mut self.ids)));
            }
        }
    }

    /// The schedule as it will be once everything asked for is done.
    fn latest(&self, id: ScheduleId) -> Option<&Record> {
        for order in self.orders.iter().rev().filter(|order| order.id == id) {
            match &order.becomes {
                Becomes::Record(record) => return Some(record),
                Becomes::Gone => return None,
                Becomes::Same => {}
            }
        }
        self.entries.get(&id).map(|entry| &entry.record)
    }

    fn on_stored(&mut self, stored: Stored, out: &mut Vec<Effect>) {
        let Some(storing) = self.storing.take() else { return };
        // What is due runs all the same: a full disk shall not stop every schedule.
        out.extend(self.runs.drain(..).map(Effect::Send));
        if stored == Stored::Failed {
            self.unsaved.ids.extend(storing.ids);
            // Perhaps half of it is stored: what counts is written again.
            self.unsaved.ids.extend(storing.orders.iter().map(|order| order.id));
            self.unsaved.ran_until |= storing.ran_until;
            self.unsaved.again = Some(self.last.mono + STORE_AGAIN);
        }
        for order in storing.orders {
            let answer = match stored {
                Stored::Safe => order.acceptance(&mut self.ids),
                Stored::Failed => order.failure(&mut self.ids),
            };
            out.push(Effect::Send(answer));
            if stored == Stored::Safe {
                self.carry_out(order, out);
            }
        }
    }

    fn carry_out(&mut self, order: Order, out: &mut Vec<Effect>) {
        match order.becomes {
            Becomes::Same => {}
            Becomes::Gone => {
                if self.remove(order.id).is_some() {
                    info!(id = %order.id, schedules = self.entries.len(), "schedule removed");
                }
            }
            Becomes::Record(record) => {
                let replaced = self.remove(order.id).is_some();
                let (call, since) = (record.call.clone(), record.since);
                self.insert(*record, since);
                let (path, callable, schedules) = (call.path, call.callable, self.entries.len());
                info!(id = %order.id, path, callable, replaced, schedules, "schedule taken");
            }
        }
        out.extend(order.run.map(Effect::Send));
    }

    fn insert(&mut self, record: Record, from: Timestamp) {
        let id = record.id();
        let Some(next) = record.next_after(from, &self.config.zone).filter(|_| record.left != Some(0)) else {
            info!(%id, "a schedule that never comes due again is removed");
            self.unsaved.ids.insert(id);
            return;
        };
        self.due.insert((next, id));
        self.entries.insert(id, Entry { record, next });
    }

    fn remove(&mut self, id: ScheduleId) -> Option<Record> {
        let entry = self.entries.remove(&id)?;
        self.due.remove(&(entry.next, id));
        Some(entry.record)
    }

    /// Runs what is due, each schedule once, and finds its next time.
    fn run_due(&mut self) {
        let now = wall(self.last);
        let mut missed = Missed::default();
        let since = self.due.first().map(|(due, _)| *due);
        while let Some((due, id)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, id));
            self.run(id, due, now, &mut missed);
            self.ran_until = now;
            self.unsaved.ran_until = true;
            self.rest_until = self.last.mono + SHORTEST_SLEEP;
        }
        if missed.schedules > 0 {
            let Missed { schedules, runs, caught_up } = missed;
            let since = since.unwrap_or(now);
            warn!(schedules, missed = runs, caught_up, %since, "runs were missed");
        }
    }

    fn run(&mut self, id: ScheduleId, due: Timestamp, now: Timestamp, missed: &mut Missed) {
        let Some(mut entry) = self.entries.remove(&id) else { return };
        let zone = &self.config.zone;
        let times = entry.record.times_due(due, now, zone);
        let in_time = entry.record.next_after(now.saturating_sub(LATE).unwrap_or(now), zone);
        let in_time = due.duration_since(now) >= -LATE || in_time.is_some_and(|at| at <= now);
        let runs = in_time || self.config.missed == MissedRuns::Once;
        if times > 1 || !in_time {
            missed.schedules += 1;
            missed.runs += if in_time { times - 1 } else { times };
            missed.caught_up += u64::from(!in_time && runs);
        }
        if runs {
            let job = self.job(&entry.record);
            self.runs.push(job);
            if let Some(left) = &mut entry.record.left {
                *left -= 1;
                self.unsaved.ids.insert(id);
            }
        }
        match entry.record.next_after(now, &self.config.zone).filter(|_| entry.record.left != Some(0)) {
            Some(next) => {
                entry.next = next;
                self.due.insert((next, id));
                self.entries.insert(id, entry);
            }
            None => {
                info!(%id, "schedule has run for the last time");
                self.unsaved.ids.insert(id);
            }
        }
    }

    fn job(&mut self, record: &Record) -> Message {
        let msgid = self.ids.next_id();
        debug!(id = %record.id(), %msgid, "due");
        Request::build(&msgid, record.queue.as_bytes(), record.job_headers().as_bytes(), &record.payload)
    }

    /// Moves what is due if the clock was set back since the last step: intervals go by elapsed time.
    fn watch_clock(&mut self, now: Now) {
        let elapsed = SignedDuration::try_from(now.mono.saturating_duration_since(self.last.mono)).unwrap_or_default();
        let shift = wall(now).duration_since(wall(self.last)).saturating_sub(elapsed);
        if shift > -SET_BACK {
            return;
        }
        warn!(seconds = -shift.as_secs_f64(), "the clock was set back");
        let far = shift < -SET_FAR_BACK;
        if far {
            self.ran_until = wall(now);
        }
        let ids: Vec<_> = self.entries.keys().copied().collect();
        for id in ids {
            let Some(mut entry) = self.entries.remove(&id) else { continue };
            self.due.remove(&(entry.next, id));
            let next = match entry.record.timing {
                super::record::Timing::Every(_) => {
                    entry.record.since = entry.record.since.saturating_add(shift).unwrap_or(entry.record.since);
                    entry.next.saturating_add(shift).ok()
                }
                super::record::Timing::Cron(_) if far => entry.record.next_after(wall(now), &self.config.zone),
                super::record::Timing::Cron(_) => Some(entry.next),
            };
            entry.next = next.unwrap_or(entry.next);
            self.due.insert((entry.next, id));
            self.entries.insert(id, entry);
        }
    }

    fn reconfigure(&mut self, config: SchedulerConfig) {
        let moved = config.zone != self.config.zone;
        self.config = config;
        if !moved {
            return;
        }
        let (now, entries) = (wall(self.last), std::mem::take(&mut self.entries));
        self.due.clear();
        for entry in entries.into_values() {
            self.insert(entry.record, now);
        }
    }
}

/// The wall clock; a time beyond the year 9999 is that year.
fn wall(now: Now) -> Timestamp {
    Timestamp::try_from(now.wall).unwrap_or(Timestamp::MAX)
}
