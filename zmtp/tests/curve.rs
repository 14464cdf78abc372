//! CURVE against peers by hand: every check of the handshake and of traffic, in order. Cases B17.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/curve_peer.rs"]
mod curve_peer;
mod support;

use std::time::{Duration, Instant};

use curve_peer::{CLIENT, Client, Initiate, SERVER, Server, command, frames, greeting, metadata, pair, public};
use proptest::prelude::*;
use support::{Hand, config, frame, header, long_frame, property};
use zmtp::auth::{AllowAny, Authenticator, CurveKeys};
use zmtp::connection::{ConnectionConfig, ConnectionError, Event};
use zmtp::{Heartbeat, Limits, Message, PublicKey, Security, SecurityFault, SocketType, Stage};

const SECOND: Duration = Duration::from_secs(1);
/// Largest command accepted.
const MAX_COMMAND: usize = 64 * 1024 + 16;

fn server_config(authenticator: impl Authenticator + 'static) -> ConnectionConfig {
    ConnectionConfig { security: Security::curve_server(pair(SERVER), authenticator), ..config(SocketType::Router) }
}

fn client_config() -> ConnectionConfig {
    let security = Security::curve_client(public(SERVER).into(), pair(CLIENT));
    ConnectionConfig { security, ..config(SocketType::Dealer) }
}

fn fault(stage: Stage, fault: SecurityFault) -> ConnectionError {
    ConnectionError::Security { stage, fault }
}

/// Our server, greeted by a client by hand.
fn greeted(config: ConnectionConfig) -> (Hand, Client) {
    let now = Instant::now();
    let mut hand = Hand::new(config, now);
    assert_eq!(hand.feed(&greeting(), now), Ok(vec![]));
    hand.take();
    (hand, Client::new())
}

/// Our server after WELCOME.
fn welcomed(config: ConnectionConfig) -> (Hand, Client, Initiate) {
    let (mut hand, mut client) = greeted(config);
    assert_eq!(hand.feed(&command(&client.hello()), Instant::now()), Ok(vec![]));
    let says = client.on_welcome(&frames(&hand.take())[0].1);
    (hand, client, says)
}

/// Our server, open; the client's next counter is 3.
fn open(config: ConnectionConfig) -> (Hand, Client) {
    let (mut hand, client, says) = welcomed(config);
    let events = hand.feed(&command(&client.initiate(&says)), Instant::now()).unwrap();
    assert!(matches!(&events[..], [Event::Ready(peer)] if peer.socket_type == Some(SocketType::Dealer)));
    client.on_ready(&frames(&hand.take())[0].1);
    (hand, client)
}

/// Our client and a server by hand that has its HELLO.
fn called(config: ConnectionConfig) -> (Hand, Server) {
    let now = Instant::now();
    let mut hand = Hand::new(config, now);
    assert_eq!(hand.feed(&greeting(), now), Ok(vec![]));
    let sent = hand.take();
    let server = Server::on_hello(&frames(&sent[64..])[0].1);
    (hand, server)
}

/// Our client, open; the server's next counter is 2.
fn joined(config: ConnectionConfig) -> (Hand, Server) {
    let (mut hand, server) = called(config);
    assert_eq!(hand.feed(&command(&server.welcome()), Instant::now()), Ok(vec![]));
    let (client, _) = server.on_initiate(&frames(&hand.take())[0].1);
    assert_eq!(client, public(CLIENT));
    let events = hand.feed(&command(&server.ready(1, &metadata("ROUTER"))), Instant::now()).unwrap();
    assert!(matches!(&events[..], [Event::Ready(peer)] if peer.socket_type == Some(SocketType::Router)));
    (hand, server)
}

/// What a connection says to one command, or to the bytes of several.
fn said(mut hand: Hand, bytes: &[u8]) -> Result<Vec<Event>, ConnectionError> {
    hand.feed(bytes, Instant::now())
}

/// Every body that differs from `body` in one bit, or in its length, is refused.
fn refuses_all_but(body: &[u8], flags: u8, fresh: impl Fn() -> Hand) {
    assert!(said(fresh(), &frame(flags, body)).is_ok());
    for at in 0..body.len() {
        let mut changed = body.to_vec();
        // Never the highest bit: that of a key does not count in X25519. Nobody gains by it, as the vouch names the key.
        changed[at] ^= 1 << (at % 7);
        assert!(said(fresh(), &frame(flags, &changed)).is_err(), "byte {at} changed");
        assert!(said(fresh(), &frame(flags, &body[..at])).is_err(), "cut to {at} bytes");
    }
    assert!(said(fresh(), &frame(flags, &[body, b"\0"].concat())).is_err(), "one byte more");
}

