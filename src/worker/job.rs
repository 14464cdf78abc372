//! [`Job`]: what a REQUEST asks for, and [`JobEnd`]: what became of it.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use zmtp::Message;

use crate::emqp::{Command, CommandName, Envelope, Header, Headers, MsgId, legible_msgid};

/// A job that is to run here.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name.
    pub msgid: MsgId,
    /// The queue it was sent to.
    pub queue: Bytes,
    /// The message frame: JSON, unread.
    pub payload: Bytes,
    /// Whether the broker wants the result.
    pub reply: bool,
    /// How long it may run.
    pub timeout: Option<Duration>,
}

/// Why a message is no job to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestError {
    /// Another command.
    NotAJob,
    /// A REQUEST, or what may have been one.
    Unreadable {
        /// Its name, if that much can be read.
        msgid: Option<MsgId>,
        /// Whether to answer.
        reply: bool,
        /// What is wrong.
        error: String,
    },
}

/// Index of the payload among the frames of a REQUEST.
const PAYLOAD_FRAME: usize = 6;
const QUEUE_FRAME: usize = 4;

impl Job {
    /// Reads a REQUEST.
    pub(super) fn read(message: &Message) -> Result<Self, RequestError> {
        let envelope = match Envelope::parse(message) {
            Ok(envelope) => envelope,
            Err(error) => {
                let msgid = legible_msgid(message, CommandName::Request);
                return Err(RequestError::Unreadable { msgid, reply: true, error: error.to_string() });
            }
        };
        let Command::Request(request) = envelope.command else { return Err(RequestError::NotAJob) };
        let msgid = envelope.msgid;
        let headers = request.headers.read().map_err(|error| RequestError::Unreadable {
            msgid: Some(msgid.clone()),
            reply: wants_reply(request.headers),
            error: error.to_string(),
        })?;
        Ok(Self {
            msgid,
            queue: message.frame_bytes(QUEUE_FRAME).unwrap_or_default(),
            payload: message.frame_bytes(PAYLOAD_FRAME).unwrap_or_default(),
            reply: headers.reply_requested,
            // As in Python, 0 is none.
            timeout: headers.timeout.filter(|seconds| *seconds > 0).map(Duration::from_secs),
        })
    }
}

fn wants_reply(headers: Headers<'_>) -> bool {
    headers.iter().any(|header| header == Ok(Header::ReplyRequested))
}

/// How a job ended, and what to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnd {
    /// The result frame: `{"value": ...}`, with an `error` beside it if the job failed. Empty if nobody asked.
    pub result: Bytes,
    /// What went wrong, in a line, for the log.
    pub error: Option<String>,
    /// The runner must not get another job.
    pub spent: bool,
}

/// The result frame of a failed job. `value` is what Python EventMQ would have put there.
#[derive(Debug, Serialize)]
struct Failure<'a> {
    value: &'a str,
    error: ErrorBody<'a>,
}

#[derive(Debug, Serialize)]
struct ErrorBody<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    message: &'a str,
    traceback: &'a str,
}

impl JobEnd {
    /// A job that returned; `result` is the result frame.
    pub fn success(result: Bytes) -> Self {
        Self { result, error: None, spent: false }
    }

    /// A job that failed for a reason that has a name.
    pub fn failure(kind: &str, message: &str) -> Self {
        Self::failed_with(message, kind, message)
    }

    pub(super) fn timeout(timeout: Option<Duration>) -> Self {
        let seconds = timeout.unwrap_or_default().as_secs_f64();
        Self::failed_with(
            "TimeoutError",
            "TimeoutError",
            &format!("the job ran longer than its timeout of {seconds} s"),
        )
    }

    pub(super) fn died(exit: &Exit) -> Self {
        Self::failure("ProcessDied", &format!("the job's process {exit}"))
    }

    fn failed_with(value: &str, kind: &str, message: &str) -> Self {
        let failure = Failure { value, error: ErrorBody { kind, message, traceback: "" } };
        // Serializing strings cannot fail; an empty error would still be a failure.
        let result = serde_json::to_vec(&failure).unwrap_or_else(|_| br#"{"value": "", "error": {}}"#.to_vec());
        Self { result: result.into(), error: Some(format!("{kind}: {message}")), spent: false }
    }
}

/// How a runner ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// With this exit status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// It could not be started, or gave up, for this reason.
    Failed(String),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "ended with exit status {status}"),
            Self::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was killed by signal {signal} ({name})"),
                None => write!(f, "was killed by signal {signal}"),
            },
            Self::Failed(reason) => write!(f, "failed: {reason}"),
        }
    }
}

/// Names of the signals that end processes; their numbers are the same on every Linux and BSD.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return None,
    })
}
