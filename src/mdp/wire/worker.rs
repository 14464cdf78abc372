//! What workers and a broker say to each other. The numbers of the versions differ from REPLY on.

use zmtp::{MAX_ROUTING_ID, Message, MessageBuilder};

use super::client::FRAMING;
use super::{Delimiter, Head, ParseError, Part, Reader, Version, room, service};

/// What a command byte says; each version has a numbering of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    Ready,
    Request,
    Reply(Part),
    Heartbeat,
    Disconnect,
}

impl Code {
    fn parse(version: Version, byte: u8) -> Result<Self, ParseError> {
        Ok(match (version, byte) {
            (_, 1) => Self::Ready,
            (_, 2) => Self::Request,
            (Version::V01, 3) => Self::Reply(Part::Final),
            (Version::V01, 4) => Self::Heartbeat,
            (Version::V01, 5) => Self::Disconnect,
            (Version::V02, 3) => Self::Reply(Part::Partial),
            (Version::V02, 4) => Self::Reply(Part::Final),
            (Version::V02, 5) => Self::Heartbeat,
            (Version::V02, 6) => Self::Disconnect,
            _ => return Err(ParseError::Command(Some(byte))),
        })
    }

    /// `None` for what the version cannot say: a partial reply in MDP/0.1.
    fn byte(self, version: Version) -> Option<u8> {
        Some(match (version, self) {
            (_, Self::Ready) => 1,
            (_, Self::Request) => 2,
            (Version::V01, Self::Reply(Part::Partial)) => return None,
            (Version::V01, Self::Reply(Part::Final)) | (Version::V02, Self::Reply(Part::Partial)) => 3,
            (Version::V01, Self::Heartbeat) | (Version::V02, Self::Reply(Part::Final)) => 4,
            (Version::V01, Self::Disconnect) | (Version::V02, Self::Heartbeat) => 5,
            (Version::V02, Self::Disconnect) => 6,
        })
    }
}

/// What a worker says to a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromWorker<'a> {
    /// It registers for a service.
    Ready {
        /// The service: 1 to 255 bytes.
        service: &'a [u8],
    },
    /// A reply to the request it has.
    Reply {
        /// Whether it is the last one.
        part: Part,
        /// The client's address, as it was in the request.
        client: &'a [u8],
        /// Everything behind the empty frame.
        body: Message,
    },
    /// A sign of life.
    Heartbeat,
    /// It leaves.
    Disconnect,
}

impl<'a> FromWorker<'a> {
    pub(super) fn read(version: Version, mut reader: Reader<'a>) -> Result<Self, ParseError> {
        Ok(match Code::parse(version, reader.command()?)? {
            Code::Ready => {
                let service = service::check(reader.next()?)?;
                reader.end()?;
                Self::Ready { service }
            }
            Code::Reply(part) => {
                let client = address(&mut reader)?;
                Self::Reply { part, client, body: reader.body()? }
            }
            Code::Heartbeat => reader.end().map(|()| Self::Heartbeat)?,
            Code::Disconnect => reader.end().map(|()| Self::Disconnect)?,
            Code::Request => return Err(ParseError::Command(Some(2))),
        })
    }

    /// The message to send; `None` for a partial reply in MDP/0.1, which cannot say it.
    pub fn to_message(&self, version: Version) -> Option<Message> {
        Some(match self {
            Self::Ready { service } => start(version, Code::Ready, service.len())?.frame(service).build(),
            Self::Reply { part, client, body } => {
                start(version, Code::Reply(*part), client.len() + room(body))?.frame(client).frame("").followed_by(body)
            }
            Self::Heartbeat => start(version, Code::Heartbeat, 0)?.build(),
            Self::Disconnect => start(version, Code::Disconnect, 0)?.build(),
        })
    }
}

/// What a broker says to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToWorker<'a> {
    /// Work.
    Request {
        /// The client's address, to be given back with the reply.
        client: &'a [u8],
        /// Everything behind the empty frame.
        body: Message,
    },
    /// A sign of life.
    Heartbeat,
    /// The worker is to register anew, over a new connection.
    Disconnect,
}

impl<'a> ToWorker<'a> {
    /// Reads a message from a broker.
    ///
    /// # Errors
    /// It is not one that a worker may get.
    pub fn parse(message: &'a Message) -> Result<(Version, Self), ParseError> {
        let mut reader = Reader::new(message);
        let Head::Worker(version, _) = reader.head()? else { return Err(ParseError::Header) };
        let command = match Code::parse(version, reader.command()?)? {
            Code::Request => {
                let client = address(&mut reader)?;
                Self::Request { client, body: reader.body()? }
            }
            Code::Heartbeat => reader.end().map(|()| Self::Heartbeat)?,
            Code::Disconnect => reader.end().map(|()| Self::Disconnect)?,
            code @ (Code::Ready | Code::Reply(_)) => return Err(ParseError::Command(code.byte(version))),
        };
        Ok((version, command))
    }

    /// The message to send.
    pub fn to_message(&self, version: Version, delimiter: Delimiter) -> Message {
        let start = |code, len| begin(version, delimiter, code, len);
        match self {
            Self::Request { client, body } => {
                start(Code::Request, client.len() + room(body)).frame(client).frame("").followed_by(body)
            }
            Self::Heartbeat => start(Code::Heartbeat, 0).build(),
            Self::Disconnect => start(Code::Disconnect, 0).build(),
        }
    }

    /// Frames in front of a REQUEST's body.
    pub(crate) fn body_index(delimiter: Delimiter) -> usize {
        match delimiter {
            Delimiter::Present => 5,
            Delimiter::Absent => 4,
        }
    }
}

fn address<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], ParseError> {
    let client = reader.next()?;
    if client.is_empty() || client.len() > MAX_ROUTING_ID {
        return Err(ParseError::Address);
    }
    if !reader.next()?.is_empty() {
        return Err(ParseError::NoAddressDelimiter);
    }
    Ok(client)
}

fn start(version: Version, code: Code, len: usize) -> Option<MessageBuilder> {
    code.byte(version)?;
    Some(begin(version, Delimiter::of(version), code, len))
}

fn begin(version: Version, delimiter: Delimiter, code: Code, len: usize) -> MessageBuilder {
    let builder = Message::builder().reserve(FRAMING + len);
    let builder = if delimiter == Delimiter::Present { builder.frame("") } else { builder };
    // Only a partial reply has no number, and only a worker of MDP/0.2 sends one.
    builder.frame(version.worker_header()).frame([code.byte(version).unwrap_or_default()])
}
