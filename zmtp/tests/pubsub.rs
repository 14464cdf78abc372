//! PUB, SUB, XPUB and XSUB over real loopback sockets: who gets what, and how subscriptions travel.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use tokio::net::TcpListener;
use zmtp::{Endpoint, Message, MonitorEvent, Pub, Reconnect, Sub, SubscribeError, Verbosity, XPub, XPubEvent, XSub};
use zmtp_testkit::{Raw, any_port, dead_port, raw_peer, raw_to, settled, soon, until, wire, wish};

/// Lengths around the borders of frame and command forms, and the longest.
const LENGTHS: [usize; 8] = [0, 1, 245, 246, 250, 255, 256, 65_536];

fn text(text: impl Into<String>) -> Message {
    Message::from(text.into())
}

async fn bound_pub() -> (Pub, Endpoint) {
    let publisher = Pub::builder().build();
    let endpoint = publisher.bind(&any_port()).await.unwrap();
    (publisher, endpoint)
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

#[tokio::test]
async fn prefixes_of_the_first_frame_decide() {
    let (publisher, endpoint) = bound_pub().await;
    let mut raw = raw_to(&endpoint, "SUB", 1).await;
    raw.send(&[wish(true, b"A", true), wish(true, b"AB", true), wish(true, b"C\0\x01", true)].concat()).await;
    settled(&mut raw).await;
    for message in [
        Message::from_frames(["B", "A"]),
        Message::from_frames(["AB", "once, though two topics match"]),
        Message::from_frames(["C\0\u{2}"]),
        Message::from_frames(["C\0\u{1}\u{1}", "\u{1}A", "\0A"]),
        Message::from_frames([""]),
        Message::from_frames(["A"]),
    ] {
        publisher.send(message).await.unwrap();
    }
    let expected =
        [wire(&["AB", "once, though two topics match"]), wire(&["C\0\u{1}\u{1}", "\u{1}A", "\0A"]), wire(&["A"])]
            .concat();
    assert_eq!(raw.read(expected.len()).await, expected);
    // The empty topic stands for all.
    raw.send(&wish(true, b"", true)).await;
    settled(&mut raw).await;
    publisher.send(Message::from_frames(["", "x"])).await.unwrap();
    assert_eq!(raw.read(5).await, wire(&["", "x"]));
}

/// B11: topics of every length, in both forms, from peers of both versions.
#[tokio::test]
async fn b11_a_publisher_understands_both_forms_from_any_version() {
    let (publisher, endpoint) = bound_pub().await;
    for minor in [0, 1] {
        for as_command in [false, true] {
            let mut raw = raw_to(&endpoint, "SUB", minor).await;
            for (i, len) in LENGTHS.into_iter().enumerate() {
                let topic = vec![b'a' + i as u8; len];
                raw.send(&wish(true, &topic, as_command)).await;
                settled(&mut raw).await;
                let message = Message::from_frames([&topic[..], b"data"]);
                publisher.send(message).await.unwrap();
                assert_eq!(raw.read_frame().await, (if len > 255 { 3 } else { 1 }, topic.clone()));
                assert_eq!(raw.read_frame().await, (0, b"data".to_vec()));
                raw.send(&wish(false, &topic, as_command)).await;
                settled(&mut raw).await;
                publisher.send(Message::single(&topic)).await.unwrap();
            }
            // Nothing came in between.
            settled(&mut raw).await;
        }
    }
}

/// B11 and pitfall 12: a set at the publisher, so one CANCEL undoes any number of SUBSCRIBEs.
#[tokio::test]
async fn pitfall_12_b11_a_publisher_does_not_count() {
    let (publisher, endpoint) = bound_pub().await;
    for as_command in [false, true] {
        let mut raw = raw_to(&endpoint, "SUB", 1).await;
        let [on, off] = [true, false].map(|subscribe| wish(subscribe, b"A", as_command));
        // A CANCEL of what was never subscribed to is nothing.
        raw.send(&[&wish(false, b"never", as_command)[..], &on, &on, &on, &off].concat()).await;
        settled(&mut raw).await;
        publisher.send(text("A1")).await.unwrap();
        raw.send(&[&off[..], &on].concat()).await;
        settled(&mut raw).await;
        publisher.send(text("A2")).await.unwrap();
        assert_eq!(raw.read_frame().await, (0, b"A2".to_vec()));
    }
}

/// B11: the subscriber counts, and says it in the form of the peer's version.
#[tokio::test]
async fn b11_a_subscriber_counts_and_speaks_as_its_peer_does() {
    for minor in [0, 1] {
        let sub = Sub::builder().build();
        let endpoint = sub.bind(&any_port()).await.unwrap();
        let mut raw = raw_to(&endpoint, "PUB", minor).await;
        settled(&mut raw).await;
        for topic in ["A", "A"] {
            sub.subscribe(topic).unwrap();
        }
        assert!(sub.unsubscribe("A"));
        assert!(sub.unsubscribe("A"));
        assert!(!sub.unsubscribe("A"));
        for len in LENGTHS {
            sub.subscribe(vec![b'x'; len]).unwrap();
        }
        let say = |subscribe, topic: &[u8]| wish(subscribe, topic, minor == 1);
        let mut expected = [say(true, b"A"), say(true, b"A"), say(false, b"A")].concat();
        LENGTHS.into_iter().for_each(|len| expected.extend(say(true, &vec![b'x'; len])));
        assert_eq!(raw.read(expected.len()).await, expected);
    }
    let sub = Sub::builder().build();
    assert_eq!(sub.subscribe(vec![b'x'; 65_537]), Err(SubscribeError::TooLong(65_537)));
}

#[tokio::test]
async fn a_sub_filters_what_arrives_and_an_xsub_does_not() {
    let mut sub = Sub::builder().build();
    let endpoint = sub.bind(&any_port()).await.unwrap();
    sub.subscribe("A").unwrap();
    sub.subscribe("B").unwrap();
    let mut raw = raw_to(&endpoint, "PUB", 1).await;
    let say = [wish(true, b"A", true), wish(true, b"B", true)].concat();
    assert_eq!(raw.read(say.len()).await, say);
    let all: Vec<u8> = ["C", "A1", "", "B1", "A2"].into_iter().flat_map(|body| wire(&[body, "more"])).collect();
    raw.send(&all).await;
    settled(&mut raw).await;
    assert_eq!(soon("A1", sub.recv()).await.unwrap(), Message::from_frames(["A1", "more"]));
    // What has arrived already is not wanted any more either.
    assert!(sub.unsubscribe("B"));
    assert_eq!(soon("A2", sub.recv()).await.unwrap(), Message::from_frames(["A2", "more"]));
    assert_eq!(sub.try_recv(), None);

    let mut xsub = XSub::builder().build();
    let endpoint = xsub.bind(&any_port()).await.unwrap();
    let mut raw = raw_to(&endpoint, "PUB", 1).await;
    raw.send(&wire(&["unasked"])).await;
    assert_eq!(soon("everything", xsub.recv()).await.unwrap(), text("unasked"));
}

/// B13, pitfalls 10 and 11: 5,000 subscriptions with a high-water mark of 1000 are all there again on every connection,
/// before anything else.
#[tokio::test]
async fn pitfall_10_11_b13_all_subscriptions_come_first_on_every_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let quick = Reconnect { first: Duration::from_millis(10), longest: Duration::from_millis(20) };
    let xsub = XSub::builder().send_hwm(1000).reconnect(quick).build();
    xsub.connect(&Endpoint::from(listener.local_addr().unwrap())).unwrap();
    let mut topics: Vec<String> = (0..5000).map(|i| format!("topic {i}")).collect();
    topics.iter().for_each(|topic| xsub.subscribe(topic).unwrap());
    xsub.subscribe("topic 7").unwrap();
    xsub.subscribe("gone").unwrap();
    xsub.unsubscribe("gone");
    xsub.send(text("data")).await.unwrap();
    topics.sort();
    for minor in [1, 0, 1] {
        let mut raw = raw_peer(Raw(soon("a connection", listener.accept()).await.unwrap().0), "XPUB", minor).await;
        let expected: Vec<u8> = topics.iter().flat_map(|topic| wish(true, topic.as_bytes(), minor == 1)).collect();
        assert_eq!(raw.read(expected.len()).await, expected);
        assert_eq!(raw.read_frame().await, (0, b"data".to_vec()));
        let mut monitor = xsub.monitor();
        drop(raw);
        until(&mut monitor, "the loss", |event| matches!(event, MonitorEvent::Retrying { .. }).then_some(())).await;
        // Waits for the next connection, and behind the topics there.
        xsub.send(text("data")).await.unwrap();
    }

    let (mut xpub, endpoint) = bound_xpub(Verbosity::Changes).await;
    let mut sub = Sub::builder().reconnect(quick).build();
    topics.iter().for_each(|topic| sub.subscribe(topic).unwrap());
    sub.connect(&endpoint).unwrap();
    for round in 0..3 {
        for topic in &topics {
            assert_eq!(heard(&mut xpub).await, subscribed(topic));
        }
        for topic in [&topics[0], &topics[4999], &topics[2500]] {
            xpub.send(Message::from_frames([topic, &round.to_string()])).await.unwrap();
            let expected = Message::from_frames([topic, &round.to_string()]);
            assert_eq!(soon("its message", sub.recv()).await.unwrap(), expected);
        }
        soon("close", xpub.close()).await;
        xpub = XPub::builder().build();
        xpub.bind(&endpoint).await.unwrap();
    }
}