#[test]
fn b17_a_hello_that_was_changed_cut_or_extended_is_refused() {
    refuses_all_but(&Client::new().hello(), 4, || greeted(server_config(AllowAny)).0);
}

#[test]
fn b17_an_initiate_that_was_changed_cut_or_extended_is_refused() {
    // The cookie is of one connection, so every try needs its own.
    let initiate = |change: &dyn Fn(&mut Vec<u8>)| {
        let (hand, client, says) = welcomed(server_config(AllowAny));
        let mut body = client.initiate(&says);
        change(&mut body);
        said(hand, &command(&body))
    };
    assert!(initiate(&|_| {}).is_ok());
    for at in 0..292 {
        let changed = initiate(&|body| body[at] ^= 1 << (at % 8));
        let expected = match at {
            ..9 => SecurityFault::Unexpected,
            9..105 => SecurityFault::Cookie,
            _ => SecurityFault::Box,
        };
        assert_eq!(changed, Err(fault(Stage::Initiate, expected)), "byte {at} changed");
        assert!(initiate(&|body| body.truncate(at)).is_err(), "cut to {at} bytes");
    }
    assert_eq!(initiate(&|body| body.push(0)), Err(fault(Stage::Initiate, SecurityFault::Box)));
    // An over-long one once smashed libzmq's stack (CVE-2019-13132): refused by its header.
    let long = initiate(&|body| body.resize(10_000, 0));
    assert_eq!(long, Err(ConnectionError::FrameTooLarge { size: 10_000, max: 8192 }));
}

#[test]
fn a_welcome_that_was_changed_cut_or_extended_is_refused() {
    // The client's transient key is of one connection, so every try needs its own.
    let welcome = |change: &dyn Fn(&mut Vec<u8>)| {
        let (hand, server) = called(client_config());
        let mut body = server.welcome();
        change(&mut body);
        said(hand, &command(&body))
    };
    assert!(welcome(&|_| {}).is_ok());
    for at in 0..168 {
        let expected = if at < 8 { SecurityFault::Unexpected } else { SecurityFault::Box };
        let changed = welcome(&|body| body[at] ^= 1 << (at % 8));
        assert_eq!(changed, Err(fault(Stage::Welcome, expected)), "byte {at} changed");
        assert!(welcome(&|body| body.truncate(at)).is_err(), "cut to {at} bytes");
    }
    assert_eq!(welcome(&|body| body.push(0)), Err(fault(Stage::Welcome, SecurityFault::Length)));
}

#[test]
fn a_ready_that_was_changed_cut_or_extended_is_refused() {
    let ready = |change: &dyn Fn(&mut Vec<u8>)| {
        let (mut hand, server) = called(client_config());
        hand.feed(&command(&server.welcome()), Instant::now()).unwrap();
        let mut body = server.ready(1, &metadata("ROUTER"));
        change(&mut body);
        said(hand, &command(&body))
    };
    assert!(ready(&|_| {}).is_ok());
    for at in 0..65 {
        let expected = if at < 6 { SecurityFault::Unexpected } else { SecurityFault::Box };
        let changed = ready(&|body| body[at] ^= 1 << (at % 8));
        assert_eq!(changed, Err(fault(Stage::Ready, expected)), "byte {at} changed");
        assert!(ready(&|body| body.truncate(at)).is_err(), "cut to {at} bytes");
    }
    assert_eq!(ready(&|body| body.push(0)), Err(fault(Stage::Ready, SecurityFault::Box)));
}

