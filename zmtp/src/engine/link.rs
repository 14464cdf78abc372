//! The link: the task that drives one connection over a stream.
//!
//! One hand-written poll loop: read what is there, decode, deliver; take what is queued, write; sleep. Timers are armed
//! only when a deadline moves closer, and a link at rest holds no read buffer.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;
use tokio_util::io::poll_read_buf;

use super::core::Core;
use super::membership::{LinkContext, LinkEnd, Membership};
use super::pipe::{AbortReason, Asleep, LinkWaits, Order, Pipe, Taken};
use super::pool::BufferPool;
use crate::connection::{Connection, Event, Transmit};
use crate::monitor::Reason;
use crate::pattern::Pattern;

/// Most messages decoded before they are delivered and others get their turn.
const BATCH: usize = 256;
/// Rounds of reading and writing before the task lets others run.
const ROUNDS: usize = 4;
/// Least room for a read, in bytes.
const MIN_READ: usize = 16 * 1024;
/// Most room reserved at once for a large frame, in bytes: memory follows what arrives, not what is announced.
const MAX_RESERVE: usize = 1024 * 1024;
/// A beginning of a frame up to this size does not keep a whole read buffer while the link sleeps, in bytes.
const STASH: usize = 4 * 1024;
/// How long a link that has written everything waits for the peer to close too.
const DRAIN: Duration = Duration::from_secs(1);
const SLICES: usize = 64;
/// A larger list of events is given back before sleeping.
const KEEP_EVENTS: usize = 64;

/// Drives one connection, which [`Core::enter`] has let in, to its end.
pub(crate) async fn drive<S, P>(stream: S, context: LinkContext, pipe: Arc<Pipe>, core: Arc<Core<P>>) -> LinkEnd
where
    S: AsyncRead + AsyncWrite + Unpin,
    P: Pattern,
{
    let mut membership = Membership::new(context, pipe, core);
    let mut link = Link {
        connection: Connection::new(membership.core.connection.clone(), now()).with_address(membership.peer_address()),
        stream,
        input: Input::Nothing,
        oversized: false,
        undecoded: false,
        events: Vec::new(),
        batch: Transmit::new(),
        timer: None,
        phase: Phase::Running,
        broken: None,
    };
    let reason = poll_fn(|cx| link.poll(&mut membership, cx)).await;
    // The transport first: who hears of the end finds it closed.
    drop(link);
    membership.end(reason)
}

/// The time by the runtime's clock, which tests may stop.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

struct Link<S> {
    stream: S,
    connection: Connection,
    input: Input,
    /// `input` has grown beyond what the pool keeps. What is left of it after a large message would keep all of it alive.
    oversized: bool,
    /// Decoding stopped at its budget: there may be whole messages in `input`.
    undecoded: bool,
    events: Vec<Event>,
    batch: Transmit,
    timer: Option<Timer>,
    phase: Phase,
    /// Why writing failed: what the peer had sent before is still read and delivered, then the link ends.
    broken: Option<Reason>,
}

/// Bytes read and not decoded.
enum Input {
    Nothing,
    /// A few, while the link sleeps.
    Stash(Box<[u8]>),
    /// In a buffer of the pool.
    Buffer(BytesMut),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Everything is written; the write side is being shut down.
    ShuttingDown,
    /// Waiting for the peer to close, so that it can read everything before our side is gone.
    Draining(Instant),
}

struct Timer {
    sleep: Pin<Box<Sleep>>,
    at: Instant,
}

