//! A job manager whose processes die one by one, while it lives.

use super::World;
use crate::broker::DownReason;

/// A settled job manager with its slots busy running jobs 0, 1, ...
fn busy(slots: usize, jobs: usize, headers: &str) -> World {
    let mut world = World::new();
    world.worker("w", "", slots);
    world.pass_alive(6.0, &["w"]);
    for n in 0..jobs {
        world.request("c", &n.to_string(), "default", headers);
    }
    world.sent();
    world
}

#[test]
fn c01_the_only_job_of_a_dead_process_is_lost_at_once() {
    let mut world = busy(1, 1, "reply-requested");
    world.ready("w");
    assert_eq!(world.sent(), ["c ERROR 0 ProcessDied"]);
    assert_eq!((world.count().lost, world.slots("w")), (1, 1));
}

#[test]
fn c01_the_job_that_does_not_reply_is_the_lost_one() {
    let mut world = busy(3, 3, "guarantee");
    world.ready("w");
    assert_eq!(world.slots("w"), 1, "the new process is free");
    world.done("w", "2");
    assert_eq!((world.slots("w"), world.count().retried), (2, 0));
    world.done("w", "0");
    assert_eq!(world.sent(), ["w REQUEST 1 default guarantee,reply-requested"], "run again");
    assert_eq!((world.slots("w"), world.count().retried), (2, 1));
    world.done("w", "1");
    assert_eq!((world.slots("w"), world.count().completed), (3, 3));
}

#[test]
fn c01_two_deaths_leave_two_lost_jobs() {
    let mut world = busy(3, 3, "");
    world.ready("w");
    world.request("c", "x", "default", "");
    world.ready("w");
    world.request("c", "y", "default", "");
    world.done("w", "0");
    world.done("w", "x");
    assert_eq!(world.count().lost, 2);
    assert_eq!(world.view("w").unwrap().in_flight.len(), 1, "the youngest never was a suspect");
    world.done("w", "y");
    assert_eq!((world.slots("w"), world.count().completed), (3, 3));
}

#[test]
fn c01_a_reconnection_makes_no_later_job_the_dead_one() {
    let mut world = busy(2, 2, "");
    world.ready("w");
    world.request("c", "young", "default", "guarantee");
    world.down("w", DownReason::Closed);
    world.up("w");
    world.done("w", "0");
    assert_eq!((world.count().lost, world.count().retried), (1, 0), "job 1 was with the process that died");
    world.done("w", "young");
    assert_eq!((world.count().completed, world.slots("w")), (2, 2));
}

#[test]
fn c01_with_a_free_slot_it_may_have_been_an_idle_process() {
    let mut world = busy(2, 1, "reply-requested");
    world.ready("w");
    assert_eq!(world.slots("w"), 1, "never more than there are processes");
    world.pass_alive(200.0, &["w"]);
    assert!(world.sent().is_empty());
    world.done("w", "0");
    assert_eq!(world.sent(), ["c RESULT 0 {\"value\": 1}"]);
    assert_eq!(world.slots("w"), 2);
}

#[test]
fn c01_a_suspect_is_given_up_when_no_job_could_take_so_long() {
    let mut world = busy(2, 1, "reply-requested");
    world.ready("w");
    world.pass_alive(301.0, &["w"]);
    assert_eq!(world.sent(), ["c ERROR 0 ProcessDied"]);
    assert_eq!(world.slots("w"), 2);
}

#[test]
fn c03_replies_and_readys_in_any_mixture_are_no_deaths() {
    let mut world = busy(2, 2, "");
    for job in ["0", "1"] {
        world.reply("w", job, "{\"value\": \"TimeoutError\"}");
    }
    world.pass_alive(30.0, &["w"]);
    world.ready("w");
    world.ready("w");
    assert_eq!((world.slots("w"), world.count().lost, world.count().failed), (2, 0, 2));
}