#[test]
fn b17_a_message_that_was_changed_cut_or_extended_is_refused() {
    let message = |change: &dyn Fn(&mut Vec<u8>)| {
        let (hand, client) = open(server_config(AllowAny));
        let mut body = client.message(3, 0, b"hello");
        change(&mut body);
        said(hand, &frame(0, &body))
    };
    assert_eq!(message(&|_| {}), Ok(vec![Event::Message(Message::from("hello"))]));
    for at in 0..38 {
        let changed = message(&|body| body[at] ^= 1 << (at % 8));
        let ok = match changed {
            Err(ConnectionError::Security { stage: Stage::Message, fault }) => match at {
                ..8 => fault == SecurityFault::Clear,
                8..16 => matches!(fault, SecurityFault::Box | SecurityFault::Counter),
                _ => fault == SecurityFault::Box,
            },
            _ => false,
        };
        assert!(ok, "byte {at} changed: {changed:?}");
        assert!(message(&|body| body.truncate(at)).is_err(), "cut to {at} bytes");
    }
    assert_eq!(message(&|body| body.push(0)), Err(fault(Stage::Message, SecurityFault::Box)));
}

/// Section 5: what libzmq does not check.
#[test]
fn hellos_that_seal_nonsense_are_refused() {
    let client = Client::new();
    let hello = |version, padding: [u8; 72], proof: [u8; 64]| {
        let body = client.hello_of(version, &padding, public(client.transient), &proof);
        said(greeted(server_config(AllowAny)).0, &command(&body))
    };
    let mut padding = [0; 72];
    padding[71] = 1;
    let mut proof = [0; 64];
    proof[0] = 1;
    for (result, expected) in [
        (hello([1, 1], [0; 72], [0; 64]), SecurityFault::Version),
        (hello([2, 0], [0; 72], [0; 64]), SecurityFault::Version),
        (hello([1, 0], padding, [0; 64]), SecurityFault::Padding),
        (hello([1, 0], [0; 72], proof), SecurityFault::Padding),
    ] {
        assert_eq!(result, Err(fault(Stage::Hello, expected)));
    }
}

#[test]
fn a_wrong_server_key_shows_in_the_first_box() {
    let mut client = Client::new();
    client.server = public([0x77; 32]);
    let (mut hand, _) = greeted(server_config(AllowAny));
    let result = hand.feed(&command(&client.hello()), Instant::now());
    assert_eq!(result, Err(fault(Stage::Hello, SecurityFault::Box)));
    assert_eq!(hand.take(), b"", "no ERROR for a stranger");
}

#[test]
fn weak_keys_are_refused_wherever_they_come() {
    let client = Client::new();
    for weak in [[0; 32], {
        let mut one = [0; 32];
        one[0] = 1;
        one
    }] {
        let hello = client.hello_of([1, 0], &[0; 72], weak, &[0; 64]);
        let result = said(greeted(server_config(AllowAny)).0, &command(&hello));
        assert_eq!(result, Err(fault(Stage::Hello, SecurityFault::WeakKey)));

        let (hand, server) = called(client_config());
        let result = said(hand, &command(&server.welcome_of(weak)));
        assert_eq!(result, Err(fault(Stage::Welcome, SecurityFault::WeakKey)));

        let (hand, client, mut says) = welcomed(server_config(AllowAny));
        says.client = weak;
        let result = said(hand, &command(&client.initiate(&says)));
        assert_eq!(result, Err(fault(Stage::Initiate, SecurityFault::WeakKey)));

        let mut hand = Hand::new(
            ConnectionConfig { security: Security::curve_client(weak.into(), pair(CLIENT)), ..client_config() },
            Instant::now(),
        );
        let result = hand.feed(&greeting(), Instant::now());
        assert_eq!(result, Err(fault(Stage::Hello, SecurityFault::WeakKey)));
    }
}

#[test]
fn b17_a_cookie_of_another_connection_is_refused() {
    let (_, _, other) = welcomed(server_config(AllowAny));
    let (hand, client, mut says) = welcomed(server_config(AllowAny));
    says.cookie = other.cookie;
    assert_eq!(said(hand, &command(&client.initiate(&says))), Err(fault(Stage::Initiate, SecurityFault::Cookie)));
}

/// libzmq lets the second of these pass.
#[test]
fn b17_a_vouch_for_another_connection_server_or_client_is_refused() {
    let changes: [fn(&mut Initiate); 4] = [
        |says| says.vouched_transient[5] ^= 1,
        |says| says.vouched_server = public([0x77; 32]),
        |says| says.vouch_secret = [0x77; 32],
        |says| says.client = public([0x77; 32]),
    ];
    for change in changes {
        let (hand, client, mut says) = welcomed(server_config(AllowAny));
        change(&mut says);
        assert_eq!(said(hand, &command(&client.initiate(&says))), Err(fault(Stage::Initiate, SecurityFault::Vouch)));
    }
}

