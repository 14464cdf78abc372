//! The byte vectors of libzmq 4.3.5 through [`zmtp::connection::Connection`], in both directions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use zmtp::connection::{ConnectionConfig, ConnectionError, Event};
use zmtp::wire::greeting::Version;
use zmtp::{Heartbeat, Message, PeerInfo, RoutingId, SocketType};
use zmtp_testkit::{Hand, command, config, frame, greeting, hex, ready};

const READY_DEALER_WORKER_1: &str = "0431 05 5245414459 0b 536f636b65742d54797065 00000006 4445414c4552 \
                                     08 4964656e74697479 00000008 776f726b65722d31";
const READY_DEALER: &str = "0429 05 5245414459 0b 536f636b65742d54797065 00000006 4445414c4552 \
                            08 4964656e74697479 00000000";
const READY_ROUTER: &str = "0429 05 5245414459 0b 536f636b65742d54797065 00000006 524f55544552 \
                            08 4964656e74697479 00000000";
const READY_REQ: &str = "0426 05 5245414459 0b 536f636b65742d54797065 00000003 524551 08 4964656e74697479 00000000";
const READY_PUB: &str = "0419 05 5245414459 0b 536f636b65742d54797065 00000003 505542";

/// Our greeting in full, and our READY once the peer's greeting is in.
fn what_we_send(config: ConnectionConfig) -> (Vec<u8>, Vec<u8>) {
    let mut hand = Hand::new(config, Instant::now());
    let mut sent = hand.take();
    hand.feed(&greeting(), Instant::now()).unwrap();
    sent.extend(hand.take());
    let ready = sent.split_off(64);
    (sent, ready)
}

/// What we read out of a peer's greeting and READY.
fn peer(ours: SocketType, greeting: &[u8], ready: &str) -> PeerInfo {
    let mut hand = Hand::new(config(ours), Instant::now());
    match hand.feed(&[greeting, &hex(ready)].concat(), Instant::now()).unwrap().remove(0) {
        Event::Ready(info) => *info,
        other => panic!("{other:?}"),
    }
}

#[test]
fn greetings_both_ways() {
    let mut ours = hex("ff0000000000000000 7f 03 01 4e554c4c");
    ours.resize(64, 0);
    assert_eq!(what_we_send(config(SocketType::Router)).0, ours);

    for padding in ["ff0000000000000001", "ff0000000000000009", "ffffffffffffffffff"] {
        let mut theirs = hex(padding);
        theirs.extend(hex("7f 03 01 4e554c4c"));
        theirs.resize(64, 0);
        let info = peer(SocketType::Router, &theirs, READY_DEALER);
        assert_eq!(info.version, Version::V3_1);
    }
    // Garbage in as-server and filler, as libzmq tolerates.
    let mut theirs = greeting();
    theirs[32..].fill(0xa5);
    assert_eq!(peer(SocketType::Router, &theirs, READY_DEALER).socket_type, Some(SocketType::Dealer));
}

#[test]
fn other_mechanisms_are_refused() {
    for name in ["504c41494e", "4355525645", "4e554c4c20", "6e756c6c", ""] {
        let mut theirs = hex("ff0000000000000001 7f 03 01");
        theirs.extend(hex(name));
        theirs.resize(64, 0);
        let mut hand = Hand::new(config(SocketType::Router), Instant::now());
        let result = hand.feed(&theirs, Instant::now());
        assert!(matches!(result, Err(ConnectionError::Mechanism { .. })), "{name}: {result:?}");
    }
}

#[test]
fn ready_both_ways() {
    let id = RoutingId::new("worker-1").unwrap();
    let dealer = config(SocketType::Dealer);
    let named = ConnectionConfig { routing_id: Some(id.clone()), ..dealer.clone() };
    assert_eq!(what_we_send(named).1, hex(READY_DEALER_WORKER_1));
    assert_eq!(what_we_send(dealer).1, hex(READY_DEALER));
    assert_eq!(what_we_send(config(SocketType::Router)).1, hex(READY_ROUTER));
    assert_eq!(what_we_send(config(SocketType::Req)).1, hex(READY_REQ));
    assert_eq!(what_we_send(config(SocketType::Pub)).1, hex(READY_PUB));

    for (ours, ready, theirs, routing_id) in [
        (SocketType::Router, READY_DEALER_WORKER_1, SocketType::Dealer, Some(id)),
        (SocketType::Router, READY_DEALER, SocketType::Dealer, None),
        (SocketType::Dealer, READY_ROUTER, SocketType::Router, None),
        (SocketType::Router, READY_REQ, SocketType::Req, None),
        (SocketType::Sub, READY_PUB, SocketType::Pub, None),
    ] {
        let info = peer(ours, &greeting(), ready);
        assert_eq!((info.socket_type, info.routing_id), (Some(theirs), routing_id));
    }
}

#[test]
fn a_ready_without_any_property_and_one_in_another_order_are_accepted() {
    let info = peer(SocketType::Router, &greeting(), "0406 05 5245414459");
    assert_eq!((info.socket_type, info.routing_id), (None, None));
    let swapped = "0435 05 5245414459 08 4964656e74697479 00000001 41 \
                   0b 736f636b65742d74797065 00000006 4445414c4552 03 582d61 00000003 313233";
    let info = peer(SocketType::Router, &greeting(), swapped);
    assert_eq!(info.routing_id, Some(RoutingId::new("A").unwrap()));
    assert_eq!((&info.properties[0].name[..], &info.properties[0].value[..]), (&b"X-a"[..], &b"123"[..]));
}

