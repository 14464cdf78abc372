//! What the handshake checks, in its order, and who is let in.

use std::time::{Duration, Instant};

use zmtp::auth::{AllowAny, CurveKeys};
use zmtp::connection::{ConnectionConfig, ConnectionError, Event};
use zmtp::{PublicKey, Security, SecurityFault, SocketType, Stage};
use zmtp_testkit::curve::{CLIENT, Client, Initiate, command, frames, greeting, metadata, pair, public};
use zmtp_testkit::{Hand, frame, property};

use crate::steps::{called, client_config, fault, greeted, said, server_config, welcomed};

/// Section 5: what libzmq does not check.
#[test]
fn curve_05_hellos_that_seal_nonsense_are_refused() {
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
fn curve_05_a_wrong_server_key_shows_in_the_first_box() {
    let mut client = Client::new();
    client.server = public([0x77; 32]);
    let (mut hand, _) = greeted(server_config(AllowAny));
    let result = hand.feed(&command(&client.hello()), Instant::now());
    assert_eq!(result, Err(fault(Stage::Hello, SecurityFault::Box)));
    assert_eq!(hand.take(), b"", "no ERROR for a stranger");
}

#[test]
fn curve_05_weak_keys_are_refused_wherever_they_come() {
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
fn curve_06_b17_a_cookie_of_another_connection_is_refused() {
    let (_, _, other) = welcomed(server_config(AllowAny));
    let (hand, client, mut says) = welcomed(server_config(AllowAny));
    says.cookie = other.cookie;
    assert_eq!(said(hand, &command(&client.initiate(&says))), Err(fault(Stage::Initiate, SecurityFault::Cookie)));
}

/// libzmq lets the second of these pass.
#[test]
fn curve_05_b17_a_vouch_for_another_connection_server_or_client_is_refused() {
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
fn curve_05_b17_properties_in_initiate_are_checked_and_told() {
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
fn curve_05_a_server_of_the_wrong_type_is_left_without_a_word() {
    let (mut hand, server) = called(client_config());
    hand.feed(&command(&server.welcome()), Instant::now()).unwrap();
    hand.take();
    let result = hand.feed(&command(&server.ready(1, &metadata("PUB"))), Instant::now());
    assert!(matches!(result, Err(ConnectionError::SocketType { .. })), "{result:?}");
    assert_eq!(hand.take(), b"", "a client has no ERROR");
}

#[test]
fn curve_07_authenticators_decide_on_the_long_term_key() {
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
fn curve_07_an_error_of_the_server_is_told() {
    let error = command(b"\x05ERROR\x03400");
    let (hand, _) = called(client_config());
    assert_eq!(said(hand, &error), Err(ConnectionError::Refused(b"400"[..].into())));
    let (mut hand, server) = called(client_config());
    hand.feed(&command(&server.welcome()), Instant::now()).unwrap();
    assert_eq!(said(hand, &error), Err(ConnectionError::Refused(b"400"[..].into())));
}

#[test]
fn curve_05_commands_out_of_order_are_refused() {
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
fn curve_01_two_servers_or_two_clients_do_not_get_anywhere() {
    let (mut a, mut b) = (Hand::new(client_config(), Instant::now()), Hand::new(client_config(), Instant::now()));
    let greetings = [a.take(), b.take()];
    a.feed(&greetings[1], Instant::now()).unwrap();
    b.feed(&greetings[0], Instant::now()).unwrap();
    assert_eq!(a.feed(&b.take(), Instant::now()), Err(fault(Stage::Welcome, SecurityFault::Unexpected)));
    let timeout = Duration::from_secs(30);
    let start = Instant::now();
    let mut hand = Hand::new(server_config(AllowAny), start);
    hand.feed(&greeting(), start).unwrap();
    assert_eq!(hand.connection.on_deadline(start + timeout), Err(ConnectionError::HandshakeTimeout));
}

#[test]
fn other_mechanisms_are_refused_by_their_greeting() {
    for other in [zmtp_testkit::greeting(), {
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
