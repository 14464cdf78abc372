//! Noticing that the process itself stood still: then nobody else was silent.

use std::time::{Duration, Instant};

/// Remembers the last step of a core.
#[derive(Debug)]
pub(crate) struct Stall {
    stepped: Instant,
}

impl Stall {
    /// Begins now.
    pub fn new(now: Instant) -> Self {
        Self { stepped: now }
    }

    /// A step: how long the core stood still before it, if that is more than `tolerance` past the time it was `due`.
    ///
    /// It may have stopped right after its last step: what became due first since then must not count either, so all of
    /// that time is forgiven.
    pub fn note(
        &mut self,
        now: Instant,
        due: impl FnOnce() -> Option<Instant>,
        tolerance: Duration,
    ) -> Option<Duration> {
        let before = std::mem::replace(&mut self.stepped, now);
        if now == before {
            return None;
        }
        let late = now.saturating_duration_since(due()?);
        (late > tolerance).then(|| now.saturating_duration_since(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_step_long_overdue_is_a_stall() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let tolerance = Duration::from_secs(5);
        let mut stall = Stall::new(start);
        assert_eq!(stall.note(at(100), || None, tolerance), None, "nothing was due");
        assert_eq!(stall.note(at(110), || Some(at(105)), tolerance), None);
        assert_eq!(stall.note(at(120), || Some(at(112)), tolerance), Some(Duration::from_secs(10)));
    }
}
