//! Listeners: bind an endpoint, accept, hand each connection to a link.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::core::{Core, Running};
use super::link::{LinkContext, drive, now};
use crate::Host;
use crate::monitor::{MonitorEvent, Reason};
use crate::pattern::{Origin, Pattern};
use crate::socket::Options;
use crate::{BindError, Endpoint, TcpEndpoint};

/// Pause after the system refused to accept, for want of file descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Binds an endpoint; gives it back with its actual address and port.
pub(crate) async fn bind<P: Pattern>(core: &Arc<Core<P>>, endpoint: &Endpoint) -> Result<Endpoint, BindError> {
    endpoint.check_bind()?;
    if core.closing.is_cancelled() {
        return Err(BindError::Closed);
    }
    let Endpoint::Tcp(tcp) = endpoint;
    let failed = |source| BindError::Io { endpoint: endpoint.clone(), source };
    let listener = open(tcp, &core.options).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let bound = Endpoint::Tcp(TcpEndpoint::new(Host::Ip(address.ip()), address.port())?);
    let Some(running) = core.add_endpoint(&bound, None) else {
        return Err(failed(io::ErrorKind::AddrInUse.into()));
    };
    core.tell(|| MonitorEvent::Listening { endpoint: bound.clone() });
    core.tasks.spawn(listen(core.clone(), listener, bound.clone(), running));
    Ok(bound)
}

async fn open(endpoint: &TcpEndpoint, options: &Options) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = match endpoint.host() {
        Host::Any => vec![(IpAddr::V4(Ipv4Addr::UNSPECIFIED), endpoint.port()).into()],
        Host::Ip(ip) => vec![(*ip, endpoint.port()).into()],
        Host::Name(name) => tokio::net::lookup_host((name.as_str(), endpoint.port())).await?.collect(),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match open_at(address, options) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn open_at(address: SocketAddr, options: &Options) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(options.backlog)
}

async fn listen<P: Pattern>(core: Arc<Core<P>>, listener: TcpListener, endpoint: Endpoint, running: Running) {
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = running.stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                failing = false;
                accept(&core, stream, peer, &endpoint);
            }
            Err(error) => {
                let error = Arc::new(error);
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(%endpoint, %error, "cannot accept connections, trying on");
                }
                core.tell(|| MonitorEvent::AcceptFailed { endpoint: endpoint.clone(), error });
                tokio::select! {
                    () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                    () = running.stop.cancelled() => break,
                }
            }
        }
    }
    drop(listener);
    core.forget_endpoint(&endpoint, &running);
    core.tell(|| MonitorEvent::Unbound { endpoint });
}

fn accept<P: Pattern>(core: &Arc<Core<P>>, stream: TcpStream, peer: SocketAddr, endpoint: &Endpoint) {
    core.tell(|| MonitorEvent::Accepted { endpoint: endpoint.clone(), peer });
    if core.link_count() >= core.options.max_connections {
        let reason = Reason::TooManyConnections;
        core.tell(|| MonitorEvent::HandshakeFailed { endpoint: endpoint.clone(), peer, reason });
        if let Some(more) = core.throttle.admit(18, now()) {
            tracing::warn!(%endpoint, %peer, max = core.options.max_connections, more, "too many connections, closed the newest");
        }
        return;
    }
    // A socket that is gone already will tell at its first read.
    let _ = stream.set_nodelay(true);
    let pipe = core.new_pipe();
    // Entered before its task has run, so that those accepted in one go count.
    let id = core.enter(&pipe, Origin::Accepted);
    let context = LinkContext { id, endpoint: endpoint.clone(), peer, origin: Origin::Accepted };
    let core = core.clone();
    core.tasks.clone().spawn(async move {
        drive(stream, context, pipe, core).await;
    });
}
