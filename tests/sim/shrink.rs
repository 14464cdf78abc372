//! Running a plan, and making a failing one short.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use eventmq::broker::Effect;

use crate::faults::{Item, Plan};
use crate::invariants::Violation;
use crate::tally::Tally;
use crate::world::{Recorded, World};

/// Most runs spent on a failing plan.
const TRIES: u32 = 400;

/// Most inputs printed.
const SHOWN: usize = 300;

/// What came of a plan.
pub struct Outcome {
    pub plan: Plan,
    pub violation: Option<Violation>,
    pub tally: Tally,
    /// All inputs of the broker, up to the one that broke something.
    pub recording: Vec<Recorded>,
    pub effects: Vec<Effect>,
}

pub fn run(plan: &Plan) -> Outcome {
    execute(plan, false)
}

/// As [`run`], and keeps the effects.
pub fn run_recording(plan: &Plan) -> Outcome {
    execute(plan, true)
}

fn execute(plan: &Plan, keep: bool) -> Outcome {
    let mut world = World::new(plan);
    world.effects = keep.then(Vec::new);
    let violation = catch_unwind(AssertUnwindSafe(|| world.run()))
        .map_or_else(|_| Some(Violation::new("never a panic", "see the message above".to_owned())), Result::err);
    Outcome {
        plan: plan.clone(),
        violation,
        tally: world.tally,
        recording: world.recording,
        effects: world.effects.unwrap_or_default(),
    }
}

/// A schedule that broke an invariant.
pub struct Failure {
    pub seed: u64,
    violation: Violation,
    steps: usize,
    outcome: Outcome,
}

impl Failure {
    pub fn new(seed: u64, violation: Violation, outcome: Outcome) -> Self {
        Self { seed, violation, steps: outcome.recording.len(), outcome }
    }

    /// The same failure with as little as possible in the plan: leaves out participants, faults and jobs one by one
    /// while the same rule is still broken.
    pub fn shrunk(mut self) -> Self {
        let mut tries = 0;
        loop {
            let before = size(&self.outcome.plan);
            for plan in smaller(&self.outcome.plan) {
                if tries == TRIES {
                    return self;
                }
                tries += 1;
                let outcome = run(&plan);
                if outcome.violation.as_ref().is_some_and(|violation| violation.rule == self.violation.rule) {
                    self.outcome = outcome;
                    break;
                }
            }
            if size(&self.outcome.plan) == before {
                return self;
            }
        }
    }
}

fn size(plan: &Plan) -> usize {
    plan.items.iter().map(|item| if let Item::Client(client) = item { 1 + client.jobs.len() } else { 1 }).sum()
}

/// Plans with one thing less.
fn smaller(plan: &Plan) -> Vec<Plan> {
    let without = |index: usize| {
        let mut plan = plan.clone();
        plan.items.remove(index);
        plan
    };
    let mut plans: Vec<Plan> = (0..plan.items.len()).rev().map(without).collect();
    for (index, item) in plan.items.iter().enumerate() {
        let Item::Client(client) = item else { continue };
        for job in (0..client.jobs.len()).rev().filter(|_| client.jobs.len() > 1) {
            let mut fewer = client.clone();
            fewer.jobs.remove(job);
            let mut plan = plan.clone();
            plan.items[index] = Item::Client(fewer);
            plans.push(plan);
        }
    }
    plans
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shrunk = &self.outcome;
        writeln!(f, "seed {} breaks at step {}: {}", self.seed, self.steps, self.violation)?;
        writeln!(f, "\nshrunk to {} steps of", shrunk.recording.len())?;
        writeln!(f, "  {:?}", shrunk.plan.config)?;
        for item in &shrunk.plan.items {
            writeln!(f, "  {item:?}")?;
        }
        if let Some(violation) = &shrunk.violation {
            writeln!(f, "which breaks: {violation}")?;
        }
        writeln!(f, "\ninputs:")?;
        for recorded in shrunk.recording.iter().take(SHOWN) {
            writeln!(f, "  {:>10.6} {:?}", recorded.at.as_secs_f64(), recorded.input)?;
        }
        if let Some(more) = shrunk.recording.len().checked_sub(SHOWN + 1) {
            // Only a world that never comes to rest is that long, and what went wrong is at its start.
            writeln!(f, "  ... and {} more", more + 1)?;
        }
        write!(f, "\nrun it again with SIM_SEED={}", self.seed)
    }
}
