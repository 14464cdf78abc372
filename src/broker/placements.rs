//! SCHEDULE and UNSCHEDULE: which scheduler keeps which schedule.
//!
//! A schedule is to live in one scheduler. The same one is chosen each time, and when that is another than before, because
//! schedulers came or went, the former one is told to forget it: at once, or when it is back.

use tracing::{debug, warn};
use zmtp::{Message, RoutingId};

use super::core::{Broker, Turn};
use super::schedulers::Rank;
use crate::dispatch::Recent;
use crate::emqp::{Command, CommandName, Envelope, JobErrorKind, MsgId, Reply, Schedule, ScheduleId, ScheduledCall};

/// Schedules whose place is remembered.
const REMEMBERED: usize = 10_000;
/// Clients whose SCHEDULE has not been answered by a scheduler, remembered.
const UNANSWERED: usize = 4096;
/// Retractions kept for schedulers that are away.
const RETRACTIONS: usize = 4096;
/// A message longer than this is not kept for a retraction.
const LONGEST_KEPT: usize = 16 << 10;

/// Where schedules are, as far as this broker has placed them.
#[derive(Debug)]
pub(super) struct Placements {
    holders: Recent<ScheduleId, Option<RoutingId>>,
    clients: Recent<MsgId, Option<RoutingId>>,
    /// For whom, or for any scheduler that is not on standby.
    retractions: Recent<(ScheduleId, Option<RoutingId>), Option<Message>>,
}

impl Default for Placements {
    fn default() -> Self {
        Self {
            holders: Recent::new(REMEMBERED),
            clients: Recent::new(UNANSWERED),
            retractions: Recent::new(RETRACTIONS),
        }
    }
}

impl Broker {
    /// A schedule goes to one scheduler.
    pub(super) fn on_schedule(
        &mut self,
        turn: &mut Turn<'_>,
        from: &RoutingId,
        msgid: &MsgId,
        schedule: &Schedule<'_>,
    ) {
        self.note_alive(turn, from);
        if self.forward_schedule(turn, schedule) {
            *self.placements.clients.entry(msgid) = Some(from.clone());
        } else {
            warn!(client = %from, %msgid, "no scheduler is connected, SCHEDULE refused");
            self.send_error(turn, from, msgid.clone(), JobErrorKind::NoScheduler);
        }
    }

    /// A SCHEDULE did not reach its scheduler: another takes it, or its client is told.
    pub(super) fn reroute_schedule(&mut self, turn: &mut Turn<'_>, msgid: &MsgId, schedule: &Schedule<'_>) {
        if self.forward_schedule(turn, schedule) {
            return;
        }
        warn!(%msgid, "the last scheduler is gone, a SCHEDULE for it is refused");
        if let Some(client) = self.placements.clients.entry(msgid).take() {
            self.send_error(turn, &client, msgid.clone(), JobErrorKind::NoScheduler);
        }
    }

    /// Sends a SCHEDULE to the scheduler it belongs to, and makes the former one forget it; false if there is none.
    fn forward_schedule(&mut self, turn: &mut Turn<'_>, schedule: &Schedule<'_>) -> bool {
        // What names no call is for the scheduler to refuse.
        let id = ScheduledCall::read(schedule.payload).ok().map(|call| call.id);
        let name: &[u8] = id.as_ref().map_or(schedule.payload, |id| id.as_bytes());
        let Some(chosen) = self.schedulers.choose(name) else { return false };
        if let Some(id) = id {
            self.place(turn, id, &chosen, schedule);
        }
        turn.send(self.sockets.frontend, chosen, schedule.message.clone());
        true
    }

    fn place(&mut self, turn: &mut Turn<'_>, id: ScheduleId, chosen: &RoutingId, schedule: &Schedule<'_>) {
        let rank = self.rank_of(chosen);
        let former = self.placements.holders.entry(&id).replace(chosen.clone());
        for whom in [Some(chosen.clone()), None] {
            self.placements.retractions.forget(&(id, whom));
        }
        if rank == Some(Rank::Standby) {
            // One that is away may hold it too, and comes back with another name.
            self.keep_retraction(id, None, schedule);
        }
        match former {
            Some(former) if former == *chosen => {}
            Some(former) => {
                let key = self.schedulers.find(&former);
                let connected = key.and_then(|key| self.schedulers.get_mut(key)).map(|it| it.detached.is_none());
                match connected {
                    Some(true) => self.retract(turn, &former, schedule),
                    Some(false) => self.keep_retraction(id, Some(former), schedule),
                    None => {}
                }
            }
            // It may be in our own from an earlier run.
            None if rank == Some(Rank::Regular) => {
                let standby = self.schedulers.connected().find(|other| other.rank == Rank::Standby);
                if let Some(own) = standby.map(|own| own.id.clone()) {
                    self.retract(turn, &own, schedule);
                }
            }
            None => {}
        }
    }

