//! [`Server`]: the scheduler as a running service; the thin shell around the core, the session and the store.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};
use zmtp::{BindError, Endpoint, Message, Router, RoutingId};

use super::core::{Effect, Input, Scheduler, SchedulerConfig, Stored};
use super::report::Listing;
use super::store::{Change, Saved, ScheduleStore, StoreError};
use crate::clock::{Now, sleep_until};
use crate::emqp::{Command, Envelope, MsgIds, Outcome, Reply};
use crate::session::{self, Link, Session, SessionConfig, Wire, WireOptions};

/// Most messages taken from the broker before what follows from them is carried out.
const MESSAGES: usize = 512;
/// Pause between two attempts to reach a store that is not there at the start.
const STORE_RETRY: Duration = Duration::from_secs(5);

/// Everything a scheduler needs to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConf {
    /// Its session with the broker.
    pub session: SessionConfig,
    /// What the socket to the broker is told.
    pub wire: WireOptions,
    /// What the core is told.
    pub core: SchedulerConfig,
    /// Where it can be asked for its schedules, if anywhere.
    pub control: Option<Endpoint>,
    /// What it does without its store.
    pub absent_store: AbsentStore,
}

/// What a scheduler does that cannot reach its store when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbsentStore {
    /// It gives up.
    Fail,
    /// It waits until the store is there; no schedule runs meanwhile.
    Wait,
}

/// Why a scheduler could not start, or ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Its schedules cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store's code failed while it was at work.
    #[error("the store of schedules failed in the middle of its work")]
    StoreBroke,
}

/// A scheduler whose schedules are loaded; [`run`](Self::run) makes it work.
#[derive(Debug)]
pub struct Server {
    core: Scheduler,
    session: Session,
    wire: Wire,
    link: Link,
    store: Box<dyn ScheduleStore>,
    store_state: StoreState,
    control: Control,
    orders: mpsc::UnboundedReceiver<Order>,
    handle: ServerHandle,
    /// What the core wants, not carried out yet.
    effects: VecDeque<Effect>,
    phase: Phase,
}

/// Where the scheduler is asked for its schedules.
#[derive(Debug)]
struct Control {
    endpoint: Option<Endpoint>,
    socket: Option<Router>,
    ids: MsgIds,
    complained: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreState {
    Working,
    Failing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Ended,
}

#[derive(Debug)]
enum Order {
    Shutdown,
    Reload(Box<ServerConf>),
}

/// Tells a running [`Server`] what to do; cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerHandle(mpsc::UnboundedSender<Order>);

impl ServerHandle {
    /// Ends the scheduler: it takes its leave of the broker, and [`Server::run`] returns. Its schedules are kept.
    pub fn shutdown(&self) {
        // An error says that it has ended.
        let _ = self.0.send(Order::Shutdown);
    }

    /// Changes the settings. The control address stays.
    pub fn reload(&self, conf: ServerConf) {
        let _ = self.0.send(Order::Reload(Box::new(conf)));
    }
}

/// What ended a wait.
enum Woken {
    Session(session::Input),
    Order(Order),
    Question(RoutingId, Message),
    Deadline,
}

impl Server {
    /// Loads the schedules and listens on the control address; needs a tokio runtime.
    ///
    /// # Errors
    /// The store cannot be read (with [`AbsentStore::Fail`]). A control address that cannot be listened on is logged.
    pub async fn start(conf: ServerConf, store: Box<dyn ScheduleStore>) -> Result<Self, ServerError> {
        let (saved, store) = load(store, conf.absent_store).await?;
        let mut control = Control::new(conf.control);
        control.listen().await;
        let now = Now::read();
        let unique = || uuid::Uuid::new_v4().as_u64_pair();
        let core = Scheduler::new(conf.core, saved, now, unique().0);
        info!(schedules = core.len(), store = store.place(), "schedules loaded");
        let (sender, orders) = mpsc::unbounded_channel();
        Ok(Self {
            core,
            session: Session::new(conf.session, unique().0),
            wire: Wire::new(conf.wire),
            link: Link::Down,
            store,
            store_state: StoreState::Working,
            control,
            orders,
            handle: ServerHandle(sender),
            effects: VecDeque::new(),
            phase: Phase::Running,
        })
    }

