//! Whatever is sent in whatever order: nothing panics, and the parts agree after each step.

use proptest::prelude::*;

use super::World;
use super::world::answer;
use crate::dispatch::Why;
use crate::mdp::core::{BridgeConfig, BridgeLink, Bridging, Effect, Input};
use crate::mdp::wire::{FromWorker, Part};

const PEERS: [&str; 5] = ["a", "b", "c", "d", "\0e"];
const SERVICES: [&str; 4] = ["s", "t", "mmi.service", "emq.q"];

#[derive(Debug, Clone)]
enum Act {
    Ready(usize, usize, bool),
    Request(usize, usize, bool),
    Reply(usize, usize, bool, bool),
    Beat(usize, bool),
    Leave(usize),
    Up(usize),
    Down(usize),
    Undelivered(bool),
    Link(bool),
    Pass(u32),
    Jump(u32),
    Purge,
    Raw(usize, Vec<Vec<u8>>),
    Shutdown,
}

fn act() -> impl Strategy<Value = Act> {
    let peer = || 0..PEERS.len();
    let service = || 0..SERVICES.len();
    prop_oneof![
        6 => (peer(), service(), any::<bool>()).prop_map(|(p, s, v)| Act::Ready(p, s, v)),
        8 => (peer(), service(), any::<bool>()).prop_map(|(p, s, v)| Act::Request(p, s, v)),
        8 => (peer(), peer(), any::<bool>(), any::<bool>()).prop_map(|(p, c, v, f)| Act::Reply(p, c, v, f)),
        4 => (peer(), any::<bool>()).prop_map(|(p, v)| Act::Beat(p, v)),
        1 => peer().prop_map(Act::Leave),
        2 => peer().prop_map(Act::Up),
        2 => peer().prop_map(Act::Down),
        1 => any::<bool>().prop_map(Act::Undelivered),
        1 => any::<bool>().prop_map(Act::Link),
        4 => (0..4000u32).prop_map(Act::Pass),
        1 => (0..40u32).prop_map(Act::Jump),
        1 => Just(Act::Purge),
        1 => (peer(), proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..6), 1..8)).prop_map(|(p, f)| Act::Raw(p, f)),
        1 => Just(Act::Shutdown),
    ]
}

fn run(world: &mut World, act: Act) {
    let worker = |world: &mut World, peer: usize, two: bool, command: FromWorker<'_>| {
        if two { world.worker2(PEERS[peer], &command) } else { world.worker(PEERS[peer], &command) }
    };
    match act {
        Act::Ready(p, s, two) => worker(world, p, two, FromWorker::Ready { service: SERVICES[s].as_bytes() }),
        Act::Request(p, s, true) => world.request2(PEERS[p], SERVICES[s], "x"),
        Act::Request(p, s, false) => world.request(PEERS[p], SERVICES[s], "x"),
        Act::Reply(p, c, two, last) => {
            let part = if last || !two { Part::Final } else { Part::Partial };
            worker(world, p, two, answer(part, PEERS[c], "y"));
        }
        Act::Beat(p, two) => worker(world, p, two, FromWorker::Heartbeat),
        Act::Leave(p) => worker(world, p, false, FromWorker::Disconnect),
        Act::Up(p) => world.up(PEERS[p]),
        Act::Down(p) => world.down(PEERS[p]),
        Act::Undelivered(full) => {
            if let Some(Effect::Send { to, message }) = world.effects.pop() {
                let why = if full { Why::Full } else { Why::Gone };
                world.step(Input::Undelivered { to, message, why });
            }
        }
        Act::Link(up) => world.bridge(if up { BridgeLink::Up } else { BridgeLink::Down }),
        Act::Pass(millis) => world.pass(f64::from(millis) / 1000.0),
        Act::Jump(seconds) => {
            world.time += std::time::Duration::from_secs(seconds.into());
            world.step(Input::Tick);
        }
        Act::Purge => world.step(Input::Purge),
        Act::Raw(p, frames) => {
            world.receive(PEERS[p], &frames.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        Act::Shutdown => world.step(Input::Shutdown),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_history_keeps_the_parts_in_step(bridge in any::<bool>(), acts in proptest::collection::vec(act(), 1..80)) {
        let mut world = World::with(|config| {
            config.max_waiting = 3;
            config.bridge = if bridge { Bridging::On(BridgeConfig { max_jobs: 2, ..Default::default() }) } else { Bridging::Off };
        });
        // A shutdown ends most of a history: let it come late.
        let (rest, ends): (Vec<_>, Vec<_>) = acts.into_iter().partition(|act| !matches!(act, Act::Shutdown));
        for act in rest.into_iter().chain(ends) {
            run(&mut world, act);
        }
        world.pass(1000.0);
        // What does not answer keeps its request, as a worker may; nothing else is left.
        let left = world.core.services();
        prop_assert!(world.core.deadline().is_none() || left.iter().all(|s| (s.waiting, s.idle) == (0, 0)));
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
