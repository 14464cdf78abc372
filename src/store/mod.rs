//! Where jobs are kept: the place a disk store hooks in.

/// Number of a store record, counted up from 1 by the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StoreSeq(pub u64);

impl StoreSeq {
    /// Before any record: nothing to wait for.
    pub const NONE: Self = Self(0);
}

/// One durable fact about a job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Record {}
