//! [`Core`]: which messages wait for what, without socket or clock.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tracing::{debug, warn};
use zmtp::Message;

use super::{Failure, outcome};
use crate::emqp::{Command, Envelope, JobErrorKind, MsgId, Reply};

/// The first pause before a job is offered again to a full queue; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One message to a broker, with what is wanted in return.
#[derive(Debug, Clone)]
pub(super) struct Submission {
    pub msgid: MsgId,
    pub message: Message,
    pub answer: Answer,
    pub on_loss: OnLoss,
    pub when_full: WhenFull,
    /// How long its acceptance is awaited.
    pub patience: Duration,
    /// When its result is no longer awaited.
    pub result_by: Option<Instant>,
}

/// What a submission waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Only that it was sent.
    Nothing,
    /// The broker's acceptance.
    Acceptance,
    /// The acceptance, then the result.
    Result,
}

/// What to do when the connection is lost behind a message that was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnLoss {
    /// Sending it twice does no harm.
    SendAgain,
    /// It must not be sent twice.
    Report,
}

/// What to do when the broker's queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenFull {
    Report,
    /// Offer it again, until then if it says so.
    Retry(Option<Instant>),
}

/// What happens to a client.
#[derive(Debug)]
pub(super) enum Input {
    Submit(Submission),
    /// Nobody waits for it any more.
    Forget(MsgId),
    Connected,
    /// What was to be sent and is not [written](Input::Written) never will be.
    Disconnected,
    /// The socket took a message of this submission.
    Written(MsgId),
    Received(Message),
    Tick,
}

/// What a client has to do.
#[derive(Debug)]
pub(super) enum Effect {
    /// To be sent if [`Core::wants`] it still when the socket has room.
    Send(MsgId, Message),
    Report(MsgId, Report),
}

/// News of a submission. All but `Accepted` end it, and `Accepted` does if no result is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    /// It was sent, and nothing more was wanted.
    Sent,
    Accepted,
    Refused(Failure),
    /// A result frame.
    Result(Bytes),
    /// There was no connection in time: it was never sent.
    NotSent,
    /// It was sent, and no acceptance came in time.
    Unconfirmed,
    /// It was sent, and no acceptance came before the connection was lost.
    Lost,
    /// No result came in time.
    Overdue,
    /// Another of the same id is waiting.
    Duplicate,
}

/// How far a submission has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Unsent,
    /// To be sent as soon as there is room.
    Queued,
    /// Perhaps the broker has it.
    Sent,
    /// Its queue was full; it is offered again later.
    Held,
    Accepted,
}

#[derive(Debug)]
struct Pending {
    /// Kept while it may have to be sent again.
    message: Option<Message>,
    stage: Stage,
    answer: Answer,
    on_loss: OnLoss,
    when_full: WhenFull,
    patience: Duration,
    result_by: Option<Instant>,
    /// How often its queue was full.
    refusals: u32,
    /// Its entry among the deadlines.
    due: Option<Instant>,
    /// Its place among all submissions.
    order: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Up,
    Down,
}

/// The state of a client: a step for each [`Input`], effects out.
#[derive(Debug)]
pub(super) struct Core {
    link: Link,
    pending: HashMap<MsgId, Pending>,
    deadlines: BTreeSet<(Instant, MsgId)>,
    submitted: u64,
    /// How many are not accepted.
    unsettled: usize,
}

impl Core {
    pub(super) fn new() -> Self {
        Self { link: Link::Down, pending: HashMap::new(), deadlines: BTreeSet::new(), submitted: 0, unsettled: 0 }
    }

