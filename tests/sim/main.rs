//! Simulation of the broker core: random schedules of a seeded world under virtual time, with a second opinion on every
//! step.
//!
//! `SIM_SCHEDULES=n` runs that many schedules, `SIM_SEED=n` runs one and prints its inputs when it fails.

mod apply;
mod bounds;
mod faults;
mod frames;
mod invariants;
mod job_manager;
mod links;
mod model;
mod peers;
mod random;
mod rules;
mod sent;
mod settle;
mod shrink;
mod tally;
mod view;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use eventmq::broker::{Broker, Effect};
use eventmq::clock::Now;

use faults::Plan;
use shrink::{Failure, Outcome, run};
use tally::Tally;

/// Seeds that once failed.
const REGRESSIONS: &[u64] = &[
    8, 9, 12, 19, 28, 31, 227, 766, 1431, 3662, 4435, 8954, 12_138, 19_099, 28_653, 36_755, 47_812, 129_882, 164_176,
    179_100, 183_018,
];

/// What must have happened in a full run, and how often at least, or the simulation proves little.
const EXPECTED: &[(&str, u64)] = &[
    ("fault: crash, seen at once", 500),
    ("fault: crash, seen by PING", 200),
    ("fault: crash, unseen", 200),
    ("fault: child killed", 200),
    ("fault: worker frozen", 500),
    ("fault: worker drains", 500),
    ("fault: new identity, old connection open", 500),
    ("fault: INFORM again", 200),
    ("fault: READY too many", 200),
    ("fault: link cut for a moment", 500),
    ("fault: link cut for long", 300),
    ("fault: link dead but not closed", 500),
    ("fault: link cut between REPLY and READY", 500),
    ("fault: peer's queue full", 500),
    ("fault: message arrives twice", 500),
    ("fault: garbage from a peer", 500),
    ("fault: a stranger talks", 500),
    ("fault: broker stands still", 500),
    ("fault: wall clock set", 200),
    ("fault: scheduler leaves", 50),
    ("fault: shutdown by signal", 200),
    ("fault: shutdown by admin", 200),
    ("chatter: a second REPLY", 200),
    ("chatter: a REPLY to no job", 200),
    ("chatter: a second READY", 200),
    ("client: vanished after its REQUEST", 500),
    ("client: the same msgid again", 500),
    ("undelivered: full", 500),
    ("undelivered: gone", 500),
    ("job: came back undelivered", 100),
    ("job: moved to the default queue", 100),
    ("job: sent to a silent worker", 50),
    ("lost on the way to a peer", 500),
    ("lost on the way to the broker", 500),
    ("link: back with the same identity", 500),
    ("worker: given up", 1000),
    ("worker: its slot used again without the READY", 100),
    ("worker: told to register anew", 200),
    ("worker: killed by a job", 500),
    ("scheduler: got a schedule", 500),
    ("outcome: done", 50_000),
    ("outcome: dead", 500),
    ("outcome: lost or failed", 500),
    ("outcome: refused", 500),
    ("outcome: late REPLY dropped", 500),
    ("outcome: delivered again or tried again", 1000),
    ("outcome: handed over, not tracked", 200),
];

const SCHEDULES: u64 = 10_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn report(failure: &Failure) -> ! {
    panic!("{failure}");
}

/// Runs schedules on all cores until one fails; the lowest failing seed of those tried is reported.
fn run_all(count: u64) -> Result<Tally, Box<Failure>> {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                return Ok(tally);
            }
            let outcome = run(&Plan::new(seed));
            tally.merge(&outcome.tally);
            if let Some(violation) = outcome.violation.clone() {
                next.store(count, Ordering::Relaxed);
                return Err(Box::new(Failure::new(seed, violation, outcome)));
            }
        }
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut all = Tally::default();
    let mut failures = Vec::new();
    for result in results {
        match result {
            Ok(tally) => all.merge(&tally),
            Err(failure) => failures.push(failure),
        }
    }
    failures.into_iter().min_by_key(|failure| failure.seed).map_or(Ok(all), Err)
}

#[test]
fn random_schedules_keep_every_promise() {
    if let Some(seed) = number("SIM_SEED") {
        let outcome = run(&Plan::new(seed));
        outcome.tally.print();
        if let Some(violation) = outcome.violation.clone() {
            report(&Failure::new(seed, violation, outcome).shrunk());
        }
        return;
    }
    let count = number("SIM_SCHEDULES").unwrap_or(SCHEDULES);
    let start = Instant::now();
    match run_all(count) {
        Err(failure) => report(&failure.shrunk()),
        Ok(tally) => {
            println!("{count} schedules in {:.1} s", start.elapsed().as_secs_f64());
            tally.print();
            for (what, least) in EXPECTED {
                let (seen, least) = (tally.of(what), least * count / SCHEDULES);
                assert!(seen >= least, "{what}: {seen} times in {count} schedules, expected {least} at least");
            }
        }
    }
}

#[test]
fn seeds_that_once_failed() {
    for seed in REGRESSIONS {
        let outcome = run(&Plan::new(*seed));
        if let Some(violation) = outcome.violation.clone() {
            report(&Failure::new(*seed, violation, outcome).shrunk());
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_effects() {
    for seed in 0..150 {
        let plan = Plan::new(seed);
        let [first, second] = [(); 2].map(|()| shrink::run_recording(&plan));
        assert!(first.effects == second.effects, "seed {seed}: two runs differ");
        assert!(first.effects == replay(&plan, &first), "seed {seed}: a replay of the inputs differs");
    }
}

/// Feeds recorded inputs to a fresh core, without the world.
fn replay(plan: &Plan, recorded: &Outcome) -> Vec<Effect> {
    let start = Instant::now();
    let now = |mono, wall| Now { mono: start + mono, wall };
    let mut broker = Broker::new(plan.config.clone(), now(Default::default(), world::EPOCH), plan.seed);
    let mut effects = Vec::new();
    for step in &recorded.recording {
        broker.step(now(step.at, step.wall), step.input.clone(), &mut effects);
    }
    effects
}
