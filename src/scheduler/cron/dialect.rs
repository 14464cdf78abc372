//! croniter's dialect, read field by field.

use std::collections::BTreeSet;

use croner::Cron;
use croner::parser::CronParser;

use super::{CronError, CronProblem};

/// One field of an expression.
#[derive(Debug)]
struct Field {
    name: &'static str,
    min: u16,
    max: u16,
    names: &'static [&'static str],
    /// The value of the first name.
    first: u16,
    special: Special,
}

/// What only some fields have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Special {
    None,
    DayOfMonth,
    DayOfWeek,
    /// Has no next round.
    Year,
}

const NO_NAMES: &[&str] = &[];
const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// The fields in croniter's order.
const FIELDS: [Field; 7] = [
    Field { name: "minute", min: 0, max: 59, names: NO_NAMES, first: 0, special: Special::None },
    Field { name: "hour", min: 0, max: 23, names: NO_NAMES, first: 0, special: Special::None },
    Field { name: "day of month", min: 1, max: 31, names: NO_NAMES, first: 0, special: Special::DayOfMonth },
    Field { name: "month", min: 1, max: 12, names: MONTHS, first: 1, special: Special::None },
    Field { name: "day of week", min: 0, max: 7, names: DAYS, first: 0, special: Special::DayOfWeek },
    Field { name: "second", min: 0, max: 59, names: NO_NAMES, first: 0, special: Special::None },
    Field { name: "year", min: 1970, max: 2099, names: NO_NAMES, first: 0, special: Special::Year },
];
const MINUTE: usize = 0;
const HOUR: usize = 1;
const DAY_OF_MONTH: usize = 2;
const MONTH: usize = 3;
const DAY_OF_WEEK: usize = 4;
const SECOND: usize = 5;
const YEAR: usize = 6;

/// Reads an expression.
pub(super) fn parse(text: &str) -> Result<Cron, CronError> {
    let source = Source(text);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let words = match words[..] {
        [] => return Err(CronError { position: 1, problem: CronProblem::Empty }),
        [word] if word.starts_with('@') => nickname(word).ok_or_else(|| {
            let problem = CronProblem::Nickname(word.to_owned());
            source.error(word, problem)
        })?,
        _ => words,
    };
    if !(5..=7).contains(&words.len()) {
        let position = text.trim_end().chars().count().max(1);
        return Err(CronError { position, problem: CronProblem::Fields(words.len()) });
    }
    let mut fields = [const { Choice::Any }; 7];
    fields[SECOND] = Choice::second_zero();
    for ((field, choice), word) in FIELDS.iter().zip(&mut fields).zip(&words) {
        *choice = source.field(field, word)?;
    }
    // A full list counts as a star where the other of the two holds one, so that the other alone decides.
    for (one, other) in [(DAY_OF_MONTH, DAY_OF_WEEK), (DAY_OF_WEEK, DAY_OF_MONTH)] {
        if words[other].contains('*') && fields[one].is_full(&FIELDS[one]) {
            fields[one] = Choice::Any;
        }
    }
    let croner_order = [SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK, YEAR];
    let pattern = croner_order.map(|field| fields[field].to_text()).join(" ");
    CronParser::new().parse(&pattern).map_err(|error| source.error(text, CronProblem::Pattern(error.to_string())))
}

fn nickname(word: &str) -> Option<Vec<&'static str>> {
    let meaning = match word.to_ascii_lowercase().as_str() {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        _ => return None,
    };
    Some(meaning.split(' ').collect())
}

/// What a field chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Choice {
    /// `*`
    Any,
    /// Values, and what depends on the month in croner's words.
    Some { values: BTreeSet<u16>, special: Vec<String> },
}

impl Choice {
    fn second_zero() -> Self {
        Self::Some { values: BTreeSet::from([0]), special: Vec::new() }
    }

    fn is_full(&self, field: &Field) -> bool {
        let Self::Some { values, .. } = self else { return true };
        values.len() == usize::from(field.cycle())
    }

    fn to_text(&self) -> String {
        match self {
            Self::Any => "*".to_owned(),
            Self::Some { values, special } => {
                let values = values.iter().map(u16::to_string);
                values.chain(special.iter().cloned()).collect::<Vec<_>>().join(",")
            }
        }
    }
}

impl Field {
    /// How many different values it has.
    fn cycle(&self) -> u16 {
        // Sunday has two.
        self.max - self.min + u16::from(self.special != Special::DayOfWeek)
    }

    /// A value counted on beyond the last, as one that there is.
    fn around(&self, value: u16) -> u16 {
        (value - self.min) % self.cycle() + self.min
    }
}

/// The whole text, for positions in it.
struct Source<'a>(&'a str);

impl<'a> Source<'a> {
    /// An error at the beginning of `part`, which is a part of the text.
    fn error(&self, part: &str, problem: CronProblem) -> CronError {
        let at = (part.as_ptr() as usize).wrapping_sub(self.0.as_ptr() as usize);
        let before = self.0.get(..at).unwrap_or_default();
        CronError { position: before.chars().count() + 1, problem }
    }