#[test]
fn b17_properties_in_initiate_are_checked_and_told() {
    let (mut hand, client, mut says) = welcomed(server_config(AllowAny));
    says.metadata =
        [property("X-App", b"yes"), property("Socket-Type", b"REQ"), property("Identity", b"worker-1")].concat();
    let events = hand.feed(&command(&client.initiate(&says)), Instant::now()).unwrap();
    let [Event::Ready(peer)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(peer.socket_type, Some(SocketType::Req));
    assert_eq!(peer.routing_id.as_ref().map(|id| id.as_bytes()), Some(&b"worker-1"[..]));
    assert_eq!((&peer.properties[0].name[..], &peer.properties[0].value[..]), (&b"X-App"[..], &b"yes"[..]));
    assert_eq!(peer.user_id.as_deref(), Some(""));

    let (mut hand, client, mut says) = welcomed(server_config(AllowAny));
    says.metadata = metadata("PUSH");
    let result = hand.feed(&command(&client.initiate(&says)), Instant::now());
    assert!(matches!(result, Err(ConnectionError::SocketType { .. })), "{result:?}");
    assert_eq!(frames(&hand.take()), [(4, b"\x05ERROR\x13Invalid socket type".to_vec())]);

    let (hand, client, mut says) = welcomed(server_config(AllowAny));
    says.metadata.push(3);
    let result = said(hand, &command(&client.initiate(&says)));
    assert!(matches!(result, Err(ConnectionError::Property(_))), "{result:?}");
}

#[test]
fn a_server_of_the_wrong_type_is_left_without_a_word() {
    let (mut hand, server) = called(client_config());
    hand.feed(&command(&server.welcome()), Instant::now()).unwrap();
    hand.take();
    let result = hand.feed(&command(&server.ready(1, &metadata("PUB"))), Instant::now());
    assert!(matches!(result, Err(ConnectionError::SocketType { .. })), "{result:?}");
    assert_eq!(hand.take(), b"", "a client has no ERROR");
}

#[test]
fn authenticators_decide_on_the_long_term_key() {
    let keys = CurveKeys::new();
    let (mut hand, client, says) = welcomed(server_config(keys.clone()));
    let result = hand.feed(&command(&client.initiate(&says)), Instant::now());
    assert_eq!(result, Err(fault(Stage::Initiate, SecurityFault::Refused(zmtp::auth::Refusal::Denied))));
    assert_eq!(frames(&hand.take()), [(4, b"\x05ERROR\x03400".to_vec())]);

    keys.insert(PublicKey::from(public(CLIENT)), "worker-1");
    let (mut hand, client, says) = welcomed(server_config(keys));
    let events = hand.feed(&command(&client.initiate(&says)), Instant::now()).unwrap();
    assert!(matches!(&events[..], [Event::Ready(peer)] if peer.user_id.as_deref() == Some("worker-1")));
}

#[test]
fn an_error_of_the_server_is_told() {
    let error = command(b"\x05ERROR\x03400");
    let (hand, _) = called(client_config());
    assert_eq!(said(hand, &error), Err(ConnectionError::Refused(b"400"[..].into())));
    let (mut hand, server) = called(client_config());
    hand.feed(&command(&server.welcome()), Instant::now()).unwrap();
    assert_eq!(said(hand, &error), Err(ConnectionError::Refused(b"400"[..].into())));
}

#[test]
fn commands_out_of_order_are_refused() {
    let client = Client::new();
    let error = b"\x05ERROR\x03400".to_vec();
    let ping = b"\x04PING\0\0".to_vec();
    let (_, before, says) = welcomed(server_config(AllowAny));
    for body in [error.clone(), ping.clone(), client.message(3, 0, b"x"), b"\x05HELL0".to_vec()] {
        let result = said(greeted(server_config(AllowAny)).0, &command(&body));
        assert_eq!(result, Err(fault(Stage::Hello, SecurityFault::Unexpected)), "{body:?}");
    }
    // Longer than a HELLO can be.
    let result = said(greeted(server_config(AllowAny)).0, &command(&before.initiate(&says)));
    assert_eq!(result, Err(ConnectionError::FrameTooLarge { size: 292, max: 200 }));
    for body in [error, ping.clone(), client.hello()] {
        let result = said(welcomed(server_config(AllowAny)).0, &command(&body));
        assert_eq!(result, Err(fault(Stage::Initiate, SecurityFault::Unexpected)), "{body:?}");
    }
    let (hand, server) = called(client_config());
    let result = said(hand, &command(&server.ready(1, b"")));
    assert_eq!(result, Err(fault(Stage::Welcome, SecurityFault::Unexpected)));
    let (mut hand, server) = called(client_config());
    hand.feed(&command(&server.welcome()), Instant::now()).unwrap();
    assert_eq!(said(hand, &command(&server.welcome())), Err(fault(Stage::Ready, SecurityFault::Unexpected)));
    let result = said(greeted(server_config(AllowAny)).0, &frame(0, &client.hello()));
    assert_eq!(result, Err(ConnectionError::MessageInHandshake));
}

/// Both at the same end of the mechanism: neither says a word that the other waits for, or both do.
#[test]
fn two_servers_or_two_clients_do_not_get_anywhere() {
    let (mut a, mut b) = (Hand::new(client_config(), Instant::now()), Hand::new(client_config(), Instant::now()));
    let greetings = [a.take(), b.take()];
    a.feed(&greetings[1], Instant::now()).unwrap();
    b.feed(&greetings[0], Instant::now()).unwrap();
    assert_eq!(a.feed(&b.take(), Instant::now()), Err(fault(Stage::Welcome, SecurityFault::Unexpected)));
    let timeout = 30 * SECOND;
    let start = Instant::now();
    let mut hand = Hand::new(server_config(AllowAny), start);
    hand.feed(&greeting(), start).unwrap();
    assert_eq!(hand.connection.on_deadline(start + timeout), Err(ConnectionError::HandshakeTimeout));
}

#[test]
fn other_mechanisms_are_refused_by_their_greeting() {
    for other in [support::greeting(), {
        let mut plain = greeting();
        plain[12..17].copy_from_slice(b"PLAIN");
        plain
    }] {
        for config in [server_config(AllowAny), client_config()] {
            let result = said(Hand::new(config, Instant::now()), &other);
            assert!(matches!(result, Err(ConnectionError::Mechanism { .. })), "{result:?}");
        }
    }
}

// -- Traffic ----------------------------------------------------------------------------------------------------------

#[test]
fn b17_counters_go_on_from_the_handshake_and_only_increase() {
    let try_counters = |counters: &[u64]| {
        let (mut hand, client) = open(server_config(AllowAny));
        let results = counters.iter().map(|at| hand.feed(&frame(0, &client.message(*at, 0, b"x")), Instant::now()));
        results.last().unwrap().map(|events| events.len())
    };
    assert_eq!(try_counters(&[3, 4, 5]), Ok(1));
    assert_eq!(try_counters(&[3, 1000, u64::MAX]), Ok(1));
    let replay = fault(Stage::Message, SecurityFault::Counter);
    for counters in [&[0][..], &[1], &[2], &[3, 3], &[1000, 999], &[u64::MAX, u64::MAX]] {
        assert_eq!(try_counters(counters), Err(replay.clone()), "{counters:?}");
    }
    // The server's READY counts too.
    let (hand, server) = joined(client_config());
    assert_eq!(said(hand, &frame(0, &server.message(1, 0, b"x"))), Err(replay));
}

#[test]
fn a_clear_frame_after_the_handshake_is_refused_at_its_first_byte() {
    let clear = Err(fault(Stage::Message, SecurityFault::Clear));
    for start in [
        &support::command("PING", b"\0\0")[..3],
        &frame(0, b"hello")[..3],
        &frame(1, b"hello")[..2],
        &[&header(0, 1 << 20)[..], b"h"].concat(),
    ] {
        assert_eq!(said(open(server_config(AllowAny)).0, start), clear, "{start:?}");
        assert_eq!(said(joined(client_config()).0, start), clear, "{start:?}");
    }
    // An empty one has no first byte.
    let (hand, _) = open(server_config(AllowAny));
    assert_eq!(said(hand, &frame(0, b"")), Err(fault(Stage::Message, SecurityFault::Length)));
}

#[test]
fn flags_are_inside_and_only_there() {
    let hello = Ok(vec![Event::Message(Message::from("hello"))]);
    for outer in [0, 4] {
        let (hand, client) = open(server_config(AllowAny));
        assert_eq!(said(hand, &frame(outer, &client.message(3, 0, b"hello"))), hello);
    }
    let (hand, client) = open(server_config(AllowAny));
    assert_eq!(said(hand, &long_frame(0, &client.message(3, 0, b"hello"))), hello, "needlessly long");
    let (hand, client) = open(server_config(AllowAny));
    let more_outside = said(hand, &frame(1, &client.message(3, 0, b"hello")));
    assert_eq!(more_outside, Err(fault(Stage::Message, SecurityFault::Clear)));
    for inner in [3, 4, 8, 0x80, 0xff] {
        let (hand, client) = open(server_config(AllowAny));
        let result = said(hand, &frame(0, &client.message(3, inner, b"hello")));
        assert_eq!(result, Err(fault(Stage::Message, SecurityFault::Flags)), "{inner}");
    }
}

#[test]
fn b17_commands_ride_inside_also_between_parts() {
    let (mut hand, client) = open(server_config(AllowAny));
    let sealed: Vec<u8> = [
        client.message(3, 1, b"one"),
        client.message(4, 2, b"\x04PING\0\0abc"),
        client.message(5, 2, b"\x09SUBSCRIBEtopic"),
        client.message(6, 0, b"two"),
        client.message(7, 2, b"\x06CANCEL"),
        client.message(8, 2, b"\x04JOINwhatever"),
    ]
    .iter()
    .flat_map(|body| frame(0, body))
    .collect();
    let expected = [
        Event::Subscribe("topic".into()),
        Event::Message(Message::from_frames(["one", "two"])),
        Event::Cancel("".into()),
    ];
    assert_eq!(hand.feed(&sealed, Instant::now()), Ok(expected.to_vec()));
    let answers = frames(&hand.take());
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].0, client.opened(&answers[0].1)), (0, (2, 2, b"\x04PONGabc".to_vec())));
    for malformed in [&b""[..], b"\x00", b"\x04PIN", b"\x04PING\0", b"\x05READY"] {
        let (hand, client) = open(server_config(AllowAny));
        assert!(said(hand, &frame(0, &client.message(3, 2, malformed))).is_err(), "{malformed:?}");
    }
}