    /// Something to end or change the scheduler with while it runs.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Runs until it is shut down, by a [handle](Self::handle) or by the broker's DISCONNECT.
    ///
    /// # Errors
    /// The store's code failed.
    pub async fn run(mut self) -> Result<(), ServerError> {
        self.step_session(Now::read(), session::Input::Start);
        while self.phase == Phase::Running {
            match self.wait().await {
                Woken::Session(input) => self.step_session(Now::read(), input),
                Woken::Order(order) => self.on_order(order),
                Woken::Question(from, question) => self.on_question(&from, &question),
                Woken::Deadline => self.step_session(Now::read(), session::Input::Tick),
            }
            self.drain().await;
            self.step_core(Now::read(), Input::Tick);
            self.settle();
            while let Some(effect) = self.effects.pop_front() {
                self.perform(effect).await?;
            }
        }
        let Self { wire, control, .. } = self;
        wire.close().await;
        if let Some(socket) = control.socket {
            socket.close().await;
        }
        Ok(())
    }

    async fn wait(&mut self) -> Woken {
        let deadline = [self.session.deadline(), self.core.deadline()].into_iter().flatten().min();
        tokio::select! {
            input = self.wire.next() => Woken::Session(input),
            Some(order) = self.orders.recv() => Woken::Order(order),
            (from, question) = next_question(&mut self.control.socket) => Woken::Question(from, question),
            () = sleep_until(deadline) => Woken::Deadline,
        }
    }

    /// Takes what else has arrived, so that it is stored in one go.
    async fn drain(&mut self) {
        for _ in 0..MESSAGES {
            let input = tokio::select! {
                biased;
                input = self.wire.next() => input,
                () = std::future::ready(()) => return,
            };
            self.step_session(Now::read(), input);
        }
    }

    fn step_session(&mut self, now: Now, input: session::Input) {
        let was_attached = self.is_attached();
        if let session::Input::Link(link) = &input {
            self.link = *link;
        }
        let mut out = Vec::new();
        self.session.step(now, input, &mut out);
        for effect in out {
            self.carry_out(now, effect);
        }
        match (was_attached, self.is_attached()) {
            (_, true) => self.step_core(now, Input::Attached),
            (true, false) => self.step_core(now, Input::Detached),
            (false, false) => {}
        }
    }

    /// Whether what is sent now arrives: a broker that does not answer must not find a heap of jobs later.
    fn is_attached(&self) -> bool {
        self.session.is_registered() && self.link == Link::Up
    }

    fn carry_out(&mut self, now: Now, effect: session::Effect) {
        match effect {
            session::Effect::Open { endpoint, identity } => {
                self.link = Link::Down;
                self.wire.open(&endpoint, identity);
            }
            session::Effect::Send(message) => self.wire.send(message),
            session::Effect::Deliver(message) => self.on_message(now, &message),
            session::Effect::End => self.phase = Phase::Ended,
            session::Effect::Registered => {}
            session::Effect::Lost(reason) => debug!(?reason, "the registration is gone"),
        }
    }

    fn on_message(&mut self, now: Now, message: &Message) {
        let envelope = match Envelope::parse(message) {
            Ok(envelope) => envelope,
            Err(error) => return warn!(%error, "a message of the broker cannot be read"),
        };
        let msgid = envelope.msgid;
        match &envelope.command {
            Command::Schedule(schedule) => self.step_core(now, Input::Schedule { msgid, schedule }),
            Command::Unschedule(schedule) => self.step_core(now, Input::Unschedule { msgid, schedule }),
            Command::Reply(Reply::Result { result, request }) if Outcome::at_a_glance(result) == Outcome::Failed => {
                debug!(msgid = %request, result = %result.escape_ascii(), "a scheduled job failed");
            }
            Command::Reply(_) => {}
            other => debug!(command = other.name().as_str(), "not for a scheduler, ignored"),
        }
    }

    fn step_core(&mut self, now: Now, input: Input<'_>) {
        let mut out = Vec::new();
        self.core.step(now, input, &mut out);
        self.effects.extend(out);
    }

    fn settle(&mut self) {
        let mut out = Vec::new();
        self.core.settle(&mut out);
        self.effects.extend(out);
    }

    async fn perform(&mut self, effect: Effect) -> Result<(), ServerError> {
        match effect {
            Effect::Send(message) => self.wire.send(message),
            Effect::Store(changes) => {
                let stored = self.commit(changes).await?;
                self.step_core(Now::read(), Input::Stored(stored));
            }
        }
        Ok(())
    }

