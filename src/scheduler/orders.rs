//! What clients ask for, and the answers they get.

use serde::Serialize;
use zmtp::Message;

use super::record::{Record, Refusal};
use super::store::Change;
use crate::emqp::{Command, MsgId, MsgIds, Reply, ScheduleId};

/// A SCHEDULE or UNSCHEDULE that was understood: carried out and answered once it is stored.
#[derive(Debug)]
pub(super) struct Order {
    pub msgid: MsgId,
    pub id: ScheduleId,
    pub becomes: Becomes,
    /// A job to be sent at once.
    pub run: Option<Message>,
}

/// What becomes of a schedule.
#[derive(Debug)]
pub(super) enum Becomes {
    Same,
    Gone,
    Record(Box<Record>),
}

impl Order {
    /// What is to be stored for it.
    pub fn change(&self) -> Option<Change> {
        match &self.becomes {
            Becomes::Same => None,
            Becomes::Gone => Some(Change::Remove(self.id)),
            Becomes::Record(record) => Some(Change::Put(Record::clone(record))),
        }
    }

    /// The answer that it is done: one body frame, as for a job.
    pub fn acceptance(&self, ids: &mut MsgIds) -> Message {
        Command::Reply(Reply::Single(self.msgid.as_bytes())).to_message(&ids.next_id())
    }

    /// The answer that it is not.
    pub fn failure(&self, ids: &mut MsgIds) -> Message {
        error(&self.msgid, "StoreFailed", "the schedule could not be stored, nothing has changed", ids)
    }
}

/// The answer that a message is refused: two body frames, as for a job.
pub(super) fn refusal(msgid: &MsgId, refusal: &Refusal, ids: &mut MsgIds) -> Message {
    error(msgid, "BadSchedule", &refusal.to_string(), ids)
}

#[derive(Serialize)]
struct ErrorResult<'a> {
    error: ErrorBody<'a>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    message: &'a str,
}

fn error(msgid: &MsgId, kind: &str, message: &str, ids: &mut MsgIds) -> Message {
    // Serializing two texts cannot fail; an empty object would still be a valid result.
    let result = serde_json::to_vec(&ErrorResult { error: ErrorBody { kind, message } });
    let result = result.unwrap_or_else(|_| b"{}".to_vec());
    Command::Reply(Reply::Result { result: &result, request: msgid.clone() }).to_message(&ids.next_id())
}
