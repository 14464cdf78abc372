//! Why a connection ended by the protocol.

use thiserror::Error;

use crate::mechanism::{SecurityFault, Stage};
use crate::wire::command::CommandError;
use crate::wire::frame::FrameError;
use crate::wire::greeting::{GreetingError, MechanismName};
use crate::wire::properties::PropertyError;
use crate::{RoutingIdError, SocketType};

/// What a peer did that ends its connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// Not a peer of our protocol.
    #[error(transparent)]
    Greeting(#[from] GreetingError),
    /// The two sides are configured for different mechanisms; ZMTP does not negotiate.
    #[error("the peer wants mechanism {theirs}, we want {ours}")]
    Mechanism {
        /// Ours.
        ours: MechanismName,
        /// The peer's.
        theirs: MechanismName,
    },
    /// A malformed frame header.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame larger than allowed, refused by its header.
    #[error("a frame of {size} bytes, more than the {max} allowed")]
    FrameTooLarge {
        /// Size announced, in bytes.
        size: u64,
        /// The limit, in bytes.
        max: u64,
    },
    /// A message larger than allowed, refused by the header of the frame that makes it so.
    #[error("a message of at least {size} bytes, more than the {max} allowed")]
    MessageTooLarge {
        /// Size so far with the frame announced, in bytes.
        size: u64,
        /// The limit, in bytes.
        max: u64,
    },
    /// A malformed command.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A malformed property list.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// A command out of place.
    #[error("a command that does not belong here")]
    UnexpectedCommand,
    /// A message frame before the handshake was complete.
    #[error("a message before the handshake was complete")]
    MessageInHandshake,
    /// The peer's socket type is unknown or may not talk to ours.
    #[error("a {ours} may not talk to a peer of type \"{}\"", theirs.escape_ascii())]
    SocketType {
        /// Ours.
        ours: SocketType,
        /// What the peer announced, cut to 16 bytes.
        theirs: Box<[u8]>,
    },
    /// The peer announced a routing id that it may not have.
    #[error(transparent)]
    RoutingId(#[from] RoutingIdError),
    /// The peer refused us.
    #[error("the peer refused the connection: \"{}\"", .0.escape_ascii())]
    Refused(Box<[u8]>),
    /// The security mechanism found something wrong.
    #[error("{stage}: {fault}")]
    Security {
        /// Where.
        stage: Stage,
        /// What.
        fault: SecurityFault,
    },
    /// The handshake did not complete in time.
    #[error("the handshake was not complete in time")]
    HandshakeTimeout,
    /// Nothing arrived in time after a PING, or within the TTL the peer asked for.
    #[error("the peer is silent: no traffic within the heartbeat timeout")]
    Silent,
}

/// Kinds of [`ConnectionError`], for counting and for not logging the same thing a thousand times.
impl ConnectionError {
    /// A small number that is the same for all errors of one variant.
    pub(crate) fn kind(&self) -> usize {
        match self {
            Self::Greeting(GreetingError::NotZmtp(_)) => 0,
            Self::Greeting(_) => 1,
            Self::Mechanism { .. } => 2,
            Self::Frame(_) => 3,
            Self::FrameTooLarge { .. } => 4,
            Self::MessageTooLarge { .. } => 5,
            Self::Command(_) => 6,
            Self::Property(_) => 7,
            Self::UnexpectedCommand => 8,
            Self::MessageInHandshake => 9,
            Self::SocketType { .. } => 10,
            Self::RoutingId(_) => 11,
            Self::Refused(_) => 12,
            Self::HandshakeTimeout => 13,
            Self::Silent => 14,
            Self::Security { fault: SecurityFault::Refused(_), .. } => 24,
            Self::Security { .. } => 25,
        }
    }
}
