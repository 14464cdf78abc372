//! The task behind a client: owns the core and the socket.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tracing::{info, warn};
use zmtp::{Dealer, DealerReceiver, DealerSender, Message, Monitor, MonitorEvent};

use super::core::{Core, Effect, Input, Report, Submission};
use crate::emqp::MsgId;

/// Most messages read before what follows from them is carried out.
const BATCH: usize = 256;

/// What handles tell the task.
#[derive(Debug)]
pub(super) enum Order {
    Submit(Submission, Waiter),
    Forget(MsgId),
    /// Tell when everything handed over is settled, and end.
    Close(oneshot::Sender<()>),
}

/// Who waits for a submission.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Told first: accepted, or whatever ended it before that.
    pub acceptance: oneshot::Sender<Report>,
    /// Told second, if a result is wanted.
    pub result: Option<oneshot::Sender<Report>>,
    /// Given back with the first news.
    pub permit: OwnedSemaphorePermit,
}

/// A waiter who has had the first news.
#[derive(Debug)]
enum Waiting {
    Acceptance(Waiter),
    Result(oneshot::Sender<Report>),
}

pub(super) struct Driver {
    core: Core,
    sender: DealerSender,
    receiver: DealerReceiver,
    monitor: Monitor,
    orders: mpsc::UnboundedReceiver<Order>,
    waiting: HashMap<MsgId, Waiting>,
    effects: Vec<Effect>,
    /// What the socket had no room for yet.
    outbox: VecDeque<(MsgId, Message)>,
    closing: Option<oneshot::Sender<()>>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// No handle is left, or one asked for the end: what was handed over is settled, then it ends.
    Closing,
}

/// What ended a wait.
enum Woken {
    Order(Option<Order>),
    Message(Message),
    Event(Option<MonitorEvent>),
    Written,
    Deadline,
    SocketClosed,
}

impl Driver {
    pub(super) fn new(dealer: Dealer, monitor: Monitor, orders: mpsc::UnboundedReceiver<Order>) -> Self {
        let (sender, receiver) = dealer.split();
        Self {
            core: Core::new(),
            sender,
            receiver,
            monitor,
            orders,
            waiting: HashMap::new(),
            effects: Vec::new(),
            outbox: VecDeque::new(),
            closing: None,
            state: State::Running,
        }
    }

    pub(super) async fn run(mut self) {
        while self.state == State::Running || !self.core.is_settled() {
            match self.wake().await {
                Woken::Order(Some(order)) => self.on_order(order),
                Woken::Order(None) => self.state = State::Closing,
                Woken::Message(message) => self.step(Input::Received(message)),
                Woken::Event(Some(event)) => self.on_event(&event),
                Woken::Event(None) | Woken::SocketClosed => break,
                Woken::Written => self.written(),
                Woken::Deadline => self.step(Input::Tick),
            }
            self.drain();
            self.write();
        }
        // What still waits for a result learns that nobody listens any more.
        self.waiting.clear();
        let Self { sender, receiver, closing, .. } = self;
        drop((sender, receiver));
        if let Some(closing) = closing {
            let _ = closing.send(());
        }
    }

    async fn wake(&mut self) -> Woken {
        let deadline = self.core.deadline();
        tokio::select! {
            order = self.orders.recv(), if self.state == State::Running => Woken::Order(order),
            message = self.receiver.recv() => message.map_or(Woken::SocketClosed, Woken::Message),
            event = self.monitor.recv() => Woken::Event(event),
            () = until(deadline) => Woken::Deadline,
            sent = send_first(&self.sender, &self.outbox) => if sent { Woken::Written } else { Woken::SocketClosed },
        }
    }

    fn on_order(&mut self, order: Order) {
        match order {
            Order::Submit(submission, waiter) => {
                let msgid = submission.msgid.clone();
                if self.waiting.contains_key(&msgid) {
                    let _ = waiter.acceptance.send(Report::Duplicate);
                    return;
                }
                self.waiting.insert(msgid, Waiting::Acceptance(waiter));
                self.step(Input::Submit(submission));
            }
            Order::Forget(msgid) => self.forget(msgid),
            Order::Close(done) => {
                self.state = State::Closing;
                self.closing = Some(done);
            }
        }
    }

    fn on_event(&mut self, event: &MonitorEvent) {
        match event {
            MonitorEvent::HandshakeSucceeded { endpoint, .. } => {
                info!(%endpoint, "connected to the broker");
                self.step(Input::Connected);
            }
            MonitorEvent::Disconnected { endpoint, reason, .. } => {
                // What the broker said before it went is news of before.
                while let Some(message) = self.receiver.try_recv() {
                    self.step(Input::Received(message));
                }
                warn!(%endpoint, %reason, "connection to the broker lost");
                // The core sends it again, in its place.
                self.outbox.clear();
                self.step(Input::Disconnected);
            }
            MonitorEvent::HandshakeFailed { endpoint, reason, .. } => {
                warn!(%endpoint, %reason, "the broker was reached, but no connection came about");
            }
            _ => {}
        }
    }

    /// Takes what else is there, so that what follows goes out in one batch.
    fn drain(&mut self) {
        for _ in 0..BATCH {
            let Some(message) = self.receiver.try_recv() else { break };
            self.step(Input::Received(message));
        }
        for _ in 0..BATCH {
            let Ok(order) = self.orders.try_recv() else { break };
            self.on_order(order);
        }
    }

    fn step(&mut self, input: Input) {
        self.core.step(Instant::now(), input, &mut self.effects);
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Send(msgid, message) => self.outbox.push_back((msgid, message)),
                Effect::Report(msgid, report) => self.report(msgid, report),
            }
        }
    }

    fn report(&mut self, msgid: MsgId, report: Report) {
        let (sender, result) = match self.waiting.remove(&msgid) {
            Some(Waiting::Acceptance(Waiter { acceptance, result, permit })) => {
                drop(permit);
                (acceptance, result)
            }
            Some(Waiting::Result(sender)) => (sender, None),
            None => return,
        };
        let goes_on = report == Report::Accepted;
        let heard = sender.send(report).is_ok();
        match result {
            Some(result) if goes_on && heard => drop(self.waiting.insert(msgid, Waiting::Result(result))),
            // The caller went away while it waited: nobody will take the result.
            Some(_) if goes_on => self.step(Input::Forget(msgid)),
            _ => {}
        }
    }

    /// Its handle was dropped.
    fn forget(&mut self, msgid: MsgId) {
        if matches!(self.waiting.get(&msgid), Some(Waiting::Result(sender)) if sender.is_closed()) {
            self.waiting.remove(&msgid);
            self.step(Input::Forget(msgid));
        }
    }

    fn write(&mut self) {
        while let Some((msgid, message)) = self.outbox.pop_front() {
            if !self.core.wants(&msgid) {
                continue;
            }
            match self.sender.try_send(message) {
                Ok(()) => self.step(Input::Written(msgid)),
                Err(unsent) => return self.outbox.push_front((msgid, unsent.message)),
            }
        }
    }

    /// The first message of the outbox was taken by the socket.
    fn written(&mut self) {
        if let Some((msgid, _)) = self.outbox.pop_front() {
            self.step(Input::Written(msgid));
        }
    }
}

/// Waits for room for the first message and sends it; for ever if there is none.
async fn send_first(sender: &DealerSender, outbox: &VecDeque<(MsgId, Message)>) -> bool {
    match outbox.front() {
        Some((_, message)) => sender.send(message.clone()).await.is_ok(),
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
