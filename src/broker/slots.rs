//! Free slots of one worker, and what a READY means.
//!
//! A READY says "one slot is free" and carries no job id. With every job tracked, though, READYs and REPLYs pair: a job
//! manager with J processes sends J READYs at the start and from then on exactly one behind each REPLY (at once, or when
//! the process that replaces a recycled or timed-out one has started). So one READY more than REPLYs means that a process
//! was replaced without having replied: it died, and with it the job it ran, if it ran one. Nobody says which job, but it
//! is one of those in flight at that moment, the *suspects*:
//!
//! * If all slots were taken, a busy process died. Suspects that REPLY are cleared; when only as many are left as
//!   processes died, those are the lost jobs. The new process is a free slot; capacity stays.
//! * If some slot was free, the dead process may have been the idle one. Nothing is certain, so the extra slot is not
//!   used (a worker must never be handed more than it has processes), and a suspect is given up only after the time in
//!   which a Python worker ends any job by itself; then the slot was its own and is used again.
//!
//! At the start READYs come one by one, so until none was added for a settling time each further one is a process more.
//! It may also replace one that died early: jobs in flight become suspects then, too. So they do by any other READY that
//! has an explanation, but not the REPLY of a job in flight: a job that was given up, a late REPLY.
//!
//! What was under way when a connection ended is lost. After a return any job in flight may have been: a suspect that is
//! given up then gives its slot back, because the READY that would have said so was lost with it. So may the READYs have
//! been that were owed for REPLYs: those that a worker did not send over its new connection in the time in which any process
//! is replaced are taken for sent, or each cut would cost a slot for ever. Should one come after all, it is withheld.

use std::time::{Duration, Instant};

use super::jobs::Suspicion;

/// The slot account of one worker. `free` is never more than the READYs it sent.
#[derive(Debug)]
pub(super) struct Slots {
    free: u32,
    /// Processes as far as known: READYs that no REPLY explains.
    capacity: u32,
    /// REPLYs whose READY has not come yet.
    owed: u32,
    /// Those of them whose connection ended before it came.
    cut: u32,
    /// Slots used again though their READY never came.
    lent: u32,
    /// REPLYs for no job in flight whose READY may come.
    late: u32,
    /// Jobs the broker gave up or finished otherwise while this worker still had them: each may free a process.
    abandoned: u32,
    /// Processes that certainly died with a job among the suspects.
    deaths: u32,
    /// READYs not used because nobody knows whether a busy or an idle process died.
    withheld: u32,
    /// READYs used as those of further processes, while jobs were in flight: perhaps they replaced a process.
    replaced: u32,
    /// The last registration or growth.
    grown: Instant,
}

/// What a READY turned out to mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadyMeaning {
    /// A slot became free, by a job's end or because the worker is still starting.
    Slot,
    /// As [`Slot`](Self::Slot), of a worker still starting, or by the end of a job that was given up before; or else a
    /// process died with one of the jobs in flight.
    SlotOrProcessDied,
    /// As [`Slot`](Self::Slot), and a job the broker does not track must have ended.
    UntrackedJobEnded,
    /// A process died with one of the jobs in flight.
    BusyProcessDied,
    /// A process died, perhaps with one of the jobs in flight, perhaps idle.
    SomeProcessDied,
}

impl Slots {
    /// The account of a worker that just registered.
    pub fn new(now: Instant) -> Self {
        Self {
            free: 0,
            capacity: 0,
            owed: 0,
            cut: 0,
            lent: 0,
            late: 0,
            abandoned: 0,
            deaths: 0,
            withheld: 0,
            replaced: 0,
            grown: now,
        }
    }

    /// Slots a job can be sent to.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Processes that died with a job not identified yet.
    pub fn deaths(&self) -> u32 {
        self.deaths
    }

    /// A job was sent.
    pub fn on_dispatch(&mut self) {
        self.free = self.free.saturating_sub(1);
    }

    /// A job that was sent never left.
    pub fn on_undelivered(&mut self) {
        self.free += 1;
    }

    /// A REPLY came for one of the jobs in flight with this worker: a READY is sure to follow.
    pub fn on_reply(&mut self) {
        self.owed = self.owed.saturating_add(1);
    }

    /// A REPLY came for another job, or for none: perhaps a READY follows.
    pub fn on_strange_reply(&mut self) {
        self.late = self.late.saturating_add(1);
    }

