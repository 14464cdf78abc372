//! Coming back, and leaving in order: linger, restarts of the bound side, backoff.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use tokio::net::TcpListener;
use zmtp::{Dealer, Endpoint, Handover, Message, MonitorEvent, Reason, Reconnect, Router, RouterEvent};
use zmtp_testkit::{Raw, any_port, dead_port, frame, greeting, id, named_dealer, ready, soon, until, wire};

fn quick() -> Reconnect {
    Reconnect { first: Duration::from_millis(5), longest: Duration::from_millis(40) }
}

async fn bound_router() -> (Router, Endpoint) {
    let router = Router::builder().build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    (router, endpoint)
}

/// Pitfall 27: a job's sender connects, sends and is gone.
#[tokio::test]
async fn pitfall_27_short_lived_senders_lose_nothing() {
    const ROUNDS: u32 = 1000;
    let (mut router, endpoint) = bound_router().await;
    for i in 0..ROUNDS {
        let dealer = Dealer::builder().build();
        dealer.connect(&endpoint).unwrap();
        dealer.send(Message::single(i.to_be_bytes())).await.unwrap();
        // Some wait for the end, some just drop the socket.
        if i % 2 == 0 {
            soon("close", dealer.close()).await;
        }
    }
    let mut seen = vec![false; ROUNDS as usize];
    for _ in 0..ROUNDS {
        let (_, message) = soon("a message", router.recv()).await.unwrap();
        let i = u32::from_be_bytes(message.frame(0).unwrap().try_into().unwrap());
        assert!(!std::mem::replace(&mut seen[i as usize], true), "{i} twice");
    }
}

/// The same with more than the kernel's buffers hold, to a reader that takes its time, and with replies on their way.
#[tokio::test]
async fn pitfall_27_close_waits_until_all_is_written() {
    let (mut router, endpoint) = bound_router().await;
    let dealer = Dealer::builder().build();
    dealer.connect(&endpoint).unwrap();
    for _ in 0..200 {
        dealer.send(Message::from(vec![1; 100_000])).await.unwrap();
    }
    let closing = tokio::spawn(dealer.close());
    for _ in 0..200 {
        let (peer, message) = soon("a message", router.recv()).await.unwrap();
        assert_eq!(message.wire_len(), 100_009);
        let _ = router.try_send(&peer, Message::from("thanks"));
    }
    soon("close", closing).await.unwrap();
}

/// What has arrived is delivered although our own writing fails: the peer left, and we were just answering.
#[tokio::test]
async fn what_a_peer_sent_before_it_left_is_delivered_even_if_answers_bounce() {
    const COUNT: usize = 15_000;
    for round in 0..20 {
        let (mut router, endpoint) = bound_router().await;
        let raw = Raw::shaken(&endpoint, "DEALER", b"w").await;
        assert!(matches!(soon("Up", router.recv_event()).await, Ok(RouterEvent::Up { .. })));
        // All of it is in the router's kernel, and the peer gone, before the router's task runs again.
        let std = raw.0.into_std().unwrap();
        std::io::Write::write_all(&mut (&std), &wire(&["x"]).repeat(COUNT)).unwrap();
        drop(std);
        let (mut heard, mut left) = (0, false);
        while !left {
            match soon("events", router.recv_event()).await.unwrap() {
                RouterEvent::Messages { peer, messages } => {
                    for _ in messages {
                        heard += 1;
                        let _ = router.try_send(&peer, Message::from(vec![b'y'; 10_000]));
                    }
                }
                RouterEvent::Down { .. } => left = true,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(heard, COUNT, "round {round}");
    }
}

#[tokio::test]
async fn linger_bounds_the_close_whatever_the_dialer_is_doing() {
    let linger = Duration::from_millis(50);
    let slow = Reconnect { first: Duration::from_secs(3600), longest: Duration::from_secs(3600) };
    // Nobody there, in the pause between two attempts.
    let pausing = Dealer::builder().linger(linger).reconnect(slow).build();
    let mut events = pausing.monitor();
    pausing.connect(&dead_port()).unwrap();
    pausing.send(Message::from("x")).await.unwrap();
    until(&mut events, "Retrying", |event| matches!(event, MonitorEvent::Retrying { .. }).then_some(())).await;
    soon("close in a pause", pausing.close()).await;
    // Somebody who never answers: the handshake does not end.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let waiting = Dealer::builder().linger(linger).build();
    waiting.connect(&Endpoint::from(listener.local_addr().unwrap())).unwrap();
    waiting.send(Message::from("x")).await.unwrap();
    let accepted = listener.accept().await.unwrap();
    soon("close in a handshake", waiting.close()).await;
    drop(accepted);
    // A full backlog: connecting itself does not end.
    let (crowded, _fill) = full_listener().await;
    let connecting = Dealer::builder().linger(linger).build();
    connecting.connect(&crowded).unwrap();
    connecting.send(Message::from("x")).await.unwrap();
    tokio::task::yield_now().await;
    soon("close while connecting", connecting.close()).await;
    // Nothing to send: no reason to wait at all.
    let idle = Dealer::builder().reconnect(slow).build();
    let mut events = idle.monitor();
    idle.connect(&crowded).unwrap();
    idle.connect(&dead_port()).unwrap();
    until(&mut events, "Retrying", |event| matches!(event, MonitorEvent::Retrying { .. }).then_some(())).await;
    soon("close of an idle socket", idle.close()).await;
}

/// A listener that accepts nobody and whose backlog is full: a further connect hangs.
async fn full_listener() -> (Endpoint, Vec<tokio::net::TcpStream>) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap().into_std().unwrap();
    let address = listener.local_addr().unwrap();
    // Kept open for the rest of the process.
    std::mem::forget(listener);
    let mut fill = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address)).await
    {
        fill.push(stream);
    }
    (Endpoint::from(address), fill)
}

