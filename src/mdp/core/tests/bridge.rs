//! Requests for `emq.QUEUE`.

use std::time::Duration;

use zmtp::Message;

use super::World;
use crate::emqp::{Command, Envelope, Reply};
use crate::mdp::core::{BridgeConfig, BridgeLink, Bridging, Effect, Input};

fn bridged(jobs: usize) -> World {
    let mut world = World::with(|config| {
        config.bridge = Bridging::On(BridgeConfig { job_timeout: Duration::from_secs(60), max_jobs: jobs });
    });
    world.bridge(BridgeLink::Up);
    world
}

/// The eMQP message submitted last.
fn submitted(world: &mut World) -> Message {
    let Some(Effect::Submit(message)) = world.effects.pop() else { panic!("nothing submitted") };
    message
}

fn result_of(job: &Message, result: &[u8]) -> Input {
    let Envelope { msgid, .. } = Envelope::parse(job).unwrap();
    let reply = Command::Reply(Reply::Result { result, request: msgid.clone() });
    Input::FromBridge(reply.to_message(&msgid))
}

#[test]
fn a_request_becomes_a_job_and_its_result_the_reply() {
    let mut world = bridged(10);
    world.request("c", "emq.email", "[\"run\", {}]");
    let job = submitted(&mut world);
    let Command::Request(request) = Envelope::parse(&job).unwrap().command else { panic!("no REQUEST") };
    assert_eq!((request.queue, request.headers.0), (&b"email"[..], &b"reply-requested"[..]));
    assert_eq!(job.frame(6).unwrap(), b"[\"run\", {}]");
    world.step(result_of(&job, b"{\"value\": 3}"));
    assert_eq!(world.sent(), ["c: MDPC01|emq.email|{\\\"value\\\": 3}"]);
    world.step(result_of(&job, b"{\"value\": 3}"));
    assert!(world.sent().is_empty(), "one result, one reply");
    assert_eq!((world.core.counters().jobs, world.core.counters().results), (1, 1));
}

#[test]
fn two_frames_are_headers_and_message() {
    let mut world = bridged(10);
    world.receive("c", &[b"MDPC02", b"\x01", b"emq.q", b"guarantee,timeout:5", b"m"]);
    let job = submitted(&mut world);
    assert_eq!(job.frame(5).unwrap(), b"guarantee,timeout:5,reply-requested");
    world.step(result_of(&job, b"r"));
    assert_eq!(world.sent(), ["c: MDPC02|\\x03|emq.q|r"]);
}

#[test]
fn what_cannot_be_a_job_is_answered_with_an_error() {
    let mut world = bridged(10);
    world.request("c", "emq.", "m");
    world.receive("c", &[b"", b"MDPC01", b"emq.q", b"", b"m", b"more"]);
    world.receive("c", &[b"", b"MDPC01", b"emq.q", b"timeout:soon", b"m"]);
    let lines = world.sent();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line.contains("\\\"error\\\"") && line.contains("Malformed")), "{lines:?}");
}

#[test]
fn mmi_tells_whether_the_other_broker_is_there() {
    let mut world = bridged(10);
    world.request("c", "mmi.service", "emq.any");
    world.bridge(BridgeLink::Down);
    world.request("c", "mmi.service", "emq.any");
    assert_eq!(world.sent(), ["c: MDPC01|mmi.service|200", "c: MDPC01|mmi.service|404"]);
    world.ready("w", "emq.any");
    assert_eq!(world.sent(), ["w: MDPW01|\\x05"], "the name is taken");
}

#[test]
fn jobs_under_way_are_bounded_in_number_and_time() {
    let mut world = bridged(2);
    let jobs: Vec<_> = (0..3)
        .map(|_| {
            world.request("c", "emq.q", "m");
            submitted(&mut world)
        })
        .collect();
    world.step(result_of(&jobs[0], b"r"));
    assert!(world.sent().is_empty(), "the oldest was forgotten");
    world.step(result_of(&jobs[2], b"r"));
    assert_eq!(world.sent().len(), 1);
    world.pass(61.0);
    assert_eq!((world.core.counters().jobs_lost, world.core.deadline()), (2, None));
    world.request("c", "emq.q", "m");
    let job = submitted(&mut world);
    world.step(Input::Unsubmitted(job));
    assert_eq!(world.core.counters().jobs_lost, 3);
}

#[test]
fn without_a_bridge_the_name_is_any_other() {
    let mut world = World::new();
    world.ready("w", "emq.q");
    world.request("c", "emq.q", "m");
    assert_eq!(world.sent(), ["w: MDPW01|\\x02|c||m"]);
}
