//! XPUB and XSUB over real loopback sockets: what their applications hear and decide.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use zmtp::{Endpoint, Message, MonitorEvent, Pub, Reason, SendFailure, Sub, Verbosity, XPub, XPubEvent, XSub};
use zmtp_testkit::{any_port, frame, raw_to, settled, soon, until, wire, wish};

fn text(text: impl Into<String>) -> Message {
    Message::from(text.into())
}

async fn bound_xpub(verbosity: Verbosity) -> (XPub, Endpoint) {
    let xpub = XPub::builder().verbosity(verbosity).build();
    let endpoint = xpub.bind(&any_port()).await.unwrap();
    (xpub, endpoint)
}

async fn heard(xpub: &mut XPub) -> XPubEvent {
    soon("an event", xpub.recv()).await.unwrap()
}

fn subscribed(topic: impl AsRef<[u8]>) -> XPubEvent {
    XPubEvent::Subscribe(topic.as_ref().to_vec().into())
}

fn cancelled(topic: impl AsRef<[u8]>) -> XPubEvent {
    XPubEvent::Cancel(topic.as_ref().to_vec().into())
}

/// B11: data is not a subscription, whatever its frames begin with.
#[tokio::test]
async fn b11_data_is_not_a_subscription() {
    let (mut xpub, endpoint) = bound_xpub(Verbosity::Everything).await;
    let mut raw = raw_to(&endpoint, "XSUB", 1).await;
    let longest = frame(0, &[&[1][..], &[b'x'; 65_537]].concat());
    let data = [wire(&["\u{1}A", "B"]), wire(&["B", "\u{1}A"]), wire(&["\0A", "\0A"]), wire(&[""]), longest].concat();
    raw.send(&[data, wish(true, b"\x01A", true)].concat()).await;
    let messages = [
        Message::from_frames(["\u{1}A", "B"]),
        Message::from_frames(["B", "\u{1}A"]),
        Message::from_frames(["\0A", "\0A"]),
        Message::from(""),
    ];
    for message in messages {
        assert_eq!(heard(&mut xpub).await, XPubEvent::Message(message));
    }
    assert!(matches!(heard(&mut xpub).await, XPubEvent::Message(long) if long.wire_len() == 65_538 + 9));
    assert_eq!(heard(&mut xpub).await, subscribed("\u{1}A"));
    xpub.send(text("A")).await.unwrap();
    xpub.send(text("\u{1}A")).await.unwrap();
    assert_eq!(raw.read_frame().await, (0, b"\x01A".to_vec()));

    // A PUB has no use for it, nor is it held up by it.
    let publisher = Pub::builder().receive_hwm(10).build();
    let endpoint = publisher.bind(&any_port()).await.unwrap();
    let mut raw = raw_to(&endpoint, "SUB", 0).await;
    raw.send(&[wire(&["data"]).repeat(10_000), wire(&["\u{1}A", "B"]), wish(true, b"B", false)].concat()).await;
    settled(&mut raw).await;
    publisher.send(text("A")).await.unwrap();
    publisher.send(text("B")).await.unwrap();
    assert_eq!(raw.read_frame().await, (0, b"B".to_vec()));
}

/// Section 8: an XSUB's application subscribes by messages too, in the right form for each peer.
#[tokio::test]
async fn an_xsub_sends_to_all_its_publishers() {
    let xsub = XSub::builder().build();
    let endpoint = xsub.bind(&any_port()).await.unwrap();
    let mut old = raw_to(&endpoint, "XPUB", 0).await;
    let mut new = raw_to(&endpoint, "XPUB", 1).await;
    settled(&mut old).await;
    settled(&mut new).await;
    for message in [text("\u{1}A"), text("data"), text("\0A"), text("\0A"), Message::from_frames(["\u{1}", "data"])] {
        xsub.send(message).await.unwrap();
    }
    for (raw, as_command) in [(&mut old, false), (&mut new, true)] {
        let mut frames = Vec::new();
        for _ in 0..5 {
            frames.push(raw.read_frame().await);
        }
        // Subscriptions may overtake data that waits, and not each other.
        let [on, off] = [true, false].map(|subscribe| wish(subscribe, b"A", as_command));
        let place = |bytes: &[u8]| frames.iter().position(|(flags, body)| frame(*flags, body) == bytes).unwrap();
        assert!(place(&on) < place(&off));
        let data: Vec<_> = frames.iter().filter(|f| ![&on, &off].contains(&&frame(f.0, &f.1))).cloned().collect();
        assert_eq!(data, [(0, b"data".to_vec()), (1, b"\x01".to_vec()), (0, b"data".to_vec())]);
    }
}

