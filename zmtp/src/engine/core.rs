//! [`Core`]: what a socket's handles, links, listeners and dialers share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::inbox::{Arrival, Delivery, Inbox};
use super::link::now;
use super::lock::Lock;
use super::pipe::{AbortReason, Keep, Order, Pipe, PipeLimits};
use super::pool::BufferPool;
use super::throttle::Throttle;
use crate::connection::{ConnectionConfig, PeerInfo};
use crate::monitor::{Monitor, MonitorEvent, Reason};
use crate::pattern::{Admission, Joining, Origin, Pattern};
use crate::socket::Options;
use crate::wire::frame;
use crate::{Endpoint, Message, RoutingId, SocketType};

/// Events kept for a monitor that reads slowly.
const MONITOR_BACKLOG: usize = 1024;

/// One link among all that a socket ever had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LinkId(pub(crate) u64);

/// A socket's shared state; `P` is what makes it a ROUTER or a DEALER.
#[derive(Debug)]
pub(crate) struct Core<P> {
    pub(crate) connection: Arc<ConnectionConfig>,
    pub(crate) options: Options,
    pub(crate) pattern: Lock<P>,
    pub(crate) inbox: Inbox,
    pub(crate) pool: BufferPool,
    /// Told when a pipe that was full has room, and when peers come or go.
    pub(crate) room: Arc<Notify>,
    pub(crate) throttle: Throttle,
    /// Cancelled when the socket closes.
    pub(crate) closing: CancellationToken,
    pub(crate) tasks: TaskTracker,
    links: Lock<Links>,
    /// Listeners by where connections are accepted, dialers by where they are to be connected.
    endpoints: Lock<HashMap<(Origin, Endpoint), Running>>,
    monitor: broadcast::Sender<MonitorEvent>,
}

/// A listener or dialer at work.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    /// Cancelled to stop it.
    pub(crate) stop: CancellationToken,
    /// Cancelled by it when it has stopped.
    pub(crate) stopped: CancellationToken,
    /// A dialer's pipe.
    pipe: Option<Arc<Pipe>>,
}

#[derive(Debug, Default)]
struct Links {
    next: u64,
    alive: HashMap<LinkId, Arc<Pipe>>,
    /// Accepted, handshake not complete; the oldest first.
    handshaking: BTreeMap<LinkId, Arc<Pipe>>,
    /// Set once: links that come later are closed too.
    order: Option<Order>,
}

impl<P: Pattern> Core<P> {
    pub(crate) fn new(connection: ConnectionConfig, options: Options, pattern: P) -> Arc<Self> {
        Arc::new(Self {
            connection: Arc::new(connection),
            options,
            pattern: Lock::new(pattern),
            inbox: Inbox::default(),
            pool: BufferPool::default(),
            room: Arc::default(),
            throttle: Throttle::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            links: Lock::default(),
            endpoints: Lock::default(),
            monitor: broadcast::Sender::new(MONITOR_BACKLOG),
        })
    }

    pub(crate) fn new_pipe(&self) -> Arc<Pipe> {
        let hwm = |messages: usize| if messages == 0 { usize::MAX } else { messages };
        let limits = PipeLimits { send: hwm(self.options.send_hwm), receive: hwm(self.options.receive_hwm) };
        Arc::new(match self.options.keep {
            Keep::Queued => Pipe::new(limits),
            Keep::Newest => Pipe::keeping(Keep::Newest, PipeLimits { send: 1, receive: usize::MAX }),
        })
    }

    /// Whether the application can receive at all: what comes to a PUSH or PUB is for nobody.
    pub(crate) fn receives(&self) -> bool {
        !matches!(self.connection.socket_type, SocketType::Push | SocketType::Pub)
    }

    /// Hands messages of a peer to the application.
    pub(crate) fn deliver(&self, peer: &RoutingId, pipe: &Arc<Pipe>, mut messages: VecDeque<Message>) {
        if messages.is_empty() {
            return;
        }
        match self.options.keep {
            Keep::Queued => {
                let count = messages.len();
                let delivery = Delivery::Batch { peer: peer.clone(), pipe: pipe.clone(), messages };
                pipe.deliver(count, || self.inbox.push(delivery));
            }
            Keep::Newest => {
                messages.drain(..messages.len() - 1);
                let delivery = Delivery::Batch { peer: peer.clone(), pipe: pipe.clone(), messages };
                pipe.deliver(0, || self.inbox.replace(pipe, delivery));
            }
        }
    }

    /// Enters a link. An accepted one may push the oldest unfinished handshake out: a flood of connections that never
    /// finish cannot keep out real peers, whose handshakes take milliseconds.
    pub(crate) fn enter(&self, pipe: &Arc<Pipe>, origin: Origin) -> LinkId {
        let mut links = self.links.lock();
        let id = LinkId(links.next);
        links.next += 1;
        links.alive.insert(id, pipe.clone());
        let mut crowded = None;
        if origin == Origin::Accepted {
            links.handshaking.insert(id, pipe.clone());
            if links.handshaking.len() > self.options.max_handshakes {
                crowded = links.handshaking.pop_first();
            }
        }
        let order = links.order;
        drop(links);
        if let Some((_, oldest)) = crowded {
            oldest.give(Order::Abort(AbortReason::Crowded));
        }
        if let Some(order) = order {
            pipe.give(order);
        }
        id
    }

    /// How many links there are.
    pub(crate) fn link_count(&self) -> usize {
        self.links.lock().alive.len()
    }

