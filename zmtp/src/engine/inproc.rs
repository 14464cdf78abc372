//! inproc: two sockets of one process joined pipe to pipe, without a connection between them.
//!
//! Names belong to the process. A bound name holds no socket alive: it goes with the listener, and that with its
//! socket. Connecting waits for the name; each bind wakes those who wait. The dialer's task moves messages both ways:
//! it takes what one pipe holds, encoded by `Pipe::push` as for any transport, and delivers slices of that to the other
//! side's inbox, within its credit. There is no greeting, no mechanism and no heartbeat.
//!
//! The two sockets may live on two runtimes. A socket that closes does not wait for the other's runtime unless there
//! are messages of its own under way, and then no longer than linger allows: see [`keep_open`].

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use hashbrown::HashMap;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::core::Core;
use super::decode::decode;
use super::link::now;
use super::listener::admit;
use super::lock::Lock;
use super::membership::{LinkContext, LinkEnd, Membership};
use super::pipe::{AbortReason, Asleep, LinkWaits, Order, Pipe, Taken};
use crate::connection::{ConnectionError, Event, PeerInfo, Transmit};
use crate::monitor::{MonitorEvent, Reason};
use crate::pattern::{Origin, Pattern};
use crate::wire::greeting::Version;
use crate::{BindError, Endpoint, InprocEndpoint, PeerAddress};

/// Most messages delivered before the other direction gets its turn.
const BATCH: usize = 256;
/// Rounds of moving messages before the task lets others run.
const ROUNDS: usize = 4;

/// The names bound in this process.
static NAMES: LazyLock<Names> = LazyLock::new(Names::default);

#[derive(Default)]
struct Names {
    bound: Lock<HashMap<InprocEndpoint, Arc<dyn Door>>>,
    /// Told when a name is bound.
    changed: Notify,
}

/// A bound name, whatever its socket's type.
trait Door: Send + Sync {
    /// Our end of a new connection; `None` if the socket takes none.
    fn open(&self) -> Option<Box<dyn End>>;
}

struct Bound<P: Pattern> {
    core: Weak<Core<P>>,
    endpoint: Endpoint,
    /// The bound socket's.
    runtime: Handle,
}

impl<P: Pattern> Door for Bound<P> {
    fn open(&self) -> Option<Box<dyn End>> {
        let core = self.core.upgrade().filter(|core| !core.closing.is_cancelled())?;
        let (context, pipe) = admit(&core, PeerAddress::Inproc, &self.endpoint)?;
        let (under_way, ended) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let keeping = keep_open(core.clone(), pipe.clone(), under_way.clone(), ended.clone());
        core.tasks.spawn_on(keeping, &self.runtime);
        let accepted = Some(Accepted { under_way, _ended: ended.drop_guard() });
        Some(Box::new(Joined { membership: Membership::new(context, pipe, core), accepted }))
    }
}

/// What closing the accepting socket waits for: the end of the connection, or, as its task is the other socket's, that
/// nothing of ours is under way.
async fn keep_open<P: Pattern>(
    core: Arc<Core<P>>,
    pipe: Arc<Pipe>,
    under_way: Arc<AtomicBool>,
    ended: CancellationToken,
) {
    tokio::select! {
        () = ended.cancelled() => return,
        () = core.closing.cancelled() => {}
    }
    if pipe.is_empty() && !under_way.load(Ordering::SeqCst) {
        return;
    }
    match pipe.order() {
        Order::Finish(Some(until)) => {
            let _ = tokio::time::timeout_at(until.into(), ended.cancelled()).await;
        }
        Order::Run | Order::Finish(None) => ended.cancelled().await,
        Order::Abort(_) => {}
    }
}

/// A name taken; free again when this is dropped.
struct Registration(InprocEndpoint);

impl Drop for Registration {
    fn drop(&mut self) {
        NAMES.bound.lock().remove(&self.0);
    }
}

/// Takes a name.
pub(super) fn bind<P: Pattern>(core: &Arc<Core<P>>, name: &InprocEndpoint) -> Result<Endpoint, BindError> {
    let endpoint = Endpoint::Inproc(name.clone());
    let in_use = || BindError::Io { endpoint: Endpoint::Inproc(name.clone()), source: io::ErrorKind::AddrInUse.into() };
    let door = Arc::new(Bound { core: Arc::downgrade(core), endpoint: endpoint.clone(), runtime: Handle::current() });
    if NAMES.bound.lock().try_insert(name.clone(), door).is_err() {
        return Err(in_use());
    }
    let registration = Registration(name.clone());
    let running = core.add_endpoint(&endpoint, None).ok_or_else(in_use)?;
    core.tell(|| MonitorEvent::Listening { endpoint: endpoint.clone() });
    NAMES.changed.notify_waiters();
    let (core, bound) = (core.clone(), endpoint.clone());
    core.tasks.clone().spawn(async move {
        running.stop.cancelled().await;
        drop(registration);
        core.forget_endpoint(&bound, &running);
        core.tell(|| MonitorEvent::Unbound { endpoint: bound });
    });
    Ok(endpoint)
}

