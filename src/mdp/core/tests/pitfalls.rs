//! Faults of other brokers, by the number of the pitfall and the id of the case.

use std::time::Duration;

use super::World;
use super::world::answer;
use crate::mdp::core::Input;
use crate::mdp::wire::{FromWorker, Part};

#[test]
fn e01_pitfall_1_a_dead_worker_behind_a_live_one_is_found() {
    let mut world = World::new();
    world.ready("w1", "a");
    world.ready("w2", "b");
    for _ in 0..5 {
        world.pass(2.4);
        world.heartbeat("w1");
    }
    world.sent();
    world.request("c", "b", "x");
    world.request("c", "mmi.service", "b");
    assert_eq!(world.said(), ["c: MDPC01|mmi.service|404"]);
    assert_eq!(world.core.counters().silent, 1);
    world.ready("w3", "b");
    assert_eq!(world.said(), ["w3: MDPW01|\\x02|c||x"]);
}

#[test]
fn pitfall_1_every_silent_worker_of_a_service_is_found_at_its_own_time() {
    let mut world = World::new();
    for (n, worker) in ["w0", "w1", "w2", "w3"].into_iter().enumerate() {
        world.ready(worker, "s");
        world.pass(0.1 * n as f64);
    }
    world.pass(2.0);
    world.heartbeat("w0");
    world.heartbeat("w2");
    world.pass(5.1);
    assert_eq!(world.core.services()[0].workers, 3);
    world.pass(0.2);
    assert_eq!(world.core.services()[0].workers, 2);
}

#[test]
fn pitfall_2_a_worker_that_leaves_gets_nothing_more() {
    let mut world = World::new();
    world.ready("w1", "s");
    world.worker("w1", &FromWorker::Disconnect);
    world.request("c", "s", "x");
    assert!(world.sent().is_empty(), "no answer, and no request");
}

#[test]
fn pitfalls_3_and_6_a_worker_sent_away_is_in_no_list_any_more() {
    let mut world = World::new();
    world.ready("w", "s");
    world.ready("w", "s");
    assert_eq!(world.sent(), ["w: MDPW01|\\x05"]);
    world.pass(60.0);
    world.request("c", "s", "x");
    assert!(world.sent().is_empty());
    world.pass(60.0);
    assert!(world.core.services().is_empty());
    for _ in 0..1000 {
        world.ready("w2", "s");
        world.request("c", "s", "x");
        world.reply("w2", "c", "y");
        world.worker("w2", &FromWorker::Disconnect);
    }
    assert_eq!((world.core.workers.len(), world.core.services().len()), (0, 0));
}

#[test]
fn e06_pitfall_4_each_worker_stays_with_its_own_service() {
    let mut world = World::new();
    world.ready("wa", "a");
    world.ready("wb", "b");
    world.request("c1", "a", "1");
    world.request("c2", "b", "2");
    world.request("c3", "b", "3");
    world.request("c4", "a", "4");
    world.sent();
    world.reply("wb", "c2", "r2");
    world.reply("wa", "c1", "r1");
    world.reply("wb", "c3", "r3");
    world.reply("wa", "c4", "r4");
    let lines = [
        "c2: MDPC01|b|r2",
        "wb: MDPW01|\\x02|c3||3",
        "c1: MDPC01|a|r1",
        "wa: MDPW01|\\x02|c4||4",
        "c3: MDPC01|b|r3",
        "c4: MDPC01|a|r4",
    ];
    assert_eq!(world.sent(), lines);
}

#[test]
fn e06_strangers_get_a_disconnect_and_no_record() {
    let mut world = World::new();
    world.heartbeat("x");
    world.reply("x", "c", "r");
    world.worker2("x", &answer(Part::Partial, "c", "r"));
    world.worker2("x", &answer(Part::Final, "c", "r"));
    world.worker("x", &FromWorker::Disconnect);
    world.receive("x", &[b"", b"MDPW01", b"\x09"]);
    let lines = ["x: MDPW01|\\x05", "x: MDPW01|\\x05", "x: MDPW02|\\x06", "x: MDPW02|\\x06"];
    assert_eq!(world.sent(), lines);
    assert_eq!(world.core.workers.len(), 0);
    world.ready("x", "s");
    world.request("c", "s", "1");
    assert_eq!(world.sent(), ["x: MDPW01|\\x02|c||1"], "its READY is its first");
}

