//! [`Command`]: what an eMQP message says.

use zmtp::Message;

use super::{Headers, MsgId, QueueList, QueueListError};

/// The word in the command frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommandName {
    /// `INFORM`
    Inform,
    /// `ACK`
    Ack,
    /// `READY`
    Ready,
    /// `REQUEST`
    Request,
    /// `REPLY`
    Reply,
    /// `HEARTBEAT`
    Heartbeat,
    /// `SCHEDULE`
    Schedule,
    /// `UNSCHEDULE`
    Unschedule,
    /// `PUBLISH`
    Publish,
    /// `DISCONNECT`
    Disconnect,
    /// `KBYE`; the specification spells it `KBAI`
    Kbye,
    /// `HELLO`
    Hello,
    /// `STATUS`
    Status,
    /// `ROUTER_SHOW_WORKERS`
    ShowWorkers,
    /// `ROUTER_SHOW_SCHEDULERS`
    ShowSchedulers,
    /// `ROUTER_SHOW_DEAD`, ours
    ShowDead,
    /// `ROUTER_RETRY_DEAD`, ours
    RetryDead,
}

impl CommandName {
    /// The command a frame names, in any of its spellings.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        Some(match frame {
            b"READY" => Self::Ready,
            b"REPLY" => Self::Reply,
            b"REQUEST" => Self::Request,
            b"HEARTBEAT" => Self::Heartbeat,
            b"INFORM" => Self::Inform,
            b"ACK" => Self::Ack,
            b"SCHEDULE" => Self::Schedule,
            b"UNSCHEDULE" => Self::Unschedule,
            b"PUBLISH" => Self::Publish,
            b"DISCONNECT" => Self::Disconnect,
            b"KBYE" | b"KBAI" => Self::Kbye,
            b"HELLO" => Self::Hello,
            b"STATUS" => Self::Status,
            b"ROUTER_SHOW_WORKERS" => Self::ShowWorkers,
            b"ROUTER_SHOW_SCHEDULERS" => Self::ShowSchedulers,
            b"ROUTER_SHOW_DEAD" => Self::ShowDead,
            b"ROUTER_RETRY_DEAD" => Self::RetryDead,
            _ => return None,
        })
    }

    /// The word as it is sent.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inform => "INFORM",
            Self::Ack => "ACK",
            Self::Ready => "READY",
            Self::Request => "REQUEST",
            Self::Reply => "REPLY",
            Self::Heartbeat => "HEARTBEAT",
            Self::Schedule => "SCHEDULE",
            Self::Unschedule => "UNSCHEDULE",
            Self::Publish => "PUBLISH",
            Self::Disconnect => "DISCONNECT",
            Self::Kbye => "KBYE",
            Self::Hello => "HELLO",
            Self::Status => "STATUS",
            Self::ShowWorkers => "ROUTER_SHOW_WORKERS",
            Self::ShowSchedulers => "ROUTER_SHOW_SCHEDULERS",
            Self::ShowDead => "ROUTER_SHOW_DEAD",
            Self::RetryDead => "ROUTER_RETRY_DEAD",
        }
    }
}

