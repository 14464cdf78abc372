//! The core in virtual time.

use std::time::Duration;

use super::*;
use crate::emqp::{JobError, JobErrorKind, Request};

const ACCEPT: Duration = Duration::from_secs(10);
const RESULT: Duration = Duration::from_secs(60);

/// A core with the time it is told.
struct World {
    core: Core,
    now: Instant,
}

impl World {
    fn new() -> Self {
        Self { core: Core::new(), now: Instant::now() }
    }

    fn connected() -> Self {
        let mut world = Self::new();
        assert!(world.step(Input::Connected).is_empty());
        world
    }

    /// A step; what it sends is written at once.
    fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut out = self.step_without_room(input);
        let mut done = 0;
        while done < out.len() {
            if let Effect::Send(msgid, _) = &out[done] {
                let written = Input::Written(msgid.clone());
                let more = self.step_without_room(written);
                out.extend(more);
            }
            done += 1;
        }
        out
    }

    fn step_without_room(&mut self, input: Input) -> Vec<Effect> {
        let mut out = Vec::new();
        self.core.step(self.now, input, &mut out);
        out
    }

    fn submit(&mut self, name: &str, answer: Answer, on_loss: OnLoss) -> Vec<Effect> {
        let submission = self.submission(name, answer, on_loss);
        self.step(submission)
    }

    fn submission(&self, name: &str, answer: Answer, on_loss: OnLoss) -> Input {
        let msgid = id(name);
        let message = Request::build(&msgid, b"default", b"", b"[]");
        let (patience, result_by, when_full) = (ACCEPT, Some(self.now + RESULT), WhenFull::Report);
        Input::Submit(Submission { msgid, message, answer, on_loss, when_full, patience, result_by })
    }

    fn accept(&mut self, name: &str) -> Vec<Effect> {
        self.step(Input::Received(Command::Reply(Reply::Single(name.as_bytes())).to_message(&id("reply"))))
    }

    fn result(&mut self, name: &str, result: &[u8]) -> Vec<Effect> {
        let reply = Reply::Result { result, request: id(name) };
        self.step(Input::Received(Command::Reply(reply).to_message(&id("reply"))))
    }

    fn pass(&mut self, time: Duration) -> Vec<Effect> {
        self.now += time;
        self.step(Input::Tick)
    }
}

fn id(name: &str) -> MsgId {
    MsgId::new(name).unwrap()
}

/// Effects as words: `send a`, `a Accepted`.
fn words(effects: Vec<Effect>) -> Vec<String> {
    let word = |effect| match effect {
        Effect::Send(msgid, message) => {
            assert_eq!(Envelope::parse(&message).unwrap().msgid, msgid);
            format!("send {msgid}")
        }
        Effect::Report(msgid, report) => format!("{msgid} {report:?}"),
    };
    effects.into_iter().map(word).collect()
}

#[test]
fn a_job_is_sent_accepted_and_its_result_comes() {
    let mut world = World::connected();
    assert_eq!(words(world.submit("a", Answer::Result, OnLoss::Report)), ["send a"]);
    assert!(!world.core.is_settled());
    assert_eq!(words(world.accept("a")), ["a Accepted"]);
    assert!(world.core.is_settled());
    assert_eq!(words(world.result("a", b"{}")), ["a Result(b\"{}\")"]);
    assert_eq!(world.core.deadline(), None);
    assert!(world.result("a", b"{}").is_empty(), "one result a job");
}

#[test]
fn without_a_result_acceptance_ends_it() {
    let mut world = World::connected();
    world.submit("a", Answer::Acceptance, OnLoss::Report);
    assert_eq!(words(world.accept("a")), ["a Accepted"]);
    assert_eq!((world.core.deadline(), world.core.pending.len()), (None, 0));
    assert!(world.accept("a").is_empty());
    assert!(world.accept("stranger").is_empty());
}

#[test]
fn a_posted_job_ends_when_it_is_sent() {
    let mut world = World::new();
    assert!(world.submit("a", Answer::Nothing, OnLoss::Report).is_empty());
    assert_eq!(words(world.step(Input::Connected)), ["send a", "a Sent"]);
    assert_eq!(world.core.deadline(), None);
}

