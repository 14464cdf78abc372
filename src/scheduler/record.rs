//! [`Record`]: a schedule as it is kept, read from a SCHEDULE.

use bytes::Bytes;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

use super::cron::{Cron, CronError};
use crate::emqp::{Header, HeaderError, Headers, IdentityError, Schedule, ScheduleId, ScheduledCall};

/// Longest interval, in seconds: a century.
const MAX_INTERVAL: i64 = 3_200_000_000;
/// Most missed runs of a cron expression that are counted one by one.
const MAX_COUNTED: u64 = 1000;

const NO_INTERVAL: &str = "-1";
const RUN_COUNT: &str = "run_count:";
const REPLY_REQUESTED: &str = "reply-requested";

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it calls, and its identity.
    pub call: ScheduledCall,
    /// The queue its jobs go to.
    pub queue: String,
    /// The headers as they came, `run_count` with its first number.
    pub headers: String,
    /// The payload of its jobs, as it came.
    pub payload: Bytes,
    /// When it is due.
    pub timing: Timing,
    /// When it arrived: intervals are counted from here.
    pub since: Timestamp,
    /// How many runs are left; `None` for no end.
    pub left: Option<u64>,
}

/// When a schedule is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Timing {
    /// Every so many seconds.
    Every(SignedDuration),
    /// At these times.
    Cron(Cron),
}

/// Whether a schedule runs at once when it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Haste {
    /// It does.
    Now,
    /// It waits for its time (`nohaste`).
    Later,
}

/// Why a SCHEDULE is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Its payload names no call.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A frame is not text.
    #[error("the {0} frame is not UTF-8 text")]
    NotText(&'static str),
    /// A header with a number that is none.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A number of runs that means nothing.
    #[error("run_count:{0}: expected 0 or more, or -1 for no end")]
    RunCount(i64),
    /// Not a number of seconds.
    #[error("interval {0:?}: expected whole seconds from 1 to {MAX_INTERVAL}, or -1 with a cron expression")]
    Interval(String),
    /// An interval and a cron expression.
    #[error("interval {interval} and cron expression {cron:?}: expected one of them")]
    Both {
        /// Seconds.
        interval: i64,
        /// The expression.
        cron: String,
    },
    /// Neither of them.
    #[error("neither an interval nor a cron expression")]
    Neither,
    /// A bad cron expression.
    #[error("cron expression {text:?}, {source}")]
    Cron {
        /// The expression.
        text: String,
        /// What is wrong where.
        source: CronError,
    },
    /// A cron expression such as that of 30 February.
    #[error("cron expression {0:?} never comes due")]
    Never(String),
}

impl Record {
    /// Reads a SCHEDULE that arrived at `now`.
    ///
    /// # Errors
    /// It is refused: nothing about it would be right later either.
    pub fn read(schedule: &Schedule<'_>, now: Timestamp, zone: &TimeZone) -> Result<(Self, Haste), Refusal> {
        let interval = text("interval", schedule.interval.unwrap_or(NO_INTERVAL.as_bytes()))?;
        let cron = text("cron", schedule.cron.unwrap_or_default())?.trim();
        let timing = match (seconds(interval)?, cron) {
            (Some(interval), cron) if !cron.is_empty() => {
                return Err(Refusal::Both { interval: interval.as_secs(), cron: cron.to_owned() });
            }
            (Some(interval), _) => Timing::Every(interval),
            (None, cron) => Timing::cron(cron)?,
        };
        let (queue, headers) = (text("queue", schedule.queue)?, text("headers", schedule.headers.0)?);
        let record = Self::new(queue, headers, timing, schedule.payload, now)?;
        if record.next_after(now, zone).is_none() {
            return Err(Refusal::Never(cron.to_owned()));
        }
        let nohaste = schedule.headers.read()?.nohaste;
        Ok((record, if nohaste { Haste::Later } else { Haste::Now }))
    }

    /// A schedule from the frames Python's scheduler keeps in Redis, whose `run_count` is what is left.
    pub fn from_frames(frames: &[String; 5], since: Timestamp) -> Result<Self, Refusal> {
        let [queue, headers, interval, payload, cron] = frames;
        // Python lets the interval count if there are both.
        let timing = match seconds(interval)? {
            Some(interval) => Timing::Every(interval),
            None => Timing::cron(cron.trim())?,
        };
        Self::new(queue, headers, timing, payload.as_bytes(), since)
    }

