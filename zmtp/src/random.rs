//! [`Random`]: jitter and starting points; nothing secret.

/// A small generator (SplitMix64) with a seed from the system, or a fixed one in tests.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    #[cfg(test)]
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Seeded by the system; by the address of a local if the system has no randomness to give.
    pub(crate) fn from_system() -> Self {
        Self(getrandom::u64().unwrap_or_else(|_| {
            let here = 0u8;
            std::ptr::from_ref(&here).addr() as u64
        }))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In `0.0..1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
