//! The only two times a core ever sees.

use std::time::{Instant, SystemTime};

/// A moment, read once by the shell and handed to a core: cores own no clock.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Monotonic time: for every timer and age.
    pub mono: Instant,
    /// Wall-clock time: for what people and other programs read (heartbeats, records).
    pub wall: SystemTime,
}

impl Now {
    /// Reads both clocks.
    pub fn read() -> Self {
        Self { mono: Instant::now(), wall: SystemTime::now() }
    }
}