#[test]
fn b17_pings_ride_inside() {
    let heartbeat = Some(Heartbeat { interval: SECOND, timeout: SECOND, ttl: 5 * SECOND });
    let (mut hand, client) = open(ConnectionConfig { heartbeat, ..server_config(AllowAny) });
    hand.connection.on_deadline(Instant::now() + 2 * SECOND).unwrap();
    let sent = frames(&hand.take());
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].0, client.opened(&sent[0].1)), (0, (2, 2, b"\x04PING\x00\x32".to_vec())));
}

/// Two of ours, idle for a long time by the clock: whoever missed an answer would hang up.
#[test]
fn b17_heartbeats_keep_an_idle_connection() {
    let heartbeat = Some(Heartbeat { interval: SECOND, timeout: SECOND / 2, ttl: 2 * SECOND });
    let mut now = Instant::now();
    let mut ends = [
        Hand::new(ConnectionConfig { heartbeat, ..client_config() }, now),
        Hand::new(ConnectionConfig { heartbeat, ..server_config(AllowAny) }, now),
    ];
    let mut written = 0;
    for _ in 0..400 {
        for to in 0..2 {
            let bytes = ends[1 - to].take();
            written += bytes.len();
            ends[to].feed(&bytes, now).unwrap();
        }
        now += SECOND / 4;
        ends.iter_mut().for_each(|end| end.connection.on_deadline(now).unwrap());
    }
    assert!(ends.iter().all(|end| end.connection.is_open()));
    assert!(written > 2 * 90 * 2 * 40, "PINGs and PONGs of some 100 seconds");
    // And silence is noticed.
    let silent = (1..10).map(|i| ends[0].connection.on_deadline(now + i * SECOND)).find(Result::is_err);
    assert_eq!(silent, Some(Err(ConnectionError::Silent)));
}

