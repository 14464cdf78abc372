//! Workers that leave, fall silent, come back.

use super::World;
use crate::broker::{DownReason, Why, WorkerState};

#[test]
fn a05_jobs_of_a_lost_worker_follow_their_rules() {
    let mut world = World::new();
    world.worker("w", "", 4);
    for (job, headers) in [("g", "guarantee"), ("plain", ""), ("asked", "reply-requested"), ("r", "retry-count:1")] {
        world.request("c", job, "default", headers);
    }
    world.request("c", "young", "default", "");
    world.sent();
    world.down("w", DownReason::Closed);
    world.pass(4.9);
    assert!(world.sent().is_empty(), "it may come back");
    world.pass(0.2);
    assert_eq!(world.sent(), ["c ERROR asked WorkerLost"]);
    assert_eq!((world.count().lost, world.count().retried), (2, 2));
    world.worker("next", "", 3);
    let sent = world.sent();
    let requests: Vec<_> = sent.iter().filter(|line| line.contains("REQUEST")).map(|line| &line[13..15]).collect();
    assert_eq!(requests, ["g ", "r ", "yo"], "ahead of the younger job");
}

#[test]
fn a05_after_kbye_nothing_new_but_replies_count() {
    let mut world = World::new();
    world.worker("w", "", 3);
    world.request("c", "a", "default", "reply-requested");
    world.request("c", "b", "default", "guarantee");
    world.kbye("w");
    world.sent();
    world.request("c", "d", "default", "");
    assert_eq!(world.sent(), ["c REPLY d"]);
    world.pass(60.0);
    world.reply("w", "a", "{\"value\": 3}");
    assert_eq!(world.sent(), ["c RESULT a {\"value\": 3}"], "a draining job manager is silent, and alive");
    assert_eq!(world.view("w").unwrap().state, WorkerState::Draining);
    world.worker("x", "", 2);
    world.sent();
    world.down("w", DownReason::Closed);
    assert_eq!(world.sent(), ["x REQUEST b default guarantee,reply-requested"]);
    assert!(world.view("w").is_none());
}

#[test]
fn slots_whose_ready_was_lost_with_the_connection_are_used_again() {
    let mut world = World::new();
    world.worker("w", "", 2);
    for job in ["a", "b", "waits"] {
        world.request("c", job, "default", "");
    }
    world.reply("w", "a", "{\"value\": 1}");
    world.reply("w", "b", "{\"value\": 1}");
    world.down("w", DownReason::Closed);
    world.up("w");
    world.sent();
    world.ready("w");
    assert_eq!(world.sent(), ["w REQUEST waits default reply-requested"], "one had not left yet");
    world.pass_alive(14.9, &["w"]);
    assert_eq!(world.slots("w"), 0, "the other may still come");
    world.pass_alive(0.2, &["w"]);
    assert_eq!(world.slots("w"), 1);
    world.done("w", "waits");
    assert_eq!((world.slots("w"), world.count().completed), (2, 3));
}

#[test]
fn a_slot_used_again_waits_for_a_silent_worker_to_be_heard_from() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "");
    world.reply("w", "a", "{\"value\": 1}");
    world.up("w");
    world.pass_alive(7.0, &["w"]);
    world.pass(14.0);
    assert_eq!(world.slots("w"), 0);
    world.beat("w");
    world.pass_alive(1.0, &["w"]);
    assert_eq!(world.slots("w"), 1);
}

#[test]
fn a_job_sent_before_an_inform_that_comes_back_is_no_slot_more() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.sent();
    world.request("c", "a", "default", "");
    let request = world.messages_to("w").pop().unwrap();
    world.worker("w", "", 1);
    world.undelivered("w", request, Why::Full);
    assert_eq!(world.slots("w"), 1);
}