/// An eMQP command with its body, borrowed from the frames it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command<'a> {
    /// A worker or scheduler registers.
    Inform(Inform<'a>),
    /// An INFORM, or an admin's DISCONNECT, was taken.
    Ack {
        /// Message id of what was taken.
        acknowledged: MsgId,
    },
    /// A worker has one more free slot.
    Ready,
    /// A job.
    Request(Request<'a>),
    /// An acceptance, a result or an admin answer.
    Reply(Reply<'a>),
    /// A sign of life.
    Heartbeat {
        /// The sender's Unix time as decimal text; the early specification has no such frame.
        timestamp: Option<&'a [u8]>,
    },
    /// A job to run repeatedly.
    Schedule(Schedule<'a>),
    /// The end of a schedule.
    Unschedule(Schedule<'a>),
    /// A message for subscribers.
    Publish(Publish<'a>),
    /// The receiver shall end (admin) or register anew (worker).
    Disconnect,
    /// The sender leaves.
    Kbye,
    /// An admin shell greets.
    Hello,
    /// An admin asks for counters.
    Status,
    /// An admin asks for the workers.
    ShowWorkers,
    /// An admin asks for the schedulers.
    ShowSchedulers,
    /// An admin asks for the dead jobs.
    ShowDead,
    /// An admin wants dead jobs to run again.
    RetryDead {
        /// Only this one.
        job: Option<MsgId>,
    },
}

/// Body of an INFORM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inform<'a> {
    /// The queue list, unread: [`Inform::queue_list`].
    pub queues: &'a [u8],
    /// What registers; the early specification knows only workers and says nothing.
    pub kind: Option<PeerKind>,
}

impl Inform<'_> {
    /// The queues a worker asks for.
    pub fn queue_list(&self) -> Result<QueueList, QueueListError> {
        QueueList::parse(self.queues)
    }
}

/// The queues frame of a scheduler's INFORM that wants schedules only where no other scheduler is connected, ours. An
/// ordinary scheduler's is empty.
pub const STANDBY_SCHEDULER: &str = "standby";

/// What registers with a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerKind {
    /// Runs jobs.
    Worker,
    /// Keeps schedules.
    Scheduler,
}

impl PeerKind {
    /// The kind a frame names.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        match frame {
            b"worker" => Some(Self::Worker),
            b"scheduler" => Some(Self::Scheduler),
            _ => None,
        }
    }

    /// The word as it is sent.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Scheduler => "scheduler",
        }
    }
}

/// A REQUEST: the whole message, and its frames up to the payload.
///
/// Forwarding sends [`message`](Self::message) again, so the payload is never looked at or rebuilt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request<'a> {
    /// The message as it came.
    pub message: &'a Message,
    /// The queue named.
    pub queue: &'a [u8],
    /// The headers, unread.
    pub headers: Headers<'a>,
}

/// Body of a REPLY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply<'a> {
    /// One frame: the id of a request that was accepted, or the JSON answer to an admin.
    Single(&'a [u8]),
    /// Two frames: what a job returned.
    Result {
        /// JSON, unread.
        result: &'a [u8],
        /// The job's message id.
        request: MsgId,
    },
}

/// A SCHEDULE or UNSCHEDULE: the whole message and its frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule<'a> {
    /// The message as it came.
    pub message: &'a Message,
    /// Queue of the job.
    pub queue: &'a [u8],
    /// The headers, unread.
    pub headers: Headers<'a>,
    /// Seconds as decimal text, `-1` for none; the specification's table leaves it away.
    pub interval: Option<&'a [u8]>,
    /// The job's payload.
    pub payload: &'a [u8],
    /// The cron expression, perhaps empty; older senders leave it away.
    pub cron: Option<&'a [u8]>,
}

/// Body of a PUBLISH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publish<'a> {
    /// What subscribers filter by.
    pub topic: &'a [u8],
    /// In the specification's form only; Python sends none.
    pub headers: Option<Headers<'a>>,
    /// The payload.
    pub payload: &'a [u8],
}

impl Command<'_> {
    /// The word in the command frame.
    pub fn name(&self) -> CommandName {
        match self {
            Self::Inform(_) => CommandName::Inform,
            Self::Ack { .. } => CommandName::Ack,
            Self::Ready => CommandName::Ready,
            Self::Request(_) => CommandName::Request,
            Self::Reply(_) => CommandName::Reply,
            Self::Heartbeat { .. } => CommandName::Heartbeat,
            Self::Schedule(_) => CommandName::Schedule,
            Self::Unschedule(_) => CommandName::Unschedule,
            Self::Publish(_) => CommandName::Publish,
            Self::Disconnect => CommandName::Disconnect,
            Self::Kbye => CommandName::Kbye,
            Self::Hello => CommandName::Hello,
            Self::Status => CommandName::Status,
            Self::ShowWorkers => CommandName::ShowWorkers,
            Self::ShowSchedulers => CommandName::ShowSchedulers,
            Self::ShowDead => CommandName::ShowDead,
            Self::RetryDead { .. } => CommandName::RetryDead,
        }
    }
}