    /// Its connection is a new one: READYs expected over the one before may be lost. Returns how many.
    pub fn on_reconnected(&mut self) -> u32 {
        self.cut = self.cut.saturating_add(std::mem::take(&mut self.owed));
        self.cut
    }

    /// READYs expected over a connection that ended had their time to come over the new one, while `in_flight` jobs are with
    /// the worker. Returns how many slots are free again.
    pub fn on_cut_over(&mut self, in_flight: usize) -> u32 {
        let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
        let taken = self.free.saturating_add(in_flight).saturating_add(self.owed);
        let missing = self.capacity.saturating_add(self.deaths).saturating_sub(taken);
        let lent = std::mem::take(&mut self.cut).min(missing);
        self.free += lent;
        self.lent += lent;
        lent
    }

    /// A job of this worker ended without a REPLY from it.
    pub fn on_abandoned(&mut self) {
        self.abandoned = self.abandoned.saturating_add(1);
    }

    /// The REPLY that came was for a job that had been given up.
    pub fn on_late_reply(&mut self) {
        self.abandoned = self.abandoned.saturating_sub(1);
    }

    /// A READY came while `in_flight` jobs were with the worker, `untracked` of them without a REPLY to expect.
    pub fn on_ready(&mut self, now: Instant, settling: Duration, in_flight: usize, untracked: usize) -> ReadyMeaning {
        if self.owed > 0 {
            self.owed -= 1;
            self.free += 1;
            return ReadyMeaning::Slot;
        }
        if untracked > 0 {
            self.free += 1;
            return ReadyMeaning::UntrackedJobEnded;
        }
        if let Some(explained_by) = [&mut self.cut, &mut self.late, &mut self.abandoned].into_iter().find(|n| **n > 0) {
            *explained_by -= 1;
            self.free += 1;
            return ReadyMeaning::SlotOrProcessDied;
        }
        if self.capacity == 0 || now.duration_since(self.grown) < settling {
            self.capacity += 1;
            self.free += 1;
            self.grown = now;
            if in_flight > 0 {
                self.replaced += 1;
                return ReadyMeaning::SlotOrProcessDied;
            }
            return ReadyMeaning::Slot;
        }
        if self.free > 0 || in_flight == 0 || self.lent > 0 {
            self.lent = self.lent.saturating_sub(1);
            self.withheld += 1;
            return ReadyMeaning::SomeProcessDied;
        }
        self.free += 1;
        self.deaths += 1;
        ReadyMeaning::BusyProcessDied
    }

    /// Whether any process died and nobody knows with which job.
    pub fn in_doubt(&self) -> bool {
        self.deaths > 0 || self.withheld > 0 || self.replaced > 0
    }

    /// A suspect was given up because its time was over. `interrupted`: it was sent over an earlier connection.
    pub fn on_suspect_given_up(&mut self, suspicion: Suspicion, interrupted: bool) {
        if suspicion == Suspicion::Death && self.deaths > 0 {
            self.deaths -= 1;
        } else if self.withheld > 0 {
            self.withheld -= 1;
            self.free += 1;
        } else if self.replaced > 0 {
            self.replaced -= 1;
            self.capacity = self.capacity.saturating_sub(1);
        } else if interrupted && self.free < self.capacity {
            self.free += 1;
        } else {
            self.on_abandoned();
        }
    }

    /// The jobs of processes that certainly died are known.
    pub fn on_deaths_known(&mut self) {
        self.deaths = 0;
    }

