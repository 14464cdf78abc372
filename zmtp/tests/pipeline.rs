//! PUSH and PULL over real loopback sockets: sections 8 and 9 of the ZMTP digest, and the pitfalls that concern them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_core::Stream;
use futures_sink::Sink;
use zmtp::{Dealer, Endpoint, Message, MonitorEvent, Pull, Push, SendFailure};
use zmtp_testkit::{Raw, any_port, command, dead_port, frame, soon, until, wire};

async fn bound_pull() -> (Pull, Endpoint) {
    let pull = Pull::builder().build();
    let endpoint = pull.bind(&any_port()).await.unwrap();
    (pull, endpoint)
}

async fn next(pull: &mut Pull) -> String {
    let message = soon("a message", pull.recv()).await.unwrap();
    String::from_utf8(message.frame(0).unwrap().to_vec()).unwrap()
}

fn text(text: impl Into<String>) -> Message {
    Message::from(text.into())
}

/// Waits until so many handshakes are complete.
async fn handshakes(monitor: &mut zmtp::Monitor, count: usize) {
    for _ in 0..count {
        until(monitor, "a handshake", |event| matches!(event, MonitorEvent::HandshakeSucceeded { .. }).then_some(()))
            .await;
    }
}

#[tokio::test]
async fn push_deals_in_turn_whoever_binds() {
    let push = Push::builder().build();
    let mut pulls = Vec::new();
    for _ in 0..3 {
        let (pull, endpoint) = bound_pull().await;
        push.connect(&endpoint).unwrap();
        pulls.push(pull);
    }
    for i in 0..6 {
        push.send(text(i.to_string())).await.unwrap();
    }
    for (p, pull) in pulls.iter_mut().enumerate() {
        assert_eq!([next(pull).await, next(pull).await], [p.to_string(), (p + 3).to_string()]);
    }

    let push = Push::builder().build();
    let mut monitor = push.monitor();
    let endpoint = push.bind(&any_port()).await.unwrap();
    let mut pulls = [Pull::builder().build(), Pull::builder().build()];
    pulls.iter().for_each(|pull| pull.connect(&endpoint).unwrap());
    handshakes(&mut monitor, 2).await;
    for _ in 0..2 {
        push.send(Message::from_frames(["a", "", "b"])).await.unwrap();
    }
    for pull in &mut pulls {
        assert_eq!(soon("its share", pull.recv()).await.unwrap(), Message::from_frames(["a", "", "b"]));
    }
}

#[tokio::test]
async fn pull_hears_its_peers_in_turn() {
    let (mut pull, endpoint) = bound_pull().await;
    // One peer has flooded; the others' few messages do not wait behind all of it.
    for (name, count) in [("flood", 500), ("few", 1), ("few", 1)] {
        let mut raw = Raw::shaken(&endpoint, "PUSH", b"").await;
        raw.send(&frame(0, name.as_bytes()).repeat(count)).await;
        raw.send(&command("PING", b"\0\0")).await;
        assert_eq!(raw.read_frame().await.1, b"\x04PONG");
    }
    let mut heard = Vec::new();
    while heard.len() < 6 {
        heard.push(next(&mut pull).await);
    }
    assert_eq!(heard, ["flood", "few", "few", "flood", "flood", "flood"]);
}

/// Section 9: what a full or missing peer means to a PUSH.
#[tokio::test]
async fn section_9_a_push_blocks_at_its_high_water_mark() {
    let push = Push::builder().send_hwm(10).build();
    assert_eq!(push.try_send(text("nobody")).unwrap_err().reason, SendFailure::Full);
    push.connect(&dead_port()).unwrap();
    for i in 0..10 {
        push.try_send(text(i.to_string())).unwrap();
    }
    let refused = push.try_send(Message::from_frames(["whole", "or", "not"])).unwrap_err();
    assert_eq!(refused.reason, SendFailure::Full);
    assert_eq!(refused.message, Message::from_frames(["whole", "or", "not"]));

    let immediate = Push::builder().immediate(true).build();
    immediate.connect(&dead_port()).unwrap();
    assert_eq!(immediate.try_send(text("nobody")).unwrap_err().reason, SendFailure::Full);
}