    fn new(queue: &str, headers: &str, timing: Timing, payload: &[u8], since: Timestamp) -> Result<Self, Refusal> {
        let call = ScheduledCall::read(payload)?;
        let left = match Headers(headers.as_bytes()).read()?.run_count {
            None | Some(-1) => None,
            Some(count) => Some(u64::try_from(count).map_err(|_| Refusal::RunCount(count))?),
        };
        let (queue, headers, payload) = (queue.to_owned(), headers.to_owned(), Bytes::copy_from_slice(payload));
        Ok(Self { call, queue, headers, payload, timing, since, left })
    }

    /// Its identity.
    pub fn id(&self) -> ScheduleId {
        self.call.id
    }

    /// The frames Python's scheduler keeps: `run_count` is what is left.
    pub fn to_frames(&self) -> [String; 5] {
        let (interval, cron) = match &self.timing {
            Timing::Every(interval) => (interval.as_secs().to_string(), String::new()),
            Timing::Cron(cron) => (NO_INTERVAL.to_owned(), cron.as_str().to_owned()),
        };
        let payload = String::from_utf8_lossy(&self.payload).into_owned();
        [self.queue.clone(), self.headers_left(), interval, payload, cron]
    }

    fn headers_left(&self) -> String {
        let Some(left) = self.left else { return self.headers.clone() };
        let count = |header: &str| match header.trim().starts_with(RUN_COUNT) {
            true => format!("{RUN_COUNT}{left}"),
            false => header.to_owned(),
        };
        self.headers.split(',').map(count).collect::<Vec<_>>().join(",")
    }

    /// The headers of its jobs: those that are not about the schedule, and `reply-requested` as Python's scheduler says.
    pub fn job_headers(&self) -> String {
        let mut headers = vec![REPLY_REQUESTED.to_owned()];
        for header in self.headers.split(',').map(str::trim).filter(|header| !header.is_empty()) {
            let about_schedule = matches!(
                Headers(header.as_bytes()).iter().next(),
                Some(Ok(Header::NoHaste | Header::RunCount(_) | Header::ReplyRequested))
            );
            if !about_schedule {
                headers.push(header.to_owned());
            }
        }
        headers.join(",")
    }

    /// Whether the same SCHEDULE was sent again.
    pub fn is_resent_as(&self, other: &Self) -> bool {
        self.timing == other.timing
            && self.queue == other.queue
            && self.headers == other.headers
            && self.payload == other.payload
    }

    /// The first time it is due after `after`.
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.timing {
            Timing::Cron(cron) => cron.next_after(after, zone),
            Timing::Every(interval) => {
                let interval = interval.as_nanos();
                let passed = after.as_nanosecond() - self.since.as_nanosecond();
                let rounds = passed.div_euclid(interval).max(0) + 1;
                Timestamp::from_nanosecond(self.since.as_nanosecond() + rounds * interval).ok()
            }
        }
    }

    /// How often it is due from `due`, one of its times, to `now`; of many times of a cron expression not all are counted.
    pub fn times_due(&self, due: Timestamp, now: Timestamp, zone: &TimeZone) -> u64 {
        match &self.timing {
            Timing::Every(interval) => {
                let rounds = (now.as_nanosecond() - due.as_nanosecond()).max(0) / interval.as_nanos();
                u64::try_from(rounds).unwrap_or(u64::MAX).saturating_add(1)
            }
            Timing::Cron(cron) => {
                let (mut times, mut at) = (1, due);
                while let Some(next) = cron.next_after(at, zone).filter(|next| *next <= now && times < MAX_COUNTED) {
                    (times, at) = (times + 1, next);
                }
                times
            }
        }
    }
}

impl Timing {
    fn cron(text: &str) -> Result<Self, Refusal> {
        if text.is_empty() {
            return Err(Refusal::Neither);
        }
        Cron::parse(text).map(Self::Cron).map_err(|source| Refusal::Cron { text: text.to_owned(), source })
    }
}

fn text<'a>(frame: &'static str, bytes: &'a [u8]) -> Result<&'a str, Refusal> {
    std::str::from_utf8(bytes).map_err(|_| Refusal::NotText(frame))
}

/// The seconds of an interval frame; `None` for `-1`.
fn seconds(text: &str) -> Result<Option<SignedDuration>, Refusal> {
    match text.trim().parse() {
        Ok(-1) => Ok(None),
        Ok(seconds @ 1..=MAX_INTERVAL) => Ok(Some(SignedDuration::from_secs(seconds))),
        _ => Err(Refusal::Interval(text.to_owned())),
    }
}
