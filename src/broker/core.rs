//! [`Broker`]: takes inputs apart and wires the parts together.

use std::time::Instant;

use tracing::{debug, trace, warn};
use zmtp::{Message, RoutingId};

use super::counters::Counters;
use super::dead::DeadJobs;
use super::jobs::Jobs;
use super::queues::Queues;
use super::schedulers::Schedulers;
use super::shutdown::Phase;
use super::timers::Timer;
use super::workers::Workers;
use super::{BrokerConfig, Effect, Input, SocketId};
use crate::clock::Now;
use crate::dispatch::{Recent, Refusals, Stall, Timers};
use crate::emqp::{Command, CommandName, Envelope, MsgIds, PeerKind, Reply, legible_msgid};
use crate::emqp::{JobError, JobErrorKind, MsgId};
use crate::store::StoreSeq;

/// Peers whose misbehaviour is remembered, so that it is logged once.
const NOTED: usize = 4096;

/// The broker's logic, without any I/O.
#[derive(Debug)]
pub struct Broker {
    pub(super) config: BrokerConfig,
    pub(super) sockets: Sockets,
    pub(super) started: Instant,
    pub(super) stall: Stall,
    pub(super) ids: MsgIds,
    pub(super) queues: Queues,
    pub(super) workers: Workers,
    pub(super) jobs: Jobs,
    pub(super) dead: DeadJobs,
    pub(super) schedulers: Schedulers,
    pub(super) noted: Recent<RoutingId, Noted>,
    pub(super) timers: Timers<Timer>,
    pub(super) counters: Counters,
    pub(super) refusals: Refusals,
    pub(super) phase: Phase,
}

/// The sockets by role.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sockets {
    pub frontend: SocketId,
    pub backend: SocketId,
    pub admin: SocketId,
}

/// What was said about a peer already.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Noted {
    pub unknown: bool,
    pub disconnected: bool,
    pub malformed: bool,
}

/// One step's time and effects.
pub(super) struct Turn<'a> {
    pub now: Now,
    pub out: &'a mut Vec<Effect>,
}

impl Turn<'_> {
    /// Queues a message for a peer.
    pub fn send(&mut self, socket: SocketId, to: RoutingId, message: Message) {
        self.out.push(Effect::Send { socket, to, message, after: StoreSeq::NONE });
    }
}

impl Sockets {
    fn new(config: &BrokerConfig) -> Self {
        let of = |role: fn(&super::Roles) -> bool| {
            SocketId(config.sockets.iter().position(role).unwrap_or(usize::from(u8::MAX)) as u8)
        };
        Self { frontend: of(|r| r.frontend), backend: of(|r| r.backend), admin: of(|r| r.admin) }
    }
}

impl Broker {
    /// A broker nobody is connected to. The same `seed` and inputs give the same effects.
    pub fn new(config: BrokerConfig, now: Now, seed: u64) -> Self {
        Self {
            sockets: Sockets::new(&config),
            started: now.mono,
            stall: Stall::new(now.mono),
            ids: MsgIds::new(seed),
            queues: Queues::new(&config.default_queue),
            workers: Workers::new(),
            jobs: Jobs::default(),
            dead: DeadJobs::default(),
            schedulers: Schedulers::default(),
            noted: Recent::new(NOTED),
            timers: Timers::default(),
            counters: Counters::default(),
            refusals: Refusals::default(),
            phase: Phase::Running,
            config,
        }
    }

