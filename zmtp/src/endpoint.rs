//! [`Endpoint`]: where a socket binds or connects to, as text like `tcp://127.0.0.1:5555`.
//!
//! Parsing is strict where libzmq is lax (it reads port `70000` as 4464 and `12ab` as 12): an address that is not
//! understood in full is refused, and the error says which part was wrong.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

/// Longest host name DNS can carry, and longest label of one (RFC 1035).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// Transports other ZeroMQ libraries know and this one does not.
const FOREIGN_TRANSPORTS: [&str; 8] = ["ipc", "inproc", "udp", "pgm", "epgm", "tipc", "vmci", "ws"];

/// A parsed address of a socket.
///
/// Two endpoints are equal if their texts mean the same: host names in lower case, IP literals in their canonical form,
/// port `*` and port `0` alike. Nothing is resolved, so `localhost` and `127.0.0.1` differ. `Display` writes that
/// canonical text, and parsing it again gives an equal endpoint.
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
}

/// Host and port of a TCP endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TcpEndpoint {
    host: Host,
    port: u16,
}

/// The host part of a TCP endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// `*`: every interface; only for binding.
    Any,
    /// An IPv4 or (in brackets) IPv6 literal.
    Ip(IpAddr),
    /// A name to be resolved each time it is used; in lower case.
    Name(String),
}

/// Why a text is not an endpoint, or not one for this use.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// No `://` at all.
    #[error("`{text}` has no `://`; expected an address such as tcp://127.0.0.1:5555")]
    MissingTransport {
        /// The text given.
        text: String,
    },
    /// A transport ZeroMQ knows and this library does not.
    #[error("transport `{transport}` is not supported; expected tcp://HOST:PORT")]
    UnsupportedTransport {
        /// What stood before `://`.
        transport: String,
    },
    /// A transport nobody knows.
    #[error("unknown transport `{transport}`; expected tcp://HOST:PORT")]
    UnknownTransport {
        /// What stood before `://`.
        transport: String,
    },
    /// Nothing in front of the port.
    #[error("the host is missing in `{address}`; expected HOST:PORT, or *:PORT to bind every interface")]
    MissingHost {
        /// What stood behind `://`.
        address: String,
    },
    /// No colon and port behind the host.
    #[error("the port is missing in `{address}`; expected HOST:PORT")]
    MissingPort {
        /// What stood behind `://`.
        address: String,
    },
    /// A port that is not a number of 16 bits.
    #[error("`{port}` is not a port; expected digits from 0 to 65535, or * for one the system chooses")]
    BadPort {
        /// What stood behind the last colon.
        port: String,
    },
    /// A character no host name has.
    #[error(
        "`{found}` at position {at} of host `{host}` is not allowed; expected a name, an IPv4 address, [IPv6] or *"
    )]
    BadHost {
        /// The host part.
        host: String,
        /// The first character that is wrong.
        found: char,
        /// Its place, counted in characters from 1.
        at: usize,
    },
    /// An empty or overlong label, or an overlong name.
    #[error("host `{host}` is not a name: a name has at most 253 characters, and 1 to 63 between its dots")]
    BadName {
        /// The host part.
        host: String,
    },
    /// Digits and dots, yet no IPv4 address.
    #[error("`{host}` is not an IPv4 address; expected four numbers from 0 to 255, such as 127.0.0.1")]
    BadIpv4 {
        /// The host part.
        host: String,
    },
    /// Brackets without an IPv6 address inside.
    #[error("`{host}` is not an IPv6 address in brackets; expected for example [::1]")]
    BadIpv6 {
        /// The host part.
        host: String,
    },
    /// An IPv6 literal without brackets.
    #[error("host `{host}` contains a colon; an IPv6 address is written in brackets, as in tcp://[::1]:5555")]
    BareIpv6 {
        /// The host part.
        host: String,
    },
    /// `[fe80::1%eth0]`.
    #[error("the zone in `{host}` is not supported; give an address without %ZONE")]
    Zone {
        /// The host part.
        host: String,
    },
    /// libzmq's `source;destination`.
    #[error("a source address (`{source_address};...`) is not supported; give only the address to connect to")]
    SourceAddress {
        /// What stood before the semicolon.
        source_address: String,
    },
    /// A name that can only be a network interface's.
    #[error(
        "`{name}` looks like a network interface: binding by interface is not supported; give its IP address, or *"
    )]
    InterfaceName {
        /// The host part.
        name: String,
    },
    /// `*` as something to connect to.
    #[error("`{endpoint}` cannot be connected to: * stands for every interface and is only for binding; name a host")]
    ConnectAny {
        /// The whole endpoint.
        endpoint: String,
    },
    /// Port 0 as something to connect to.
    #[error(
        "`{endpoint}` cannot be connected to: port 0 (or *) is only for binding; name the port the peer listens on"
    )]
    ConnectPortZero {
        /// The whole endpoint.
        endpoint: String,
    },
}

