use super::*;
use crate::mdp::wire::Delimiter;

struct World {
    session: Session,
    time: Instant,
    actions: Vec<Action>,
}

const CLIENT: &[u8] = b"c";

impl World {
    fn new() -> Self {
        let time = Instant::now();
        let config = SessionConfig {
            service: ServiceName::new("s").unwrap(),
            version: Version::V01,
            heartbeat: Duration::from_millis(2500),
            liveness: 3,
            reconnect: Duration::from_millis(2500),
        };
        let mut actions = Vec::new();
        let session = Session::start(config, time, &mut actions);
        Self { session, time, actions }
    }

    fn step(&mut self, event: Event) {
        self.session.step(self.time, event, &mut self.actions);
    }

    fn hear(&mut self, what: &ToWorker<'_>) {
        self.step(Event::Received(what.to_message(Version::V01, Delimiter::Present)));
    }

    fn request(&mut self) -> Epoch {
        self.hear(&ToWorker::Request { client: CLIENT, body: Message::from("x") });
        match self.actions.pop() {
            Some(Action::Deliver { epoch, .. }) => epoch,
            other => panic!("{other:?}"),
        }
    }

    fn reply(&mut self, epoch: Epoch) {
        self.step(Event::Reply { epoch, part: Part::Final, body: Message::from("y") });
    }

    fn pass(&mut self, seconds: f64) {
        let end = self.time + Duration::from_secs_f64(seconds);
        while let Some(due) = self.session.deadline().filter(|due| *due <= end) {
            self.time = due;
            self.step(Event::Tick);
        }
        self.time = end;
    }

    /// What was wanted since the last call, in words.
    fn done(&mut self) -> Vec<&'static str> {
        let word = |action| match action {
            Action::Connect => "connect",
            Action::Drop => "drop",
            Action::Finish => "finish",
            Action::Deliver { .. } => "deliver",
            Action::Send(message) => match message.frame(2) {
                Some(b"\x01") => "READY",
                Some(b"\x03") => "REPLY",
                Some(b"\x04") => "HEARTBEAT",
                _ => "DISCONNECT",
            },
        };
        self.actions.drain(..).map(word).collect()
    }
}

#[test]
fn registers_and_sends_heartbeats() {
    let mut world = World::new();
    assert_eq!(world.done(), ["connect", "READY"]);
    world.pass(5.0);
    world.hear(&ToWorker::Heartbeat);
    world.pass(5.0);
    assert_eq!(world.done(), ["HEARTBEAT"; 4]);
}

#[test]
fn a_silent_broker_is_given_up_and_tried_again_after_a_pause() {
    let mut world = World::new();
    world.done();
    world.pass(7.6);
    assert_eq!(world.done(), ["HEARTBEAT", "HEARTBEAT", "drop"]);
    world.pass(2.3);
    assert!(world.done().is_empty());
    world.pass(0.2);
    assert_eq!(world.done(), ["connect", "READY"]);
}

#[test]
fn e07_after_a_disconnect_it_registers_over_a_new_socket_at_once_but_not_in_a_storm() {
    let mut world = World::new();
    world.done();
    world.hear(&ToWorker::Disconnect);
    assert_eq!(world.done(), ["drop", "connect", "READY"]);
    let mut registrations = 0;
    for _ in 0..300 {
        world.hear(&ToWorker::Disconnect);
        world.pass(1.0);
        registrations += world.done().iter().filter(|word| **word == "READY").count();
    }
    assert!((50..=120).contains(&registrations), "{registrations} in 5 minutes");
    world.pass(3.0);
    world.hear(&ToWorker::Heartbeat);
    world.done();
    world.hear(&ToWorker::Disconnect);
    assert_eq!(world.done(), ["drop", "connect", "READY"]);
}

#[test]
fn e07_a_broker_that_leaves_busy_workers_alone_is_not_given_up_meanwhile() {
    let mut world = World::new();
    let epoch = world.request();
    world.done();
    world.pass(60.0);
    world.reply(epoch);
    let done = world.done();
    assert_eq!(done.iter().filter(|word| **word == "HEARTBEAT").count(), 24, "its own never stop");
    assert_eq!(done.last(), Some(&"REPLY"));
    assert!(!done.contains(&"drop"));
    world.pass(7.6);
    assert!(world.done().contains(&"drop"), "from now on it counts again");
}

#[test]
fn a_broker_known_to_send_heartbeats_to_busy_workers_is_judged_by_them() {
    let mut world = World::new();
    let epoch = world.request();
    for _ in 0..2 {
        world.pass(2.5);
        world.hear(&ToWorker::Heartbeat);
    }
    world.done();
    world.pass(7.6);
    assert!(world.done().contains(&"drop"));
    world.pass(30.0);
    assert!(world.done().is_empty(), "what is in hand is ended first");
    world.reply(epoch);
    assert_eq!(world.done(), ["connect", "READY"], "its reply is nobody's");
}

#[test]
fn a_lost_connection_means_a_new_socket_and_nothing_of_the_old_one() {
    let mut world = World::new();
    let epoch = world.request();
    world.done();
    world.step(Event::Lost);
    assert_eq!(world.done(), ["drop"]);
    world.step(Event::Reply { epoch, part: Part::Final, body: Message::from("late") });
    assert_eq!(world.done(), ["connect", "READY"]);
    let newer = world.request();
    world.reply(epoch);
    assert!(world.done().is_empty());
    world.reply(newer);
    assert_eq!(world.done(), ["REPLY"]);
}

#[test]
fn e04_pitfall_2_a_worker_that_ends_finishes_what_it_has_and_says_so() {
    let mut world = World::new();
    let epoch = world.request();
    world.done();
    world.step(Event::Close);
    assert!(world.done().is_empty());
    world.reply(epoch);
    assert_eq!(world.done(), ["REPLY", "DISCONNECT", "finish"]);
    world.pass(60.0);
    assert!(world.done().is_empty());
}

#[test]
fn a_request_that_was_dropped_goes_to_another_worker() {
    let mut world = World::new();
    let epoch = world.request();
    world.done();
    world.step(Event::Abandoned(epoch));
    assert_eq!(world.done(), ["DISCONNECT", "drop", "connect", "READY"]);
}

#[test]
fn pitfall_8_nonsense_is_discarded() {
    let mut world = World::new();
    world.done();
    for frames in [&[b"" as &[u8]][..], &[b"x", b"y"], &[b"", b"MDPW01", b"\x01", b"s"], &[b"MDPW02", b"\x05"]] {
        world.step(Event::Received(Message::from_frames(frames)));
    }
    let epoch = world.request();
    world.hear(&ToWorker::Request { client: b"d", body: Message::from("second") });
    assert_eq!((world.done().len(), world.session.discarded), (0, 5));
    world.reply(epoch);
    assert_eq!(world.done(), ["REPLY"]);
}

#[test]
fn pitfall_7_a_new_interval_counts_for_liveness_too() {
    let mut world = World::new();
    world.done();
    world.step(Event::Heartbeat(Duration::from_millis(100)));
    world.pass(0.31);
    assert_eq!(world.done(), ["HEARTBEAT", "HEARTBEAT", "drop"]);
}

#[test]
fn a_worker_that_was_stopped_itself_gives_the_broker_time() {
    let mut world = World::new();
    world.done();
    world.time += Duration::from_secs(100);
    world.step(Event::Tick);
    assert_eq!(world.done(), ["HEARTBEAT"]);
}
