//! ROUTER and DEALER over real loopback sockets: who reaches whom, under which name, and who is told what.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::time::Duration;

use zmtp::{
    BindError, ConnectError, Dealer, Endpoint, Handover, Message, MonitorEvent, Reason, Reconnect, Router, RouterEvent,
    SendFailure,
};
use zmtp_testkit::{Raw, any_port, dead_port, echo, frame, id, named_dealer, soon, until, wire};

async fn bound_router() -> (Router, Endpoint) {
    let router = Router::builder().build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    (router, endpoint)
}

async fn event(router: &mut Router) -> RouterEvent {
    soon("an event", router.recv_event()).await.unwrap()
}

#[tokio::test]
async fn either_side_binds() {
    let (mut router, endpoint) = bound_router().await;
    echo(&mut router, &endpoint).await;

    let mut dealer = Dealer::builder().build();
    let endpoint = dealer.bind(&any_port()).await.unwrap();
    let mut router = Router::builder().routing_id(id("r")).build();
    router.connect(&endpoint).unwrap();
    soon("room", dealer.send(Message::from_frames(["", "a"]))).await.unwrap();
    let (peer, message) = soon("the message", router.recv()).await.unwrap();
    assert!(peer.is_generated());
    router.send(&peer, message).await.unwrap();
    assert_eq!(soon("the reply", dealer.recv()).await.unwrap(), Message::from_frames(["", "a"]));

    // ROUTER to ROUTER, both with names.
    let mut other = Router::builder().routing_id(id("other")).build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    other.connect(&endpoint).unwrap();
    while !matches!(event(&mut other).await, RouterEvent::Up { peer, .. } if peer == id("r")) {}
    other.send(&id("r"), Message::from("hello")).await.unwrap();
    let (peer, _) = soon("the message", router.recv()).await.unwrap();
    assert_eq!(peer, id("other"));
}

#[tokio::test]
async fn a_dealer_with_several_endpoints_deals_in_turn_and_hears_all() {
    let mut routers = Vec::new();
    let mut dealer = Dealer::builder().build();
    for _ in 0..3 {
        let (router, endpoint) = bound_router().await;
        dealer.connect(&endpoint).unwrap();
        dealer.connect(&endpoint).unwrap(); // ignored, as by libzmq
        routers.push(router);
    }
    let (mut router, endpoint) = bound_router().await;
    let second = router.bind(&any_port()).await.unwrap();
    assert_ne!(endpoint, second);
    for i in 0..6 {
        dealer.send(Message::from(format!("{i}"))).await.unwrap();
    }
    for (r, router) in routers.iter_mut().enumerate() {
        for turn in 0..2 {
            let (peer, message) = soon("a turn", router.recv()).await.unwrap();
            assert_eq!(message, Message::from(format!("{}", 3 * turn + r)));
            router.send(&peer, Message::from(format!("from {r}"))).await.unwrap();
        }
    }
    let mut answers = HashSet::new();
    for _ in 0..6 {
        answers.insert(soon("an answer", dealer.recv()).await.unwrap().frame(0).unwrap().to_vec());
    }
    assert_eq!(answers.len(), 3);
    echo(&mut router, &endpoint).await;
    echo(&mut router, &second).await;
}

#[tokio::test]
async fn routing_ids_are_the_peers_own_or_made_up() {
    let (mut router, endpoint) = bound_router().await;
    let long = "x".repeat(255);
    for name in ["w", "\u{ff}\u{1}", &long] {
        let dealer = named_dealer(name);
        dealer.connect(&endpoint).unwrap();
        dealer.send(Message::from("hi")).await.unwrap();
        assert_eq!(soon("hi", router.recv()).await.unwrap().0, id(name));
        soon("close", dealer.close()).await;
    }
    let dealers = [Dealer::builder().build(), Dealer::builder().build()];
    let mut peers = HashSet::new();
    for dealer in &dealers {
        dealer.connect(&endpoint).unwrap();
        dealer.send(Message::from("hi")).await.unwrap();
        peers.insert(soon("hi", router.recv()).await.unwrap().0);
    }
    assert!(peers.len() == 2 && peers.iter().all(|peer| peer.is_generated() && peer.as_bytes().len() == 5));
}

#[tokio::test]
async fn pitfall_18_b07_a_duplicate_is_closed_and_gets_in_when_the_first_has_left() {
    let (mut router, endpoint) = bound_router().await;
    let mut events = router.monitor();
    let first = named_dealer("w");
    first.connect(&endpoint).unwrap();
    first.send(Message::from("first")).await.unwrap();
    assert_eq!(soon("first", router.recv()).await.unwrap().1, Message::from("first"));

    let mut second = named_dealer("w");
    second.connect(&endpoint).unwrap();
    second.send(Message::from("second")).await.unwrap();
    until(&mut events, "a refusal", |event| match event {
        MonitorEvent::HandshakeFailed { reason: Reason::DuplicateRoutingId(peer), .. } => {
            assert_eq!(peer, id("w"));
            Some(())
        }
        _ => None,
    })
    .await;
    // The first is none the worse for it.
    first.send(Message::from("first again")).await.unwrap();
    assert_eq!(soon("first again", router.recv()).await.unwrap().1, Message::from("first again"));
    soon("close", first.close()).await;
    second.send(Message::from("second again")).await.unwrap();
    let mut heard = Vec::new();
    while heard.last() != Some(&Message::from("second again")) {
        heard.push(soon("the second", router.recv()).await.unwrap().1);
    }
    router.send(&id("w"), Message::from("welcome")).await.unwrap();
    assert_eq!(soon("welcome", second.recv()).await.unwrap(), Message::from("welcome"));
}

