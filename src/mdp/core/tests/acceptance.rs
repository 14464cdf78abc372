//! What a broker does for its peers: sections 2 to 8 of the protocol.

use std::time::Duration;

use super::World;
use crate::dispatch::Why;
use crate::mdp::core::Input;
use crate::mdp::wire::{FromWorker, Part};

#[test]
fn a_request_goes_to_a_worker_and_its_reply_back() {
    let mut world = World::new();
    world.ready("w", "echo");
    world.receive("c", &[b"", b"MDPC01", b"echo", b"a", b"", b"b"]);
    assert_eq!(world.sent(), ["w: MDPW01|\\x02|c||a||b"]);
    world.receive("w", &[b"", b"MDPW01", b"\x03", b"c", b"", b"x", b""]);
    assert_eq!(world.sent(), ["c: MDPC01|echo|x|"]);
}

#[test]
fn both_versions_are_served_by_both() {
    let mut world = World::new();
    world.worker2("w2", &FromWorker::Ready { service: b"two" });
    world.ready("w1", "one");
    world.request("c1", "two", "x");
    world.request2("c2", "one", "y");
    assert_eq!(world.sent(), ["w2: MDPW02|\\x02|c1||x", "w1: MDPW01|\\x02|c2||y"]);
    world.reply2("w2", Part::Partial, "c1", "part");
    assert_eq!((world.sent().len(), world.core.counters().partials_dropped), (0, 1), "0.1 has no word for it");
    world.reply2("w2", Part::Final, "c1", "end");
    world.reply("w1", "c2", "all");
    assert_eq!(world.sent(), ["c1: MDPC01|two|end", "c2: MDPC02|\\x03|one|all"]);
    world.request2("c2", "two", "z");
    world.reply2("w2", Part::Partial, "c2", "p");
    world.request2("c3", "two", "waits");
    world.reply2("w2", Part::Final, "c2", "f");
    let lines =
        ["w2: MDPW02|\\x02|c2||z", "c2: MDPC02|\\x02|two|p", "c2: MDPC02|\\x03|two|f", "w2: MDPW02|\\x02|c3||waits"];
    assert_eq!(world.sent(), lines, "a partial reply leaves the worker busy");
}

#[test]
fn a_req_client_of_02_gets_its_empty_frame_back() {
    let mut world = World::new();
    world.ready("w", "echo");
    world.receive("c", &[b"", b"MDPC02", b"\x01", b"echo", b"x"]);
    world.reply("w", "c", "y");
    let crate::mdp::core::Effect::Send { message, .. } = world.effects.pop().unwrap() else { panic!("not sent") };
    assert_eq!(message.frames().collect::<Vec<_>>(), [&b""[..], b"MDPC02", b"\x03", b"echo", b"y"]);
}

#[test]
fn requests_wait_in_order_and_the_longest_idle_worker_is_next() {
    let mut world = World::new();
    for (client, body) in [("a", "1"), ("b", "2"), ("c", "3")] {
        world.request(client, "s", body);
    }
    assert!(world.sent().is_empty());
    world.ready("w1", "s");
    world.ready("w2", "s");
    assert_eq!(world.sent(), ["w1: MDPW01|\\x02|a||1", "w2: MDPW01|\\x02|b||2"]);
    world.reply("w2", "b", "");
    assert_eq!(world.sent(), ["b: MDPC01|s|", "w2: MDPW01|\\x02|c||3"]);
    world.reply("w2", "c", "");
    world.reply("w1", "a", "");
    world.sent();
    world.request("d", "s", "4");
    assert_eq!(world.sent(), ["w2: MDPW01|\\x02|d||4"]);
}

#[test]
fn mmi_is_answered_by_the_broker() {
    let mut world = World::new();
    let ask = |world: &mut World, frames: &[&[u8]]| {
        world.receive("c", &[&[b"" as &[u8], b"MDPC01"], frames].concat());
        world.sent().pop().unwrap()
    };
    assert_eq!(ask(&mut world, &[b"mmi.service", b"echo"]), "c: MDPC01|mmi.service|404");
    world.request("c", "echo", "only mentioned");
    assert_eq!(ask(&mut world, &[b"mmi.service", b"echo"]), "c: MDPC01|mmi.service|404");
    world.ready("w", "echo");
    world.sent();
    assert_eq!(ask(&mut world, &[b"mmi.service", b"echo"]), "c: MDPC01|mmi.service|200", "busy counts");
    assert_eq!(ask(&mut world, &[b"mmi.filter", b"a", b"b"]), "c: MDPC01|mmi.filter|a|501");
    world.receive("d", &[b"MDPC02", b"\x01", b"mmi.service", b"echo"]);
    assert_eq!(world.sent(), ["d: MDPC02|\\x03|mmi.service|200"]);
}