/// Section 9 and B09: who takes nothing loses whole messages (pitfall 25), the others lose none.
#[tokio::test]
async fn pitfall_25_b09_a_full_subscriber_loses_whole_messages_and_nobody_else_any() {
    let publisher = Pub::builder().send_hwm(10).build();
    let endpoint = publisher.bind(&any_port()).await.unwrap();
    let mut stuck = raw_to(&endpoint, "SUB", 1).await;
    stuck.send(&wish(true, b"", true)).await;
    settled(&mut stuck).await;
    let mut sub = Sub::builder().build();
    sub.subscribe("").unwrap();
    sub.connect(&endpoint).unwrap();
    let body = vec![b'x'; 100_000];
    let mut sent = 0u32;
    let number = |message: &Message| u32::from_be_bytes(message.frame(0).unwrap().try_into().unwrap());
    // The healthy one is there when its first message comes.
    let first = loop {
        publisher.try_send(Message::from_frames([&sent.to_be_bytes()[..], &body, b"end"])).unwrap();
        sent += 1;
        tokio::task::yield_now().await;
        if let Some(message) = sub.try_recv() {
            break number(&message);
        }
    };
    let mut expected = first + 1;
    for _ in 0..500 {
        publisher.try_send(Message::from_frames([&sent.to_be_bytes()[..], &body, b"end"])).unwrap();
        sent += 1;
        while expected < sent {
            assert_eq!(number(&soon("every message", sub.recv()).await.unwrap()), expected);
            expected += 1;
        }
    }
    // What the stuck one has are whole messages in order, and not all of them.
    let mut last = None;
    let mut got = 0;
    publisher.try_send(Message::from("last")).unwrap();
    loop {
        let (flags, head) = stuck.read_frame().await;
        if head.len() != 4 || flags == 0 {
            break;
        }
        let number = u32::from_be_bytes(head.try_into().unwrap());
        assert!(last.is_none_or(|last| last < number));
        (last, got) = (Some(number), got + 1);
        assert_eq!(stuck.read_frame().await, (3, body.clone()));
        assert_eq!(stuck.read_frame().await, (0, b"end".to_vec()));
        if got % 10 == 0 {
            // By now there is room for it.
            publisher.try_send(Message::from("last")).unwrap();
        }
    }
    assert!(got < sent, "nothing was dropped");
}

