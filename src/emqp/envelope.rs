//! [`Envelope`]: frames to a command and back.

use thiserror::Error;
use zmtp::{Frames, Message};

use super::{Command, CommandName, Headers, Inform, MsgId, MsgIdError, PeerKind, Publish, Reply, Request, Schedule};

/// The protocol's name and version, as its frame carries it.
pub const PROTOCOL: &str = "eMQP/1.0";
/// Index of the frame with the message id, counted on a DEALER.
pub const MSGID_FRAME: usize = 3;
/// Index of a REQUEST's headers frame, counted on a DEALER.
pub const REQUEST_HEADERS_FRAME: usize = 5;

/// Frames in front of a body.
const HEAD: usize = 4;
/// Most body frames of any command.
const MAX_BODY: usize = 5;

/// A command and the id of the message that carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The message's own id.
    pub msgid: MsgId,
    /// What it says.
    pub command: Command<'a>,
}

/// Why frames are not an eMQP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Too few frames for any message.
    #[error("{0} frames are too few")]
    TooFewFrames(usize),
    /// The first frame is not empty.
    #[error("the first frame is not empty")]
    Delimiter,
    /// The second frame is not [`PROTOCOL`].
    #[error("the second frame is not eMQP/1.0")]
    Protocol,
    /// A command nobody knows.
    #[error("unknown command")]
    Command,
    /// A message id that cannot be one.
    #[error("bad message id: {0}")]
    MsgId(#[source] MsgIdError),
    /// A body frame that should name another message does not.
    #[error("bad message id in the body: {0}")]
    BodyMsgId(#[source] MsgIdError),
    /// Too few or too many frames behind the message id.
    #[error("{} with {frames} body frames", command.as_str())]
    BodyFrames {
        /// The command.
        command: CommandName,
        /// How many there are.
        frames: usize,
    },
    /// An INFORM of neither a worker nor a scheduler.
    #[error("INFORM of an unknown kind of peer")]
    PeerKind,
}

/// The body frames of one message; no command has more than [`MAX_BODY`].
struct Body<'a> {
    frames: [&'a [u8]; MAX_BODY],
    count: usize,
}

impl<'a> Envelope<'a> {
    /// Reads a message, as a DEALER sends or receives it. Walks the frames once and copies nothing but ids.
    pub fn parse(message: &'a Message) -> Result<Self, ParseError> {
        let mut frames = message.frames();
        let mut next = || frames.next().ok_or(ParseError::TooFewFrames(message.frame_count()));
        if !next()?.is_empty() {
            return Err(ParseError::Delimiter);
        }
        if next()? != PROTOCOL.as_bytes() {
            return Err(ParseError::Protocol);
        }
        let name = CommandName::parse(next()?).ok_or(ParseError::Command)?;
        let msgid = MsgId::new(next()?).map_err(ParseError::MsgId)?;
        let count = message.frame_count() - HEAD;
        let body = Body::read(frames, count).ok_or(ParseError::BodyFrames { command: name, frames: count })?;
        Ok(Self { msgid, command: Command::parse(name, message, &body)? })
    }

    /// The message to send.
    pub fn to_message(&self) -> Message {
        self.command.to_message(&self.msgid)
    }
}

impl<'a> Body<'a> {
    fn read(frames: Frames<'a>, count: usize) -> Option<Self> {
        let mut body = Self { frames: [&[]; MAX_BODY], count };
        if count > MAX_BODY {
            return None;
        }
        for (place, frame) in body.frames.iter_mut().zip(frames) {
            *place = frame;
        }
        Some(body)
    }

    fn all(&self) -> &[&'a [u8]] {
        &self.frames[..self.count]
    }
}

impl<'a> Command<'a> {
    fn parse(name: CommandName, message: &'a Message, body: &Body<'a>) -> Result<Self, ParseError> {
        let id = |frame: &[u8]| MsgId::new(frame).map_err(ParseError::BodyMsgId);
        let kind = |frame: &[u8]| PeerKind::parse(frame).ok_or(ParseError::PeerKind);
        Ok(match (name, body.all()) {
            (CommandName::Ready, []) => Self::Ready,
            (CommandName::Reply, &[result, request]) => Self::Reply(Reply::Result { result, request: id(request)? }),
            (CommandName::Reply, &[single]) => Self::Reply(Reply::Single(single)),
            (CommandName::Request, &[queue, headers, _]) => {
                Self::Request(Request { message, queue, headers: Headers(headers) })
            }
            (CommandName::Heartbeat, []) => Self::Heartbeat { timestamp: None },
            (CommandName::Heartbeat, &[timestamp]) => Self::Heartbeat { timestamp: Some(timestamp) },
            (CommandName::Inform, &[queues]) => Self::Inform(Inform { queues, kind: None }),
            (CommandName::Inform, &[queues, kind_frame]) => {
                Self::Inform(Inform { queues, kind: Some(kind(kind_frame)?) })
            }
            (CommandName::Ack, &[acknowledged]) => Self::Ack { acknowledged: id(acknowledged)? },
            (CommandName::Schedule, frames @ [_, _, _, ..]) => Self::Schedule(Schedule::read(message, frames)),
            (CommandName::Unschedule, frames @ [_, _, _, ..]) => Self::Unschedule(Schedule::read(message, frames)),
            (CommandName::Publish, &[topic, payload]) => Self::Publish(Publish { topic, headers: None, payload }),
            (CommandName::Publish, &[topic, headers, payload]) => {
                Self::Publish(Publish { topic, headers: Some(Headers(headers)), payload })
            }
            (CommandName::Disconnect, []) => Self::Disconnect,
            (CommandName::Kbye, []) => Self::Kbye,
            (CommandName::Hello, []) => Self::Hello,
            (CommandName::Status, []) => Self::Status,
            (CommandName::ShowWorkers, []) => Self::ShowWorkers,
            (CommandName::ShowSchedulers, []) => Self::ShowSchedulers,
            (CommandName::ShowDead, []) => Self::ShowDead,
            (CommandName::RetryDead, []) => Self::RetryDead { job: None },
            (CommandName::RetryDead, &[job]) => Self::RetryDead { job: Some(id(job)?) },
            (command, frames) => return Err(ParseError::BodyFrames { command, frames: frames.len() }),
        })
    }

    /// The message to send, under an id of its own.
    pub fn to_message(&self, msgid: &MsgId) -> Message {
        let with = |body: &[&[u8]]| message(self.name(), msgid, body);
        match self {
            Self::Request(request) => request.message.clone(),
            Self::Schedule(schedule) | Self::Unschedule(schedule) => schedule.message.clone(),
            Self::Inform(Inform { queues, kind: None }) => with(&[queues]),
            Self::Inform(Inform { queues, kind: Some(kind) }) => with(&[queues, kind.as_str().as_bytes()]),
            Self::Ack { acknowledged } => with(&[acknowledged.as_bytes()]),
            Self::Reply(Reply::Single(body)) => with(&[body]),
            Self::Reply(Reply::Result { result, request }) => with(&[result, request.as_bytes()]),
            Self::Heartbeat { timestamp: Some(timestamp) } => with(&[timestamp]),
            Self::Publish(Publish { topic, headers: None, payload }) => with(&[topic, payload]),
            Self::Publish(Publish { topic, headers: Some(headers), payload }) => with(&[topic, headers.0, payload]),
            Self::RetryDead { job: Some(job) } => with(&[job.as_bytes()]),
            Self::Ready
            | Self::Heartbeat { timestamp: None }
            | Self::Disconnect
            | Self::Kbye
            | Self::Hello
            | Self::Status
            | Self::ShowWorkers
            | Self::ShowSchedulers
            | Self::ShowDead
            | Self::RetryDead { job: None } => with(&[]),
        }
    }
}

impl Request<'_> {
    /// A REQUEST message of these parts.
    pub fn build(msgid: &MsgId, queue: &[u8], headers: &[u8], payload: &[u8]) -> Message {
        message(CommandName::Request, msgid, &[queue, headers, payload])
    }
}

