//! Reports and the polite end.

use serde_json::json;

use super::World;
use super::world::{ADMIN, BACK, FRONT};
use crate::broker::{DownReason, Input};

#[test]
fn status_has_the_keys_emq_cli_knows_and_ours() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "");
    world.request("c", "b", "nosuch", "");
    world.pass_alive(2.0, &["w"]);
    let status = world.admin("STATUS", &[]);
    assert_eq!(status["inflight_messages_by_queue"], json!({"default": 1}));
    assert_eq!(status["latency_messages_by_queue"], json!({"default": 2000}));
    assert_eq!(status["max_latency_messages_by_queue"], json!({"default": 2000}));
    assert_eq!(status["waiting_messages_by_queue"], json!({"default": 1}));
    assert_eq!(status["processed_messages_by_queue"], json!({"default": 1}));
    assert_eq!(status["processed_messages_by_worker"], json!({"w": 1}));
    for key in ["accepted", "dispatched", "completed", "failed", "lost", "retried", "dead", "refused"] {
        assert!(status[key].is_u64(), "{key}");
    }
    for key in ["late_replies", "malformed", "unknown_senders"] {
        assert!(status[key].is_u64(), "{key}");
    }
    assert_eq!((&status["accepted"], &status["uptime"]), (&json!(2), &json!(2.0)));
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn counts_of_those_that_left_are_kept_for_a_while() {
    let mut world = World::new();
    for n in 0..300 {
        let (worker, job) = (format!("w{n}"), n.to_string());
        world.worker(&worker, "", 1);
        world.request("c", &job, "default", "");
        world.reply(&worker, &job, "{}");
        world.kbye(&worker);
        world.down(&worker, DownReason::Closed);
    }
    let status = world.admin("STATUS", &[]);
    assert_eq!(status["processed_messages_by_worker"].as_object().unwrap().len(), 256);
    assert_eq!(status["processed_messages_by_queue"], json!({"default": 300}));
}

#[test]
fn workers_and_schedulers_are_listed() {
    let mut world = World::new();
    world.worker("w", "[[20, \"a\"], [10, \"b\"]]", 2);
    world.receive(FRONT, "s", &[b"INFORM", b"", b"scheduler"]);
    world.pass_alive(1.0, &["w"]);
    let workers = world.admin("ROUTER_SHOW_WORKERS", &[]);
    let w = &workers["connected_workers"]["w"];
    assert_eq!(
        (&w["queues"], &w["available_slots"], &w["hb"]),
        (&json!([[20, "a"], [10, "b"]]), &json!(2), &json!(1.0))
    );
    assert_eq!(workers["connected_queues"], json!({"a": [[20, "w"]], "b": [[10, "w"]]}));
    assert_eq!(world.admin("ROUTER_SHOW_SCHEDULERS", &[]), json!({"connected_schedulers": {"s": {"hb": 0.0}}}));
}

#[test]
fn a06_a_polite_end_lets_jobs_finish_and_reports_the_rest() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.receive(FRONT, "s", &[b"INFORM", b"", b"scheduler"]);
    world.request("c", "a", "default", "reply-requested");
    world.request("c", "b", "default", "reply-requested");
    world.request("c", "d", "default", "");
    world.sent();
    world.receive(ADMIN, "cli", &[b"DISCONNECT"]);
    assert_eq!(world.sent(), ["cli ACK 4", "s KBYE", "unbind 0", "w KBYE"]);
    world.request("c", "e", "default", "");
    assert_eq!(world.sent(), ["c ERROR e ShuttingDown"]);
    world.pass_alive(10.0, &["w"]);
    world.reply("w", "a", "{\"value\": 1}");
    assert_eq!(world.sent(), ["c RESULT a {\"value\": 1}", "c ERROR b ShuttingDown", "Stop"]);
    let snapshot = world.broker.snapshot();
    assert!(snapshot.stopped);
    assert_eq!(snapshot.jobs.len(), 2, "neither thrown away nor run");
    world.request("c", "f", "default", "");
    assert!(world.sent().is_empty());
}

#[test]
fn a06_running_jobs_have_the_grace_period() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.request("c", "a", "default", "reply-requested,guarantee");
    world.step(Input::Shutdown);
    world.sent();
    world.pass_alive(19.0, &["w"]);
    assert!(world.sent().is_empty());
    world.pass_alive(2.0, &["w"]);
    assert_eq!(world.sent(), ["c ERROR a ShuttingDown", "Stop"]);
}

#[test]
fn a06_with_nothing_running_the_end_is_at_once() {
    let mut world = World::new();
    world.worker("w", "", 1);
    world.sent();
    world.step(Input::Shutdown);
    assert_eq!(world.sent(), ["unbind 0", "w KBYE", "Stop"]);
}

#[test]
fn commands_count_only_on_a_socket_with_their_role() {
    let mut world = World::new();
    world.receive(BACK, "x", &[b"STATUS"]);
    world.receive(FRONT, "x", &[b"DISCONNECT"]);
    world.receive(BACK, "x", &[b"REQUEST", b"default", b"", b"{}"]);
    world.receive(FRONT, "x", &[b"READY"]);
    world.receive(ADMIN, "x", &[b"INFORM", b"", b"worker"]);
    world.receive(FRONT, "x", &[b"PUBLISH", b"t", b"m"]);
    world.receive(ADMIN, "x", &[b"HELLO"]);
    assert!(world.sent().is_empty());
    assert_eq!(world.count().malformed, 6);
    let mut world = World::with(|config| {
        let all = crate::broker::Roles { frontend: true, backend: true, admin: true };
        config.sockets = vec![all];
    });
    for frames in [&[&b"INFORM"[..], b"", b"worker"][..], &[b"READY"], &[b"STATUS"]] {
        world.receive(FRONT, "w", frames);
    }
    world.request("c", "a", "default", "");
    assert_eq!(world.count().malformed, 0);
    assert_eq!(world.slots("w"), 0);
}