/// What one step of reading or writing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Progress,
    Idle,
    NoCredit,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Link<S> {
    fn poll<P: Pattern>(&mut self, at: &mut Membership<P>, cx: &mut Context<'_>) -> Poll<Reason> {
        for _ in 0..ROUNDS {
            match self.round(at, cx) {
                Err(reason) => {
                    self.flush_refusal(cx);
                    return Poll::Ready(reason);
                }
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(())) => {}
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// One round; pending when there is nothing to do and everything that may change that has our waker.
    fn round<P: Pattern>(&mut self, at: &mut Membership<P>, cx: &mut Context<'_>) -> Result<Poll<()>, Reason> {
        let now = now();
        let order = at.pipe.order();
        self.follow(order, now)?;
        // Read first: what waits in the kernel is a sign of life, however late this task got its turn.
        let read = self.read(at, cx, now)?;
        if self.connection.deadline().is_some_and(|due| due <= now) {
            if read == Step::NoCredit {
                self.connection.on_held_back(now);
            }
            self.connection.on_deadline(now)?;
        }
        let wrote = self.write(at, cx)?;
        if read == Step::Progress || wrote == Step::Progress {
            return Ok(Poll::Ready(()));
        }
        if let Order::Finish(_) = order
            && self.finish(&at.pipe, cx, now)? == Step::Progress
        {
            return Ok(Poll::Ready(()));
        }
        if self.poll_timer(order, cx).is_ready() {
            return Ok(Poll::Ready(()));
        }
        let waits = LinkWaits {
            for_output: self.broken.is_none() && self.connection.is_open() && self.connection.transmit().is_empty(),
            for_credit: read == Step::NoCredit,
            order,
        };
        match at.pipe.sleep(cx, waits) {
            Asleep::No => Ok(Poll::Ready(())),
            Asleep::Yes => {
                self.release_input(&at.core);
                Ok(Poll::Pending)
            }
        }
    }

    /// Obeys what the socket wants, as far as it ends the link.
    fn follow(&self, order: Order, now: Instant) -> Result<(), Reason> {
        match order {
            Order::Abort(AbortReason::Replaced) => Err(Reason::Replaced),
            Order::Abort(AbortReason::Crowded) => Err(Reason::Crowded),
            Order::Abort(AbortReason::Closed) => Err(Reason::Closed),
            Order::Finish(Some(until)) if until <= now => Err(Reason::Closed),
            Order::Finish(_) | Order::Run => match self.phase {
                Phase::Draining(until) if until <= now => Err(Reason::Closed),
                _ => Ok(()),
            },
        }
    }

    fn read<P: Pattern>(&mut self, at: &mut Membership<P>, cx: &mut Context<'_>, now: Instant) -> Result<Step, Reason> {
        let closing = self.phase != Phase::Running;
        let budget = at.pipe.credit().min(BATCH);
        if budget == 0 && self.connection.is_open() && !closing {
            return Ok(Step::NoCredit);
        }
        let mut input = self.take_input(&at.core);
        if !std::mem::take(&mut self.undecoded) {
            self.make_room(&mut input, &at.core);
            match poll_read_buf(Pin::new(&mut self.stream), cx, &mut input) {
                Poll::Pending => {
                    self.input = Input::Buffer(input);
                    return self.broken.take().map_or(Ok(Step::Idle), Err);
                }
                Poll::Ready(Err(_) | Ok(0)) if closing => return Err(Reason::Closed),
                Poll::Ready(Err(error)) => return Err(Reason::Io(Arc::new(error))),
                Poll::Ready(Ok(0)) => {
                    return Err(self.connection.awaits().map_or(Reason::PeerClosed, Reason::ClosedAwaiting));
                }
                Poll::Ready(Ok(_)) => {}
            }
        }
        if closing {
            input.clear();
            self.input = Input::Buffer(input);
            return Ok(Step::Progress);
        }
        let result = self.connection.receive(&mut input, budget, now, &mut self.events);
        self.undecoded = !self.events.is_empty() && self.events.len() >= budget;
        self.input = Input::Buffer(input);
        at.deliver(&mut self.events)?;
        result?;
        Ok(Step::Progress)
    }

    /// The buffer to decode from, with what is left from the last read at its front.
    fn take_input<P>(&mut self, core: &Core<P>) -> BytesMut {
        match std::mem::replace(&mut self.input, Input::Nothing) {
            Input::Buffer(input) => input,
            Input::Nothing => core.pool.take(0),
            Input::Stash(stash) => {
                let mut input = core.pool.take(0);
                input.extend_from_slice(&stash);
                input
            }
        }
    }

    /// Room to read into: in the same buffer, or, when that is used up, in another.
    fn make_room<P>(&mut self, input: &mut BytesMut, core: &Core<P>) {
        let room = self.connection.wanted().min(MAX_RESERVE).min(input.len()).max(MIN_READ);
        if input.capacity() - input.len() >= room || (!self.oversized && input.try_reclaim(room)) {
            return;
        }
        let room = room.max(4 * MIN_READ);
        if input.len() + room > BufferPool::LARGEST {
            // Grows by doubling, as a large frame arrives.
            input.reserve(room);
            self.oversized |= input.capacity() > BufferPool::LARGEST;
            return;
        }
        let mut next = core.pool.take(input.len() + room);
        next.extend_from_slice(input);
        let used = std::mem::replace(input, next);
        if !std::mem::take(&mut self.oversized) {
            core.pool.put(used);
        }
    }

    /// Gives the read buffer back before sleeping, keeping at most a few bytes of an unfinished frame.
    fn release_input<P>(&mut self, core: &Core<P>) {
        if self.events.capacity() > KEEP_EVENTS {
            self.events = Vec::new();
        }
        match std::mem::replace(&mut self.input, Input::Nothing) {
            Input::Buffer(input) if input.len() <= STASH => {
                if !input.is_empty() {
                    self.input = Input::Stash(input[..].into());
                }
                if !std::mem::take(&mut self.oversized) {
                    core.pool.put(input);
                }
            }
            input => self.input = input,
        }
    }

    fn write<P: Pattern>(&mut self, at: &Membership<P>, cx: &mut Context<'_>) -> Result<Step, Reason> {
        if self.broken.is_some() {
            return Ok(Step::Idle);
        }
        if self.connection.is_open() && self.connection.transmit().is_empty() {
            if at.pipe.take(&mut self.batch) == Taken::MadeRoom {
                at.core.room.notify_waiters();
            }
            self.connection.send_batch(&mut self.batch);
        }
        let mut step = Step::Idle;
        while self.connection.transmit().has_remaining() {
            match poll_write(&mut self.stream, cx, self.connection.transmit()) {
                Poll::Pending => return Ok(step),
                Poll::Ready(Err(error)) => {
                    self.broken = Some(Reason::Io(Arc::new(error)));
                    return Ok(Step::Progress);
                }
                Poll::Ready(Ok(())) => step = Step::Progress,
            }
        }
        if step == Step::Progress {
            self.connection.on_flushed();
        }
        Ok(step)
    }

    /// Closes in order: everything written, then the write side shut down, then the peer's end awaited.
    fn finish(&mut self, pipe: &Pipe, cx: &mut Context<'_>, now: Instant) -> Result<Step, Reason> {
        if let Some(reason) = self.broken.take() {
            return Err(reason);
        }
        match self.phase {
            // What waits in the pipe is sent once the handshake is complete.
            Phase::Running if !self.connection.is_open() && pipe.is_empty() => Err(Reason::Closed),
            Phase::Running if !self.connection.is_open() => Ok(Step::Idle),
            Phase::Running if self.connection.transmit().has_remaining() => Ok(Step::Idle),
            Phase::Running => {
                self.phase = Phase::ShuttingDown;
                Ok(Step::Progress)
            }
            Phase::ShuttingDown => match Pin::new(&mut self.stream).poll_shutdown(cx) {
                Poll::Pending => Ok(Step::Idle),
                Poll::Ready(Err(error)) => Err(Reason::Io(Arc::new(error))),
                Poll::Ready(Ok(())) => {
                    self.phase = Phase::Draining(now + DRAIN);
                    Ok(Step::Progress)
                }
            },
            Phase::Draining(_) => Ok(Step::Idle),
        }
    }

    /// Ready when the next deadline has come. A deadline that moved away leaves the timer alone: it fires early once.
    fn poll_timer(&mut self, order: Order, cx: &mut Context<'_>) -> Poll<()> {
        let finish = if let Order::Finish(until) = order { until } else { None };
        let drain = if let Phase::Draining(until) = self.phase { Some(until) } else { None };
        let Some(due) = [self.connection.deadline(), finish, drain].into_iter().flatten().min() else {
            return Poll::Pending;
        };
        let timer = match &mut self.timer {
            Some(timer) => {
                if due < timer.at {
                    timer.sleep.as_mut().reset(due.into());
                    timer.at = due;
                }
                timer
            }
            none => none.insert(Timer { sleep: Box::pin(tokio::time::sleep_until(due.into())), at: due }),
        };
        if timer.sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.timer = None;
        Poll::Ready(())
    }

    /// Tries once to write what is left, such as an ERROR command, before the stream is dropped.
    fn flush_refusal(&mut self, cx: &mut Context<'_>) {
        if self.phase == Phase::Running && self.connection.transmit().has_remaining() {
            let _ = poll_write(&mut self.stream, cx, self.connection.transmit());
        }
    }
}

/// Writes once from `transmit` and advances it.
fn poll_write<S: AsyncWrite + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    transmit: &mut Transmit,
) -> Poll<io::Result<()>> {
    let mut slices = [IoSlice::new(&[]); SLICES];
    let written = match transmit.chunks_vectored(&mut slices) {
        1 => Pin::new(stream).poll_write(cx, &slices[0]),
        count => Pin::new(stream).poll_write_vectored(cx, &slices[..count]),
    };
    written.map(|result| match result {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Ok(count) => {
            transmit.advance(count);
            Ok(())
        }
        Err(error) => Err(error),
    })
}