#[test]
fn e06_a_reply_goes_to_the_client_of_the_request_in_hand_or_nowhere() {
    let mut world = World::new();
    world.ready("w1", "s");
    world.request("a", "s", "1");
    world.sent();
    world.reply("w1", "b", "for another");
    assert_eq!(world.sent(), ["w1: MDPW01|\\x05"]);
    world.ready("w2", "s");
    assert_eq!(world.sent(), ["w2: MDPW01|\\x02|a||1"], "the request is not lost with it");
    world.reply("w2", "a", "r");
    world.reply("w2", "a", "again");
    assert_eq!(world.sent(), ["a: MDPC01|s|r", "w2: MDPW01|\\x05"]);
}

#[test]
fn e06_a_worker_of_one_version_does_not_speak_the_other() {
    let mut world = World::new();
    world.ready("w", "s");
    world.worker2("w", &FromWorker::Heartbeat);
    assert_eq!(world.sent(), ["w: MDPW01|\\x05"]);
    assert_eq!(world.core.workers.len(), 0);
}

#[test]
fn pitfall_5_only_service_names_are_the_brokers_own() {
    let mut world = World::new();
    world.ready("mmi.w", "s");
    world.request("c", "s", "x");
    assert_eq!(world.sent(), ["mmi.w: MDPW01|\\x02|c||x"]);
    world.ready("w", "mmi.echo");
    assert_eq!(world.sent(), ["w: MDPW01|\\x05"]);
    assert_eq!(world.core.workers.len(), 1);
}

#[test]
fn pitfall_7_a_new_interval_changes_the_expiry_with_it() {
    let mut world = World::new();
    world.ready("w1", "s");
    world.ready("w2", "s");
    let mut config = world.core.config.clone();
    config.heartbeat_interval = Duration::from_millis(100);
    world.step(Input::Reconfigure(Box::new(config)));
    world.sent();
    world.pass(0.1);
    assert_eq!(world.sent(), ["w1: MDPW01|\\x04", "w2: MDPW01|\\x04"]);
    world.pass(0.1);
    world.heartbeat("w1");
    world.pass(0.15);
    assert_eq!(world.core.services()[0].workers, 1);
}

#[test]
fn pitfall_9_a_connection_made_anew_is_no_registration() {
    let mut world = World::new();
    world.up("w");
    world.ready("w", "s");
    world.request("c", "s", "x");
    world.sent();
    world.down("w");
    world.up("w");
    world.heartbeat("w");
    assert_eq!(world.sent(), ["w: MDPW01|\\x05"], "that makes it register");
    world.up("w3");
    world.ready("w3", "s");
    assert_eq!(world.sent(), ["w3: MDPW01|\\x02|c||x"]);
    world.up("w3");
    world.ready("w3", "s");
    assert_eq!(world.sent(), ["w3: MDPW01|\\x02|c||x"], "its old connection was replaced unseen");
}

#[test]
fn e03_bad_messages_are_dropped_and_counted() {
    let mut world = World::new();
    world.ready("w", "s");
    for n in 0..1000 {
        let peer = format!("p{}", n % 10);
        let frames: &[&[u8]] = match n % 7 {
            0 => &[b"", b"MDPC01", b"s"],
            1 => &[b"x", b"MDPC01", b"s", b"x"],
            2 => &[b"x"],
            3 => &[b"", b"MDPW01", b"\x01"],
            4 => &[b"", b"MDPC01", b"", b"x"],
            5 => &[b"", b"MDPC09", b"s", b"x"],
            _ => &[b"", b"MDPW01", b"\x09"],
        };
        world.receive(&peer, frames);
        world.request("c", "s", "x");
        assert_eq!(world.sent(), ["w: MDPW01|\\x02|c||x"]);
        world.reply("w", "c", "y");
        world.sent();
    }
    assert_eq!(world.core.counters().malformed, 1000);
    assert_eq!(world.core.workers.len(), 1);
    world.receive("w", &[b"", b"MDPW01", b"\x09"]);
    assert_eq!(world.sent(), ["w: MDPW01|\\x05"], "a registered worker is told");
}

