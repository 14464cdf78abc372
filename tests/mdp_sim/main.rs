//! Simulation of the MDP broker core: random schedules of a seeded world under virtual time, with a second opinion on every
//! step: no request is lost while its worker lives, none is answered by an expired worker, no reply goes to the wrong client.
//!
//! `SIM_SCHEDULES=n` runs that many schedules, `SIM_SEED=n` runs one and prints its inputs when it fails.

#![allow(clippy::unwrap_used, reason = "a world that is not as it was made fails the test")]

mod model;
#[path = "../sim/random.rs"]
mod random;
mod worker;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use world::World;

const SCHEDULES: u64 = 10_000;

/// Inputs printed of a failing schedule: the last ones.
const SHOWN: usize = 60;

/// What must have happened in a full run, and how often at least, or the simulation proves little.
const EXPECTED: &[(&str, u64)] = &[
    ("fault: worker crashes with a request", 2_000),
    ("fault: worker falls silent", 1_000),
    ("fault: worker falls silent when idle", 1_000),
    ("fault: worker leaves with a request", 1_000),
    ("fault: READY twice", 1_000),
    ("fault: reply to another client", 500),
    ("fault: a second reply", 500),
    ("fault: HEARTBEAT before READY", 500),
    ("fault: garbage", 1_000),
    ("client: left", 2_000),
    ("client: asked again", 2_000),
    ("worker: computes long without a word", 1_000),
    ("worker: told DISCONNECT", 2_000),
    ("worker: expired", 1_000),
    ("request: answered", 100_000),
    ("request: part forwarded", 5_000),
    ("request: put back", 3_000),
    ("request: given up", 300),
    ("request: expired", 500),
    ("undelivered", 100),
];

type Tally = BTreeMap<&'static str, u64>;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs one schedule; what happened, or what is wrong and the inputs up to there.
fn run(seed: u64) -> Result<Tally, String> {
    let mut world = World::new(seed);
    let verdict = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(|_| Err("it panicked".to_owned()));
    verdict.map(|()| world.tally()).map_err(|violation| {
        let inputs = world.recording();
        let shown = inputs[inputs.len().saturating_sub(SHOWN)..].join("\n  ");
        format!("seed {seed}: {violation}\nthe last of {} inputs:\n  {shown}\nagain with SIM_SEED={seed}", inputs.len())
    })
}

fn run_all(count: u64) -> Result<Tally, String> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut tally = Tally::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                return Ok(tally);
            }
            match run(seed) {
                Ok(one) => one.into_iter().for_each(|(what, times)| *tally.entry(what).or_default() += times),
                Err(violation) => {
                    next.store(count, Ordering::Relaxed);
                    return Err(violation);
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<Result<Tally, String>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    let mut all = Tally::new();
    for result in results {
        result?.into_iter().for_each(|(what, times)| *all.entry(what).or_default() += times);
    }
    Ok(all)
}

#[test]
fn random_schedules_keep_every_promise() {
    if let Some(seed) = number("SIM_SEED") {
        println!("{:#?}", run(seed).unwrap_or_else(|violation| panic!("{violation}")));
        return;
    }
    let count = number("SIM_SCHEDULES").unwrap_or(SCHEDULES);
    let tally = run_all(count).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{count} schedules: {tally:#?}");
    for (what, least) in EXPECTED {
        let (seen, least) = (tally.get(what).copied().unwrap_or(0), least * count / SCHEDULES);
        assert!(seen >= least, "{what}: {seen} times in {count} schedules, expected {least} at least");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..100 {
        let runs = [(); 2].map(|()| {
            let mut world = World::new(seed);
            world.run().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
            world.recording()
        });
        assert!(runs[0] == runs[1], "seed {seed}: two runs differ");
    }
}