#[tokio::test]
async fn pitfall_18_b07_handover_replaces_a_frozen_peer_at_once_and_closes_it() {
    let mut router = Router::builder().handover(Handover::Replace).build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    // Takes the id and then never says or reads anything.
    let mut frozen = Raw::shaken(&endpoint, "DEALER", b"w").await;
    assert!(matches!(event(&mut router).await, RouterEvent::Up { .. }));
    for round in 0..20 {
        let mut newcomer = Raw::shaken(&endpoint, "DEALER", b"w").await;
        newcomer.send(&frame(0, b"here")).await;
        // Up and the message, and no Down of the one that was replaced.
        assert!(matches!(event(&mut router).await, RouterEvent::Up { peer, .. } if peer == id("w")), "{round}");
        assert!(matches!(event(&mut router).await, RouterEvent::Messages { .. }), "{round}");
        router.send(&id("w"), Message::from("you")).await.unwrap();
        assert_eq!(newcomer.read_frame().await, (0, b"you".to_vec()));
        frozen.closed().await;
        frozen = newcomer;
    }
    drop(frozen);
    assert!(matches!(event(&mut router).await, RouterEvent::Down { peer, .. } if peer == id("w")));
    assert_eq!(router.try_send(&id("w"), Message::from("x")).unwrap_err().reason, SendFailure::Gone);
}

#[tokio::test]
async fn up_then_messages_then_down_for_every_peer() {
    let (mut router, endpoint) = bound_router().await;
    for _ in 0..100 {
        let mut raw = Raw::shaken(&endpoint, "DEALER", b"").await;
        raw.send(&wire(&["one"])).await;
        drop(raw);
        let RouterEvent::Up { peer, .. } = event(&mut router).await else { panic!("Up comes first") };
        let RouterEvent::Messages { peer: from, messages } = event(&mut router).await else { panic!("no messages") };
        assert_eq!((&from, messages.len()), (&peer, 1));
        let RouterEvent::Down { peer: gone, .. } = event(&mut router).await else { panic!("no Down") };
        assert_eq!(gone, peer);
    }
}

/// The endpoint's end is the end of its peer, for the application too.
#[tokio::test]
async fn disconnecting_a_router_tells_down() {
    let mut dealer = named_dealer("d");
    let endpoint = dealer.bind(&any_port()).await.unwrap();
    let mut router = Router::builder().build();
    router.connect(&endpoint).unwrap();
    assert!(matches!(event(&mut router).await, RouterEvent::Up { .. }));
    router.send(&id("d"), Message::from("last words")).await.unwrap();
    assert!(router.disconnect(&endpoint));
    assert!(!router.disconnect(&endpoint));
    assert_eq!(router.try_send(&id("d"), Message::from("x")).unwrap_err().reason, SendFailure::Gone);
    assert_eq!(soon("last words", dealer.recv()).await.unwrap(), Message::from("last words"));
    assert!(matches!(event(&mut router).await, RouterEvent::Down { .. }));
    assert_eq!(router.split().0.peers(), []);
}

#[tokio::test]
async fn disconnect_ends_what_connect_began_and_unbind_what_bind_began() {
    let (mut router, endpoint) = bound_router().await;
    assert!(!router.disconnect(&endpoint), "a listener is not disconnected");
    let dealer = Dealer::builder().build();
    dealer.connect(&endpoint).unwrap();
    assert!(!soon("unbind", dealer.unbind(&endpoint)).await, "a dialer is not unbound");
    dealer.send(Message::from("still there")).await.unwrap();
    soon("the message", router.recv()).await.unwrap();
}

#[tokio::test]
async fn unbind_frees_the_port_and_keeps_the_connections() {
    let (mut router, endpoint) = bound_router().await;
    let mut raw = Raw::shaken(&endpoint, "DEALER", b"w").await;
    for _ in 0..20 {
        assert!(soon("unbind", router.unbind(&endpoint)).await);
        assert!(!soon("unbind", router.unbind(&endpoint)).await);
        assert_eq!(router.bind(&endpoint).await.unwrap(), endpoint);
    }
    let other = Router::builder().build();
    assert!(matches!(other.bind(&endpoint).await, Err(BindError::Io { .. })));
    assert!(matches!(router.bind(&endpoint).await, Err(BindError::Io { .. })));
    raw.send(&frame(0, b"kept")).await;
    assert_eq!(soon("kept", router.recv()).await.unwrap().1, Message::from("kept"));
    soon("close", router.close()).await;
    assert_eq!(soon("bind", other.bind(&endpoint)).await.unwrap(), endpoint);
}

