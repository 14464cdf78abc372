//! What peers cost: memory follows what arrives, not what is announced, and is given back. One test at a time, since
//! all share one process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use tokio::sync::{Mutex, MutexGuard};
use zmtp::{Dealer, Message, Router, RouterEvent};
use zmtp_testkit::{Raw, Target, echo, frame, greeting, header, ready, soon, wire};

const MIB: u64 = 1 << 20;

static ALONE: Mutex<()> = Mutex::const_new(());

async fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().await
}

/// A line of `/proc/self/status` in bytes.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|l| l.strip_prefix(line)).unwrap_or(": 0");
    value.split_ascii_whitespace().nth(1).unwrap_or("0").parse::<u64>().unwrap_or(0) * 1024
}

#[tokio::test]
async fn b03_hostile_lengths_are_refused_and_reserve_nothing() {
    let _alone = alone().await;
    let mut target = Target::with_limits(MIB, 4 * MIB).await;
    let hello = [greeting(), ready("DEALER", b"")].concat();
    let before = memory("VmHWM");
    for size in [u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 44, 1 << 40, MIB + 1] {
        for flags in [0, 1, 4] {
            target.refuses(&[&hello[..], &header(flags, size)].concat()).await;
        }
    }
    // Endless messages: of empty frames, and of frames just under the limit.
    target.refuses(&[&hello[..], &[1, 0].repeat(2_100_000)].concat()).await;
    target.refuses(&[&hello[..], &frame(1, &vec![0; MIB as usize]).repeat(5)].concat()).await;
    let grown = memory("VmHWM") - before;
    assert!(grown < 64 * MIB, "{grown} bytes");
}

/// B03: what is announced and does not come costs nothing.
#[tokio::test]
async fn b03_memory_follows_what_arrives() {
    let _alone = alone().await;
    let mut target = Target::new(Router::builder().build()).await;
    let before = memory("VmRSS");
    let mut raws = Vec::new();
    for _ in 0..200 {
        let mut raw = Raw::shaken(&target.endpoint, "DEALER", b"").await;
        raw.send(&[header(0, 64 * MIB), vec![0; 1000]].concat()).await;
        raws.push(raw);
    }
    echo(&mut target.router, &target.endpoint).await;
    let grown = memory("VmRSS").saturating_sub(before);
    assert!(grown < 64 * MIB, "{grown} bytes for 200 x 1000 that arrived");
    drop(raws);
    target.settle(201).await;
}

#[tokio::test]
async fn frames_of_64_mib_pass_both_ways_and_leave_nothing_behind() {
    let _alone = alone().await;
    let mut target = Target::new(Router::builder().build()).await;
    let mut dealer = Dealer::builder().build();
    dealer.connect(&target.endpoint).unwrap();
    // Just under a power of two: what is left of the read buffer is small, and must not keep all of it.
    let body = Bytes::from(vec![0x5a; (64 * MIB) as usize - 100_000]);
    let before = memory("VmRSS");
    for _ in 0..3 {
        dealer.send(Message::from(body.clone())).await.unwrap();
        let (peer, message) = soon("64 MiB", target.router.recv()).await.unwrap();
        assert_eq!(message.frame(0).map(<[u8]>::len), Some(body.len()));
        target.router.send(&peer, message).await.unwrap();
        assert_eq!(soon("64 MiB back", dealer.recv()).await.unwrap().frame(0), Some(&body[..]));
    }
    echo(&mut target.router, &target.endpoint).await;
    let kept = memory("VmRSS").saturating_sub(before);
    assert!(kept < 48 * MIB, "{kept} bytes kept");
}

#[tokio::test]
async fn five_thousand_messages_of_64_kib() {
    let _alone = alone().await;
    let mut target = Target::new(Router::builder().receive_hwm(50).build()).await;
    let dealer = Dealer::builder().send_hwm(50).build();
    dealer.connect(&target.endpoint).unwrap();
    let before = memory("VmRSS");
    let body = Bytes::from(vec![1; 65536]);
    let sending = async {
        for _ in 0..5000 {
            dealer.send(Message::from(body.clone())).await.unwrap();
        }
    };
    let receiving = async {
        for _ in 0..5000 {
            let (_, message) = soon("a message", target.router.recv()).await.unwrap();
            assert_eq!(message.wire_len(), 65536 + 9);
        }
    };
    tokio::join!(sending, receiving);
    let grown = memory("VmRSS").saturating_sub(before);
    assert!(grown < 64 * MIB, "{grown} bytes");
}

/// A burst that is over leaves no large buffers with its connections.
#[tokio::test]
async fn idle_connections_hold_little() {
    const PEERS: usize = 300;
    const REPLIES: usize = 60;
    let _alone = alone().await;
    let mut target = Target::new(Router::builder().build()).await;
    let before = memory("VmRSS");
    let mut raws = Vec::new();
    for _ in 0..PEERS {
        let mut raw = Raw::shaken(&target.endpoint, "DEALER", b"").await;
        raw.send(&wire(&["x"]).repeat(20_000)).await;
        let mut count = 0;
        while count < 20_000 {
            match soon("messages", target.router.recv_event()).await.unwrap() {
                RouterEvent::Messages { messages, .. } => count += messages.len(),
                RouterEvent::Up { peer, .. } => {
                    for _ in 0..REPLIES {
                        target.router.try_send(&peer, Message::from(vec![1; 7000])).unwrap();
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        for _ in 0..REPLIES {
            raw.read_frame().await;
        }
        raws.push(raw);
    }
    let grown = memory("VmRSS").saturating_sub(before);
    assert!(grown < PEERS as u64 * 150_000, "{} bytes each", grown / PEERS as u64);
}