    /// When it wants a [`Input::Tick`] at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(due, _)| *due)
    }

    /// Whether nothing is waiting for a broker's acceptance, nor to be sent.
    pub(super) fn is_settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Whether a message of this submission is still to be sent.
    pub(super) fn wants(&self, msgid: &MsgId) -> bool {
        self.pending.contains_key(msgid)
    }

    pub(super) fn step(&mut self, now: Instant, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Submit(submission) => self.on_submit(now, submission, out),
            Input::Forget(msgid) => drop(self.remove(&msgid)),
            Input::Connected => self.on_connected(out),
            Input::Disconnected => self.on_disconnected(out),
            Input::Written(msgid) => self.on_written(msgid, out),
            Input::Received(message) => self.on_received(now, &message, out),
            Input::Tick => self.on_tick(now, out),
        }
    }

    fn on_submit(&mut self, now: Instant, submission: Submission, out: &mut Vec<Effect>) {
        let Submission { msgid, message, answer, on_loss, when_full, patience, result_by } = submission;
        if self.pending.contains_key(&msgid) {
            return out.push(Effect::Report(msgid, Report::Duplicate));
        }
        self.submitted += 1;
        self.unsettled += 1;
        let due = later(now, patience);
        let pending = Pending {
            message: Some(message),
            stage: Stage::Unsent,
            answer,
            on_loss,
            when_full,
            patience,
            result_by,
            refusals: 0,
            due: Some(due),
            order: self.submitted,
        };
        self.deadlines.insert((due, msgid.clone()));
        self.pending.insert(msgid.clone(), pending);
        if self.link == Link::Up {
            self.send(&msgid, out);
        }
    }

    fn on_connected(&mut self, out: &mut Vec<Effect>) {
        self.link = Link::Up;
        let again = |pending: &Pending| match pending.stage {
            Stage::Unsent => true,
            Stage::Sent | Stage::Accepted => pending.on_loss == OnLoss::SendAgain,
            Stage::Queued | Stage::Held => false,
        };
        let waiting = self.pending.iter().filter(|(_, pending)| again(pending));
        let mut waiting: Vec<_> = waiting.map(|(msgid, pending)| (pending.order, msgid.clone())).collect();
        waiting.sort_unstable();
        for (_, msgid) in waiting {
            self.send(&msgid, out);
        }
    }

    /// Sends a submission, for the first time or again.
    fn send(&mut self, msgid: &MsgId, out: &mut Vec<Effect>) {
        let Some(pending) = self.pending.get_mut(msgid) else { return };
        let Some(message) = pending.message.clone() else { return };
        if pending.stage == Stage::Unsent {
            pending.stage = Stage::Queued;
        }
        out.push(Effect::Send(msgid.clone(), message));
    }

    fn on_written(&mut self, msgid: MsgId, out: &mut Vec<Effect>) {
        let Some(pending) = self.pending.get_mut(&msgid) else { return };
        if pending.stage == Stage::Queued {
            pending.stage = Stage::Sent;
        }
        if pending.on_loss == OnLoss::Report && pending.when_full == WhenFull::Report {
            pending.message = None;
        }
        if pending.answer == Answer::Nothing {
            self.end(msgid, Report::Sent, out);
        }
    }

    /// What was sent and not accepted may have arrived or not.
    fn on_disconnected(&mut self, out: &mut Vec<Effect>) {
        self.link = Link::Down;
        for pending in self.pending.values_mut().filter(|pending| pending.stage == Stage::Queued) {
            pending.stage = Stage::Unsent;
        }
        let lost = |pending: &Pending| pending.stage == Stage::Sent && pending.on_loss == OnLoss::Report;
        let mut lost: Vec<_> = self
            .pending
            .iter()
            .filter(|(_, pending)| lost(pending))
            .map(|(msgid, pending)| (pending.order, msgid.clone()))
            .collect();
        lost.sort_unstable();
        for (_, msgid) in lost {
            self.end(msgid, Report::Lost, out);
        }
    }

    fn on_received(&mut self, now: Instant, message: &Message, out: &mut Vec<Effect>) {
        let command = match Envelope::parse(message) {
            Ok(envelope) => envelope.command,
            Err(error) => return warn!(%error, "the broker sent what is no eMQP message"),
        };
        match command {
            Command::Reply(Reply::Single(accepted)) => self.on_acceptance(accepted, out),
            Command::Reply(Reply::Result { result, request }) => self.on_result(now, message, result, request, out),
            other => debug!(command = other.name().as_str(), "the broker sent what is not for clients"),
        }
    }

    fn on_acceptance(&mut self, accepted: &[u8], out: &mut Vec<Effect>) {
        let Some((msgid, pending)) = MsgId::new(accepted).ok().and_then(|msgid| {
            let pending = self.pending.get_mut(&msgid)?;
            Some((msgid, pending))
        }) else {
            return debug!(msgid = %accepted.escape_ascii(), "acceptance of what nobody waits for");
        };
        match (pending.stage, pending.answer) {
            // A second one answers a message that was sent again.
            (Stage::Accepted, _) => {}
            (_, Answer::Result) => {
                pending.stage = Stage::Accepted;
                if pending.on_loss == OnLoss::Report {
                    pending.message = None;
                }
                self.unsettled -= 1;
                let (was, is) = (pending.due, pending.result_by);
                pending.due = is;
                self.move_deadline(&msgid, was, is);
                out.push(Effect::Report(msgid, Report::Accepted));
            }
            _ => self.end(msgid, Report::Accepted, out),
        }
    }

    fn on_result(&mut self, now: Instant, message: &Message, result: &[u8], request: MsgId, out: &mut Vec<Effect>) {
        let Some(Pending { stage, answer, .. }) = self.pending.get(&request) else {
            return match outcome::failure_in(result) {
                Some(failure) => warn!(msgid = %request, %failure, "failure of a job that nobody waits for"),
                None => debug!(msgid = %request, "result of a job that nobody waits for"),
            };
        };
        let (stage, answer) = (*stage, *answer);
        // A broker accepts before it passes a result on; an error without that is its refusal.
        let refusal = if stage == Stage::Accepted { None } else { outcome::failure_in(result) };
        let report = match (refusal, answer) {
            (Some(failure), _) if self.is_offered_again(now, &request, &failure) => return,
            (Some(failure), _) => Report::Refused(failure),
            (None, Answer::Result) => {
                if stage != Stage::Accepted {
                    out.push(Effect::Report(request.clone(), Report::Accepted));
                }
                Report::Result(message.frame_bytes(RESULT_FRAME).unwrap_or_default())
            }
            (None, _) => Report::Accepted,
        };
        self.end(request, report, out);
    }

    /// Holds back a job whose queue is full, if that is wanted and there is time.
    fn is_offered_again(&mut self, now: Instant, msgid: &MsgId, failure: &Failure) -> bool {
        let Some(pending) = self.pending.get_mut(msgid) else { return false };
        let WhenFull::Retry(until) = pending.when_full else { return false };
        if failure.broker_kind() != Some(JobErrorKind::QueueFull) {
            return false;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << pending.refusals.min(10)).min(LONGEST_PAUSE);
        let again = later(now, pause);
        if until.is_some_and(|until| until < again) {
            return false;
        }
        pending.stage = Stage::Held;
        pending.refusals += 1;
        let was = pending.due.replace(again);
        self.move_deadline(msgid, was, Some(again));
        true
    }

    /// The pause of a job that is held back is over.
    fn offer_again(&mut self, now: Instant, msgid: &MsgId, out: &mut Vec<Effect>) {
        let Some(pending) = self.pending.get_mut(msgid) else { return };
        pending.stage = Stage::Unsent;
        let due = later(now, pending.patience);
        let was = pending.due.replace(due);
        self.move_deadline(msgid, was, Some(due));
        if self.link == Link::Up {
            self.send(msgid, out);
        }
    }

    fn on_tick(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while let Some((_, msgid)) = self.deadlines.first().filter(|(due, _)| *due <= now).cloned() {
            let report = match self.pending.get(&msgid).map(|pending| pending.stage) {
                Some(Stage::Unsent | Stage::Queued) => Report::NotSent,
                Some(Stage::Sent) => Report::Unconfirmed,
                Some(Stage::Held) => {
                    self.offer_again(now, &msgid, out);
                    continue;
                }
                Some(Stage::Accepted) | None => Report::Overdue,
            };
            self.end(msgid, report, out);
        }
    }

    fn end(&mut self, msgid: MsgId, report: Report, out: &mut Vec<Effect>) {
        self.remove(&msgid);
        out.push(Effect::Report(msgid, report));
    }

    fn remove(&mut self, msgid: &MsgId) -> Option<Pending> {
        let pending = self.pending.remove(msgid)?;
        self.unsettled -= usize::from(pending.stage != Stage::Accepted);
        self.move_deadline(msgid, pending.due, None);
        Some(pending)
    }

    fn move_deadline(&mut self, msgid: &MsgId, was: Option<Instant>, is: Option<Instant>) {
        if let Some(was) = was {
            self.deadlines.remove(&(was, msgid.clone()));
        }
        if let Some(is) = is {
            self.deadlines.insert((is, msgid.clone()));
        }
    }
}

/// A moment of the future; one too far away is merely far away.
pub(super) fn later(now: Instant, time: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);
    now.checked_add(time).unwrap_or(now + FAR)
}

/// Index of a REPLY's result frame, counted on a DEALER.
const RESULT_FRAME: usize = 4;

#[cfg(test)]
mod tests;
