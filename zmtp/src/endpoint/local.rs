//! Endpoints on this machine: a path for ipc, a name for inproc.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::EndpointError;

/// The longest ipc path, in bytes: what a Unix socket address holds beside its final zero.
pub(super) const MAX_PATH: usize = 107;

/// The address of an ipc endpoint: a path, an abstract name, or `*` for a path made by binding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IpcEndpoint(String);

/// Name of an inproc endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InprocEndpoint(String);

/// The three forms of an [`IpcEndpoint`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IpcAddress<'a> {
    /// A socket file; a relative path is relative to the working directory.
    Path(&'a Path),
    /// A name in Linux's abstract namespace: no file, gone with its listener.
    Abstract(&'a str),
    /// `*`: a fresh file in a fresh directory that only its owner may enter.
    Wildcard,
}

impl IpcEndpoint {
    /// Which form it has.
    pub fn address(&self) -> IpcAddress<'_> {
        match self.0.strip_prefix('@') {
            Some(name) => IpcAddress::Abstract(name),
            None if self.0 == "*" => IpcAddress::Wildcard,
            None => IpcAddress::Path(Path::new(&self.0)),
        }
    }

    /// What stands behind `ipc://`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl InprocEndpoint {
    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// Parses what stands behind `ipc://`.
impl FromStr for IpcEndpoint {
    type Err = EndpointError;

    fn from_str(path: &str) -> Result<Self, EndpointError> {
        match path {
            "" => return Err(EndpointError::MissingPath),
            "@" => return Err(EndpointError::MissingAbstractName),
            _ => {}
        }
        refuse_zero_byte(path)?;
        if path.len() > MAX_PATH {
            return Err(EndpointError::PathTooLong { path: path.to_owned(), length: path.len() });
        }
        if path.ends_with('/') && !path.starts_with('@') {
            return Err(EndpointError::DirectoryPath { path: path.to_owned() });
        }
        Ok(Self(path.to_owned()))
    }
}

/// Parses what stands behind `inproc://`.
impl FromStr for InprocEndpoint {
    type Err = EndpointError;

    fn from_str(name: &str) -> Result<Self, EndpointError> {
        if name.is_empty() {
            return Err(EndpointError::MissingName);
        }
        refuse_zero_byte(name)?;
        Ok(Self(name.to_owned()))
    }
}

fn refuse_zero_byte(name: &str) -> Result<(), EndpointError> {
    match name.bytes().position(|byte| byte == 0) {
        Some(at) => Err(EndpointError::ZeroByte { name: name.to_owned(), at: at + 1 }),
        None => Ok(()),
    }
}

impl fmt::Display for IpcEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for InprocEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