impl Endpoint {
    /// The host as text, without brackets: `*`, an IP address or a name.
    pub fn host(&self) -> String {
        match self {
            Self::Tcp(tcp) => match tcp.host() {
                Host::Any => "*".to_owned(),
                Host::Ip(ip) => ip.to_string(),
                Host::Name(name) => name.clone(),
            },
        }
    }

    /// The port; 0 (also written `*`) lets the system choose one.
    pub fn port(&self) -> u16 {
        match self {
            Self::Tcp(tcp) => tcp.port,
        }
    }

    /// Whether this names every interface: `*`, `0.0.0.0` or `[::]`.
    pub fn is_wildcard(&self) -> bool {
        match self {
            Self::Tcp(tcp) => match &tcp.host {
                Host::Any => true,
                Host::Ip(ip) => ip.is_unspecified(),
                Host::Name(_) => false,
            },
        }
    }

    /// Whether a socket can bind this: anything but what is plainly an interface's name (`lo:5555`, `eth0:*`).
    pub fn check_bind(&self) -> Result<(), EndpointError> {
        match self {
            Self::Tcp(TcpEndpoint { host: Host::Name(name), .. }) if is_interface(name) => {
                Err(EndpointError::InterfaceName { name: name.clone() })
            }
            Self::Tcp(_) => Ok(()),
        }
    }

    /// Whether a socket can connect to this: it needs a host and a port.
    ///
    /// `0.0.0.0` and `[::]` pass, as in libzmq: operating systems take them for the local host.
    pub fn check_connect(&self) -> Result<(), EndpointError> {
        match self {
            Self::Tcp(TcpEndpoint { host: Host::Any, .. }) => {
                Err(EndpointError::ConnectAny { endpoint: self.to_string() })
            }
            Self::Tcp(TcpEndpoint { port: 0, .. }) => {
                Err(EndpointError::ConnectPortZero { endpoint: self.to_string() })
            }
            Self::Tcp(_) => Ok(()),
        }
    }
}

impl TcpEndpoint {
    /// An endpoint from its parts; a name is checked and put into lower case.
    pub fn new(host: Host, port: u16) -> Result<Self, EndpointError> {
        let host = match host {
            Host::Name(name) => plain_host(&name)?,
            other => other,
        };
        Ok(Self { host, port })
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port; 0 lets the system choose one.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl From<TcpEndpoint> for Endpoint {
    fn from(tcp: TcpEndpoint) -> Self {
        Self::Tcp(tcp)
    }
}

impl From<std::net::SocketAddr> for Endpoint {
    fn from(address: std::net::SocketAddr) -> Self {
        Self::Tcp(TcpEndpoint { host: Host::Ip(address.ip()), port: address.port() })
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (transport, address) =
            text.split_once("://").ok_or_else(|| EndpointError::MissingTransport { text: text.to_owned() })?;
        match transport {
            "tcp" => address.parse().map(Self::Tcp),
            known if FOREIGN_TRANSPORTS.contains(&known) => {
                Err(EndpointError::UnsupportedTransport { transport: known.to_owned() })
            }
            other => Err(EndpointError::UnknownTransport { transport: other.to_owned() }),
        }
    }
}

/// Parses what stands behind `tcp://`.
impl FromStr for TcpEndpoint {
    type Err = EndpointError;

    fn from_str(address: &str) -> Result<Self, EndpointError> {
        if let Some((source, _)) = address.split_once(';') {
            return Err(EndpointError::SourceAddress { source_address: source.to_owned() });
        }
        let missing_port = || EndpointError::MissingPort { address: address.to_owned() };
        // The last colon of `[::1]` belongs to the address: a port follows the bracket.
        if address.starts_with('[') && address.ends_with(']') {
            return Err(missing_port());
        }
        let (host, port) = address.rsplit_once(':').ok_or_else(missing_port)?;
        if host.is_empty() {
            return Err(EndpointError::MissingHost { address: address.to_owned() });
        }
        if port.is_empty() {
            return Err(missing_port());
        }
        Ok(Self { host: parse_host(host)?, port: parse_port(port)? })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(tcp) => write!(f, "tcp://{tcp}"),
        }
    }
}

impl fmt::Display for TcpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Any => f.write_str("*")?,
            Host::Ip(IpAddr::V4(ip)) => write!(f, "{ip}")?,
            Host::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]")?,
            Host::Name(name) => f.write_str(name)?,
        }
        match self.port {
            0 => f.write_str(":*"),
            port => write!(f, ":{port}"),
        }
    }
}

