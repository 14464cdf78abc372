//! [`Cron`]: a cron expression in the dialect of Python's croniter, and when it is due.
//!
//! [`dialect`] reads the expression, says where it is wrong, and writes it the way the `croner` crate understands; that
//! crate walks the calendar; [`calendar`] says what becomes of clock times that a change of the clocks skips or repeats.
//!
//! What is read: 5 fields (minute, hour, day of month, month, day of week), 6 with **seconds last**, 7 with the year
//! behind them; `*`, lists, ranges (also around the end, `22-2`), steps (`*/5`, `10/15`, `10-40/15`), names of months and
//! days in any case, `?`, `L` and `15W` as day of month, `L5` (last Friday) and `MON#1` as day of week, 0 and 7 for
//! Sunday, and `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`. If day of month and day of
//! week are both restricted, either makes the day match, and `*/2` counts as restricted: as in croniter, not as in
//! Vixie's cron.
//!
//! Deviations from croniter 7.0.0, all on the strict or the plain side: `R` (a random value) is refused; `5-5/2` is 5 and
//! not every second value; `1,MON#2` is every Monday and not the second only; `1-5#2` is refused with or without names; `29W` and `30W` leave a
//! shorter February out. A time zone can be set, where croniter as EventMQ uses it knows UTC only.

mod calendar;
mod dialect;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use thiserror::Error;

/// A cron expression.
#[derive(Debug, Clone)]
pub struct Cron {
    text: String,
    pattern: Arc<croner::Cron>,
    pace: Pace,
}

/// What a change of the clocks means for an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Every hour or more often: goes by elapsed time.
    Elapsed,
    /// Fixed hours of the day: once for each.
    Fixed,
}

/// Why a text is no cron expression. `Display` names the position, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("position {position}: {problem}")]
pub struct CronError {
    /// Characters up to and with the first that is wrong.
    pub position: usize,
    /// What is wrong.
    pub problem: CronProblem,
}

/// What can be wrong with a cron expression.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CronProblem {
    /// Nothing there.
    #[error("the cron expression is empty")]
    Empty,
    /// Not 5 to 7 fields.
    #[error("{0} fields, expected 5 (minute hour day month weekday), 6 (and seconds) or 7 (and year)")]
    Fields(usize),
    /// An `@` word nobody knows.
    #[error("{0:?} is not one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually")]
    Nickname(String),
    /// Not a value of this field.
    #[error("{text:?} is not a {field}")]
    Value {
        /// The field.
        field: &'static str,
        /// What stands there.
        text: String,
    },
    /// A number the field does not have.
    #[error("{field} {text} is not within {min}-{max}")]
    Range {
        /// The field.
        field: &'static str,
        /// What stands there.
        text: String,
        /// Least.
        min: u16,
        /// Most.
        max: u16,
    },
    /// A step that is zero or no number.
    #[error("{0:?} is not a step: expected a number from 1")]
    Step(String),
    /// `15W` must be the only day.
    #[error("{0} must stand alone")]
    NotAlone(String),
    /// Beyond what this program understands, although each field was.
    #[error("{0}")]
    Pattern(String),
}

impl Cron {
    /// Reads an expression.
    ///
    /// # Errors
    /// It is not one; the error says where and why.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let pattern = dialect::parse(text)?;
        let hours = pattern.pattern.hours.values().len();
        let pace = if hours == 24 { Pace::Elapsed } else { Pace::Fixed };
        Ok(Self { text: text.trim().to_owned(), pattern: Arc::new(pattern), pace })
    }

    /// The expression.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first time after `after`, in a time zone; `None` if there is none before the year 5000.
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        calendar::next_after(&self.pattern, self.pace, after, zone)
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Cron {}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
