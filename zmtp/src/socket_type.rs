//! [`SocketType`]: the eleven kinds of ZeroMQ sockets and who may talk to whom.

use std::fmt;

/// A ZeroMQ socket type, as a peer announces it in its READY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum SocketType {
    Pair,
    Pub,
    Sub,
    Req,
    Rep,
    Dealer,
    Router,
    Pull,
    Push,
    XPub,
    XSub,
}

impl SocketType {
    const ALL: [Self; 11] = [
        Self::Pair,
        Self::Pub,
        Self::Sub,
        Self::Req,
        Self::Rep,
        Self::Dealer,
        Self::Router,
        Self::Pull,
        Self::Push,
        Self::XPub,
        Self::XSub,
    ];

    /// The name on the wire: exact, upper case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pair => "PAIR",
            Self::Pub => "PUB",
            Self::Sub => "SUB",
            Self::Req => "REQ",
            Self::Rep => "REP",
            Self::Dealer => "DEALER",
            Self::Router => "ROUTER",
            Self::Pull => "PULL",
            Self::Push => "PUSH",
            Self::XPub => "XPUB",
            Self::XSub => "XSUB",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    /// Whether the two types may be joined (RFC 37, "The Socket-Type Property").
    pub const fn may_talk_to(self, peer: Self) -> bool {
        use SocketType::*;
        matches!(
            (self, peer),
            (Req, Rep | Router)
                | (Rep, Req | Dealer)
                | (Dealer, Rep | Dealer | Router)
                | (Router, Req | Dealer | Router)
                | (Pub | XPub, Sub | XSub)
                | (Sub | XSub, Pub | XPub)
                | (Push, Pull)
                | (Pull, Push)
                | (Pair, Pair)
        )
    }

    /// Whether the type announces an `Identity` property, empty or not, as libzmq does.
    pub(crate) const fn announces_identity(self) -> bool {
        matches!(self, Self::Req | Self::Dealer | Self::Router)
    }
}

impl fmt::Display for SocketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_symmetric() {
        for a in SocketType::ALL {
            assert_eq!(SocketType::from_name(a.name().as_bytes()), Some(a));
            for b in SocketType::ALL {
                assert_eq!(a.may_talk_to(b), b.may_talk_to(a), "{a} {b}");
            }
        }
    }
}
