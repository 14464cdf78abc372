//! inproc: sockets of one process joined without a connection.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use zmtp::connection::ConnectionError;
use zmtp::{
    BindError, Dealer, Endpoint, Handover, Message, MonitorEvent, PeerAddress, Pull, Push, Reason, Reconnect, Rep, Req,
    Router, RouterEvent, SendFailure, SocketType, Sub, XPub, XPubEvent,
};
use zmtp_testkit::{echo, id, named_dealer, soon, until};

/// A name of one's own for each test.
fn name() -> Endpoint {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("inproc://test {}", NEXT.fetch_add(1, Ordering::Relaxed)).parse().unwrap()
}

fn router() -> Router {
    Router::builder().build()
}

fn text(message: &Message) -> String {
    String::from_utf8(message.frame(0).unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn both_ways_with_events_as_over_a_wire() {
    let at = name();
    let mut router = router();
    let mut bound_side = router.monitor();
    assert_eq!(router.bind(&at).await.unwrap(), at);
    let mut dealer = named_dealer("us");
    let mut dialing_side = dealer.monitor();
    dealer.connect(&at).unwrap();
    dealer.send(Message::from_frames(["", "hello"])).await.unwrap();

    let RouterEvent::Up { peer, info } = soon("the peer", router.recv_event()).await.unwrap() else { panic!("no Up") };
    assert_eq!((peer, info.socket_type, info.routing_id), (id("us"), Some(SocketType::Dealer), Some(id("us"))));
    let RouterEvent::Messages { peer, mut messages } = soon("a message", router.recv_event()).await.unwrap() else {
        panic!("no message")
    };
    let message = messages.pop_front().unwrap();
    router.send(&peer, message).await.unwrap();
    assert_eq!(soon("the answer", dealer.recv()).await.unwrap(), Message::from_frames(["", "hello"]));

    soon("the close", dealer.close()).await;
    let event = soon("the end", router.recv_event()).await.unwrap();
    assert!(matches!(event, RouterEvent::Down { peer, .. } if peer == id("us")));

    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(match soon("an event", bound_side.recv()).await.unwrap() {
            MonitorEvent::Listening { endpoint } if endpoint == at => "listening",
            MonitorEvent::Accepted { peer: PeerAddress::Inproc, .. } => "accepted",
            MonitorEvent::HandshakeSucceeded { routing_id, .. } if routing_id == id("us") => "succeeded",
            MonitorEvent::Disconnected { reason: Reason::PeerClosed, .. } => "disconnected",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["listening", "accepted", "succeeded", "disconnected"]);
    until(&mut dialing_side, "connected", |event| matches!(event, MonitorEvent::Connected { .. }).then_some(())).await;
    soon("the router's close", router.close()).await;
}

#[tokio::test]
async fn connecting_before_binding_waits() {
    let at = name();
    let dealers: Vec<_> = (0..5).map(|n| named_dealer(&format!("d{n}"))).collect();
    for dealer in &dealers {
        dealer.connect(&at).unwrap();
        dealer.send(Message::from("early")).await.unwrap();
    }
    tokio::task::yield_now().await;
    let mut router = router();
    router.bind(&at).await.unwrap();
    for _ in 0..5 {
        let (_, message) = soon("an early message", router.recv()).await.unwrap();
        assert_eq!(text(&message), "early");
    }
}

#[tokio::test]
async fn a_name_is_bound_once_and_free_again() {
    let at = name();
    let (first, second) = (router(), router());
    first.bind(&at).await.unwrap();
    for socket in [&first, &second] {
        let Err(BindError::Io { source, endpoint }) = socket.bind(&at).await else { panic!("bound twice") };
        assert_eq!((source.kind(), endpoint), (io::ErrorKind::AddrInUse, at.clone()));
    }
    assert!(soon("the unbinding", first.unbind(&at)).await);
    second.bind(&at).await.unwrap();
    soon("the close", second.close()).await;
    let mut third = router();
    third.bind(&at).await.unwrap();
    echo(&mut third, &at).await;
}

/// Dropping is enough: a name keeps no socket alive.
#[tokio::test]
async fn a_dropped_socket_leaves_its_name() {
    let at = name();
    for _ in 0..3 {
        let socket = router();
        let mut monitor = socket.monitor();
        socket.bind(&at).await.unwrap();
        drop(socket);
        until(&mut monitor, "unbound", |event| matches!(event, MonitorEvent::Unbound { .. }).then_some(())).await;
    }
}

/// High-water marks: what the sender queues, what is under way, what the receiver has not taken; then the sender waits.
#[tokio::test]
async fn high_water_marks_hold_and_order_is_kept() {
    let at = name();
    let mut router = Router::builder().receive_hwm(10).build();
    router.bind(&at).await.unwrap();
    let dealer = Dealer::builder().send_hwm(20).build();
    dealer.connect(&at).unwrap();
    let mut sent = 0;
    loop {
        match dealer.try_send(Message::from(format!("{sent}"))) {
            Ok(()) => sent += 1,
            Err(error) => {
                assert_eq!(error.reason, SendFailure::Full);
                // Full for good once the other side has had its turns.
                if sent > 30 {
                    break;
                }
                for _ in 0..50 {
                    tokio::task::yield_now().await;
                }
                if dealer.try_send(error.message).is_err() {
                    break;
                }
                sent += 1;
            }
        }
        assert!(sent <= 10 + 20 + 20, "{sent}");
    }
    assert!(sent >= 30, "{sent}");
    let (mut taken, mut queued) = (0, sent);
    while taken < sent + 1000 {
        while queued < sent + 1000 && dealer.try_send(Message::from(format!("{queued}"))).is_ok() {
            queued += 1;
        }
        let (_, message) = soon("a message", router.recv()).await.unwrap();
        assert_eq!(text(&message), taken.to_string());
        taken += 1;
    }
}

#[tokio::test]
async fn a_second_peer_of_one_routing_id_is_refused() {
    let at = name();
    let mut router = router();
    router.bind(&at).await.unwrap();
    let first = named_dealer("same");
    first.connect(&at).unwrap();
    first.send(Message::from("1")).await.unwrap();
    soon("the first", router.recv()).await.unwrap();
    let second = named_dealer("same");
    let mut monitor = second.monitor();
    second.connect(&at).unwrap();
    let failed = until(&mut monitor, "the second's refusal", |event| match event {
        MonitorEvent::HandshakeFailed { reason, .. } | MonitorEvent::Disconnected { reason, .. } => Some(reason),
        _ => None,
    });
    assert!(matches!(failed.await, Reason::PeerClosed));
}

#[tokio::test]
async fn a_newcomer_takes_the_routing_id_over() {
    let at = name();
    let mut router = Router::builder().handover(Handover::Replace).build();
    router.bind(&at).await.unwrap();
    let first = named_dealer("same");
    let mut monitor = first.monitor();
    first.connect(&at).unwrap();
    first.send(Message::from("1")).await.unwrap();
    soon("the first", router.recv()).await.unwrap();
    let mut second = named_dealer("same");
    second.connect(&at).unwrap();
    second.send(Message::from("2")).await.unwrap();
    let (peer, message) = soon("the second", router.recv()).await.unwrap();
    assert_eq!(text(&message), "2");
    router.send(&peer, message).await.unwrap();
    assert_eq!(text(&soon("the answer", second.recv()).await.unwrap()), "2");
    until(&mut monitor, "the first's end", |event| matches!(event, MonitorEvent::Disconnected { .. }).then_some(()))
        .await;
}

/// B13, without a wire: the bound side comes and goes.
#[tokio::test]
async fn b13_the_bound_side_comes_and_goes() {
    let at = name();
    let reconnect = Reconnect { first: Duration::from_millis(1), longest: Duration::from_millis(5) };
    let dealer = Dealer::builder().reconnect(reconnect).build();
    dealer.connect(&at).unwrap();
    for round in 0..5 {
        let mut router = router();
        router.bind(&at).await.unwrap();
        dealer.send(Message::from(format!("{round}"))).await.unwrap();
        let (_, message) = soon("this round's message", router.recv()).await.unwrap();
        assert_eq!(text(&message), round.to_string());
        soon("the close", router.close()).await;
    }
    assert!(dealer.disconnect(&at));
}

/// Pitfall 27: what was sent before the close arrives, all of it; and with no linger the close does not wait.
#[tokio::test]
async fn pitfall_27_closing_delivers_what_was_sent() {
    let at = name();
    let mut router = Router::builder().receive_hwm(7).build();
    router.bind(&at).await.unwrap();
    let dealer = Dealer::builder().build();
    dealer.connect(&at).unwrap();
    for n in 0..500 {
        dealer.send(Message::from(format!("{n}"))).await.unwrap();
    }
    let closing = tokio::spawn(dealer.close());
    for n in 0..500 {
        let (_, message) = soon("a message of the closed socket", router.recv()).await.unwrap();
        assert_eq!(text(&message), n.to_string());
    }
    soon("the close", closing).await.unwrap();

    let abrupt = Dealer::builder().linger(Duration::ZERO).build();
    abrupt.connect(&name()).unwrap();
    abrupt.send(Message::from("to nobody")).await.unwrap();
    soon("a close without linger", abrupt.close()).await;
}

/// Large bodies are handed over by reference; whatever is edited and mixed, frames stay what they are.
#[tokio::test]
async fn large_and_small_frames_mixed() {
    let at = name();
    let mut router = router();
    router.bind(&at).await.unwrap();
    let dealer = Dealer::builder().build();
    dealer.connect(&at).unwrap();
    let sizes = [0, 1, 254, 255, 256, 8191, 8192, 100_000, 3, 1 << 20];
    let messages: Vec<Message> = (0..60)
        .map(|n| {
            let bodies = (0..=n % 4).map(|part| bytes::Bytes::from(vec![n as u8; sizes[(n + part) % sizes.len()]]));
            bodies.fold(Message::builder(), |built, body| built.bytes(body)).build()
        })
        .collect();
    for message in &messages {
        dealer.send(message.prepend("envelope")).await.unwrap();
    }
    for message in &messages {
        let (_, got) = soon("a message", router.recv()).await.unwrap();
        assert!(got.skip_frames(1).as_ref() == Some(message));
    }
}

/// Two runtimes in two threads, as with two sockets of two libraries.
#[test]
fn sockets_of_two_runtimes() {
    let at = name();
    let there = at.clone();
    let server = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut router = router();
            router.bind(&there).await.unwrap();
            for _ in 0..1000 {
                let (peer, message) = soon("a request", router.recv()).await.unwrap();
                router.send(&peer, message).await.unwrap();
            }
            soon("the router's close", router.close()).await;
        });
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut dealer = Dealer::builder().build();
        dealer.connect(&at).unwrap();
        for n in 0..1000 {
            dealer.send(Message::from(format!("{n}"))).await.unwrap();
            assert_eq!(text(&soon("a reply", dealer.recv()).await.unwrap()), n.to_string());
        }
    });
    server.join().unwrap();
}

