//! What became of a job: as a line of JSON, as text, as an exit code.

use serde::Serialize;
use serde_json::Value;

use crate::client::{CallError, Failure, SubmitError};
use crate::emqp::MsgId;

/// One line of `emq submit --json`, and of `schedule` and `unschedule`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Answer {
    /// The line of the input, counted from 1, if jobs came as lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The job's message id, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The key `outcome`, and what goes with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(super) enum Outcome {
    /// The broker has it.
    Accepted,
    /// It is on its way; nothing more was asked.
    Sent,
    /// What it returned.
    Returned { value: Value },
    /// It ran and failed.
    Failed { error: Failure },
    /// The broker did not take it.
    Refused { error: Failure },
    /// It was never sent.
    NotSent { error: Failure },
    /// It was sent, and may run.
    Unknown { error: Failure },
    /// A line that is no job.
    Invalid { error: Failure },
}

/// How the command ends. Greater is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    Done = 0,
    NotDone = 1,
    Usage = 2,
    JobFailed = 3,
    Unknown = 4,
}

impl Outcome {
    pub(super) fn severity(&self) -> Severity {
        match self {
            Self::Accepted | Self::Sent | Self::Returned { .. } => Severity::Done,
            Self::Refused { .. } | Self::NotSent { .. } => Severity::NotDone,
            Self::Invalid { .. } => Severity::Usage,
            Self::Failed { .. } => Severity::JobFailed,
            Self::Unknown { .. } => Severity::Unknown,
        }
    }

    pub(super) fn invalid(why: String) -> Self {
        Self::Invalid { error: failure("InvalidLine", why) }
    }

    fn error(&self) -> Option<&Failure> {
        match self {
            Self::Accepted | Self::Sent | Self::Returned { .. } => None,
            Self::Failed { error }
            | Self::Refused { error }
            | Self::NotSent { error }
            | Self::Unknown { error }
            | Self::Invalid { error } => Some(error),
        }
    }
}

fn failure(kind: &str, message: String) -> Failure {
    Failure { kind: kind.to_owned(), message, traceback: None }
}

impl From<SubmitError> for Outcome {
    fn from(error: SubmitError) -> Self {
        let text = error.to_string();
        match error {
            SubmitError::Refused(error) => Self::Refused { error },
            SubmitError::NotConnected { .. } => Self::NotSent { error: failure("NotConnected", text) },
            SubmitError::Busy { .. } => Self::NotSent { error: failure("Busy", text) },
            SubmitError::DuplicateId { .. } => Self::NotSent { error: failure("DuplicateId", text) },
            SubmitError::Argument(_) | SubmitError::Interval(_) => Self::Invalid { error: failure("Invalid", text) },
            SubmitError::Unconfirmed { .. } => Self::Unknown { error: failure("Unconfirmed", text) },
            SubmitError::ConnectionLost { .. } => Self::Unknown { error: failure("ConnectionLost", text) },
            SubmitError::Closed => Self::NotSent { error: failure("Closed", text) },
        }
    }
}

impl From<CallError> for Outcome {
    fn from(error: CallError) -> Self {
        let text = error.to_string();
        match error {
            CallError::Submit(error) => error.into(),
            CallError::Failed(error) => Self::Failed { error },
            CallError::Timeout { .. } => Self::Unknown { error: failure("Timeout", text) },
            CallError::Result { .. } => Self::Failed { error: failure("UnreadableResult", text) },
            CallError::Closed => Self::Unknown { error: failure("Closed", text) },
        }
    }
}

impl Answer {
    pub(super) fn new(id: Option<MsgId>, outcome: Outcome) -> Self {
        Self { line: None, id: id.map(|id| id.to_string()), outcome }
    }

    pub(super) fn on_line(self, line: Option<u64>) -> Self {
        Self { line, ..self }
    }

    /// A line of JSON.
    pub(super) fn to_json(&self) -> String {
        // Only a map with keys that are not text could fail here.
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("{text}\n")
    }

    /// For standard output, if there is something for it: the value, or the id.
    pub(super) fn to_text(&self) -> Option<String> {
        match &self.outcome {
            Outcome::Returned { value } => Some(format!("{value}\n")),
            Outcome::Accepted | Outcome::Sent => self.id.as_ref().map(|id| format!("{id}\n")),
            _ => None,
        }
    }

    /// For standard error, if something went wrong.
    pub(super) fn complaint(&self) -> Option<String> {
        let error = self.outcome.error()?;
        let mut text = String::new();
        text.extend(self.line.map(|line| format!("line {line}: ")));
        // What is said of an unknown fate names the job already.
        let id = self.id.as_ref().filter(|_| !matches!(self.outcome, Outcome::Unknown { .. }));
        text.extend(id.map(|id| format!("job {id}: ")));
        text += match &self.outcome {
            Outcome::Failed { .. } => "failed: ",
            Outcome::Refused { .. } => "refused: ",
            _ => "",
        };
        text += &match &self.outcome {
            Outcome::Failed { .. } | Outcome::Refused { .. } => error.to_string(),
            _ => error.message.clone(),
        };
        if let Some(traceback) = &error.traceback {
            text.push('\n');
            text += traceback.trim_end();
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn id() -> MsgId {
        MsgId::new("6f648343-fcf1-41be-b50c-a7e836b0d857").unwrap()
    }

    /// Every outcome there is, in the order of the golden file.
    fn all() -> Vec<Answer> {
        let error = Failure {
            kind: "ValueError".to_owned(),
            message: "no such order".to_owned(),
            traceback: Some("Traceback (most recent call last): ...".to_owned()),
        };
        let after = Duration::from_secs(10);
        let endpoint = "tcp://127.0.0.1:47291".parse().unwrap();
        let full = failure("QueueFull", "the queue is full, the job was not taken".to_owned());
        let outcomes: [Outcome; 9] = [
            Outcome::Accepted,
            Outcome::Sent,
            Outcome::Returned { value: json!({"total": 3}) },
            Outcome::Failed { error },
            SubmitError::Refused(full).into(),
            SubmitError::NotConnected { endpoint, after }.into(),
            SubmitError::Unconfirmed { msgid: id(), after }.into(),
            CallError::Timeout { msgid: id(), after }.into(),
            Outcome::invalid("no job: missing field `job` at line 1 column 2".to_owned()),
        ];
        let answer = |(line, outcome)| Answer::new(Some(id()), outcome).on_line((line > 4).then_some(line));
        (1..).zip(outcomes).map(answer).collect()
    }

    #[test]
    fn json_is_as_documented() {
        let lines: String = all().iter().map(Answer::to_json).collect();
        assert_eq!(lines, include_str!("../../tests/golden/submit.jsonl"), "\n{lines}");
    }

    #[test]
    fn text_and_exit_codes() {
        let texts: Vec<_> = all()
            .iter()
            .map(|answer| {
                let text = answer.to_text().or(answer.complaint()).unwrap();
                format!("{} {}", answer.outcome.severity() as u8, text.trim_end())
            })
            .collect();
        let expected = include_str!("../../tests/golden/submit.txt");
        assert_eq!(texts.join("\n") + "\n", expected, "\n{}", texts.join("\n"));
    }
}
