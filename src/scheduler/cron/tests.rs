use jiff::civil::DateTime;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

/// The clock times at which an expression is due from `from` to `to`, clock times themselves.
fn listing(cron: &str, zone: &TimeZone, from: &str, to: &str) -> Vec<String> {
    let cron = Cron::parse(cron).unwrap();
    let moment = |clock: &str| zone.to_timestamp(clock.parse::<DateTime>().unwrap()).unwrap();
    let (mut now, end) = (moment(from), moment(to));
    let mut found = Vec::new();
    while let Some(next) = cron.next_after(now, zone).filter(|next| *next < end) {
        assert!(next > now);
        found.push(next.to_zoned(zone.clone()).strftime("%d %H:%M %Z").to_string());
        now = next;
    }
    found
}

#[derive(Deserialize)]
struct Vector {
    cron: String,
    next: Option<Vec<Timestamp>>,
}

/// Made with croniter 7.0.0 from 2024-01-01 on: a hand-made list (D02 and D04 among it), then 400 random expressions.
#[test]
fn d02_d04_due_when_croniter_says() {
    let start = at("2024-01-01T00:00:00Z");
    let (mut refused, mut different) = (0, Vec::new());
    for line in include_str!("../../../tests/vectors/croniter-7.0.0.jsonl").lines() {
        let Vector { cron: text, next: expected } = serde_json::from_str(line).unwrap();
        let expected = expected.unwrap_or_default();
        refused += usize::from(expected.is_empty());
        let mut found = Vec::new();
        if let Ok(cron) = Cron::parse(&text) {
            let following = |now: &Timestamp| cron.next_after(*now, &TimeZone::UTC);
            found = std::iter::successors(following(&start), following).take(expected.len().max(1)).collect();
        }
        if found != expected {
            different.push(format!("{text:?}: {found:?} instead of {expected:?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert_eq!(refused, 36, "expressions croniter refuses");
}

#[test]
fn d04_what_is_refused_and_where() {
    for (text, position, problem) in [
        ("", 1, "empty"),
        ("* * * *", 7, "4 fields"),
        ("* * * * * * * *", 15, "8 fields"),
        ("61 * * * *", 1, "minute 61 is not within 0-59"),
        ("0 24 * * *", 3, "hour 24 is not within 0-23"),
        ("0 0 0 * *", 5, "day of month 0 is not within 1-31"),
        ("0 0 * 13 *", 7, "month 13"),
        ("0 0 * * 8", 9, "day of week 8 is not within 0-7"),
        ("0 0 * *  * 60", 12, "second 60"),
        ("0 5,10,99 * * *", 8, "hour 99"),
        ("*/0 * * * *", 3, "\"0\" is not a step"),
        ("*/x * * * *", 3, "\"x\" is not a step"),
        ("1,,2 * * * *", 3, "\"\" is not a minute"),
        ("H * * * *", 1, "\"H\" is not a minute"),
        ("R * * * *", 1, "\"R\" is not a minute"),
        ("0 0 * * 1#6", 11, "week of the month 6 is not within 1-5"),
        ("0 0 * * mon-fri#2", 9, "\"mon-fri\" is not a day of week"),
        ("0 0 1,15W * *", 7, "15W must stand alone"),
        ("0 0 1 1 * 0 1969", 13, "year 1969"),
        ("0 0 1 1 * 0 2030-2027", 13, "\"2030-2027\" is not a year"),
        ("@reboot", 1, "\"@reboot\" is not one of"),
        ("é * * * *", 1, "\"é\" is not a minute"),
        ("* é 99 * *", 3, "\"é\" is not a hour"),
        ("99999999999999999999 * * * *", 1, "minute 99999999999999999999 is not within"),
    ] {
        let error = Cron::parse(text).unwrap_err();
        assert_eq!(error.position, position, "{text:?}: {error}");
        assert!(error.problem.to_string().contains(problem), "{text:?}: {error}");
    }
}

#[test]
fn month_ends_and_leap_days() {
    let utc = TimeZone::UTC;
    assert_eq!(
        listing("0 0 31 * *", &utc, "2026-01-01T00:00", "2026-06-01T00:00"),
        ["31 00:00 UTC", "31 00:00 UTC", "31 00:00 UTC"]
    );
    assert_eq!(listing("0 0 L * *", &utc, "2027-01-31T12:00", "2028-03-31T12:00").len(), 14);
    let leap = Cron::parse("0 0 29 2 *").unwrap();
    assert_eq!(leap.next_after(at("2096-03-01T00:00:00Z"), &utc), Some(at("2104-02-29T00:00:00Z")));
    let years = Cron::parse("0 0 1 1 * 30 2027-2031/2").unwrap();
    assert_eq!(years.next_after(at("2027-01-01T00:00:30Z"), &utc), Some(at("2029-01-01T00:00:30Z")));
    for never in ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 1 1 * 0 2020"] {
        assert_eq!(Cron::parse(never).unwrap().next_after(at("2026-01-01T00:00:00Z"), &utc), None, "{never}");
    }
}

#[test]
fn d01_a_fixed_time_that_is_skipped_is_due_right_after_and_a_repeated_one_once() {
    let new_york = zone("America/New_York");
    let spring = |cron| listing(cron, &new_york, "2026-03-07T12:00", "2026-03-09T12:00");
    let autumn = |cron| listing(cron, &new_york, "2026-10-31T12:00", "2026-11-02T12:00");
    assert_eq!(spring("30 2 * * *"), ["08 03:00 EDT", "09 02:30 EDT"]);
    assert_eq!(spring("0,20,40 2 * * *"), ["08 03:00 EDT", "09 02:00 EDT", "09 02:20 EDT", "09 02:40 EDT"]);
    assert_eq!(spring("0 2,3 * * *"), ["08 03:00 EDT", "09 02:00 EDT", "09 03:00 EDT"]);
    assert_eq!(spring("0 3 * * *"), ["08 03:00 EDT", "09 03:00 EDT"]);
    assert_eq!(autumn("30 1 * * *"), ["01 01:30 EDT", "02 01:30 EST"]);
    assert_eq!(autumn("0,30 1 * * *"), ["01 01:00 EDT", "01 01:30 EDT", "02 01:00 EST", "02 01:30 EST"]);
    let havana = zone("America/Havana");
    assert_eq!(listing("0 0 * * *", &havana, "2024-03-09T12:00", "2024-03-11T12:00"), ["10 01:00 CDT", "11 00:00 CDT"]);
    assert_eq!(listing("0 0 * * *", &havana, "2024-11-02T12:00", "2024-11-04T12:00"), ["03 00:00 CDT", "04 00:00 CST"]);
    let lord_howe = zone("Australia/Lord_Howe");
    assert_eq!(
        listing("15 2 * * *", &lord_howe, "2026-10-03T12:00", "2026-10-05T12:00"),
        ["04 02:30 +11", "05 02:15 +11"]
    );
    assert_eq!(
        listing("45 1 * * *", &lord_howe, "2026-04-04T12:00", "2026-04-06T12:00"),
        ["05 01:45 +11", "06 01:45 +1030"]
    );
}

#[test]
fn d01_hourly_and_finer_go_by_elapsed_time() {
    let new_york = zone("America/New_York");
    assert_eq!(
        listing("0 * * * *", &new_york, "2026-03-08T00:30", "2026-03-08T04:30"),
        ["08 01:00 EST", "08 03:00 EDT", "08 04:00 EDT"]
    );
    assert_eq!(
        listing("0 * * * *", &new_york, "2026-11-01T00:30", "2026-11-01T02:30"),
        ["01 01:00 EDT", "01 01:00 EST", "01 02:00 EST"]
    );
    let lord_howe = zone("Australia/Lord_Howe");
    assert_eq!(
        listing("0 * * * *", &lord_howe, "2026-10-04T00:30", "2026-10-04T04:30"),
        ["04 01:00 +1030", "04 02:30 +11", "04 03:00 +11", "04 04:00 +11"]
    );
}

/// Every quarter of an hour of a year, over both changes of the clocks: never a longer nor a shorter pause.
#[test]
fn d01_every_quarter_of_a_year() {
    for name in ["UTC", "America/New_York", "America/Havana", "Australia/Lord_Howe", "Europe/Berlin", "Asia/Kolkata"] {
        let (zone, cron) = (zone(name), Cron::parse("*/15 * * * *").unwrap());
        let (mut now, mut runs) = (at("2024-01-01T00:00:00Z"), 0);
        while now < at("2025-01-01T00:00:00Z") {
            let next = cron.next_after(now, &zone).unwrap();
            assert_eq!(next.duration_since(now).as_mins(), 15, "{name}: {now}");
            (now, runs) = (next, runs + 1);
        }
        assert_eq!(runs, 366 * 96, "{name}");
    }
}

/// A daily time runs once each day of the year, whatever it is and whatever the clocks do.
#[test]
fn d01_each_daily_time_once_a_day() {
    for name in ["America/New_York", "America/Havana", "Australia/Lord_Howe", "Africa/Casablanca"] {
        let zone = zone(name);
        for clock in ["0 0", "30 0", "0 1", "45 1", "0 2", "15 2", "30 2", "59 2", "0 3", "0 12"] {
            let days = listing(&format!("{clock} * * *"), &zone, "2023-12-31T23:59:59", "2024-12-31T23:59:59");
            let days: Vec<&str> = days.iter().map(|day| &day[..2]).collect();
            assert_eq!(days.len(), 366, "{name} {clock}");
            assert!(days.windows(2).all(|pair| pair[0] != pair[1]), "{name} {clock}");
        }
    }
}

/// A whole day of the calendar was left out when Samoa crossed the date line.
#[test]
fn a_missing_day() {
    let apia = zone("Pacific/Apia");
    assert_eq!(
        listing("0 12 * * *", &apia, "2011-12-29T00:00", "2012-01-01T00:00"),
        ["29 12:00 -10", "31 00:00 +14", "31 12:00 +14"]
    );
}

proptest! {
    #[test]
    fn never_panics(text in "[0-9*/,\\-#LW?@a-zA-Z \u{e9}]{0,30}", seconds in 0i64..4_000_000_000) {
        if let Ok(cron) = Cron::parse(&text) {
            let now = Timestamp::from_second(seconds).unwrap();
            if let Some(next) = cron.next_after(now, &TimeZone::UTC) {
                prop_assert!(next > now);
            }
        }
    }

    /// Around the changes of the clocks the next time does not depend on how one gets there.
    #[test]
    fn no_time_is_jumped_over(offset in 0i64..40_000, step in 1i64..7_000, minute in 0..60u8, hour in 0..5u8) {
        for name in ["America/New_York", "Australia/Lord_Howe"] {
            let zone = zone(name);
            for change in ["2026-03-08T00:00:00Z", "2026-11-01T00:00:00Z", "2026-10-03T10:00:00Z", "2026-04-04T10:00:00Z"] {
                let start = at(change) + jiff::SignedDuration::from_secs(offset);
                for text in [format!("{minute} {hour} * * *"), format!("{minute} * * * *")] {
                    let cron = Cron::parse(&text).unwrap();
                    let next = cron.next_after(start, &zone).unwrap();
                    let between = start + jiff::SignedDuration::from_secs(step);
                    if between < next {
                        prop_assert_eq!(cron.next_after(between, &zone), Some(next));
                    }
                }
            }
        }
    }
}
