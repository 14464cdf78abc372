//! Random histories: schedules come and go, the process dies, the broker leaves; runs are counted against the calendar.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::*;
use super::world::World;

#[derive(Debug, Clone)]
enum Event {
    Schedule { name: u8, interval: u8, limit: Option<u8> },
    Cron { name: u8, minutes: u8 },
    Unschedule { name: u8 },
    Pass { tenths: u16 },
    Stall { tenths: u16 },
    Restart { tenths: u16 },
    Away { tenths: u16 },
    StoreFails { tenths: u16 },
}

fn event() -> impl Strategy<Value = Event> {
    let limit = proptest::option::of(0u8..6);
    prop_oneof![
        3 => (0u8..5, 1u8..20, limit).prop_map(|(name, interval, limit)| Event::Schedule { name, interval, limit }),
        1 => (0u8..5, 1u8..4).prop_map(|(name, minutes)| Event::Cron { name, minutes }),
        1 => (0u8..5).prop_map(|name| Event::Unschedule { name }),
        6 => (1u16..400).prop_map(|tenths| Event::Pass { tenths }),
        1 => (1u16..400).prop_map(|tenths| Event::Stall { tenths }),
        2 => (0u16..400).prop_map(|tenths| Event::Restart { tenths }),
        1 => (1u16..400).prop_map(|tenths| Event::Away { tenths }),
        1 => (1u16..200).prop_map(|tenths| Event::StoreFails { tenths }),
    ]
}

fn seconds(tenths: u16) -> f64 {
    f64::from(tenths) / 10.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens: no two runs of a schedule within one period of it but for a catch-up, no more runs than its
    /// limit, one entry per identity, and what is stored is what is kept.
    #[test]
    fn none_lost_none_doubled(events in proptest::collection::vec(event(), 1..40)) {
        let mut world = World::new();
        let mut limits: BTreeMap<String, u64> = BTreeMap::new();
        for event in events {
            match event {
                Event::Schedule { name, interval, limit } => {
                    let (name, interval) = (format!("f{name}"), interval.to_string());
                    let headers = match limit {
                        Some(limit) => format!("nohaste,run_count:{limit}"),
                        None => "nohaste".to_owned(),
                    };
                    limits.remove(&name);
                    world.sent();
                    world.schedule(&name, &headers, &interval, "");
                    limits.extend(limit.map(|limit| (name, u64::from(limit))));
                }
                Event::Cron { name, minutes } => {
                    let name = format!("f{name}");
                    world.sent();
                    world.schedule(&name, "nohaste", "-1", &format!("*/{minutes} * * * *"));
                    limits.remove(&name);
                }
                Event::Unschedule { name } => {
                    let name = format!("f{name}");
                    world.unschedule(&name);
                    limits.remove(&name);
                    world.sent();
                    world.pass(25.0);
                    prop_assert!(!world.runs().contains_key(&name));
                }
                Event::Pass { tenths } => check_pass(&mut world, seconds(tenths), &mut limits)?,
                Event::Stall { tenths } => world.stall(seconds(tenths)),
                Event::Restart { tenths } => {
                    world.sent();
                    world.restart(seconds(tenths));
                    for (name, count) in world.runs() {
                        prop_assert!(count == 1, "{} ran {} times at once", name, count);
                        spend(&mut limits, &name, count)?;
                    }
                }
                Event::Away { tenths } => {
                    world.sent();
                    world.step(Input::Detached);
                    world.pass(seconds(tenths));
                    prop_assert!(world.sent().is_empty());
                    world.step(Input::Attached);
                    for (name, count) in world.runs() {
                        prop_assert!(count == 1, "{} ran {} times at once", name, count);
                        spend(&mut limits, &name, count)?;
                    }
                }
                Event::StoreFails { tenths } => {
                    world.stores = false;
                    check_pass(&mut world, seconds(tenths), &mut limits)?;
                    world.stores = true;
                    check_pass(&mut world, 6.0, &mut limits)?;
                }
            }
            let now = world.wall();
            let kept: BTreeMap<_, _> =
                world.store.load(now).unwrap().records.into_iter().map(|record| (record.id(), record)).collect();
            let known: BTreeMap<_, _> =
                world.scheduler.schedules().map(|view| (view.record.id(), view.record)).collect();
            prop_assert_eq!(kept, known);
        }
    }
}

/// Lets time pass and compares the runs of each interval schedule with its raster.
fn check_pass(world: &mut World, seconds: f64, limits: &mut BTreeMap<String, u64>) -> Result<(), TestCaseError> {
    world.sent();
    let before: Vec<ScheduleView> = world.scheduler.schedules().collect();
    let from = world.wall();
    world.pass(seconds);
    let to = world.wall();
    let runs = world.runs();
    for ScheduleView { record, next } in before {
        let Timing::Every(interval) = record.timing else { continue };
        let name = &record.call.callable;
        let ran = runs.get(name).copied().unwrap_or(0) as i128;
        let late = i128::from(next <= from);
        let period = interval.as_nanos();
        let first = from.max(next).as_nanosecond();
        let due = (to.as_nanosecond() - record.since.as_nanosecond()).div_euclid(period)
            - (first - 1 - record.since.as_nanosecond()).div_euclid(period);
        let limit = record.left.map_or(i128::MAX, i128::from);
        let (least, most) = ((due - 1).max(0).min(limit), (due + late).min(limit));
        prop_assert!((least..=most).contains(&ran), "{name}: {ran} runs, {due} due");
    }
    for (name, count) in runs {
        spend(limits, &name, count)?;
    }
    Ok(())
}

fn spend(limits: &mut BTreeMap<String, u64>, name: &str, count: usize) -> Result<(), TestCaseError> {
    if let Some(left) = limits.get_mut(name) {
        prop_assert!(*left >= count as u64, "{name} ran more often than it may");
        *left -= count as u64;
    }
    Ok(())
}
