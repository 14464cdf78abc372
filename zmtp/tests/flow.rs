//! High-water marks, waiting senders, fairness, cancelled receives: nothing lost, nothing stuck, nobody in the way.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use zmtp::{Dealer, Endpoint, Message, Router, RouterEvent, RoutingId, SendFailure};
use zmtp_testkit::{Raw, any_port, command, dead_port, frame, id, named_dealer, soon, wire};

async fn bound_router(receive_hwm: usize, send_hwm: usize) -> (Router, Endpoint) {
    let router = Router::builder().receive_hwm(receive_hwm).send_hwm(send_hwm).build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    (router, endpoint)
}

async fn up(router: &mut Router) -> RoutingId {
    match soon("a peer", router.recv_event()).await.unwrap() {
        RouterEvent::Up { peer, .. } => peer,
        other => panic!("{other:?}"),
    }
}

/// A message too large for the kernel's buffers together with its like.
fn large() -> Message {
    Message::from(vec![7; 1 << 20])
}

/// Sends until the peer's queue is full; how many went in.
async fn fill(router: &Router, peer: &RoutingId) -> usize {
    let mut count = 0;
    loop {
        match router.try_send(peer, large()) {
            Ok(()) => count += 1,
            Err(error) => {
                assert_eq!((error.reason, &error.message), (SendFailure::Full, &large()));
                // The link may just be about to take them: full is when it still is after it had its turns.
                let mut patience = 50;
                while router.try_send(peer, large()).is_err() && patience > 0 {
                    patience -= 1;
                    tokio::task::yield_now().await;
                }
                if patience == 0 {
                    return count;
                }
                count += 1;
            }
        }
    }
}

#[tokio::test]
async fn ten_messages_to_a_dead_port_then_full() {
    let dealer = Dealer::builder().send_hwm(10).linger(std::time::Duration::ZERO).build();
    assert_eq!(dealer.try_send(Message::from("nobody")).unwrap_err().reason, SendFailure::Full);
    dealer.connect(&dead_port()).unwrap();
    for _ in 0..10 {
        dealer.try_send(Message::from("x")).unwrap();
    }
    let error = dealer.try_send(Message::from_frames(["back", "again"])).unwrap_err();
    assert_eq!((error.reason, error.message), (SendFailure::Full, Message::from_frames(["back", "again"])));
    soon("close without linger", dealer.close()).await;
}

#[tokio::test]
async fn b09_full_is_not_gone_and_only_the_slow_peer_is_full() {
    let (mut router, endpoint) = bound_router(1000, 4).await;
    let slow = Raw::shaken(&endpoint, "DEALER", b"slow").await;
    assert_eq!(up(&mut router).await, id("slow"));
    let mut others = Vec::new();
    for i in 0..19 {
        let dealer = named_dealer(&format!("w{i}"));
        dealer.connect(&endpoint).unwrap();
        assert_eq!(up(&mut router).await, id(&format!("w{i}")));
        others.push(dealer);
    }
    fill(&router, &id("slow")).await;
    assert_eq!(router.try_send(&id("nobody"), Message::from("x")).unwrap_err().reason, SendFailure::Gone);
    for round in 0..20 {
        for (i, dealer) in others.iter_mut().enumerate() {
            router.send(&id(&format!("w{i}")), Message::from(format!("{round}"))).await.unwrap();
            assert_eq!(soon("a job", dealer.recv()).await.unwrap(), Message::from(format!("{round}")));
        }
    }
    assert_eq!(router.try_send(&id("slow"), Message::from("x")).unwrap_err().reason, SendFailure::Full);
    drop(slow);
    assert!(
        matches!(soon("Down", router.recv_event()).await, Ok(RouterEvent::Down { peer, .. }) if peer == id("slow"))
    );
    assert_eq!(router.try_send(&id("slow"), Message::from("x")).unwrap_err().reason, SendFailure::Gone);
}

#[tokio::test]
async fn pitfall_26_a_waiting_send_is_woken_by_room_and_by_the_peers_leaving() {
    let (mut router, endpoint) = bound_router(1000, 2).await;
    let mut raw = Raw::shaken(&endpoint, "DEALER", b"w").await;
    let peer = up(&mut router).await;
    let sent = fill(&router, &peer).await;
    {
        let mut sending = pin!(router.send(&peer, Message::from("room")));
        assert!(poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await.is_pending());
        for _ in 0..sent {
            raw.read_frame().await;
        }
        soon("room", sending).await.unwrap();
        assert_eq!(raw.read_frame().await.1, b"room");
    }
    fill(&router, &peer).await;
    let mut sending = pin!(router.send(&peer, Message::from("too late")));
    assert!(poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await.is_pending());
    drop(raw);
    let error = soon("the peer's leaving", sending).await.unwrap_err();
    assert_eq!((error.reason, error.message), (SendFailure::Gone, Message::from("too late")));
}

