use super::*;
use crate::emqp::{Outcome, Request};

const SECOND: Duration = Duration::from_secs(1);

fn config(slots: usize) -> CoreConfig {
    CoreConfig {
        slots,
        jobs_per_runner: None,
        default_timeout: Some(300 * SECOND),
        terminate_grace: SECOND / 2,
        drain_grace: 60 * SECOND,
    }
}

/// A core and what it wants, at a time that only the test moves.
struct World {
    core: Core,
    now: Now,
    effects: Vec<Effect>,
}

impl World {
    /// A core whose first runners are up, and which is registered.
    fn new(config: CoreConfig) -> Self {
        let now = Now { mono: Instant::now(), wall: std::time::SystemTime::UNIX_EPOCH };
        let mut world = Self { core: Core::new(config), now, effects: Vec::new() };
        world.step(Input::Tick);
        world.up_all();
        world.step(Input::Registered);
        assert_eq!(world.readies(), config.slots);
        world.effects.clear();
        world
    }

    fn step(&mut self, input: Input) {
        self.core.step(self.now, input, &mut self.effects);
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now.mono + time;
        while let Some(due) = self.core.deadline().filter(|due| *due <= end) {
            assert!(due >= self.now.mono, "a deadline in the past");
            self.now.mono = due;
            self.step(Input::Tick);
            assert_ne!(self.core.deadline(), Some(due), "a deadline that stays");
        }
        self.now.mono = end;
    }

    /// Runners ordered to start come up.
    fn up_all(&mut self) {
        let starting: Vec<_> =
            self.core.runners.iter().filter(|(_, r)| matches!(r.state, State::Starting)).map(|(id, _)| *id).collect();
        starting.into_iter().for_each(|id| self.step(Input::Up(id)));
    }

    fn request(&mut self, id: &str, headers: &str) {
        let message = Request::build(&MsgId::new(id).unwrap(), b"default", headers.as_bytes(), b"[\"run\", {}]");
        self.step(Input::Delivered(message));
    }

    fn readies(&self) -> usize {
        self.effects.iter().filter(|effect| **effect == Effect::Ready).count()
    }

    fn orders(&self, wanted: &Order) -> Vec<RunnerId> {
        let order = |effect: &Effect| match effect {
            Effect::Order(id, order) if order == wanted => Some(*id),
            _ => None,
        };
        self.effects.iter().filter_map(order).collect()
    }

    /// The runner that was given a job.
    fn runner_of(&self, job: &str) -> Option<RunnerId> {
        self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Order(id, Order::Run(given)) if given.msgid.as_bytes() == job.as_bytes() => Some(*id),
            _ => None,
        })
    }

    fn replies(&self) -> Vec<(String, serde_json::Value)> {
        let reply = |effect: &Effect| match effect {
            Effect::Reply { msgid, result } => Some((msgid.to_string(), serde_json::from_slice(result).unwrap())),
            _ => None,
        };
        self.effects.iter().filter_map(reply).collect()
    }

    fn done(&mut self, job: &str) {
        let runner = self.runner_of(job).unwrap();
        self.step(Input::Done { runner, end: JobEnd::success(Bytes::from_static(b"{\"value\": 1}")) });
    }

    fn gone(&mut self, runner: RunnerId, exit: Exit) {
        self.step(Input::Gone { runner, exit });
    }
}

#[test]
fn the_reply_then_ready_the_moment_a_job_ends() {
    let mut world = World::new(config(2));
    world.request("a", "reply-requested");
    world.request("b", "");
    world.effects.retain(|effect| matches!(effect, Effect::Order(_, Order::Run(_))));
    world.done("a");
    let tail: Vec<_> = world.effects.iter().skip(2).collect();
    assert!(matches!(tail[..], [Effect::Reply { .. }, Effect::Ready]), "{tail:?}");
    world.done("b");
    assert_eq!((world.replies().len(), world.readies()), (1, 2), "a reply only to whom asked");
}

#[test]
fn more_jobs_than_slots_wait_and_none_is_lost() {
    let mut world = World::new(config(1));
    for job in ["a", "b", "c"] {
        world.request(job, "reply-requested");
    }
    assert_eq!(world.runner_of("b"), None);
    for job in ["a", "b", "c"] {
        assert_eq!(world.readies(), 0, "the broker is ahead already");
        world.done(job);
    }
    assert_eq!((world.replies().len(), world.readies()), (3, 1));
}

