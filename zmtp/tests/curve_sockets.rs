//! CURVE between sockets over loopback, and strangers beside valid clients (B17).

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use zmtp::auth::{AllowAny, CurveKeys};
use zmtp::{
    Dealer, Endpoint, KeyPair, Message, Monitor, MonitorEvent, PublicKey, Reason, Reconnect, Router, RouterEvent,
    Security, SocketBuilder, Stage, Sub, XPub, XPubEvent,
};
use zmtp_testkit::{Raw, any_port, dead_port, id, soon, until};

const MS: Duration = Duration::from_millis(1);

fn pair() -> KeyPair {
    KeyPair::generate().unwrap()
}

fn router(keys: &KeyPair) -> SocketBuilder<Router> {
    Router::builder().security(Security::curve_server(keys.clone(), AllowAny))
}

fn dealer(server: PublicKey) -> SocketBuilder<Dealer> {
    Dealer::builder()
        .security(Security::curve_client(server, pair()))
        .reconnect(Reconnect { first: 10 * MS, longest: 50 * MS })
}

async fn round_trip(router: &mut Router, dealer: &mut Dealer, message: Message) {
    dealer.send(message.clone()).await.unwrap();
    let (peer, received) = soon("a message", router.recv()).await.unwrap();
    assert_eq!(received, message);
    router.send(&peer, received).await.unwrap();
    assert_eq!(soon("its echo", dealer.recv()).await.unwrap(), message);
}

