use super::*;
use crate::emqp::{CommandName, PeerKind, QueueList};
use crate::session::Heartbeats;

const SECOND: Duration = Duration::from_secs(1);

/// A session and the broker's end of it, at a time that only the test moves.
struct World {
    session: Session,
    now: Now,
    effects: Vec<Effect>,
}

impl World {
    fn new(config: SessionConfig) -> Self {
        let now = Now { mono: Instant::now(), wall: UNIX_EPOCH + Duration::from_secs(1_700_000_000) };
        let mut world = Self { session: Session::new(config, 1), now, effects: Vec::new() };
        world.step(Input::Start);
        world
    }

    fn registered(config: SessionConfig) -> Self {
        let mut world = Self::new(config);
        world.step(Input::Link(Link::Up));
        world.acknowledge();
        assert_eq!(world.effects.last(), Some(&Effect::Registered));
        world.effects.clear();
        world
    }

    fn step(&mut self, input: Input) {
        self.session.step(self.now, input, &mut self.effects);
    }

    /// Lets time pass, ticking whenever the session wants to be.
    fn pass(&mut self, time: Duration) {
        let end = self.now.mono + time;
        while let Some(due) = self.session.deadline().filter(|due| *due <= end) {
            assert!(due >= self.now.mono, "a deadline in the past does not move");
            self.now = Now { wall: self.now.wall + (due - self.now.mono), mono: due };
            self.step(Input::Tick);
        }
        self.now = Now { wall: self.now.wall + (end - self.now.mono), mono: end };
    }

    fn receive(&mut self, command: &Command<'_>) {
        self.step(Input::Received(command.to_message(&MsgId::new("broker-1").unwrap())));
    }

    /// Answers the last INFORM.
    fn acknowledge(&mut self) {
        let informed = self.sent().into_iter().rev().find(|(name, _)| *name == CommandName::Inform).unwrap().1;
        self.receive(&Command::Ack { acknowledged: informed });
    }

    fn sent(&self) -> Vec<(CommandName, MsgId)> {
        let name = |message: &Message| {
            let envelope = Envelope::parse(message).unwrap();
            (envelope.command.name(), envelope.msgid)
        };
        self.effects
            .iter()
            .filter_map(|effect| if let Effect::Send(m) = effect { Some(name(m)) } else { None })
            .collect()
    }

    fn names(&self) -> Vec<CommandName> {
        self.sent().into_iter().map(|(name, _)| name).collect()
    }

    fn opened(&self) -> Vec<(String, RoutingId)> {
        let open = |effect: &Effect| match effect {
            Effect::Open { endpoint, identity } => Some((endpoint.to_string(), identity.clone())),
            _ => None,
        };
        self.effects.iter().filter_map(open).collect()
    }

    fn lost(&self) -> Vec<LostReason> {
        self.effects.iter().filter_map(|e| if let Effect::Lost(reason) = e { Some(*reason) } else { None }).collect()
    }
}

fn worker() -> SessionConfig {
    let queues = QueueList::Weighted(vec![(10, "default".into()), (20, "email".into())]);
    SessionConfig::new(PeerKind::Worker, queues, "tcp://127.0.0.1:47290".parse().unwrap())
}

fn with_failover() -> SessionConfig {
    SessionConfig { failover: vec!["tcp://127.0.0.1:50000".parse().unwrap()], ..worker() }
}