/// Waits for the name and serves one connection to it, from start to end; `None` when told to stop before there was one.
pub(super) async fn connect<P: Pattern>(
    core: &Arc<Core<P>>,
    name: &InprocEndpoint,
    pipe: &Arc<Pipe>,
    told_to_stop: impl Future<Output = ()>,
) -> Option<LinkEnd> {
    let door = tokio::select! {
        door = door(name) => door,
        () = told_to_stop => return None,
    };
    let Some(theirs) = door.open() else {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        return Some(LinkEnd { reason: Reason::Connect(Arc::new(refused)), established: false });
    };
    let endpoint = Endpoint::Inproc(name.clone());
    core.tell(|| MonitorEvent::Connected { endpoint: endpoint.clone(), peer: PeerAddress::Inproc });
    let id = core.enter(pipe, Origin::Connected);
    let context = LinkContext { id, endpoint, peer: PeerAddress::Inproc, origin: Origin::Connected };
    let membership = Membership::new(context, pipe.clone(), core.clone());
    Some(join(Box::new(Joined { membership, accepted: None }), theirs).await)
}

async fn door(name: &InprocEndpoint) -> Arc<dyn Door> {
    loop {
        // Registered before looking, so that a bind in between is not missed.
        let mut changed = pin!(NAMES.changed.notified());
        changed.as_mut().enable();
        if let Some(door) = NAMES.bound.lock().get(name) {
            return door.clone();
        }
        changed.await;
    }
}

/// One side of a joined pair, whatever its socket's type.
trait End: Send {
    fn pipe(&self) -> &Pipe;
    /// What its READY would say.
    fn info(&self) -> PeerInfo;
    fn deliver(&mut self, events: &mut Vec<Event>) -> Result<(), Reason>;
    /// Tells senders that wait for room.
    fn made_room(&self);
    /// Notes whether messages of this end are taken out of its pipe and not delivered.
    fn set_under_way(&self, under_way: bool);
    fn end(self: Box<Self>, reason: Reason) -> LinkEnd;
}

struct Joined<P: Pattern> {
    membership: Membership<P>,
    accepted: Option<Accepted>,
}

/// The accepting socket's eye on the connection.
struct Accepted {
    /// Messages are taken out of the pipe and not delivered yet.
    under_way: Arc<AtomicBool>,
    _ended: DropGuard,
}

impl<P: Pattern> End for Joined<P> {
    fn pipe(&self) -> &Pipe {
        &self.membership.pipe
    }

    fn info(&self) -> PeerInfo {
        let config = &self.membership.core.connection;
        PeerInfo {
            socket_type: Some(config.socket_type),
            routing_id: config.routing_id.clone(),
            ..PeerInfo::new(Version::V3_1)
        }
    }

    fn deliver(&mut self, events: &mut Vec<Event>) -> Result<(), Reason> {
        self.membership.deliver(events)
    }

    fn made_room(&self) {
        self.membership.core.room.notify_waiters();
    }

    fn set_under_way(&self, under_way: bool) {
        if let Some(accepted) = &self.accepted {
            accepted.under_way.store(under_way, Ordering::SeqCst);
        }
    }

    fn end(self: Box<Self>, reason: Reason) -> LinkEnd {
        self.membership.end(reason)
    }
}

/// Why a pair comes apart: for the first end and for the second.
type Parting = [Reason; 2];

/// What ends one end, as both see it: the other one only sees it gone.
fn parting(of: usize, reason: Reason) -> Parting {
    if of == 0 { [reason, Reason::PeerClosed] } else { [Reason::PeerClosed, reason] }
}

/// Serves the pair until one end leaves; tells how ours, the first, ended.
async fn join(ours: Box<dyn End>, theirs: Box<dyn End>) -> LinkEnd {
    let mut pair = Pair {
        ends: [ours, theirs],
        ways: [VecDeque::new(), VecDeque::new()],
        batch: Transmit::new(),
        events: Vec::new(),
        timer: None,
    };
    let [ours, theirs] = match pair.introduce() {
        Ok(()) => poll_fn(|cx| pair.poll(cx)).await,
        Err(parting) => parting,
    };
    let [first, second] = pair.ends;
    second.end(theirs);
    first.end(ours)
}