#[test]
fn jobs_of_several_queues_whose_worker_leaves_keep_their_order() {
    let mut world = World::new();
    world.worker("both", r#"[[30, "high"], [10, "email"]]"#, 0);
    world.request("c", "older", "email", "");
    world.request("c", "younger", "high", "");
    world.worker("other", "", 1);
    world.sent();
    world.kbye("both");
    assert_eq!(world.sent(), ["other REQUEST older email reply-requested"]);
}

#[test]
fn a_connection_that_comes_back_is_the_same_worker() {
    let mut world = World::new();
    world.worker("w", "", 2);
    world.request("c", "a", "default", "reply-requested");
    world.down("w", DownReason::Closed);
    world.sent();
    world.request("c", "b", "default", "");
    assert_eq!(world.sent(), ["c REPLY b"], "nothing for a detached worker");
    world.pass(2.0);
    world.up("w");
    assert_eq!(world.sent(), ["w REQUEST b default reply-requested"]);
    world.done("w", "a");
    assert_eq!(world.sent(), ["c RESULT a {\"value\": 1}"]);
    assert_eq!((world.count().lost, world.slots("w")), (0, 1));
}

#[test]
fn a04_unanswered_pings_make_a_silent_worker_lost_at_once() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "guarantee");
    world.pass(6.0);
    world.down("w", DownReason::Silent);
    assert!(world.view("w").is_none());
    world.worker("v", "", 1);
    world.down("v", DownReason::Silent);
    assert!(matches!(world.view("v").unwrap().state, WorkerState::Detached(_)), "it spoke a moment ago");
    world.pass(5.0);
    assert!(world.view("v").is_none());
}

#[test]
fn c03_a_long_job_runs_once() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "guarantee,reply-requested");
    world.sent();
    world.pass_alive(3600.0, &["w"]);
    assert!(world.sent().is_empty());
    world.done("w", "a");
    assert_eq!(world.sent(), ["c RESULT a {\"value\": 1}"]);
    assert_eq!((world.slots("w"), world.count().dispatched), (1, 1));
}

#[test]
fn c04_a_worker_thought_dead_comes_back_with_a_result() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "guarantee,reply-requested");
    world.pass(15.1);
    assert!(world.view("w").is_none());
    world.worker("x", "", 1);
    world.done("x", "a");
    assert!(world.sent().contains(&"c RESULT a {\"value\": 1}".to_owned()));
    world.done("w", "a");
    world.beat("w");
    assert_eq!(world.sent(), ["w DISCONNECT"], "told once, and no second result");
    assert_eq!(world.count().late_replies, 1);
    assert!(world.view("w").is_none());
}

#[test]
fn c04_the_late_reply_may_be_the_first() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "guarantee,reply-requested");
    world.pass(15.1);
    world.worker("x", "", 1);
    world.sent();
    world.reply("w", "a", "{\"value\": 1}");
    assert_eq!(world.sent(), ["c RESULT a {\"value\": 1}"]);
    world.done("x", "a");
    assert!(world.sent().is_empty());
    assert_eq!((world.slots("x"), world.count().late_replies, world.count().completed), (1, 1, 1));
}

#[test]
fn c04_a_job_put_back_is_not_run_again_if_its_reply_comes_first() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "guarantee,reply-requested");
    world.pass(15.1);
    world.sent();
    world.reply("w", "a", "{\"value\": 1}");
    assert_eq!(world.sent(), ["c RESULT a {\"value\": 1}"]);
    world.worker("x", "", 1);
    assert_eq!(world.sent(), ["x ACK 4"]);
}

#[test]
fn a18_a_job_managers_new_identity_replies_for_the_old() {
    let mut world = World::new();
    world.worker("old", "", 1);
    world.request("c", "a", "default", "reply-requested");
    world.worker("new", "", 1);
    world.sent();
    world.done("new", "a");
    assert_eq!(world.sent(), ["c RESULT a {\"value\": 1}"]);
    assert!(world.view("old").unwrap().in_flight.is_empty());
}

/// A busy Python scheduler never notices that the broker is another one.
#[test]
fn a18_a_scheduler_of_an_earlier_run_is_taken_over_by_its_heartbeat() {
    let mut world = World::new();
    world.receive(super::world::FRONT, "s", &[b"HEARTBEAT", b"1.5"]);
    assert!(world.sent().is_empty(), "a DISCONNECT would end it");
    assert_eq!(world.broker.snapshot().schedulers.len(), 1);
}