#[test]
fn informs_with_queues_and_kind_under_a_uuid() {
    let world = World::new(worker());
    let [(endpoint, identity)] = &world.opened()[..] else { panic!() };
    assert_eq!(endpoint, "tcp://127.0.0.1:47290");
    let text = std::str::from_utf8(identity.as_bytes()).unwrap();
    assert!(uuid::Uuid::try_parse(text).is_ok());
    let Some(Effect::Send(message)) = world.effects.last() else { panic!() };
    assert_eq!(message.frame(4), Some(&br#"[[10, "default"], [20, "email"]]"#[..]));
    assert_eq!(message.frame(5), Some(&b"worker"[..]));

    let scheduler = SessionConfig { kind: PeerKind::Scheduler, queues: QueueList::Configured, ..worker() };
    let world = World::new(scheduler);
    let Some(Effect::Send(message)) = world.effects.last() else { panic!() };
    assert_eq!((message.frame(4), message.frame(5)), (Some(&b""[..]), Some(&b"scheduler"[..])));
}

#[test]
fn a17_an_inform_is_repeated_until_it_is_acknowledged() {
    let mut world = World::new(worker());
    world.pass(60 * SECOND);
    assert_eq!(world.names(), [CommandName::Inform], "one waits in the socket while no broker is there");
    world.step(Input::Link(Link::Up));
    world.pass(11 * SECOND);
    assert_eq!(world.names().len(), 3, "then one per reconnect_timeout");
    world.step(Input::Link(Link::Down));
    world.step(Input::Link(Link::Up));
    assert_eq!(world.names().len(), 4, "and one per connection");
    let first = world.sent()[0].1.clone();
    world.receive(&Command::Ack { acknowledged: first });
    assert!(!world.session.is_registered(), "of a connection that is gone");
    world.acknowledge();
    assert!(world.session.is_registered());
    assert_eq!(world.opened().len(), 1, "all under one identity");
}

#[test]
fn heartbeats_are_sent_and_a_silent_broker_is_given_up() {
    let mut world = World::registered(worker());
    for _ in 0..40 {
        world.pass(SECOND);
        world.receive(&Command::Heartbeat { timestamp: None });
    }
    assert_eq!(world.names(), [CommandName::Heartbeat; 13]);
    world.effects.clear();
    world.pass(Duration::from_millis(14_999));
    assert_eq!(world.lost(), []);
    world.pass(SECOND);
    assert_eq!(world.lost(), [LostReason::Silent]);
    assert_eq!(world.opened().len(), 1);
    assert_eq!(world.names().last(), Some(&CommandName::Inform));
}

#[test]
fn without_heartbeats_none_are_sent_and_silence_is_borne() {
    let mut world = World::registered(SessionConfig { heartbeats: None, ..worker() });
    world.pass(1000 * SECOND);
    assert_eq!(world.effects, []);
    world.step(Input::Link(Link::Down));
    world.step(Input::Link(Link::Up));
    assert_eq!(world.lost(), [LostReason::Reconnected]);
}

#[test]
fn goes_round_the_addresses() {
    let mut world = World::registered(with_failover());
    world.pass(15 * SECOND);
    world.pass(100 * SECOND);
    let addresses: Vec<_> = world.opened().into_iter().map(|(endpoint, _)| endpoint).collect();
    assert_eq!(addresses[..3], ["tcp://127.0.0.1:50000", "tcp://127.0.0.1:47290", "tcp://127.0.0.1:50000"]);
    let mut identities: Vec<_> = world.opened().into_iter().map(|(_, identity)| identity).collect();
    identities.sort();
    identities.dedup();
    assert_eq!(identities.len(), addresses.len(), "each time a new one");
}

#[test]
fn a_worker_obeys_disconnect_by_joining_again_but_not_in_a_storm() {
    let mut world = World::registered(worker());
    world.pass(2 * SECOND);
    world.receive(&Command::Disconnect);
    assert_eq!(world.names(), [CommandName::Kbye, CommandName::Inform]);
    assert_eq!((world.lost(), world.opened().len()), (vec![LostReason::Disconnect], 1));
    for _ in 0..100 {
        world.step(Input::Link(Link::Up));
        world.receive(&Command::Disconnect);
    }
    assert_eq!(world.opened().len(), 1);
    world.pass(5 * SECOND);
    assert_eq!(world.opened().len(), 2);
}

#[test]
fn a_scheduler_ends_by_disconnect() {
    let config = SessionConfig::new(PeerKind::Scheduler, QueueList::Configured, worker().address);
    let mut world = World::registered(config);
    world.receive(&Command::Disconnect);
    assert_eq!(world.names(), [CommandName::Kbye]);
    assert_eq!(world.effects.last(), Some(&Effect::End));
    world.pass(100 * SECOND);
    assert_eq!(world.effects.len(), 2);
}

#[test]
fn a18_a_broker_that_forgot_us_is_noticed_soon_after_its_return() {
    let mut world = World::registered(worker());
    world.step(Input::Link(Link::Down));
    world.pass(SECOND);
    assert_eq!(world.lost(), []);
    world.step(Input::Link(Link::Up));
    assert_eq!(world.names(), [CommandName::Heartbeat], "which ours answers with DISCONNECT if it does not know us");
    let mut known = World::registered(worker());
    known.step(Input::Link(Link::Down));
    known.step(Input::Link(Link::Up));
    known.pass(SECOND);
    known.receive(&Command::Heartbeat { timestamp: None });
    known.pass(10 * SECOND);
    assert_eq!(known.lost(), [], "the registration survives a blip");
    world.pass(5 * SECOND);
    assert_eq!(world.lost(), [LostReason::Silent]);
}

#[test]
fn a_broker_that_left_is_joined_again_when_another_is_there() {
    let mut world = World::registered(worker());
    world.receive(&Command::Kbye);
    world.step(Input::Link(Link::Down));
    assert_eq!(world.effects, []);
    world.step(Input::Link(Link::Up));
    assert_eq!((world.lost(), world.opened().len()), (vec![LostReason::BrokerLeft], 0), "just opened");
    let mut world = World::registered(with_failover());
    world.pass(2 * SECOND);
    world.receive(&Command::Kbye);
    world.step(Input::Link(Link::Down));
    assert_eq!(world.opened()[0].0, "tcp://127.0.0.1:50000");
}

#[test]
fn what_is_not_the_sessions_is_delivered() {
    let mut world = World::registered(worker());
    let request = crate::emqp::Request::build(&MsgId::new("j").unwrap(), b"default", b"", b"[]");
    world.step(Input::Received(request.clone()));
    let broken = Message::from_frames(["", "eMQP/1.0", "REQUEST", "j2", "default"]);
    world.step(Input::Received(broken.clone()));
    assert_eq!(world.effects, [Effect::Deliver(request.clone()), Effect::Deliver(broken)]);
    world.effects.clear();
    world.step(Input::Leave);
    world.step(Input::Received(request.clone()));
    assert_eq!(world.names(), [CommandName::Kbye]);
    assert_eq!(world.effects.last(), Some(&Effect::Deliver(request)), "it crossed with the KBYE");
    world.effects.clear();
    world.receive(&Command::Disconnect);
    world.step(Input::Link(Link::Down));
    world.step(Input::Link(Link::Up));
    world.pass(7 * SECOND);
    assert_eq!(world.names(), [CommandName::Heartbeat; 2], "jobs that run are kept alive");
    assert_eq!(world.opened(), []);
}

#[test]
fn leaving_before_a_broker_was_there_says_nothing() {
    let mut world = World::new(worker());
    world.effects.clear();
    world.step(Input::Leave);
    world.pass(100 * SECOND);
    assert_eq!(world.effects, []);
}

#[test]
fn new_settings_register_anew_only_if_they_must() {
    let mut world = World::registered(worker());
    let heartbeats = Some(Heartbeats { interval: SECOND, ..Heartbeats::default() });
    world.step(Input::Reconfigure(Box::new(SessionConfig { heartbeats, ..worker() })));
    world.pass(SECOND * 2);
    assert_eq!(world.names(), [CommandName::Heartbeat; 3]);
    assert_eq!(world.opened(), []);
    world.effects.clear();
    let queues = QueueList::Weighted(vec![(10, "sms".into())]);
    world.step(Input::Reconfigure(Box::new(SessionConfig { queues, ..worker() })));
    assert_eq!(world.names(), [CommandName::Kbye, CommandName::Inform]);
    assert_eq!(world.lost(), [LostReason::Reconfigured]);
}

#[test]
fn a_stall_is_followed_by_one_heartbeat() {
    let mut world = World::registered(SessionConfig {
        heartbeats: Some(Heartbeats { liveness: 100, ..Heartbeats::default() }),
        ..worker()
    });
    world.now.mono += 60 * SECOND;
    world.step(Input::Tick);
    world.pass(Duration::from_millis(2_999));
    assert_eq!(world.names(), [CommandName::Heartbeat; 1]);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.names(), [CommandName::Heartbeat; 2]);
}

#[test]
fn a_stall_of_our_own_is_not_the_brokers_silence() {
    let mut world = World::registered(worker());
    world.now.mono += 60 * SECOND;
    world.step(Input::Tick);
    assert_eq!((world.lost(), world.names()), (vec![], vec![CommandName::Heartbeat]));
    world.pass(5 * SECOND);
    assert_eq!(world.lost(), [LostReason::Silent], "but it must be heard from now");
}
