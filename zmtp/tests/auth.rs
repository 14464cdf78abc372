//! Authenticators behind sockets: what they are asked, and what becomes of the answers.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Mutex;
use std::time::{Duration, Instant};

use zmtp::auth::{Accepted, AddressFilter, AllowAny, Authenticator, Credentials, CurveKeys, Refusal, Request};
use zmtp::connection::{ConnectionConfig, ConnectionError, Event};
use zmtp::wire::greeting::GreetingError;
use zmtp::{
    Dealer, KeyPair, Message, Monitor, MonitorEvent, PeerInfo, Reason, Reconnect, Router, Security, SecurityFault,
    SocketType, Stage,
};
use zmtp_testkit::{Hand, any_port, config, greeting, ready, soon, until};

/// Answers as told, and notes the questions.
#[derive(Debug)]
struct Told {
    answer: Result<Accepted, Refusal>,
    asked: Mutex<Vec<String>>,
}

impl Told {
    fn new(answer: Result<Accepted, Refusal>) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self { answer, asked: Mutex::default() })
    }
}

impl Authenticator for Told {
    fn authenticate(&self, request: &Request<'_>) -> Result<Accepted, Refusal> {
        let Request { domain, address, credentials, .. } = request;
        let address = address.and_then(|peer| peer.tcp()).map(|tcp| tcp.ip());
        self.asked.lock().unwrap().push(format!("{domain} {address:?} {credentials:?}"));
        self.answer.clone()
    }
}

fn quick() -> Reconnect {
    Reconnect { first: Duration::from_millis(10), longest: Duration::from_millis(50) }
}

async fn peer_of(monitor: &mut Monitor) -> Box<PeerInfo> {
    until(monitor, "a handshake", |event| match event {
        MonitorEvent::HandshakeSucceeded { info, .. } => Some(info),
        _ => None,
    })
    .await
}

