//! Hostile and broken peers against a ROUTER, over raw TCP: each is closed, a healthy peer is served all the while, and
//! afterwards everything is where it was.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zmtp::connection::ConnectionError;
use zmtp::{Dealer, Handover, Message, MonitorEvent, Reason, Router, RouterEvent};
use zmtp_testkit::{Raw, Target, any_port, command, echo, frame, greeting, hex, id, property, ready, soon, wire};

const MIB: u64 = 1 << 20;

/// Counts lines of WARN and ERROR.
#[derive(Clone, Default)]
struct Lines(Arc<AtomicUsize>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn pitfall_06_b02_lying_ready_commands_cost_their_sender_the_connection() {
    let mut target = Target::with_limits(MIB, MIB).await;
    let kind = property("Socket-Type", b"DEALER");
    for list in [
        [&kind[..], b"\xffabc"].concat(),
        [&kind[..], b"\x01a\x00\x00\x00\xc8abc"].concat(),
        [&kind[..], b"\x01a\xff\xff\xff\xffabc"].concat(),
        [&kind[..], b"\x00"].concat(),
        property("a", b"b").repeat(10_000),
        property("Identity", &[1; 256]),
        property("Identity", b"\x00"),
        property("Socket-Type", b"PUB"),
    ] {
        target.refuses(&[greeting(), command("READY", &list)].concat()).await;
    }
    target.refuses(&[greeting(), hex("0400")].concat()).await;
    target.refuses(&[greeting(), hex("0403 ff 4142")].concat()).await;
    let protocol = target.failures.iter().filter(|reason| matches!(reason, Reason::Protocol(_))).count();
    assert_eq!(protocol, 10, "{:?}", target.failures);
}

#[tokio::test]
async fn b05_strangers_are_closed_and_logged_once_per_kind() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let mut target = Target::new(Router::builder().build()).await;
    let hello = hex("16030100c8010000c40303").into_iter().chain([0x5a; 200]).collect::<Vec<_>>();
    for _ in 0..5 {
        target.refuses(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").await;
        target.refuses(&[0; 64]).await;
        target.refuses(&hello).await;
        target.refuses(b"\x7fELF random bytes that go on for a while, well past sixty-four of them").await;
    }
    assert_eq!(lines.0.load(Ordering::Relaxed), 1, "one kind: not ZMTP");
    assert!(target.failures.iter().all(|reason| !matches!(reason, Reason::Failed)));
}

#[tokio::test]
async fn b05_thousands_of_connections_that_close_at_once() {
    let mut target = Target::new(Router::builder().build()).await;
    for _ in 0..50 {
        let flood: Vec<_> = (0..100).map(|_| Raw::connect(&target.endpoint)).collect();
        for raw in flood {
            drop(raw.await);
        }
        target.settle(100).await;
    }
    echo(&mut target.router, &target.endpoint).await;
    target.settle(1).await;
}

/// B05: a crowd that never finishes its handshake pushes its own oldest out, not the real peers.
#[tokio::test]
async fn pitfall_21_b05_pending_handshakes_are_bounded_and_real_peers_get_in() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let mut target = Target::new(Router::builder().max_handshakes(10).build()).await;
    let established = Raw::shaken(&target.endpoint, "DEALER", b"old friend").await;
    let mut crowd = Vec::new();
    for _ in 0..100 {
        let mut raw = Raw::connect(&target.endpoint).await;
        raw.send(&greeting()[..10]).await;
        crowd.push(raw);
        if crowd.len() % 10 == 0 {
            echo(&mut target.router, &target.endpoint).await;
        }
    }
    for raw in &mut crowd[..85] {
        raw.closed().await;
    }
    assert_eq!(lines.0.load(Ordering::Relaxed), 1);
    drop((crowd, established));
    target.settle(111).await;
    let crowded = target.failures.iter().filter(|reason| matches!(reason, Reason::Crowded)).count();
    assert!(crowded >= 85, "{crowded}");
}

#[tokio::test]
async fn b05_slow_handshakes_time_out() {
    let limit = Duration::from_millis(100);
    let mut target = Target::new(Router::builder().handshake_timeout(limit).build()).await;
    let mut slow = Vec::new();
    for bytes in [&[][..], &[0xff], &greeting()[..63], &greeting(), &[greeting(), vec![4, 40, 5]].concat()] {
        let mut raw = Raw::connect(&target.endpoint).await;
        raw.send(bytes).await;
        slow.push(raw);
    }
    let mut steady = Raw::shaken(&target.endpoint, "DEALER", b"steady").await;
    for raw in &mut slow {
        raw.closed().await;
    }
    steady.send(&frame(0, b"still here")).await;
    assert_eq!(soon("the steady one", target.router.recv()).await.unwrap().0, id("steady"));
    drop(steady);
    target.settle(6).await;
    let timeouts = target.failures.iter();
    let timeouts = timeouts.filter(|reason| matches!(reason, Reason::Protocol(ConnectionError::HandshakeTimeout)));
    assert_eq!(timeouts.count(), 5);
}

#[tokio::test]
async fn past_max_connections_the_newest_is_closed() {
    let mut target = Target::new(Router::builder().max_connections(5).build()).await;
    // All at once: the limit holds also when many are accepted before the first is served.
    let mut raws = Vec::new();
    for _ in 0..20 {
        let std = std::net::TcpStream::connect(("127.0.0.1", target.endpoint.port())).unwrap();
        std.set_nonblocking(true).unwrap();
        raws.push(Raw(tokio::net::TcpStream::from_std(std).unwrap()));
    }
    for raw in &mut raws[5..] {
        raw.closed().await;
    }
    for (i, raw) in raws[..5].iter_mut().enumerate() {
        raw.shake("DEALER", format!("{i}").as_bytes()).await;
        raw.send(&frame(0, b"x")).await;
    }
    for _ in 0..5 {
        soon("a served peer", target.router.recv()).await.unwrap();
    }
    drop(raws);
    target.settle(20).await;
    echo(&mut target.router, &target.endpoint).await;
}

