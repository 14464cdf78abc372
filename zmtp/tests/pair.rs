//! Two connections wired back to back under a virtual clock, with delay and cuts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use zmtp::connection::{ConnectionConfig, ConnectionError, Event};
use zmtp::wire::greeting::Version;
use zmtp::{Heartbeat, Message, SocketType};
use zmtp_testkit::{Hand, command, config, frame, greeting, hex, ready};

const SECOND: Duration = Duration::from_secs(1);

/// One end and what is on its way to it.
struct End {
    hand: Hand,
    incoming: VecDeque<(Instant, Vec<u8>)>,
    /// Everything on its way here from now on is lost.
    cut: bool,
    events: Vec<Event>,
    failed: Option<(Instant, ConnectionError)>,
    sent: Vec<u8>,
}

impl End {
    fn new(config: ConnectionConfig, now: Instant) -> Self {
        let hand = Hand::new(config, now);
        Self { hand, incoming: VecDeque::new(), cut: false, events: vec![], failed: None, sent: vec![] }
    }

    /// Does what is due.
    fn turn(&mut self, now: Instant) {
        let result = self.try_turn(now);
        if let (Err(error), None) = (result, &self.failed) {
            self.failed = Some((now, error));
        }
    }

    fn try_turn(&mut self, now: Instant) -> Result<(), ConnectionError> {
        while self.incoming.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, bytes)) = self.incoming.pop_front() else { break };
            if self.failed.is_none() {
                let events = self.hand.feed(&bytes, now)?;
                self.events.extend(events);
            }
        }
        if self.hand.connection.deadline().is_some_and(|at| at <= now) {
            self.hand.connection.on_deadline(now)?;
        }
        Ok(())
    }
}

struct Pair {
    start: Instant,
    now: Instant,
    delay: Duration,
    /// Bytes per chunk on the way.
    chunk: usize,
    ends: [End; 2],
}

impl Pair {
    fn new(a: ConnectionConfig, b: ConnectionConfig) -> Self {
        let now = Instant::now();
        Self { start: now, now, delay: Duration::from_millis(10), chunk: 7, ends: [End::new(a, now), End::new(b, now)] }
    }

    /// A ROUTER and a DEALER with heartbeats on one side.
    fn beating(heartbeat: Heartbeat) -> Self {
        let router = ConnectionConfig { heartbeat: Some(heartbeat), ..config(SocketType::Router) };
        Self::new(router, config(SocketType::Dealer))
    }

    /// Lets time pass, event by event.
    fn run(&mut self, time: Duration) -> &mut Self {
        let end = self.now + time;
        loop {
            for from in 0..2 {
                self.ends[from].turn(self.now);
                let bytes = self.ends[from].hand.take();
                self.ends[from].sent.extend_from_slice(&bytes);
                let (at, to) = (self.now + self.delay, &mut self.ends[1 - from]);
                if !to.cut {
                    to.incoming.extend(bytes.chunks(self.chunk).map(|piece| (at, piece.to_vec())));
                }
            }
            let next = self.ends.iter().flat_map(|end| {
                let arrival = end.incoming.front().map(|(at, _)| *at);
                let due = if end.failed.is_none() { end.hand.connection.deadline() } else { None };
                [arrival, due]
            });
            match next.flatten().min() {
                Some(at) if at <= end => self.now = at.max(self.now),
                _ => break,
            }
        }
        self.now = end;
        self
    }

    fn failure(&self, end: usize) -> Option<(Duration, ConnectionError)> {
        self.ends[end].failed.clone().map(|(at, error)| (at - self.start, error))
    }

    fn is_open(&self) -> bool {
        self.ends.iter().all(|end| end.hand.connection.is_open())
    }
}

fn count(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).filter(|window| *window == what).count()
}

fn heartbeat(interval: u32, timeout: u32, ttl: u32) -> Heartbeat {
    Heartbeat { interval: interval * SECOND, timeout: timeout * SECOND, ttl: ttl * SECOND }
}

#[test]
fn handshake_and_messages_both_ways() {
    let mut pair = Pair::new(config(SocketType::Router), config(SocketType::Dealer));
    pair.run(SECOND);
    assert!(pair.is_open());
    for end in 0..2 {
        for i in 0..50 {
            pair.ends[end].hand.connection.send(&Message::from_frames(["", &format!("{end} {i}")]));
        }
    }
    pair.run(SECOND);
    for end in 0..2 {
        assert!(matches!(&pair.ends[end].events[0], Event::Ready(info) if info.version == Version::V3_1));
        let expected = (0..50).map(|i| Event::Message(Message::from_frames(["", &format!("{} {i}", 1 - end)])));
        assert!(pair.ends[end].events[1..].iter().cloned().eq(expected));
    }
}