impl<'a> Schedule<'a> {
    /// `frames` are at least three.
    fn read(message: &'a Message, frames: &[&'a [u8]]) -> Self {
        let (queue, headers) = (frames[0], Headers(frames[1]));
        match *frames {
            [_, _, interval, payload] => {
                Self { message, queue, headers, interval: Some(interval), payload, cron: None }
            }
            [_, _, interval, payload, cron] => {
                Self { message, queue, headers, interval: Some(interval), payload, cron: Some(cron) }
            }
            _ => Self { message, queue, headers, interval: None, payload: frames[2], cron: None },
        }
    }

    /// A SCHEDULE or UNSCHEDULE message as Python sends it.
    pub fn build(name: CommandName, msgid: &MsgId, body: [&[u8]; MAX_BODY]) -> Message {
        message(name, msgid, &body)
    }
}

/// The message id of something that may be too broken to parse, to answer it.
pub fn legible_msgid(message: &Message, command: CommandName) -> Option<MsgId> {
    let mut frames = message.frames();
    (frames.next() == Some(b"") && frames.next() == Some(PROTOCOL.as_bytes())).then_some(())?;
    (frames.next() == Some(command.as_str().as_bytes())).then_some(())?;
    MsgId::new(frames.next()?).ok()
}

/// A message of at most [`MAX_BODY`] body frames; more are left out.
fn message(name: CommandName, msgid: &MsgId, body: &[&[u8]]) -> Message {
    let mut frames: [&[u8]; HEAD + MAX_BODY] = [&[]; HEAD + MAX_BODY];
    frames[1] = PROTOCOL.as_bytes();
    frames[2] = name.as_str().as_bytes();
    frames[3] = msgid.as_bytes();
    let count = body.len().min(MAX_BODY);
    frames[HEAD..HEAD + count].copy_from_slice(&body[..count]);
    Message::copy_from(&frames[..HEAD + count])
}

#[cfg(test)]
mod tests;
