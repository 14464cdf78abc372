//! Where jobs are kept: the place a disk store hooks in.
//!
//! Durability is an order on effects. A core that journals emits [`Record`]s, numbered from 1, and stamps each message
//! with the record it must wait for; the shell appends the records to a [`Store`] and holds the messages back in a
//! [`Gate`](crate::broker::Gate) until the store says that they are safe. With [`MemoryStore`] nothing is recorded and
//! nothing waits: what is held is lost with the process.

mod memory;

use std::io;

use thiserror::Error;
use zmtp::{Message, RoutingId};

pub use memory::MemoryStore;

use crate::emqp::MsgId;

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
pub enum Record {
    /// It was taken.
    Accepted {
        /// Who asked.
        client: RoutingId,
        /// The REQUEST, whole.
        message: Message,
    },
    /// It was handed to a worker once more.
    Dispatched {
        /// The job.
        msgid: MsgId,
    },
    /// It ended.
    Ended {
        /// The job.
        msgid: MsgId,
    },
}

/// Why records could not be kept.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The medium failed.
    #[error("writing the job store: {0}")]
    Io(#[from] io::Error),
}

/// Keeps records. Appending is cheap and promises nothing; a commit makes everything appended before it safe, so that
/// one wait on the medium serves all records that came meanwhile.
pub trait Store: Send + std::fmt::Debug {
    /// Takes the next record.
    fn append(&mut self, record: Record);

    /// Makes what was appended safe and says how far that reaches.
    fn commit(&mut self) -> Result<StoreSeq, StoreError>;
}