async fn failure(monitor: &mut Monitor) -> Reason {
    until(monitor, "a failed handshake", |event| match event {
        MonitorEvent::HandshakeFailed { reason, .. } => Some(reason),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn null_asks_for_the_address_and_tells_what_was_answered() {
    let told = Told::new(Ok(Accepted::user("me").with("Role", "admin")));
    let router = Router::builder().security(Security::null_with(told.clone()).domain("inner")).build();
    let (mut monitor, endpoint) = (router.monitor(), router.bind(&any_port()).await.unwrap());
    let dealer = Dealer::builder().build();
    let mut at_dealer = dealer.monitor();
    dealer.connect(&endpoint).unwrap();
    let info = peer_of(&mut monitor).await;
    assert_eq!(info.user_id.as_deref(), Some("me"));
    assert_eq!((&info.metadata[0].name[..], &info.metadata[0].value[..]), (&b"Role"[..], &b"admin"[..]));
    assert_eq!(*told.asked.lock().unwrap(), ["inner Some(127.0.0.1) Null"]);
    let info = peer_of(&mut at_dealer).await;
    assert_eq!((&info.user_id, &info.metadata[..]), (&None, &[][..]), "nobody was asked about the router");
}

#[test]
fn null_refuses_before_anything_else_is_said() {
    for (refusal, told) in [
        (Refusal::Temporary, &b""[..]),
        (Refusal::Denied, b"\x04\x0a\x05ERROR\x03400"),
        (Refusal::Internal, b"\x04\x0a\x05ERROR\x03500"),
    ] {
        let security = Security::null_with(Told::new(Err(refusal)));
        let mut hand = Hand::new(ConnectionConfig { security, ..config(SocketType::Router) }, Instant::now());
        let result = hand.feed(&[greeting(), ready("DEALER", b"")].concat(), Instant::now());
        let fault = SecurityFault::Refused(refusal);
        assert_eq!(result, Err(ConnectionError::Security { stage: Stage::Greeting, fault }));
        assert_eq!(hand.take()[64..], *told);
    }
    let plain = Hand::open(config(SocketType::Router), "DEALER", Instant::now());
    assert!(plain.connection.is_open(), "without an authenticator nobody is asked");
}

#[test]
fn authenticators_are_asked_about_credentials_once() {
    let told = Told::new(Ok(Accepted::anonymous()));
    let security = Security::null_with(told.clone());
    let mut hand = Hand::new(ConnectionConfig { security, ..config(SocketType::Router) }, Instant::now());
    let events = hand.feed(&[greeting(), ready("DEALER", b"")].concat(), Instant::now()).unwrap();
    assert!(matches!(&events[..], [Event::Ready(peer)] if peer.user_id.as_deref() == Some("")));
    assert_eq!(*told.asked.lock().unwrap(), [" None Null"]);
}

/// Nobody gets around a check by speaking an older language, which has none.
#[test]
fn older_protocols_are_refused_where_anything_is_checked() {
    let keys = || KeyPair::generate().unwrap();
    let zmtp_2 = [&greeting()[..10], &[1, 5, 0, 0]].concat();
    for security in [
        Security::null_with(AllowAny),
        Security::plain_client("user", "password").unwrap(),
        Security::plain_server(AllowAny),
        Security::curve_client(keys().public(), keys()),
        Security::curve_server(keys(), AllowAny),
    ] {
        let mut hand = Hand::new(ConnectionConfig { security, ..config(SocketType::Router) }, Instant::now());
        assert_eq!(hand.take().len(), 64, "there is nothing to wait for");
        let result = hand.feed(&zmtp_2, Instant::now());
        assert_eq!(result, Err(ConnectionError::Greeting(GreetingError::TooOld(2))));
    }
    let mut hand = Hand::new(config(SocketType::Router), Instant::now());
    assert!(matches!(hand.feed(&zmtp_2, Instant::now()).as_deref(), Ok([Event::Ready(_)])));
}

#[tokio::test]
async fn an_address_filter_lets_in_and_shuts_out() {
    let shut = AddressFilter::new().deny("127.0.0.0/8".parse().unwrap());
    let router = Router::builder().security(Security::null_with(shut)).build();
    let (mut monitor, endpoint) = (router.monitor(), router.bind(&any_port()).await.unwrap());
    let dealer = Dealer::builder().build();
    dealer.connect(&endpoint).unwrap();
    let reason = failure(&mut monitor).await;
    assert_eq!(reason.to_string(), "greeting: the authenticator refused the peer: denied (400)");

    let open = AddressFilter::new().allow("127.0.0.0/8".parse().unwrap());
    let router = Router::builder().security(Security::null_with(open)).build();
    let (mut monitor, endpoint) = (router.monitor(), router.bind(&any_port()).await.unwrap());
    let dealer = Dealer::builder().build();
    dealer.connect(&endpoint).unwrap();
    assert_eq!(peer_of(&mut monitor).await.user_id.as_deref(), Some(""));
}

#[tokio::test]
async fn keys_can_be_let_in_and_shut_out_while_the_socket_runs() {
    let (keys, worker) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let known = CurveKeys::new();
    let filter = AddressFilter::new().allow("127.0.0.1".parse().unwrap());
    let security = Security::curve_server(keys.clone(), filter.and(known.clone())).domain("jobs");
    let mut router = Router::builder().security(security).build();
    let (mut monitor, endpoint) = (router.monitor(), router.bind(&any_port()).await.unwrap());
    let connect = || {
        let security = Security::curve_client(keys.public(), worker.clone());
        let dealer = Dealer::builder().security(security).build();
        dealer.connect(&endpoint).unwrap();
        dealer
    };
    let refused = connect();
    let mut at_refused = refused.monitor();
    until(&mut at_refused, "the refusal", |event| match event {
        MonitorEvent::GaveUp { reason: Reason::Protocol(ConnectionError::Refused(code)), .. } => {
            assert_eq!(*code, *b"400");
            Some(())
        }
        _ => None,
    })
    .await;
    known.insert(worker.public(), "worker-1");
    let mut accepted = connect();
    let info = peer_of(&mut monitor).await;
    assert_eq!(info.user_id.as_deref(), Some("worker-1"));
    known.remove(&worker.public());
    // What stands is left alone.
    accepted.send(Message::from("still here")).await.unwrap();
    let (peer, message) = soon("a message", router.recv()).await.unwrap();
    router.send(&peer, message).await.unwrap();
    assert_eq!(soon("its echo", accepted.recv()).await.unwrap(), Message::from("still here"));
    let again = connect();
    let mut at_again = again.monitor();
    until(&mut at_again, "the next refusal", |event| matches!(event, MonitorEvent::GaveUp { .. }).then_some(())).await;
}

/// 300 is for those who may come again: no ERROR, so that they do.
#[tokio::test]
async fn a_temporary_refusal_is_retried() {
    let keys = KeyPair::generate().unwrap();
    let router =
        Router::builder().security(Security::curve_server(keys.clone(), Told::new(Err(Refusal::Temporary)))).build();
    let (mut at_router, endpoint) = (router.monitor(), router.bind(&any_port()).await.unwrap());
    let security = Security::curve_client(keys.public(), KeyPair::generate().unwrap());
    let dealer = Dealer::builder().security(security).reconnect(quick()).build();
    let mut at_dealer = dealer.monitor();
    dealer.connect(&endpoint).unwrap();
    for _ in 0..3 {
        let reason = failure(&mut at_router).await;
        assert_eq!(reason.to_string(), "INITIATE: the authenticator refused the peer: not now (300)");
        let reason = failure(&mut at_dealer).await;
        assert_eq!(reason.to_string(), "closed by the peer instead of a READY");
    }
}

#[test]
fn both_have_to_accept() {
    let request = Request::new("", None, Credentials::Null);
    let named = |name: &str| Told::new(Ok(Accepted::user(name).with("From", name)));
    let both = named("a").and(named("b")).authenticate(&request).unwrap();
    assert_eq!((both.user_id.as_str(), both.metadata.len()), ("b", 2));
    assert_eq!(named("a").and(AllowAny).authenticate(&request).unwrap().user_id, "a");
    for refusal in [Refusal::Temporary, Refusal::Denied, Refusal::Internal] {
        let no = || Told::new(Err(refusal));
        assert_eq!(named("a").and(no()).authenticate(&request), Err(refusal));
        let second = named("b");
        assert_eq!(no().and(second.clone()).authenticate(&request), Err(refusal));
        assert!(second.asked.lock().unwrap().is_empty(), "not asked for nothing");
    }
}
