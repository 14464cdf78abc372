//! [`EndpointError`]: what is wrong with an address, and where.

use thiserror::Error;

use super::MAX_PATH;

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
    #[error("transport `{transport}` is not supported; expected tcp://HOST:PORT, ipc://PATH or inproc://NAME")]
    UnsupportedTransport {
        /// What stood before `://`.
        transport: String,
    },
    /// A transport nobody knows.
    #[error("unknown transport `{transport}`; expected tcp://HOST:PORT, ipc://PATH or inproc://NAME")]
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
    /// A source address that is neither an IP literal nor `*`.
    #[error("the source address in `{source_address};...` is not an IP address; expected for example 10.0.0.1:*")]
    SourceName {
        /// What stood before the semicolon.
        source_address: String,
    },
    /// More than one semicolon.
    #[error("`{address}` has more than one `;`; expected SOURCE:PORT;HOST:PORT")]
    SecondSource {
        /// What stood behind `://`.
        address: String,
    },
    /// Source and destination of two address families.
    #[error("`{endpoint}` cannot be connected to: its source and its destination are not of one IP version")]
    SourceFamily {
        /// The whole endpoint.
        endpoint: String,
    },
    /// A source address in something to bind.
    #[error("`{endpoint}` cannot be bound: a source address (before `;`) is only for connecting")]
    BindSource {
        /// The whole endpoint.
        endpoint: String,
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
    /// An IPv6 address for a socket that is not to use IPv6.
    #[error("`{endpoint}` is an IPv6 address and the socket's option says never to use IPv6")]
    Ipv6Never {
        /// The whole endpoint.
        endpoint: String,
    },
    /// An IPv4 address for a socket that is to use nothing but IPv6.
    #[error("`{endpoint}` is an IPv4 address and the socket's option says to use only IPv6")]
    Ipv6Only {
        /// The whole endpoint.
        endpoint: String,
    },
    /// `ipc://` with nothing behind it.
    #[error("the path is missing in `ipc://`; expected ipc:///DIRECTORY/FILE, ipc://@NAME or, to bind, ipc://*")]
    MissingPath,
    /// A path that names a directory.
    #[error("`{path}` ends with a slash; expected the path of a socket, not of a directory")]
    DirectoryPath {
        /// What stood behind `ipc://`.
        path: String,
    },
    /// A path that the system's socket addresses cannot hold.
    #[error("an ipc path has at most {MAX_PATH} bytes, this one has {length}: `{path}`")]
    PathTooLong {
        /// What stood behind `ipc://`.
        path: String,
        /// Its length, in bytes.
        length: usize,
    },
    /// A zero byte in an ipc path or an inproc name.
    #[error("the zero byte at position {at} of `{}` is not allowed", name.escape_debug())]
    ZeroByte {
        /// What stood behind `://`.
        name: String,
        /// Its place, counted in bytes from 1.
        at: usize,
    },
    /// `ipc://@`.
    #[error("the name is missing in `ipc://@`; expected ipc://@NAME")]
    MissingAbstractName,
    /// `ipc://*` as something to connect to.
    #[error("`ipc://*` cannot be connected to: it makes a new path and is only for binding; name the peer's path")]
    ConnectWildcard,
    /// `inproc://` with nothing behind it.
    #[error("the name is missing in `inproc://`; expected inproc://NAME")]
    MissingName,
}