/// One socket may be both sides, and one ROUTER may serve wire and process at once.
#[tokio::test]
async fn mixed_company() {
    let at = name();
    let mut router = router();
    let tcp = router.bind(&zmtp_testkit::any_port()).await.unwrap();
    router.bind(&at).await.unwrap();
    echo(&mut router, &tcp).await;
    echo(&mut router, &at).await;

    let loops = name();
    let mut dealer = Dealer::builder().build();
    dealer.bind(&loops).await.unwrap();
    dealer.connect(&loops).unwrap();
    for n in 0..10 {
        dealer.send(Message::from(format!("{n}"))).await.unwrap();
        assert_eq!(text(&soon("its own message", dealer.recv()).await.unwrap()), n.to_string());
    }
    soon("the close", dealer.close()).await;
}

#[tokio::test]
async fn limits_of_connections_hold() {
    let at = name();
    let mut router = Router::builder().max_connections(2).build();
    router.bind(&at).await.unwrap();
    let dealers: Vec<_> = (0..3).map(|n| named_dealer(&format!("d{n}"))).collect();
    for dealer in &dealers[..2] {
        dealer.connect(&at).unwrap();
        dealer.send(Message::from("in")).await.unwrap();
        soon("one of two", router.recv()).await.unwrap();
    }
    let mut monitor = dealers[2].monitor();
    dealers[2].connect(&at).unwrap();
    let refused = |event| matches!(event, MonitorEvent::Retrying { reason: Reason::Connect(_), .. }).then_some(());
    until(&mut monitor, "the refusal", refused).await;
}