    /// Something happened: appends what is to be done to `out`.
    pub fn step(&mut self, now: Now, input: Input, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Stopped) {
            return;
        }
        let turn = &mut Turn { now, out };
        self.forgive_own_stall(turn);
        match input {
            Input::Received { socket, from, message } => self.on_message(turn, socket, from, &message),
            Input::Up { socket, peer } => self.on_up(turn, socket, &peer),
            Input::Down { socket, peer, reason } => self.on_down(turn, socket, &peer, reason),
            Input::Undelivered { socket, to, message, why } => self.on_undelivered(turn, socket, &to, &message, why),
            Input::Reconfigure(config) => self.reconfigure(turn, *config),
            Input::Shutdown => self.begin_shutdown(turn),
            // Nothing is recorded, so there is nothing to note; and a Tick is only its time.
            Input::Stored(_) | Input::Tick => {}
        }
        while let Some(timer) = self.timers.pop(now.mono) {
            match timer {
                Timer::Worker(key) => self.on_worker_timer(turn, key),
                Timer::Scheduler(key) => self.on_scheduler_timer(turn, key),
                Timer::Job(key) => self.on_job_timer(turn, key),
                Timer::Refusals => self.on_refusals_timer(turn),
                Timer::Shutdown => self.finish_shutdown(turn),
            }
        }
        self.check_shutdown(turn);
    }

    /// When to step a [`Input::Tick`] at the latest; never again once the broker has stopped.
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.next().filter(|_| !matches!(self.phase, Phase::Stopped))
    }

    fn on_message(&mut self, turn: &mut Turn<'_>, socket: SocketId, from: RoutingId, message: &Message) {
        let Envelope { msgid, command } = match Envelope::parse(message) {
            Ok(envelope) => envelope,
            Err(error) => return self.on_malformed(turn, socket, &from, message, &error),
        };
        trace!(%from, command = command.name().as_str(), %msgid, "received");
        if !self.has_role(socket, &command) {
            return self.on_malformed(turn, socket, &from, message, &WrongSocket(command.name()));
        }
        match command {
            Command::Ready => self.on_ready(turn, &from),
            Command::Reply(Reply::Result { result, request }) => {
                self.on_result(turn, &from, message, result, &request);
            }
            Command::Request(request) => self.on_request(turn, from, msgid, &request),
            Command::Heartbeat { .. } => self.on_heartbeat(turn, socket, &from),
            Command::Inform(inform) if inform.kind == Some(PeerKind::Scheduler) => {
                self.on_inform_scheduler(turn, &from, &msgid);
            }
            Command::Inform(inform) => match inform.queue_list() {
                Ok(list) => self.on_inform_worker(turn, &from, &msgid, list),
                Err(error) => self.on_malformed(turn, socket, &from, message, &error),
            },
            Command::Schedule(schedule) => self.on_schedule(turn, &from, &msgid, &schedule),
            Command::Unschedule(schedule) => self.on_unschedule(turn, &from, &schedule),
            Command::Kbye => self.on_kbye(turn, &from),
            Command::Status => self.on_status(turn, &from),
            Command::ShowWorkers => self.on_show_workers(turn, &from),
            Command::ShowSchedulers => self.on_show_schedulers(turn, &from),
            Command::ShowDead => self.on_show_dead(turn, &from),
            Command::RetryDead { job } => self.on_retry_dead(turn, &from, job.as_ref()),
            Command::Disconnect => self.on_admin_disconnect(turn, &from, msgid),
            // A greeting, and signs of life of peers that need no answer.
            Command::Hello | Command::Ack { .. } | Command::Reply(Reply::Single(_)) => self.note_alive(turn, &from),
            Command::Publish(_) => self.on_malformed(turn, socket, &from, message, &WrongSocket(CommandName::Publish)),
        }
    }

    /// Whether a command is acted on when it arrives on this socket.
    fn has_role(&self, socket: SocketId, command: &Command<'_>) -> bool {
        let Sockets { frontend, backend, admin } = self.sockets;
        match command {
            Command::Ready | Command::Reply(_) => socket == backend,
            Command::Request(_) | Command::Schedule(_) | Command::Unschedule(_) => socket == frontend,
            Command::Inform(inform) if inform.kind == Some(PeerKind::Scheduler) => socket == frontend,
            Command::Inform(_) => socket == backend,
            Command::Heartbeat { .. } | Command::Kbye => socket == frontend || socket == backend,
            Command::Status
            | Command::ShowWorkers
            | Command::ShowSchedulers
            | Command::ShowDead
            | Command::RetryDead { .. }
            | Command::Disconnect => socket == admin,
            Command::Hello | Command::Ack { .. } => true,
            Command::Publish(_) => false,
        }
    }

    /// Logs who sent it, once per peer, and drops it; a job that can be told by its id is refused.
    pub(super) fn on_malformed(
        &mut self,
        turn: &mut Turn<'_>,
        socket: SocketId,
        from: &RoutingId,
        message: &Message,
        error: &dyn std::error::Error,
    ) {
        self.counters.malformed += 1;
        let noted = self.noted.entry(from);
        if std::mem::replace(&mut noted.malformed, true) {
            debug!(%from, %error, ?message, "malformed message dropped");
        } else {
            warn!(%from, %error, ?message, "malformed message dropped; further ones of this peer are logged at debug level");
        }
        if socket == self.sockets.frontend {
            let id = [CommandName::Request, CommandName::Schedule].into_iter().find_map(|c| legible_msgid(message, c));
            if let Some(id) = id {
                self.send_error(turn, from, id, JobErrorKind::Malformed);
            }
        }
    }

    /// Sends a command under an id of its own.
    pub(super) fn send(&mut self, turn: &mut Turn<'_>, socket: SocketId, to: &RoutingId, command: &Command<'_>) {
        let message = command.to_message(&self.ids.next_id());
        turn.send(socket, to.clone(), message);
    }

    /// Tells a client that its job ended in a way no worker reports.
    pub(super) fn send_error(&mut self, turn: &mut Turn<'_>, to: &RoutingId, request: MsgId, kind: JobErrorKind) {
        let result = JobError::from(kind).to_result();
        let reply = Command::Reply(Reply::Result { result: &result, request });
        self.send(turn, self.sockets.frontend, to, &reply);
    }

    /// New settings: they count from now on.
    fn reconfigure(&mut self, turn: &mut Turn<'_>, config: BrokerConfig) {
        if config.default_queue != self.config.default_queue {
            self.queues.set_default(&config.default_queue);
        }
        self.config = config;
        let queues: Vec<_> = self.queues.iter().map(|(key, _)| key).collect();
        for queue in queues {
            self.rehome(queue);
        }
        self.pump(turn, self.queues.default_key());
    }
}

/// A command that is not for the socket it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} is not for this socket", .0.as_str())]
struct WrongSocket(CommandName);
