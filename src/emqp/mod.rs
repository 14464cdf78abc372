//! eMQP/1.0: the messages EventMQ's programs exchange.
//!
//! A message on a DEALER is `"" | "eMQP/1.0" | COMMAND | msgid | body...`. [`Envelope::parse`] turns the frames of a
//! [`zmtp::Message`] into a [`Command`] that borrows them; [`Envelope::to_message`] is the way back. Where the published
//! protocol and EventMQ 0.3.13 for Python differ, both forms are accepted and the one Python understands is sent.

mod command;
mod envelope;
mod headers;
mod identity;
mod ids;
mod json;
mod names;
mod outcome;
mod queues;

pub use command::{Command, CommandName, Inform, PeerKind, Publish, Reply, Request, STANDBY_SCHEDULER, Schedule};
pub use envelope::{Envelope, MSGID_FRAME, PROTOCOL, ParseError, REQUEST_HEADERS_FRAME, legible_msgid};
pub use headers::{Header, HeaderError, HeaderName, Headers, JobHeaders};
pub use identity::{IdentityError, ScheduleId, ScheduleIdError, ScheduledCall};
pub use ids::{MAX_MSGID, MsgId, MsgIdError, MsgIds};
pub use json::{JsonError, JsonProblem};
pub use names::{QueueName, QueueWeight};
pub use outcome::{JobError, JobErrorKind, Outcome};
pub use queues::{MAX_QUEUES, QueueList, QueueListError};
