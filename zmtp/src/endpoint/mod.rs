//! [`Endpoint`]: where a socket binds or connects to, as text like `tcp://127.0.0.1:5555`.
//!
//! Parsing is strict where libzmq is lax (it reads port `70000` as 4464 and `12ab` as 12): an address that is not
//! understood in full is refused, and the error says which part was wrong.

mod error;
mod local;
mod tcp;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

pub use self::error::EndpointError;
use self::local::MAX_PATH;
pub use self::local::{InprocEndpoint, IpcAddress, IpcEndpoint};
pub use self::tcp::{Host, SourceAddress, TcpEndpoint};

/// Transports other ZeroMQ libraries know and this one does not.
const FOREIGN_TRANSPORTS: [&str; 7] = ["udp", "pgm", "epgm", "tipc", "vmci", "ws", "wss"];

/// A parsed address of a socket.
///
/// | text | meaning |
/// |---|---|
/// | `tcp://127.0.0.1:5555`, `tcp://[::1]:5555` | an IP address and a port |
/// | `tcp://*:5555`, `tcp://*:*` | to bind: every interface; a port of the system's choice |
/// | `tcp://broker.example:5555` | a name, resolved at each use |
/// | `tcp://10.0.0.1:*;10.0.0.2:5555` | to connect: from that local address (and port) |
/// | `ipc:///run/broker.sock`, `ipc://socket` | a Unix domain socket: its path, absolute or relative |
/// | `ipc://@broker` | one in Linux's abstract namespace |
/// | `ipc://*` | to bind: a fresh path |
/// | `inproc://name` | a socket of this process |
///
/// Two endpoints are equal if their texts mean the same: host names in lower case, IP literals in their canonical form,
/// port `*` and port `0` alike; paths and names are compared as they are. Nothing is resolved, so `localhost` and
/// `127.0.0.1` differ. `Display` writes that canonical text, and parsing it again gives an equal endpoint.
///
/// ```
/// let endpoint: zmtp::Endpoint = "tcp://Broker.Example:5555".parse()?;
/// assert_eq!(endpoint.to_string(), "tcp://broker.example:5555");
/// assert!("tcp://broker.example:70000".parse::<zmtp::Endpoint>().is_err());
/// # Ok::<(), zmtp::EndpointError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Endpoint {
    /// `tcp://host:port`.
    Tcp(TcpEndpoint),
    /// `ipc://path`.
    Ipc(IpcEndpoint),
    /// `inproc://name`.
    Inproc(InprocEndpoint),
}

impl Endpoint {
    /// The host as text, without brackets: `*`, an IP address or a name. For ipc and inproc what stands behind `://`.
    pub fn host(&self) -> String {
        match self {
            Self::Tcp(tcp) => match tcp.host() {
                Host::Any => "*".to_owned(),
                Host::Ip(ip) => ip.to_string(),
                Host::Name(name) => name.clone(),
            },
            Self::Ipc(ipc) => ipc.as_str().to_owned(),
            Self::Inproc(inproc) => inproc.name().to_owned(),
        }
    }

    /// The port; 0 (also written `*`) lets the system choose one. Only tcp has ports, elsewhere this is 0.
    pub fn port(&self) -> u16 {
        match self {
            Self::Tcp(tcp) => tcp.port(),
            Self::Ipc(_) | Self::Inproc(_) => 0,
        }
    }

    /// Whether this names every interface: `*`, `0.0.0.0` or `[::]`.
    pub fn is_wildcard(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.is_wildcard(),
            Self::Ipc(_) | Self::Inproc(_) => false,
        }
    }

    /// Whether each bind makes another address of this: port 0 or `ipc://*`.
    pub fn is_ephemeral(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.port() == 0,
            Self::Ipc(ipc) => ipc.address() == IpcAddress::Wildcard,
            Self::Inproc(_) => false,
        }
    }

    /// Whether a socket can bind this: anything but what has a source address or is plainly an interface's name
    /// (`lo:5555`, `eth0:*`).
    pub fn check_bind(&self) -> Result<(), EndpointError> {
        match self {
            Self::Tcp(tcp) => tcp.check_bind(),
            Self::Ipc(_) | Self::Inproc(_) => Ok(()),
        }
    }

    /// Whether a socket can connect to this: it needs a host and a port, or a path that is not `*`.
    ///
    /// `0.0.0.0` and `[::]` pass, as in libzmq: operating systems take them for the local host.
    pub fn check_connect(&self) -> Result<(), EndpointError> {
        match self {
            Self::Tcp(tcp) => tcp.check_connect(),
            Self::Ipc(ipc) if ipc.address() == IpcAddress::Wildcard => Err(EndpointError::ConnectWildcard),
            Self::Ipc(_) | Self::Inproc(_) => Ok(()),
        }
    }
}

impl From<TcpEndpoint> for Endpoint {
    fn from(tcp: TcpEndpoint) -> Self {
        Self::Tcp(tcp)
    }
}

impl From<IpcEndpoint> for Endpoint {
    fn from(ipc: IpcEndpoint) -> Self {
        Self::Ipc(ipc)
    }
}

impl From<InprocEndpoint> for Endpoint {
    fn from(inproc: InprocEndpoint) -> Self {
        Self::Inproc(inproc)
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(TcpEndpoint::from_ip(address.ip(), address.port()))
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (transport, address) =
            text.split_once("://").ok_or_else(|| EndpointError::MissingTransport { text: text.to_owned() })?;
        match transport {
            "tcp" => address.parse().map(Self::Tcp),
            "ipc" => address.parse().map(Self::Ipc),
            "inproc" => address.parse().map(Self::Inproc),
            known if FOREIGN_TRANSPORTS.contains(&known) => {
                Err(EndpointError::UnsupportedTransport { transport: known.to_owned() })
            }
            other => Err(EndpointError::UnknownTransport { transport: other.to_owned() }),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(tcp) => write!(f, "tcp://{tcp}"),
            Self::Ipc(ipc) => write!(f, "ipc://{ipc}"),
            Self::Inproc(inproc) => write!(f, "inproc://{inproc}"),
        }
    }
}
