//! REQUEST, acceptance, result, refusal, malformed messages.

use zmtp::Message;

use super::World;
use super::world::{BACK, FRONT, id};
use crate::broker::{DownReason, Input, JobTracking, UnknownQueue, Why};

#[test]
fn a20_acceptance_then_result_also_for_a_waiting_job() {
    let mut world = World::new();
    world.inform("w", "");
    assert_eq!(world.sent(), ["w ACK 1"]);
    world.ready("w");
    world.request("c", "a", "default", "reply-requested");
    assert_eq!(world.sent(), ["w REQUEST a default reply-requested", "c REPLY a"]);
    world.request("c", "b", "default", "reply-requested");
    assert_eq!(world.sent(), ["c REPLY b"]);
    world.done("w", "a");
    assert_eq!(world.sent(), ["c RESULT a {\"value\": 1}", "w REQUEST b default reply-requested"]);
    world.done("w", "b");
    assert_eq!(world.sent(), ["c RESULT b {\"value\": 1}"]);
    assert_eq!((world.count().accepted, world.count().completed, world.slots("w")), (2, 2, 1));
}

#[test]
fn a20_result_goes_only_to_who_asked_but_the_broker_learns_of_every_end() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.sent();
    world.request("c", "a", "default", "x:1");
    assert_eq!(world.sent(), ["w REQUEST a default x:1,reply-requested", "c REPLY a"]);
    world.done("w", "a");
    assert!(world.sent().is_empty());
    assert_eq!(world.count().completed, 1);
    assert!(world.broker.snapshot().jobs.is_empty());
}

#[test]
fn a01_payload_and_identities_are_opaque_bytes() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.sent();
    world.payload("\0\u{1}\u{2}\u{3}\u{4}", "a", "default", "", b"\xff\xfe\x80");
    let request = world.messages_to("w").pop().unwrap();
    assert_eq!(request.frame(6), Some(&b"\xff\xfe\x80"[..]));
    world.receive(BACK, "w", &[b"\xff\xfe", b"\x80"]);
    world.receive(FRONT, "c", &[b"INFORM", b"\xff\xfe", b"worker"]);
    assert_eq!(world.count().malformed, 2);
    assert!(world.admin("ROUTER_SHOW_WORKERS", &[])["connected_workers"]["w"].is_object());
}

#[test]
fn a03_a_malformed_request_is_refused_and_harms_nobody() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.sent();
    world.request("c", "bad", "default", "timeout:abc");
    assert_eq!(world.sent(), ["c ERROR bad Malformed"]);
    world.receive(FRONT, "c", &[b"REQUEST", b"default"]);
    assert_eq!(world.sent(), ["c ERROR 3 Malformed"]);
    world.message(FRONT, "c", Message::single("GET / HTTP/1.1"));
    assert!(world.sent().is_empty());
    world.request("c", "good", "default", "");
    assert_eq!(world.sent().len(), 2);
    assert_eq!((world.count().malformed, world.count().accepted), (3, 1));
}

#[test]
fn a21_past_the_limit_jobs_are_refused_visibly() {
    let mut world = World::with(|config| config.hwm = 5);
    for n in 0..8 {
        world.request("c", &n.to_string(), "email", "");
    }
    let (taken, refused): (Vec<_>, Vec<_>) = world.sent().into_iter().partition(|line| line.contains("REPLY"));
    assert_eq!(taken.len(), 5);
    assert_eq!(refused, ["c ERROR 5 QueueFull", "c ERROR 6 QueueFull", "c ERROR 7 QueueFull"]);
    assert_eq!((world.count().accepted, world.count().refused), (5, 3));
    world.pass(30.0);
}

#[test]
fn c11_waiting_jobs_are_bounded_in_bytes_and_the_memory_comes_back() {
    let mut world = World::with(|config| config.waiting_bytes = 10_000);
    world.payload("c", "big", "default", "", &[b'x'; 20_000]);
    assert_eq!(world.sent(), ["c ERROR big QueueFull"]);
    for n in 0..50 {
        world.payload("c", &n.to_string(), "default", "", &[b'x'; 1000]);
    }
    let held = world.broker.snapshot().jobs.len();
    assert!((5..10).contains(&held), "{held}");
    world.worker("w", "", 10);
    assert_eq!(world.broker.snapshot().waiting_bytes, 0);
    world.payload("c", "next", "default", "", &[b'x'; 20_000]);
    assert!(world.sent().contains(&"c REPLY next".to_owned()), "what need not wait is no backlog");
}

