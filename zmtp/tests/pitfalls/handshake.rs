//! Greetings, READY, and who is let in when.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use zmtp::auth::{AddressFilter, AllowAny, Passwords};
use zmtp::connection::{ConnectionConfig, ConnectionError, Event};
use zmtp::{
    Dealer, KeyPair, Limits, Message, MonitorEvent, Pub, Push, Reason, Router, RouterEvent, Security, SendFailure,
    SocketBuilder, SocketType,
};

use zmtp_testkit::{
    Hand, Raw, any_port, command, config, echo, frame, greeting, hex, id, property, ready, soon, until, wire, wish,
};

/// READY of a DEALER, in the middle of which a length may lie.
const LENGTHS_IN_READY: [usize; 4] = [2, 8, 20, 30];

fn secured(socket_type: SocketType, security: Security) -> ConnectionConfig {
    ConnectionConfig { security, ..config(socket_type) }
}

/// A greeting of a mechanism, its as-server byte as given.
fn greeting_of(mechanism: &str, as_server: u8) -> Vec<u8> {
    let mut bytes = greeting();
    bytes[12..32].fill(0);
    bytes[12..12 + mechanism.len()].copy_from_slice(mechanism.as_bytes());
    bytes[32] = as_server;
    bytes
}

fn plain_server(user: &str, password: &str) -> Security {
    let passwords = Passwords::new();
    passwords.insert(user, password).unwrap();
    Security::plain_server(passwords)
}

proptest! {
    /// rzmq hung on libzmq's padding, which ends in 01. Nor do as-server and the filler count.
    #[test]
    fn pitfall_01_padding_and_filler_are_ignored(padding: [u8; 8], high_bits in 0..128u8, rest: [u8; 32]) {
        let mut bytes = greeting();
        bytes[1..9].copy_from_slice(&padding);
        bytes[9] = high_bits << 1 | 1;
        bytes[32..].copy_from_slice(&rest);
        let mut hand = Hand::new(config(SocketType::Router), Instant::now());
        let events = hand.feed(&[bytes, ready("DEALER", b"")].concat(), Instant::now()).unwrap();
        prop_assert!(matches!(events[..], [Event::Ready(_)]));
    }

    /// In two pieces, cut anywhere, or whole; and the answer is the same.
    #[test]
    fn pitfall_02_greetings_come_in_pieces_or_at_once(cut in 0..=106usize) {
        let bytes = [greeting(), ready("DEALER", b"")].concat();
        let mut hand = Hand::new(config(SocketType::Router), Instant::now());
        let mut events = hand.feed(&bytes[..cut], Instant::now()).unwrap();
        events.extend(hand.feed(&bytes[cut..], Instant::now()).unwrap());
        prop_assert!(matches!(events[..], [Event::Ready(_)]));
        let answer = hand.take();
        prop_assert_eq!(&answer[64..], ready("ROUTER", b""));
    }
}

/// A peer that sends no more than it must before it has heard us, as libzmq does, is not kept waiting.
#[test]
fn pitfall_02_nobody_waits_for_the_rest_of_a_greeting() {
    for security in [Security::null(), plain_server("admin", "secret")] {
        let bytes = greeting_of(&security.mechanism().to_string(), 0);
        let mut hand = Hand::new(secured(SocketType::Router, security), Instant::now());
        let mut heard = hand.take();
        assert!(heard.len() >= 11, "the version, unasked");
        hand.feed(&bytes[..11], Instant::now()).unwrap();
        heard.extend(hand.take());
        assert_eq!(heard.len(), 64, "all of the greeting for one that told its version");
    }
}

#[tokio::test]
async fn pitfall_02_a_greeting_byte_by_byte_over_tcp() {
    let mut router = Router::builder().build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    let mut raw = Raw::connect(&endpoint).await;
    for byte in [greeting(), ready("DEALER", b"slow"), wire(&["hello"])].concat() {
        raw.send(&[byte]).await;
    }
    assert_eq!(soon("hello", router.recv()).await.unwrap(), (id("slow"), Message::from("hello")));
}