#[tokio::test]
async fn a_waiting_dealer_is_woken_by_its_first_peer_and_by_close() {
    let dealer = Dealer::builder().build();
    let (sender, _receiver) = dealer.split();
    let waiting = {
        let sender = sender.clone();
        tokio::spawn(async move { sender.send(Message::from("x")).await })
    };
    tokio::task::yield_now().await;
    drop(sender);
    assert!(!waiting.is_finished());
    waiting.abort();

    let dealer = Dealer::builder().build();
    let endpoint = dealer.bind(&any_port()).await.unwrap();
    let router = Router::builder().routing_id(id("r")).build();
    let mut sending = pin!(dealer.send(Message::from("first")));
    assert!(poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await.is_pending());
    router.connect(&endpoint).unwrap();
    soon("the first peer", sending).await.unwrap();
}

/// B09: past the receive HWM only that peer's connection is not read.
#[tokio::test]
async fn b09_receive_hwm_holds_back_only_its_peer() {
    let (mut router, endpoint) = bound_router(10, 1000).await;
    let mut events = router.monitor();
    let flood = named_dealer("flood");
    flood.connect(&endpoint).unwrap();
    let mut sent = 0;
    // Everything between the two is full: 10 at the router, the kernel's buffers, 1000 in the dealer's pipe twice.
    while flood.try_send(Message::from(vec![1; 100_000])).is_ok() {
        sent += 1;
        tokio::task::yield_now().await;
    }
    assert!(sent >= 1000);
    let quiet = named_dealer("quiet");
    quiet.connect(&endpoint).unwrap();
    quiet.send(Message::from("hello")).await.unwrap();
    let mut shaken = 0;
    while shaken < 2 {
        let event = soon("handshakes", events.recv()).await.unwrap();
        shaken += usize::from(matches!(event, zmtp::MonitorEvent::HandshakeSucceeded { .. }));
    }
    let (mut floods, mut before_quiet) = (0, None);
    while floods < sent {
        let (peer, _) = soon("the next message", router.recv()).await.unwrap();
        if peer == id("quiet") { before_quiet = Some(floods) } else { floods += 1 }
    }
    assert!(before_quiet.is_some_and(|count| count < 200), "{before_quiet:?} of {sent}");
}

/// The application's slowness is not the peer's silence: a link that does not read must not miss PONGs.
#[tokio::test]
async fn a_peer_held_back_by_the_receive_hwm_is_not_given_up_as_silent() {
    let second = std::time::Duration::from_millis(100);
    let heartbeat = zmtp::Heartbeat { interval: second, timeout: second, ttl: std::time::Duration::ZERO };
    let mut router = Router::builder().receive_hwm(1).heartbeat(heartbeat).build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    let mut raw = Raw::shaken(&endpoint, "DEALER", b"w").await;
    raw.send(&frame(0, b"x").repeat(10)).await;
    assert_eq!(up(&mut router).await, id("w"));
    // Answers every PING, while nobody takes its messages.
    for _ in 0..6 {
        let (flags, body) = raw.read_frame().await;
        assert_eq!((flags, &body[..5]), (4, &b"\x04PING"[..]));
        raw.send(&command("PONG", b"")).await;
    }
    for _ in 0..10 {
        assert!(matches!(soon("held back", router.recv_event()).await, Ok(RouterEvent::Messages { .. })));
    }
}

/// B14: nothing is lost when `recv` is dropped at any await point, and nothing gets stuck.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b14_recv_dropped_at_random_points_loses_nothing() {
    const COUNT: u32 = 100_000;
    let (mut router, endpoint) = bound_router(1000, 1000).await;
    let dealer = Dealer::builder().build();
    dealer.connect(&endpoint).unwrap();
    let sending = tokio::spawn(async move {
        for i in 0..COUNT {
            dealer.send(Message::single(i.to_be_bytes())).await.unwrap();
        }
        dealer
    });
    let (mut next, mut dropped) = (0u32, 0);
    soon("100,000 messages", async {
        while next < COUNT {
            let mut receiving = pin!(router.recv());
            // One poll; if it waits, it is dropped two times out of three.
            let polled = poll_fn(|cx| Poll::Ready(receiving.as_mut().poll(cx))).await;
            let received = match polled {
                Poll::Ready(received) => received,
                Poll::Pending if (next + dropped) % 3 != 0 => {
                    dropped += 1;
                    tokio::task::yield_now().await;
                    continue;
                }
                Poll::Pending => receiving.await,
            };
            let body = received.unwrap().1.frame(0).unwrap().to_vec();
            assert_eq!(body, next.to_be_bytes());
            next += 1;
        }
    })
    .await;
    assert!(dropped > 0);
    soon("close", sending.await.unwrap().close()).await;
}

