//! PLAIN, command by command and over loopback.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Instant;

use proptest::prelude::*;
use zmtp::auth::{Authenticator, Passwords, Refusal};
use zmtp::connection::{ConnectionConfig, ConnectionError, Event};
use zmtp::{Dealer, Message, MonitorEvent, Reason, Router, Security, SecurityFault, SocketType, Stage};
use zmtp_testkit::{Hand, any_port, config, frame, hex, property, soon, until};

const HELLO: &str = "0413 05 48454c4c4f 05 61646d696e 06 736563726574";
const WELCOME: &str = "0408 07 57454c434f4d45";

fn passwords() -> Passwords {
    let passwords = Passwords::new();
    passwords.insert("admin", "secret").unwrap();
    passwords
}

fn server_config(authenticator: impl Authenticator + 'static) -> ConnectionConfig {
    ConnectionConfig { security: Security::plain_server(authenticator), ..config(SocketType::Router) }
}

fn client_config() -> ConnectionConfig {
    let security = Security::plain_client("admin", "secret").unwrap();
    ConnectionConfig { security, ..config(SocketType::Dealer) }
}

fn greeting() -> Vec<u8> {
    let mut bytes = hex("ff0000000000000001 7f 03 01 504c41494e");
    bytes.resize(64, 0);
    bytes
}

fn properties(socket_type: &str) -> Vec<u8> {
    [property("Socket-Type", socket_type.as_bytes()), property("Identity", b"")].concat()
}

fn initiate(socket_type: &str) -> Vec<u8> {
    zmtp_testkit::command("INITIATE", &properties(socket_type))
}

fn fault(stage: Stage, fault: SecurityFault) -> ConnectionError {
    ConnectionError::Security { stage, fault }
}

/// A connection that has the peer's greeting and then these bytes.
fn fed(config: ConnectionConfig, bytes: &[&[u8]]) -> (Hand, Result<Vec<Event>, ConnectionError>) {
    let mut hand = Hand::new(config, Instant::now());
    let result = hand.feed(&[&greeting(), &bytes.concat()[..]].concat(), Instant::now());
    (hand, result)
}