#[test]
fn what_we_send_is_sealed_frame_by_frame() {
    let (mut hand, client) = open(server_config(AllowAny));
    let bodies = [vec![], b"one".to_vec(), vec![b'x'; 222], vec![b'x'; 223], vec![b'y'; 20_000]];
    hand.connection.send(&Message::from_frames(&bodies));
    let sent = frames(&hand.take());
    assert_eq!(sent.iter().map(|(flags, _)| *flags).collect::<Vec<_>>(), [0, 0, 0, 2, 2]);
    for (i, (_, body)) in sent.iter().enumerate() {
        let more = u8::from(i < 4);
        assert_eq!(client.opened(body), (2 + i as u64, more, bodies[i].clone()));
    }
}

/// Pitfall 17 and B03: the limits are those of frames in clear, and are checked before the bytes are there.
#[test]
fn limits_count_what_is_inside() {
    let limits = Limits { frame: 100_000, message: 250_000 };
    let limited = || open(ConnectionConfig { limits, ..server_config(AllowAny) });
    let sealed = |client: &Client, counter, flags, len| frame(0, &client.message(counter, flags, &vec![b'x'; len]));

    let (mut hand, client) = limited();
    assert_eq!(hand.feed(&sealed(&client, 3, 0, 100_000), Instant::now()).unwrap().len(), 1);
    let too_large = Err(ConnectionError::FrameTooLarge { size: 100_001, max: 100_000 });
    assert_eq!(hand.feed(&header(0, 100_034), Instant::now()), too_large);

    let (mut hand, client) = limited();
    hand.feed(&sealed(&client, 3, 1, 100_000), Instant::now()).unwrap();
    hand.feed(&sealed(&client, 4, 1, 100_000), Instant::now()).unwrap();
    let result = hand.feed(&header(0, 33 + 70_000), Instant::now());
    assert_eq!(result, Err(ConnectionError::MessageTooLarge { size: 270_027, max: 250_000 }));

    // Small frames add up too, and so do empty ones.
    let (mut hand, client) =
        open(ConnectionConfig { limits: Limits { frame: 100, message: 1000 }, ..server_config(AllowAny) });
    let refused = (3..).map(|counter| hand.feed(&sealed(&client, counter, 1, 0), Instant::now())).find(Result::is_err);
    assert_eq!(refused, Some(Err(ConnectionError::MessageTooLarge { size: 1002, max: 1000 })));
}

