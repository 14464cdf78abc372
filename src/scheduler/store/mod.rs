//! Where schedules survive a restart.

mod file;
mod memory;
mod redis;

use std::fmt;
use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use thiserror::Error;

pub use self::file::FileStore;
pub use self::memory::MemoryStore;
pub use self::redis::{RedisServer, RedisStore};
use super::record::Record;
use crate::emqp::ScheduleId;

/// One thing to be kept.
#[allow(clippy::large_enum_variant, reason = "changes live for one commit")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// This schedule, in place of the former one of its identity.
    Put(Record),
    /// No schedule of this identity.
    Remove(ScheduleId),
    /// Everything that was due up to here has been dealt with.
    RanUntil(Timestamp),
}

/// What a store has kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// The schedules, each identity once.
    pub records: Vec<Record>,
    /// Up to when what was due has been dealt with.
    pub ran_until: Option<Timestamp>,
}

/// Keeps schedules. Its calls may block, so a runtime makes them on a thread of their own.
pub trait ScheduleStore: fmt::Debug + Send {
    /// Everything that was kept. What cannot be read is logged, and stays where it is.
    ///
    /// # Errors
    /// The store cannot be read at all.
    fn load(&mut self, now: Timestamp) -> Result<Saved, StoreError>;

    /// Keeps changes, in this order: all or none of them, and so that a crash right after it loses none.
    ///
    /// # Errors
    /// They are not kept, or perhaps not.
    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError>;

    /// What and where it is, for people.
    fn place(&self) -> String;
}

/// Why a store cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process has the file open.
    #[error(
        "the schedules in {} are in use by another process; end it, or set schedule_file to another path", path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file or its folder cannot be made or opened.
    #[error("cannot open {}: {source}; correct the path (schedule_file) or its permissions", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not, or no longer, a store of schedules.
    #[error("{} cannot be read as a store of schedules: {source}; move it away to begin with none", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<::redb::Error>,
    },
    /// Reading or writing failed.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<::redb::Error>,
    },
    /// The Redis server cannot be reached or used.
    #[error("Redis at {server}: {source}")]
    Redis {
        /// Its address and database.
        server: String,
        /// What is wrong.
        source: ::redis::RedisError,
    },
}
