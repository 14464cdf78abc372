//! Which worker, which job.

use super::World;
use crate::broker::{DownReason, UnknownQueue};

fn requests(world: &mut World) -> Vec<String> {
    let word = |line: &String, n: usize| line.split(' ').nth(n).unwrap().to_owned();
    let sent = world.sent();
    sent.iter().filter(|line| line.contains(" REQUEST ")).map(|line| word(line, 0) + " " + &word(line, 2)).collect()
}

#[test]
fn a24_weights_then_age() {
    let mut world = World::with(|config| config.unknown_queue = UnknownQueue::Hold);
    for (job, queue) in [("l1", "low"), ("h1", "high"), ("l2", "low"), ("h2", "high")] {
        world.request("c", job, queue, "");
    }
    world.worker("w", "[[10, \"low\"], [30, \"high\"]]", 4);
    assert_eq!(requests(&mut world), ["w h1", "w h2", "w l1", "w l2"]);
}

#[test]
fn a24_an_unknown_queue_is_the_default_with_its_frame_unchanged() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.sent();
    world.request("c", "a", "email", "reply-requested");
    assert_eq!(world.sent()[0], "w REQUEST a email reply-requested");

    let mut world = World::with(|config| config.unknown_queue = UnknownQueue::Hold);
    world.worker("w", "", 1);
    world.request("c", "a", "email", "");
    assert_eq!(requests(&mut world), [""; 0]);
    world.worker("e", "[[1, \"email\"]]", 1);
    assert_eq!(requests(&mut world), ["e a"]);
}

#[test]
fn a24_jobs_of_a_queue_whose_workers_left_are_not_stranded() {
    let mut world = World::new();
    world.worker("w", "", 2);
    world.inform("e", "[[1, \"email\"]]");
    world.request("c", "a", "email", "");
    assert_eq!(requests(&mut world), [""; 0], "an email worker is there, only busy");
    world.down("e", DownReason::Closed);
    world.pass_alive(4.0, &["w"]);
    assert_eq!(requests(&mut world), [""; 0], "it may come back");
    world.pass_alive(2.0, &["w"]);
    assert_eq!(requests(&mut world), ["w a"]);
    world.request("c", "b", "email", "");
    assert_eq!(requests(&mut world), ["w b"]);
}

#[test]
fn a24_informing_thrice_is_one_registration_and_kbye_ends_it() {
    let mut world = World::new();
    for _ in 0..3 {
        world.inform("w", "[[10, \"a\"], [20, \"a\"], [5, \"b\"]]");
    }
    world.ready("w");
    assert_eq!(world.sent().len(), 3, "each is acknowledged");
    let report = world.admin("ROUTER_SHOW_WORKERS", &[]);
    assert_eq!(report["connected_queues"].to_string(), r#"{"a":[[20,"w"]],"b":[[5,"w"]]}"#);
    assert_eq!(report["connected_workers"]["w"]["available_slots"], 1);
    world.kbye("w");
    let report = world.admin("ROUTER_SHOW_WORKERS", &[]);
    assert_eq!(report["connected_workers"].to_string() + &report["connected_queues"].to_string(), "{}{}");
}

#[test]
fn c08_least_recently_used_among_equals_and_never_more_than_the_slots() {
    let mut world = World::new();
    world.worker("a", "", 2);
    world.worker("b", "", 1);
    for n in 0..5 {
        world.request("c", &n.to_string(), "default", "");
    }
    assert_eq!(requests(&mut world), ["a 0", "b 1", "a 2"]);
    world.done("b", "1");
    assert_eq!(requests(&mut world), ["b 3"]);
    world.done("b", "3");
    assert_eq!(requests(&mut world), ["b 4"], "short jobs flow past the long ones");
}

#[test]
fn the_heavier_worker_comes_first() {
    let mut world = World::new();
    world.worker("light", "[[10, \"default\"]]", 1);
    world.worker("heavy", "[[20, \"default\"]]", 2);
    for n in 0..3 {
        world.request("c", &n.to_string(), "default", "");
    }
    assert_eq!(requests(&mut world), ["heavy 0", "heavy 1", "light 2"]);
}

#[test]
fn c10_weights_are_strict_and_a_queue_with_its_own_worker_never_starves() {
    let mut world = World::new();
    world.worker("both", "[[30, \"high\"], [10, \"low\"]]", 1);
    world.request("c", "busy", "high", "");
    for n in 0..6 {
        world.request("c", &format!("l{n}"), "low", "");
        world.request("c", &format!("h{n}"), "high", "");
    }
    world.sent();
    let mut order = vec![];
    let mut running = "busy".to_owned();
    for _ in 0..6 {
        world.done("both", &running);
        running = requests(&mut world)[0][5..].to_owned();
        order.push(running.clone());
    }
    assert_eq!(order, ["h0", "h1", "h2", "h3", "h4", "h5"]);
    world.worker("own", "[[1, \"low\"]]", 1);
    assert_eq!(requests(&mut world), ["own l0"]);
}

#[test]
fn a_silent_worker_gets_jobs_only_if_there_is_no_other() {
    let mut world = World::new();
    world.worker("quiet", "", 2);
    world.worker("loud", "", 1);
    world.request("c", "a", "default", "");
    world.request("c", "b", "default", "");
    assert_eq!(requests(&mut world), ["quiet a", "loud b"]);
    world.pass_alive(6.0, &["loud"]);
    world.request("c", "d", "default", "");
    assert_eq!(requests(&mut world), [""; 0], "the other is only busy");
    world.down("loud", DownReason::Closed);
    assert_eq!(requests(&mut world), ["quiet d"], "better than none");
}

#[test]
fn a04_an_identity_that_says_nothing_gets_nothing_and_its_jobs_move_on() {
    let mut world = World::new();
    world.worker("old", "", 2);
    world.request("c", "a", "default", "guarantee");
    world.worker("new", "", 2);
    world.sent();
    world.pass_alive(6.0, &["new"]);
    for n in 0..3 {
        world.request("c", &n.to_string(), "default", "");
    }
    assert_eq!(requests(&mut world), ["new 0", "new 1"]);
    world.pass_alive(10.0, &["new"]);
    assert!(world.view("old").is_none());
    world.done("new", "0");
    assert_eq!(requests(&mut world), ["new a"], "older than what waited");
}

#[test]
fn settings_read_again_count_from_then_on() {
    let mut world = World::new();
    world.request("c", "a", "email", "");
    world.worker("w", "[[1, \"other\"]]", 1);
    assert_eq!(requests(&mut world), [""; 0]);
    let mut config = super::world::config();
    config.default_queue = "other".into();
    config.hwm = 0;
    world.step(crate::broker::Input::Reconfigure(Box::new(config)));
    assert_eq!(requests(&mut world), ["w a"], "what waited in the old default queue, which nobody serves");
    world.request("c", "d", "email", "");
    assert_eq!(world.sent(), ["c ERROR d QueueFull"]);
}
