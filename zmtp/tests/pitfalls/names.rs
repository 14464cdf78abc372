//! Routing ids that are contested, change hands, or come back.

use std::time::Duration;

use tokio::net::TcpListener;
use zmtp::{Dealer, Endpoint, Handover, Message, Reconnect, Router, RouterEvent, RoutingId, SendFailure};

use zmtp_testkit::{Raw, any_port, frame, id, named_dealer, soon, wire};

fn quick() -> Reconnect {
    Reconnect { first: Duration::from_millis(5), longest: Duration::from_millis(20) }
}

/// zmq.rs deadlocked: it sent while a peer of the same name connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pitfall_09_sending_to_a_name_while_it_changes_hands() {
    let router = Router::builder().handover(Handover::Replace).build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    let (sender, mut receiver) = router.split();
    let sending = tokio::spawn({
        let sender = sender.clone();
        async move {
            loop {
                if let Err(error) = sender.try_send(&id("w"), Message::from("for whoever it is")) {
                    assert!(matches!(error.reason, SendFailure::Gone | SendFailure::Full), "{error}");
                    tokio::task::yield_now().await;
                }
            }
        }
    });
    let coming = (0..4).map(|_| {
        let endpoint = endpoint.clone();
        tokio::spawn(async move {
            for _ in 0..50 {
                let mut raw = Raw::shaken(&endpoint, "DEALER", b"w").await;
                raw.send(&wire(&["here"])).await;
            }
        })
    });
    let coming: Vec<_> = coming.collect();
    for task in coming {
        soon("all have come and gone", task).await.unwrap();
    }
    sending.abort();
    // And it is all there still.
    let mut last = Raw::shaken(&endpoint, "DEALER", b"last").await;
    last.send(&wire(&["last"])).await;
    soon("the last one", async { while receiver.recv().await.unwrap() != (id("last"), Message::from("last")) {} })
        .await;
    sender.send(&id("last"), Message::from("you")).await.unwrap();
    assert_eq!(last.read_frame().await, (0, b"you".to_vec()));
}

/// libzmq decides when the application next reads, and loses the newcomer.
#[tokio::test]
async fn pitfall_19_a_handover_does_not_wait_for_the_application() {
    let mut router = Router::builder().handover(Handover::Replace).build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    let mut first = Raw::shaken(&endpoint, "DEALER", b"w").await;
    first.send(&frame(0, b"from the first")).await;
    let mut second = Raw::shaken(&endpoint, "DEALER", b"w").await;
    second.send(&frame(0, b"from the second")).await;
    // Nobody has read anything yet.
    first.closed().await;
    assert_eq!(soon("the first", router.recv()).await.unwrap(), (id("w"), Message::from("from the first")));
    assert_eq!(soon("the second", router.recv()).await.unwrap(), (id("w"), Message::from("from the second")));
    router.send(&id("w"), Message::from("you")).await.unwrap();
    assert_eq!(second.read_frame().await, (0, b"you".to_vec()));
}

/// A ROUTER that connects knows its peer by the name it gives now, not by its first one.
#[tokio::test]
async fn pitfall_20_a_connecting_router_follows_its_peers_name() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut router = Router::builder().reconnect(quick()).build();
    router.connect(&Endpoint::from(listener.local_addr().unwrap())).unwrap();
    let mut former: Option<RoutingId> = None;
    for name in ["A", "B", "", "A"] {
        let mut raw = Raw(soon("a connection", listener.accept()).await.unwrap().0);
        raw.shake("DEALER", name.as_bytes()).await;
        let peer = soon("Up", async {
            loop {
                if let RouterEvent::Up { peer, .. } = router.recv_event().await.unwrap() {
                    return peer;
                }
            }
        })
        .await;
        assert!(if name.is_empty() { peer.is_generated() } else { peer == id(name) }, "{name}: {peer:?}");
        if let Some(former) = former {
            assert_eq!(router.try_send(&former, Message::from("?")).unwrap_err().reason, SendFailure::Gone);
        }
        router.send(&peer, Message::from("you")).await.unwrap();
        assert_eq!(raw.read_frame().await, (0, b"you".to_vec()));
        former = Some(peer);
    }
}

/// Two connections between one named DEALER and one ROUTER, one made by each. The second is refused for its name; what
/// was dealt to it is not lost, but arrives when the first is gone. With `immediate` nothing is dealt to it.
#[tokio::test]
async fn pitfall_33_bound_and_connected_to_the_same_peer() {
    for immediate in [true, false] {
        let mut router = Router::builder().reconnect(quick()).build();
        let endpoint = router.bind(&any_port()).await.unwrap();
        let dealer = Dealer::builder().routing_id(id("w")).reconnect(quick()).immediate(immediate).build();
        let dealer_endpoint = dealer.bind(&any_port()).await.unwrap();
        router.connect(&dealer_endpoint).unwrap();
        assert!(matches!(soon("Up", router.recv_event()).await, Ok(RouterEvent::Up { peer, .. }) if peer == id("w")));
        dealer.connect(&endpoint).unwrap();
        for number in 0..100u8 {
            soon("room", dealer.send(Message::from(vec![number]))).await.unwrap();
        }
        let mut heard = Vec::new();
        while heard.len() < if immediate { 100 } else { 50 } {
            let (peer, message) = soon("a message", router.recv()).await.unwrap();
            assert_eq!(peer, id("w"));
            heard.push(message.frame(0).unwrap()[0]);
        }
        if !immediate {
            assert!(router.disconnect(&dealer_endpoint));
            while heard.len() < 100 {
                heard.push(soon("the rest", router.recv()).await.unwrap().1.frame(0).unwrap()[0]);
            }
        }
        heard.sort_unstable();
        assert!(heard.iter().copied().eq(0..100), "{heard:?}");
    }
}

/// Between two DEALERs names mean nothing, so both connections work at once.
#[tokio::test]
async fn pitfall_33_dealers_connected_both_ways() {
    let (ours, mut theirs) = (named_dealer("w"), named_dealer("w"));
    ours.connect(&theirs.bind(&any_port()).await.unwrap()).unwrap();
    theirs.connect(&ours.bind(&any_port()).await.unwrap()).unwrap();
    let mut heard = Vec::new();
    for number in 0..100u8 {
        soon("room", ours.send(Message::from(vec![number]))).await.unwrap();
        heard.push(soon("a message", theirs.recv()).await.unwrap().frame(0).unwrap()[0]);
    }
    heard.sort_unstable();
    assert!(heard.iter().copied().eq(0..100), "{heard:?}");
}