#[test]
fn messages_both_ways() {
    let long = |len: usize| vec![b'x'; len];
    let vectors: Vec<(Message, Vec<u8>)> = vec![
        (Message::from_frames(["", "hello"]), hex("0100 0005 68656c6c6f")),
        (Message::from(""), hex("0000")),
        (Message::from(long(255)), [hex("00ff"), long(255)].concat()),
        (Message::from(long(256)), [hex("02 0000000000000100"), long(256)].concat()),
        (Message::from_frames(["", "q", "r"]), hex("0100 0101 71 0001 72")),
        (Message::from_frames([&hex("f341b1ae")[..], b"", b"q", b"r"]), hex("0104 f341b1ae 0100 0101 71 0001 72")),
        (Message::from_frames(["env1", "env2", "", "R"]), hex("0104 656e7631 0104 656e7632 0100 0001 52")),
    ];
    for (message, bytes) in vectors {
        let now = Instant::now();
        let mut hand = Hand::open(config(SocketType::Router), "DEALER", now);
        hand.connection.send(&message);
        assert_eq!(hand.take(), bytes, "{message:?}");
        assert_eq!(hand.feed(&bytes, now), Ok(vec![Event::Message(message)]));
    }
}

#[test]
fn pings_both_ways() {
    let now = Instant::now();
    let mut hand = Hand::open(config(SocketType::Router), "DEALER", now);
    for (ping, pong) in [
        ("0407 04 50494e47 0000", "0405 04 504f4e47"),
        ("0407 04 50494e47 0032", "0405 04 504f4e47"),
        ("040b 04 50494e47 0000 61626364", "0409 04 504f4e47 61626364"),
    ] {
        assert_eq!(hand.feed(&hex(ping), now), Ok(vec![]));
        assert_eq!(hand.take(), hex(pong));
    }

    let second = Duration::from_secs(1);
    for (ttl, ping) in [(Duration::ZERO, "0407 04 50494e47 0000"), (5 * second, "0407 04 50494e47 0032")] {
        let heartbeat = Some(Heartbeat { interval: second, timeout: second, ttl });
        let mut hand = Hand::open(ConnectionConfig { heartbeat, ..config(SocketType::Router) }, "DEALER", now);
        hand.connection.on_deadline(now + second).unwrap();
        assert_eq!(hand.take(), hex(ping));
        assert_eq!(hand.feed(&hex("0405 04 504f4e47"), now + second), Ok(vec![]));
    }
}

#[test]
fn subscriptions_of_3_1_are_events_and_those_of_3_0_are_messages() {
    let now = Instant::now();
    let mut hand = Hand::open(config(SocketType::Pub), "SUB", now);
    let topic = vec![b'x'; 245];
    let longer = vec![b'x'; 246];
    for (bytes, event) in [
        (hex("040b 09 535542534352494245 41"), Event::Subscribe("A".into())),
        (hex("040a 09 535542534352494245"), Event::Subscribe("".into())),
        ([hex("04ff 09 535542534352494245"), topic.clone()].concat(), Event::Subscribe(topic.into())),
        ([hex("06 0000000000000100 09 535542534352494245"), longer.clone()].concat(), Event::Subscribe(longer.into())),
        (hex("0408 06 43414e43454c 41"), Event::Cancel("A".into())),
        (hex("0002 01 41"), Event::Message(Message::from("\x01A"))),
        (hex("0001 00"), Event::Message(Message::from("\x00"))),
    ] {
        assert_eq!(hand.feed(&bytes, now), Ok(vec![event]));
    }
}

#[test]
fn errors_both_ways() {
    let now = Instant::now();
    let mut hand = Hand::new(config(SocketType::Dealer), now);
    let refused = hand.feed(&[greeting(), hex("040a 05 4552524f52 03 343030")].concat(), now);
    assert_eq!(refused, Err(ConnectionError::Refused(b"400"[..].into())));

    // Incompatible types: RFC 23 wants an ERROR, behind our READY.
    let mut hand = Hand::new(config(SocketType::Router), now);
    let result = hand.feed(&[greeting(), hex(READY_PUB)].concat(), now);
    assert_eq!(result, Err(ConnectionError::SocketType { ours: SocketType::Router, theirs: b"PUB"[..].into() }));
    let sent = hand.take();
    assert_eq!(sent[64..], [hex(READY_ROUTER), command("ERROR", b"\x13Invalid socket type")].concat());
}

#[test]
fn type_names_are_exact() {
    for name in ["dealer", "DEALER ", "", "STREAM", "ROUTERROUTERROUTERROUTER"] {
        let mut hand = Hand::new(config(SocketType::Router), Instant::now());
        let result = hand.feed(&[greeting(), ready(name, b"")].concat(), Instant::now());
        assert!(matches!(result, Err(ConnectionError::SocketType { .. })), "{name}: {result:?}");
    }
}

#[test]
fn invalid_first_bytes_of_a_frame_are_refused() {
    for flags in 0..=255u8 {
        let mut hand = Hand::open(config(SocketType::Router), "DEALER", Instant::now());
        let result = hand.feed(&[flags], Instant::now());
        let valid = matches!(flags, 0 | 1 | 2 | 3 | 4 | 6);
        assert_eq!(result.is_ok(), valid, "{flags:#04x}: {result:?}");
    }
    let mut hand = Hand::open(config(SocketType::Router), "DEALER", Instant::now());
    assert!(hand.feed(&frame(0, b"still fine"), Instant::now()).is_ok());
}