#[test]
fn the_servers_side() {
    let mut hand = Hand::new(server_config(passwords()), Instant::now());
    let mut as_server = hex("ff0000000000000000 7f 03 01 504c41494e");
    as_server.resize(64, 0);
    as_server[32] = 1;
    assert_eq!(hand.take(), as_server);
    assert_eq!(hand.feed(&greeting(), Instant::now()), Ok(vec![]));
    assert_eq!(hand.take(), b"", "the client speaks first");
    assert_eq!(hand.feed(&hex(HELLO), Instant::now()), Ok(vec![]));
    assert_eq!(hand.take(), hex(WELCOME));
    let events = hand.feed(&[initiate("DEALER"), frame(0, b"at once")].concat(), Instant::now()).unwrap();
    let [Event::Ready(peer), Event::Message(message)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((peer.socket_type, peer.user_id.as_deref()), (Some(SocketType::Dealer), Some("admin")));
    assert_eq!(*message, Message::from("at once"));
    assert_eq!(hand.take(), zmtp_testkit::command("READY", &properties("ROUTER")));
    hand.connection.send(&Message::from("in clear"));
    assert_eq!(hand.take(), frame(0, b"in clear"));
}

#[test]
fn the_clients_side() {
    let mut hand = Hand::new(client_config(), Instant::now());
    assert_eq!(hand.take()[32], 0);
    assert_eq!(hand.feed(&greeting(), Instant::now()), Ok(vec![]));
    assert_eq!(hand.take(), hex(HELLO));
    assert_eq!(hand.feed(&hex(WELCOME), Instant::now()), Ok(vec![]));
    let mut expected = hex("042c 08 494e495449415445");
    expected.extend(properties("DEALER"));
    assert_eq!(hand.take(), expected);
    let events = hand.feed(&zmtp_testkit::command("READY", &properties("ROUTER")), Instant::now()).unwrap();
    assert!(matches!(&events[..], [Event::Ready(peer)] if peer.user_id.is_none()));
}

#[test]
fn refusals_by_code() {
    #[derive(Debug)]
    struct Refuses(Refusal);
    impl Authenticator for Refuses {
        fn authenticate(&self, _: &zmtp::auth::Request<'_>) -> Result<zmtp::auth::Accepted, Refusal> {
            Err(self.0)
        }
    }
    for (refusal, told) in [
        (Refusal::Temporary, ""),
        (Refusal::Denied, "040a 05 4552524f52 03 343030"),
        (Refusal::Internal, "040a 05 4552524f52 03 353030"),
    ] {
        let (mut hand, result) = fed(server_config(Refuses(refusal)), &[&hex(HELLO)]);
        assert_eq!(result, Err(fault(Stage::Hello, SecurityFault::Refused(refusal))));
        assert_eq!(hand.take()[64..], hex(told));
    }
}

/// zmtp.md section 4: libzmq since 4.3.0 misspells ERROR under PLAIN.
#[test]
fn both_spellings_of_error_are_understood() {
    for error in ["040a 05 4552524f52 03 343030", "0409 5e 52524f52 03 343030"] {
        for before in ["", WELCOME] {
            let (_, result) = fed(client_config(), &[&hex(before), &hex(error)]);
            assert_eq!(result, Err(ConnectionError::Refused(b"400"[..].into())), "{before} {error}");
        }
        let (_, result) = fed(server_config(passwords()), &[&hex(error)]);
        assert_eq!(result, Err(fault(Stage::Hello, SecurityFault::Unexpected)), "not from a client");
    }
}

/// Pitfall 30: what clients of libzmq 4.3.0 and 4.3.1 send where HELLO belongs.
#[test]
fn pitfall_30_a_hello_that_calls_itself_welcome_is_understood() {
    let hello = hex("0415 05 57454c434f4d45 05 61646d696e 06 736563726574");
    let (mut hand, result) = fed(server_config(passwords()), &[&hello]);
    assert_eq!(result, Ok(vec![]));
    assert_eq!(hand.take()[64..], hex(WELCOME));
}

#[test]
fn malformed_commands_are_refused() {
    for (body, expected) in [
        (&b"\x05HELLO"[..], SecurityFault::Length),
        (b"\x05HELLO\x05admi", SecurityFault::Length),
        (b"\x05HELLO\x05admin", SecurityFault::Length),
        (b"\x05HELLO\x05admin\x07secret", SecurityFault::Length),
        (b"\x05HELLO\x05admin\x06secret\x00", SecurityFault::Length),
        (b"\x05READY", SecurityFault::Unexpected),
        (b"", SecurityFault::Unexpected),
        (b"\x00", SecurityFault::Unexpected),
    ] {
        let (_, result) = fed(server_config(passwords()), &[&frame(4, body)]);
        assert_eq!(result, Err(fault(Stage::Hello, expected)), "{body:?}");
    }
    let (_, result) = fed(client_config(), &[&frame(4, b"\x07WELCOME\x00")]);
    assert_eq!(result, Err(fault(Stage::Welcome, SecurityFault::Length)));
    let (_, result) = fed(client_config(), &[&zmtp_testkit::command("READY", b"")]);
    assert_eq!(result, Err(fault(Stage::Welcome, SecurityFault::Unexpected)));
    let (_, result) = fed(client_config(), &[&hex(WELCOME), &hex(WELCOME)]);
    assert_eq!(result, Err(fault(Stage::Ready, SecurityFault::Unexpected)));
    let (_, result) = fed(server_config(passwords()), &[&hex(HELLO), &hex(HELLO)]);
    assert_eq!(result, Err(fault(Stage::Initiate, SecurityFault::Unexpected)));
    let (_, result) = fed(server_config(passwords()), &[&zmtp_testkit::header(4, 8193)]);
    assert_eq!(result, Err(ConnectionError::FrameTooLarge { size: 8193, max: 8192 }));
    let (_, result) = fed(server_config(passwords()), &[&frame(0, &hex(HELLO)[2..])]);
    assert_eq!(result, Err(ConnectionError::MessageInHandshake));
}

#[test]
fn the_types_have_to_fit_on_both_sides() {
    let (mut hand, result) = fed(server_config(passwords()), &[&hex(HELLO), &initiate("PUSH")]);
    assert!(matches!(result, Err(ConnectionError::SocketType { .. })), "{result:?}");
    assert!(hand.take().ends_with(&zmtp_testkit::command("ERROR", b"\x13Invalid socket type")));
    let ready = zmtp_testkit::command("READY", &properties("PUSH"));
    let (mut hand, result) = fed(client_config(), &[&hex(WELCOME), &ready]);
    assert!(matches!(result, Err(ConnectionError::SocketType { .. })), "{result:?}");
    assert!(hand.take().ends_with(&initiate("DEALER")), "a client has no ERROR");
}

#[test]
fn names_and_passwords_fit_one_length_byte() {
    let longest = "x".repeat(255);
    for (user, password) in [("", ""), (&longest[..], &longest[..])] {
        let passwords = passwords();
        passwords.insert(user, password).unwrap();
        let security = Security::plain_client(user, password).unwrap();
        let mut client = Hand::new(ConnectionConfig { security, ..client_config() }, Instant::now());
        client.feed(&greeting(), Instant::now()).unwrap();
        let (mut server, result) = fed(server_config(passwords), &[&client.take()[64..]]);
        assert_eq!(result, Ok(vec![]));
        assert!(server.take().ends_with(&hex(WELCOME)));
    }
    assert!(Security::plain_client("x".repeat(256), "").is_err());
    assert!(Security::plain_client("", "x".repeat(256)).is_err());
    let shown = format!("{:?}", Security::plain_client("admin", "secret").unwrap());
    assert!(shown.contains("admin") && !shown.contains("secret"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_split_gives_the_same_events(
        cuts in proptest::collection::vec(any::<usize>(), 0..10),
        wrong in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..20)),
    ) {
        let server = [greeting(), hex(HELLO), initiate("DEALER"), frame(1, b"a"), frame(0, b"b"), wrong.clone().unwrap_or_default()];
        let ready = zmtp_testkit::command("READY", &properties("ROUTER"));
        let client = [greeting(), hex(WELCOME), ready, frame(1, b"a"), frame(0, b"b"), wrong.unwrap_or_default()];
        for (config, bytes) in [(server_config(passwords()), server.concat()), (client_config(), client.concat())] {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let run = |cuts: &[usize]| {
                let mut hand = Hand::new(config.clone(), Instant::now());
                let (mut events, mut start) = (Vec::new(), 0);
                for cut in cuts {
                    hand.input.extend_from_slice(&bytes[start..*cut]);
                    start = *cut;
                    if let Err(error) = hand.connection.receive(&mut hand.input, usize::MAX, Instant::now(), &mut events) {
                        return (events, Some(error), hand.take());
                    }
                }
                (events, None, hand.take())
            };
            prop_assert_eq!(run(&cuts), run(&[bytes.len()]));
        }
    }

    #[test]
    fn garbage_never_panics(bytes: Vec<u8>, client: bool) {
        let config = if client { client_config() } else { server_config(passwords()) };
        let _ = fed(config.clone(), &[&bytes]);
        let _ = fed(config, &[&frame(4, &bytes)]);
    }
}

// -- Sockets ----------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn messages_of_every_shape_both_ways() {
    let mut router = Router::builder().security(Security::plain_server(passwords())).build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    let mut dealer = Dealer::builder().security(Security::plain_client("admin", "secret").unwrap()).build();
    dealer.connect(&endpoint).unwrap();
    for message in zmtp_testkit::shapes() {
        dealer.send(message.clone()).await.unwrap();
        let (peer, received) = soon("a message", router.recv()).await.unwrap();
        assert_eq!(received, message);
        router.send(&peer, received).await.unwrap();
        assert_eq!(soon("its echo", dealer.recv()).await.unwrap(), message);
    }
}

