//! [`Serve`]: the loop that joins a session, its socket, the core and an executor. The thin shell around them all.

use tokio::sync::mpsc;

use super::core::Core;
use super::events::{CoreConfig, Effect, Input, Order, RunnerId};
use crate::clock::{Now, sleep_until};
use crate::emqp::{Command, Reply};
use crate::session::{self, Session, SessionConfig, Wire, WireOptions};

/// Carries out what a core orders.
///
/// What becomes of it goes back as [`Input`]s through the channel given to [`Serve::new`].
pub trait Executor {
    /// Settings that may change while it runs.
    type Settings: Send;

    /// Does one thing with one runner; must not wait.
    fn perform(&mut self, runner: RunnerId, order: Order);

    /// Takes new settings, for the runners started from now on.
    fn reconfigure(&mut self, settings: Self::Settings);

    /// Ends what is left of the runners, within a few seconds.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// New settings for a running worker.
#[derive(Debug)]
pub struct Reload<S> {
    /// Of its session.
    pub session: SessionConfig,
    /// Of its core.
    pub core: CoreConfig,
    /// Of its executor.
    pub executor: S,
}

#[derive(Debug)]
enum Control<S> {
    Reload(Box<Reload<S>>),
    Shutdown,
}

/// Tells a running worker what to do; cheap to clone.
#[derive(Debug)]
pub struct ServeHandle<S>(mpsc::UnboundedSender<Control<S>>);

impl<S> Clone for ServeHandle<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> ServeHandle<S> {
    /// Ends the worker: no new jobs, those that run are finished and replied to.
    pub fn shutdown(&self) {
        // An error says that it has ended.
        let _ = self.0.send(Control::Shutdown);
    }

    /// Changes the settings; every runner is replaced once its job has ended.
    pub fn reload(&self, reload: Reload<S>) {
        let _ = self.0.send(Control::Reload(Box::new(reload)));
    }
}

/// A worker of any kind, ready to run.
#[derive(Debug)]
pub struct Serve<E: Executor> {
    session: Session,
    wire: Wire,
    core: Core,
    executor: E,
    reports: mpsc::UnboundedReceiver<Input>,
    control: mpsc::UnboundedReceiver<Control<E::Settings>>,
    handle: ServeHandle<E::Settings>,
    /// What is to be done, not done yet.
    effects: Vec<Effect>,
    session_effects: Vec<session::Effect>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Stopped,
}

enum Woken<S> {
    Wire(session::Input),
    Report(Input),
    Control(Control<S>),
    Deadline,
}

impl<E: Executor> Serve<E> {
    /// Puts a worker together; `reports` is where the executor says what happened.
    pub fn new(
        session: SessionConfig,
        wire: WireOptions,
        core: CoreConfig,
        executor: E,
        reports: mpsc::UnboundedReceiver<Input>,
    ) -> Self {
        let (seed, _) = uuid::Uuid::new_v4().as_u64_pair();
        let (sender, control) = mpsc::unbounded_channel();
        Self {
            session: Session::new(session, seed),
            wire: Wire::new(wire),
            core: Core::new(core),
            executor,
            reports,
            control,
            handle: ServeHandle(sender),
            effects: Vec::new(),
            session_effects: Vec::new(),
            state: State::Running,
        }
    }

    /// Gives the worker a name, its first routing id.
    pub fn named(mut self, name: &str) -> Self {
        self.session = self.session.named(name);
        self
    }

    /// Something to end or change the worker with while it runs.
    pub fn handle(&self) -> ServeHandle<E::Settings> {
        self.handle.clone()
    }

    /// Runs until it is shut down.
    pub async fn run(mut self) {
        self.session_step(session::Input::Start);
        self.core.step(Now::read(), Input::Tick, &mut self.effects);
        self.carry_out();
        while self.state == State::Running {
            match self.wake().await {
                Woken::Wire(input) => self.session_step(input),
                Woken::Report(input) => self.core.step(Now::read(), input, &mut self.effects),
                Woken::Control(Control::Reload(reload)) => self.reload(*reload),
                Woken::Control(Control::Shutdown) => self.core.step(Now::read(), Input::Shutdown, &mut self.effects),
                Woken::Deadline => {
                    self.session_step(session::Input::Tick);
                    self.core.step(Now::read(), Input::Tick, &mut self.effects);
                }
            }
            self.carry_out();
        }
        // The goodbye is on its way while runners end.
        tokio::join!(self.wire.close(), self.executor.close());
    }

    async fn wake(&mut self) -> Woken<E::Settings> {
        let deadline = [self.session.deadline(), self.core.deadline()].into_iter().flatten().min();
        tokio::select! {
            // Results first: they make room for what the broker sends.
            biased;
            Some(input) = self.reports.recv() => Woken::Report(input),
            Some(control) = self.control.recv() => Woken::Control(control),
            input = self.wire.next() => Woken::Wire(input),
            () = sleep_until(deadline) => Woken::Deadline,
        }
    }

    fn session_step(&mut self, input: session::Input) {
        self.session.step(Now::read(), input, &mut self.session_effects);
    }

    fn reload(&mut self, reload: Reload<E::Settings>) {
        self.executor.reconfigure(reload.executor);
        self.core.step(Now::read(), Input::Reconfigure(reload.core), &mut self.effects);
        self.session_step(session::Input::Reconfigure(Box::new(reload.session)));
    }

    /// Does what session and core want, which may lead to more.
    fn carry_out(&mut self) {
        loop {
            for effect in std::mem::take(&mut self.session_effects) {
                self.perform_session(effect);
            }
            if self.effects.is_empty() {
                return;
            }
            for effect in std::mem::take(&mut self.effects) {
                self.perform(effect);
            }
        }
    }

    fn perform_session(&mut self, effect: session::Effect) {
        let input = match effect {
            session::Effect::Open { endpoint, identity } => return self.wire.open(&endpoint, identity),
            session::Effect::Send(message) => return self.wire.send(message),
            session::Effect::Registered => Input::Registered,
            session::Effect::Lost(_) => Input::Lost,
            session::Effect::Deliver(message) => Input::Delivered(message),
            session::Effect::End => Input::Shutdown,
        };
        self.core.step(Now::read(), input, &mut self.effects);
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Order(runner, order) => self.executor.perform(runner, order),
            Effect::Ready => self.send(&Command::Ready),
            Effect::Reply { msgid, result } => {
                self.send(&Command::Reply(Reply::Result { result: &result, request: msgid }));
            }
            Effect::Leave => self.session_step(session::Input::Leave),
            Effect::Stop => self.state = State::Stopped,
        }
    }

    fn send(&mut self, command: &Command<'_>) {
        let id = self.session.next_id();
        self.wire.send(command.to_message(&id));
    }
}
