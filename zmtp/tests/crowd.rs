//! What 5,000 idle connections on one ROUTER cost. The other ends are bare TCP sockets, whose memory is the kernel's, so
//! what this process grows by is ours.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use zmtp::{Endpoint, Message, Router, RouterEvent, RoutingId};
use zmtp_testkit::{any_port, frame, greeting, ready, soon};

const PEERS: usize = 5_000;
/// Most memory for a connection at rest, in bytes.
const MOST: u64 = 8 * 1024;
/// Descriptors for both ends, and for everything else.
const DESCRIPTORS: u64 = 2 * PEERS as u64 + 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_idle_connections_hold_less_than_8_kib_each() {
    let allowed = rlimit::increase_nofile_limit(DESCRIPTORS).unwrap();
    assert!(allowed >= DESCRIPTORS, "{allowed} open files are allowed, and the test needs {DESCRIPTORS}");
    let mut router = Router::builder().backlog(PEERS as u32).build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    // What the first connections bring with them once and for all does not count.
    drop(crowd(&mut router, &endpoint, 50).await);
    for _ in 0..50 {
        assert!(matches!(soon("Down", router.recv_event()).await, Ok(RouterEvent::Down { .. })));
    }

    let before = memory("VmRSS:");
    let mut peers = crowd(&mut router, &endpoint, PEERS).await;
    told("after their handshake", before);

    // They have worked, and are idle again.
    for (peer, stream) in &mut peers {
        stream.write_all(&frame(0, &[b'x'; 100])).unwrap();
        let (from, message) = soon("a message", router.recv()).await.unwrap();
        assert_eq!(from, *peer);
        router.send(peer, message).await.unwrap();
        let mut answer = [0; 102];
        tokio::task::block_in_place(|| stream.read_exact(&mut answer)).unwrap();
    }
    told("after a message each way", before);

    // They are all there.
    for (peer, stream) in &mut peers {
        router.send(peer, Message::from("still there?")).await.unwrap();
        let mut message = [0; 14];
        tokio::task::block_in_place(|| stream.read_exact(&mut message)).unwrap();
        assert_eq!(&message[2..], b"still there?");
    }
    println!("at the highest: {} KiB in all", (memory("VmHWM:") - before) / 1024);
}

/// Prints what each connection holds, and fails if that is too much.
#[allow(clippy::explicit_write, reason = "the harness keeps what passing tests print with eprintln!")]
fn told(when: &str, before: u64) {
    let each = memory("VmRSS:").saturating_sub(before) / PEERS as u64;
    writeln!(std::io::stderr(), "{PEERS} idle connections {when}: {each} bytes each").unwrap();
    assert!(each < MOST, "{each} bytes each {when}");
}

/// So many peers that have completed their handshake, and of whom the application has heard.
async fn crowd(router: &mut Router, endpoint: &Endpoint, count: usize) -> HashMap<RoutingId, TcpStream> {
    let address = SocketAddr::from(([127, 0, 0, 1], endpoint.port()));
    let mut peers = HashMap::with_capacity(count);
    for number in 0..count {
        let name = format!("peer-{number}");
        let stream = tokio::task::block_in_place(|| shaken(address, &name)).unwrap();
        let event = soon("Up", router.recv_event()).await.unwrap();
        assert!(matches!(&event, RouterEvent::Up { peer, .. } if peer.as_bytes() == name.as_bytes()), "{event:?}");
        peers.insert(RoutingId::new(name).unwrap(), stream);
    }
    peers
}

/// A DEALER made of nothing but its bytes.
fn shaken(address: SocketAddr, name: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(&[greeting(), ready("DEALER", name.as_bytes())].concat())?;
    let mut answer = vec![0; 64 + ready("ROUTER", b"").len()];
    stream.read_exact(&mut answer)?;
    Ok(stream)
}

/// A line of `/proc/self/status` in bytes.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let value = status.lines().find_map(|l| l.strip_prefix(line)).unwrap();
    value.split_ascii_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}
