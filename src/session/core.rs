//! [`Session`]: the state machine.

use std::time::{Duration, Instant, UNIX_EPOCH};

use tracing::{debug, info, warn};
use zmtp::{Message, RoutingId};

use super::config::{OnDisconnect, SessionConfig};
use super::events::{Effect, Input, Link, LostReason};
use crate::clock::Now;
use crate::emqp::{Command, Envelope, Inform, MsgId, MsgIds};

/// A session with a broker; see the [module](super).
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    ids: MsgIds,
    state: State,
    /// Index into the addresses.
    place: usize,
    /// When the last identity was taken.
    opened: Option<Instant>,
    /// An identity to begin with.
    name: Option<RoutingId>,
}

#[derive(Debug)]
enum State {
    New,
    Joining(Joining),
    Registered(Registered),
    /// A DISCONNECT came too soon after the last: join again at this time.
    Pausing(Instant),
    /// KBYE is said.
    Leaving {
        next_heartbeat: Option<Instant>,
    },
    Ended,
}

#[derive(Debug)]
struct Joining {
    link: Link,
    /// INFORMs of which an acknowledgement may still come; the latest only would do, were it not for late answers.
    informs: Vec<MsgId>,
    next_inform: Instant,
}

#[derive(Debug)]
struct Registered {
    link: Link,
    last_heard: Instant,
    /// When the broker is lost unless it says something before.
    expiry: Option<Instant>,
    next_heartbeat: Option<Instant>,
    broker_leaves: bool,
}

/// Longer than any process lives, and no overflow when it is added to a time.
const FOREVER: Duration = Duration::from_secs(3_200_000_000);
/// INFORMs remembered at most; older ones are as good as lost.
const MAX_INFORMS: usize = 16;
/// A session that ended sooner than this after it was opened is no reason to open another at once.
const TOO_SOON: Duration = Duration::from_secs(1);

impl Session {
    /// A session that has not begun. `seed` makes identities and message ids: give it something random.
    pub fn new(config: SessionConfig, seed: u64) -> Self {
        Self { config, ids: MsgIds::new(seed), state: State::New, place: 0, opened: None, name: None }
    }

    /// Takes `name` for the first identity, if it can be one; later identities are UUIDs as always.
    pub fn named(mut self, name: &str) -> Self {
        self.name = RoutingId::new(name).inspect_err(|error| warn!(name, "not usable as a routing id: {error}")).ok();
        self
    }