#[tokio::test]
async fn a_publisher_that_connects() {
    let mut sub = Sub::builder().build();
    let endpoint = sub.bind(&any_port()).await.unwrap();
    sub.subscribe("A").unwrap();
    for round in ["A0", "A1"] {
        let mut xpub = XPub::builder().build();
        xpub.connect(&endpoint).unwrap();
        assert_eq!(heard(&mut xpub).await, subscribed("A"));
        xpub.send(text(round)).await.unwrap();
        assert_eq!(soon("a message", sub.recv()).await.unwrap(), text(round));
        soon("close", xpub.close()).await;
    }
}

#[tokio::test]
async fn an_xpub_hears_what_its_verbosity_says() {
    for verbosity in [Verbosity::Changes, Verbosity::Subscriptions, Verbosity::Everything] {
        let (mut xpub, endpoint) = bound_xpub(verbosity).await;
        let mut raws = [raw_to(&endpoint, "SUB", 1).await, raw_to(&endpoint, "SUB", 0).await];
        let mut say = async |who: usize, subscribe, topic: &str| {
            raws[who].send(&wish(subscribe, topic.as_bytes(), who == 0)).await;
            settled(&mut raws[who]).await;
        };
        say(0, true, "A").await;
        say(1, true, "A").await;
        say(0, true, "A").await;
        say(0, false, "A").await;
        say(0, false, "never").await;
        say(0, true, "only mine").await;
        say(0, true, "B").await;
        say(1, true, "B").await;
        drop(raws);
        let mut events = Vec::new();
        // Both leave, in either order: what they had goes with them.
        let gone = |events: &[XPubEvent]| {
            let count = |topic: &str| events.iter().filter(|event| **event == cancelled(topic)).count();
            let every = usize::from(verbosity == Verbosity::Everything);
            count("A") == 1 + every && count("B") == 1 + every && count("only mine") == 1
        };
        while !gone(&events) {
            events.push(heard(&mut xpub).await);
        }
        let expected: Vec<_> = match verbosity {
            Verbosity::Changes => vec![subscribed("A"), cancelled("never"), subscribed("only mine"), subscribed("B")],
            Verbosity::Subscriptions => {
                let a = vec![subscribed("A"); 3];
                let rest = [cancelled("never"), subscribed("only mine"), subscribed("B"), subscribed("B")];
                [a, rest.to_vec()].concat()
            }
            Verbosity::Everything => {
                let a = vec![subscribed("A"); 3];
                let rest = [subscribed("only mine"), subscribed("B"), subscribed("B")];
                [a, vec![cancelled("A"), cancelled("never")], rest.to_vec()].concat()
            }
        };
        assert_eq!(events[..expected.len()], expected, "{verbosity:?}");
        assert_eq!(xpub.try_recv(), None);
    }
}

#[tokio::test]
async fn a_manual_xpub_decides_itself() {
    let mut xpub = XPub::builder().manual(true).build();
    let endpoint = xpub.bind(&any_port()).await.unwrap();
    let mut raw = raw_to(&endpoint, "SUB", 1).await;
    let mut other = raw_to(&endpoint, "SUB", 1).await;
    raw.send(&wish(true, b"A", true)).await;
    assert_eq!(heard(&mut xpub).await, subscribed("A"));
    xpub.send(text("A is not for you")).await.unwrap();
    assert!(xpub.subscribe("X"));
    other.send(&wish(true, b"A", true)).await;
    assert_eq!(heard(&mut xpub).await, subscribed("A"));
    xpub.send(text("X")).await.unwrap();
    assert_eq!(raw.read_frame().await, (0, b"X".to_vec()));
    raw.send(&wish(false, b"A", true)).await;
    assert_eq!(heard(&mut xpub).await, cancelled("A"));
    assert!(xpub.unsubscribe("X"));
    xpub.send(text("X")).await.unwrap();
    settled(&mut raw).await;
    settled(&mut other).await;
    raw.send(&wish(true, b"B", true)).await;
    assert_eq!(heard(&mut xpub).await, subscribed("B"));
    drop(raw);
    assert_eq!(heard(&mut xpub).await, cancelled("B"));
    assert!(!xpub.subscribe("too late"));
}