/// B01: libzmq hangs up on a peer that sends more than handshake commands before it has read libzmq's READY.
#[test]
fn pitfall_05_b01_nothing_but_the_handshake_before_the_peers_ready() {
    let now = Instant::now();
    let beating = ConnectionConfig { heartbeat: Some(heartbeat(1, 1, 0)), ..config(SocketType::Dealer) };
    let mut hand = Hand::new(beating, now);
    let message = Message::from("too early");
    let mut sent = Vec::new();
    hand.connection.send(&message);
    sent.extend(hand.take());
    hand.feed(&greeting(), now).unwrap();
    hand.connection.send(&message);
    hand.connection.on_deadline(now + 5 * SECOND).unwrap();
    sent.extend(hand.take());
    let our_ready = ready("DEALER", b"");
    assert_eq!(sent[64..], our_ready);
    // Ours as receiver: what follows READY directly is taken.
    let events = hand.feed(&[ready("ROUTER", b""), frame(0, b"at once")].concat(), now).unwrap();
    assert!(matches!(&events[..], [Event::Ready(_), Event::Message(m)] if *m == Message::from("at once")));
    hand.connection.send(&message);
    assert_eq!(hand.take(), frame(0, b"too early"));
}

#[test]
fn section_6_incompatible_types_end_both_sides_and_the_refusal_is_told() {
    let mut pair = Pair::new(config(SocketType::Router), config(SocketType::Push));
    pair.run(SECOND);
    let [a, b] = [pair.failure(0), pair.failure(1)].map(|failure| failure.unwrap().1);
    assert_eq!(a, ConnectionError::SocketType { ours: SocketType::Router, theirs: b"PUSH"[..].into() });
    assert_eq!(b, ConnectionError::SocketType { ours: SocketType::Push, theirs: b"ROUTER"[..].into() });
    let error = command("ERROR", b"\x13Invalid socket type");
    assert!(pair.ends.iter().all(|end| count(&end.sent, &error) == 1));
    assert!(pair.ends.iter().all(|end| end.events.is_empty()));
}

#[test]
fn section_6_an_error_command_says_why_we_are_refused() {
    let now = Instant::now();
    for reason in [&b"400"[..], b"", b"anything \xff at all"] {
        let mut hand = Hand::new(config(SocketType::Dealer), now);
        let error = command("ERROR", &[&[reason.len() as u8], reason].concat());
        assert_eq!(hand.feed(&[greeting(), error].concat(), now), Err(ConnectionError::Refused(reason.into())));
    }
}

#[test]
fn section_6_the_handshake_has_a_time_limit_on_both_sides() {
    for (cut, name) in [(0, "their bytes"), (1, "our bytes")] {
        let mut pair = Pair::new(config(SocketType::Router), config(SocketType::Dealer));
        pair.ends[cut].cut = true;
        pair.run(60 * SECOND);
        assert_eq!(pair.failure(cut), Some((30 * SECOND, ConnectionError::HandshakeTimeout)), "{name} lost");
        assert!(pair.ends.iter().all(|end| end.events.is_empty() || end.hand.connection.is_open()));
    }
    let patient = ConnectionConfig { handshake_timeout: None, ..config(SocketType::Router) };
    let mut pair = Pair::new(patient, config(SocketType::Dealer));
    pair.ends[0].cut = true;
    pair.run(600 * SECOND);
    assert_eq!(pair.failure(0), None);
}

#[test]
fn b06_a_completed_handshake_has_no_time_limit_any_more() {
    let mut pair = Pair::new(config(SocketType::Router), config(SocketType::Dealer));
    pair.run(3600 * SECOND);
    assert!(pair.is_open());
    assert_eq!(pair.ends[0].hand.connection.deadline(), None);
}

#[test]
fn heartbeats_keep_an_idle_connection_open() {
    let mut pair = Pair::beating(heartbeat(2, 3, 6));
    pair.run(101 * SECOND);
    assert!(pair.is_open());
    let ping = hex("0407 04 50494e47 003c");
    assert_eq!(count(&pair.ends[0].sent, &ping), 50);
    assert_eq!(count(&pair.ends[1].sent, &hex("0405 04 504f4e47")), 50);
}

#[test]
fn a_silent_peer_is_given_up_after_interval_and_timeout() {
    let mut pair = Pair::beating(heartbeat(2, 3, 0));
    pair.delay = Duration::ZERO;
    pair.run(10 * SECOND);
    // PINGs at 2, 4, ... 10 seconds; the first that nobody answers is that of 12.
    pair.ends[0].cut = true;
    pair.run(60 * SECOND);
    assert_eq!(pair.failure(0), Some((15 * SECOND, ConnectionError::Silent)));
}

#[test]
fn a_timeout_longer_than_the_interval_counts_from_the_first_unanswered_ping() {
    let mut pair = Pair::beating(heartbeat(1, 5, 0));
    pair.delay = Duration::ZERO;
    pair.run(3 * SECOND);
    pair.ends[0].cut = true;
    pair.run(60 * SECOND);
    assert_eq!(pair.failure(0), Some((9 * SECOND, ConnectionError::Silent)));
}