/// Subscriptions are commands in the pipe as on a wire; large bodies come behind their envelope in pieces.
#[tokio::test]
async fn other_socket_types() {
    let at = name();
    let mut publisher = XPub::builder().build();
    publisher.bind(&at).await.unwrap();
    let mut subscriber = Sub::builder().build();
    subscriber.subscribe("a").unwrap();
    subscriber.connect(&at).unwrap();
    let event = soon("the subscription", publisher.recv()).await.unwrap();
    assert!(matches!(event, XPubEvent::Subscribe(topic) if topic == "a"));
    for topic in ["b", "a"] {
        publisher.send(Message::from_frames([topic, "body"])).await.unwrap();
    }
    assert_eq!(soon("what it wants", subscriber.recv()).await.unwrap(), Message::from_frames(["a", "body"]));
    assert!(subscriber.unsubscribe("a"));
    let event = soon("the end of it", publisher.recv()).await.unwrap();
    assert!(matches!(event, XPubEvent::Cancel(topic) if topic == "a"));

    let at = name();
    let mut rep = Rep::builder().build();
    rep.bind(&at).await.unwrap();
    let mut req = Req::builder().correlate(true).relaxed(true).build();
    req.connect(&at).unwrap();
    for size in [0, 10, 10_000, 1 << 20] {
        let first = Message::builder().frame(vec![1; size]).bytes(vec![2; size].into()).build();
        let other = Message::builder().bytes(vec![3; size].into()).frame("end").build();
        for body in [first, other] {
            soon("a request", req.send(body.clone())).await.unwrap();
            let got = soon("a request", rep.recv()).await.unwrap();
            assert!(got == body);
            rep.send(got).unwrap();
            assert!(soon("a reply", req.recv()).await.unwrap() == body);
        }
    }

    let at = name();
    let mut pull = Pull::builder().build();
    pull.bind(&at).await.unwrap();
    let push = Push::builder().build();
    push.connect(&at).unwrap();
    for n in 0..100 {
        push.send(Message::from(format!("{n}"))).await.unwrap();
        assert_eq!(text(&soon("a message", pull.recv()).await.unwrap()), n.to_string());
    }
}

#[tokio::test]
async fn a_peer_of_the_wrong_type_is_refused_on_both_sides() {
    let at = name();
    let router = router();
    let mut bound_side = router.monitor();
    router.bind(&at).await.unwrap();
    let push = Push::builder().build();
    let mut dialing_side = push.monitor();
    push.connect(&at).unwrap();
    for (monitor, types) in
        [(&mut bound_side, (SocketType::Router, "PUSH")), (&mut dialing_side, (SocketType::Push, "ROUTER"))]
    {
        let reason = until(monitor, "the refusal", |event| match event {
            MonitorEvent::HandshakeFailed { reason, .. } => Some(reason),
            _ => None,
        });
        let reason = reason.await;
        let Reason::Protocol(ConnectionError::SocketType { ours, theirs }) = reason else { panic!("{reason}") };
        assert_eq!((ours, &theirs[..]), (types.0, types.1.as_bytes()));
    }
}
