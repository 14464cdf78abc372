//! Listeners: bind an endpoint, accept, hand each connection to a link.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::core::{Core, Running};
use super::inproc;
use super::link::{drive, now};
use super::membership::LinkContext;
use super::pipe::Pipe;
use super::transport::{self, Listener, Stream};
use crate::monitor::{MonitorEvent, Reason};
use crate::pattern::{Origin, Pattern};
use crate::{BindError, Endpoint, PeerAddress};

/// Pause after the system refused to accept, for want of file descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Binds an endpoint; gives it back with its actual address and port.
pub(crate) async fn bind<P: Pattern>(core: &Arc<Core<P>>, endpoint: &Endpoint) -> Result<Endpoint, BindError> {
    endpoint.check_bind()?;
    if core.closing.is_cancelled() {
        return Err(BindError::Closed);
    }
    core.options.network.ipv6.check(endpoint)?;
    if let Endpoint::Inproc(name) = endpoint {
        return inproc::bind(core, name);
    }
    let (listener, bound) = transport::bind(endpoint, &core.options).await?;
    let Some(running) = core.add_endpoint(&bound, None) else {
        return Err(BindError::Io { endpoint: bound, source: io::ErrorKind::AddrInUse.into() });
    };
    core.tell(|| MonitorEvent::Listening { endpoint: bound.clone() });
    core.tasks.spawn(listen(core.clone(), listener, bound.clone(), running));
    Ok(bound)
}

async fn listen<P: Pattern>(core: Arc<Core<P>>, listener: Listener, endpoint: Endpoint, running: Running) {
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

fn accept<P: Pattern>(core: &Arc<Core<P>>, stream: Stream, peer: PeerAddress, endpoint: &Endpoint) {
    let Some((context, pipe)) = admit(core, peer, endpoint) else { return };
    stream.set_up(&core.options);
    let core = core.clone();
    core.tasks.clone().spawn(async move {
        drive(stream, context, pipe, core).await;
    });
}

/// Enters a new connection, unless there are too many.
pub(super) fn admit<P: Pattern>(
    core: &Core<P>,
    peer: PeerAddress,
    endpoint: &Endpoint,
) -> Option<(LinkContext, Arc<Pipe>)> {
    core.tell(|| MonitorEvent::Accepted { endpoint: endpoint.clone(), peer });
    if core.link_count() >= core.options.max_connections {
        let reason = Reason::TooManyConnections;
        core.tell(|| MonitorEvent::HandshakeFailed { endpoint: endpoint.clone(), peer, reason });
        if let Some(more) = core.throttle.admit(18, now()) {
            tracing::warn!(%endpoint, %peer, max = core.options.max_connections, more, "too many connections, closed the newest");
        }
        return None;
    }
    let pipe = core.new_pipe();
    // Entered before its task has run, so that those accepted in one go count.
    let id = core.enter(&pipe, Origin::Accepted);
    Some((LinkContext { id, endpoint: endpoint.clone(), peer, origin: Origin::Accepted }, pipe))
}
