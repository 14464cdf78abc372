//! Errors of socket operations, one small type each.

use std::io;

use thiserror::Error;

use crate::EndpointError;
use crate::{Endpoint, Message, RoutingId};

/// Why an endpoint could not be bound.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// This endpoint can never be bound.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The system refused.
    #[error("cannot bind {endpoint}: {source}")]
    Io {
        /// The endpoint asked for.
        endpoint: Endpoint,
        /// What the system said.
        source: io::Error,
    },
    /// There is something else than a socket at that path; it is left alone.
    #[error("cannot bind {endpoint}: there is a file at that path that is not a socket")]
    NotASocket {
        /// The endpoint asked for.
        endpoint: Endpoint,
    },
    /// The socket is closed.
    #[error("the socket is closed")]
    Closed,
}

/// Why an endpoint is not connected to. Everything that may pass (no route, nobody there) is retried instead.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// This endpoint can never be connected to.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The routing id chosen for its peer is another peer's.
    #[error("routing id \"{0}\" is in use by another connection")]
    RoutingIdInUse(RoutingId),
    /// The socket is closed.
    #[error("the socket is closed")]
    Closed,
}

/// A message that was not queued, and why. The message is given back.
#[derive(Debug, Error)]
#[error("{reason}")]
pub struct SendError {
    /// Why.
    #[source]
    pub reason: SendFailure,
    /// The message, whole.
    pub message: Message,
}

/// Why a message was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendFailure {
    /// The peer, or every peer, is at its high-water mark, or there is no peer. It may be tried again.
    #[error("no room: the send queue is at its high-water mark")]
    Full,
    /// No connection has that routing id.
    #[error("no such peer")]
    Gone,
    /// It is not this side's turn: a REQ has no reply yet, or a REP no request to reply to.
    #[error("not our turn to send")]
    OutOfTurn,
    /// The socket is closed.
    #[error("the socket is closed")]
    Closed,
}

impl SendFailure {
    /// The error that gives the message back.
    pub(crate) fn with(self, message: Message) -> SendError {
        SendError { reason: self, message }
    }
}

/// Why a REQ has no reply, or a REP no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LockstepError {
    /// It is not this side's turn: a REQ has asked nothing, or a REP has not replied yet.
    #[error("not our turn to receive")]
    OutOfTurn,
    /// The socket is closed.
    #[error("the socket is closed")]
    Closed,
}

/// Why a topic cannot be subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// More than 65,536 bytes.
    #[error("a topic has at most 65536 bytes, this one has {0}")]
    TooLong(usize),
}

/// The socket is closed: nothing will be received any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the socket is closed")]
pub struct RecvError;
