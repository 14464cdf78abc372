//! [`Listing`]: schedules as `emq schedules` shows them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::core::ScheduleView;
use super::record::Timing;

/// The schedules of one scheduler, the next due first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Where they are kept.
    pub store: String,
    /// Each of them.
    pub schedules: Vec<ListedSchedule>,
}

/// One schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedSchedule {
    /// Its identity, forty hexadecimal digits.
    pub id: String,
    /// When it runs next.
    pub next: Timestamp,
    /// Seconds between two runs, of an interval schedule.
    pub interval: Option<i64>,
    /// The expression, of a cron schedule.
    pub cron: Option<String>,
    /// How many runs are left; null for no end.
    pub runs_left: Option<u64>,
    /// The queue of its jobs.
    pub queue: String,
    /// Module, with `:Class` for a method.
    pub path: String,
    /// Function or method.
    pub callable: String,
    /// The headers of the SCHEDULE.
    pub headers: String,
    /// When the SCHEDULE arrived.
    pub since: Timestamp,
}

impl Listing {
    /// A listing of these.
    pub fn new(schedules: impl Iterator<Item = ScheduleView>, store: String) -> Self {
        Self { store, schedules: schedules.map(ListedSchedule::from).collect() }
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        // Texts, numbers and times always have a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl From<ScheduleView> for ListedSchedule {
    fn from(view: ScheduleView) -> Self {
        let ScheduleView { record, next } = view;
        let (interval, cron) = match &record.timing {
            Timing::Every(interval) => (Some(interval.as_secs()), None),
            Timing::Cron(cron) => (None, Some(cron.as_str().to_owned())),
        };
        Self {
            id: record.id().to_string(),
            next,
            interval,
            cron,
            runs_left: record.left,
            queue: record.queue,
            path: record.call.path,
            callable: record.call.callable,
            headers: record.headers,
            since: record.since,
        }
    }
}