    fn field(&self, field: &Field, word: &'a str) -> Result<Choice, CronError> {
        let is_day = matches!(field.special, Special::DayOfMonth | Special::DayOfWeek);
        if word.split(',').any(|item| item == "*") || (word == "?" && is_day) {
            // What stands beside a star must be right all the same.
            for item in word.split(',').filter(|item| !matches!(*item, "*" | "?")) {
                self.item(field, item)?;
            }
            return Ok(Choice::Any);
        }
        let (mut values, mut special) = (BTreeSet::new(), Vec::new());
        for item in word.split(',') {
            match self.special(field, item)? {
                Some(text) if text.ends_with('W') && item.len() != word.len() => {
                    return Err(self.error(item, CronProblem::NotAlone(item.to_owned())));
                }
                Some(text) => special.push(text),
                None => values.extend(self.item(field, item)?),
            }
        }
        Ok(Choice::Some { values, special })
    }

    /// `L` and `15W`, `L5` and `5#2`, in croner's words.
    fn special(&self, field: &Field, item: &'a str) -> Result<Option<String>, CronError> {
        match field.special {
            Special::DayOfMonth if item.eq_ignore_ascii_case("L") => Ok(Some("L".to_owned())),
            Special::DayOfMonth => {
                let Some(day) = item.strip_suffix(['W', 'w']) else { return Ok(None) };
                // croniter takes the last day of a shorter month for the 31st, croner has a word of its own for that.
                Ok(Some(match self.value(field, day)? {
                    31 => "LW".to_owned(),
                    day => format!("{day}W"),
                }))
            }
            Special::DayOfWeek => {
                if let Some(day) = item.strip_prefix(['L', 'l']) {
                    return Ok(Some(format!("{}#L", field.around(self.value(field, day)?))));
                }
                let Some((day, nth)) = item.split_once('#') else { return Ok(None) };
                let day = field.around(self.value(field, day)?);
                match nth.parse::<u8>() {
                    Ok(nth @ 1..=5) => Ok(Some(format!("{day}#{nth}"))),
                    _ => {
                        let (field, text) = ("week of the month", nth.to_owned());
                        Err(self.error(nth, CronProblem::Range { field, text, min: 1, max: 5 }))
                    }
                }
            }
            Special::None | Special::Year => Ok(None),
        }
    }

    /// `*`, a value or a range, with or without a step.
    fn item(&self, field: &Field, item: &'a str) -> Result<Vec<u16>, CronError> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (item, None),
        };
        let last = field.min + field.cycle() - 1;
        let (from, to) = if range == "*" {
            (field.min, last)
        } else if let Some((from, to)) = range.split_once('-') {
            self.ends(field, range, from, to)?
        } else {
            let from = field.around(self.value(field, range)?);
            (from, if step.is_some() { last } else { from })
        };
        let step = step.unwrap_or(1);
        if to <= field.max {
            return Ok((from..=to).step_by(step.into()).map(|value| field.around(value)).collect());
        }
        // Where croniter goes on counting behind the end: one late, unless the step ends there.
        let first: Vec<u16> = (from..=last).step_by(step.into()).collect();
        let reached = first.last().copied().unwrap_or(from);
        let (left, place) = (last - reached, reached - field.min);
        let skipped = if place.saturating_add(step) > field.cycle() && left < step { step - left } else { 0 };
        let second = (field.min.saturating_add(skipped)..=to - field.cycle()).step_by(step.into());
        Ok(first.into_iter().chain(second).collect())
    }

    /// The ends of a range; the second is counted on if the range goes around.
    fn ends(&self, field: &Field, range: &'a str, from: &'a str, to: &'a str) -> Result<(u16, u16), CronError> {
        let (first, last) = (self.value(field, from)?, self.value(field, to)?);
        if first == last {
            return Ok((first, first));
        }
        let first = field.around(first);
        if first == last {
            // From one Sunday to the other.
            return Ok((first, first + field.cycle() - 1));
        }
        if first < last {
            // Both Sundays are one.
            return Ok((first, last.min(first + field.cycle() - 1)));
        }
        if field.special == Special::Year {
            let (field, text) = (field.name, range.to_owned());
            return Err(self.error(range, CronProblem::Value { field, text }));
        }
        Ok((first, last + field.cycle()))
    }

    fn value(&self, field: &Field, text: &'a str) -> Result<u16, CronError> {
        let named = |name: &&str| name.eq_ignore_ascii_case(text);
        if let Some(index) = field.names.iter().position(named) {
            return Ok(field.first + index as u16);
        }
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            let (field, text_there) = (field.name, text.to_owned());
            return Err(self.error(text, CronProblem::Value { field, text: text_there }));
        }
        match text.parse() {
            Ok(value) if (field.min..=field.max).contains(&value) => Ok(value),
            _ => {
                let (field, min, max) = (field.name, field.min, field.max);
                Err(self.error(text, CronProblem::Range { field, text: text.to_owned(), min, max }))
            }
        }
    }

    fn step(&self, text: &'a str) -> Result<u16, CronError> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(step @ 1..) if digits => Ok(step),
            _ => Err(self.error(text, CronProblem::Step(text.to_owned()))),
        }
    }
}