#[test]
fn e04_a_request_survives_its_worker() {
    for (n, lose) in [
        |world: &mut World| world.down("w1"),
        |world: &mut World| world.worker("w1", &FromWorker::Disconnect),
        |world: &mut World| {
            // Seen to send heartbeats while it works, it is judged by them.
            for _ in 0..2 {
                world.pass(2.5);
                world.heartbeat("w1");
                world.heartbeat("w2");
            }
            for _ in 0..3 {
                world.pass(2.5);
                world.heartbeat("w2");
            }
        },
    ]
    .into_iter()
    .enumerate()
    {
        let mut world = World::new();
        world.up("w1");
        world.ready("w1", "s");
        world.ready("w2", "s");
        world.request("c", "s", "x");
        world.said();
        lose(&mut world);
        assert_eq!(world.said(), ["w2: MDPW01|\\x02|c||x"], "case {n}");
        world.reply("w2", "c", "y");
        assert_eq!(world.said(), ["c: MDPC01|s|y"]);
    }
}

#[test]
fn e04_a_request_goes_ahead_of_younger_ones_when_it_comes_back() {
    let mut world = World::new();
    world.ready("w1", "s");
    for body in ["1", "2", "3"] {
        world.request("c", "s", body);
    }
    world.down("w1");
    world.ready("w2", "s");
    assert_eq!(world.sent(), ["w1: MDPW01|\\x02|c||1", "w2: MDPW01|\\x02|c||1"]);
}

#[test]
fn e04_only_so_many_workers_are_lost_to_one_request() {
    let mut world = World::new();
    world.request("c", "s", "poison");
    for worker in ["w1", "w2", "w3", "w4"] {
        world.ready(worker, "s");
        world.down(worker);
    }
    assert_eq!(world.sent().len(), 3);
    assert_eq!(world.core.counters().given_up, 1);
}

#[test]
fn e04_nothing_is_sent_again_after_a_part_of_the_reply() {
    let mut world = World::new();
    world.worker2("w1", &FromWorker::Ready { service: b"s" });
    world.worker2("w2", &FromWorker::Ready { service: b"s" });
    world.request2("c", "s", "x");
    world.reply2("w1", Part::Partial, "c", "p");
    world.down("w1");
    assert_eq!(world.sent(), ["w1: MDPW02|\\x02|c||x", "c: MDPC02|\\x02|s|p"]);
    assert_eq!(world.core.counters().given_up, 1);
}

#[test]
fn e07_a_worker_that_computes_for_a_minute_is_not_taken_for_dead() {
    let mut world = World::new();
    world.ready("w", "s");
    world.request("c", "s", "x");
    // Sent before it saw the request.
    world.pass(0.1);
    world.heartbeat("w");
    world.pass(60.0);
    world.reply("w", "c", "y");
    assert_eq!(world.said(), ["w: MDPW01|\\x02|c||x", "c: MDPC01|s|y"]);
    world.request("c", "s", "z");
    assert_eq!(world.said(), ["w: MDPW01|\\x02|c||z"]);
}

#[test]
fn e07_heartbeats_leave_on_time_while_requests_pour_in() {
    let mut world = World::new();
    world.ready("idle", "t");
    world.ready("busy", "s");
    let mut beats = 0;
    for n in 0..100_000 {
        world.time += Duration::from_micros(100);
        world.request("c", "s", "x");
        world.reply("busy", "c", "y");
        if n % 20_000 == 0 {
            world.heartbeat("idle");
        }
        beats += world.sent().iter().filter(|line| *line == "idle: MDPW01|\\x04").count();
    }
    assert_eq!(beats, 4, "every 2.5 s of 10, the last on the dot");
    assert_eq!(world.core.services().len(), 2);
}

#[test]
fn e07_an_interval_that_differs_is_survived_up_to_the_expiry() {
    let mut world = World::with(|config| config.heartbeat_interval = Duration::from_secs(1));
    world.ready("w", "s");
    for _ in 0..20 {
        world.pass(2.5);
        world.heartbeat("w");
    }
    assert_eq!(world.core.services()[0].workers, 1);
}

#[test]
fn e07_a_broker_that_stood_still_blames_nobody() {
    let mut world = World::new();
    world.ready("w", "s");
    world.sent();
    world.time += Duration::from_secs(100);
    world.heartbeat("w");
    world.step(Input::Tick);
    world.request("c", "s", "x");
    assert_eq!(world.said(), ["w: MDPW01|\\x02|c||x"]);
}

#[test]
fn a_purge_by_hand_finds_what_the_timers_would() {
    let mut world = World::new();
    world.ready("w", "s");
    world.step(Input::Purge);
    assert_eq!(world.core.services().len(), 1);
    world.pass(7.6);
    assert_eq!(world.core.services().len(), 0, "without it, too");
}