    /// Lets a peer whose handshake is complete in.
    ///
    /// It is announced before the lock is let go: so the Up of one connection and the Down of another with the same
    /// routing id come in the order in which they held it.
    pub(crate) fn attach(
        &self,
        link: LinkId,
        pipe: &Arc<Pipe>,
        origin: Origin,
        info: Box<PeerInfo>,
    ) -> Result<RoutingId, Reason> {
        self.links.lock().handshaking.remove(&link);
        let mut pattern = self.pattern.lock();
        if self.inbox.is_crowded() {
            return Err(Reason::Unread);
        }
        pipe.discard_control();
        let (peer, arrival, replaced) = match pattern.attach(Joining { link, pipe, origin, info: &info }) {
            Admission::As(peer) => (peer, Arrival::Fresh, None),
            Admission::Replacing { peer, old } => (peer, Arrival::Replacing, old),
            Admission::Refused(reason) => return Err(reason),
        };
        if let Some(old) = replaced {
            old.give(Order::Abort(AbortReason::Replaced));
        }
        if self.options.probe_router {
            pipe.push_control(|out| frame::put(out, 0, b""));
        }
        if self.receives() {
            self.inbox.push(Delivery::Up { peer: peer.clone(), info, arrival });
        }
        drop(pattern);
        self.room.notify_waiters();
        Ok(peer)
    }

    /// Takes a link out; `peer` if it had been let in.
    pub(crate) fn leave(&self, link: LinkId, pipe: &Arc<Pipe>, origin: Origin, peer: Option<&RoutingId>, why: &Reason) {
        let mut links = self.links.lock();
        links.alive.remove(&link);
        links.handshaking.remove(&link);
        drop(links);
        let mut pattern = self.pattern.lock();
        if origin == Origin::Accepted {
            pipe.give(Order::Abort(AbortReason::Closed));
        }
        let Some(peer) = peer else { return };
        if P::EXAMINES {
            let messages = pattern.farewell(link);
            if !messages.is_empty() {
                // Not through the pipe, which takes nothing any more.
                self.inbox.push(Delivery::Batch { peer: peer.clone(), pipe: pipe.clone(), messages });
            }
        }
        if pattern.detach(link, peer, origin) && self.receives() {
            self.inbox.push(Delivery::Down { peer: peer.clone(), reason: why.clone() });
        }
        drop(pattern);
        self.room.notify_waiters();
    }

    pub(crate) fn monitor(&self) -> Monitor {
        Monitor::new(self.monitor.subscribe())
    }

    /// Tells the monitors; the event is only built if there are any.
    pub(crate) fn tell(&self, event: impl FnOnce() -> MonitorEvent) {
        if self.monitor.receiver_count() > 0 {
            // An error says that the last monitor left in between.
            let _ = self.monitor.send(event());
        }
    }

    /// Remembers a listener, or a dialer with its pipe; `None` if there is one of that endpoint.
    pub(crate) fn add_endpoint(&self, endpoint: &Endpoint, pipe: Option<Arc<Pipe>>) -> Option<Running> {
        let mut endpoints = self.endpoints.lock();
        let key = key(endpoint, pipe.is_some());
        if endpoints.contains_key(&key) {
            return None;
        }
        let running = Running { stop: self.closing.child_token(), stopped: CancellationToken::new(), pipe };
        endpoints.insert(key, running.clone());
        Some(running)
    }

    /// For a listener or dialer that has ended by itself or on request.
    pub(crate) fn forget_endpoint(&self, endpoint: &Endpoint, running: &Running) {
        let mut endpoints = self.endpoints.lock();
        let key = key(endpoint, running.pipe.is_some());
        if endpoints.get(&key).is_some_and(|there| there.stopped == running.stopped) {
            endpoints.remove(&key);
        }
        drop(endpoints);
        running.stopped.cancel();
    }

    /// Stops the listener or dialer of an endpoint, if there is one. A dialer still sends what its pipe holds.
    pub(crate) fn stop_endpoint(&self, endpoint: &Endpoint, origin: Origin) -> Option<Running> {
        let running = self.endpoints.lock().remove(&(origin, endpoint.clone()))?;
        if let Some(pipe) = &running.pipe {
            pipe.give(self.finish());
            self.room.notify_waiters();
        }
        running.stop.cancel();
        Some(running)
    }

    /// For a dialer that ends: nobody will empty its pipe any more.
    pub(crate) fn retire(&self, pipe: &Arc<Pipe>) {
        pipe.give(Order::Abort(AbortReason::Closed));
        self.pattern.lock().forget(pipe);
        self.room.notify_waiters();
    }

    /// The order to write what is queued within the linger time from now.
    fn finish(&self) -> Order {
        Order::Finish(self.options.linger.map(|linger| now() + linger))
    }

    /// Stops listeners and dialers and has the links write what is queued, at most until `linger` is over.
    pub(crate) fn close(&self) {
        let order = self.finish();
        self.inbox.close();
        let mut links = self.links.lock();
        if links.order.is_some() {
            return;
        }
        links.order = Some(order);
        let mut pipes: Vec<_> = links.alive.values().cloned().collect();
        drop(links);
        pipes.extend(self.endpoints.lock().values().filter_map(|running| running.pipe.clone()));
        pipes.iter().for_each(|pipe| pipe.give(order));
        self.closing.cancel();
        self.tasks.close();
        self.room.notify_waiters();
    }
}

fn key(endpoint: &Endpoint, dialed: bool) -> (Origin, Endpoint) {
    (if dialed { Origin::Connected } else { Origin::Accepted }, endpoint.clone())
}
