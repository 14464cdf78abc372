//! [`Hub`]: the task that owns the core. Reads what is there, steps the core, carries out what it wants.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::mpsc;
use tracing::debug;
use zmtp::{Endpoint, RouterEvent, RouterReceiver, RouterSender};

use super::bridge::Bridge;
use super::{Control, Status};
use crate::clock::Alarm;
use crate::dispatch::{DownReason, Why};
use crate::mdp::core::{Core, Counters, Effect, Input};

/// Most events taken before what follows from them is carried out.
const EVENTS: usize = 128;

#[derive(Debug)]
pub(super) struct Hub {
    core: Core,
    sender: RouterSender,
    receiver: RouterReceiver,
    endpoints: Vec<Endpoint>,
    bridge: Option<Bridge>,
    /// What the core wants, not carried out yet.
    effects: Vec<Effect>,
    alarm: Alarm,
    ending: Ending,
}

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    No,
    Unbind,
    Unbound,
    Stop,
}

/// What ended a wait.
enum Woken {
    Event(RouterEvent),
    Bridge(Input),
    Control(Control),
    Deadline,
}

impl Hub {
    pub(super) fn new(
        core: Core,
        sender: RouterSender,
        receiver: RouterReceiver,
        endpoints: Vec<Endpoint>,
        bridge: Option<Bridge>,
    ) -> Self {
        let (effects, alarm, ending) = (Vec::new(), Alarm::default(), Ending::No);
        Self { core, sender, receiver, endpoints, bridge, effects, alarm, ending }
    }

    pub(super) async fn run(mut self, mut control: mpsc::UnboundedReceiver<Control>) -> Counters {
        while self.ending != Ending::Stop {
            let woken = poll_fn(|cx| self.poll_wake(&mut control, cx)).await;
            let now = Instant::now();
            match woken {
                Woken::Event(event) => self.on_event(event, now),
                Woken::Bridge(input) => self.core.step(now, input, &mut self.effects),
                Woken::Control(control) => self.on_control(control, now),
                Woken::Deadline => self.core.step(now, Input::Tick, &mut self.effects),
            }
            self.drain(now);
            self.carry_out(now);
            if self.ending == Ending::Unbind {
                self.unbind().await;
            }
        }
        self.unbind().await;
        self.sender.close().await;
        self.core.counters()
    }

    async fn unbind(&mut self) {
        for endpoint in std::mem::take(&mut self.endpoints) {
            self.sender.unbind(&endpoint).await;
        }
        if self.ending == Ending::Unbind {
            self.ending = Ending::Unbound;
        }
    }

    fn poll_wake(&mut self, control: &mut mpsc::UnboundedReceiver<Control>, cx: &mut Context<'_>) -> Poll<Woken> {
        if let Poll::Ready(Ok(event)) = self.receiver.poll_recv_event(cx) {
            return Poll::Ready(Woken::Event(event));
        }
        if let Some(bridge) = &mut self.bridge
            && let Poll::Ready(input) = bridge.poll(cx)
        {
            return Poll::Ready(Woken::Bridge(input));
        }
        if let Poll::Ready(Some(control)) = control.poll_recv(cx) {
            return Poll::Ready(Woken::Control(control));
        }
        self.alarm.poll(self.core.deadline(), cx).map(|()| Woken::Deadline)
    }

    /// Steps the core with everything that has arrived, so that what follows goes out in batches.
    fn drain(&mut self, now: Instant) {
        for _ in 0..EVENTS {
            let Some(event) = self.receiver.try_recv_event() else { break };
            self.on_event(event, now);
        }
    }

    fn on_event(&mut self, event: RouterEvent, now: Instant) {
        match event {
            RouterEvent::Messages { peer, messages } => {
                for message in messages {
                    self.core.step(now, Input::Received { from: peer.clone(), message }, &mut self.effects);
                }
            }
            RouterEvent::Up { peer, .. } => self.core.step(now, Input::Up { peer }, &mut self.effects),
            RouterEvent::Down { peer, reason } => {
                let reason = DownReason::from(&reason);
                self.core.step(now, Input::Down { peer, reason }, &mut self.effects);
            }
            _ => {}
        }
    }

    fn on_control(&mut self, control: Control, now: Instant) {
        let input = match control {
            Control::Shutdown => Input::Shutdown,
            Control::Purge => Input::Purge,
            Control::Reconfigure(mut config) => {
                // There is a connection, or there is none.
                config.bridge = self.core.config().bridge;
                Input::Reconfigure(config)
            }
            Control::Status(asker) => {
                let mut services = self.core.services();
                services.sort_by(|a, b| a.name.cmp(&b.name));
                // Whoever asked may have lost interest.
                let _ = asker.send(Status { counters: self.core.counters(), services });
                return;
            }
        };
        self.core.step(now, input, &mut self.effects);
    }

    /// Carries effects out until none is left: a message that cannot be queued leads to more.
    fn carry_out(&mut self, now: Instant) {
        while !self.effects.is_empty() {
            let mut work = std::mem::take(&mut self.effects);
            for effect in work.drain(..) {
                self.perform(effect, now);
            }
            if self.effects.is_empty() {
                self.effects = work;
                return;
            }
        }
    }

    fn perform(&mut self, effect: Effect, now: Instant) {
        match effect {
            Effect::Send { to, message } => {
                let Err(error) = self.sender.try_send(&to, message) else { return };
                let why = Why::from(error.reason);
                debug!(%to, ?why, "not delivered");
                let input = Input::Undelivered { to, message: error.message, why };
                self.core.step(now, input, &mut self.effects);
            }
            Effect::Submit(job) => {
                let Some(Err(error)) = self.bridge.as_ref().map(|bridge| bridge.submit(job)) else { return };
                self.core.step(now, Input::Unsubmitted(error.message), &mut self.effects);
            }
            Effect::Unbind => self.ending = self.ending.max(Ending::Unbind),
            Effect::Stop => self.ending = Ending::Stop,
        }
    }
}