#[test]
fn a03_what_is_no_proper_job_fails_and_the_slot_is_back() {
    let mut world = World::new(config(1));
    world.step(Input::Delivered(Message::from_frames(["", "eMQP/1.0", "REQUEST", "j1", "default"])));
    world.request("j2", "reply-requested,timeout:abc");
    world.request("j3", "timeout:abc");
    let replies = world.replies();
    assert_eq!(replies.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["j1", "j2"]);
    for (_, result) in replies {
        assert_eq!(result["error"]["type"], "Malformed");
        assert_eq!(Outcome::of(&serde_json::to_vec(&result).unwrap()), Outcome::Failed);
    }
    assert_eq!(world.readies(), 3);
    world.request("good", "");
    assert!(world.runner_of("good").is_some());
}

#[test]
fn a15_a_job_past_its_timeout_is_ended_and_reported_once_it_is_gone() {
    let mut world = World::new(config(1));
    world.request("slow", "reply-requested,timeout:2");
    let runner = world.runner_of("slow").unwrap();
    world.pass(SECOND * 2);
    assert_eq!(world.orders(&Order::Terminate), [runner]);
    assert_eq!(world.replies(), []);
    world.pass(SECOND);
    assert_eq!(world.orders(&Order::Kill), [runner]);
    world.gone(runner, Exit::Signal(9));
    let [(id, result)] = &world.replies()[..] else { panic!() };
    assert_eq!((id.as_str(), &result["value"]), ("slow", &"TimeoutError".into()));
    assert_eq!(result["error"]["type"], "TimeoutError");
    assert_eq!(world.readies(), 0, "the successor is not up yet");
    world.up_all();
    assert_eq!(world.readies(), 1);
}

#[test]
fn a_job_that_answers_its_termination_still_timed_out() {
    let mut world = World::new(config(1));
    world.request("deaf", "reply-requested,timeout:1");
    let runner = world.runner_of("deaf").unwrap();
    world.pass(SECOND);
    world.done("deaf");
    assert_eq!(world.orders(&Order::Kill), [runner]);
    world.gone(runner, Exit::Signal(9));
    assert_eq!(world.replies()[0].1["value"], "TimeoutError");
    assert_eq!(world.replies().len(), 1);
}

#[test]
fn the_global_timeout_is_for_jobs_without_their_own() {
    let mut world = World::new(config(2));
    world.request("a", "timeout:0");
    world.request("b", "timeout:400");
    world.pass(SECOND * 300);
    assert_eq!(world.orders(&Order::Terminate), [world.runner_of("a").unwrap()]);
}

#[test]
fn a_worker_that_dies_fails_its_job_and_no_slot_is_lost() {
    for (exit, text) in [(Exit::Status(3), "exit status 3"), (Exit::Signal(11), "signal 11 (SIGSEGV)")] {
        let mut world = World::new(config(1));
        world.request("j", "reply-requested");
        let runner = world.runner_of("j").unwrap();
        world.gone(runner, exit);
        let result = &world.replies()[0].1;
        assert_eq!(result["error"]["type"], "ProcessDied");
        assert!(result["error"]["message"].as_str().unwrap().contains(text), "{result}");
        assert_eq!(world.orders(&Order::Start).len(), 1);
        world.up_all();
        assert_eq!(world.readies(), 1);
    }
}

#[test]
fn an_idle_worker_that_dies_costs_no_ready_twice() {
    let mut world = World::new(config(1));
    world.gone(RunnerId(0), Exit::Signal(9));
    world.request("early", "");
    assert_eq!(world.runner_of("early"), None);
    world.pass(FIRST_PAUSE);
    world.up_all();
    assert!(world.runner_of("early").is_some(), "it waited for the successor");
    assert_eq!(world.readies(), 0);
}

#[test]
fn a13_the_successor_starts_while_the_last_job_runs() {
    let mut world = World::new(CoreConfig { jobs_per_runner: Some(2), ..config(1) });
    world.request("a", "");
    world.done("a");
    assert_eq!(world.orders(&Order::Start), []);
    world.request("b", "");
    assert_eq!(world.orders(&Order::Start).len(), 1);
    world.up_all();
    assert_eq!(world.readies(), 1, "only the one after a: one slot, one job at a time");
    world.done("b");
    assert_eq!(world.orders(&Order::Retire), [RunnerId(0)]);
    assert_eq!(world.readies(), 2);
    world.pass(RETIRE_GRACE);
    assert_eq!(world.orders(&Order::Kill), [RunnerId(0)], "one that will not go");
}

#[test]
fn workers_that_will_not_start_are_tried_again_with_pauses() {
    let mut core = Core::new(config(4));
    let mut world = World::new(config(4));
    std::mem::swap(&mut core, &mut world.core);
    world.step(Input::Tick);
    let broken = || Exit::Failed("no module named setup".into());
    for id in world.orders(&Order::Start) {
        world.gone(id, broken());
    }
    for _ in 0..60 {
        world.pass(SECOND * 10);
        let last = *world.orders(&Order::Start).last().unwrap();
        world.gone(last, broken());
    }
    let starts = world.orders(&Order::Start).len();
    assert!((20..40).contains(&starts), "{starts} starts in 10 minutes");
    world.pass(SECOND * 30);
    world.up_all();
    assert_eq!(world.core.runners.len(), 4, "once one is up, so are the others");
}

