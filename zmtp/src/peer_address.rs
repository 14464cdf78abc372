//! [`PeerAddress`]: who is at the other end of a connection, as far as its transport tells.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The other end of a connection. Printed as it should appear in a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerAddress {
    /// IP address and port; IPv4 as such, also where a dual-stack listener sees it as IPv6.
    Tcp(SocketAddr),
    /// The process at the other end of a Unix domain socket, if the system tells.
    Ipc(Option<Credentials>),
    /// A socket of this process.
    Inproc,
}

/// Whose process opened a Unix domain socket, as the system vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its process, where the system tells that.
    pub pid: Option<i32>,
}

impl PeerAddress {
    /// The IP address and port of a TCP peer.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            _ => None,
        }
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> Self {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => Self::Tcp(SocketAddr::new(ip.into(), address.port())),
            // As it is: it may have a scope.
            IpAddr::V6(_) => Self::Tcp(address),
        }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Ipc(None) => f.write_str("ipc"),
            Self::Ipc(Some(Credentials { uid, gid, pid })) => {
                write!(f, "ipc uid={uid} gid={gid}")?;
                pid.map_or(Ok(()), |pid| write!(f, " pid={pid}"))
            }
            Self::Inproc => f.write_str("inproc"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_logs_show_them() {
        let tcp = |text: &str| PeerAddress::from(text.parse::<SocketAddr>().unwrap());
        let credentials = |pid| PeerAddress::Ipc(Some(Credentials { uid: 1000, gid: 100, pid }));
        for (peer, text) in [
            (tcp("10.0.0.1:5"), "10.0.0.1:5"),
            (tcp("[::ffff:10.0.0.1]:5"), "10.0.0.1:5"),
            (tcp("[fe80::1%3]:5"), "[fe80::1%3]:5"),
            (PeerAddress::Ipc(None), "ipc"),
            (credentials(None), "ipc uid=1000 gid=100"),
            (credentials(Some(7)), "ipc uid=1000 gid=100 pid=7"),
            (PeerAddress::Inproc, "inproc"),
        ] {
            assert_eq!(peer.to_string(), text);
        }
    }
}
