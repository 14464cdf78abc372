//! What goes wrong between two peers under a mechanism, and where.

use std::fmt;

use thiserror::Error;

use super::auth::Refusal;
use super::{Context, EntropyError};
use crate::connection::ConnectionError;
use crate::wire::command;

/// How far a handshake was, by the command that mattered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// The greeting.
    Greeting,
    /// The client's first command.
    Hello,
    /// The server's answer to HELLO.
    Welcome,
    /// The client's second command.
    Initiate,
    /// The command that ends the handshake.
    Ready,
    /// Traffic after the handshake.
    Message,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Greeting => "greeting",
            Self::Hello => "HELLO",
            Self::Welcome => "WELCOME",
            Self::Initiate => "INITIATE",
            Self::Ready => "READY",
            Self::Message => "MESSAGE",
        })
    }
}

/// What is wrong with a command or a peer under a security mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SecurityFault {
    /// Another command than the one that has to come now.
    #[error("another command came instead")]
    Unexpected,
    /// A length that this command cannot have.
    #[error("wrong length")]
    Length,
    /// A CurveZMQ version other than 1.0.
    #[error("a CurveZMQ version other than 1.0")]
    Version,
    /// Bytes that have to be zero are not.
    #[error("bytes that have to be zero are not")]
    Padding,
    /// A box that does not open: it was made with another key, or changed on its way.
    #[error("the box does not open: wrong key, or tampered with")]
    Box,
    /// A public key of low order, with which anybody could read along.
    #[error("a weak public key")]
    WeakKey,
    /// The cookie was not made on this connection.
    #[error("the cookie is not of this connection")]
    Cookie,
    /// The client vouches for another connection, or to another server.
    #[error("the vouch is for another connection or server")]
    Vouch,
    /// A counter that is not larger than the one before: a replay.
    #[error("the counter does not increase: a replay")]
    Counter,
    /// Every counter has been used: the connection has to be made anew.
    #[error("no counter left")]
    Exhausted,
    /// Flags inside a box that do not exist.
    #[error("invalid flags in the box")]
    Flags,
    /// A frame in clear after the handshake.
    #[error("a frame in clear")]
    Clear,
    /// The authenticator refused the peer.
    #[error("the authenticator refused the peer: {0}")]
    Refused(Refusal),
    /// We have no randomness to make keys from.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}

impl Stage {
    /// The error of a fault at this stage.
    pub(crate) fn error(self, fault: impl Into<SecurityFault>) -> ConnectionError {
        ConnectionError::Security { stage: self, fault: fault.into() }
    }

    /// The error of an authenticator's refusal; tells the peer its code, except that a temporary one is silent, so
    /// that the peer comes back (RFC 27).
    pub(super) fn refuse(self, refusal: Refusal, cx: &mut Context<'_>) -> ConnectionError {
        if refusal != Refusal::Temporary {
            command::put(cx.out, "ERROR", &[&[3], refusal.code().to_string().as_bytes()]);
        }
        self.error(SecurityFault::Refused(refusal))
    }
}
