//! Sockets, one type each.

mod builder;
mod connections;
mod dealer;
pub(crate) mod end;
mod handle;
mod network;
mod options;
mod outgoing;
mod pair;
mod publish;
mod pull;
mod push;
mod receiving;
mod rep;
mod req;
mod router;
mod subscribe;
mod xpub;
mod xsub;

use std::time::Duration;

pub use self::builder::SocketBuilder;
pub use self::dealer::{Dealer, DealerReceiver, DealerSender};
pub(crate) use self::network::Network;
pub use self::network::{Ipv6, Keepalive, KeepaliveError, Resolve};
pub use self::options::{CanConflate, CanInvert, Immediate, LimitsTopics, ProbesRouters};
pub use self::pair::{Pair, PairReceiver, PairSender};
pub use self::publish::Pub;
pub use self::pull::Pull;
pub use self::push::Push;
pub use self::rep::Rep;
pub use self::req::Req;
pub use self::router::{Handover, Router, RouterEvent, RouterReceiver, RouterSender};
pub use self::subscribe::{Sub, SubReceiver, Subscriber};
pub use self::xpub::{Verbosity, XPub, XPubEvent, XPubReceiver, XPubSender};
pub use self::xsub::{XSub, XSubReceiver, XSubSender};
use crate::engine::pipe::Keep;

/// Pauses between attempts to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconnect {
    /// The first pause; doubled with each attempt that does not complete a handshake. Zero: never reconnect.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

/// What the machinery of a socket has to know, resolved.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) send_hwm: usize,
    pub(crate) receive_hwm: usize,
    pub(crate) linger: Option<Duration>,
    pub(crate) reconnect: Reconnect,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) max_handshakes: usize,
    pub(crate) max_connections: usize,
    pub(crate) backlog: u32,
    pub(crate) network: Network,
    /// What a full queue keeps.
    pub(crate) keep: Keep,
    /// Whether each new connection is sent an empty message.
    pub(crate) probe_router: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            send_hwm: 1000,
            receive_hwm: 1000,
            linger: None,
            reconnect: Reconnect { first: Duration::from_millis(100), longest: Duration::from_secs(5) },
            connect_timeout: None,
            max_handshakes: 1024,
            max_connections: usize::MAX,
            backlog: 1024,
            network: Network::default(),
            keep: Keep::Queued,
            probe_router: false,
        }
    }
}
