//! [`Driver`]: the task that keeps a worker's connection.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use zmtp::{
    ConnectError, Dealer, DealerReceiver, DealerSender, Endpoint, Message, Monitor, MonitorEvent, Reconnect, Security,
    SendError, SendFailure,
};

use super::request::{Mail, Request};
use super::session::{Action, Event, Session};
use crate::clock::Alarm;
use crate::mdp::wire::Version;

/// How long a socket that was given up still sends: a reply and a goodbye.
const LINGER: Duration = Duration::from_secs(1);

/// Replies under way to the task.
const REPLIES: usize = 64;

/// How to reach the broker.
#[derive(Debug)]
pub(super) struct Link {
    broker: Endpoint,
    security: Security,
}

#[derive(Debug)]
struct Socket {
    sender: DealerSender,
    receiver: DealerReceiver,
    monitor: Monitor,
    /// What found no room yet.
    waiting: VecDeque<Message>,
}

impl Link {
    pub(super) fn new(broker: Endpoint, security: Security) -> Self {
        Self { broker, security }
    }

    fn connect(&self) -> Result<Socket, ConnectError> {
        let pause = Duration::from_millis(100);
        let dealer = Dealer::builder()
            .security(self.security.clone())
            .reconnect(Reconnect { first: pause, longest: pause * 10 })
            .linger(LINGER)
            .build();
        let monitor = dealer.monitor();
        dealer.connect(&self.broker)?;
        let (sender, receiver) = dealer.split();
        Ok(Socket { sender, receiver, monitor, waiting: VecDeque::new() })
    }
}

impl Socket {
    fn send(&mut self, message: Message) {
        if !self.waiting.is_empty() {
            return self.waiting.push_back(message);
        }
        if let Err(SendError { reason: SendFailure::Full, message }) = self.sender.try_send(message) {
            self.waiting.push_back(message);
        }
    }

    /// What the broker, or the connection, has to say. Meanwhile what waits is sent.
    async fn next(&mut self) -> Event {
        let Self { sender, receiver, monitor, waiting } = self;
        loop {
            tokio::select! {
                message = receiver.recv() => return message.map_or(Event::Lost, Event::Received),
                event = monitor.recv() => match event {
                    Some(MonitorEvent::Disconnected { .. } | MonitorEvent::GaveUp { .. }) | None => return Event::Lost,
                    Some(_) => {}
                },
                sent = first(sender, waiting) => {
                    waiting.pop_front();
                    if sent.is_err() {
                        return Event::Lost;
                    }
                }
            }
        }
    }
}

/// Sends the first that waits; never done if none does.
async fn first(sender: &DealerSender, waiting: &VecDeque<Message>) -> Result<(), SendError> {
    match waiting.front() {
        Some(message) => sender.send(message.clone()).await,
        None => std::future::pending().await,
    }
}

#[derive(Debug)]
pub(super) struct Driver {
    session: Session,
    link: Link,
    version: Version,
    socket: Option<Socket>,
    alarm: Alarm,
    requests: mpsc::Sender<Request>,
    replies: mpsc::Receiver<Event>,
    control: mpsc::UnboundedReceiver<Event>,
    mail: Mail,
    actions: Vec<Action>,
}

/// Whether the task goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    On,
    Ended,
}

impl Driver {
    /// A task to be, and the ways to it. `actions` are what its session wanted so far.
    pub(super) fn new(
        session: Session,
        link: Link,
        version: Version,
        actions: Vec<Action>,
    ) -> Result<(Self, mpsc::Receiver<Request>, Mail), ConnectError> {
        let (requests, receiver) = mpsc::channel(1);
        let (reply_sender, replies) = mpsc::channel(REPLIES);
        let (control_sender, control) = mpsc::unbounded_channel();
        let epoch = Arc::new(AtomicU64::new(session.epoch().0));
        let mail = Mail { replies: reply_sender, control: control_sender, epoch };
        let (socket, alarm) = (Some(link.connect()?), Alarm::default());
        let kept = mail.clone();
        let driver =
            Self { session, link, version, socket, alarm, requests, replies, control, mail: kept, actions: Vec::new() };
        let mut driver = driver;
        // The socket is there already: an address that can never be connected to is the caller's to know.
        driver.actions = actions.into_iter().filter(|action| *action != Action::Connect).collect();
        Ok((driver, receiver, mail))
    }

    pub(super) async fn run(mut self) {
        while self.carry_out() == Course::On {
            let event = self.next().await;
            self.session.step(Instant::now(), event, &mut self.actions);
            while let Some(message) = self.socket.as_mut().and_then(|socket| socket.receiver.try_recv()) {
                self.session.step(Instant::now(), Event::Received(message), &mut self.actions);
                if self.carry_out() == Course::Ended {
                    return self.finish().await;
                }
            }
        }
        self.finish().await;
    }

    async fn next(&mut self) -> Event {
        let Self { session, socket, alarm, replies, control, .. } = self;
        let deadline = session.deadline();
        tokio::select! {
            // Our own end of the channels keeps them open.
            Some(event) = replies.recv() => event,
            Some(event) = control.recv() => event,
            event = from_socket(socket) => event,
            () = poll_fn(|cx| alarm.poll(deadline, cx)) => Event::Tick,
        }
    }

    fn carry_out(&mut self) -> Course {
        let mut course = Course::On;
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Connect => self.socket = self.link.connect().ok(),
                Action::Drop => self.socket = None,
                Action::Send(message) => {
                    if let Some(socket) = &mut self.socket {
                        socket.send(message);
                    }
                }
                Action::Deliver { epoch, client, body } => {
                    let request = Request::new(client, body, self.version, epoch, self.mail.clone());
                    // There is room: the session delivers nothing before the reply to the last. Nobody there: the
                    // request is dropped, and so given back.
                    let _ = self.requests.try_send(request);
                }
                Action::Finish => course = Course::Ended,
            }
        }
        self.mail.epoch.store(self.session.epoch().0, Ordering::Relaxed);
        course
    }

    /// Sends what is queued, for a moment, and closes.
    async fn finish(mut self) {
        if let Some(socket) = self.socket.take() {
            let Socket { sender, receiver, .. } = socket;
            drop(receiver);
            sender.close().await;
        }
    }
}

async fn from_socket(socket: &mut Option<Socket>) -> Event {
    match socket {
        Some(socket) => socket.next().await,
        None => std::future::pending().await,
    }
}
