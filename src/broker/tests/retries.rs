//! Failures, retries, timeouts, dead jobs.

use std::time::Duration;

use super::World;
use crate::broker::JobPlace;

const FAILED: &str = "{\"value\": \"x\", \"error\": {\"type\": \"ValueError\"}}";
const TIMEOUT: &str = "{\"value\": \"TimeoutError\"}";

fn fail(world: &mut World, worker: &str, job: &str, result: &str) {
    world.reply(worker, job, result);
    world.ready(worker);
}

#[test]
fn a20_retry_count_three_is_four_attempts_and_then_dead() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "retry-count:3,reply-requested");
    world.sent();
    for attempt in 0..3 {
        fail(&mut world, "w", "a", if attempt == 1 { TIMEOUT } else { FAILED });
        assert!(world.sent().is_empty(), "not the end yet");
        let JobPlace::Delayed(_) = world.broker.snapshot().jobs[0].place else { panic!("not delayed") };
        world.pass_alive(f64::from(1 << attempt), &["w"]);
        assert_eq!(world.sent(), ["w REQUEST a default retry-count:3,reply-requested"]);
    }
    fail(&mut world, "w", "a", FAILED);
    assert_eq!(world.sent(), ["c ERROR a ValueError"]);
    assert_eq!((world.count().retried, world.count().dead, world.count().dispatched), (3, 1, 4));
    assert_eq!(world.broker.snapshot().dead[0].deliveries, 4);
}

#[test]
fn backoff_doubles_up_to_its_limit_and_varies_a_little() {
    let mut world = World::with(|config| config.retry_backoff_max = Duration::from_secs(4));
    world.worker("w", "", 1);
    world.request("c", "a", "default", "retry-count:9");
    for expected in [1.0, 2.0, 4.0, 4.0] {
        fail(&mut world, "w", "a", FAILED);
        world.sent();
        world.pass_alive(expected * 0.75 - 0.001, &["w"]);
        assert!(world.sent().is_empty());
        world.pass_alive(expected * 0.25 + 0.001, &["w"]);
        assert_eq!(world.sent().len(), 1);
    }
}

#[test]
fn a_retry_that_succeeds_is_one_result() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "retry-count:1,reply-requested");
    fail(&mut world, "w", "a", FAILED);
    world.pass_alive(1.0, &["w"]);
    world.sent();
    world.done("w", "a");
    assert_eq!(world.sent(), ["c RESULT a {\"value\": 1}"]);
    assert_eq!((world.count().completed, world.count().dead), (1, 0));
}

#[test]
fn a_guaranteed_job_that_fails_without_retries_is_dead() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.sent();
    world.request("c", "a", "default", "guarantee,reply-requested");
    fail(&mut world, "w", "a", FAILED);
    assert_eq!(world.sent().last().unwrap(), "c ERROR a ValueError");
    assert_eq!((world.count().failed, world.count().completed, world.count().dead), (0, 0, 1));
}

#[test]
fn c06_the_broker_gives_a_hung_job_up_after_timeout_and_grace() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "timeout:2,reply-requested,guarantee");
    world.sent();
    world.pass_alive(11.9, &["w"]);
    assert!(world.sent().is_empty());
    world.pass_alive(0.2, &["w"]);
    assert_eq!(world.sent(), ["c ERROR a Timeout"]);
    assert_eq!((world.slots("w"), world.count().dead), (0, 1), "its process is still busy");
    world.done("w", "a");
    assert!(world.sent().is_empty());
    assert_eq!((world.slots("w"), world.count().late_replies), (1, 1));
}

#[test]
fn c06_a_timeout_uses_a_retry() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.worker("v", "", 1);
    world.request("c", "a", "default", "timeout:2,retry-count:1");
    world.pass_alive(14.0, &["w", "v"]);
    assert_eq!(world.view("v").unwrap().in_flight.len(), 1);
    world.pass_alive(14.0, &["w", "v"]);
    assert_eq!((world.count().retried, world.count().dead), (1, 1));
    assert_eq!(world.broker.snapshot().dead[0].reason, crate::broker::DeadReason::TimedOut);
    assert!(world.view("w").unwrap().in_flight.is_empty());
}

#[test]
fn dead_jobs_are_bounded_and_can_run_again() {
    let mut world = World::with(|config| config.dead_limit = 2);
    world.worker("w", "", 1);
    for job in ["a", "b", "d"] {
        world.request("c", job, "default", "retry-count:1");
        fail(&mut world, "w", job, FAILED);
        world.pass_alive(1.0, &["w"]);
        fail(&mut world, "w", job, FAILED);
    }
    let dead = world.admin("ROUTER_SHOW_DEAD", &[]);
    assert_eq!((dead.as_array().unwrap().len(), &dead[0]["msgid"], &dead[1]["msgid"]), (2, &"b".into(), &"d".into()));
    assert_eq!(dead[0]["reason"], "failed");
    assert_eq!(world.admin("ROUTER_RETRY_DEAD", &["nope"])["requeued"], 0);
    assert_eq!(world.admin("ROUTER_RETRY_DEAD", &["d"])["requeued"], 1);
    world.done("w", "d");
    world.request("c", "b", "default", "");
    assert_eq!(world.admin("ROUTER_RETRY_DEAD", &[])["requeued"], 0, "its id is taken by a new one");
    world.done("w", "b");
    assert_eq!(world.admin("ROUTER_RETRY_DEAD", &[])["requeued"], 1);
    world.done("w", "b");
    assert_eq!(world.count().completed, 3);
}

#[test]
fn a_late_failure_does_not_use_another_retry() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "retry-count:2");
    fail(&mut world, "w", "a", FAILED);
    world.reply("w", "a", FAILED);
    assert_eq!((world.count().retried, world.count().late_replies), (1, 1));
    assert_eq!(world.broker.snapshot().jobs[0].retries, 1);
}