#[test]
fn commands_have_their_own_limit() {
    let topic = |len: usize| [&b"\x09SUBSCRIBE"[..], &vec![b't'; len - 10]].concat();
    let tight = || open(ConnectionConfig { limits: Limits { frame: 10, message: 20 }, ..server_config(AllowAny) });
    let (hand, client) = tight();
    let events = said(hand, &frame(0, &client.message(3, 2, &topic(MAX_COMMAND)))).unwrap();
    assert!(matches!(&events[..], [Event::Subscribe(topic)] if topic.len() == MAX_COMMAND - 10));
    let (hand, client) = open(server_config(AllowAny));
    let result = said(hand, &frame(0, &client.message(3, 2, &topic(MAX_COMMAND + 1))));
    assert_eq!(result, Err(ConnectionError::FrameTooLarge { size: MAX_COMMAND as u64 + 1, max: MAX_COMMAND as u64 }));
    let (hand, client) = tight();
    let result = said(hand, &frame(0, &client.message(3, 0, &[0; 11])));
    assert_eq!(result, Err(ConnectionError::FrameTooLarge { size: 11, max: 10 }));
}

// -- Properties -------------------------------------------------------------------------------------------------------

fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let len = prop_oneof![4 => 0..4usize, 2 => 220..258usize, 1 => 8190..8195usize, 1 => Just(40_000)];
    proptest::collection::vec((len, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]), 1..5)
}

/// Feeds bytes in the given pieces, `budget` messages at a time.
fn feed_in_pieces(
    hand: &mut Hand,
    bytes: &[u8],
    cuts: &[usize],
    budget: usize,
) -> (Vec<Event>, Option<ConnectionError>) {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let (mut events, mut start) = (Vec::new(), 0);
    for cut in cuts {
        hand.input.extend_from_slice(&bytes[start..cut]);
        start = cut;
        loop {
            let before = events.len();
            match hand.connection.receive(&mut hand.input, budget, Instant::now(), &mut events) {
                Err(error) => return (events, Some(error)),
                Ok(()) if events.len() == before => break,
                Ok(()) => {}
            }
        }
    }
    (events, None)
}