#[test]
fn results_wait_for_the_broker() {
    let mut world = World::new(config(2));
    world.request("a", "reply-requested");
    world.step(Input::Lost);
    world.done("a");
    assert_eq!((world.replies().len(), world.readies()), (0, 0));
    world.step(Input::Registered);
    assert_eq!((world.replies().len(), world.readies()), (1, 2));
}

#[test]
fn a_shutdown_finishes_replies_and_leaves() {
    let mut world = World::new(config(2));
    world.request("a", "reply-requested");
    world.step(Input::Shutdown);
    assert!(world.effects.contains(&Effect::Leave));
    world.request("crossed", "reply-requested");
    world.pass(SECOND);
    world.done("a");
    assert!(!world.effects.contains(&Effect::Stop));
    world.done("crossed");
    assert_eq!((world.replies().len(), world.readies()), (2, 0));
    assert_eq!(world.effects.last(), Some(&Effect::Stop));
    let mut idle = World::new(config(2));
    idle.step(Input::Shutdown);
    assert!(!idle.effects.contains(&Effect::Stop), "a job may be on its way");
    idle.pass(LAST_CALL);
    assert_eq!(idle.effects.last(), Some(&Effect::Stop));
}

#[test]
fn a_shutdown_does_not_wait_for_ever() {
    let mut world = World::new(config(1));
    world.request("endless", "reply-requested,timeout:1000");
    world.request("behind", "reply-requested");
    world.step(Input::Shutdown);
    world.pass(SECOND * 60);
    let runner = world.runner_of("endless").unwrap();
    assert_eq!(world.orders(&Order::Kill), [runner]);
    world.gone(runner, Exit::Signal(9));
    assert_eq!(world.replies(), [], "the broker's rule for lost workers applies");
    assert_eq!(world.effects.last(), Some(&Effect::Stop));
}

#[test]
fn new_settings_replace_every_worker() {
    let mut world = World::new(config(3));
    world.request("long", "reply-requested");
    world.step(Input::Reconfigure(config(2)));
    assert_eq!(world.orders(&Order::Retire).len(), 2);
    assert_eq!(world.orders(&Order::Start).len(), 2);
    world.up_all();
    world.done("long");
    assert_eq!(world.replies().len(), 1);
    assert_eq!(world.orders(&Order::Retire).len(), 3);
    world.request("next", "");
    assert!(world.runner_of("next").unwrap() > RunnerId(2));
}

/// Anything may happen in any order: slots are neither lost nor made up, and every job that asked has one reply.
#[test]
fn no_slot_is_lost_whatever_happens() {
    let mut random = crate::emqp::MsgIds::new(11);
    for _ in 0..200 {
        let mut world = World::new(CoreConfig { jobs_per_runner: Some(3), ..config(3) });
        let mut jobs = 0;
        for _ in 0..200 {
            let runners: Vec<_> = world.core.runners.keys().copied().collect();
            let any = |n: u64| runners.get(usize::try_from(n).unwrap() % runners.len().max(1)).copied();
            let (what, which) = (random.next_u64() % 9, any(random.next_u64() % 1000));
            match (what, which) {
                (0..=2, _) if world.core.advertised > 0 => {
                    jobs += 1;
                    world.request(&format!("job{jobs}"), "reply-requested,timeout:5");
                }
                (3 | 4, Some(runner)) => {
                    world.step(Input::Done { runner, end: JobEnd::success(Bytes::from_static(b"{}")) });
                }
                (5, Some(runner)) => world.gone(runner, Exit::Signal(9)),
                (6, _) => world.up_all(),
                (7, _) => world.pass(SECOND),
                (8, _) => {
                    world.step(Input::Lost);
                    world.step(Input::Registered);
                }
                _ => {}
            }
            assert!(world.core.busy() <= 3);
        }
        // Heal: everything comes up, everything ends.
        for _ in 0..100 {
            world.pass(SECOND * 31);
            world.up_all();
            let ids: Vec<_> = world.core.runners.keys().copied().collect();
            for id in ids {
                let state = &world.core.runners.get(&id).unwrap().state;
                if matches!(state, State::Busy { .. } | State::Ending { .. }) {
                    world.gone(id, Exit::Status(0));
                }
            }
        }
        assert_eq!(world.replies().len(), jobs);
        assert_eq!((world.core.advertised, world.core.runners.len()), (3, 3));
    }
}