    /// When [`Input::Tick`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Joining(joining) => Some(joining.next_inform),
            State::Registered(Registered { expiry, next_heartbeat, .. }) => {
                [*expiry, *next_heartbeat].into_iter().flatten().min()
            }
            State::Pausing(until) => Some(*until),
            State::Leaving { next_heartbeat } => *next_heartbeat,
            State::New | State::Ended => None,
        }
    }

    /// Whether the broker has acknowledged, so that what is sent is understood.
    pub fn is_registered(&self) -> bool {
        matches!(self.state, State::Registered(_))
    }

    /// A fresh message id, for the owner's own messages.
    pub fn next_id(&mut self) -> MsgId {
        self.ids.next_id()
    }

    /// Reacts to one input; what is to be done is appended to `out`.
    pub fn step(&mut self, now: Now, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Start if matches!(self.state, State::New) => self.open(now, out),
            Input::Start => {}
            Input::Received(message) => self.on_message(now, message, out),
            Input::Link(link) => self.on_link(now, link, out),
            Input::Tick => self.on_tick(now, out),
            Input::Reconfigure(config) => self.on_reconfigure(now, *config, out),
            Input::Leave => self.on_leave(now, out),
        }
    }

    /// Takes a new identity and begins to register.
    fn open(&mut self, now: Now, out: &mut Vec<Effect>) {
        let endpoint = self.config.endpoint(self.place).clone();
        let identity = self.name.take().unwrap_or_else(|| self.new_identity());
        info!(%endpoint, %identity, "connecting to the broker");
        out.push(Effect::Open { endpoint, identity });
        self.opened = Some(now.mono);
        let next_inform = now.mono + self.config.reconnect_timeout;
        self.state = State::Joining(Joining { link: Link::Down, informs: Vec::new(), next_inform });
        // Waits in the socket for the connection, and is the first thing the broker hears.
        self.inform(now, out);
    }

    fn new_identity(&mut self) -> RoutingId {
        loop {
            // The text of a UUID is a routing id; the loop only spares an unwrap.
            if let Ok(identity) = RoutingId::new(self.ids.next_id()) {
                return identity;
            }
        }
    }

    fn inform(&mut self, now: Now, out: &mut Vec<Effect>) {
        let State::Joining(joining) = &mut self.state else { return };
        let id = self.ids.next_id();
        let queues = self.config.queues.to_frame();
        let inform = Inform { queues: queues.as_bytes(), kind: Some(self.config.kind) };
        out.push(Effect::Send(Command::Inform(inform).to_message(&id)));
        if joining.informs.len() == MAX_INFORMS {
            joining.informs.remove(0);
        }
        joining.informs.push(id);
        joining.next_inform = now.mono + self.config.reconnect_timeout;
    }

    fn on_message(&mut self, now: Now, message: Message, out: &mut Vec<Effect>) {
        let envelope = match Envelope::parse(&message) {
            Ok(envelope) => envelope,
            Err(error) => return self.on_unreadable(now, message.clone(), error, out),
        };
        self.heard(now);
        match (&self.state, envelope.command) {
            (State::New | State::Ended | State::Pausing(_), _) => {}
            (State::Joining(joining), Command::Ack { acknowledged }) => {
                if joining.informs.contains(&acknowledged) {
                    self.on_registered(now, out);
                }
            }
            (_, Command::Disconnect) => self.on_disconnect(now, out),
            (State::Joining(_), command) => debug!(command = command.name().as_str(), "not registered yet, ignored"),
            (_, Command::Ack { .. } | Command::Heartbeat { .. }) => {}
            (_, Command::Kbye) => self.on_kbye(),
            _ => out.push(Effect::Deliver(message)),
        }
    }

    /// What is no eMQP may still be a job that can be answered: the owner sees it.
    fn on_unreadable(&mut self, now: Now, message: Message, error: crate::emqp::ParseError, out: &mut Vec<Effect>) {
        self.heard(now);
        if matches!(self.state, State::Registered(_) | State::Leaving { .. }) {
            out.push(Effect::Deliver(message));
        } else {
            warn!(%error, "a message of the broker cannot be read");
        }
    }

    fn heard(&mut self, now: Now) {
        let patience = self.config.heartbeats.map(|heartbeats| heartbeats.patience());
        if let State::Registered(registered) = &mut self.state {
            registered.last_heard = now.mono;
            registered.expiry = patience.map(|patience| now.mono + patience);
        }
    }

    fn on_registered(&mut self, now: Now, out: &mut Vec<Effect>) {
        info!(endpoint = %self.config.endpoint(self.place), "registered with the broker");
        let heartbeats = self.config.heartbeats;
        self.state = State::Registered(Registered {
            link: Link::Up,
            last_heard: now.mono,
            expiry: heartbeats.map(|heartbeats| now.mono + heartbeats.patience()),
            next_heartbeat: heartbeats.map(|heartbeats| now.mono + heartbeats.interval),
            broker_leaves: false,
        });
        out.push(Effect::Registered);
    }

    fn on_disconnect(&mut self, now: Now, out: &mut Vec<Effect>) {
        if matches!(self.state, State::Leaving { .. }) {
            return;
        }
        let registered = self.is_registered();
        info!("the broker sent a DISCONNECT");
        self.kbye(out);
        if self.config.on_disconnect == OnDisconnect::End {
            self.state = State::Ended;
            out.push(Effect::End);
            return;
        }
        if registered {
            out.push(Effect::Lost(LostReason::Disconnect));
        }
        self.rejoin(now, out);
    }

    /// Opens again, at once if the last time was not just now.
    fn rejoin(&mut self, now: Now, out: &mut Vec<Effect>) {
        match self.opened {
            Some(opened) if now.mono < opened + TOO_SOON.min(self.config.reconnect_timeout) => {
                self.state = State::Pausing(opened + self.config.reconnect_timeout);
            }
            _ => self.open(now, out),
        }
    }

    /// The broker stops: it hears what we send until its connection ends.
    fn on_kbye(&mut self) {
        if let State::Registered(registered) = &mut self.state {
            info!("the broker is leaving");
            registered.broker_leaves = true;
        }
    }

    fn on_link(&mut self, now: Now, link: Link, out: &mut Vec<Effect>) {
        match &mut self.state {
            State::Joining(joining) => {
                let again = joining.link == Link::Down && link == Link::Up;
                joining.link = link;
                match link {
                    // The first INFORM waited for this very connection; one that came back has lost it.
                    Link::Up if again && joining.informs.is_empty() => self.inform(now, out),
                    Link::Down => joining.informs.clear(),
                    Link::Refused => self.go_on(now, None, out),
                    Link::Up => {}
                }
            }
            State::Registered(registered) => {
                let back = registered.link == Link::Down && link == Link::Up;
                registered.link = link;
                match link {
                    Link::Refused => self.go_on(now, Some(LostReason::Refused), out),
                    Link::Down if registered.broker_leaves && !self.config.failover.is_empty() => {
                        self.go_on(now, Some(LostReason::BrokerLeft), out);
                    }
                    Link::Up if back => self.on_back(now, out),
                    Link::Down | Link::Up => {}
                }
            }
            State::New | State::Pausing(_) | State::Leaving { .. } | State::Ended => {}
        }
    }

    /// A lost connection is back. The broker may have kept the registration, or be another run that knows nothing of it.
    fn on_back(&mut self, now: Now, out: &mut Vec<Effect>) {
        let State::Registered(registered) = &mut self.state else { return };
        if registered.broker_leaves {
            out.push(Effect::Lost(LostReason::BrokerLeft));
            return self.rejoin(now, out);
        }
        let Some(heartbeats) = self.config.heartbeats else {
            out.push(Effect::Lost(LostReason::Reconnected));
            return self.rejoin(now, out);
        };
        // A broker that knows us sends heartbeats; one that does not answers ours with a DISCONNECT, or not at all.
        let soon = now.mono + heartbeats.timeout;
        registered.expiry = Some(registered.expiry.map_or(soon, |expiry| expiry.min(soon)));
        registered.next_heartbeat = Some(now.mono + heartbeats.interval);
        self.heartbeat(now, out);
    }

    /// Leaves a broker that does not answer for the next address.
    fn go_on(&mut self, now: Now, lost: Option<LostReason>, out: &mut Vec<Effect>) {
        self.place = self.place.wrapping_add(1);
        if let Some(reason) = lost {
            out.push(Effect::Lost(reason));
        }
        self.rejoin(now, out);
    }

    fn on_tick(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.forgive_stall(now);
        match &mut self.state {
            State::Joining(joining) if joining.next_inform <= now.mono => self.on_unanswered(now, out),
            State::Registered(Registered { expiry: Some(expiry), last_heard, .. }) if *expiry <= now.mono => {
                let silent = now.mono.saturating_duration_since(*last_heard).as_secs_f64();
                warn!(endpoint = %self.config.endpoint(self.place), silent, "the broker is silent, registering anew");
                self.go_on(now, Some(LostReason::Silent), out);
            }
            State::Registered(Registered { next_heartbeat, .. }) | State::Leaving { next_heartbeat } => {
                if let Some(due) = next_heartbeat.filter(|due| *due <= now.mono) {
                    let interval = self.config.heartbeats.map_or(FOREVER, |beats| beats.interval);
                    // On the raster; after a stall one only, and a new raster.
                    let next = due + interval;
                    *next_heartbeat = Some(if next > now.mono { next } else { now.mono + interval });
                    self.heartbeat(now, out);
                }
            }
            State::Pausing(until) if *until <= now.mono => self.open(now, out),
            _ => {}
        }
    }

    /// A tick that comes very late says that we were stopped ourselves: what the broker sent meanwhile is still to be read.
    fn forgive_stall(&mut self, now: Now) {
        let due = self.deadline();
        let Some(heartbeats) = self.config.heartbeats else { return };
        let State::Registered(registered) = &mut self.state else { return };
        let late = due.map_or(Duration::ZERO, |due| now.mono.saturating_duration_since(due));
        if late >= heartbeats.timeout {
            warn!(seconds = late.as_secs(), "this program was stopped for a while, the broker gets its time again");
            registered.expiry = registered.expiry.map(|expiry| expiry.max(now.mono + heartbeats.timeout));
        }
    }

    fn on_unanswered(&mut self, now: Now, out: &mut Vec<Effect>) {
        let liveness = self.config.heartbeats.map_or(3, |heartbeats| heartbeats.liveness.max(1));
        let patience = self.config.reconnect_timeout.saturating_mul(liveness);
        let tired = self.opened.is_some_and(|opened| now.mono >= opened + patience);
        if tired && !self.config.failover.is_empty() {
            warn!(endpoint = %self.config.endpoint(self.place), "no broker answers, trying the next address");
            return self.go_on(now, None, out);
        }
        let State::Joining(joining) = &mut self.state else { return };
        if joining.link != Link::Up && !joining.informs.is_empty() {
            // It still waits in the socket: a second would only be a burden for the broker when it comes.
            joining.next_inform = now.mono + self.config.reconnect_timeout;
            return;
        }
        self.inform(now, out);
    }

    fn heartbeat(&mut self, now: Now, out: &mut Vec<Effect>) {
        let seconds = now.wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64().to_string();
        let id = self.ids.next_id();
        out.push(Effect::Send(Command::Heartbeat { timestamp: Some(seconds.as_bytes()) }.to_message(&id)));
    }

    fn on_reconfigure(&mut self, now: Now, config: SessionConfig, out: &mut Vec<Effect>) {
        let same = self.config.same_registration(&config);
        self.config = config;
        match &self.state {
            State::Joining(_) | State::Registered(_) | State::Pausing(_) if !same => {
                let registered = self.is_registered();
                self.kbye(out);
                if registered {
                    out.push(Effect::Lost(LostReason::Reconfigured));
                }
                self.place = 0;
                self.open(now, out);
            }
            State::Registered(_) => self.restart_timers(now),
            _ => {}
        }
    }

    fn restart_timers(&mut self, now: Now) {
        let heartbeats = self.config.heartbeats;
        if let State::Registered(registered) = &mut self.state {
            registered.expiry = heartbeats.map(|heartbeats| now.mono + heartbeats.patience());
            registered.next_heartbeat = heartbeats.map(|_| now.mono);
        }
    }

    fn on_leave(&mut self, now: Now, out: &mut Vec<Effect>) {
        if matches!(self.state, State::New | State::Ended | State::Leaving { .. }) {
            return;
        }
        // A broker that has acknowledged keeps the jobs that run alive for as long as it hears of us.
        let beating = self.config.heartbeats.filter(|_| self.is_registered());
        self.kbye(out);
        self.state = State::Leaving { next_heartbeat: beating.map(|heartbeats| now.mono + heartbeats.interval) };
    }

    /// Says goodbye to a broker that may know us.
    fn kbye(&mut self, out: &mut Vec<Effect>) {
        let known = match &self.state {
            State::Registered(_) => true,
            State::Joining(joining) => joining.link == Link::Up,
            _ => false,
        };
        if known {
            let id = self.ids.next_id();
            out.push(Effect::Send(Command::Kbye.to_message(&id)));
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