#[tokio::test]
async fn a_wrong_password_is_told_on_both_sides() {
    let router = Router::builder().security(Security::plain_server(passwords())).build();
    let mut at_router = router.monitor();
    let endpoint = router.bind(&any_port()).await.unwrap();
    let dealer = Dealer::builder().security(Security::plain_client("admin", "wrong").unwrap()).build();
    let mut at_dealer = dealer.monitor();
    dealer.connect(&endpoint).unwrap();
    let reason = until(&mut at_router, "the router's refusal", |event| match event {
        MonitorEvent::HandshakeFailed { reason, .. } => Some(reason),
        _ => None,
    })
    .await;
    assert_eq!(reason.to_string(), "HELLO: the authenticator refused the peer: denied (400)");
    let reason = until(&mut at_dealer, "the dealer's giving up", |event| match event {
        MonitorEvent::GaveUp { reason, .. } => Some(reason),
        _ => None,
    })
    .await;
    assert!(matches!(&reason, Reason::Protocol(ConnectionError::Refused(code)) if **code == *b"400"), "{reason}");
}

#[tokio::test]
async fn a_peer_of_another_mechanism_is_refused() {
    let router = Router::builder().security(Security::plain_server(passwords())).build();
    let mut at_router = router.monitor();
    let endpoint = router.bind(&any_port()).await.unwrap();
    let dealer = Dealer::builder().build();
    dealer.connect(&endpoint).unwrap();
    let reason = until(&mut at_router, "the router's refusal", |event| match event {
        MonitorEvent::HandshakeFailed { reason, .. } => Some(reason),
        _ => None,
    })
    .await;
    assert_eq!(reason.to_string(), "the peer wants mechanism NULL, we want PLAIN");
}
