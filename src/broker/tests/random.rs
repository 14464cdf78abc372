//! Whatever is sent in whatever order: nothing panics, and the parts agree after each step.

use proptest::prelude::*;
use zmtp::Message;

use super::World;
use super::world::{ADMIN, BACK, FRONT, id};
use crate::broker::{DownReason, Input, JobTracking, SocketId, UnknownQueue, Why};

const PEERS: [&str; 5] = ["a", "b", "c", "d", "\0e"];
const JOBS: [&str; 6] = ["1", "2", "3", "4", "5", "6"];
const QUEUES: [&str; 4] = ["default", "x", "y", "\u{0}z"];
const HEADERS: [&str; 7] = [
    "",
    "reply-requested",
    "guarantee",
    "retry-count:2",
    "timeout:3",
    "guarantee,retry-count:1,reply-requested",
    "timeout:",
];
const RESULTS: [&str; 3] = ["{\"value\": 1}", "{\"error\": 1}", "{\"value\": \"TimeoutError\"}"];
const LISTS: [&str; 5] = ["", "[[10, \"x\"], [10, \"y\"]]", "x,default", "[[1, \"default\"], [2, \"x\"]]", "[["];

#[derive(Debug, Clone)]
enum Act {
    Inform(usize, usize),
    InformScheduler(usize),
    Ready(usize),
    Request(usize, usize, usize, usize),
    Reply(usize, usize, usize),
    Beat(usize, bool),
    Kbye(usize, bool),
    Up(usize),
    Down(usize, bool),
    Undelivered(usize, bool),
    Admin(usize),
    Pass(u32),
    Jump(u32),
    Raw(u8, Vec<Vec<u8>>),
    Shutdown,
}

fn act() -> impl Strategy<Value = Act> {
    let peer = || 0..PEERS.len();
    prop_oneof![
        3 => (peer(), 0..LISTS.len()).prop_map(|(p, l)| Act::Inform(p, l)),
        1 => peer().prop_map(Act::InformScheduler),
        8 => peer().prop_map(Act::Ready),
        8 => (peer(), 0..JOBS.len(), 0..QUEUES.len(), 0..HEADERS.len()).prop_map(|(p, j, q, h)| Act::Request(p, j, q, h)),
        8 => (peer(), 0..JOBS.len(), 0..RESULTS.len()).prop_map(|(p, j, r)| Act::Reply(p, j, r)),
        3 => (peer(), any::<bool>()).prop_map(|(p, back)| Act::Beat(p, back)),
        1 => (peer(), any::<bool>()).prop_map(|(p, back)| Act::Kbye(p, back)),
        2 => peer().prop_map(Act::Up),
        2 => (peer(), any::<bool>()).prop_map(|(p, silent)| Act::Down(p, silent)),
        2 => (peer(), any::<bool>()).prop_map(|(p, full)| Act::Undelivered(p, full)),
        1 => (0..6usize).prop_map(Act::Admin),
        4 => (0..8000u32).prop_map(Act::Pass),
        1 => (0..40u32).prop_map(Act::Jump),
        1 => (0..4u8, proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..6), 1..8)).prop_map(|(s, f)| Act::Raw(s, f)),
        1 => Just(Act::Shutdown),
    ]
}

fn run(world: &mut World, act: Act) {
    match act {
        Act::Inform(p, l) => world.inform(PEERS[p], LISTS[l]),
        Act::InformScheduler(p) => world.receive(FRONT, PEERS[p], &[b"INFORM", b"", b"scheduler"]),
        Act::Ready(p) => world.ready(PEERS[p]),
        Act::Request(p, j, q, h) => world.request(PEERS[p], JOBS[j], QUEUES[q], HEADERS[h]),
        Act::Reply(p, j, r) => world.reply(PEERS[p], JOBS[j], RESULTS[r]),
        Act::Beat(p, back) => world.receive(if back { BACK } else { FRONT }, PEERS[p], &[b"HEARTBEAT"]),
        Act::Kbye(p, back) => world.receive(if back { BACK } else { FRONT }, PEERS[p], &[b"KBAI"]),
        Act::Up(p) => world.up(PEERS[p]),
        Act::Down(p, silent) => world.down(PEERS[p], if silent { DownReason::Silent } else { DownReason::Closed }),
        Act::Undelivered(p, full) => {
            if let Some(message) = world.messages_to(PEERS[p]).pop() {
                world.undelivered(PEERS[p], message, if full { Why::Full } else { Why::Gone });
            }
        }
        Act::Admin(n) => {
            let command = [
                "STATUS",
                "ROUTER_SHOW_WORKERS",
                "ROUTER_SHOW_SCHEDULERS",
                "ROUTER_SHOW_DEAD",
                "ROUTER_RETRY_DEAD",
                "HELLO",
            ][n];
            world.receive(ADMIN, "admin", &[command.as_bytes()]);
        }
        Act::Pass(millis) => world.pass(f64::from(millis) / 1000.0),
        Act::Jump(seconds) => {
            world.time += std::time::Duration::from_secs(seconds.into());
            world.step(Input::Tick);
        }
        Act::Raw(socket, frames) => {
            let message = Message::from_frames(frames);
            world.step(Input::Received { socket: SocketId(socket), from: id("raw"), message });
        }
        Act::Shutdown => world.step(Input::Shutdown),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_history_keeps_the_parts_in_step(
        hold in any::<bool>(), asked in any::<bool>(), acts in proptest::collection::vec(act(), 1..80)
    ) {
        let mut world = World::with(|config| {
            config.hwm = 3;
            config.unknown_queue = if hold { UnknownQueue::Hold } else { UnknownQueue::Default };
            config.tracking = if asked { JobTracking::Asked } else { JobTracking::All };
        });
        // A shutdown ends most of a history: let it come late.
        let (rest, ends): (Vec<_>, Vec<_>) = acts.into_iter().partition(|act| !matches!(act, Act::Shutdown));
        for act in rest.into_iter().chain(ends) {
            run(&mut world, act);
        }
        world.pass(30.0);
    }

    #[test]
    fn the_same_inputs_have_the_same_effects(acts in proptest::collection::vec(act(), 1..60)) {
        let lines = || {
            let mut world = World::new();
            let mut lines = Vec::new();
            for act in acts.clone() {
                run(&mut world, act);
                lines.extend(world.sent());
            }
            lines
        };
        prop_assert_eq!(lines(), lines());
    }
}
