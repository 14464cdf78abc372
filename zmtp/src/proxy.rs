//! [`proxy`]: moves messages between two sockets.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use thiserror::Error;
use tokio::sync::futures::OwnedNotified;
use tokio::sync::{mpsc, oneshot};

use crate::socket::end::{BATCH, End, receives, sends};
use crate::{Message, SendError, SendFailure, SocketType};

/// Sockets that a [`proxy`] can stand between: all but REQ and REP, whose turns it could not keep.
pub trait ProxySocket: End {}

impl<T: End> ProxySocket for T {}

/// Why two sockets cannot be joined by a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// What the one receives the other cannot send.
    #[error("a {to} cannot send what a {from} receives")]
    OneWay {
        /// The receiving one.
        from: SocketType,
        /// The one that cannot send.
        to: SocketType,
    },
    /// Neither receives anything.
    #[error("neither a {0} nor a {1} receives anything")]
    Nothing(SocketType, SocketType),
}

/// Messages and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Whole messages.
    pub messages: u64,
    /// Their bytes on the wire, frame headers included.
    pub bytes: u64,
}

/// What went through one socket of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProxyTraffic {
    /// Taken from it.
    pub received: Count,
    /// Given to it. What the socket then dropped, as its type is wont to, counts too.
    pub sent: Count,
}

/// What a proxy has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProxyStatistics {
    /// The first socket.
    pub frontend: ProxyTraffic,
    /// The second socket.
    pub backend: ProxyTraffic,
}

#[derive(Debug)]
enum Command {
    Pause,
    Resume,
    Terminate,
    Statistics(oneshot::Sender<ProxyStatistics>),
}

/// Steers a running [`proxy`]; cheap to clone. Made by [`proxy_control`]. The proxy goes on when all of them are gone.
#[derive(Debug, Clone)]
pub struct ProxyControl(mpsc::UnboundedSender<Command>);

/// What a [`proxy`] listens to: the other end of a [`ProxyControl`].
#[derive(Debug)]
pub struct ProxyCommands(mpsc::UnboundedReceiver<Command>);

/// A control for one proxy, and what is to be given to it.
pub fn proxy_control() -> (ProxyControl, ProxyCommands) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (ProxyControl(sender), ProxyCommands(receiver))
}

impl ProxyControl {
    /// Has the proxy take no more messages; senders are held back at the sockets' high-water marks.
    pub fn pause(&self) {
        self.tell(Command::Pause);
    }

    /// Has a paused proxy go on.
    pub fn resume(&self) {
        self.tell(Command::Resume);
    }

    /// Ends the proxy once it has passed on what it has taken.
    pub fn terminate(&self) {
        self.tell(Command::Terminate);
    }

    /// What the proxy has done so far; `None` if it has ended.
    pub async fn statistics(&self) -> Option<ProxyStatistics> {
        let (sender, receiver) = oneshot::channel();
        self.tell(Command::Statistics(sender));
        receiver.await.ok()
    }

    fn tell(&self, command: Command) {
        // To one that has ended there is nothing to say.
        let _ = self.0.send(command);
    }
}

