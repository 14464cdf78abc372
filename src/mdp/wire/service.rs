//! [`ServiceName`]: what a worker offers and a client asks for.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use thiserror::Error;

/// The longest service name, in bytes.
pub const MAX_SERVICE: usize = 255;

/// Names that begin so are the broker's own (RFC 8).
pub(crate) const MMI: &[u8] = b"mmi.";

/// A service name: 1 to 255 bytes, compared byte by byte; cheap to clone.
///
/// Printing one escapes what is not printable ASCII, so any name is safe in a log line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName(Bytes);

/// Why bytes cannot be a service name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ServiceNameError {
    /// No bytes at all.
    #[error("a service name needs at least one byte")]
    Empty,
    /// More than [`MAX_SERVICE`] bytes.
    #[error("a service name has at most 255 bytes, this one has {0}")]
    TooLong(usize),
}

impl ServiceName {
    /// A name of its own memory.
    ///
    /// # Errors
    /// It is empty or too long.
    pub fn new(name: impl AsRef<[u8]>) -> Result<Self, ServiceNameError> {
        let name = check(name.as_ref())?;
        Ok(Self(Bytes::copy_from_slice(name)))
    }

    /// The name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes, if they can be a name.
pub(super) fn check(name: &[u8]) -> Result<&[u8], ServiceNameError> {
    match name.len() {
        0 => Err(ServiceNameError::Empty),
        1..=MAX_SERVICE => Ok(name),
        len => Err(ServiceNameError::TooLong(len)),
    }
}

impl FromStr for ServiceName {
    type Err = ServiceNameError;

    fn from_str(name: &str) -> Result<Self, ServiceNameError> {
        Self::new(name)
    }
}

impl TryFrom<&str> for ServiceName {
    type Error = ServiceNameError;

    fn try_from(name: &str) -> Result<Self, ServiceNameError> {
        Self::new(name)
    }
}

impl AsRef<[u8]> for ServiceName {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for ServiceName {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}
