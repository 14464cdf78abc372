//! What happened, counted: a simulation that never meets a fault proves nothing.

use std::collections::BTreeMap;

/// Counters by name.
#[derive(Debug, Clone, Default)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub fn add(&mut self, what: &'static str, n: u64) {
        *self.0.entry(what).or_default() += n;
    }

    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    pub fn merge(&mut self, other: &Self) {
        for (what, n) in &other.0 {
            self.add(what, *n);
        }
    }

    pub fn print(&self) {
        for (what, n) in &self.0 {
            println!("{n:>10}  {what}");
        }
    }
}
