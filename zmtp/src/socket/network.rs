//! Options of the transport: IP versions, keepalive, the system's buffers, name resolution.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::SocketBuilder;
use crate::{Endpoint, EndpointError, Host};

/// Longest keepalive time and largest count Linux takes.
const MAX_SECONDS: u64 = 32_767;
const MAX_COUNT: u32 = 127;

/// What a socket does with IPv6 (IPV6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ipv6 {
    /// Where an endpoint says so: an IPv6 literal, or a name that resolves to one. `*` is every IPv4 interface.
    #[default]
    WhereNamed,
    /// As above, and `*` is every interface for IPv6 and IPv4 alike, through one listener on `[::]` (IPV6=1).
    DualStack,
    /// IPv6 and nothing else: `*` is every IPv6 interface, names resolve to IPv6 only, IPv4 literals are refused.
    Only,
    /// No IPv6 (IPV6=0): names resolve to IPv4 only, IPv6 literals are refused.
    Never,
}

impl Ipv6 {
    /// Refuses an endpoint whose literal is of the wrong version.
    pub(crate) fn check(self, endpoint: &Endpoint) -> Result<(), EndpointError> {
        let Endpoint::Tcp(tcp) = endpoint else { return Ok(()) };
        match (self, tcp.host()) {
            (Self::Never, Host::Ip(ip)) if ip.is_ipv6() => {
                Err(EndpointError::Ipv6Never { endpoint: endpoint.to_string() })
            }
            (Self::Only, Host::Ip(ip)) if ip.is_ipv4() => {
                Err(EndpointError::Ipv6Only { endpoint: endpoint.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Whether an address that a name resolved to is to be used.
    pub(crate) fn admits(self, address: &SocketAddr) -> bool {
        match self {
            Self::WhereNamed | Self::DualStack => true,
            Self::Only => address.is_ipv6(),
            Self::Never => address.is_ipv4(),
        }
    }
}

/// TCP keepalive: the system probes an idle connection and ends it when nothing answers (TCP_KEEPALIVE, _IDLE, _INTVL,
/// _CNT). ZMTP heartbeats see more, a peer whose process hangs for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keepalive {
    /// Idle time before the first probe.
    pub(crate) idle: Option<Duration>,
    /// Time between probes.
    pub(crate) interval: Option<Duration>,
    /// Probes without an answer that end the connection.
    pub(crate) count: Option<u32>,
}

/// Why a [`Keepalive`] setting is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeepaliveError {
    /// A time that is no whole number of seconds from 1 to 32767.
    #[error("a keepalive time of {0:?}: expected whole seconds, from 1 to {MAX_SECONDS}")]
    Time(Duration),
    /// A count of probes that is not from 1 to 127.
    #[error("{0} keepalive probes: expected 1 to {MAX_COUNT}")]
    Count(u32),
}

impl Keepalive {
    /// On, with the system's times and count.
    pub const fn new() -> Self {
        Self { idle: None, interval: None, count: None }
    }

    /// Idle time before the first probe (TCP_KEEPALIVE_IDLE), in whole seconds.
    ///
    /// # Errors
    /// The system cannot take that time.
    pub const fn idle(self, time: Duration) -> Result<Self, KeepaliveError> {
        match check_time(time) {
            Ok(()) => Ok(Self { idle: Some(time), ..self }),
            Err(error) => Err(error),
        }
    }

    /// Time between probes (TCP_KEEPALIVE_INTVL), in whole seconds.
    ///
    /// # Errors
    /// The system cannot take that time.
    pub const fn interval(self, time: Duration) -> Result<Self, KeepaliveError> {
        match check_time(time) {
            Ok(()) => Ok(Self { interval: Some(time), ..self }),
            Err(error) => Err(error),
        }
    }

    /// Unanswered probes that end the connection (TCP_KEEPALIVE_CNT).
    ///
    /// # Errors
    /// The system cannot take that count.
    pub const fn count(self, probes: u32) -> Result<Self, KeepaliveError> {
        if probes == 0 || probes > MAX_COUNT {
            return Err(KeepaliveError::Count(probes));
        }
        Ok(Self { count: Some(probes), ..self })
    }
}

const fn check_time(time: Duration) -> Result<(), KeepaliveError> {
    if time.as_secs() == 0 || time.as_secs() > MAX_SECONDS || time.subsec_nanos() > 0 {
        return Err(KeepaliveError::Time(time));
    }
    Ok(())
}

/// Turns host names into addresses, in place of the system's resolver.
///
/// It is asked anew for each attempt to connect: the peer may have moved.
pub trait Resolve: Debug + Send + Sync {
    /// The addresses of `host` in the order in which they are to be tried, each with `port`.
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;
}

/// The options of this module, resolved.
#[derive(Debug, Clone, Default)]
pub(crate) struct Network {
    pub(crate) ipv6: Ipv6,
    pub(crate) keepalive: Option<Keepalive>,
    /// In bytes; 0: the system's default.
    pub(crate) send_buffer: usize,
    /// In bytes; 0: the system's default.
    pub(crate) receive_buffer: usize,
    pub(crate) resolver: Option<Arc<dyn Resolve>>,
}

impl<T> SocketBuilder<T> {
    /// What is done with IPv6 (IPV6). Default: [`Ipv6::WhereNamed`].
    pub fn ipv6(mut self, ipv6: Ipv6) -> Self {
        self.options.network.ipv6 = ipv6;
        self
    }

    /// TCP keepalive (TCP_KEEPALIVE and its times). Default `None`: as the system has it, which is off as a rule.
    pub fn keepalive(mut self, keepalive: impl Into<Option<Keepalive>>) -> Self {
        self.options.network.keepalive = keepalive.into();
        self
    }

    /// Size of the system's send buffer per connection, in bytes (SNDBUF); the system may round it. Default 0: the
    /// system's own, which adapts itself.
    pub fn send_buffer(mut self, bytes: u32) -> Self {
        self.options.network.send_buffer = bytes as usize;
        self
    }

    /// Size of the system's receive buffer per connection, in bytes (RCVBUF); the system may round it. Default 0: the
    /// system's own, which adapts itself.
    pub fn receive_buffer(mut self, bytes: u32) -> Self {
        self.options.network.receive_buffer = bytes as usize;
        self
    }

    /// Who resolves host names. Default: the system, in a thread of the runtime's blocking pool.
    pub fn resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.options.network.resolver = Some(resolver);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepalive_takes_what_the_system_takes() {
        let seconds = Duration::from_secs;
        assert!(Keepalive::new().idle(seconds(1)).is_ok() && Keepalive::new().interval(seconds(32_767)).is_ok());
        for time in [Duration::ZERO, seconds(32_768), Duration::from_millis(1500)] {
            assert_eq!(Keepalive::new().idle(time), Err(KeepaliveError::Time(time)));
            assert_eq!(Keepalive::new().interval(time), Err(KeepaliveError::Time(time)));
        }
        assert!(Keepalive::new().count(1).is_ok() && Keepalive::new().count(127).is_ok());
        for count in [0, 128] {
            assert_eq!(Keepalive::new().count(count), Err(KeepaliveError::Count(count)));
        }
    }

    #[test]
    fn literals_of_the_wrong_version_are_refused() {
        let refused = |ipv6: Ipv6, text: &str| ipv6.check(&text.parse().unwrap()).is_err();
        for (ipv6, v4, v6) in [
            (Ipv6::WhereNamed, false, false),
            (Ipv6::DualStack, false, false),
            (Ipv6::Only, true, false),
            (Ipv6::Never, false, true),
        ] {
            assert_eq!((refused(ipv6, "tcp://127.0.0.1:1"), refused(ipv6, "tcp://[::1]:1")), (v4, v6), "{ipv6:?}");
            assert!(!refused(ipv6, "tcp://name:1") && !refused(ipv6, "tcp://*:1") && !refused(ipv6, "ipc://x"));
        }
    }
}
