//! The world around a broker: clients, workers and the connections between, all from one seed.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use eventmq::broker::{DownReason, Why};
use eventmq::mdp::core::{BrokerConfig, Core, Effect, Input};
use eventmq::mdp::{ClientReply, ClientRequest, Delimiter, FromWorker, Part, ToWorker, Version};
use zmtp::{Message, RoutingId};

use crate::Tally;
use crate::model::{Model, id_of};
use crate::random::Random;
use crate::worker::{Manner, Step, Worker, request};

const SERVICES: [&str; 3] = ["a", "b", "emq.c"];
const INTERVAL: Duration = Duration::from_secs(1);
/// Faults end and clients stop asking then.
const HEALED: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(80);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LinkId(u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Client(usize),
    Worker(usize),
}

#[derive(Debug)]
struct Link {
    owner: Owner,
    /// Nothing arrives before what was sent earlier.
    to_broker: Instant,
    to_peer: Instant,
    open: bool,
}

#[derive(Debug)]
struct Client {
    link: LinkId,
    version: Version,
    /// The request it waits for, and how often it may still ask.
    asked: Option<(u64, u32)>,
}

#[derive(Debug, Clone)]
enum Event {
    ToBroker(Input),
    ToPeer(LinkId, Message),
    WorkerDoes(LinkId, Step),
    WorkerBeats(LinkId),
    WorkerComes(usize),
    ClientAsks(usize),
    ClientGivesUp(usize, u64),
}

pub struct World {
    random: Random,
    core: Core,
    model: Model,
    start: Instant,
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    scheduled: u64,
    links: Vec<Link>,
    workers: Vec<(Worker, LinkId)>,
    clients: Vec<Client>,
    requests: u64,
    recording: Vec<(Duration, Input)>,
    tally: Tally,
}