/// Pitfall 28: a SUB that does not read holds its connection back and drops nothing.
#[tokio::test]
async fn pitfall_28_a_sub_holds_back_at_its_high_water_mark() {
    let mut sub = Sub::builder().receive_hwm(10).build();
    let endpoint = sub.bind(&any_port()).await.unwrap();
    sub.subscribe("").unwrap();
    let mut raw = raw_to(&endpoint, "PUB", 1).await;
    let body = vec![b'x'; 10_000];
    let sending = tokio::spawn(async move {
        for i in 0..2000u32 {
            raw.send(&wire(&[&i.to_be_bytes()[..], &body])).await;
        }
        raw
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!sending.is_finished(), "20 MB were taken by nobody");
    for i in 0..2000u32 {
        assert_eq!(soon("every message", sub.recv()).await.unwrap().frame(0).unwrap(), i.to_be_bytes());
    }
    drop(soon("the sender", sending).await.unwrap());
}

#[tokio::test]
async fn a_publisher_without_subscribers_takes_everything() {
    let publisher = Pub::builder().send_hwm(10).build();
    publisher.connect(&dead_port()).unwrap();
    for _ in 0..100 {
        publisher.send(text("for nobody")).await.unwrap();
        publisher.try_send(text("for nobody")).unwrap();
    }
    soon("close, though it lingers for ever", publisher.close()).await;
}

/// A loop of sends, as everybody writes it, reaches a subscriber that keeps up.
#[tokio::test]
async fn a_loop_of_sends_gives_connections_their_turn() {
    let (mut xpub, endpoint) = bound_xpub(Verbosity::Changes).await;
    let mut sub = Sub::builder().receive_hwm(0).build();
    sub.subscribe("").unwrap();
    sub.connect(&endpoint).unwrap();
    assert_eq!(heard(&mut xpub).await, subscribed(""));
    for i in 0..20_000u32 {
        xpub.send(Message::single(i.to_be_bytes())).await.unwrap();
    }
    for i in 0..20_000u32 {
        assert_eq!(soon("every message", sub.recv()).await.unwrap(), Message::single(i.to_be_bytes()));
    }
}

#[tokio::test]
async fn conflate_keeps_the_newest() {
    let mut sub = Sub::builder().conflate(true).build();
    let endpoint = sub.bind(&any_port()).await.unwrap();
    sub.subscribe("A").unwrap();
    let mut raw = raw_to(&endpoint, "PUB", 1).await;
    raw.read_frame().await;
    let bodies = (0..2000).map(|i| format!("A{i}")).chain(["B".to_owned()]);
    raw.send(&bodies.flat_map(|body| wire(&[body])).collect::<Vec<u8>>()).await;
    settled(&mut raw).await;
    assert_eq!(soon("the newest", sub.recv()).await.unwrap(), text("A1999"));
    assert_eq!(sub.try_recv(), None);

    let publisher = Pub::builder().conflate(true).build();
    let endpoint = publisher.bind(&any_port()).await.unwrap();
    let mut raw = raw_to(&endpoint, "SUB", 1).await;
    raw.send(&wish(true, b"", true)).await;
    settled(&mut raw).await;
    for i in 0..2000 {
        publisher.try_send(text(i.to_string())).unwrap();
    }
    assert_eq!(raw.read_frame().await, (0, b"1999".to_vec()));
}

/// Pitfall 8: a `recv` of a SUB given up loses nothing; halves in two tasks.
#[tokio::test]
async fn pitfall_08_halves_and_dropped_receives() {
    let (xpub, endpoint) = bound_xpub(Verbosity::Changes).await;
    let (publisher, mut requests) = xpub.split();
    let sub = Sub::builder().build();
    sub.connect(&endpoint).unwrap();
    let (subscriber, mut receiver) = sub.split();
    subscriber.subscribe("n").unwrap();
    assert_eq!(soon("the request", requests.recv()).await.unwrap(), subscribed("n"));
    for i in 0..500 {
        assert!(tokio::time::timeout(Duration::ZERO, receiver.recv()).await.is_err());
        publisher.send(text(format!("n{i}"))).await.unwrap();
        let message = loop {
            tokio::select! {
                biased;
                message = receiver.recv() => break message.unwrap(),
                () = tokio::task::yield_now() => {}
            }
        };
        assert_eq!(message, text(format!("n{i}")));
    }
    subscriber.unsubscribe("n");
    assert_eq!(soon("the request", requests.recv()).await.unwrap(), cancelled("n"));
}
