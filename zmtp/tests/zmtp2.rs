//! ZMTP 2.0 peers (libzmq 3.2), played by hand: served under NULL. Older ones are refused.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use zmtp::connection::{ConnectionConfig, ConnectionError, Event};
use zmtp::wire::frame::FrameError;
use zmtp::wire::greeting::{GreetingError, Version};
use zmtp::{
    Dealer, Endpoint, Heartbeat, Limits, Message, MonitorEvent, Reason, Router, RoutingId, RoutingIdError, SocketType,
};
use zmtp_testkit::{
    Hand, Raw, Target, command, config, echo, frame, greeting, hex, id, long_frame, ready, soon, until, wire,
};

const SIGNATURE: &str = "ff 0000000000000001 7f";
const DEALER: u8 = 5;
const ROUTER: u8 = 6;

/// A 2.0 peer's greeting: signature, revision, socket type, identity.
fn old(socket_type: u8, identity: &[u8]) -> Vec<u8> {
    [hex(SIGNATURE), vec![1, socket_type], frame(0, identity)].concat()
}

fn fed(config: ConnectionConfig, bytes: &[u8]) -> Result<Vec<Event>, ConnectionError> {
    Hand::new(config, Instant::now()).feed(bytes, Instant::now())
}

/// The vector of the wire: a DEALER named ID to a 2.0 peer.
#[test]
fn both_greetings_byte_by_byte() {
    let now = Instant::now();
    let routing_id = Some(RoutingId::new("ID").unwrap());
    let mut hand = Hand::new(ConnectionConfig { routing_id, ..config(SocketType::Dealer) }, now);
    assert_eq!(hand.take(), hex("ff 0000000000000000 7f 03"), "no more before the peer's revision is known");
    let theirs = old(ROUTER, b"R");
    for byte in &theirs[..10] {
        assert_eq!(hand.feed(&[*byte], now), Ok(vec![]));
        assert_eq!(hand.take(), []);
    }
    assert_eq!(hand.feed(&theirs[10..11], now), Ok(vec![]));
    assert_eq!(hand.take(), hex("05 0002 4944"));
    let last = theirs.len() - 1;
    for byte in &theirs[11..last] {
        assert_eq!(hand.feed(&[*byte], now), Ok(vec![]));
    }
    let events = hand.feed(&theirs[last..], now).unwrap();
    let [Event::Ready(info)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(info.version, Version::V2_0);
    assert_eq!(info.socket_type, Some(SocketType::Router));
    assert_eq!(info.routing_id, Some(id("R")));
    assert_eq!(hand.take(), []);

    let message = Message::from_frames([&b""[..], &[7; 300]]);
    hand.connection.send(&message);
    let bytes = hand.take();
    assert_eq!(bytes, wire(&[&b""[..], &[7; 300]]));
    assert_eq!(hand.feed(&bytes, now), Ok(vec![Event::Message(message)]));
}

/// A 3.x peer gets all of our greeting and our READY in one piece.
#[test]
fn a_peer_of_3_gets_the_rest_of_the_greeting_with_ready() {
    let now = Instant::now();
    let mut hand = Hand::new(config(SocketType::Dealer), now);
    let begun = hand.take();
    hand.feed(&greeting()[..11], now).unwrap();
    let rest = hand.take();
    assert_eq!([begun, rest].concat()[10..16], *b"\x03\x01NULL");
    hand.feed(&greeting()[11..], now).unwrap();
    assert_eq!(hand.take(), ready("DEALER", b""));
}

#[test]
fn every_type_has_its_number() {
    use SocketType::*;
    for (ours, number, theirs, name) in [
        (Pair, 0, 0, "PAIR"),
        (Pub, 1, 2, "SUB"),
        (XPub, 9, 10, "XSUB"),
        (Sub, 2, 1, "PUB"),
        (XSub, 10, 9, "XPUB"),
        (Req, 3, 4, "REP"),
        (Rep, 4, 3, "REQ"),
        (Dealer, 5, 6, "ROUTER"),
        (Router, 6, 5, "DEALER"),
        (Pull, 7, 8, "PUSH"),
        (Push, 8, 7, "PULL"),
    ] {
        let mut hand = Hand::new(config(ours), Instant::now());
        hand.take();
        let events = hand.feed(&old(theirs, b""), Instant::now()).unwrap();
        assert!(matches!(&events[..], [Event::Ready(info)] if info.socket_type.unwrap().name() == name), "{ours}");
        assert_eq!(hand.take(), [number, 0, 0]);
    }
}

#[test]
fn what_does_not_belong_is_refused() {
    let router = || config(SocketType::Router);
    let start = [hex(SIGNATURE), vec![1, DEALER]].concat();
    let behind = |bytes: &[u8]| fed(router(), &[&start[..], bytes].concat());
    let open = |bytes: &[u8]| fed(router(), &[&old(DEALER, b"")[..], bytes].concat());
    let wrong_type = |theirs: &[u8]| ConnectionError::SocketType { ours: SocketType::Router, theirs: theirs.into() };
    for (result, error) in [
        (fed(router(), &old(8, b"")), wrong_type(b"PUSH")),
        (fed(router(), &old(11, b"")), wrong_type(&[11])),
        (behind(&frame(1, b"id")), FrameError::Flags(1).into()),
        (behind(&frame(4, b"id")), FrameError::Flags(4).into()),
        (behind(&frame(8, b"id")), FrameError::Flags(8).into()),
        (behind(&frame(0, b"\0id")), RoutingIdError::Reserved.into()),
        (behind(&long_frame(0, &[1; 256])[..9]), RoutingIdError::TooLong(256).into()),
        (
            behind(&[2, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            RoutingIdError::TooLong(i64::MAX as usize).into(),
        ),
        (open(&command("PING", b"\0\0")), FrameError::Flags(4).into()),
        (open(&ready("DEALER", b"")), FrameError::Flags(4).into()),
        (fed(router(), &[hex(SIGNATURE), vec![0, DEALER, 0, 0]].concat()), GreetingError::TooOld(1).into()),
        (fed(router(), &hex("ff 0000000000000003 00 4944")), GreetingError::TooOld(1).into()),
        (fed(router(), &hex("03 00 4944")), GreetingError::NotZmtp(3).into()),
    ] {
        assert_eq!(result, Err(error));
    }
    // An identity in a needlessly long frame is one all the same.
    assert!(matches!(&behind(&long_frame(0, b"id")).unwrap()[..], [Event::Ready(_)]));
}

#[test]
fn limits_hold_for_old_peers_too() {
    let limited = ConnectionConfig { limits: Limits { frame: 100, message: 150 }, ..config(SocketType::Router) };
    let result = fed(limited, &[old(DEALER, b""), frame(0, &[0; 101])].concat());
    assert_eq!(result, Err(ConnectionError::FrameTooLarge { size: 101, max: 100 }));
}

/// B06: libzmq's handshake timer killed healthy 2.0 links. And they know no PING.
#[test]
fn b06_no_timer_is_left_once_an_old_peer_is_there() {
    let (now, minute) = (Instant::now(), Duration::from_secs(60));
    let heartbeat = Some(Heartbeat { interval: minute, timeout: minute, ttl: minute });
    let mut hand = Hand::new(ConnectionConfig { heartbeat, ..config(SocketType::Router) }, now);
    let greeting = old(DEALER, b"");
    hand.feed(&greeting[..13], now).unwrap();
    assert_eq!(hand.connection.deadline(), Some(now + minute / 2), "one half greeted is given up");
    hand.feed(&greeting[13..], now).unwrap();
    hand.take();
    assert_eq!(hand.connection.deadline(), None);
    hand.connection.on_deadline(now + 10 * minute).unwrap();
    assert_eq!(hand.take(), []);
}

/// B06: an old DEALER of many steps talks to our ROUTER.
#[tokio::test]
async fn b06_an_old_peer_is_served() {
    let mut target = Target::new(Router::builder().build()).await;
    let mut raw = Raw::connect(&target.endpoint).await;
    raw.send(&hex(SIGNATURE)).await;
    assert_eq!(raw.read(11).await, hex("ff 0000000000000000 7f 03"));
    raw.send(&[1, DEALER]).await;
    assert_eq!(raw.read(3).await, [ROUTER, 0, 0]);
    raw.send(&frame(0, b"old")).await;
    raw.send(&wire(&["", "hello"])).await;
    let (peer, message) = soon("its message", target.router.recv()).await.unwrap();
    assert_eq!((peer.clone(), &message), (id("old"), &Message::from_frames(["", "hello"])));
    target.router.send(&peer, message).await.unwrap();
    assert_eq!(raw.read_frame().await, (1, vec![]));
    assert_eq!(raw.read_frame().await, (0, b"hello".to_vec()));
    let info = until(&mut target.monitor, "the handshake", |event| match event {
        MonitorEvent::HandshakeSucceeded { info, .. } => Some(info),
        _ => None,
    });
    assert_eq!(info.await.version, Version::V2_0);
    // Beside it a peer of today.
    echo(&mut target.router, &target.endpoint).await;
}

/// The other way round: our DEALER connects, the old ROUTER is bound, and comes back after a break.
#[tokio::test]
async fn b06_our_dealer_talks_to_an_old_bound_peer_again_and_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut dealer = Dealer::builder().routing_id(id("us")).build();
    let mut monitor = dealer.monitor();
    dealer.connect(&Endpoint::from(listener.local_addr().unwrap())).unwrap();
    for round in 0..3u8 {
        dealer.send(Message::from(vec![round; 3])).await.unwrap();
        let mut raw = Raw(soon("a connection", listener.accept()).await.unwrap().0);
        raw.send(&old(ROUTER, b"")).await;
        assert_eq!(raw.read(11 + 1 + 4).await, [hex("ff 0000000000000000 7f 03 05"), frame(0, b"us")].concat());
        assert_eq!(raw.read_frame().await, (0, vec![round; 3]));
        raw.send(&frame(0, &[round])).await;
        assert_eq!(soon("the answer", dealer.recv()).await.unwrap(), Message::from(vec![round]));
        drop(raw);
        // What is sent before that is lost with the connection.
        let gone = |event| matches!(event, MonitorEvent::Disconnected { .. }).then_some(());
        until(&mut monitor, "the end of the connection", gone).await;
    }
}

/// B06: 1.0 is refused at the first byte that tells.
#[tokio::test]
async fn b06_version_1_is_refused() {
    let mut target = Target::new(Router::builder().build()).await;
    for bytes in [hex("0100"), hex("ff 0000000000000003 00 4944"), [hex(SIGNATURE), vec![0]].concat()] {
        target.refuses(&bytes).await;
    }
    let old = |reason: &&Reason| matches!(reason, Reason::Protocol(ConnectionError::Greeting(_)));
    assert_eq!(target.failures.iter().filter(old).count(), 3);
}
