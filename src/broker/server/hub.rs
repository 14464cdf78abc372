//! [`Hub`]: the task that owns the core. Reads what is there, steps the core, carries out what it wants.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tokio::sync::mpsc;
use tracing::debug;
use zmtp::RouterEvent;

use super::sockets::{Sockets, warn_fixed};
use super::{Control, ServerConf, ServerError};
use crate::broker::{Broker, DownReason, Effect, Gate, Input, SocketId, Why};
use crate::clock::{Alarm, Now};
use crate::store::Store;

/// Most events taken from one socket before what follows from them is carried out.
const EVENTS: usize = 128;

#[derive(Debug)]
pub(super) struct Hub {
    conf: ServerConf,
    broker: Broker,
    gate: Gate,
    store: Box<dyn Store>,
    sockets: Sockets,
    /// What the core wants, not carried out yet.
    effects: Vec<Effect>,
    alarm: Alarm,
    /// Sockets that are to take no new connections.
    unbinding: Vec<SocketId>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Stopped,
}

/// What ended a wait.
enum Woken {
    Event(SocketId, RouterEvent),
    Control(Control),
    Deadline,
}

impl Hub {
    pub(super) fn new(conf: ServerConf, sockets: Sockets, store: Box<dyn Store>) -> Self {
        let (seed, _) = uuid::Uuid::new_v4().as_u64_pair();
        Self {
            broker: Broker::new(conf.core.clone(), Now::read(), seed),
            conf,
            gate: Gate::new(),
            store,
            sockets,
            effects: Vec::new(),
            alarm: Alarm::default(),
            unbinding: Vec::new(),
            state: State::Running,
        }
    }

    pub(super) fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    pub(super) async fn run(mut self, mut control: mpsc::UnboundedReceiver<Control>) -> Result<(), ServerError> {
        while self.state == State::Running {
            let woken = poll_fn(|cx| self.poll_wake(&mut control, cx)).await;
            let now = Now::read();
            match woken {
                Woken::Event(socket, event) => self.on_event(socket, event, now),
                Woken::Control(Control::Shutdown) => self.broker.step(now, Input::Shutdown, &mut self.effects),
                Woken::Control(Control::Reload(conf)) => self.reload(*conf, now).await,
                Woken::Deadline => self.broker.step(now, Input::Tick, &mut self.effects),
            }
            self.drain(now);
            self.carry_out(now)?;
            for socket in std::mem::take(&mut self.unbinding) {
                self.sockets.unbind(socket).await;
            }
        }
        self.sockets.close().await;
        Ok(())
    }

    /// The first thing that is ready. The backend is asked before the frontend, so that slots are free before jobs come.
    fn poll_wake(&mut self, control: &mut mpsc::UnboundedReceiver<Control>, cx: &mut Context<'_>) -> Poll<Woken> {
        for (index, socket) in self.sockets.0.iter_mut().enumerate().rev() {
            if let Poll::Ready(Ok(event)) = socket.receiver.poll_recv_event(cx) {
                return Poll::Ready(Woken::Event(SocketId(index as u8), event));
            }
        }
        if let Poll::Ready(Some(control)) = control.poll_recv(cx) {
            return Poll::Ready(Woken::Control(control));
        }
        self.alarm.poll(self.broker.deadline(), cx).map(|()| Woken::Deadline)
    }

    /// Steps the core with everything that has arrived, so that what follows goes out in batches.
    fn drain(&mut self, now: Now) {
        for index in (0..self.sockets.0.len()).rev() {
            for _ in 0..EVENTS {
                let Some(event) = self.sockets.0[index].receiver.try_recv_event() else { break };
                self.on_event(SocketId(index as u8), event, now);
            }
        }
    }

    fn on_event(&mut self, socket: SocketId, event: RouterEvent, now: Now) {
        match event {
            RouterEvent::Messages { peer, messages } => {
                for message in messages {
                    let input = Input::Received { socket, from: peer.clone(), message };
                    self.broker.step(now, input, &mut self.effects);
                }
            }
            RouterEvent::Up { peer, .. } => self.broker.step(now, Input::Up { socket, peer }, &mut self.effects),
            RouterEvent::Down { peer, reason } => {
                let reason = DownReason::from(&reason);
                self.broker.step(now, Input::Down { socket, peer, reason }, &mut self.effects);
            }
            _ => {}
        }
    }

    /// Carries effects out until none is left: a message that cannot be queued leads to more.
    fn carry_out(&mut self, now: Now) -> Result<(), ServerError> {
        while !self.effects.is_empty() {
            let mut work = std::mem::take(&mut self.effects);
            let mut appended = false;
            for effect in work.drain(..) {
                match self.gate.pass(effect) {
                    Some(Effect::Store(record)) => {
                        self.store.append(record);
                        appended = true;
                    }
                    Some(effect) => self.perform(effect, now),
                    None => {}
                }
            }
            if self.effects.is_empty() {
                self.effects = work;
            }
            if appended {
                let seq = self.store.commit()?;
                let mut released = Vec::new();
                self.gate.on_stored(seq, &mut released);
                released.into_iter().for_each(|effect| self.perform(effect, now));
                self.broker.step(now, Input::Stored(seq), &mut self.effects);
            }
        }
        Ok(())
    }

    fn perform(&mut self, effect: Effect, now: Now) {
        match effect {
            Effect::Send { socket, to, message, .. } => {
                let Some(sender) = self.sockets.sender(socket) else { return };
                let Err(error) = sender.try_send(&to, message) else { return };
                let why = Why::from(error.reason);
                debug!(%to, ?why, "not delivered");
                let input = Input::Undelivered { socket, to, message: error.message, why };
                self.broker.step(now, input, &mut self.effects);
            }
            Effect::Store(record) => self.store.append(record),
            Effect::Unbind(socket) => self.unbinding.push(socket),
            Effect::Stop => self.state = State::Stopped,
        }
    }

    async fn reload(&mut self, mut conf: ServerConf, now: Now) {
        warn_fixed(&self.conf, &conf);
        if conf.core.sockets == self.conf.core.sockets {
            self.sockets.rebind(&conf).await;
        } else {
            conf.core.sockets.clone_from(&self.conf.core.sockets);
        }
        self.broker.step(now, Input::Reconfigure(Box::new(conf.core.clone())), &mut self.effects);
        self.conf = conf;
    }
}