#[test]
fn heartbeats_go_to_busy_workers_too_and_keep_registrations() {
    let mut world = World::new();
    world.ready("w1", "s");
    world.worker2("w2", &FromWorker::Ready { service: b"t" });
    world.request("c", "s", "x");
    world.sent();
    for _ in 0..10 {
        world.pass(2.5);
        assert_eq!(world.sent(), ["w1: MDPW01|\\x04", "w2: MDPW02|\\x05"]);
        world.worker2("w2", &FromWorker::Heartbeat);
    }
    assert_eq!(world.core.services().len(), 2);
}

#[test]
fn nothing_is_due_and_nothing_said_when_nobody_is_there() {
    let mut world = World::new();
    world.request("c", "s", "x");
    world.pass(8.0);
    assert_eq!((world.core.deadline(), world.core.services().len()), (None, 0));
    assert_eq!(world.core.counters().expired, 1);
}

#[test]
fn requests_and_bytes_that_wait_are_bounded_and_the_oldest_goes() {
    let mut world = World::with(|config| config.max_waiting = 2);
    for body in ["1", "2", "3", "4"] {
        world.request("c", "s", body);
    }
    assert_eq!(world.core.counters().dropped, 2);
    world.ready("w", "s");
    assert_eq!(world.sent(), ["w: MDPW01|\\x02|c||3"]);

    let mut world = World::with(|config| config.max_waiting_bytes = 3000);
    for _ in 0..10 {
        world.request("c", "s", &"x".repeat(800));
    }
    assert_eq!(world.core.services()[0].waiting, 3);
    let mut world = World::with(|config| config.max_total_bytes = 3000);
    for n in 0..10 {
        world.request("c", &format!("s{n}"), &"x".repeat(800));
    }
    assert_eq!(world.core.services().len(), 3, "names that clients invent are bounded as well");
}

#[test]
fn what_a_client_that_left_asked_is_not_done() {
    let mut world = World::new();
    world.up("a");
    world.up("b");
    world.request("a", "s", "1");
    world.request("b", "s", "2");
    world.request("b", "s", "3");
    world.down("a");
    world.ready("w", "s");
    assert_eq!(world.sent(), ["w: MDPW01|\\x02|b||2"]);
    assert_eq!(world.core.counters().abandoned, 1);
    world.down("b");
    world.up("b");
    world.reply("w", "b", "late");
    assert!(world.sent().is_empty(), "the new connection did not ask");
    assert_eq!(world.core.counters().undelivered, 1);
}

#[test]
fn a_shutdown_lets_what_is_in_hand_end_and_sends_workers_away() {
    let mut world = World::new();
    world.ready("w1", "s");
    world.ready("w2", "t");
    world.request("c", "s", "x");
    world.request("c", "u", "waits");
    world.sent();
    world.step(Input::Shutdown);
    world.request("c", "t", "late");
    assert_eq!(world.sent(), ["Unbind"]);
    world.reply("w1", "c", "y");
    let lines = world.sent();
    assert_eq!(lines[0], "c: MDPC01|s|y");
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[3], "Stop");
    assert_eq!((world.core.counters().dropped, world.core.deadline()), (2, None));
}

#[test]
fn a_shutdown_does_not_wait_for_ever() {
    let mut world = World::new();
    world.ready("w", "s");
    world.request("c", "s", "x");
    world.step(Input::Shutdown);
    world.pass(4.9);
    assert!(!world.sent().contains(&"Stop".to_owned()));
    world.pass(0.2);
    assert_eq!(world.sent().pop().unwrap(), "Stop");
    assert_eq!(world.core.counters().given_up, 1);
}

#[test]
fn a_worker_may_have_a_request_only_so_long_if_there_is_a_limit() {
    let mut world = World::with(|config| config.reply_timeout = Some(Duration::from_secs(1)));
    world.ready("w1", "s");
    world.ready("w2", "s");
    world.request("c", "s", "x");
    world.sent();
    world.pass(1.0);
    assert_eq!(world.sent(), ["w1: MDPW01|\\x05", "w2: MDPW01|\\x02|c||x"]);
    world.reply("w1", "c", "late");
    assert_eq!(world.sent(), ["w1: MDPW01|\\x05"], "a stranger by now");
}

#[test]
fn what_never_reached_a_worker_is_given_to_another() {
    let mut world = World::with(|config| config.max_attempts = std::num::NonZeroU32::MIN);
    world.ready("w1", "s");
    world.ready("w2", "s");
    world.request("c", "s", "x");
    world.sent();
    world.undelivered("w1", &[b"", b"MDPW01", b"\x02", b"c", b"", b"x"], Why::Gone);
    assert_eq!(world.sent(), ["w2: MDPW01|\\x02|c||x"]);
    world.undelivered("c", &[b"", b"MDPC01", b"s", b"x"], Why::Full);
    assert_eq!(world.core.counters().undelivered, 1);
}
