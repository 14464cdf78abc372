//! When an expression is due, changes of the clocks included.
//!
//! Clock times are found without a time zone and then placed in it. Where the clocks go forward, a fixed time that is
//! skipped is due at once after the gap; an hourly (or finer) one goes by elapsed time, so a time in the gap is where it
//! would have been without it. Where they go back, a fixed time in the repeated hour is due the first time only, an
//! hourly one both times. Several times that fall on one moment are one.

use croner::Cron;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::Pace;

/// No clock changes by more, but for countries that changed the day.
const LONGEST_CHANGE: SignedDuration = SignedDuration::from_hours(3);

/// Where a clock time is in a time zone.
enum Placed {
    Once(Timestamp),
    Skipped(Timestamp),
    Twice(Timestamp, Timestamp),
}

/// The first moment after `after`.
pub(super) fn next_after(cron: &Cron, pace: Pace, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let local = zone.to_datetime(after);
    if is_steady(after, zone) {
        let next = cron.find_next_occurrence(&local, false).ok()?;
        return match place(next, pace, zone)? {
            Placed::Once(at) | Placed::Skipped(at) | Placed::Twice(at, _) => Some(at),
        };
    }
    // Clock times from before may lie ahead of us: skipped ones, and those that are repeated.
    let mut clock = local.checked_sub(LONGEST_CHANGE).ok()?;
    let mut best: Option<Timestamp> = None;
    loop {
        clock = cron.find_next_occurrence(&clock, false).ok()?;
        let placed = place(clock, pace, zone)?;
        let moments = match placed {
            Placed::Once(at) | Placed::Skipped(at) => [Some(at), None],
            Placed::Twice(first, second) => [Some(first), (pace == Pace::Elapsed).then_some(second)],
        };
        // Behind a time that was not moved, everything is later than it.
        if let (Some(best), Placed::Once(at) | Placed::Twice(at, _)) = (best, &placed)
            && *at >= best
        {
            return Some(best);
        }
        let ahead = moments.into_iter().flatten().filter(|at| *at > after);
        best = best.into_iter().chain(ahead).min();
    }
}

/// Whether the clocks do not change around a moment.
fn is_steady(moment: Timestamp, zone: &TimeZone) -> bool {
    let is_near = |at: Timestamp| at.duration_since(moment).abs() <= LONGEST_CHANGE;
    let mut around = zone.preceding(moment).take(1).chain(zone.following(moment).take(1));
    // Only what precedes strictly is listed on either side.
    let before = moment.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(moment);
    !around.any(|change| is_near(change.timestamp())) && zone.to_offset(before) == zone.to_offset(moment)
}

/// Puts a clock time into a time zone; `None` beyond the years there are.
fn place(clock: DateTime, pace: Pace, zone: &TimeZone) -> Option<Placed> {
    let ambiguous = zone.to_ambiguous_timestamp(clock);
    Some(match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => Placed::Once(ambiguous.compatible().ok()?),
        AmbiguousOffset::Fold { .. } => Placed::Twice(ambiguous.earlier().ok()?, ambiguous.later().ok()?),
        AmbiguousOffset::Gap { .. } => {
            // Reckoned by the clock before the gap it lies behind it, by as much as it lies in it.
            let by_elapsed_time = ambiguous.later().ok()?;
            match pace {
                Pace::Elapsed => Placed::Skipped(by_elapsed_time),
                Pace::Fixed => {
                    let change =
                        zone.preceding(by_elapsed_time.checked_add(SignedDuration::from_nanos(1)).ok()?).next();
                    Placed::Skipped(change.map_or(by_elapsed_time, |change| change.timestamp()))
                }
            }
        }
    })
}