/// B14: a receive under a timeout that never fires.
#[tokio::test]
async fn b14_recv_under_a_timeout_that_never_fires() {
    const COUNT: u32 = 100_000;
    let (mut router, endpoint) = bound_router(1000, 1000).await;
    let dealer = Dealer::builder().build();
    dealer.connect(&endpoint).unwrap();
    let sending = async {
        for i in 0..COUNT {
            dealer.send(Message::single(i.to_be_bytes())).await.unwrap();
        }
    };
    let receiving = async {
        for i in 0..COUNT {
            let (_, message) = soon("the next", router.recv()).await.unwrap();
            assert_eq!(message.frame(0), Some(&i.to_be_bytes()[..]));
        }
    };
    tokio::join!(sending, receiving);
}

/// B14: one peer floods, 49 say a word now and then; each word is heard before a few turns of the flood are over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b14_a_flood_does_not_starve_the_slow() {
    let (mut router, endpoint) = bound_router(1000, 1000).await;
    let flood = named_dealer("flood");
    flood.connect(&endpoint).unwrap();
    let flooding = tokio::spawn(async move { while flood.send(Message::from("noise")).await.is_ok() {} });
    let mut slow = Vec::new();
    for i in 0..49 {
        let mut raw = Raw::shaken(&endpoint, "DEALER", format!("s{i}").as_bytes()).await;
        raw.send(&frame(0, b"ping")).await;
        slow.push(raw);
    }
    let mut heard: HashMap<RoutingId, u32> = HashMap::new();
    let (mut done, mut noise) = (0, 0);
    while done < 49 {
        let (peer, _) = soon("anything", router.recv()).await.unwrap();
        if peer == id("flood") {
            noise += 1;
            continue;
        }
        let count = heard.entry(peer.clone()).or_default();
        *count += 1;
        if *count == 20 {
            done += 1;
            continue;
        }
        router.send(&peer, Message::from("pong")).await.unwrap();
        let at: usize = std::str::from_utf8(&peer.as_bytes()[1..]).unwrap().parse().unwrap();
        assert_eq!(slow[at].read_frame().await.1, b"pong");
        slow[at].send(&frame(0, b"ping")).await;
    }
    assert!(noise > 0);
    flooding.abort();
}

/// B10: three DEALERs exchange multipart messages while one comes and goes, politely and not, and one leaves halves.
#[tokio::test]
async fn b10_leaving_peers_never_leave_half_a_message() {
    const ROUNDS: usize = 3000;
    let (mut router, endpoint) = bound_router(1000, 1000).await;
    let serving = tokio::spawn(async move {
        loop {
            let Ok((peer, message)) = router.recv().await else { return };
            assert_eq!(message.frame_count(), 3, "{message:?}");
            // The one that comes and goes may be gone.
            let _ = router.send(&peer, message).await;
        }
    });
    let mut steady = [Dealer::builder().build(), Dealer::builder().build()];
    steady.iter().for_each(|dealer| dealer.connect(&endpoint).unwrap());
    for round in 0..ROUNDS {
        if round % 10 == 0 {
            let mut raw = Raw::shaken(&endpoint, "DEALER", b"").await;
            raw.send(&[wire(&["a", "b", "c"]), frame(1, b"half"), frame(1, b"a message")].concat()).await;
            if round % 20 == 0 {
                // With unread bytes: a reset instead of an end.
                raw.0.readable().await.unwrap();
            }
        }
        for (i, dealer) in steady.iter_mut().enumerate() {
            let message = Message::from_frames([format!("{i}"), String::new(), format!("{round}")]);
            dealer.send(message.clone()).await.unwrap();
            assert_eq!(soon("the reply to its asker", dealer.recv()).await.unwrap(), message);
        }
    }
    serving.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn split_halves_work_in_tasks_of_their_own() {
    const COUNT: usize = 20_000;
    let (router, endpoint) = bound_router(1000, 1000).await;
    let (replies, mut requests) = router.split();
    let serving = tokio::spawn(async move {
        for _ in 0..4 * COUNT {
            let (peer, message) = requests.recv().await.unwrap();
            replies.send(&peer, message).await.unwrap();
        }
        (replies, requests)
    });
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let dealer = Dealer::builder().build();
            dealer.connect(&endpoint).unwrap();
            let (sender, mut receiver) = dealer.split();
            let sending = tokio::spawn(async move {
                for i in 0..COUNT {
                    sender.send(Message::from(i.to_string())).await.unwrap();
                }
            });
            let receiving = tokio::spawn(async move {
                for i in 0..COUNT {
                    assert_eq!(receiver.recv().await.unwrap(), Message::from(i.to_string()));
                }
            });
            (sending, receiving)
        })
        .collect();
    for (sending, receiving) in clients {
        soon("all sent", sending).await.unwrap();
        soon("all received", receiving).await.unwrap();
    }
    soon("all served", serving).await.unwrap();
}
