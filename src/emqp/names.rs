//! Newtypes of what eMQP frames carry.

use bytes::Bytes;

/// Name of a queue, as its frame carries it: opaque bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName(pub Bytes);

/// A worker's preference for a queue: higher is served first.
pub type QueueWeight = i64;