#[tokio::test]
async fn endpoints_that_can_never_work_are_errors_at_once() {
    let dealer = Dealer::builder().build();
    for text in ["tcp://*:5555", "tcp://127.0.0.1:*"] {
        let result = dealer.connect(&text.parse().unwrap());
        assert!(matches!(result, Err(ConnectError::Endpoint(_))), "{text}");
    }
    assert!(matches!(dealer.bind(&"tcp://eth0:1".parse().unwrap()).await, Err(BindError::Endpoint(_))));
    // A name that does not resolve is retried.
    dealer.connect(&"tcp://no-such-host.invalid:1".parse().unwrap()).unwrap();
}

#[tokio::test]
async fn monitors_see_both_sides_of_a_connection() {
    let (mut router, endpoint) = bound_router().await;
    let mut at_router = router.monitor();
    let dealer = named_dealer("w");
    let mut at_dealer = dealer.monitor();
    dealer.connect(&endpoint).unwrap();
    dealer.send(Message::from("x")).await.unwrap();
    soon("x", router.recv()).await.unwrap();
    soon("close", dealer.close()).await;
    let mut names = Vec::new();
    while names.last() != Some(&"disconnected") {
        let name = match soon("an event", at_router.recv()).await.unwrap() {
            MonitorEvent::Accepted { .. } => "accepted",
            MonitorEvent::HandshakeSucceeded { routing_id, .. } if routing_id == id("w") => "succeeded",
            MonitorEvent::Disconnected { reason: Reason::PeerClosed, .. } => "disconnected",
            other => panic!("{other:?}"),
        };
        names.push(name);
    }
    assert_eq!(names, ["accepted", "succeeded", "disconnected"]);
    assert!(matches!(soon("e", at_dealer.recv()).await, Some(MonitorEvent::Connected { .. })));
    assert!(matches!(soon("e", at_dealer.recv()).await, Some(MonitorEvent::HandshakeSucceeded { .. })));
    let last = soon("e", at_dealer.recv()).await;
    assert!(matches!(last, Some(MonitorEvent::Disconnected { reason: Reason::Closed, .. })), "{last:?}");
    assert!(soon("the end", at_dealer.recv()).await.is_none());

    assert!(soon("unbind", router.unbind(&endpoint)).await);
    assert!(matches!(soon("e", at_router.recv()).await, Some(MonitorEvent::Unbound { .. })));
}

#[tokio::test]
async fn closed_sockets_say_so() {
    let (router, endpoint) = bound_router().await;
    let (sender, mut receiver) = router.split();
    let waiting = tokio::spawn(async move { receiver.recv().await.map(drop) });
    tokio::task::yield_now().await;
    soon("close", sender.close()).await;
    assert!(soon("the reader", waiting).await.unwrap().is_err());
    assert_eq!(sender.try_send(&id("w"), Message::from("x")).unwrap_err().reason, SendFailure::Closed);
    assert!(matches!(sender.bind(&endpoint).await, Err(BindError::Closed)));
}

#[tokio::test]
async fn dropping_a_socket_closes_its_connections_and_listeners() {
    let (mut router, endpoint) = bound_router().await;
    let mut raw = Raw::shaken(&endpoint, "DEALER", b"w").await;
    raw.send(&frame(0, b"x")).await;
    soon("x", router.recv()).await.unwrap();
    let mut half = Raw::connect(&endpoint).await;
    half.send(&[0xff]).await;
    let mut events = router.monitor();
    router.send(&id("w"), Message::from("last")).await.unwrap();
    drop(router);
    assert_eq!(raw.read_frame().await, (0, b"last".to_vec()));
    raw.closed().await;
    half.closed().await;
    soon("all tasks", async { while events.recv().await.is_some() {} }).await;
    let other = Router::builder().build();
    assert_eq!(other.bind(&endpoint).await.unwrap(), endpoint);
}

/// A connection that the peer refuses for good, or an endpoint that never retries, must not swallow messages.
#[tokio::test]
async fn a_dialer_that_gave_up_takes_no_more_messages() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dealer = Dealer::builder().build();
    let mut events = dealer.monitor();
    dealer.connect(&Endpoint::from(listener.local_addr().unwrap())).unwrap();
    let mut raw = Raw(listener.accept().await.unwrap().0);
    raw.send(&[zmtp_testkit::greeting(), zmtp_testkit::command("ERROR", b"\x03400")].concat()).await;
    until(&mut events, "GaveUp", |event| matches!(event, MonitorEvent::GaveUp { .. }).then_some(())).await;
    raw.closed().await;
    assert_eq!(dealer.try_send(Message::from("x")).unwrap_err().reason, SendFailure::Full);

    let never = Reconnect { first: Duration::ZERO, longest: Duration::ZERO };
    let once = Dealer::builder().reconnect(never).build();
    let mut events = once.monitor();
    once.connect(&dead_port()).unwrap();
    until(&mut events, "GaveUp", |event| matches!(event, MonitorEvent::GaveUp { .. }).then_some(())).await;
    assert_eq!(once.try_send(Message::from("x")).unwrap_err().reason, SendFailure::Full);
}
