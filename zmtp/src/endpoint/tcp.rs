//! TCP endpoints: host, port, and now and then a source address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::EndpointError;

/// Longest host name DNS can carry, and longest label of one (RFC 1035).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// Host and port of a TCP endpoint, and where a connection to it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TcpEndpoint {
    source: Option<SourceAddress>,
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

/// Where a connection comes from: what stands before the semicolon of `tcp://SOURCE:PORT;HOST:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceAddress {
    /// A local address; `None` (`*`): the system's choice.
    pub ip: Option<IpAddr>,
    /// A local port; 0 (`*`): the system's choice.
    pub port: u16,
}

impl TcpEndpoint {
    /// An endpoint from its parts; a name is checked and put into lower case.
    pub fn new(host: Host, port: u16) -> Result<Self, EndpointError> {
        let host = match host {
            Host::Name(name) => plain_host(&name)?,
            other => other,
        };
        Ok(Self { source: None, host, port })
    }

    /// The same endpoint, connected to from that address.
    pub fn with_source(self, source: SourceAddress) -> Self {
        Self { source: Some(source), ..self }
    }

    pub(super) const fn from_ip(ip: IpAddr, port: u16) -> Self {
        Self { source: None, host: Host::Ip(ip), port }
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port; 0 lets the system choose one.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where connections to it come from, if that is said.
    pub fn source(&self) -> Option<SourceAddress> {
        self.source
    }

    /// Whether this names every interface.
    pub(super) fn is_wildcard(&self) -> bool {
        match &self.host {
            Host::Any => true,
            Host::Ip(ip) => ip.is_unspecified(),
            Host::Name(_) => false,
        }
    }

    pub(super) fn check_bind(&self) -> Result<(), EndpointError> {
        if self.source.is_some() {
            return Err(EndpointError::BindSource { endpoint: self.text() });
        }
        match &self.host {
            Host::Name(name) if is_interface(name) => Err(EndpointError::InterfaceName { name: name.clone() }),
            _ => Ok(()),
        }
    }

    pub(super) fn check_connect(&self) -> Result<(), EndpointError> {
        if self.host == Host::Any {
            return Err(EndpointError::ConnectAny { endpoint: self.text() });
        }
        if self.port == 0 {
            return Err(EndpointError::ConnectPortZero { endpoint: self.text() });
        }
        match (self.source, &self.host) {
            (Some(SourceAddress { ip: Some(source), .. }), Host::Ip(ip)) if source.is_ipv4() != ip.is_ipv4() => {
                Err(EndpointError::SourceFamily { endpoint: self.text() })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn text(&self) -> String {
        format!("tcp://{self}")
    }
}

/// Parses what stands behind `tcp://`.
impl FromStr for TcpEndpoint {
    type Err = EndpointError;

    fn from_str(address: &str) -> Result<Self, EndpointError> {
        let (source, destination) = match address.split_once(';') {
            Some((_, destination)) if destination.contains(';') => {
                return Err(EndpointError::SecondSource { address: address.to_owned() });
            }
            Some((source, destination)) => (Some(parse_source(source)?), destination),
            None => (None, address),
        };
        let (host, port) = split(destination)?;
        Ok(Self { source, host: parse_host(host)?, port: parse_port(port)? })
    }
}

impl fmt::Display for TcpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = self.source {
            match source.ip {
                None => f.write_str("*")?,
                Some(ip) => write_ip(f, ip)?,
            }
            write_port(f, source.port)?;
            f.write_str(";")?;
        }
        match &self.host {
            Host::Any => f.write_str("*")?,
            Host::Ip(ip) => write_ip(f, *ip)?,
            Host::Name(name) => f.write_str(name)?,
        }
        write_port(f, self.port)
    }
}

fn write_ip(f: &mut fmt::Formatter<'_>, ip: IpAddr) -> fmt::Result {
    match ip {
        IpAddr::V4(ip) => write!(f, "{ip}"),
        IpAddr::V6(ip) => write!(f, "[{ip}]"),
    }
}

fn write_port(f: &mut fmt::Formatter<'_>, port: u16) -> fmt::Result {
    match port {
        0 => f.write_str(":*"),
        port => write!(f, ":{port}"),
    }
}

/// Host and port, split at the last colon.
fn split(address: &str) -> Result<(&str, &str), EndpointError> {
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
    Ok((host, port))
}

fn parse_source(address: &str) -> Result<SourceAddress, EndpointError> {
    let (host, port) = split(address)?;
    let ip = match parse_host(host)? {
        Host::Any => None,
        Host::Ip(ip) => Some(ip),
        Host::Name(_) => return Err(EndpointError::SourceName { source_address: address.to_owned() }),
    };
    Ok(SourceAddress { ip, port: parse_port(port)? })
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