    /// On a thread of its own: the disk may take its time.
    async fn commit(&mut self, changes: Vec<Change>) -> Result<Stored, ServerError> {
        let mut store = std::mem::replace(&mut self.store, Box::new(super::MemoryStore::default()));
        let work = move || {
            let result = store.commit(&changes);
            (store, result)
        };
        let (store, result) = tokio::task::spawn_blocking(work).await.map_err(|_| ServerError::StoreBroke)?;
        self.store = store;
        self.control.listen().await;
        Ok(match (result, self.store_state) {
            (Ok(()), StoreState::Working) => Stored::Safe,
            (Ok(()), StoreState::Failing) => {
                info!(store = self.store.place(), "schedules are stored again");
                self.store_state = StoreState::Working;
                Stored::Safe
            }
            (Err(error), StoreState::Working) => {
                error!("changes of schedules cannot be stored; what is due runs, and storing is tried again: {error}");
                self.store_state = StoreState::Failing;
                Stored::Failed
            }
            (Err(error), StoreState::Failing) => {
                debug!("changes of schedules still cannot be stored: {error}");
                Stored::Failed
            }
        })
    }

    fn on_order(&mut self, order: Order) {
        let now = Now::read();
        match order {
            Order::Shutdown => {
                self.step_session(now, session::Input::Leave);
                self.phase = Phase::Ended;
            }
            Order::Reload(conf) => {
                self.step_core(now, Input::Reconfigure(conf.core));
                self.step_session(now, session::Input::Reconfigure(Box::new(conf.session)));
            }
        }
    }

    /// Answers STATUS with the schedules, and takes DISCONNECT for an order to end.
    fn on_question(&mut self, from: &RoutingId, question: &Message) {
        let Some(socket) = &self.control.socket else { return };
        let answer = match Envelope::parse(question) {
            Ok(Envelope { command: Command::Status, .. }) => {
                let listing = Listing::new(self.core.schedules(), self.store.place()).to_json();
                Command::Reply(Reply::Single(listing.as_bytes())).to_message(&self.control.ids.next_id())
            }
            Ok(Envelope { command: Command::Disconnect, msgid }) => {
                self.handle.shutdown();
                Command::Ack { acknowledged: msgid }.to_message(&self.control.ids.next_id())
            }
            Ok(other) => return debug!(command = other.command.name().as_str(), "not for a scheduler, ignored"),
            Err(error) => return debug!(%error, "a question cannot be read"),
        };
        if let Err(error) = socket.try_send(from, answer) {
            debug!(reason = ?error.reason, "an answer was not delivered");
        }
    }
}

async fn load(
    mut store: Box<dyn ScheduleStore>,
    absent: AbsentStore,
) -> Result<(Saved, Box<dyn ScheduleStore>), ServerError> {
    let mut said = false;
    loop {
        let work = move || {
            let now = Timestamp::try_from(Now::read().wall).unwrap_or(Timestamp::MAX);
            let result = store.load(now);
            (store, result)
        };
        let (back, result) = tokio::task::spawn_blocking(work).await.map_err(|_| ServerError::StoreBroke)?;
        store = back;
        match result {
            Ok(saved) => return Ok((saved, store)),
            Err(error) if absent == AbsentStore::Fail => return Err(error.into()),
            Err(error) if !std::mem::replace(&mut said, true) => {
                warn!("schedules cannot be loaded, none runs until they are; trying again: {error}");
            }
            Err(_) => {}
        }
        tokio::time::sleep(STORE_RETRY).await;
    }
}

impl Control {
    fn new(endpoint: Option<Endpoint>) -> Self {
        let ids = MsgIds::new(uuid::Uuid::new_v4().as_u64_pair().0);
        Self { endpoint, socket: None, ids, complained: false }
    }

    /// Listens, if it does not yet: the folder of a socket may come with the first schedule.
    async fn listen(&mut self) {
        let (Some(endpoint), None) = (&self.endpoint, &self.socket) else { return };
        let socket = Router::builder().max_connections(64).linger(Duration::from_secs(1)).build();
        match socket.bind(endpoint).await {
            Ok(_) => self.socket = Some(socket),
            Err(BindError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) if !std::mem::replace(&mut self.complained, true) => {
                warn!("emq schedules cannot ask this scheduler: {error}");
            }
            Err(_) => {}
        }
    }
}

async fn next_question(socket: &mut Option<Router>) -> (RoutingId, Message) {
    if let Some(socket) = socket
        && let Ok(question) = socket.recv().await
    {
        return question;
    }
    std::future::pending().await
}