fn hostile_size() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(u64::MAX),
        Just(1 << 63),
        Just((1 << 63) - 1),
        Just((1 << 63) - 34),
        Just(1 << 44),
        Just(1 << 32),
        8193..=u64::MAX
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Two connections of ours, whatever the pieces their bytes come in: handshake and messages both ways.
    #[test]
    fn any_split_gives_the_same_events(
        messages in proptest::collection::vec(bodies(), 1..4),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
        budget in 1..5usize,
    ) {
        let now = Instant::now();
        let mut ends = [Hand::new(client_config(), now), Hand::new(server_config(AllowAny), now)];
        let mut told = [Vec::new(), Vec::new()];
        for round in 0..8 {
            if round == 5 {
                for end in &mut ends {
                    messages.iter().for_each(|bodies| end.connection.send(&Message::from_frames(bodies)));
                }
            }
            for to in 0..2 {
                let bytes = ends[1 - to].take();
                let (events, error) = feed_in_pieces(&mut ends[to], &bytes, &cuts, budget);
                prop_assert_eq!(error, None);
                told[to].extend(events);
            }
        }
        let expected: Vec<_> = messages.iter().map(|bodies| Event::Message(Message::from_frames(bodies))).collect();
        for events in told {
            prop_assert!(matches!(events[0], Event::Ready(_)));
            prop_assert_eq!(&events[1..], &expected[..]);
        }
    }

    /// Batches encoded beforehand come out the same as messages sent one by one.
    #[test]
    fn batches_are_sealed_like_messages(messages in proptest::collection::vec(bodies(), 1..20)) {
        let (mut hand, client) = open(server_config(AllowAny));
        let mut batch = zmtp::connection::Transmit::new();
        messages.iter().for_each(|bodies| batch.push(&Message::from_frames(bodies)));
        hand.connection.send_batch(&mut batch);
        prop_assert!(batch.is_empty());
        let mut sent = Vec::new();
        loop {
            let more = hand.take();
            if more.is_empty() { break }
            sent.extend(frames(&more));
        }
        let opened = sent.iter().map(|(_, body)| client.opened(body));
        let parts = messages.iter().flat_map(|bodies| {
            bodies.iter().enumerate().map(|(i, body)| (u8::from(i + 1 < bodies.len()), body.clone()))
        });
        prop_assert!(opened.eq(parts.enumerate().map(|(i, (more, body))| (2 + i as u64, more, body))));
    }

    #[test]
    fn garbage_at_any_stage_is_refused_or_waited_on(stage in 0..5usize, bytes: Vec<u8>, as_body: bool) {
        let bytes = if as_body { frame(if stage < 4 { 4 } else { 0 }, &bytes) } else { bytes };
        let hand = match stage {
            0 => greeted(server_config(AllowAny)).0,
            1 => welcomed(server_config(AllowAny)).0,
            2 => called(client_config()).0,
            3 => joined(client_config()).0,
            _ => open(server_config(AllowAny)).0,
        };
        prop_assert!(said(hand, &bytes).is_ok_and(|events| events.is_empty()) || !as_body || !bytes.is_empty());
    }

    /// Commands that begin rightly and go on as they like.
    #[test]
    fn garbage_behind_a_name_is_refused(stage in 0..4usize, tail in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (hand, name) = match stage {
            0 => (greeted(server_config(AllowAny)).0, &b"\x05HELLO"[..]),
            1 => (welcomed(server_config(AllowAny)).0, &b"\x08INITIATE"[..]),
            2 => (called(client_config()).0, &b"\x07WELCOME"[..]),
            _ => (open(server_config(AllowAny)).0, &b"\x07MESSAGE"[..]),
        };
        prop_assert!(said(hand, &command(&[name, &tail].concat())).is_err());
    }

    #[test]
    fn hostile_lengths_are_refused_by_their_header(stage in 0..4usize, size in hostile_size()) {
        let limits = Limits { frame: 8000, message: 8000 };
        let server = || ConnectionConfig { limits, ..server_config(AllowAny) };
        let client = || ConnectionConfig { limits, ..client_config() };
        let (hand, flags) = match stage {
            0 => (greeted(server()).0, 4),
            1 => (welcomed(server()).0, 4),
            2 => (called(client()).0, 4),
            _ => (open(server()).0, 0),
        };
        // In traffic anything up to the largest command may still be one.
        prop_assume!(stage < 3 || size > MAX_COMMAND as u64 + 33);
        prop_assert!(said(hand, &header(flags, size)).is_err());
    }
}