/// Passes on what either socket receives to the other, in batches, until it is told to end or a socket is closed: the
/// shared queue between REQs or DEALERs and REPs (ROUTER and DEALER), the forwarder between publishers and subscribers
/// (XSUB and XPUB), the streamer between pipelines (PULL and PUSH).
///
/// A copy of every message goes to `capture` first. A socket that has no room holds back the other, and so does
/// `capture`; what a ROUTER cannot deliver it drops. Dropping the future instead of terminating the proxy may lose up to
/// a batch of messages that it had taken.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use zmtp::{Message, Pull, Push, proxy, proxy_control};
///
/// let any_port = "tcp://127.0.0.1:0".parse()?;
/// let (mut frontend, mut backend) = (Pull::builder().build(), Push::builder().build());
/// let (entry, exit) = (frontend.bind(&any_port).await?, backend.bind(&any_port).await?);
/// let (control, commands) = proxy_control();
/// let running = tokio::spawn(async move { proxy(&mut frontend, &mut backend, None, Some(commands)).await });
///
/// let (push, mut pull) = (Push::builder().build(), Pull::builder().build());
/// push.connect(&entry)?;
/// pull.connect(&exit)?;
/// push.send(Message::from("through")).await?;
/// assert_eq!(pull.recv().await?, Message::from("through"));
/// control.terminate();
/// assert_eq!(running.await??.backend.sent.messages, 1);
/// # Ok(()) }
/// ```
///
/// # Errors
/// The sockets do not fit each other.
pub async fn proxy(
    frontend: &mut dyn ProxySocket,
    backend: &mut dyn ProxySocket,
    mut capture: Option<&mut dyn ProxySocket>,
    control: Option<ProxyCommands>,
) -> Result<ProxyStatistics, ProxyError> {
    check(frontend.socket_type(), backend.socket_type(), capture.as_ref().map(|capture| capture.socket_type()))?;
    let mut forth = Way::default();
    let mut back = Way::default();
    let mut steering = Steering { commands: control, mode: Mode::Running };
    poll_fn(|cx| {
        steering.obey(cx, || statistics(&forth, &back));
        let mode = steering.mode;
        let moved = [
            forth.poll(cx, mode, frontend, backend, &mut capture),
            back.poll(cx, mode, backend, frontend, &mut capture),
        ];
        if moved.iter().any(|way| matches!(way, Poll::Ready(Err(Closed)))) {
            return Poll::Ready(());
        }
        if mode == Mode::Ending && forth.is_empty() && back.is_empty() {
            return Poll::Ready(());
        }
        if moved.iter().any(Poll::is_ready) {
            // The sockets' connections get their turn before the next batches.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
    Ok(statistics(&forth, &back))
}

fn check(front: SocketType, back: SocketType, capture: Option<SocketType>) -> Result<(), ProxyError> {
    for (from, to) in [(front, back), (back, front)] {
        if receives(from) && !sends(to) {
            return Err(ProxyError::OneWay { from, to });
        }
    }
    if !receives(front) && !receives(back) {
        return Err(ProxyError::Nothing(front, back));
    }
    match capture {
        Some(capture) if !sends(capture) => Err(ProxyError::OneWay { from: front, to: capture }),
        _ => Ok(()),
    }
}

fn statistics(forth: &Way, back: &Way) -> ProxyStatistics {
    ProxyStatistics {
        frontend: ProxyTraffic { received: forth.received, sent: back.sent },
        backend: ProxyTraffic { received: back.received, sent: forth.sent },
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Running,
    Paused,
    Ending,
}

struct Steering {
    commands: Option<ProxyCommands>,
    mode: Mode,
}

impl Steering {
    fn obey(&mut self, cx: &mut Context<'_>, statistics: impl Fn() -> ProxyStatistics) {
        while let Some(commands) = &mut self.commands {
            match commands.0.poll_recv(cx) {
                Poll::Pending => return,
                Poll::Ready(None) => self.commands = None,
                Poll::Ready(Some(Command::Statistics(to))) => {
                    // Nobody need wait for it any more.
                    let _ = to.send(statistics());
                }
                Poll::Ready(Some(_)) if self.mode == Mode::Ending => {}
                Poll::Ready(Some(Command::Pause)) => self.mode = Mode::Paused,
                Poll::Ready(Some(Command::Resume)) => self.mode = Mode::Running,
                Poll::Ready(Some(Command::Terminate)) => self.mode = Mode::Ending,
            }
        }
    }
}

/// A socket is closed.
struct Closed;

/// One direction.
#[derive(Default)]
struct Way {
    /// Taken and not passed on; the first may have been captured.
    batch: VecDeque<Message>,
    captured: bool,
    /// The notice of room that is waited for.
    room: Option<Pin<Box<OwnedNotified>>>,
    received: Count,
    sent: Count,
}

impl Way {
    fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Moves up to a batch; ready if there was something to move.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mode: Mode,
        from: &mut dyn ProxySocket,
        to: &mut dyn ProxySocket,
        capture: &mut Option<&mut dyn ProxySocket>,
    ) -> Poll<Result<(), Closed>> {
        if self.batch.is_empty() {
            if mode != Mode::Running || !receives(from.socket_type()) {
                return Poll::Pending;
            }
            self.batch.reserve(BATCH);
            if ready!(from.poll_take(cx, &mut self.batch)).is_err() {
                return Poll::Ready(Err(Closed));
            }
            self.batch.iter().for_each(|message| self.received.add(message.wire_len() as u64));
        }
        while let Some(message) = self.batch.pop_front() {
            if let Some(capture) = capture
                && !self.captured
            {
                match put(cx, &mut self.room, *capture, message.clone()) {
                    Ok(()) => self.captured = true,
                    Err(Stuck::Closed) => return Poll::Ready(Err(Closed)),
                    Err(Stuck::Full(_)) => {
                        self.batch.push_front(message);
                        return Poll::Pending;
                    }
                }
            }
            let bytes = message.wire_len() as u64;
            match put(cx, &mut self.room, to, message) {
                Ok(()) => {
                    self.captured = false;
                    self.sent.add(bytes);
                }
                Err(Stuck::Closed) => return Poll::Ready(Err(Closed)),
                Err(Stuck::Full(message)) => {
                    self.batch.push_front(message);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Why a message was not put.
enum Stuck {
    /// The context will be woken when it may be tried again.
    Full(Message),
    Closed,
}

fn put(
    cx: &mut Context<'_>,
    waiting: &mut Option<Pin<Box<OwnedNotified>>>,
    to: &mut dyn ProxySocket,
    mut message: Message,
) -> Result<(), Stuck> {
    loop {
        match to.try_put(message) {
            Ok(()) => {
                *waiting = None;
                return Ok(());
            }
            Err(SendError { reason: SendFailure::Full, message: back }) => message = back,
            Err(_) => return Err(Stuck::Closed),
        }
        match waiting {
            Some(notified) => match notified.as_mut().poll(cx) {
                Poll::Pending => return Err(Stuck::Full(message)),
                Poll::Ready(()) => *waiting = None,
            },
            None => {
                let Some(room) = to.room() else { return Err(Stuck::Closed) };
                // Registered before the next attempt, so that room made in between is not missed.
                waiting.insert(Box::pin(room.notified_owned())).as_mut().enable();
            }
        }
    }
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }
}
