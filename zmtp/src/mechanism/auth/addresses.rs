//! Peers by their IP addresses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

use super::{Accepted, Authenticator, Refusal, Request};

/// An IP network, such as `10.0.0.0/8` or `2001:db8::/32`; a bare address is the network of that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpNetwork {
    /// Without the bits behind the prefix.
    address: IpAddr,
    prefix: u8,
}

/// Why a text or a prefix length is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IpNetworkError {
    /// Not an IP address.
    #[error("not an IP address")]
    Address,
    /// What follows the slash is not a number of bits that such an address has.
    #[error("not a prefix length of such an address")]
    Prefix,
    /// Bits are set behind the prefix: one of the two is a slip.
    #[error("the address has bits set behind its prefix")]
    HostBits,
}

impl IpNetwork {
    /// The addresses that begin with the first `prefix` bits of `address`.
    ///
    /// # Errors
    /// The prefix is longer than the address, or bits are set behind it.
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, IpNetworkError> {
        let network = Self { address: masked(address, prefix), prefix };
        match address {
            IpAddr::V4(_) if prefix > 32 => Err(IpNetworkError::Prefix),
            _ if prefix > 128 => Err(IpNetworkError::Prefix),
            _ if network.address != address => Err(IpNetworkError::HostBits),
            _ => Ok(network),
        }
    }

    /// Whether an address is in it. An IPv4 address inside an IPv6 one (`::ffff:1.2.3.4`) counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.prefix) == self.address
    }
}

/// The address with all bits behind the prefix cleared.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32u32.saturating_sub(prefix.into())).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(prefix.into())).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
        }
    }
}

impl FromStr for IpNetwork {
    type Err = IpNetworkError;

    fn from_str(text: &str) -> Result<Self, IpNetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| IpNetworkError::Address)?;
        let prefix = match prefix {
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().map_err(|_| IpNetworkError::Prefix)?
            }
            Some(_) => return Err(IpNetworkError::Prefix),
            None if address.is_ipv4() => 32,
            None => 128,
        };
        Self::new(address, prefix)
    }
}

impl From<IpAddr> for IpNetwork {
    /// The network of that one address.
    fn from(address: IpAddr) -> Self {
        Self { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl fmt::Display for IpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Lets peers in by where they come from, whatever they prove themselves by.
///
/// A peer in a denied network is denied. Once a network is allowed, others are denied; and so are peers without an IP
/// address, unless [`allow_local`](Self::allow_local) says otherwise.
#[derive(Debug, Clone, Default)]
pub struct AddressFilter {
    allowed: Vec<IpNetwork>,
    denied: Vec<IpNetwork>,
    local: bool,
}

impl AddressFilter {
    /// Lets everybody in.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets a network in, and shuts those out that are not allowed too.
    pub fn allow(mut self, network: IpNetwork) -> Self {
        self.allowed.push(network);
        self
    }

    /// Shuts a network out, also where it is part of an allowed one.
    pub fn deny(mut self, network: IpNetwork) -> Self {
        self.denied.push(network);
        self
    }

    /// Lets peers without an IP address in: they are on this machine.
    pub fn allow_local(mut self) -> Self {
        self.local = true;
        self
    }

    /// Whether a peer may come from there.
    pub fn admits(&self, address: Option<IpAddr>) -> bool {
        let Some(address) = address else { return self.local || self.allowed.is_empty() };
        let within = |networks: &[IpNetwork]| networks.iter().any(|network| network.contains(address));
        !within(&self.denied) && (self.allowed.is_empty() || within(&self.allowed))
    }
}

impl Authenticator for AddressFilter {
    fn authenticate(&self, request: &Request<'_>) -> Result<Accepted, Refusal> {
        if self.admits(request.address.and_then(|peer| peer.tcp()).map(|tcp| tcp.ip())) {
            Ok(Accepted::anonymous())
        } else {
            Err(Refusal::Denied)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> IpNetwork {
        text.parse().unwrap()
    }

    #[test]
    fn networks_contain_what_begins_like_them() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::ffff:11.1.2.3"),
            ("192.168.4.0/22", "192.168.7.255", "192.168.8.0"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::"),
            ("::/0", "::1", "1.2.3.4"),
            ("::1", "::1", "::2"),
        ] {
            assert!(network(text).contains(inside.parse().unwrap()), "{text} {inside}");
            assert!(!network(text).contains(outside.parse().unwrap()), "{text} {outside}");
        }
        assert_eq!(network("10.0.0.0/8").to_string(), "10.0.0.0/8");
        assert_eq!(network("::1").to_string(), "::1/128");
    }

    #[test]
    fn what_is_no_network() {
        for (text, error) in [
            ("", IpNetworkError::Address),
            ("localhost", IpNetworkError::Address),
            ("10.0.0/8", IpNetworkError::Address),
            ("10.0.0.0/", IpNetworkError::Prefix),
            ("10.0.0.0/33", IpNetworkError::Prefix),
            ("10.0.0.0/+8", IpNetworkError::Prefix),
            ("10.0.0.0/256", IpNetworkError::Prefix),
            ("::/129", IpNetworkError::Prefix),
            ("10.0.0.1/8", IpNetworkError::HostBits),
            ("2001:db8::1/64", IpNetworkError::HostBits),
        ] {
            assert_eq!(text.parse::<IpNetwork>(), Err(error), "{text}");
        }
    }

    #[test]
    fn filters() {
        let at = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        assert!(AddressFilter::new().admits(at("1.2.3.4")));
        assert!(AddressFilter::new().admits(None));
        let filter = AddressFilter::new().allow(network("10.0.0.0/8")).deny(network("10.6.6.0/24"));
        assert!(filter.admits(at("10.1.1.1")));
        assert!(!filter.admits(at("10.6.6.6")));
        assert!(!filter.admits(at("11.1.1.1")));
        assert!(!filter.admits(at("::1")));
        assert!(!filter.admits(None));
        assert!(filter.allow_local().admits(None));
        assert!(!AddressFilter::new().deny(network("::1")).admits(at("::1")));
    }
}
