//! The frames of MDP/0.1 (RFC 7) and MDP/0.2 (RFC 18), as a DEALER sends and receives them.
//!
//! | command | 0.1 | 0.2 |
//! |---|---|---|
//! | client's request | `"" MDPC01 service body...` | `MDPC02 1 service body...` |
//! | reply to a client | `"" MDPC01 service body...` | `MDPC02 2 (partial) or 3 (final) service body...` |
//! | READY | `"" MDPW01 1 service` | `MDPW02 1 service` |
//! | REQUEST | `"" MDPW01 2 client "" body...` | `MDPW02 2 client "" body...` |
//! | REPLY | `"" MDPW01 3 client "" body...` | `MDPW02 3 (partial) or 4 (final) client "" body...` |
//! | HEARTBEAT | `"" MDPW01 4` | `MDPW02 5` |
//! | DISCONNECT | `"" MDPW01 5` | `MDPW02 6` |
//!
//! Bodies have one frame or more, which are passed on as they are.

mod client;
mod service;
mod worker;

use thiserror::Error;
use zmtp::{Frames, Message};

pub use client::{ClientReply, ClientRequest};
pub(crate) use service::MMI;
pub use service::{MAX_SERVICE, ServiceName, ServiceNameError};
pub use worker::{FromWorker, ToWorker};

/// A version of the protocol: peers of both are served side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Version {
    /// MDP/0.1: one reply to a request.
    #[default]
    V01,
    /// MDP/0.2: any number of partial replies, then a final one.
    V02,
}

impl Version {
    /// The header of messages between clients and broker.
    pub fn client_header(self) -> &'static [u8; 6] {
        match self {
            Self::V01 => b"MDPC01",
            Self::V02 => b"MDPC02",
        }
    }

    /// The header of messages between workers and broker.
    pub fn worker_header(self) -> &'static [u8; 6] {
        match self {
            Self::V01 => b"MDPW01",
            Self::V02 => b"MDPW02",
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V01 => "MDP/0.1",
            Self::V02 => "MDP/0.2",
        })
    }
}

/// Whether a reply is the last one to its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// More follow (MDP/0.2 only).
    Partial,
    /// The last one, or the only one.
    Final,
}

/// How a peer's messages begin; answers begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delimiter {
    /// With an empty frame, as a REQ adds it: always in MDP/0.1, tolerated in MDP/0.2.
    Present,
    /// With the header.
    Absent,
}

impl Delimiter {
    /// What a version asks for.
    pub fn of(version: Version) -> Self {
        match version {
            Version::V01 => Self::Present,
            Version::V02 => Self::Absent,
        }
    }
}

/// Why a message is not MDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Neither MDP/0.1 nor MDP/0.2.
    #[error("there is no MDP/0.1 or MDP/0.2 header")]
    Header,
    /// MDP/0.1 without the empty frame in front.
    #[error("MDP/0.1 without the empty frame in front")]
    NoDelimiter,
    /// Too few frames for what it claims to be.
    #[error("{0} frames are too few")]
    TooFewFrames(usize),
    /// More frames than what it claims to be has.
    #[error("{0} frames are too many")]
    TooManyFrames(usize),
    /// A command the version does not have, or not from this side.
    #[error("unknown command {0:?}")]
    Command(Option<u8>),
    /// A command frame that is not one byte.
    #[error("the command is not one byte")]
    CommandLength,
    /// A service name that cannot be one.
    #[error("bad service name: {0}")]
    Service(#[from] ServiceNameError),
    /// A client's address that cannot be one.
    #[error("the client's address is empty or longer than 255 bytes")]
    Address,
    /// No empty frame behind the client's address.
    #[error("no empty frame behind the client's address")]
    NoAddressDelimiter,
}

/// The start of a message: who talks to whom, in which version.
pub(crate) enum Head {
    Client(Version, Delimiter),
    Worker(Version, Delimiter),
}

/// A message on its way to being read: how many frames were taken, and the rest.
pub(crate) struct Reader<'a> {
    message: &'a Message,
    frames: Frames<'a>,
    taken: usize,
}

impl<'a> Reader<'a> {
    pub fn new(message: &'a Message) -> Self {
        Self { message, frames: message.frames(), taken: 0 }
    }

    pub fn next(&mut self) -> Result<&'a [u8], ParseError> {
        self.taken += 1;
        self.frames.next().ok_or(ParseError::TooFewFrames(self.message.frame_count()))
    }

    pub fn head(&mut self) -> Result<Head, ParseError> {
        let mut header = self.next()?;
        let mut delimiter = Delimiter::Absent;
        if header.is_empty() {
            delimiter = Delimiter::Present;
            header = self.next()?;
        }
        match (header, delimiter) {
            (b"MDPC01" | b"MDPW01", Delimiter::Absent) => Err(ParseError::NoDelimiter),
            (b"MDPC01", _) => Ok(Head::Client(Version::V01, delimiter)),
            (b"MDPW01", _) => Ok(Head::Worker(Version::V01, delimiter)),
            (b"MDPC02", _) => Ok(Head::Client(Version::V02, delimiter)),
            (b"MDPW02", _) => Ok(Head::Worker(Version::V02, delimiter)),
            _ => Err(ParseError::Header),
        }
    }

    pub fn command(&mut self) -> Result<u8, ParseError> {
        match *self.next()? {
            [command] => Ok(command),
            _ => Err(ParseError::CommandLength),
        }
    }

    /// Everything behind what was taken: at least one frame.
    pub fn body(&self) -> Result<Message, ParseError> {
        self.message.skip_frames(self.taken).ok_or(ParseError::TooFewFrames(self.message.frame_count()))
    }

    /// Nothing may follow.
    pub fn end(mut self) -> Result<(), ParseError> {
        match self.frames.next() {
            None => Ok(()),
            Some(_) => Err(ParseError::TooManyFrames(self.message.frame_count())),
        }
    }
}

/// Bytes to reserve for a body that is put behind other frames: a large one is shared, not copied.
fn room(body: &Message) -> usize {
    const SHARED: usize = 8 * 1024;
    Some(body.wire_len()).filter(|len| *len < SHARED).unwrap_or(0)
}

/// A message from whoever talks to a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToBroker<'a> {
    /// A client asks.
    Request(ClientRequest<'a>),
    /// A worker says something.
    Worker {
        /// The worker's version.
        version: Version,
        /// How its messages begin.
        delimiter: Delimiter,
        /// What it says.
        command: FromWorker<'a>,
    },
}

impl<'a> ToBroker<'a> {
    /// Reads a message, walking its frames once; a body is shared, not copied.
    ///
    /// # Errors
    /// It is not one that a broker may get.
    pub fn parse(message: &'a Message) -> Result<Self, ParseError> {
        let mut reader = Reader::new(message);
        match reader.head()? {
            Head::Client(version, delimiter) => Ok(Self::Request(ClientRequest::read(version, delimiter, reader)?)),
            Head::Worker(version, delimiter) => {
                Ok(Self::Worker { version, delimiter, command: FromWorker::read(version, reader)? })
            }
        }
    }
}

#[cfg(test)]
mod tests;