#[test]
fn a18_an_unknown_worker_is_told_to_register_once() {
    let mut world = World::new();
    for _ in 0..5 {
        world.ready("w");
        world.beat("w");
    }
    world.kbye("w");
    world.reply("w", "x", "{}");
    assert_eq!(world.sent(), ["w DISCONNECT"]);
    assert_eq!((world.count().unknown_senders, world.count().late_replies), (11, 1));
    world.worker("w", "", 1);
    assert_eq!(world.slots("w"), 1);
}

#[test]
fn a17_an_inform_is_always_answered() {
    let mut world = World::new();
    world.worker("busy", "", 1);
    world.request("c", "a", "default", "");
    world.step(crate::broker::Input::Shutdown);
    world.sent();
    world.inform("w", "");
    assert_eq!(world.sent(), ["w ACK 3"]);
    world.inform("bad", "{\"a\": 1}");
    assert!(world.sent().is_empty());
    assert!(world.view("bad").is_none());
}

#[test]
fn an_inform_behind_a_reconnect_comes_from_a_program_that_started_anew() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "guarantee");
    world.sent();
    world.inform("w", "");
    assert_eq!(world.view("w").unwrap().in_flight.len(), 1, "said again on the same connection");
    world.down("w", DownReason::Closed);
    world.up("w");
    world.worker("w", "", 1);
    let sent = world.sent();
    assert_eq!(sent.last().unwrap(), "w REQUEST a default guarantee,reply-requested");
    assert_eq!(world.broker.snapshot().jobs[0].deliveries, 2);
}

#[test]
fn c02_a_job_that_kills_its_worker_is_dead_after_three_deliveries() {
    let mut world = World::new();
    world.request("c", "poison", "default", "guarantee,reply-requested");
    for n in 0..5 {
        let name = format!("w{n}");
        world.worker(&name, "", 1);
        world.down(&name, DownReason::Closed);
        world.pass(5.0);
    }
    let sent = world.sent();
    let delivered: Vec<_> = sent.iter().filter(|line| line.contains("REQUEST")).map(|line| &line[..2]).collect();
    assert_eq!(delivered, ["w0", "w1", "w2"]);
    assert_eq!(sent.iter().filter(|line| *line == "c ERROR poison DeliveryLimit").count(), 1);
    let dead = world.admin("ROUTER_SHOW_DEAD", &[]);
    assert_eq!(dead[0]["workers"], serde_json::json!(["w0", "w1", "w2"]));
    assert_eq!((&dead[0]["msgid"], &dead[0]["reason"]), (&"poison".into(), &"worker-lost".into()));
    assert_eq!((world.count().dead, world.count().lost), (1, 0));
}

#[test]
fn a_brokers_own_pause_makes_nobody_silent() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "reply-requested,timeout:1");
    world.sent();
    world.time += std::time::Duration::from_secs(100);
    world.step(crate::broker::Input::Tick);
    assert_eq!(world.view("w").unwrap().state, WorkerState::Attentive);
    world.done("w", "a");
    assert_eq!(world.sent(), ["c RESULT a {\"value\": 1}"]);
}

#[test]
fn heartbeats_follow_the_ack_at_once_and_then_regularly() {
    let mut world = World::new();
    world.inform("w", "");
    let first = world.messages_to("w");
    assert_eq!(first[0].frame(2), Some(&b"ACK"[..]));
    assert_eq!(first[1].frame(2), Some(&b"HEARTBEAT"[..]));
    assert_eq!(first[1].frame(4), Some(&b"0.000000"[..]));
    world.pass_alive(9.5, &["w"]);
    assert_eq!(world.messages_to("w").len(), 3);
    let mut world = World::with(|config| config.heartbeat_interval = None);
    world.worker("w", "", 1);
    world.pass(1000.0);
    assert_eq!(world.messages_to("w").len(), 1);
    assert_eq!(world.view("w").unwrap().state, WorkerState::Attentive);
}