struct Pair {
    ends: [Box<dyn End>; 2],
    /// Taken from an end's pipe and not yet delivered to the other: it is out of credit.
    ways: [VecDeque<Event>; 2],
    batch: Transmit,
    events: Vec<Event>,
    timer: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Pair {
    /// What a handshake does: checks the types and lets each end in at the other.
    fn introduce(&mut self) -> Result<(), Parting> {
        let infos = [self.ends[0].info(), self.ends[1].info()];
        if let [Some(first), Some(second)] = [infos[0].socket_type, infos[1].socket_type]
            && !first.may_talk_to(second)
        {
            let wrong = |ours, theirs: crate::SocketType| {
                Reason::Protocol(ConnectionError::SocketType { ours, theirs: theirs.name().as_bytes().into() })
            };
            return Err([wrong(first, second), wrong(second, first)]);
        }
        let [first, second] = infos;
        for (of, peer) in [(1, first), (0, second)] {
            let mut ready = vec![Event::Ready(Box::new(peer))];
            self.ends[of].deliver(&mut ready).map_err(|reason| parting(of, reason))?;
        }
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Parting> {
        for _ in 0..ROUNDS {
            match self.round(cx) {
                Err(parting) => return Poll::Ready(parting),
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(())) => {}
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// One round; pending when there is nothing to do and both pipes have our waker.
    fn round(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, Parting> {
        let orders = [0, 1].map(|of| self.ends[of].pipe().order());
        // Both first: what a socket sends to one that is closed is to stay in its pipe.
        self.follow(0, orders[0])?;
        self.follow(1, orders[1])?;
        let moved = [self.carry(0)?, self.carry(1)?];
        if moved != [false; 2] || self.poll_timer(orders, cx).is_ready() {
            return Ok(Poll::Ready(()));
        }
        for of in [0, 1] {
            let waits = LinkWaits {
                for_output: self.ways[of].is_empty(),
                for_credit: !self.ways[1 - of].is_empty(),
                order: orders[of],
            };
            if self.ends[of].pipe().sleep(cx, waits) == Asleep::No {
                return Ok(Poll::Ready(()));
            }
        }
        Ok(Poll::Pending)
    }

    /// Obeys what a socket wants, as far as it ends the pair.
    fn follow(&self, of: usize, order: Order) -> Result<(), Parting> {
        let reason = match order {
            Order::Run => return Ok(()),
            Order::Abort(AbortReason::Replaced) => Reason::Replaced,
            Order::Abort(AbortReason::Crowded) => Reason::Crowded,
            Order::Abort(AbortReason::Closed) => Reason::Closed,
            Order::Finish(until) => {
                let all_delivered = self.ways[of].is_empty() && self.ends[of].pipe().is_empty();
                if !all_delivered && until.is_none_or(|until| now() < until) {
                    return Ok(());
                }
                Reason::Closed
            }
        };
        Err(parting(of, reason))
    }

    /// Moves what an end has for the other; whether there was anything that could be moved.
    fn carry(&mut self, from: usize) -> Result<bool, Parting> {
        let to = 1 - from;
        if self.ways[from].is_empty() {
            self.ends[from].set_under_way(true);
            if self.ends[from].pipe().take(&mut self.batch) == Taken::MadeRoom {
                self.ends[from].made_room();
            }
            decode(&mut self.batch, &mut self.ways[from]);
        }
        let done = self.move_some(from, to);
        self.ends[from].set_under_way(!self.ways[from].is_empty());
        done
    }

    fn move_some(&mut self, from: usize, to: usize) -> Result<bool, Parting> {
        let count = self.ends[to].pipe().credit().min(BATCH).min(self.ways[from].len());
        if count == 0 {
            return Ok(false);
        }
        self.events.extend(self.ways[from].drain(..count));
        self.ends[to].deliver(&mut self.events).map_err(|reason| parting(to, reason))?;
        Ok(true)
    }

    /// Ready when linger is over at one end.
    fn poll_timer(&mut self, orders: [Order; 2], cx: &mut Context<'_>) -> Poll<()> {
        let ends = orders.into_iter().filter_map(|order| if let Order::Finish(until) = order { until } else { None });
        let Some(due) = ends.min() else { return Poll::Pending };
        if self.timer.as_ref().is_none_or(|(at, _)| *at != due) {
            self.timer = Some((due, Box::pin(tokio::time::sleep_until(due.into()))));
        }
        match &mut self.timer {
            Some((_, sleep)) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}
