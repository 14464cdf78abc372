//! TCP: addresses from endpoints, and the options of a socket.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::socket::{Ipv6, Network, Options};
use crate::{Host, SourceAddress, TcpEndpoint};

/// Listens; gives the actual address too.
pub(super) async fn bind(endpoint: &TcpEndpoint, options: &Options) -> io::Result<(TcpListener, SocketAddr)> {
    let mut last = no_address();
    for address in local_addresses(endpoint, &options.network).await? {
        match bind_at(address, endpoint.host(), options) {
            Ok(listener) => {
                let address = listener.local_addr()?;
                return Ok((listener, address));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bind_at(address: SocketAddr, host: &Host, options: &Options) -> io::Result<TcpListener> {
    let socket = new_socket(address, &options.network)?;
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() && *host == Host::Any {
        // Systems differ in their default.
        SockRef::from(&socket).set_only_v6(options.network.ipv6 == Ipv6::Only)?;
    }
    socket.bind(address)?;
    socket.listen(options.backlog)
}

/// Connects to the first of the endpoint's addresses that answers. A name is resolved anew each time.
pub(super) async fn connect(endpoint: &TcpEndpoint, network: &Network) -> io::Result<(TcpStream, SocketAddr)> {
    let mut last = no_address();
    for address in remote_addresses(endpoint, network).await? {
        match connect_to(address, endpoint.source(), network).await {
            Ok(stream) => return Ok((stream, address)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect_to(address: SocketAddr, source: Option<SourceAddress>, network: &Network) -> io::Result<TcpStream> {
    let socket = new_socket(address, network)?;
    if let Some(source) = source {
        // As libzmq: a fixed source port can be used again at once.
        socket.set_reuseaddr(source.port != 0)?;
        socket.bind(SocketAddr::new(source.ip.unwrap_or(unspecified(address.is_ipv6())), source.port))?;
    }
    let stream = socket.connect(address).await?;
    if stream.local_addr()? == stream.peer_addr()? {
        // Connecting to a free ephemeral port of one's own machine can meet itself.
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "connected to itself"));
    }
    set_up(&stream, network);
    Ok(stream)
}

/// A socket with buffers of the wanted sizes: before listening or connecting, for these decide on the TCP window.
fn new_socket(address: SocketAddr, network: &Network) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    set_buffers(&SockRef::from(&socket), network)?;
    Ok(socket)
}

/// Sets what is set on every open connection. One that is gone already will tell at its first read.
pub(super) fn set_up(stream: &TcpStream, network: &Network) {
    let _ = stream.set_nodelay(true);
    let Some(wanted) = network.keepalive else { return };
    let mut keepalive = TcpKeepalive::new();
    if let Some(idle) = wanted.idle {
        keepalive = keepalive.with_time(idle);
    }
    if let Some(interval) = wanted.interval {
        keepalive = keepalive.with_interval(interval);
    }
    if let Some(count) = wanted.count {
        keepalive = keepalive.with_retries(count);
    }
    if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&keepalive) {
        tracing::debug!(%error, "cannot set TCP keepalive");
    }
}

/// Sets the sizes of the system's buffers.
pub(super) fn set_buffers(socket: &SockRef<'_>, network: &Network) -> io::Result<()> {
    if network.send_buffer > 0 {
        socket.set_send_buffer_size(network.send_buffer)?;
    }
    if network.receive_buffer > 0 {
        socket.set_recv_buffer_size(network.receive_buffer)?;
    }
    Ok(())
}

async fn local_addresses(endpoint: &TcpEndpoint, network: &Network) -> io::Result<Vec<SocketAddr>> {
    match endpoint.host() {
        Host::Any => {
            let v6 = matches!(network.ipv6, Ipv6::DualStack | Ipv6::Only);
            Ok(vec![SocketAddr::new(unspecified(v6), endpoint.port())])
        }
        Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, endpoint.port())]),
        Host::Name(name) => resolve(name, endpoint.port(), network).await,
    }
}

async fn remote_addresses(endpoint: &TcpEndpoint, network: &Network) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = match endpoint.host() {
        Host::Any => return Err(io::ErrorKind::AddrNotAvailable.into()),
        _ => local_addresses(endpoint, network).await?,
    };
    if let Some(SourceAddress { ip: Some(source), .. }) = endpoint.source() {
        addresses.retain(|address| address.is_ipv4() == source.is_ipv4());
    }
    Ok(addresses)
}

async fn resolve(name: &str, port: u16, network: &Network) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = match &network.resolver {
        Some(resolver) => resolver.resolve(name, port).await?,
        None => tokio::net::lookup_host((name, port)).await?.collect(),
    };
    addresses.retain(|address| network.ipv6.admits(address));
    Ok(addresses)
}

fn unspecified(v6: bool) -> IpAddr {
    if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the name has no address that may be used")
}