#[test]
fn the_ttl_makes_the_other_side_give_up() {
    let mut pair = Pair::beating(heartbeat(1, 3600, 5));
    pair.delay = Duration::ZERO;
    pair.run(3 * SECOND);
    pair.ends[1].cut = true;
    pair.run(60 * SECOND);
    assert_eq!(pair.failure(1), Some((8 * SECOND, ConnectionError::Silent)));
}

/// Pitfall 16: one long frame that trickles in is no silence.
#[test]
fn pitfall_16_any_byte_is_a_sign_of_life() {
    let beating = ConnectionConfig { heartbeat: Some(heartbeat(1, 1, 0)), ..config(SocketType::Router) };
    let mut now = Instant::now();
    let mut hand = Hand::open(beating, "DEALER", now);
    hand.feed(&zmtp_testkit::header(0, 100), now).unwrap();
    for _ in 0..100 {
        now += SECOND / 2;
        hand.connection.on_deadline(now).unwrap();
        hand.feed(b"x", now).unwrap();
    }
    assert!(hand.connection.is_open());
}

/// A PONG in the very instant of the PING: clocks are coarse.
#[test]
fn an_answer_in_the_same_instant_counts() {
    let beating = ConnectionConfig { heartbeat: Some(heartbeat(1, 1, 0)), ..config(SocketType::Router) };
    let start = Instant::now();
    let mut hand = Hand::open(beating, "DEALER", start);
    for second in 1..10 {
        let now = start + second * SECOND;
        hand.connection.on_deadline(now).unwrap();
        hand.feed(&command("PONG", b""), now).unwrap();
    }
    assert!(hand.connection.is_open());
}

/// An interval of zero is no heartbeat (as libzmq's HEARTBEAT_IVL), not one PING after another without end.
#[test]
fn zero_durations_turn_heartbeats_off() {
    let beating = ConnectionConfig { heartbeat: Some(heartbeat(0, 1, 0)), ..config(SocketType::Router) };
    assert_eq!(Hand::open(beating, "DEALER", Instant::now()).connection.deadline(), None);
    // No timeout: PINGs go out, nobody is given up.
    let mut pair = Pair::beating(heartbeat(1, 0, 0));
    pair.run(5 * SECOND);
    pair.ends[0].cut = true;
    pair.run(60 * SECOND);
    assert_eq!(pair.failure(0), None);
}

/// libzmq 4.0 and 4.1 hand a PING to the application as data.
#[test]
fn no_ping_to_a_3_0_peer_but_an_answer_to_its_own() {
    let beating = ConnectionConfig { heartbeat: Some(heartbeat(1, 1, 1)), ..config(SocketType::Router) };
    let now = Instant::now();
    let mut hand = Hand::new(beating, now);
    let mut old = greeting();
    old[11] = 0;
    let events = hand.feed(&[old, ready("DEALER", b"")].concat(), now).unwrap();
    assert!(matches!(&events[..], [Event::Ready(info)] if info.version == Version::V3_0));
    hand.take();
    assert_eq!(hand.connection.deadline(), None);
    hand.connection.on_deadline(now + 100 * SECOND).unwrap();
    assert_eq!(hand.take(), b"");
    hand.feed(&command("PING", b"\x00\x00abc"), now + 100 * SECOND).unwrap();
    assert_eq!(hand.take(), command("PONG", b"abc"));
}

#[test]
fn at_most_one_pong_waits() {
    let now = Instant::now();
    let mut hand = Hand::open(config(SocketType::Router), "DEALER", now);
    hand.feed(&command("PING", b"\x00\x00x").repeat(1000), now).unwrap();
    assert_eq!(hand.take(), command("PONG", b"x"));
    hand.feed(&command("PING", b"\x00\x00y"), now).unwrap();
    assert_eq!(hand.take(), command("PONG", b"y"));
}

/// A peer that takes nothing must not make our PINGs pile up.
#[test]
fn at_most_one_ping_waits() {
    let beating = ConnectionConfig { heartbeat: Some(heartbeat(1, 1, 0)), ..config(SocketType::Router) };
    let start = Instant::now();
    let mut hand = Hand::open(beating, "DEALER", start);
    for tenth in 0..1000 {
        let now = start + tenth * SECOND / 10;
        hand.feed(&frame(0, b"I talk but do not listen"), now).unwrap();
        hand.connection.on_deadline(now).unwrap();
    }
    assert_eq!(hand.take(), command("PING", b"\x00\x00"));
}

#[test]
fn b10_a_ping_between_two_parts_neither_breaks_nor_splits_the_message() {
    let now = Instant::now();
    let mut hand = Hand::open(config(SocketType::Router), "DEALER", now);
    let bytes = [frame(1, b"one"), command("PING", b"\x00\x00"), frame(0, b"two")].concat();
    assert_eq!(hand.feed(&bytes, now), Ok(vec![Event::Message(Message::from_frames(["one", "two"]))]));
    assert_eq!(hand.take(), command("PONG", b""));
}
