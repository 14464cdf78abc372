//! What clients and a broker say to each other.

use zmtp::{Message, MessageBuilder};

use super::{Delimiter, Head, ParseError, Part, Reader, ServiceName, Version, room, service};

/// MDP/0.2 commands between clients and broker.
const REQUEST: u8 = 1;
const PARTIAL: u8 = 2;
const FINAL: u8 = 3;

/// Frame headers and the header frame of any message, and some to spare, in bytes.
pub(super) const FRAMING: usize = 32;

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRequest<'a> {
    /// The client's version.
    pub version: Version,
    /// How its messages begin.
    pub delimiter: Delimiter,
    /// The service asked for: 1 to 255 bytes.
    pub service: &'a [u8],
    /// Everything behind the service name.
    pub body: Message,
}

impl<'a> ClientRequest<'a> {
    pub(super) fn read(version: Version, delimiter: Delimiter, mut reader: Reader<'a>) -> Result<Self, ParseError> {
        if version == Version::V02 {
            match reader.command()? {
                REQUEST => {}
                other => return Err(ParseError::Command(Some(other))),
            }
        }
        let service = service::check(reader.next()?)?;
        Ok(Self { version, delimiter, service, body: reader.body()? })
    }

    /// The message to send.
    pub fn to_message(&self) -> Message {
        let head = start(self.version, self.delimiter, self.service.len() + room(&self.body));
        let head = if self.version == Version::V02 { head.frame([REQUEST]) } else { head };
        head.frame(self.service).followed_by(&self.body)
    }
}

/// A reply to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientReply<'a> {
    /// The client's version.
    pub version: Version,
    /// How the client's messages begin.
    pub delimiter: Delimiter,
    /// Whether it is the last one; MDP/0.1 has no others.
    pub part: Part,
    /// The service that was asked for.
    pub service: &'a [u8],
    /// Everything behind the service name.
    pub body: Message,
}

impl<'a> ClientReply<'a> {
    /// Reads a message from a broker.
    ///
    /// # Errors
    /// It is not a reply to a client.
    pub fn parse(message: &'a Message) -> Result<Self, ParseError> {
        let mut reader = Reader::new(message);
        let Head::Client(version, delimiter) = reader.head()? else { return Err(ParseError::Header) };
        let part = match version {
            Version::V01 => Part::Final,
            Version::V02 => match reader.command()? {
                PARTIAL => Part::Partial,
                FINAL => Part::Final,
                other => return Err(ParseError::Command(Some(other))),
            },
        };
        let service = service::check(reader.next()?)?;
        Ok(Self { version, delimiter, part, service, body: reader.body()? })
    }

    /// The message to send; `None` for a partial reply in MDP/0.1, which cannot say it.
    pub fn to_message(&self) -> Option<Message> {
        let head = start(self.version, self.delimiter, self.service.len() + room(&self.body));
        let head = match (self.version, self.part) {
            (Version::V01, Part::Final) => head,
            (Version::V01, Part::Partial) => return None,
            (Version::V02, Part::Partial) => head.frame([PARTIAL]),
            (Version::V02, Part::Final) => head.frame([FINAL]),
        };
        Some(head.frame(self.service).followed_by(&self.body))
    }

    /// The service's name, to keep.
    ///
    /// # Errors
    /// None for a reply that was [parsed](Self::parse).
    pub fn service_name(&self) -> Result<ServiceName, super::ServiceNameError> {
        ServiceName::new(self.service)
    }
}

fn start(version: Version, delimiter: Delimiter, len: usize) -> MessageBuilder {
    let builder = Message::builder().reserve(FRAMING + len);
    let builder = if delimiter == Delimiter::Present { builder.frame("") } else { builder };
    builder.frame(version.client_header())
}