/// What is queued for an endpoint waits for it, unless IMMEDIATE is set.
#[tokio::test]
async fn messages_wait_for_an_endpoint_that_comes_later() {
    let endpoint = dead_port();
    let push = Push::builder().build();
    push.connect(&endpoint).unwrap();
    push.send(text("early")).await.unwrap();
    let mut pull = Pull::builder().build();
    pull.bind(&endpoint).await.unwrap();
    assert_eq!(next(&mut pull).await, "early");

    let immediate = Push::builder().immediate(true).build();
    immediate.connect(&endpoint).unwrap();
    soon("the handshake", immediate.send(text("connected"))).await.unwrap();
    assert_eq!(next(&mut pull).await, "connected");
    let mut monitor = immediate.monitor();
    soon("close", pull.close()).await;
    until(&mut monitor, "the loss", |event| matches!(event, MonitorEvent::Disconnected { .. }).then_some(())).await;
    assert_eq!(immediate.try_send(text("gone")).unwrap_err().reason, SendFailure::Full);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Pitfall 32: with all pipes full a send sleeps until there is room.
#[tokio::test]
async fn pitfall_32_no_busy_loop_when_all_pipes_are_full() {
    let endpoint = dead_port();
    let push = Push::builder().send_hwm(1).build();
    push.connect(&endpoint).unwrap();
    push.connect(&dead_port()).unwrap();
    push.try_send(text("0")).unwrap();
    push.try_send(text("1")).unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    {
        let mut sending = pin!(push.send(text("2")));
        assert!(sending.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
        // Room wakes it.
        let mut pull = Pull::builder().build();
        pull.bind(&endpoint).await.unwrap();
        soon("room", sending).await.unwrap();
        let (a, b) = (next(&mut pull).await, next(&mut pull).await);
        assert_eq!((a.as_str(), b.as_str()), ("0", "2"));
    }
}

/// Pitfall 26, for a PUSH: whoever waits for a peer that leaves goes on with another.
#[tokio::test]
async fn pitfall_26_a_blocked_push_goes_on_with_the_next_peer() {
    let push = Push::builder().send_hwm(1).build();
    let mut monitor = push.monitor();
    let endpoint = push.bind(&any_port()).await.unwrap();
    let stuck = Raw::shaken(&endpoint, "PULL", b"").await;
    handshakes(&mut monitor, 1).await;
    // Until its queue and the kernel's buffers are full.
    let body = vec![7; 1 << 20];
    while tokio::time::timeout(Duration::from_millis(200), push.send(Message::single(&body))).await.is_ok() {}
    let sending = tokio::spawn({
        let push = push.clone();
        async move { push.send(text("next")).await }
    });
    let mut pull = Pull::builder().build();
    pull.connect(&endpoint).unwrap();
    soon("the send", sending).await.unwrap().unwrap();
    assert_eq!(next(&mut pull).await, "next");
    drop(stuck);
}

/// Section 8: what comes to a send-only socket is read and discarded, and PING answered all the while.
#[tokio::test]
async fn data_towards_a_push_is_discarded() {
    let push = Push::builder().receive_hwm(10).build();
    let endpoint = push.bind(&any_port()).await.unwrap();
    let mut raw = Raw::shaken(&endpoint, "PULL", b"").await;
    for _ in 0..100 {
        raw.send(&wire(&["data", "nobody wants"]).repeat(1000)).await;
    }
    raw.send(&command("PING", b"\0\0there?")).await;
    assert_eq!(raw.read_frame().await, (4, b"\x04PONGthere?".to_vec()));
    soon("a handshake done", push.send(text("task"))).await.unwrap();
    assert_eq!(raw.read_frame().await, (0, b"task".to_vec()));
}

#[tokio::test]
async fn conflate_keeps_the_newest_on_both_sides() {
    let endpoint = dead_port();
    let push = Push::builder().conflate(true).build();
    push.connect(&endpoint).unwrap();
    for i in 0..100 {
        push.try_send(Message::from_frames([i.to_string(), "whole".to_owned()])).unwrap();
    }
    let mut pull = Pull::builder().build();
    pull.bind(&endpoint).await.unwrap();
    assert_eq!(soon("the newest", pull.recv()).await.unwrap(), Message::from_frames(["99", "whole"]));
    push.send(text("last")).await.unwrap();
    assert_eq!(next(&mut pull).await, "last");

    let mut pull = Pull::builder().conflate(true).build();
    let endpoint = pull.bind(&any_port()).await.unwrap();
    let mut raw = Raw::shaken(&endpoint, "PUSH", b"").await;
    let flood: Vec<u8> = (0..5000).flat_map(|i: u32| frame(0, i.to_string().as_bytes())).collect();
    raw.send(&flood).await;
    raw.send(&command("PING", b"\0\0")).await;
    assert_eq!(raw.read_frame().await.1, b"\x04PONG");
    assert_eq!(next(&mut pull).await, "4999");
    assert!(pull.try_recv().is_none());
}

/// B10: half a message never surfaces, and a PING between two frames changes nothing.
#[tokio::test]
async fn pitfall_25_b10_only_whole_messages() {
    let (mut pull, endpoint) = bound_pull().await;
    let mut raw = Raw::shaken(&endpoint, "PUSH", b"").await;
    raw.send(&[frame(1, b"first"), command("PING", b"\0\0"), frame(0, b"second")].concat()).await;
    raw.send(&frame(1, b"half")).await;
    assert_eq!(raw.read_frame().await.1, b"\x04PONG");
    drop(raw);
    assert_eq!(soon("the whole one", pull.recv()).await.unwrap(), Message::from_frames(["first", "second"]));
    let push = Push::builder().build();
    push.connect(&endpoint).unwrap();
    push.send(text("after")).await.unwrap();
    assert_eq!(next(&mut pull).await, "after");
}

/// Pitfalls 8 and B14: a `recv` that is dropped while it waits loses nothing.
#[tokio::test]
async fn pitfall_08_b14_recv_may_be_dropped_at_any_await() {
    let (mut pull, endpoint) = bound_pull().await;
    const COUNT: u32 = 20_000;
    let sending = tokio::spawn(async move {
        let push = Push::builder().build();
        push.connect(&endpoint).unwrap();
        for i in 0..COUNT {
            push.send(Message::single(i.to_be_bytes())).await.unwrap();
            if i % 97 == 0 {
                tokio::task::yield_now().await;
            }
        }
        push.close().await;
    });
    let mut expected = 0u32;
    let all = async {
        while expected < COUNT {
            // The other branch wins whenever nothing is there at once.
            tokio::select! {
                biased;
                message = pull.recv() => {
                    assert_eq!(message.unwrap().frame(0).unwrap(), expected.to_be_bytes());
                    expected += 1;
                }
                () = tokio::task::yield_now() => {}
            }
        }
    };
    soon("all messages", all).await;
    soon("the sender", sending).await.unwrap();
}

/// Pitfall 31: a SUBSCRIBE to who does not publish is dropped, not handed to the application.
#[tokio::test]
async fn pitfall_31_subscribe_to_a_non_publisher_is_dropped() {
    let (mut pull, endpoint) = bound_pull().await;
    let mut dealer = Dealer::builder().build();
    let other = dealer.bind(&any_port()).await.unwrap();
    let bytes = [command("SUBSCRIBE", b"A"), command("CANCEL", b"A"), frame(0, b"data")].concat();
    let mut raws = [Raw::shaken(&endpoint, "PUSH", b"").await, Raw::shaken(&other, "DEALER", b"").await];
    for raw in &mut raws {
        raw.send(&bytes).await;
    }
    assert_eq!(next(&mut pull).await, "data");
    assert_eq!(soon("data", dealer.recv()).await.unwrap(), text("data"));
}

/// Pitfall 27: what a short-lived sender has queued arrives.
#[tokio::test]
async fn pitfall_27_close_sends_what_is_queued() {
    let (mut pull, endpoint) = bound_pull().await;
    for round in 0..20 {
        let push = Push::builder().build();
        push.connect(&endpoint).unwrap();
        push.send(text(format!("{round}"))).await.unwrap();
        push.send(Message::single(vec![b'x'; 1 << 20])).await.unwrap();
        soon("close", push.close()).await;
        assert_eq!(next(&mut pull).await, round.to_string());
        assert_eq!(next(&mut pull).await.len(), 1 << 20);
    }
}

#[tokio::test]
async fn a_stream_and_a_sink() {
    let (mut pull, endpoint) = bound_pull().await;
    let mut push = Push::builder().send_hwm(2).build();
    push.connect(&endpoint).unwrap();
    let sending = tokio::spawn(async move {
        for i in 0..100 {
            poll_fn(|cx| Pin::new(&mut push).poll_ready(cx)).await.unwrap();
            Pin::new(&mut push).start_send(text(i.to_string())).unwrap();
        }
        poll_fn(|cx| Pin::new(&mut push).poll_close(cx)).await.unwrap();
        push.close().await;
    });
    for i in 0..100 {
        let item = soon("an item", poll_fn(|cx| Pin::new(&mut pull).poll_next(cx))).await;
        assert_eq!(item, Some(text(i.to_string())));
    }
    soon("the sink", sending).await.unwrap();
}

#[tokio::test]
async fn a_closed_socket_says_so() {
    let push = Push::builder().build();
    let other = push.clone();
    soon("close", push.close()).await;
    assert_eq!(other.try_send(text("late")).unwrap_err().reason, SendFailure::Closed);
    assert_eq!(soon("an error", other.send(text("late"))).await.unwrap_err().reason, SendFailure::Closed);
    let mut sink = other;
    Pin::new(&mut sink).start_send(text("late")).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(Pin::new(&mut sink).poll_flush(&mut cx), Poll::Ready(Err(_))));
}