#[tokio::test]
async fn b06_old_and_odd_greetings() {
    let mut target = Target::new(Router::builder().build()).await;
    // ZMTP 1.0, refused cleanly; 2.0 has tests of its own.
    target.refuses(&hex("ff0000000000000005 00 02 4944")).await;
    target.refuses(&hex("ff0000000000000001 7f 00 05 0002 4944")).await;
    target.refuses(&hex("0105 00 68656c6c6f")).await;
    // Minor 0, padding of libzmq, byte by byte; major 4; two messages over 8 KiB at once.
    for (at, value) in [(8, 9), (11, 0), (10, 4), (11, 9)] {
        let mut odd = greeting();
        odd[at] = value;
        let mut raw = Raw::connect(&target.endpoint).await;
        for byte in &odd {
            raw.send(&[*byte]).await;
        }
        raw.send(&[ready("DEALER", b"odd"), wire(&[vec![1; 9000]]), wire(&[vec![2; 9000]])].concat()).await;
        for value in 1..=2 {
            let (peer, message) = soon("a message", target.router.recv()).await.unwrap();
            assert_eq!((peer, message), (id("odd"), Message::from(vec![value; 9000])));
        }
        drop(raw);
        target.settle(1).await;
    }
}

/// B01 as receiver: all in one write.
#[tokio::test]
async fn b01_a_message_in_one_write_with_the_handshake_is_delivered() {
    let mut target = Target::new(Router::builder().build()).await;
    let mut raw = Raw::connect(&target.endpoint).await;
    raw.send(&[greeting(), ready("DEALER", b"eager"), wire(&["", "job"])].concat()).await;
    let (peer, message) = soon("the job", target.router.recv()).await.unwrap();
    assert_eq!((peer, message), (id("eager"), Message::from_frames(["", "job"])));
}

#[tokio::test]
async fn subscriptions_and_unknown_commands_are_no_messages() {
    let mut target = Target::new(Router::builder().build()).await;
    let mut raw = Raw::shaken(&target.endpoint, "DEALER", b"w").await;
    let noise = [command("SUBSCRIBE", b"a"), command("CANCEL", b"a"), command("NEWS", b"")].concat();
    raw.send(&[noise.repeat(5000), wire(&["real"])].concat()).await;
    assert_eq!(soon("the message", target.router.recv()).await.unwrap().1, Message::from("real"));
}

/// Connections that come, talk and go while the application looks elsewhere cannot fill the memory.
#[tokio::test]
async fn a_dealer_that_only_sends_keeps_nothing_of_its_visitors() {
    let dealer = Dealer::builder().build();
    let endpoint = dealer.bind(&any_port()).await.unwrap();
    let mut events = dealer.monitor();
    for _ in 0..300 {
        drop(Raw::shaken(&endpoint, "ROUTER", &[b'i'; 200]).await);
    }
    let mut gone = 0;
    while gone < 300 {
        let event = soon("the end of a visit", events.recv()).await;
        gone += usize::from(matches!(event, Some(MonitorEvent::Disconnected { .. })));
    }
    assert!(soon("room", async { dealer.try_send(Message::from("x")) }).await.is_err());
}

/// Up, messages and Down of one routing id alternate, however its holders change: on two threads, with and without
/// handover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b07_the_story_of_a_contested_routing_id_is_consistent() {
    for handover in [Handover::Refuse, Handover::Replace] {
        let mut target = Target::new(Router::builder().handover(handover).build()).await;
        let visitors: Vec<_> = (0..8u32)
            .map(|visitor| {
                let endpoint = target.endpoint.clone();
                tokio::spawn(async move {
                    for visit in 0..100 {
                        let mut raw = Raw::connect(&endpoint).await;
                        let text = format!("{} {visitor}", visitor * 1000 + visit);
                        raw.send(&[greeting(), ready("DEALER", b"w"), wire(&[text])].concat()).await;
                        if visit % 3 == 0 {
                            raw.read(64).await;
                        }
                    }
                })
            })
            .collect();
        let (mut up, mut stories, mut ended) = (false, 0, 0);
        let mut speaker: Option<u32> = None;
        while ended < 800 || up {
            tokio::select! {
                biased;
                event = target.router.recv_event() => match event.unwrap() {
                    RouterEvent::Up { .. } => {
                        assert!(!up || handover == Handover::Replace, "two at a time");
                        (up, speaker) = (true, None);
                        stories += 1;
                    }
                    RouterEvent::Messages { messages, .. } => {
                        assert!(up, "a message of nobody");
                        for message in &messages {
                            let text = std::str::from_utf8(message.frame(0).unwrap()).unwrap();
                            let visit: u32 = text.split(' ').next().unwrap().parse().unwrap();
                            assert!(speaker.is_none_or(|before| before == visit), "two voices between two Ups");
                            speaker = Some(visit);
                        }
                    }
                    RouterEvent::Down { .. } => {
                        assert!(up, "Down of nobody");
                        up = false;
                    }
                    other => panic!("{other:?}"),
                },
                event = target.monitor.recv() => match event.unwrap() {
                    MonitorEvent::HandshakeFailed { .. } | MonitorEvent::Disconnected { .. } => ended += 1,
                    _ => {}
                },
                () = tokio::time::sleep(std::time::Duration::from_secs(20)) => panic!("{ended} ended, {up}"),
            }
        }
        assert!(stories > 0);
        for visitor in visitors {
            soon("the visitors", visitor).await.unwrap();
        }
    }
}