async fn handshake_failure(monitor: &mut Monitor) -> Reason {
    until(monitor, "a failed handshake", |event| match event {
        MonitorEvent::HandshakeFailed { reason, .. } => Some(reason),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn messages_of_every_shape_both_ways() {
    let keys = pair();
    let mut router = router(&keys).build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    let mut dealer = dealer(keys.public()).build();
    dealer.connect(&endpoint).unwrap();
    for message in zmtp_testkit::shapes() {
        round_trip(&mut router, &mut dealer, message).await;
    }
}

/// The roles have nothing to do with who binds.
#[tokio::test]
async fn the_server_may_be_the_one_that_connects() {
    let keys = pair();
    let mut dealer = dealer(keys.public()).build();
    let endpoint = dealer.bind(&any_port()).await.unwrap();
    let mut router = router(&keys).build();
    router.connect(&endpoint).unwrap();
    round_trip(&mut router, &mut dealer, Message::from_frames(["", "hello"])).await;
}

/// More than is sealed ahead, and more than the kernel takes.
#[tokio::test]
async fn a_long_queue_arrives_whole_and_in_order() {
    let keys = pair();
    let mut router = router(&keys).build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    let dealer = dealer(keys.public()).send_hwm(0).build();
    dealer.connect(&endpoint).unwrap();
    let message = |number: usize| {
        let body = vec![number as u8; if number.is_multiple_of(100) { 200_000 } else { number % 700 }];
        Message::from_frames([number.to_string().into_bytes(), body])
    };
    for number in 0..5000 {
        dealer.send(message(number)).await.unwrap();
    }
    for number in 0..5000 {
        assert_eq!(soon("a message", router.recv()).await.unwrap().1, message(number));
    }
}

#[tokio::test]
async fn a_lost_connection_is_made_anew_with_fresh_keys() {
    let keys = pair();
    let endpoint = dead_port();
    let mut dealer = dealer(keys.public()).build();
    dealer.connect(&endpoint).unwrap();
    for round in 0..3 {
        let mut router = router(&keys).build();
        bind_again(&router, &endpoint).await;
        round_trip(&mut router, &mut dealer, Message::from(format!("round {round}"))).await;
        let mut monitor = dealer.monitor();
        soon("the router's close", router.close()).await;
        until(&mut monitor, "the loss", |event| matches!(event, MonitorEvent::Disconnected { .. }).then_some(())).await;
    }
}

async fn bind_again(router: &Router, endpoint: &Endpoint) {
    soon("the port", async {
        while router.bind(endpoint).await.is_err() {
            tokio::time::sleep(5 * MS).await;
        }
    })
    .await;
}

/// Both sides say why, and the client tries on: the server may get the right key yet.
#[tokio::test]
async fn a_wrong_server_key_fails_the_handshake_and_is_retried() {
    let keys = pair();
    let router = router(&keys).build();
    let (mut at_router, endpoint) = (router.monitor(), router.bind(&any_port()).await.unwrap());
    let dealer = dealer(pair().public()).build();
    let mut at_dealer = dealer.monitor();
    dealer.connect(&endpoint).unwrap();
    let reason = handshake_failure(&mut at_router).await;
    assert_eq!(reason.to_string(), "HELLO: the box does not open: wrong key, or tampered with");
    for _ in 0..3 {
        let reason = handshake_failure(&mut at_dealer).await;
        assert!(matches!(reason, Reason::ClosedAwaiting(Stage::Welcome) | Reason::Io(_)), "{reason}");
        until(&mut at_dealer, "another attempt", |event| matches!(event, MonitorEvent::Retrying { .. }).then_some(()))
            .await;
    }
}

/// Strangers never reach the socket and do not keep valid clients out.
#[tokio::test]
async fn b17_strangers_beside_a_valid_client() {
    let (keys, worker) = (pair(), pair());
    let known = CurveKeys::new();
    known.insert(worker.public(), "worker-1");
    let security = Security::curve_server(keys.clone(), known.clone());
    let mut router = Router::builder().security(security).max_handshakes(20).build();
    let (mut monitor, endpoint) = (router.monitor(), router.bind(&any_port()).await.unwrap());

    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(Raw::connect(&endpoint).await);
    }
    let mut null = Raw::connect(&endpoint).await;
    null.send(
        &[zmtp_testkit::greeting(), zmtp_testkit::ready("DEALER", b"evil"), zmtp_testkit::frame(0, b"evil")].concat(),
    )
    .await;
    null.closed().await;
    let unknown = Dealer::builder().security(Security::curve_client(keys.public(), pair())).build();
    unknown.connect(&endpoint).unwrap();
    unknown.send(Message::from("evil")).await.unwrap();

    let security = Security::curve_client(keys.public(), worker.clone());
    let mut dealer = Dealer::builder().security(security).routing_id(id("worker-1")).build();
    dealer.connect(&endpoint).unwrap();
    round_trip(&mut router, &mut dealer, Message::from("valid")).await;
    until(&mut monitor, "the unknown client's refusal", |event| match event {
        MonitorEvent::HandshakeFailed { reason, .. } if reason.to_string().contains("denied (400)") => Some(()),
        _ => None,
    })
    .await;
    drop(silent);
    round_trip(&mut router, &mut dealer, Message::from("still valid")).await;
    drop((dealer, unknown));
    // Of all of them the application has seen one.
    let (_, mut receiver) = router.split();
    let down = soon("the client's end", receiver.recv_event()).await.unwrap();
    assert!(matches!(down, RouterEvent::Down { peer, .. } if peer == id("worker-1")));
    assert!(receiver.try_recv_event().is_none());
}

/// Pitfall 13: subscriptions are commands, and stay commands inside the box.
#[tokio::test]
async fn pitfall_13_b17_subscriptions_ride_inside() {
    let keys = pair();
    let mut xpub = XPub::builder().security(Security::curve_server(keys.clone(), AllowAny)).build();
    let endpoint = xpub.bind(&any_port()).await.unwrap();
    let mut sub = Sub::builder().security(Security::curve_client(keys.public(), pair())).build();
    let topics = ["", "A", &"x".repeat(245), &"x".repeat(246), &"y".repeat(65_536)];
    for topic in topics {
        sub.subscribe(topic).unwrap();
    }
    sub.connect(&endpoint).unwrap();
    for topic in topics {
        let event = soon("a subscription", xpub.recv()).await.unwrap();
        assert!(matches!(event, XPubEvent::Subscribe(heard) if heard == topic.as_bytes()), "{topic:.10}");
    }
    xpub.send(Message::from_frames(["A", "news"])).await.unwrap();
    assert_eq!(soon("the news", sub.recv()).await.unwrap(), Message::from_frames(["A", "news"]));
}