#[tokio::test]
async fn nothing_is_dialled_after_close() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dealer = Dealer::builder().linger(Duration::ZERO).build();
    let mut events = dealer.monitor();
    dealer.connect(&Endpoint::from(listener.local_addr().unwrap())).unwrap();
    let _raw = listener.accept().await.unwrap();
    let again = dealer.send(Message::from("never sent")).await;
    assert!(again.is_ok());
    soon("close", dealer.close()).await;
    soon("the last event", async { while events.recv().await.is_some() {} }).await;
}

/// B13: the bound side dies and comes back on its port; unsent messages are kept, none comes twice.
#[tokio::test]
async fn b13_reconnects_twenty_times() {
    let (mut router, endpoint) = bound_router().await;
    let mut dealer = Dealer::builder().routing_id(id("w")).reconnect(quick()).build();
    let mut events = dealer.monitor();
    dealer.connect(&endpoint).unwrap();
    for round in 0..20 {
        dealer.send(Message::from(format!("{round}"))).await.unwrap();
        let (peer, message) = soon("a message", router.recv()).await.unwrap();
        assert_eq!((&peer, message), (&id("w"), Message::from(format!("{round}"))));
        router.send(&peer, Message::from("ack")).await.unwrap();
        assert_eq!(soon("ack", dealer.recv()).await.unwrap(), Message::from("ack"));
        soon("close", router.close()).await;
        until(&mut events, "the end", |event| matches!(event, MonitorEvent::Disconnected { .. }).then_some(())).await;
        // Queued while nobody is there.
        dealer.send(Message::from(format!("meanwhile {round}"))).await.unwrap();
        router = Router::builder().build();
        soon("the port again", router.bind(&endpoint)).await.unwrap();
        let (_, message) = soon("what was queued", router.recv()).await.unwrap();
        assert_eq!(message, Message::from(format!("meanwhile {round}")));
    }
}

/// B01: whatever waits in the pipe, nothing but the handshake goes out before the peer's READY was read.
#[tokio::test]
async fn pitfall_05_b01_a_dealer_with_queued_messages_says_nothing_before_the_peers_ready() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dealer = Dealer::builder().build();
    dealer.connect(&Endpoint::from(listener.local_addr().unwrap())).unwrap();
    for _ in 0..100 {
        dealer.send(Message::from("job")).await.unwrap();
    }
    let mut raw = Raw(soon("a connection", listener.accept()).await.unwrap().0);
    raw.read(11).await;
    raw.send(&greeting()).await;
    raw.read(64 - 11).await;
    assert_eq!(raw.read(ready("DEALER", b"").len()).await, ready("DEALER", b""));
    let early = tokio::time::timeout(Duration::from_millis(50), raw.read(1)).await;
    assert!(early.is_err(), "{early:?}");
    raw.send(&ready("ROUTER", b"")).await;
    for _ in 0..100 {
        assert_eq!(raw.read_frame().await, (0, b"job".to_vec()));
    }
}

/// B13: cut off in the middle of a message, which is dropped; what comes after the return is whole.
#[tokio::test]
async fn pitfall_25_b13_a_drop_in_the_middle_of_a_message() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut dealer = Dealer::builder().reconnect(quick()).build();
    dealer.connect(&Endpoint::from(listener.local_addr().unwrap())).unwrap();
    for cut in [1, 2, 5, 6, 7, 12] {
        let mut raw = Raw(soon("a connection", listener.accept()).await.unwrap().0);
        raw.shake("ROUTER", b"").await;
        raw.send(&wire(&["whole"])).await;
        raw.send(&wire(&["one", "two", "three"])[..cut]).await;
        drop(raw);
        assert_eq!(soon("the whole one", dealer.recv()).await.unwrap(), Message::from("whole"));
    }
}