fn name(link: LinkId) -> RoutingId {
    RoutingId::generated(link.0)
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let now = Instant::now();
        let config = BrokerConfig {
            heartbeat_interval: INTERVAL,
            request_expiry: Some(Duration::from_secs(random.range(4, 15))),
            max_attempts: NonZeroU32::new(random.range(1, 3) as u32).unwrap(),
            reply_timeout: random.chance(20).then(|| Duration::from_secs(5)),
            ..BrokerConfig::default()
        };
        let mut world = Self {
            core: Core::new(config.clone(), now, seed),
            model: Model::new(config),
            start: now,
            now,
            events: BTreeMap::new(),
            scheduled: 0,
            links: Vec::new(),
            workers: Vec::new(),
            clients: Vec::new(),
            requests: 0,
            recording: Vec::new(),
            tally: Tally::new(),
            random,
        };
        world.populate();
        world
    }

    fn populate(&mut self) {
        for _ in 0..self.random.range(2, 7) {
            let manner = self.random.pick(&[Manner::Good, Manner::Good, Manner::Guide, Manner::Odd, Manner::Odd]);
            let version = self.random.pick(&[Version::V01, Version::V02]);
            let service = self.random.pick(&SERVICES);
            let worker = Worker { manner, version, service, silent: false, hand: None };
            self.workers.push((worker, LinkId(u32::MAX)));
            let at = self.random.millis(0, 5_000);
            self.schedule(at, Event::WorkerComes(self.workers.len() - 1));
        }
        for number in 0..self.random.range(1, 4) as usize {
            let version = self.random.pick(&[Version::V01, Version::V02]);
            let link = self.open(Owner::Client(number));
            self.clients.push(Client { link, version, asked: None });
            let at = self.random.millis(0, 3_000);
            self.schedule(at, Event::ClientAsks(number));
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    pub fn tally(&self) -> Tally {
        let mut tally = self.tally.clone();
        self.model.tally.iter().for_each(|(what, times)| *tally.entry(what).or_default() += times);
        tally
    }

    pub fn recording(&self) -> Vec<String> {
        self.recording.iter().map(|(at, input)| format!("{:>10.6} {input:?}", at.as_secs_f64())).collect()
    }

    fn healed(&self) -> bool {
        self.now - self.start >= HEALED
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.scheduled += 1;
        self.events.insert((self.now + after, self.scheduled), event);
    }

    fn open(&mut self, owner: Owner) -> LinkId {
        let link = LinkId(self.links.len() as u32);
        self.links.push(Link { owner, to_broker: self.now, to_peer: self.now, open: true });
        self.deliver(link, Input::Up { peer: name(link) });
        link
    }

    /// Something arrives at the broker a little later, behind whatever was sent before over this link.
    fn deliver(&mut self, link: LinkId, input: Input) {
        let at = (self.now + self.random.millis(0, 15)).max(self.links[link.0 as usize].to_broker);
        self.links[link.0 as usize].to_broker = at;
        self.schedule(at - self.now, Event::ToBroker(input));
    }

    fn send(&mut self, link: LinkId, message: Message) {
        if self.links[link.0 as usize].open {
            self.deliver(link, Input::Received { from: name(link), message });
        }
    }

    fn close(&mut self, link: LinkId) {
        if std::mem::replace(&mut self.links[link.0 as usize].open, false) {
            self.deliver(link, Input::Down { peer: name(link), reason: DownReason::Closed });
        }
    }

    /// Runs to the end.
    pub fn run(&mut self) -> Result<(), String> {
        while let Some((at, _)) = self.events.first_key_value().map(|(key, _)| *key) {
            // A Tick comes at the deadline, whatever else there is to do; what follows from it may come first of all.
            let due = self.core.deadline().filter(|due| *due < at);
            let next = due.map_or(at, |due| due.max(self.now));
            if next - self.start > END {
                break;
            }
            self.now = next;
            if due.is_some() {
                self.step(Input::Tick)?;
            } else if let Some((_, event)) = self.events.pop_first() {
                self.on_event(event)?;
            }
        }
        self.model.settle(self.now)
    }

    fn on_event(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::ToBroker(input) => self.step(input)?,
            Event::ToPeer(link, message) => self.on_arrival(link, &message),
            Event::WorkerDoes(link, step) => self.worker_does(link, step),
            Event::WorkerBeats(link) => self.worker_beats(link),
            Event::WorkerComes(number) => self.worker_comes(number),
            Event::ClientAsks(number) => self.client_asks(number),
            Event::ClientGivesUp(number, id) => self.client_gives_up(number, id),
        }
        Ok(())
    }

    /// Steps the broker, has the step judged, and carries its effects out.
    fn step(&mut self, input: Input) -> Result<(), String> {
        let mut effects = Vec::new();
        self.recording.push((self.now - self.start, input.clone()));
        self.core.step(self.now, input.clone(), &mut effects);
        self.model.judge(self.now, &input, &effects)?;
        for effect in effects {
            let Effect::Send { to, message } = effect else { continue };
            let link = LinkId(u32::from_be_bytes(to.as_bytes()[1..5].try_into().unwrap()));
            let there = self.links[link.0 as usize].open;
            if there {
                let at = (self.now + self.random.millis(0, 15)).max(self.links[link.0 as usize].to_peer);
                self.links[link.0 as usize].to_peer = at;
                self.schedule(at - self.now, Event::ToPeer(link, message));
            } else if self.random.chance(50) {
                self.step(Input::Undelivered { to, message, why: Why::Gone })?;
            }
        }
        Ok(())
    }

    fn on_arrival(&mut self, link: LinkId, message: &Message) {
        if !self.links[link.0 as usize].open {
            return;
        }
        match self.links[link.0 as usize].owner {
            Owner::Client(number) => self.client_reads(number, message),
            Owner::Worker(number) => self.worker_reads(number, link, message),
        }
    }

    fn client_reads(&mut self, number: usize, message: &Message) {
        let reply = ClientReply::parse(message).unwrap();
        if reply.part == Part::Final && self.clients[number].asked.map(|(id, _)| id) == id_of(&reply.body) {
            self.clients[number].asked = None;
            let pause = self.random.millis(1, 1_500);
            self.schedule(pause, Event::ClientAsks(number));
        }
    }

    fn client_asks(&mut self, number: usize) {
        if !self.healed() {
            self.ask(number, 3);
        }
    }

    fn ask(&mut self, number: usize, attempts: u32) {
        self.requests += 1;
        let id = self.requests;
        let Client { link, version, .. } = self.clients[number];
        self.clients[number].asked = Some((id, attempts - 1));
        let service = self.random.pick(&SERVICES);
        let body = Message::from_frames([id.to_string(), "x".repeat(self.random.below(20) as usize)]);
        let delimiter = Delimiter::of(version);
        self.send(link, ClientRequest { version, delimiter, service: service.as_bytes(), body }.to_message());
        let timeout = self.random.millis(500, 12_000);
        self.schedule(timeout, Event::ClientGivesUp(number, id));
    }

    /// No reply in time: a new connection, and the request once more.
    fn client_gives_up(&mut self, number: usize, id: u64) {
        let Some((_, left)) = self.clients[number].asked.filter(|(asked, _)| *asked == id) else { return };
        if self.healed() && self.random.chance(50) {
            // One that waits to the very end, so that its request must come to an end.
            return;
        }
        self.count("client: left");
        self.close(self.clients[number].link);
        self.clients[number].link = self.open(Owner::Client(number));
        self.clients[number].asked = None;
        if left > 0 && !self.healed() {
            self.count("client: asked again");
            return self.ask(number, left);
        }
        let pause = self.random.millis(1, 500);
        self.schedule(pause, Event::ClientAsks(number));
    }

    fn worker_comes(&mut self, number: usize) {
        let old = self.workers[number].1;
        if old != LinkId(u32::MAX) {
            self.close(old);
        }
        let link = self.open(Owner::Worker(number));
        let healed = self.healed();
        let (worker, current) = &mut self.workers[number];
        (*current, worker.silent, worker.hand) = (link, false, None);
        let ready = worker.ready();
        if worker.manner == Manner::Odd && !healed && self.random.chance(15) {
            self.count("fault: HEARTBEAT before READY");
            let beat = self.workers[number].0.say(&FromWorker::Heartbeat);
            self.send(link, beat);
        }
        self.send(link, ready);
        self.schedule(INTERVAL, Event::WorkerBeats(link));
    }

    /// The worker of a link that is still its own.
    fn worker_of(&self, link: LinkId) -> Option<usize> {
        match self.links[link.0 as usize].owner {
            Owner::Worker(number) if self.workers[number].1 == link => Some(number),
            _ => None,
        }
    }

    fn worker_beats(&mut self, link: LinkId) {
        let Some(number) = self.worker_of(link) else { return };
        if self.workers[number].0.beats() {
            let beat = self.workers[number].0.say(&FromWorker::Heartbeat);
            self.send(link, beat);
        }
        let interval = self.random.millis(700, 1_300);
        self.schedule(interval, Event::WorkerBeats(link));
    }

    fn worker_reads(&mut self, number: usize, link: LinkId, message: &Message) {
        if self.workers[number].1 != link || self.workers[number].0.silent {
            return;
        }
        if matches!(ToWorker::parse(message), Ok((_, ToWorker::Disconnect))) {
            return self.worker_comes(number);
        }
        let Some((client, body)) = request(message) else { return };
        let healed = self.healed();
        let (plan, what) = self.workers[number].0.on_request(&mut self.random, &client, body, healed);
        self.count(what);
        for (after, step) in plan {
            self.schedule(after, Event::WorkerDoes(link, step));
        }
    }

    fn worker_does(&mut self, link: LinkId, step: Step) {
        let Some(number) = self.worker_of(link) else { return };
        match step {
            Step::Say(message) => self.send(link, message),
            Step::Finish => {
                if let Some((client, body)) = self.workers[number].0.hand.take() {
                    let reply = self.workers[number].0.reply(Part::Final, &client, &body);
                    self.send(link, reply);
                }
            }
            Step::Crash => {
                self.close(link);
                let pause = self.random.millis(1, 2_000);
                self.schedule(pause, Event::WorkerComes(number));
            }
            Step::FallSilent => {
                self.workers[number].0.silent = true;
                // Its connection is found to be dead much later.
                self.schedule(Duration::from_secs(12), Event::WorkerComes(number));
            }
            Step::Leave => {
                let goodbye = self.workers[number].0.say(&FromWorker::Disconnect);
                self.send(link, goodbye);
                let pause = self.random.millis(1, 2_000);
                self.schedule(pause, Event::WorkerComes(number));
            }
        }
    }
}