fn parse_port(text: &str) -> Result<u16, EndpointError> {
    if text == "*" {
        return Ok(0);
    }
    // `u16::from_str` also takes a leading `+`.
    match text.parse() {
        Ok(port) if text.bytes().all(|b| b.is_ascii_digit()) => Ok(port),
        _ => Err(EndpointError::BadPort { port: text.to_owned() }),
    }
}

fn parse_host(text: &str) -> Result<Host, EndpointError> {
    if text == "*" {
        return Ok(Host::Any);
    }
    if let Some(rest) = text.strip_prefix('[') {
        let bad = || EndpointError::BadIpv6 { host: text.to_owned() };
        let inner = rest.strip_suffix(']').ok_or_else(bad)?;
        if inner.contains('%') {
            return Err(EndpointError::Zone { host: text.to_owned() });
        }
        return inner.parse::<Ipv6Addr>().map(|ip| Host::Ip(ip.into())).map_err(|_| bad());
    }
    plain_host(text)
}

/// A name or an IPv4 literal.
fn plain_host(text: &str) -> Result<Host, EndpointError> {
    let host = || text.to_owned();
    if text.contains(':') {
        return Err(EndpointError::BareIpv6 { host: host() });
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if let Some((index, found)) = text.chars().enumerate().find(|&(_, c)| !allowed(c)) {
        return Err(EndpointError::BadHost { host: host(), found, at: index + 1 });
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let label_ok = |label: &str| (1..=MAX_LABEL).contains(&label.len());
    if name.len() > MAX_NAME || !name.split('.').all(label_ok) {
        return Err(EndpointError::BadName { host: host() });
    }
    // No top-level domain is a number, so a host that ends in one can only be meant as IPv4.
    let last_label = name.rsplit('.').next().unwrap_or(name);
    if last_label.bytes().all(|b| b.is_ascii_digit()) {
        return match text.parse::<Ipv4Addr>() {
            Ok(ip) => Ok(Host::Ip(ip.into())),
            Err(_) => Err(EndpointError::BadIpv4 { host: host() }),
        };
    }
    Ok(Host::Name(text.to_ascii_lowercase()))
}

/// Names the kernel or udev give to interfaces and nobody gives to hosts. Others cannot be told from host names; they
/// fail when they are resolved.
fn is_interface(name: &str) -> bool {
    let numbered = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.as_bytes().first().is_some_and(u8::is_ascii_digit))
    };
    let plain = !name.contains(['.', '-']);
    plain && (name == "lo" || ["eth", "wlan", "bond", "docker", "eno", "ens", "enp", "wlp"].into_iter().any(numbered))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Endpoint, EndpointError> {
        text.parse()
    }

    #[test]
    fn accepted_forms_and_their_canonical_text() {
        for (text, canonical) in [
            ("tcp://127.0.0.1:47291", "tcp://127.0.0.1:47291"),
            ("tcp://*:5555", "tcp://*:5555"),
            ("tcp://*:*", "tcp://*:*"),
            ("tcp://localhost:0", "tcp://localhost:*"),
            ("tcp://0.0.0.0:00080", "tcp://0.0.0.0:80"),
            ("tcp://[::1]:5555", "tcp://[::1]:5555"),
            ("tcp://[0:0::0001]:65535", "tcp://[::1]:65535"),
            ("tcp://[::ffff:10.0.0.1]:1", "tcp://[::ffff:10.0.0.1]:1"),
            ("tcp://Broker-1.Example.COM:5555", "tcp://broker-1.example.com:5555"),
            ("tcp://emq_router:5555", "tcp://emq_router:5555"),
            ("tcp://example.com.:5555", "tcp://example.com.:5555"),
            ("tcp://10.example:5555", "tcp://10.example:5555"),
        ] {
            let endpoint = parse(text).unwrap();
            assert_eq!(endpoint.to_string(), canonical);
            assert_eq!(parse(canonical).unwrap(), endpoint);
        }
    }

    #[test]
    fn refused_forms_say_what_is_wrong() {
        let name = "a".repeat(64);
        for (text, message) in [
            ("", "`` has no `://`; expected an address such as tcp://127.0.0.1:5555"),
            ("127.0.0.1:5555", "`127.0.0.1:5555` has no `://`; expected an address such as tcp://127.0.0.1:5555"),
            ("ipc:///run/x", "transport `ipc` is not supported; expected tcp://HOST:PORT"),
            ("TCP://a:1", "unknown transport `TCP`; expected tcp://HOST:PORT"),
            ("://a:1", "unknown transport ``; expected tcp://HOST:PORT"),
            ("tcp://", "the port is missing in ``; expected HOST:PORT"),
            ("tcp://host", "the port is missing in `host`; expected HOST:PORT"),
            ("tcp://host:", "the port is missing in `host:`; expected HOST:PORT"),
            ("tcp://[::1]", "the port is missing in `[::1]`; expected HOST:PORT"),
            ("tcp://:5555", "the host is missing in `:5555`; expected HOST:PORT, or *:PORT to bind every interface"),
            (
                "tcp://a:65536",
                "`65536` is not a port; expected digits from 0 to 65535, or * for one the system chooses",
            ),
            ("tcp://a:+1", "`+1` is not a port; expected digits from 0 to 65535, or * for one the system chooses"),
            ("tcp://a:1/", "`1/` is not a port; expected digits from 0 to 65535, or * for one the system chooses"),
            (
                "tcp://my host:1",
                "` ` at position 3 of host `my host` is not allowed; expected a name, an IPv4 address, [IPv6] or *",
            ),
            (
                "tcp://300.0.0.1:1",
                "`300.0.0.1` is not an IPv4 address; expected four numbers from 0 to 255, such as 127.0.0.1",
            ),
            ("tcp://127.1:1", "`127.1` is not an IPv4 address; expected four numbers from 0 to 255, such as 127.0.0.1"),
            ("tcp://[::g]:1", "`[::g]` is not an IPv6 address in brackets; expected for example [::1]"),
            ("tcp://[::1:1", "`[::1` is not an IPv6 address in brackets; expected for example [::1]"),
            (
                "tcp://::1:5555",
                "host `::1` contains a colon; an IPv6 address is written in brackets, as in tcp://[::1]:5555",
            ),
            ("tcp://[fe80::1%eth0]:1", "the zone in `[fe80::1%eth0]` is not supported; give an address without %ZONE"),
            (
                "tcp://127.0.0.1:0;127.0.0.1:1",
                "a source address (`127.0.0.1:0;...`) is not supported; give only the address to connect to",
            ),
            (
                "tcp://a..b:1",
                "host `a..b` is not a name: a name has at most 253 characters, and 1 to 63 between its dots",
            ),
            (
                &format!("tcp://{name}:1"),
                &format!(
                    "host `{name}` is not a name: a name has at most 253 characters, and 1 to 63 between its dots"
                ),
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn bind_and_connect_have_their_own_rules() {
        for (text, bind, connect) in [
            ("tcp://*:1", true, false),
            ("tcp://*:*", true, false),
            ("tcp://127.0.0.1:0", true, false),
            ("tcp://0.0.0.0:1", true, true),
            ("tcp://host:1", true, true),
            ("tcp://lo:1", false, true),
            ("tcp://eth0:1", false, true),
            ("tcp://enp3s0:1", false, true),
            ("tcp://ethel:1", true, true),
            ("tcp://eth0.example:1", true, true),
        ] {
            let endpoint = parse(text).unwrap();
            assert_eq!(endpoint.check_bind().is_ok(), bind, "{text}");
            assert_eq!(endpoint.check_connect().is_ok(), connect, "{text}");
        }
    }

    #[test]
    fn accessors() {
        let endpoint = parse("tcp://[::1]:5").unwrap();
        assert_eq!((endpoint.host().as_str(), endpoint.port(), endpoint.is_wildcard()), ("::1", 5, false));
        for text in ["tcp://*:5", "tcp://0.0.0.0:5", "tcp://[::]:5"] {
            assert!(parse(text).unwrap().is_wildcard());
        }
        assert_eq!(Endpoint::from(std::net::SocketAddr::from(([0, 0, 0, 0], 5))), parse("tcp://0.0.0.0:5").unwrap());
        assert!(TcpEndpoint::new(Host::Name("no good".into()), 1).is_err());
        assert_eq!(TcpEndpoint::new(Host::Name("HOST".into()), 1).unwrap().to_string(), "host:1");
    }

    fn host() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("*".to_owned()),
            any::<Ipv4Addr>().prop_map(|ip| ip.to_string()),
            any::<Ipv6Addr>().prop_map(|ip| format!("[{ip}]")),
            "[a-zA-Z][a-zA-Z0-9_-]{0,20}(\\.[a-zA-Z][a-zA-Z0-9-]{0,9}){0,3}",
        ]
    }

    proptest! {
        #[test]
        fn what_is_accepted_round_trips(host in host(), port in any::<u16>()) {
            let endpoint = parse(&format!("tcp://{host}:{port}")).unwrap();
            prop_assert_eq!(endpoint.port(), port);
            prop_assert_eq!(parse(&endpoint.to_string()).unwrap(), endpoint);
        }

        #[test]
        fn garbage_never_panics(text in "\\PC{0,40}") {
            let _ = parse(&text);
            let _ = parse(&format!("tcp://{text}"));
        }

        #[test]
        fn near_addresses_round_trip_or_fail(text in "tcp://[\\[\\]*:;%.a-zA-Z0-9-]{0,20}") {
            if let Ok(endpoint) = parse(&text) {
                prop_assert_eq!(parse(&endpoint.to_string()).unwrap(), endpoint);
            }
        }
    }
}