/// B13: a peer that accepts and closes is not hit in a loop: pauses grow until a handshake completes.
#[tokio::test]
async fn b13_backoff_grows_until_a_handshake_completes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dealer = Dealer::builder().reconnect(quick()).build();
    let mut events = dealer.monitor();
    dealer.connect(&Endpoint::from(listener.local_addr().unwrap())).unwrap();
    let mut pauses = Vec::new();
    for round in 0..8 {
        let mut raw = Raw(soon("a connection", listener.accept()).await.unwrap().0);
        if round == 5 {
            raw.shake("ROUTER", b"").await;
        }
        drop(raw);
        let pause = until(&mut events, "Retrying", |event| match event {
            MonitorEvent::Retrying { after, .. } => Some(after),
            _ => None,
        });
        pauses.push(pause.await);
    }
    let nominal = [5, 10, 20, 40, 40, 5, 10, 20].map(Duration::from_millis);
    for (pause, nominal) in pauses.iter().zip(nominal) {
        assert!(*pause <= nominal && *pause >= nominal.mul_f64(0.7), "{pauses:?}");
    }
}

/// Section 6: after a slip in the protocol the longest pause, also when the slip came after the handshake.
#[tokio::test]
async fn pitfall_23_a_protocol_error_is_followed_by_the_longest_pause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dealer = Dealer::builder().reconnect(quick()).build();
    let mut events = dealer.monitor();
    dealer.connect(&Endpoint::from(listener.local_addr().unwrap())).unwrap();
    let mut plain = greeting();
    plain[12..17].copy_from_slice(b"PLAIN");
    let slips = [
        b"HTTP/1.1 400 Bad Request".to_vec(),
        plain,
        [greeting(), ready("DEALER", b""), vec![0xff]].concat(),
        [greeting(), ready("PUB", b"")].concat(),
        [greeting(), vec![4, 0]].concat(),
    ];
    for slip in slips {
        let mut raw = Raw(soon("a connection", listener.accept()).await.unwrap().0);
        raw.send(&slip).await;
        raw.closed().await;
        let (after, reason) = until(&mut events, "Retrying", |event| match event {
            MonitorEvent::Retrying { after, reason, .. } => Some((after, reason)),
            _ => None,
        })
        .await;
        assert!(matches!(reason, Reason::Protocol(_)), "{reason:?}");
        assert!(after >= Duration::from_millis(28), "{after:?} after {reason}");
    }
}

/// Credit belongs to the pipe: a peer that comes and goes cannot fill our memory while nobody reads.
#[tokio::test]
async fn receive_hwm_holds_over_reconnects() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut dealer = Dealer::builder().receive_hwm(10).reconnect(quick()).build();
    dealer.connect(&Endpoint::from(listener.local_addr().unwrap())).unwrap();
    for round in 0..2 {
        let mut raw = Raw(soon("a connection", listener.accept()).await.unwrap().0);
        raw.shake("ROUTER", b"").await;
        // One less than the mark, so that the end of the connection is seen: once.
        raw.send(&wire(&[format!("{round}")]).repeat(9)).await;
    }
    let third = tokio::time::timeout(Duration::from_millis(300), listener.accept()).await;
    assert!(third.is_err(), "18 messages were read, 10 may wait");
    let mut counts = [0, 0];
    for _ in 0..18 {
        let message = soon("a message", dealer.recv()).await.unwrap();
        counts[usize::from(message == Message::from("1"))] += 1;
    }
    assert_eq!(counts, [9, 9]);
    soon("a third connection", listener.accept()).await.unwrap();
}

/// A dialer whose id is taken over by an accepted connection: it ends, and says so.
#[tokio::test]
async fn a_replaced_dialer_says_that_it_gave_up() {
    let dealer = named_dealer("w");
    let endpoint = dealer.bind(&any_port()).await.unwrap();
    let mut router = Router::builder().handover(Handover::Replace).build();
    let mut events = router.monitor();
    let bound = router.bind(&any_port()).await.unwrap();
    router.connect(&endpoint).unwrap();
    assert!(matches!(soon("Up", router.recv_event()).await, Ok(RouterEvent::Up { .. })));
    let mut raw = Raw::shaken(&bound, "DEALER", b"w").await;
    until(&mut events, "GaveUp", |event| match event {
        MonitorEvent::GaveUp { reason: Reason::Replaced, .. } => Some(()),
        _ => None,
    })
    .await;
    assert!(matches!(soon("Up", router.recv_event()).await, Ok(RouterEvent::Up { .. })));
    router.send(&id("w"), Message::from("you")).await.unwrap();
    assert_eq!(raw.read_frame().await, (0, b"you".to_vec()));
    raw.send(&frame(0, b"me")).await;
    assert!(matches!(soon("me", router.recv_event()).await, Ok(RouterEvent::Messages { .. })));
}
