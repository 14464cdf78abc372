//! [`Schedule`]: a job and when it is to run.

use std::time::Duration;

use zmtp::Message;

use super::{Job, SubmitError};
use crate::emqp::{self, CommandName, MsgId};

/// A job that is to run again and again.
///
/// A schedule is named by its call: path, callable and arguments. Queue, period and conditions are not part of that name.
///
/// ```
/// use std::time::Duration;
/// use eventmq::client::{Job, Schedule};
///
/// let clean_up = Schedule::every(Duration::from_secs(300), Job::new("shop.jobs", "clean_up"));
/// let report = Schedule::cron("0 6 * * 1-5", Job::new("shop.jobs", "report").queue("slow")).later();
/// # let _ = (clean_up, report);
/// ```
#[derive(Debug, Clone)]
#[must_use = "a schedule does nothing until it is given to Client::schedule"]
pub struct Schedule {
    job: Job,
    period: Period,
    begin: Begin,
    run_count: Option<u64>,
}

#[derive(Debug, Clone)]
enum Period {
    Interval(Duration),
    Cron(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// A first run on arrival.
    AtOnce,
    Later,
}

impl Schedule {
    /// Runs it every so many seconds: a whole number of them, at least one.
    pub fn every(interval: Duration, job: Job) -> Self {
        Self { job, period: Period::Interval(interval), begin: Begin::AtOnce, run_count: None }
    }

    /// Runs it when a cron expression says: minute, hour, day of month, month, day of week, and perhaps second.
    pub fn cron(expression: impl Into<String>, job: Job) -> Self {
        Self { job, period: Period::Cron(expression.into()), begin: Begin::AtOnce, run_count: None }
    }

    /// Not also at once, on arrival (header `nohaste`).
    pub fn later(mut self) -> Self {
        self.begin = Begin::Later;
        self
    }

    /// Ends after so many runs, one on arrival included.
    pub fn run_count(mut self, runs: u64) -> Self {
        self.run_count = Some(runs);
        self
    }

    pub(super) fn message(&self, name: CommandName, msgid: &MsgId) -> Result<(Message, MsgId), SubmitError> {
        let (interval, cron) = match &self.period {
            Period::Interval(interval) if interval.as_secs() == 0 || interval.subsec_nanos() > 0 => {
                return Err(SubmitError::Interval(*interval));
            }
            Period::Interval(interval) => (interval.as_secs().to_string(), ""),
            Period::Cron(expression) => ("-1".to_owned(), expression.as_str()),
        };
        let mut more = Vec::new();
        if self.begin == Begin::Later {
            more.push("nohaste".to_owned());
        }
        if let Some(runs) = self.run_count {
            more.push(format!("run_count:{runs}"));
        }
        let headers = self.job.headers(more.iter().map(String::as_str));
        build(name, msgid, &self.job, &headers, &interval, cron)
    }

    /// The UNSCHEDULE of a call.
    pub(super) fn end_of(job: &Job, msgid: &MsgId) -> Result<(Message, MsgId), SubmitError> {
        build(CommandName::Unschedule, msgid, job, &job.headers([]), "-1", "")
    }
}

fn build(
    name: CommandName,
    msgid: &MsgId,
    job: &Job,
    headers: &str,
    interval: &str,
    cron: &str,
) -> Result<(Message, MsgId), SubmitError> {
    let msgid = job.given_id().unwrap_or(msgid).clone();
    let payload = job.payload()?;
    let queue = job.queue_name().as_bytes();
    let body = [queue, headers.as_bytes(), interval.as_bytes(), &payload, cron.as_bytes()];
    Ok((emqp::Schedule::build(name, &msgid, body), msgid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(schedule: &Schedule) -> Vec<String> {
        let (message, _) = schedule.message(CommandName::Schedule, &MsgId::new("s").unwrap()).unwrap();
        message.frames().map(|frame| String::from_utf8(frame.to_vec()).unwrap()).collect()
    }

    #[test]
    fn frames_are_those_python_sends() {
        let job = || Job::new("m", "f").queue("email").guarantee();
        let call = r#"["run",{"callable":"f","path":"m","args":[],"kwargs":{},"class_args":[],"class_kwargs":{}}]"#;
        let every = Schedule::every(Duration::from_secs(60), job()).run_count(3);
        let head = ["", "eMQP/1.0", "SCHEDULE", "s", "email"];
        assert_eq!(body(&every), [&head[..], &["run_count:3,guarantee", "60", call, ""]].concat());
        let cron = Schedule::cron("*/5 * * * *", job()).later();
        assert_eq!(body(&cron), [&head[..], &["nohaste,guarantee", "-1", call, "*/5 * * * *"]].concat());
    }

    #[test]
    fn an_interval_is_whole_seconds() {
        for millis in [0, 1, 999, 1500] {
            let schedule = Schedule::every(Duration::from_millis(millis), Job::new("m", "f"));
            let error = schedule.message(CommandName::Schedule, &MsgId::new("s").unwrap()).unwrap_err();
            assert!(matches!(error, SubmitError::Interval(_)), "{error}");
        }
    }

    #[test]
    fn the_end_names_the_call() {
        let (message, msgid) = Schedule::end_of(&Job::new("m", "f"), &MsgId::new("u").unwrap()).unwrap();
        assert_eq!((message.frame(2), msgid.as_bytes()), (Some(&b"UNSCHEDULE"[..]), &b"u"[..]));
        assert_eq!((message.frame(6), message.frame(8)), (Some(&b"-1"[..]), Some(&b""[..])));
    }
}