/// What we write is what libzmq wants to read.
#[test]
fn pitfall_03_name_length_as_server_and_no_identity_frame() {
    let mut hand = Hand::new(config(SocketType::Router), Instant::now());
    hand.feed(&[greeting(), ready("DEALER", b"w")].concat(), Instant::now()).unwrap();
    let answer = hand.take();
    assert_eq!(answer[32], 0, "as-server under NULL");
    assert_eq!(answer[64..72], hex("0429 05 5245414459"), "READY and the length of its name");
    hand.connection.send(&Message::from_frames(["", "hello"]));
    assert_eq!(hand.take(), hex("0100 0005 68656c6c6f"), "no identity on the wire");
}

/// A REQ of ours has its delimiter, a ROUTER takes its routing id off.
#[tokio::test]
async fn pitfall_03_a_router_keeps_the_routing_id_to_itself() {
    let mut router = Router::builder().build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    let mut raw = Raw::shaken(&endpoint, "DEALER", b"w").await;
    raw.send(&wire(&["ask"])).await;
    let (peer, message) = soon("ask", router.recv()).await.unwrap();
    router.send(&peer, message).await.unwrap();
    assert_eq!(raw.read_frame().await, (0, b"ask".to_vec()));
}

/// libzmq sends 0 even as a server. Ours tells the truth and asks nobody for it.
#[test]
fn pitfall_04_as_server_decides_nothing() {
    let keys = KeyPair::generate().unwrap();
    let client = || Security::plain_client("admin", "secret").unwrap();
    let curve_client = || Security::curve_client(keys.public(), KeyPair::generate().unwrap());
    let curve_server = || Security::curve_server(keys.clone(), AllowAny);
    let sides: [(&str, u8, &dyn Fn() -> Security); 5] = [
        ("NULL", 0, &Security::null),
        ("PLAIN", 0, &client),
        ("PLAIN", 1, &|| plain_server("admin", "secret")),
        ("CURVE", 0, &curve_client),
        ("CURVE", 1, &curve_server),
    ];
    for (mechanism, ours, security) in sides {
        for theirs in [0, 1, 0xff] {
            let mut hand = Hand::new(secured(SocketType::Dealer, security()), Instant::now());
            assert_eq!(hand.feed(&greeting_of(mechanism, theirs), Instant::now()), Ok(vec![]), "{mechanism} {theirs}");
            assert_eq!(hand.take()[32], ours, "{mechanism}");
        }
    }
}

/// Two clients that face each other are told so at once, and do not hang.
#[test]
fn pitfall_04_two_clients_fail_at_once() {
    let client = || Security::plain_client("admin", "secret").unwrap();
    let mut ends = [SocketType::Dealer, SocketType::Router].map(|t| Hand::new(secured(t, client()), Instant::now()));
    let greetings = [ends[0].take(), ends[1].take()];
    ends[0].feed(&greetings[1], Instant::now()).unwrap();
    ends[1].feed(&greetings[0], Instant::now()).unwrap();
    let hello = ends[1].take();
    assert!(matches!(ends[0].feed(&hello, Instant::now()), Err(ConnectionError::Security { .. })));
}

