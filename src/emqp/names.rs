//! Newtypes of what eMQP frames carry.

use std::borrow::Borrow;
use std::fmt;

use bytes::Bytes;

/// Name of a queue, as its frame carries it: opaque bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName(pub Bytes);

/// A worker's preference for a queue: higher is served first.
pub type QueueWeight = i64;

impl QueueName {
    /// A name of its own memory, independent of the buffer `name` lies in.
    pub fn copy_from(name: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(name))
    }

    /// The name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&'static str> for QueueName {
    fn from(name: &'static str) -> Self {
        Self(Bytes::from_static(name.as_bytes()))
    }
}

impl Borrow<[u8]> for QueueName {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for QueueName {
    /// Readable text as it is, anything else escaped: safe in a log line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}