#[tokio::test]
async fn a_welcome_comes_first() {
    let xpub = XPub::builder().welcome(Message::from_frames(["welcome", "all"])).build();
    let endpoint = xpub.bind(&any_port()).await.unwrap();
    let mut raw = raw_to(&endpoint, "SUB", 1).await;
    let welcome = wire(&["welcome", "all"]);
    assert_eq!(raw.read(welcome.len()).await, welcome);
}

/// Section 9: NODROP queues a message for all or for nobody.
#[tokio::test]
async fn a_nodrop_xpub_waits_for_the_slowest() {
    let mut xpub = XPub::builder().nodrop(true).send_hwm(4).build();
    let endpoint = xpub.bind(&any_port()).await.unwrap();
    let mut slow = raw_to(&endpoint, "SUB", 1).await;
    slow.send(&wish(true, b"", true)).await;
    assert_eq!(heard(&mut xpub).await, subscribed(""));
    let body = vec![b'x'; 1 << 20];
    let mut sent = 0;
    // Until the kernel takes no more and the queue is full.
    while tokio::time::timeout(Duration::from_millis(200), xpub.send(Message::single(&body))).await.is_ok() {
        sent += 1;
    }
    assert_eq!(xpub.try_send(text("whole or not")).unwrap_err().reason, SendFailure::Full);
    let sending = tokio::spawn(async move {
        xpub.send(text("last")).await.unwrap();
        xpub
    });
    for _ in 0..sent {
        assert_eq!(slow.read_frame().await, (2, body.clone()));
    }
    assert_eq!(slow.read_frame().await, (0, b"last".to_vec()));
    drop(soon("the send", sending).await.unwrap());
}

#[tokio::test]
async fn inverted_matching() {
    let mut xpub = XPub::builder().invert_matching(true).build();
    let endpoint = xpub.bind(&any_port()).await.unwrap();
    let mut sub = Sub::builder().invert_matching(true).build();
    sub.subscribe("A").unwrap();
    sub.connect(&endpoint).unwrap();
    assert_eq!(heard(&mut xpub).await, subscribed("A"));
    for body in ["A1", "B1", "A2", "B2"] {
        xpub.send(text(body)).await.unwrap();
    }
    for body in ["B1", "B2"] {
        assert_eq!(soon("what is not A", sub.recv()).await.unwrap(), text(body));
    }
    assert_eq!(sub.try_recv(), None);
}

/// Pitfall 22: a topic as long as can be costs no stack, and a peer's topics are bounded.
#[tokio::test]
async fn pitfall_22_long_and_many_topics() {
    let (mut xpub, endpoint) = bound_xpub(Verbosity::Changes).await;
    let mut raw = raw_to(&endpoint, "SUB", 1).await;
    let topic = vec![b'x'; 65_536];
    raw.send(&[wish(true, &topic, true), wish(true, &topic[1..], true)].concat()).await;
    assert_eq!(heard(&mut xpub).await, subscribed(&topic));
    assert_eq!(heard(&mut xpub).await, subscribed(&topic[1..]));
    drop(raw);
    assert_eq!(heard(&mut xpub).await, cancelled(&topic[1..]));
    assert_eq!(heard(&mut xpub).await, cancelled(&topic));

    let publisher = Pub::builder().max_topics(1 << 20).build();
    let endpoint = publisher.bind(&any_port()).await.unwrap();
    let mut monitor = publisher.monitor();
    let mut greedy = raw_to(&endpoint, "SUB", 1).await;
    let wishes: Vec<u8> = (0..20_000u32).flat_map(|i| wish(true, &i.to_be_bytes(), true)).collect();
    let _ = tokio::io::AsyncWriteExt::write_all(&mut greedy.0, &wishes).await;
    until(&mut monitor, "the end of it", |event| {
        matches!(event, MonitorEvent::Disconnected { reason: Reason::TooManyTopics, .. }).then_some(())
    })
    .await;
    let mut modest = raw_to(&endpoint, "SUB", 1).await;
    for _ in 0..20 {
        let round: Vec<u8> = (0..1000u32)
            .flat_map(|i| [wish(true, &i.to_be_bytes(), true), wish(false, &i.to_be_bytes(), true)].concat())
            .collect();
        modest.send(&round).await;
        settled(&mut modest).await;
    }
}