/// NetMQ sent users' messages to any TCP client.
#[tokio::test]
async fn pitfall_05_no_message_leaves_before_the_handshake_is_over() {
    let publisher = Pub::builder().build();
    let endpoint = publisher.bind(&any_port()).await.unwrap();
    let dealer = Dealer::builder().build();
    let dealer_endpoint = dealer.bind(&any_port()).await.unwrap();
    let mut monitors = [publisher.monitor(), dealer.monitor()];
    let mut strangers = [Raw::connect(&endpoint).await, Raw::connect(&dealer_endpoint).await];
    for (stranger, monitor) in strangers.iter_mut().zip(&mut monitors) {
        stranger.send(&greeting()).await;
        stranger.read(64).await;
        assert_eq!(stranger.read_frame().await.0, 4, "READY");
        until(monitor, "the connection", |event| matches!(event, MonitorEvent::Accepted { .. }).then_some(())).await;
    }
    for _ in 0..10 {
        publisher.send(Message::from("for subscribers")).await.unwrap();
        assert_eq!(dealer.try_send(Message::from("for peers")).unwrap_err().reason, SendFailure::Full);
    }
    // What comes next is what was said after the handshake.
    let [subscriber, peer] = &mut strangers;
    subscriber.send(&[ready("SUB", b""), wish(true, b"", true), command("PING", b"\0\0")].concat()).await;
    assert_eq!(subscriber.read_frame().await, (4, b"\x04PONG".to_vec()));
    publisher.send(Message::from("now")).await.unwrap();
    assert_eq!(subscriber.read_frame().await, (0, b"now".to_vec()));
    peer.send(&ready("DEALER", b"")).await;
    dealer.send(Message::from("now")).await.unwrap();
    assert_eq!(peer.read_frame().await, (0, b"now".to_vec()));
}

/// zmq.rs panicked. Every length in READY is a lie once, and what follows is not taken for granted.
#[test]
fn pitfall_06_no_length_in_ready_is_believed() {
    let honest = ready("DEALER", b"worker-1");
    for at in LENGTHS_IN_READY {
        for lie in [1, 0x7f, 0x80, 0xfe, 0xff] {
            let mut bytes = honest.clone();
            bytes[at] = bytes[at].wrapping_add(lie);
            let mut hand = Hand::new(config(SocketType::Router), Instant::now());
            let result = hand.feed(&[greeting(), bytes].concat(), Instant::now());
            assert!(result.is_err(), "{lie} more at {at}: {result:?}");
        }
    }
    // Any byte at all may be any other, and the whole may end anywhere.
    for at in 0..honest.len() {
        for byte in 0..=u8::MAX {
            let mut bytes = honest.clone();
            bytes[at] = byte;
            let mut hand = Hand::new(config(SocketType::Router), Instant::now());
            let _ = hand.feed(&[greeting(), bytes].concat(), Instant::now());
        }
        let cut = [&[4, at as u8], &honest[2..2 + at.min(honest.len() - 2)]].concat();
        let mut hand = Hand::new(config(SocketType::Router), Instant::now());
        let _ = hand.feed(&[&greeting(), &cut[..]].concat(), Instant::now());
    }
}

/// A limit below the size of a handshake command limits messages, and breaks no connection.
#[tokio::test]
async fn pitfall_17_a_small_limit_does_not_stop_the_handshake() {
    let keys = KeyPair::generate().unwrap();
    let pairs = [
        (Security::null(), Security::null()),
        (plain_server("admin", "secret"), Security::plain_client("admin", "secret").unwrap()),
        (
            Security::curve_server(keys.clone(), AllowAny),
            Security::curve_client(keys.public(), KeyPair::generate().unwrap()),
        ),
    ];
    for (server, client) in pairs {
        let limits = Limits { frame: 4, message: 20 };
        let mut router = Router::builder().limits(limits).security(server).build();
        let endpoint = router.bind(&any_port()).await.unwrap();
        let dealer: SocketBuilder<Dealer> = Dealer::builder().limits(limits).security(client);
        let mut dealer = dealer.build();
        let mut events = router.monitor();
        dealer.connect(&endpoint).unwrap();
        dealer.send(Message::from("fits")).await.unwrap();
        let (peer, message) = soon("four bytes", router.recv()).await.unwrap();
        router.send(&peer, message).await.unwrap();
        assert_eq!(soon("four bytes back", dealer.recv()).await.unwrap(), Message::from("fits"));
        dealer.send(Message::from("not so")).await.unwrap();
        let reason = until(&mut events, "the end", |event| match event {
            MonitorEvent::Disconnected { reason, .. } => Some(reason),
            _ => None,
        })
        .await;
        assert!(matches!(reason, Reason::Protocol(ConnectionError::FrameTooLarge { size: 6, max: 4 })), "{reason:?}");
    }
}

