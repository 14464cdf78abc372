//! PAIR over real loopback sockets, and who may be joined with whom.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use zmtp::{Endpoint, Message, MonitorEvent, Pair, Reason, Reconnect, SendFailure};
use zmtp_testkit::{Raw, any_port, dead_port, frame, greeting, ready, soon, until};

async fn bound_pair() -> (Pair, Endpoint) {
    let pair = Pair::builder().build();
    let endpoint = pair.bind(&any_port()).await.unwrap();
    (pair, endpoint)
}

#[tokio::test]
async fn messages_both_ways_and_in_halves() {
    let (here, endpoint) = bound_pair().await;
    let there = Pair::builder().build();
    there.connect(&endpoint).unwrap();
    let (here_out, mut here_in) = here.split();
    let (there_out, mut there_in) = there.split();
    for i in 0..100 {
        there_out.send(Message::from_frames(["to", &i.to_string()])).await.unwrap();
        assert_eq!(soon("a message", here_in.recv()).await.unwrap(), Message::from_frames(["to", &i.to_string()]));
        here_out.send(Message::from_frames(["fro", &i.to_string()])).await.unwrap();
        assert_eq!(soon("a message", there_in.recv()).await.unwrap(), Message::from_frames(["fro", &i.to_string()]));
    }
}

/// Section 9: without a peer, and at the high-water mark.
#[tokio::test]
async fn section_9_a_pair_blocks() {
    let (here, _) = bound_pair().await;
    assert_eq!(here.try_send(Message::from("nobody")).unwrap_err().reason, SendFailure::Full);
    let there = Pair::builder().send_hwm(3).build();
    there.connect(&dead_port()).unwrap();
    for _ in 0..3 {
        there.try_send(Message::from("waits")).unwrap();
    }
    assert_eq!(there.try_send(Message::from("no room")).unwrap_err().reason, SendFailure::Full);
    let immediate = Pair::builder().immediate(true).build();
    immediate.connect(&dead_port()).unwrap();
    assert_eq!(immediate.try_send(Message::from("nobody")).unwrap_err().reason, SendFailure::Full);
}

/// Section 8: a second peer is closed, and let in once the first has left.
#[tokio::test]
async fn a_second_peer_is_closed_and_waits_its_turn() {
    let (mut here, endpoint) = bound_pair().await;
    let mut monitor = here.monitor();
    let mut first = Raw::shaken(&endpoint, "PAIR", b"").await;
    first.send(&frame(0, b"first")).await;
    assert_eq!(soon("first", here.recv()).await.unwrap(), Message::from("first"));

    let quick = Reconnect { first: Duration::from_millis(10), longest: Duration::from_millis(20) };
    let second = Pair::builder().reconnect(quick).build();
    second.connect(&endpoint).unwrap();
    second.send(Message::from("second")).await.unwrap();
    until(&mut monitor, "a refusal", |event| {
        matches!(event, MonitorEvent::HandshakeFailed { reason: Reason::Paired, .. }).then_some(())
    })
    .await;
    here.send(Message::from("still you")).await.unwrap();
    assert_eq!(first.read_frame().await, (0, b"still you".to_vec()));
    drop(first);
    // What the second had queued may have gone into one of the connections that were closed.
    let heard = async {
        loop {
            let _ = second.try_send(Message::from("again"));
            if let Some(message) = here.try_recv() {
                return message;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the second's turn", heard).await;
}

/// A PAIR that connects keeps what is queued over a reconnect.
#[tokio::test]
async fn a_connected_pair_comes_back() {
    let (mut here, endpoint) = bound_pair().await;
    let there = Pair::builder().build();
    there.connect(&endpoint).unwrap();
    there.send(Message::from("one")).await.unwrap();
    assert_eq!(soon("one", here.recv()).await.unwrap(), Message::from("one"));
    let mut monitor = there.monitor();
    soon("close", here.close()).await;
    until(&mut monitor, "the loss", |event| matches!(event, MonitorEvent::Disconnected { .. }).then_some(())).await;
    there.send(Message::from("two")).await.unwrap();
    let mut here = Pair::builder().build();
    here.bind(&endpoint).await.unwrap();
    assert_eq!(soon("two", here.recv()).await.unwrap(), Message::from("two"));
}

const TYPES: [&str; 11] = ["PAIR", "PUB", "SUB", "REQ", "REP", "DEALER", "ROUTER", "PULL", "PUSH", "XPUB", "XSUB"];

/// Every peer of every type: the legal ones are shaken hands with, the others refused in so many words.
async fn joins(ours: &str, endpoint: &Endpoint, legal: &[&str]) {
    for theirs in TYPES {
        let mut raw = Raw::connect(endpoint).await;
        raw.send(&[greeting(), ready(theirs, b"")].concat()).await;
        raw.read(64).await;
        let (flags, body) = raw.read_frame().await;
        assert!(flags == 4 && body.starts_with(b"\x05READY"), "{ours}: {body:?}");
        if !legal.contains(&theirs) {
            let (flags, body) = raw.read_frame().await;
            assert!(flags == 4 && body.starts_with(b"\x05ERROR"), "{ours} to {theirs}: {body:?}");
            raw.closed().await;
        }
    }
}

macro_rules! joins {
    ($($socket:ident $name:literal: $($legal:literal)*;)*) => {
        #[tokio::test]
        async fn section_7_illegal_pairs_are_refused() {
            $(
                let socket = zmtp::$socket::builder().build();
                let mut monitor = socket.monitor();
                let endpoint = socket.bind(&any_port()).await.unwrap();
                joins($name, &endpoint, &[$($legal),*]).await;
                for _ in TYPES.iter().filter(|name| ![$($legal),*].contains(name)) {
                    until(&mut monitor, $name, |event| {
                        matches!(event, MonitorEvent::HandshakeFailed { reason: Reason::Protocol(_), .. }).then_some(())
                    })
                    .await;
                }
                soon("close", socket.close()).await;
            )*
        }
    };
}

joins! {
    Dealer "DEALER": "REP" "DEALER" "ROUTER";
    Pair "PAIR": "PAIR";
    Pull "PULL": "PUSH";
    Pub "PUB": "SUB" "XSUB";
    Push "PUSH": "PULL";
    Rep "REP": "REQ" "DEALER";
    Req "REQ": "REP" "ROUTER";
    Router "ROUTER": "REQ" "DEALER" "ROUTER";
    Sub "SUB": "PUB" "XPUB";
    XPub "XPUB": "SUB" "XSUB";
    XSub "XSUB": "PUB" "XPUB";
}