#[test]
fn the_same_job_sent_again_is_acknowledged_not_doubled() {
    let mut world = World::new();
    world.request("c", "1", "default", "");
    world.request("c", "1", "default", "");
    world.request("other", "1", "default", "");
    assert_eq!(world.sent(), ["c REPLY 1", "c REPLY 1", "other ERROR 1 DuplicateId"]);
    assert_eq!((world.count().accepted, world.count().refused), (1, 1));
    world.worker("w", "", 2);
    world.done("w", "1");
    assert_eq!(world.sent().iter().filter(|line| line.contains("REQUEST")).count(), 1);
    world.request("other", "1", "default", "");
    assert!(world.sent().contains(&"other REPLY 1".to_owned()), "once ended, the id is free");
}

#[test]
fn clients_that_invent_queue_names_grow_no_table() {
    let mut world = World::new();
    for n in 0..50 {
        world.request("c", &n.to_string(), &format!("queue-{n}"), "");
    }
    assert_eq!(world.broker.queues.iter().count(), 1);
    let mut world = World::with(|config| config.unknown_queue = UnknownQueue::Hold);
    for n in 0..50 {
        world.request("c", &n.to_string(), &format!("queue-{n}"), "");
    }
    assert_eq!(world.broker.queues.iter().count(), 51);
    let queues: Vec<_> = (0..50).map(|n| format!("[1, \"queue-{n}\"]")).collect();
    world.worker("w", &format!("[{}]", queues.join(",")), 50);
    for n in 0..50 {
        world.done("w", &n.to_string());
    }
    world.kbye("w");
    world.down("w", crate::broker::DownReason::Closed);
    assert_eq!(world.broker.queues.iter().count(), 1);
}

#[test]
fn b09_what_does_not_leave_goes_to_the_next_worker() {
    let mut world = World::new();
    world.worker("full", "[[20, \"default\"]]", 2);
    world.worker("next", "", 1);
    world.sent();
    world.request("c", "a", "default", "");
    let message = world.messages_to("full").pop().unwrap();
    world.undelivered("full", message, Why::Full);
    assert_eq!(world.sent(), ["next REQUEST a default reply-requested"]);
    assert_eq!(world.slots("full"), 2, "full is not gone, and the slot was not used");
    assert_eq!(world.count().dispatched, 1);
    world.request("c", "b", "default", "");
    assert_eq!(world.sent(), ["c REPLY b"], "nothing for it until it is heard from");
    world.beat("full");
    assert_eq!(world.sent(), ["full REQUEST b default reply-requested"]);
}

#[test]
fn b09_a_gone_worker_is_kept_for_its_return() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.sent();
    world.payload("c", "a", "default", "", b"payload");
    let message = world.messages_to("w").pop().unwrap();
    world.undelivered("w", message, Why::Gone);
    assert!(world.sent().is_empty());
    world.pass(2.0);
    world.up("w");
    let again = world.messages_to("w").pop().unwrap();
    assert_eq!(again.frame(6), Some(&b"payload"[..]));
    assert_eq!(world.broker.snapshot().jobs[0].deliveries, 1);
}

#[test]
fn a_reply_to_a_gone_client_is_dropped_quietly() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "");
    let message = world.messages_to("c").pop().unwrap();
    world.step(Input::Undelivered { socket: FRONT, to: id("c"), message, why: Why::Gone });
    world.step(Input::Down { socket: FRONT, peer: id("c"), reason: crate::broker::DownReason::Closed });
    assert!(world.sent().is_empty());
    world.done("w", "a");
    assert_eq!(world.count().completed, 1);
}

#[test]
fn with_tracking_of_asked_jobs_only_others_end_at_ready() {
    let mut world = World::with(|config| config.tracking = JobTracking::Asked);
    world.worker("w", "", 2);
    world.sent();
    world.request("c", "a", "default", "");
    world.request("c", "b", "default", "timeout:9");
    let sent = world.sent();
    assert!(sent.contains(&"w REQUEST a default ".to_owned()), "{sent:?}");
    assert!(sent.contains(&"w REQUEST b default timeout:9,reply-requested".to_owned()));
    world.done("w", "b");
    world.ready("w");
    assert_eq!((world.count().completed, world.slots("w")), (2, 2));
    assert!(world.broker.snapshot().jobs.is_empty());
}

