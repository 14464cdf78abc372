//! REQUEST, SCHEDULE and UNSCHEDULE.

use tracing::{debug, warn};
use zmtp::{Message, RoutingId};

use super::core::{Broker, Turn};
use super::jobs::{Job, Jobs, Place};
use super::queues::QueueKey;
use super::shutdown::Phase;
use super::timers::Timer;
use super::{JobTracking, UnknownQueue};
use crate::dispatch::{Edit, RefusalLog};
use crate::emqp::{Command, JobErrorKind, JobHeaders, MsgId, REQUEST_HEADERS_FRAME, Reply, Request, Schedule};

impl Broker {
    /// A client's job: handed to a worker, kept waiting, or refused; the client is told which.
    pub(super) fn on_request(&mut self, turn: &mut Turn<'_>, from: RoutingId, msgid: MsgId, request: &Request<'_>) {
        self.note_alive(turn, &from);
        let headers = match request.headers.read() {
            Ok(headers) => headers,
            Err(error) => {
                return self.on_malformed(turn, self.sockets.frontend, &from, request.message, &error);
            }
        };
        if let Some(job) = self.jobs.find(&msgid).and_then(|key| self.jobs.get(key)) {
            // The same job again, or a stranger with the same idea of an id.
            if job.client == from {
                debug!(%msgid, client = %from, "job sent again while it is held");
                return self.acknowledge(turn, from, msgid);
            }
            return self.refuse(turn, &from, msgid, request.queue, JobErrorKind::DuplicateId);
        }
        if !matches!(self.phase, Phase::Running) {
            return self.refuse(turn, &from, msgid, request.queue, JobErrorKind::ShuttingDown);
        }
        let queue = self.route(request.queue);
        let worker = self.queues.get(queue).and_then(|queue| queue.choose());
        if worker.is_none() && !self.has_room(queue, request.message) {
            self.queues.release(queue);
            return self.refuse(turn, &from, msgid, request.queue, JobErrorKind::QueueFull);
        }
        self.counters.accepted += 1;
        let tracked = self.is_tracked(&headers);
        let asking = (tracked && !headers.reply_requested).then(|| request.headers.with_reply_requested());
        let edit = asking.as_deref().map(|body| Edit { frame: REQUEST_HEADERS_FRAME, body });
        let message = match self.queues.get_mut(queue).filter(|_| worker.is_none()) {
            Some(queue) => queue.waiting.keep(request.message, edit),
            None => edit
                .map_or_else(|| request.message.clone(), |edit| request.message.replace_frame(edit.frame, edit.body)),
        };
        let arrival = self.jobs.next_arrival();
        let key = self.jobs.insert(Job {
            msgid: msgid.clone(),
            client: from.clone(),
            queue,
            arrival,
            headers,
            deliveries: 0,
            retries: 0,
            message: Some(message),
            tracked,
            place: Place::Waiting,
            history: Vec::new(),
        });
        match worker {
            Some(worker) => self.hand_over(turn, worker, key),
            None => {
                if let Some(queue) = self.queues.get_mut(queue) {
                    queue.waiting.insert(arrival, key);
                }
            }
        }
        self.acknowledge(turn, from, msgid);
    }

    /// The acceptance: one body frame.
    fn acknowledge(&mut self, turn: &mut Turn<'_>, to: RoutingId, msgid: MsgId) {
        let reply = Command::Reply(Reply::Single(msgid.as_bytes())).to_message(&self.ids.next_id());
        turn.send(self.sockets.frontend, to, reply);
    }

    /// The queue a job goes to, held for it.
    pub(super) fn route(&mut self, name: &[u8]) -> QueueKey {
        let live = |key: &QueueKey| self.queues.get(*key).is_some_and(|queue| queue.live > 0);
        match (self.queues.find(name).filter(live), self.config.unknown_queue) {
            (Some(key), _) => {
                self.queues.retain(key);
                key
            }
            (None, UnknownQueue::Hold) => self.queues.hold(name),
            (None, UnknownQueue::Default) => {
                let default = self.queues.default_key();
                self.queues.retain(default);
                default
            }
        }
    }

    fn has_room(&self, queue: QueueKey, message: &Message) -> bool {
        let room = self.queues.get(queue).is_some_and(|queue| queue.waiting.len() < self.config.hwm);
        room && self.jobs.waiting_bytes() + Jobs::weight_of(message) <= self.config.waiting_bytes
    }

    /// Whether the worker is made to REPLY, so that the broker knows the end: then it adds `reply-requested`.
    fn is_tracked(&self, headers: &JobHeaders) -> bool {
        let concerns_us = headers.guarantee || headers.retry_count.is_some() || headers.timeout.is_some();
        headers.reply_requested || concerns_us || self.config.tracking == JobTracking::All
    }

    /// A job is not taken: its client is told, and the operator.
    fn refuse(&mut self, turn: &mut Turn<'_>, from: &RoutingId, msgid: MsgId, queue: &[u8], kind: JobErrorKind) {
        self.counters.refused += 1;
        if let RefusalLog::LogAndArm(due) = self.refusals.on_refused(turn.now.mono) {
            warn!(%msgid, client = %from, queue = %queue.escape_ascii(), reason = ?kind, "job refused; further ones are summed up");
            self.timers.set(due, Timer::Refusals);
        }
        self.send_error(turn, from, msgid, kind);
    }

    /// The summary of refusals is due.
    pub(super) fn on_refusals_timer(&mut self, turn: &mut Turn<'_>) {
        if let Some((jobs, next)) = self.refusals.on_due(turn.now.mono) {
            warn!(jobs, "more jobs refused");
            self.timers.set(next, Timer::Refusals);
        }
    }

    /// A schedule goes to one scheduler.
    pub(super) fn on_schedule(
        &mut self,
        turn: &mut Turn<'_>,
        from: &RoutingId,
        msgid: &MsgId,
        schedule: &Schedule<'_>,
    ) {
        self.note_alive(turn, from);
        self.forward_schedule(turn, Some((from, msgid)), schedule.message);
    }

    /// Sends a SCHEDULE to the scheduler that was given none for the longest time; without one the client is told.
    pub(super) fn forward_schedule(
        &mut self,
        turn: &mut Turn<'_>,
        client: Option<(&RoutingId, &MsgId)>,
        message: &Message,
    ) {
        if let Some(scheduler) = self.schedulers.choose() {
            return turn.send(self.sockets.frontend, scheduler, message.clone());
        }
        match client {
            Some((client, msgid)) => {
                warn!(%client, %msgid, "no scheduler is connected, SCHEDULE refused");
                self.send_error(turn, client, msgid.clone(), JobErrorKind::NoScheduler);
            }
            None => warn!("the last scheduler is gone, a SCHEDULE for it is lost"),
        }
    }

    /// The end of a schedule goes to all schedulers: only one of them knows it.
    pub(super) fn on_unschedule(&mut self, turn: &mut Turn<'_>, from: &RoutingId, schedule: &Schedule<'_>) {
        self.note_alive(turn, from);
        for scheduler in self.schedulers.connected() {
            turn.send(self.sockets.frontend, scheduler.id.clone(), schedule.message.clone());
        }
    }
}