#[test]
fn a_refusal_is_an_error_before_acceptance() {
    let mut world = World::connected();
    let full = JobError::from(JobErrorKind::QueueFull).to_result();
    for answer in [Answer::Acceptance, Answer::Result] {
        world.submit("a", answer, OnLoss::Report);
        let refused = world.result("a", &full);
        assert!(matches!(&refused[..], [Effect::Report(_, Report::Refused(failure))] if failure.kind == "QueueFull"));
    }
    world.submit("a", Answer::Result, OnLoss::Report);
    world.accept("a");
    assert!(matches!(&world.result("a", &full)[..], [Effect::Report(_, Report::Result(_))]), "then the job failed");
}

#[test]
fn what_waits_for_a_connection_is_sent_in_order() {
    let mut world = World::new();
    for name in ["c", "a", "b"] {
        assert!(world.submit(name, Answer::Acceptance, OnLoss::Report).is_empty());
    }
    assert_eq!(words(world.step(Input::Connected)), ["send c", "send a", "send b"]);
}

#[test]
fn deadlines_say_what_is_known() {
    let mut world = World::new();
    world.submit("unsent", Answer::Result, OnLoss::SendAgain);
    assert_eq!(world.core.deadline(), Some(world.now + ACCEPT));
    assert_eq!(words(world.pass(ACCEPT)), ["unsent NotSent"]);
    assert!(world.step(Input::Connected).is_empty(), "what was given up is not sent later");

    world.submit("sent", Answer::Acceptance, OnLoss::SendAgain);
    assert!(world.pass(ACCEPT - Duration::from_nanos(1)).is_empty());
    assert_eq!(words(world.pass(Duration::from_nanos(1))), ["sent Unconfirmed"]);

    world.submit("accepted", Answer::Result, OnLoss::Report);
    world.accept("accepted");
    assert!(world.pass(ACCEPT).is_empty());
    assert_eq!(words(world.pass(RESULT - ACCEPT)), ["accepted Overdue"]);
    assert_eq!(world.core.deadline(), None);
}

#[test]
fn only_what_may_run_twice_is_sent_again() {
    let mut world = World::connected();
    for (name, on_loss) in [("once", OnLoss::Report), ("twice", OnLoss::SendAgain)] {
        world.submit(name, Answer::Acceptance, on_loss);
        let accepted = format!("{name} accepted");
        world.submit(&accepted, Answer::Result, on_loss);
        world.accept(&accepted);
    }
    assert_eq!(words(world.step(Input::Disconnected)), ["once Lost"]);
    world.submit("later", Answer::Acceptance, OnLoss::Report);
    assert_eq!(words(world.step(Input::Connected)), ["send twice", "send twice accepted", "send later"]);
    // The broker still had it, and says so again; the result is awaited as before.
    assert!(world.accept("twice accepted").is_empty());
    assert_eq!(words(world.accept("twice")), ["twice Accepted"]);
    assert_eq!(words(world.result("once accepted", b"{}")), ["once accepted Result(b\"{}\")"]);
    assert_eq!(words(world.result("twice accepted", b"{}")), ["twice accepted Result(b\"{}\")"]);
}

#[test]
fn a_job_of_an_id_that_is_waiting_is_not_sent() {
    let mut world = World::connected();
    world.submit("a", Answer::Acceptance, OnLoss::Report);
    assert_eq!(words(world.submit("a", Answer::Result, OnLoss::Report)), ["a Duplicate"]);
    assert_eq!(words(world.accept("a")), ["a Accepted"]);
    assert_eq!(words(world.submit("a", Answer::Result, OnLoss::Report)), ["send a"]);
}

#[test]
fn what_is_forgotten_leaves_nothing() {
    let mut world = World::connected();
    world.submit("a", Answer::Result, OnLoss::SendAgain);
    world.accept("a");
    assert!(world.step(Input::Forget(id("a"))).is_empty());
    assert_eq!((world.core.pending.len(), world.core.deadlines.len()), (0, 0));
    assert!(world.result("a", b"{}").is_empty());
    assert!(world.step(Input::Forget(id("a"))).is_empty());
}