#[test]
fn a_schedule_goes_to_one_scheduler_always_the_same_and_its_end_to_all() {
    let mut world = World::new();
    let schedule = |world: &mut World, command: &[u8]| {
        world.receive(FRONT, "c", &[command, b"default", b"", b"2", b"{}", b""]);
    };
    schedule(&mut world, b"SCHEDULE");
    schedule(&mut world, b"UNSCHEDULE");
    assert_eq!(world.sent(), ["c ERROR 1 NoScheduler", "c ERROR 2 NoScheduler"]);
    for name in ["s1", "s2"] {
        world.receive(FRONT, name, &[b"INFORM", b"", b"scheduler"]);
    }
    assert_eq!(world.sent(), ["s1 ACK 3", "s2 ACK 4"]);
    schedule(&mut world, b"SCHEDULE");
    let first = world.sent().remove(0);
    let (one, other) = if first == "s1 SCHEDULE 5" { ("s1", "s2") } else { ("s2", "s1") };
    assert_eq!(first, format!("{one} SCHEDULE 5"));
    schedule(&mut world, b"SCHEDULE");
    schedule(&mut world, b"UNSCHEDULE");
    assert_eq!(world.sent(), [format!("{one} SCHEDULE 6"), "s1 UNSCHEDULE 7".to_owned(), "s2 UNSCHEDULE 7".to_owned()]);
    schedule(&mut world, b"SCHEDULE");
    let message = world.messages_to(one).pop().unwrap();
    world.step(Input::Undelivered { socket: FRONT, to: id(one), message, why: Why::Gone });
    assert_eq!(world.sent(), [format!("{other} SCHEDULE 8")]);
    world.receive(FRONT, other, &[b"KBYE"]);
    world.pass(5.0);
    assert!(world.broker.snapshot().schedulers.is_empty());
    world.receive(FRONT, other, &[b"HEARTBEAT", b"1"]);
    assert!(world.sent().is_empty(), "a DISCONNECT would end a Python scheduler");
}

/// A SCHEDULE that calls something, as clients send it.
fn real_schedule(world: &mut World, name: &str) -> String {
    let call = "\"args\": [], \"kwargs\": {}, \"class_args\": [], \"class_kwargs\": {}";
    let payload = format!("[\"run\", {{\"path\": \"m\", \"callable\": \"{name}\", {call}}}]");
    world.receive(FRONT, "c", &[b"SCHEDULE", b"default", b"", b"2", payload.as_bytes(), b""]);
    world.sent().join(", ")
}

#[test]
fn the_answer_of_a_scheduler_goes_to_the_client_once() {
    let mut world = World::new();
    world.receive(FRONT, "s", &[b"INFORM", b"", b"scheduler"]);
    world.sent();
    assert_eq!(real_schedule(&mut world, "f"), "s SCHEDULE 2");
    for _ in 0..2 {
        world.receive(FRONT, "s", &[b"REPLY", b"2"]);
    }
    assert_eq!(world.sent(), ["c REPLY 2"]);
    assert_eq!(real_schedule(&mut world, "g"), "s SCHEDULE 5");
    world.receive(FRONT, "s", &[b"REPLY", b"{\"error\": {\"type\": \"BadSchedule\"}}", b"5"]);
    assert_eq!(world.sent().len(), 1);
    // Whoever is no scheduler answers nobody.
    assert_eq!(real_schedule(&mut world, "h"), "s SCHEDULE 7");
    world.receive(FRONT, "stranger", &[b"REPLY", b"7"]);
    assert!(world.sent().is_empty());
}

/// Read as JSON a message of the largest size would take the broker's memory and its time. Who keeps it says what it is.
#[test]
fn a_schedule_too_long_to_be_read_goes_to_a_scheduler_as_it_is() {
    let mut world = World::new();
    world.receive(FRONT, "s", &[b"INFORM", b"", b"scheduler"]);
    world.sent();
    assert_eq!(real_schedule(&mut world, &"f".repeat(1 << 20)), "s SCHEDULE 2");
}

#[test]
fn a_schedule_that_moves_is_forgotten_where_it_was() {
    let mut world = World::new();
    world.receive(FRONT, "own", &[b"INFORM", b"standby", b"scheduler"]);
    world.sent();
    assert_eq!(real_schedule(&mut world, "f"), "own SCHEDULE 2");
    assert_eq!(real_schedule(&mut world, "g"), "own SCHEDULE 3");
    // One that comes may have them too, from before it was away.
    world.receive(FRONT, "other", &[b"INFORM", b"", b"scheduler"]);
    let sent: Vec<String> =
        world.sent().iter().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(sent, ["other ACK", "other UNSCHEDULE", "other UNSCHEDULE"]);
    let sent = real_schedule(&mut world, "f");
    assert!(sent.starts_with("own UNSCHEDULE ") && sent.ends_with("other SCHEDULE 5"), "{sent}");
    assert_eq!(real_schedule(&mut world, "f"), "other SCHEDULE 6", "once is enough");
    // While the other is away the standby takes it, and the other forgets it on its return.
    world.step(Input::Down { socket: FRONT, peer: id("other"), reason: DownReason::Closed });
    assert_eq!(real_schedule(&mut world, "f"), "own SCHEDULE 7");
    world.step(Input::Up { socket: FRONT, peer: id("other") });
    let sent = world.sent();
    assert!(!sent.is_empty() && sent.iter().all(|line| line.starts_with("other UNSCHEDULE ")), "{sent:?}");
}