    /// No suspect is left: each either replied or is known to be lost. Any other process that died was idle, and its slot
    /// is the one already counted.
    pub fn on_no_suspects(&mut self) {
        self.deaths = 0;
        self.withheld = 0;
        self.replaced = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLING: Duration = Duration::from_secs(5);

    /// A settled worker with `capacity` processes, the given number of them busy.
    fn settled(capacity: u32, busy: u32) -> (Slots, Instant) {
        let start = Instant::now();
        let mut slots = Slots::new(start);
        for _ in 0..capacity {
            assert_eq!(slots.on_ready(start, SETTLING, 0, 0), ReadyMeaning::Slot);
        }
        for _ in 0..busy {
            slots.on_dispatch();
        }
        (slots, start + SETTLING)
    }

    #[test]
    fn a_ready_behind_a_reply_is_that_jobs_slot() {
        let (mut slots, now) = settled(2, 2);
        slots.on_reply();
        assert_eq!(slots.on_ready(now, SETTLING, 1, 0), ReadyMeaning::Slot);
        assert_eq!(slots.free(), 1);
    }

    #[test]
    fn c01_a_surplus_ready_of_a_busy_worker_is_a_death() {
        let (mut slots, now) = settled(2, 2);
        assert_eq!(slots.on_ready(now, SETTLING, 2, 0), ReadyMeaning::BusyProcessDied);
        assert_eq!((slots.free(), slots.deaths()), (1, 1));
    }

    #[test]
    fn with_a_free_slot_nothing_is_certain_and_no_slot_is_added() {
        let (mut slots, now) = settled(2, 1);
        assert_eq!(slots.on_ready(now, SETTLING, 1, 0), ReadyMeaning::SomeProcessDied);
        assert_eq!((slots.free(), slots.deaths()), (1, 0));
        slots.on_suspect_given_up(Suspicion::Doubt, false);
        assert_eq!(slots.free(), 2, "the slot was the lost job's");
    }

    #[test]
    fn a_worker_may_grow_until_it_settled() {
        let start = Instant::now();
        let mut slots = Slots::new(start);
        let late = start + 10 * SETTLING;
        assert_eq!(slots.on_ready(late, SETTLING, 0, 0), ReadyMeaning::Slot, "slow to start, but the first");
        assert_eq!(slots.on_ready(late + SETTLING / 2, SETTLING, 0, 0), ReadyMeaning::Slot);
        assert_eq!(slots.on_ready(late + 2 * SETTLING, SETTLING, 0, 0), ReadyMeaning::SomeProcessDied);
        assert_eq!(slots.free(), 2);
    }

    #[test]
    fn a_process_that_died_before_the_worker_settled_leaves_a_suspect() {
        let start = Instant::now();
        let mut slots = Slots::new(start);
        assert_eq!(slots.on_ready(start, SETTLING, 0, 0), ReadyMeaning::Slot);
        slots.on_dispatch();
        assert_eq!(slots.on_ready(start, SETTLING, 1, 0), ReadyMeaning::SlotOrProcessDied);
        assert!(slots.in_doubt());
        slots.on_suspect_given_up(Suspicion::Doubt, false);
        assert_eq!((slots.free(), slots.capacity), (1, 1), "it has one process, and that is free");
        slots.on_no_suspects();
        slots.on_dispatch();
        let settled = start + SETTLING;
        assert_eq!(slots.on_ready(settled, SETTLING, 1, 0), ReadyMeaning::BusyProcessDied);
    }

    #[test]
    fn a_job_lost_with_the_connection_gives_its_slot_back() {
        let (mut slots, _) = settled(1, 1);
        slots.on_suspect_given_up(Suspicion::Doubt, true);
        assert_eq!(slots.free(), 1);
    }

    #[test]
    fn a_ready_lost_with_the_connection_is_taken_for_sent_after_a_while() {
        let (mut slots, now) = settled(3, 3);
        slots.on_reply();
        slots.on_reply();
        assert_eq!(slots.on_reconnected(), 2);
        assert_eq!(slots.on_ready(now, SETTLING, 1, 0), ReadyMeaning::SlotOrProcessDied, "one had not left yet");
        assert_eq!(slots.on_cut_over(1), 1);
        assert_eq!((slots.free(), slots.on_cut_over(1)), (2, 0), "once");
    }

    #[test]
    fn a_ready_that_comes_after_it_was_taken_for_sent_is_no_slot_more() {
        let (mut slots, now) = settled(1, 1);
        slots.on_reply();
        slots.on_reconnected();
        assert_eq!(slots.on_cut_over(0), 1);
        slots.on_dispatch();
        assert_eq!(slots.on_ready(now, SETTLING, 1, 0), ReadyMeaning::SomeProcessDied, "and no proof of a death");
        assert_eq!((slots.free(), slots.deaths()), (0, 0));
    }

    #[test]
    fn the_process_of_a_job_given_up_comes_back_as_one_slot() {
        let (mut slots, now) = settled(1, 1);
        slots.on_abandoned();
        assert_eq!(slots.on_ready(now, SETTLING, 0, 0), ReadyMeaning::SlotOrProcessDied);
        slots.on_dispatch();
        slots.on_abandoned();
        slots.on_strange_reply();
        slots.on_late_reply();
        assert_eq!(slots.on_ready(now, SETTLING, 0, 0), ReadyMeaning::SlotOrProcessDied);
        assert_eq!(slots.free(), 1);
    }
}
