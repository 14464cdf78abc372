//! The scheduler on virtual time.

mod random;
mod stores;
mod world;

use std::collections::BTreeMap;

use self::world::World;
use super::*;
use crate::emqp::CommandName;

fn close(times: &[f64], expected: &[f64]) {
    assert_eq!(times.len(), expected.len(), "{times:?}");
    for (time, expected) in times.iter().zip(expected) {
        assert!((time - expected).abs() < 0.05, "{times:?}");
    }
}

fn counts(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn an_interval_runs_at_once_and_then_on_its_raster() {
    let mut world = World::new();
    world.schedule("f", "guarantee,retry-count:2", "10", "");
    assert_eq!(world.sent(), ["ACCEPTED 1", "f q reply-requested,guarantee,retry-count:2"]);
    world.pass(35.0);
    close(&world.times("f"), &[10.0, 20.0, 30.0]);
    world.schedule("g", "nohaste", "10", "");
    assert_eq!(world.sent(), ["ACCEPTED 2"]);
    world.pass(10.0);
    close(&world.times("g"), &[45.0]);
}

#[test]
fn d08_an_hour_of_seconds_does_not_drift() {
    let mut world = World::new();
    world.schedule("f", "nohaste", "1", "");
    world.sent();
    world.pass(3600.5);
    let times = world.times("f");
    assert_eq!(times.len(), 3600);
    for (k, time) in (1..).zip(&times) {
        assert!((0.0..0.05).contains(&(time - f64::from(k))), "run {k} at {time}");
    }
}

#[test]
fn cron_runs_at_its_times_in_its_queue() {
    let mut world = World::new();
    world.send(CommandName::Schedule, "email", "f", "nohaste", "-1", "*/5 * * * *");
    world.pass(601.0);
    assert_eq!(world.sent(), ["ACCEPTED 1", "f email reply-requested", "f email reply-requested"]);
    world.schedule("g", "", "-1", "0 0 1 1 *");
    assert_eq!(world.runs(), counts(&[("g", 1)]), "at once on arrival");
}

#[test]
fn a08_unscheduled_is_gone_interval_or_cron() {
    let mut world = World::new();
    world.schedule("f", "nohaste", "5", "");
    world.schedule("g", "nohaste", "-1", "* * * * *");
    world.unschedule("f");
    world.unschedule("g");
    world.unschedule("never there");
    assert_eq!(world.sent(), ["ACCEPTED 1", "ACCEPTED 2", "ACCEPTED 3", "ACCEPTED 4", "ACCEPTED 5"]);
    world.pass(130.0);
    assert!(world.sent().is_empty() && world.scheduler.is_empty());
    let now = world.wall();
    assert!(world.store.load(now).unwrap().records.is_empty());
}

#[test]
fn the_same_call_with_another_period_replaces_the_former() {
    let mut world = World::new();
    world.schedule("f", "nohaste", "5", "");
    world.schedule("f", "nohaste", "-1", "* * * * *");
    world.schedule("f", "nohaste", "7", "");
    world.sent();
    world.pass(15.0);
    close(&world.times("f"), &[7.0, 14.0]);
    assert_eq!(world.scheduler.len(), 1);
}

/// A deploy script sends its schedules at every start.
#[test]
fn the_same_schedule_sent_again_changes_nothing() {
    let mut world = World::new();
    world.schedule("f", "", "10", "");
    for _ in 0..12 {
        world.pass(4.0);
        world.schedule("f", "", "10", "");
    }
    close(&world.times("f"), &[0.0, 10.0, 20.0, 30.0, 40.0]);
}

#[test]
fn a11_bad_schedules_are_refused_with_a_reason_and_the_rest_goes_on() {
    let mut world = World::new();
    for (interval, cron, headers, reason) in [
        ("-1", "61 * * * *", "", "position 1: minute 61 is not within 0-59"),
        ("-1", "0 0 31 2 *", "", "never comes due"),
        ("-1", "", "", "neither an interval nor a cron expression"),
        ("abc", "", "", "interval \\\"abc\\\""),
        ("1.5", "", "", "interval \\\"1.5\\\""),
        ("-5", "", "", "interval \\\"-5\\\""),
        ("0", "", "", "interval \\\"0\\\""),
        ("0", "* * * * *", "", "interval \\\"0\\\""),
        ("99999999999999999999", "", "", "interval"),
        ("5", "* * * * *", "", "expected one of them"),
        ("5", "", "run_count:abc", "header run_count needs a whole number"),
        ("5", "", "run_count:-2", "run_count:-2"),
        ("5", "", "timeout:x", "header timeout"),
    ] {
        world.schedule("f", headers, interval, cron);
        let sent = world.sent();
        assert!(sent.len() == 1 && sent[0].starts_with("ERROR ") && sent[0].contains(reason), "{sent:?}: {reason}");
    }
    let no_kwargs: &[u8] =
        br#"["run", {"path": "m", "callable": "f", "args": [], "class_args": [], "class_kwargs": {}}]"#;
    for (payload, reason) in [(&b"{bad"[..], "not JSON"), (no_kwargs, "has no \\\"kwargs\\\""), (b"\xff", "not UTF-8")]
    {
        world.raw(CommandName::Schedule, [b"q", b"", b"5", payload, b""]);
        let sent = world.sent();
        assert!(sent.len() == 1 && sent[0].starts_with("ERROR ") && sent[0].contains(reason), "{sent:?}: {reason}");
    }
    world.raw(CommandName::Unschedule, [b"q", b"", b"5", b"{bad", b""]);
    assert!(world.sent()[0].contains("not JSON"));
    world.schedule("good", "nohaste", "5", "");
    world.pass(6.0);
    assert_eq!(world.runs(), counts(&[("good", 1)]));
}

#[test]
fn d09_run_count_limits_all_runs_the_first_included() {
    let mut world = World::new();
    world.schedule("haste", "run_count:3", "1", "");
    world.schedule("later", "nohaste,run_count:3", "1", "");
    world.schedule("once", "run_count:1", "4", "");
    world.schedule("never", "run_count:0", "1", "");
    world.schedule("endless", "run_count:-1", "5", "");
    world.schedule("long", "nohaste,run_count:999999999999", "5", "");
    world.schedule("cron", "run_count:2", "-1", "* * * * *");
    world.pass(200.0);
    let runs = world.runs();
    assert_eq!(runs, counts(&[("cron", 2), ("endless", 41), ("haste", 3), ("later", 3), ("long", 40), ("once", 1)]));
    assert_eq!(world.scheduler.len(), 2);
    let now = world.wall();
    assert_eq!(world.store.load(now).unwrap().records.len(), 2, "what has ended is not kept");
}

#[test]
fn d09_two_that_end_in_one_moment_and_a_new_count_midway() {
    let mut world = World::new();
    world.schedule("a", "nohaste,run_count:1", "5", "");
    world.schedule("b", "nohaste,run_count:1", "5", "");
    world.schedule("c", "nohaste", "5", "");
    world.pass(11.0);
    assert_eq!(world.runs(), counts(&[("a", 1), ("b", 1), ("c", 2)]));
    world.schedule("d", "nohaste,run_count:5", "1", "");
    world.pass(2.5);
    world.schedule("d", "nohaste,run_count:2", "1", "");
    world.pass(10.0);
    assert_eq!(world.runs()["d"], 4);
}

#[test]
fn d09_run_counts_over_restarts() {
    let mut world = World::new();
    world.schedule("once", "run_count:1", "4", "");
    world.schedule("five", "run_count:5", "10", "");
    world.pass(15.0);
    world.restart(2.0);
    world.pass(9.0);
    world.restart(1.0);
    world.pass(100.0);
    assert_eq!(world.runs(), counts(&[("five", 5), ("once", 1)]));
    assert!(world.scheduler.is_empty());
}

#[test]
fn d05_after_a_stall_each_runs_once_and_the_raster_stays() {
    let mut world = World::new();
    world.schedule("f", "nohaste", "1", "");
    world.schedule("m", "nohaste", "-1", "* * * * *");
    world.pass(3.5);
    world.sent();
    world.stall(8.0);
    world.pass(1.0);
    close(&world.times("f"), &[11.5, 12.0]);
    world.stall(180.0);
    world.step(Input::Tick);
    assert_eq!(world.runs(), counts(&[("f", 1), ("m", 1)]));
    world.pass(50.0);
    close(&world.times("m"), &[240.0]);
    world.pass(60.0);
    assert_eq!(world.runs()["m"], 1);
}

#[test]
fn d05_missed_runs_can_be_left_out() {
    let config = SchedulerConfig { missed: MissedRuns::Skip, ..SchedulerConfig::default() };
    let mut world = World::with(config);
    world.schedule("f", "nohaste", "10", "");
    world.schedule("m", "nohaste", "-1", "* * * * *");
    world.pass(1.0);
    world.sent();
    world.stall(64.0);
    world.pass(0.5);
    assert!(world.sent().is_empty());
    world.pass(5.5);
    close(&world.times("f"), &[70.0]);
}

#[test]
fn d05_a_process_that_was_down_ten_minutes_or_three_days() {
    for down in [600.0, 3.0 * 86_400.0] {
        let mut world = World::new();
        world.schedule("f", "nohaste", "7", "");
        world.schedule("s", "nohaste", "-1", "* * * * * */2");
        world.schedule("d", "nohaste", "-1", "0 12 * * *");
        world.pass(30.0);
        world.sent();
        world.restart(down);
        let missed_noon = usize::from(down > 86_400.0);
        let runs = world.runs();
        assert_eq!((runs["f"], runs["s"]), (1, 1), "{down}");
        assert_eq!(runs.get("d").copied().unwrap_or(0), missed_noon);
        world.pass(14.0);
        let times = world.times("f");
        for time in &times {
            let phase = time % 7.0;
            assert!(phase < 0.05, "off its raster: {times:?}");
        }
        assert_eq!(times.len(), 2);
    }
}

#[test]
fn d08_what_came_due_while_the_broker_was_away_runs_once() {
    let mut world = World::new();
    world.schedule("f", "nohaste", "1", "");
    world.pass(2.5);
    world.sent();
    world.step(Input::Detached);
    world.pass(30.0);
    assert!(world.sent().is_empty());
    world.step(Input::Attached);
    world.pass(2.0);
    close(&world.times("f"), &[32.5, 33.0, 34.0]);
    // Nor does a crash while it is away hide what was missed.
    world.step(Input::Detached);
    world.pass(30.0);
    world.restart(0.2);
    assert_eq!(world.runs(), counts(&[("f", 1)]));
}

#[test]
fn a_crash_right_after_a_run_does_not_repeat_it() {
    let mut world = World::new();
    world.schedule("f", "nohaste", "60", "");
    world.schedule("m", "nohaste", "-1", "* * * * *");
    world.pass(60.01);
    assert_eq!(world.runs(), counts(&[("f", 1), ("m", 1)]));
    world.restart(0.0);
    world.pass(59.0);
    assert!(world.sent().is_empty());
    world.pass(2.0);
    assert_eq!(world.runs(), counts(&[("f", 1), ("m", 1)]));
}

#[test]
fn a_clock_set_back_stalls_no_interval_and_doubles_no_cron_time() {
    let mut world = World::new();
    world.schedule("f", "nohaste", "10", "");
    world.schedule("m", "nohaste", "-1", "* * * * *");
    world.pass(61.0);
    world.sent();
    world.set = -120;
    world.pass(59.5);
    close(&world.times("f"), &[70.0, 80.0, 90.0, 100.0, 110.0, 120.0]);
    world.pass(118.0);
    assert_eq!(world.runs().get("m"), None, "the minutes that come again have had their runs");
    world.pass(3.0);
    assert_eq!(world.runs()["m"], 1);
    // By a day it was wrong before: nobody waits a day for it.
    world.set -= 86_400;
    world.pass(121.0);
    assert_eq!(world.runs()["m"], 2);
}

#[test]
fn a_clock_set_forward_is_a_pause_like_any_other() {
    let mut world = World::new();
    world.schedule("f", "nohaste", "10", "");
    world.schedule("m", "nohaste", "-1", "* * * * *");
    world.pass(1.0);
    world.sent();
    world.set = 3600;
    world.pass(1.5);
    assert_eq!(world.runs(), counts(&[("f", 1), ("m", 1)]));
}

#[test]
fn without_its_store_it_refuses_and_goes_on_with_what_it_has() {
    let mut world = World::new();
    world.schedule("f", "nohaste,run_count:5", "1", "");
    world.sent();
    world.stores = false;
    world.schedule("g", "", "1", "");
    let sent = world.sent();
    assert!(sent.len() == 1 && sent[0].contains("StoreFailed"), "{sent:?}");
    world.unschedule("f");
    assert!(world.sent()[0].contains("StoreFailed"));
    world.pass(2.5);
    assert_eq!(world.runs(), counts(&[("f", 2)]));
    world.stores = true;
    world.pass(6.0);
    assert_eq!(world.runs(), counts(&[("f", 3)]));
    let now = world.wall();
    let saved = world.store.load(now).unwrap();
    assert!(saved.records.is_empty(), "{saved:?}");
}

#[test]
fn ten_thousand_every_second_are_stored_together() {
    let mut world = World::new();
    for n in 0..10_000 {
        world.stall(0.0001);
        world.schedule(&format!("f{n}"), "nohaste", "1", "");
    }
    world.sent();
    let before = world.changes;
    world.pass(10.0);
    let runs = world.runs();
    assert_eq!(runs.len(), 10_000);
    assert!(runs.values().all(|count| (9..=10).contains(count)));
    assert!(world.changes - before <= 1100, "{} changes", world.changes - before);
}

#[test]
fn a_listing_tells_the_next_runs() {
    let mut world = World::new();
    world.schedule("m", "nohaste", "-1", "*/5 * * * *");
    world.schedule("f", "nohaste,run_count:3", "10", "");
    let listing = Listing::new(world.scheduler.schedules(), "memory".to_owned());
    let json: serde_json::Value = serde_json::from_str(&listing.to_json()).unwrap();
    let [first, second] = &listing.schedules[..] else { panic!("{listing:?}") };
    assert_eq!((first.interval, first.runs_left, first.callable.as_str()), (Some(10), Some(3), "f"));
    assert_eq!(
        (second.cron.as_deref(), second.next.to_string()),
        (Some("*/5 * * * *"), "2026-03-02T10:05:00Z".to_owned())
    );
    assert_eq!(json["schedules"][1]["next"], "2026-03-02T10:05:00Z");
    assert_eq!(serde_json::from_value::<Listing>(json).unwrap(), listing);
}
