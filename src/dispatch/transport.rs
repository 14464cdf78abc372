//! What a transport reports about connections and messages, whatever the protocol.

use zmtp::connection::ConnectionError;
use zmtp::{Reason, SendFailure};

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownReason {
    /// Closed by the peer, reset, or replaced: the peer may well come back at once.
    Closed,
    /// The peer stopped answering ZMTP heartbeats: it has been silent for a while already.
    Silent,
}

/// Why a message was not queued for a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The peer's queue is at its high-water mark; the peer is there.
    Full,
    /// No connection holds that routing id.
    Gone,
}

impl From<&Reason> for DownReason {
    fn from(reason: &Reason) -> Self {
        match reason {
            Reason::Protocol(ConnectionError::Silent) => Self::Silent,
            _ => Self::Closed,
        }
    }
}

impl From<SendFailure> for Why {
    fn from(failure: SendFailure) -> Self {
        if failure == SendFailure::Full { Self::Full } else { Self::Gone }
    }
}