    fn rank_of(&mut self, id: &RoutingId) -> Option<Rank> {
        let key = self.schedulers.find(id)?;
        self.schedulers.get_mut(key).map(|scheduler| scheduler.rank)
    }

    fn unschedule(&mut self, schedule: &Schedule<'_>) -> Message {
        let body = [
            schedule.queue,
            schedule.headers.0,
            schedule.interval.unwrap_or(b"-1"),
            schedule.payload,
            schedule.cron.unwrap_or_default(),
        ];
        Schedule::build(CommandName::Unschedule, &self.ids.next_id(), body)
    }

    fn retract(&mut self, turn: &mut Turn<'_>, from: &RoutingId, schedule: &Schedule<'_>) {
        debug!(scheduler = %from, "a schedule of this scheduler is another's now");
        let message = self.unschedule(schedule);
        turn.send(self.sockets.frontend, from.clone(), message);
    }

    fn keep_retraction(&mut self, id: ScheduleId, whom: Option<RoutingId>, schedule: &Schedule<'_>) {
        if schedule.payload.len() <= LONGEST_KEPT {
            let message = self.unschedule(schedule).compact();
            *self.placements.retractions.entry(&(id, whom)) = Some(message);
        }
    }

    /// A scheduler joins or is back: it forgets what others were given meanwhile.
    pub(super) fn retract_from(&mut self, turn: &mut Turn<'_>, scheduler: &RoutingId, rank: Rank) {
        let concerns = |whom: &Option<RoutingId>| match whom {
            Some(whom) => whom == scheduler,
            None => rank == Rank::Regular,
        };
        let known = self.placements.retractions.iter();
        let due: Vec<Message> =
            known.filter(|((_, whom), _)| concerns(whom)).filter_map(|(_, message)| message.clone()).collect();
        if !due.is_empty() {
            debug!(%scheduler, schedules = due.len(), "schedules were given to others while this scheduler was away");
        }
        for message in due {
            turn.send(self.sockets.frontend, scheduler.clone(), message);
        }
        self.placements.retractions.retain(|(_, whom)| whom.as_ref() != Some(scheduler));
    }

    /// The end of a schedule goes to all schedulers: any may have it from an earlier run.
    pub(super) fn on_unschedule(
        &mut self,
        turn: &mut Turn<'_>,
        from: &RoutingId,
        msgid: &MsgId,
        schedule: &Schedule<'_>,
    ) {
        self.note_alive(turn, from);
        let all: Vec<RoutingId> = self.schedulers.connected().map(|scheduler| scheduler.id.clone()).collect();
        if all.is_empty() {
            warn!(client = %from, %msgid, "no scheduler is connected, UNSCHEDULE refused");
            return self.send_error(turn, from, msgid.clone(), JobErrorKind::NoScheduler);
        }
        *self.placements.clients.entry(msgid) = Some(from.clone());
        for scheduler in all {
            turn.send(self.sockets.frontend, scheduler, schedule.message.clone());
        }
    }

    /// A scheduler's answer to a SCHEDULE or UNSCHEDULE goes to the client, the first one only.
    pub(super) fn on_schedule_reply(
        &mut self,
        turn: &mut Turn<'_>,
        from: &RoutingId,
        reply: &Reply<'_>,
        message: &Message,
    ) {
        self.note_alive(turn, from);
        let request = match reply {
            Reply::Single(id) => MsgId::new(id).ok(),
            Reply::Result { request, .. } => Some(request.clone()),
        };
        let Some(request) = request else { return };
        if let Some(client) = self.placements.clients.take(&request).flatten() {
            turn.send(self.sockets.frontend, client, message.clone());
        }
    }

    /// A SCHEDULE in a message that was not delivered goes elsewhere.
    pub(super) fn on_schedule_undelivered(&mut self, turn: &mut Turn<'_>, message: &Message) {
        if let Ok(Envelope { msgid, command: Command::Schedule(schedule) }) = Envelope::parse(message) {
            self.reroute_schedule(turn, &msgid, &schedule);
        }
    }
}