#[test]
fn a_result_without_acceptance_is_both() {
    let mut world = World::connected();
    world.submit("a", Answer::Result, OnLoss::Report);
    assert_eq!(words(world.result("a", b"{\"value\": 1}")), ["a Accepted", "a Result(b\"{\\\"value\\\": 1}\")"]);
}

#[test]
fn what_is_not_for_clients_changes_nothing() {
    let mut world = World::connected();
    world.submit("a", Answer::Acceptance, OnLoss::Report);
    for message in [
        Message::single("x"),
        Message::from_frames(["", "eMQP/1.0", "REPLY", "r", ""]),
        Message::from_frames(["", "eMQP/1.0", "REPLY", "r"]),
        Command::Kbye.to_message(&id("k")),
        Command::Heartbeat { timestamp: None }.to_message(&id("h")),
    ] {
        assert!(world.step(Input::Received(message)).is_empty());
    }
    assert_eq!(world.core.pending.len(), 1);
}

#[test]
fn what_the_socket_had_no_room_for_is_not_lost_with_the_connection() {
    let mut world = World::connected();
    for (name, answer) in [("a", Answer::Acceptance), ("b", Answer::Nothing)] {
        let submission = world.submission(name, answer, OnLoss::Report);
        assert_eq!(words(world.step_without_room(submission)), [format!("send {name}")]);
    }
    assert!(world.step(Input::Disconnected).is_empty());
    assert_eq!(words(world.step(Input::Connected)), ["send a", "send b", "b Sent"]);
}

#[test]
fn what_was_given_up_before_there_was_room_is_not_wanted() {
    let mut world = World::connected();
    let submission = world.submission("a", Answer::Acceptance, OnLoss::Report);
    world.step_without_room(submission);
    assert!(world.core.wants(&id("a")));
    assert_eq!(words(world.pass(ACCEPT)), ["a NotSent"]);
    assert!(!world.core.wants(&id("a")));
}

/// Submits a job that waits for room, until then if it says so.
fn patient(world: &mut World, until: Option<Instant>) {
    let Input::Submit(submission) = world.submission("a", Answer::Result, OnLoss::Report) else { panic!("no job") };
    assert_eq!(
        words(world.step(Input::Submit(Submission { when_full: WhenFull::Retry(until), ..submission }))),
        ["send a"]
    );
}

#[test]
fn a_job_for_a_full_queue_is_offered_again_ever_more_rarely() {
    let mut world = World::connected();
    patient(&mut world, None);
    let full = JobError::from(JobErrorKind::QueueFull).to_result();
    for pause in [100, 200, 400, 800, 1000, 1000].map(Duration::from_millis) {
        assert!(world.result("a", &full).is_empty());
        assert_eq!(world.core.deadline(), Some(world.now + pause));
        assert_eq!(words(world.pass(pause)), ["send a"]);
    }
    assert_eq!(words(world.accept("a")), ["a Accepted"]);
    assert_eq!(words(world.result("a", b"{}")), ["a Result(b\"{}\")"]);
}

#[test]
fn patience_with_a_full_queue_ends() {
    let mut world = World::connected();
    let until = world.now + Duration::from_millis(150);
    patient(&mut world, Some(until));
    let full = JobError::from(JobErrorKind::QueueFull).to_result();
    assert!(world.result("a", &full).is_empty());
    world.pass(Duration::from_millis(100));
    assert!(matches!(&world.result("a", &full)[..], [Effect::Report(_, Report::Refused(_))]));
    patient(&mut world, None);
    let other = JobError::from(JobErrorKind::ShuttingDown).to_result();
    assert!(matches!(&world.result("a", &other)[..], [Effect::Report(_, Report::Refused(_))]));
}

#[test]
fn a_job_held_back_survives_the_connection_and_is_not_sent_twice() {
    let mut world = World::connected();
    patient(&mut world, None);
    world.result("a", &JobError::from(JobErrorKind::QueueFull).to_result());
    assert!(world.step(Input::Disconnected).is_empty(), "the broker does not have it");
    assert!(world.pass(Duration::from_millis(100)).is_empty());
    assert_eq!(words(world.step(Input::Connected)), ["send a"]);
    assert_eq!(words(world.step(Input::Disconnected)), ["a Lost"]);
}