/// CVE-2020-15166: who has not completed the handshake is nobody, to senders as to receivers.
#[tokio::test]
async fn pitfall_21_half_open_connections_are_not_in_the_socket() {
    let push = Push::builder().build();
    let push_endpoint = push.bind(&any_port()).await.unwrap();
    let mut router = Router::builder().build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    let stages = [
        vec![],
        vec![0xff],
        greeting()[..11].to_vec(),
        greeting(),
        [greeting(), ready("PULL", b"")[..9].to_vec()].concat(),
    ];
    let mut strangers = Vec::new();
    for stage in stages.iter().cycle().take(20) {
        for endpoint in [&endpoint, &push_endpoint] {
            let mut raw = Raw::connect(endpoint).await;
            raw.send(stage).await;
            strangers.push(raw);
        }
    }
    let mut pull = Raw::shaken(&push_endpoint, "PULL", b"").await;
    for number in 0..100u8 {
        soon("room", push.send(Message::from(vec![number]))).await.unwrap();
        assert_eq!(pull.read_frame().await, (0, vec![number]), "all for the one that is there");
    }
    echo(&mut router, &endpoint).await;
    assert!(matches!(soon("its end", router.recv_event()).await, Ok(RouterEvent::Down { .. })));
    let (sender, mut receiver) = router.split();
    assert_eq!(sender.peers(), []);
    assert!(receiver.try_recv_event().is_none());
}

/// Whatever the peer had already sent, it reads the whole ERROR, and then the end.
#[tokio::test]
async fn pitfall_24_a_refusal_is_told_before_the_close() {
    let refusal = command("ERROR", b"\x03400");
    let nobody = AddressFilter::new().deny("127.0.0.0/8".parse().unwrap());
    let null = Router::builder().security(Security::null_with(nobody)).build();
    let plain = Router::builder().security(plain_server("admin", "secret")).build();
    let null_endpoint = null.bind(&any_port()).await.unwrap();
    let plain_endpoint = plain.bind(&any_port()).await.unwrap();
    let hello = command("HELLO", b"\x05admin\x05wrong");
    let sides = [(null_endpoint, greeting(), ready("DEALER", b"")), (plain_endpoint, greeting_of("PLAIN", 0), hello)];
    for round in 0..40 {
        for (endpoint, greeting, last) in &sides {
            let mut raw = Raw::connect(endpoint).await;
            if round % 2 == 0 {
                // All at once, and more behind it that nobody will read.
                raw.send(&[&greeting[..], last, &frame(0, &[0; 100])].concat()).await;
                raw.read(64).await;
            } else {
                raw.send(greeting).await;
                raw.read(64).await;
                raw.send(last).await;
            }
            assert_eq!(raw.read(refusal.len()).await, refusal, "round {round}");
            raw.closed().await;
        }
    }
}

/// The same for one who cannot be served: the list of properties says which type it is.
#[tokio::test]
async fn pitfall_24_a_socket_type_that_does_not_fit_is_told_too() {
    let router = Router::builder().handshake_timeout(Duration::from_secs(60)).build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    for _ in 0..20 {
        let mut raw = Raw::connect(&endpoint).await;
        raw.send(&[greeting(), command("READY", &property("Socket-Type", b"PUB"))].concat()).await;
        raw.read(64).await;
        assert_eq!(raw.read_frame().await.1[..6], *b"\x05READY");
        assert_eq!(raw.read_frame().await.1[..6], *b"\x05ERROR");
        raw.closed().await;
    }
}
