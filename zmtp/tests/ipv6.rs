//! IP versions, source addresses, names and the other options of TCP.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zmtp::{
    BindError, ConnectError, Dealer, Endpoint, EndpointError, Ipv6, Keepalive, Message, MonitorEvent, PeerAddress,
    Reason, Reconnect, Resolve, Router,
};
use zmtp_testkit::{any_port, dead_port, echo, soon, until};

fn at(text: &str) -> Endpoint {
    text.parse().unwrap()
}

fn with(ipv6: Ipv6) -> Router {
    Router::builder().ipv6(ipv6).build()
}

/// The endpoint of a wildcard's port at one address.
fn same_port(address: &str, bound: &Endpoint) -> Endpoint {
    at(&format!("tcp://{address}:{}", bound.port()))
}

/// Whether this machine has an IPv6 loopback; said when a test is left out for want of it.
fn has_ipv6() -> bool {
    let has = std::net::TcpListener::bind("[::1]:0").is_ok();
    if !has {
        eprintln!("left out: no IPv6 here");
    }
    has
}

#[tokio::test]
async fn literals_work_as_they_are() {
    if !has_ipv6() {
        return;
    }
    let mut router = with(Ipv6::WhereNamed);
    let bound = router.bind(&at("tcp://[::1]:*")).await.unwrap();
    assert_eq!(bound.host(), "::1");
    echo(&mut router, &bound).await;
    let bound = router.bind(&at("tcp://*:*")).await.unwrap();
    assert_eq!(bound.host(), "0.0.0.0");
    echo(&mut router, &same_port("127.0.0.1", &bound)).await;
}

#[tokio::test]
async fn a_dual_stack_wildcard_takes_both_and_names_ipv4_peers_as_such() {
    if !has_ipv6() {
        return;
    }
    let mut router = with(Ipv6::DualStack);
    let mut monitor = router.monitor();
    let bound = router.bind(&at("tcp://*:*")).await.unwrap();
    assert_eq!(bound.to_string(), format!("tcp://[::]:{}", bound.port()));
    for host in ["127.0.0.1", "[::1]"] {
        echo(&mut router, &same_port(host, &bound)).await;
        let accepted = until(&mut monitor, "the connection", |event| match event {
            MonitorEvent::Accepted { peer, .. } => Some(peer),
            _ => None,
        });
        let PeerAddress::Tcp(peer) = accepted.await else { panic!("not tcp") };
        assert_eq!(peer.ip().to_string(), host.trim_matches(['[', ']']));
    }
}

#[tokio::test]
async fn only_means_only() {
    if !has_ipv6() {
        return;
    }
    let mut router = with(Ipv6::Only);
    let bound = router.bind(&at("tcp://*:*")).await.unwrap();
    echo(&mut router, &same_port("[::1]", &bound)).await;
    // The port is free for IPv4.
    std::net::TcpListener::bind(("0.0.0.0", bound.port())).unwrap();
    let refused = router.bind(&any_port()).await;
    assert!(matches!(refused, Err(BindError::Endpoint(EndpointError::Ipv6Only { .. }))), "{refused:?}");
    let refused = router.connect(&at("tcp://127.0.0.1:1"));
    assert!(matches!(refused, Err(ConnectError::Endpoint(EndpointError::Ipv6Only { .. }))), "{refused:?}");
}

#[tokio::test]
async fn never_means_never() {
    let router = with(Ipv6::Never);
    let refused = router.bind(&at("tcp://[::1]:*")).await;
    assert!(matches!(refused, Err(BindError::Endpoint(EndpointError::Ipv6Never { .. }))), "{refused:?}");
    let refused = router.connect(&at("tcp://[::1]:1"));
    assert!(matches!(refused, Err(ConnectError::Endpoint(EndpointError::Ipv6Never { .. }))), "{refused:?}");
}

/// The peer sees the address and port that the endpoint names before its semicolon.
#[tokio::test]
async fn connections_come_from_the_source_address() {
    let mut router = Router::builder().build();
    let mut monitor = router.monitor();
    let bound = router.bind(&any_port()).await.unwrap();
    let Endpoint::Tcp(tcp) = dead_port() else { panic!("not tcp") };
    for (source, port) in [("127.0.0.1".to_owned(), None), (format!("127.0.0.1:{}", tcp.port()), Some(tcp.port()))] {
        let source = if port.is_none() { format!("{source}:*") } else { source };
        let dealer = Dealer::builder().build();
        dealer.connect(&at(&format!("tcp://{source};127.0.0.1:{}", bound.port()))).unwrap();
        dealer.send(Message::from("here")).await.unwrap();
        soon("the message", router.recv()).await.unwrap();
        let accepted = until(&mut monitor, "the connection", |event| match event {
            MonitorEvent::Accepted { peer, .. } => peer.tcp(),
            _ => None,
        });
        let peer = accepted.await;
        assert_eq!(peer.ip().to_string(), "127.0.0.1");
        assert!(port.is_none_or(|port| peer.port() == port), "{peer}");
    }
    assert!(matches!(
        router.bind(&at("tcp://*:1;127.0.0.1:2")).await,
        Err(BindError::Endpoint(EndpointError::BindSource { .. }))
    ));
}

/// A source of one IP version is no use for a name that resolves to the other.
#[tokio::test]
async fn a_source_of_another_ip_version_is_retried() {
    let resolver = Arc::new(Script::new([Answer::At("[::1]:9".parse().unwrap())]));
    let dealer = Dealer::builder().resolver(resolver).build();
    let mut monitor = dealer.monitor();
    dealer.connect(&at("tcp://127.0.0.1:*;six.example:9")).unwrap();
    let failed = until(&mut monitor, "the failure", |event| match event {
        MonitorEvent::Retrying { reason: Reason::Connect(error), .. } => Some(error.kind()),
        _ => None,
    });
    assert_eq!(failed.await, io::ErrorKind::NotFound);
}

/// What a name resolves to, attempt by attempt; the last answer stays.
#[derive(Debug)]
struct Script(Mutex<VecDeque<Answer>>);

#[derive(Debug, Clone, Copy)]
enum Answer {
    At(SocketAddr),
    Unknown,
    /// Like a name server that does not answer.
    Never,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self(Mutex::new(answers.into_iter().collect()))
    }
}

impl Resolve for Script {
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        _port: u16,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>> {
        assert!(host.ends_with(".example"));
        let mut answers = self.0.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().copied() }.unwrap();
        Box::pin(async move {
            match answer {
                Answer::At(address) => Ok(vec![address]),
                Answer::Unknown => Err(io::Error::new(io::ErrorKind::NotFound, "no such name")),
                Answer::Never => std::future::pending().await,
            }
        })
    }
}

fn address(endpoint: &Endpoint) -> SocketAddr {
    SocketAddr::new(endpoint.host().parse().unwrap(), endpoint.port())
}

/// B13: the bound side restarts at another address behind the same name; names are resolved at each attempt.
#[tokio::test]
async fn b13_a_name_is_resolved_at_each_attempt() {
    let (mut first, mut second) = (Router::builder().build(), Router::builder().build());
    let old = first.bind(&any_port()).await.unwrap();
    let new = second.bind(&any_port()).await.unwrap();
    let answers = [Answer::Unknown, Answer::At(address(&old)), Answer::At(address(&new))];
    let fast = Reconnect { first: Duration::from_millis(1), longest: Duration::from_millis(5) };
    let dealer = Dealer::builder().resolver(Arc::new(Script::new(answers))).reconnect(fast).build();
    let mut monitor = dealer.monitor();
    dealer.connect(&at("tcp://broker.example:7")).unwrap();
    dealer.send(Message::from("1")).await.unwrap();
    soon("the message at the old address", first.recv()).await.unwrap();
    soon("the close", first.close()).await;
    until(&mut monitor, "the loss", |event| matches!(event, MonitorEvent::Disconnected { .. }).then_some(())).await;
    dealer.send(Message::from("2")).await.unwrap();
    let (_, message) = soon("the message at the new address", second.recv()).await.unwrap();
    assert_eq!(message, Message::from("2"));
}

/// A name server that never answers holds up neither the socket's other connections nor, with a time limit, its own.
#[tokio::test]
async fn a_name_that_does_not_resolve_blocks_nothing_else() {
    let mut router = Router::builder().build();
    let bound = router.bind(&any_port()).await.unwrap();
    let answers = [Answer::Never, Answer::Never, Answer::At(address(&bound))];
    let fast = Reconnect { first: Duration::from_millis(1), longest: Duration::from_millis(1) };
    let dealer = Dealer::builder()
        .resolver(Arc::new(Script::new(answers)))
        .connect_timeout(Duration::from_millis(50))
        .reconnect(fast)
        .send_hwm(1)
        .build();
    dealer.connect(&at("tcp://slow.example:7")).unwrap();
    dealer.connect(&bound).unwrap();
    // One waits for the name, the others go the other way.
    for n in 0..10 {
        dealer.send(Message::from(format!("{n}"))).await.unwrap();
    }
    for _ in 0..10 {
        soon("every message, by either way", router.recv()).await.unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn keepalive_and_buffers_are_set_on_both_sides() {
    let seconds = Duration::from_secs;
    let keepalive = Keepalive::new().idle(seconds(77)).unwrap().interval(seconds(7)).unwrap().count(3).unwrap();
    let mut router = Router::builder().keepalive(keepalive).send_buffer(65_536).receive_buffer(65_536).build();
    let bound = router.bind(&any_port()).await.unwrap();
    let mut dealer = Dealer::builder().keepalive(keepalive).send_buffer(65_536).receive_buffer(65_536).build();
    dealer.connect(&bound).unwrap();
    dealer.send(Message::from(vec![7; 1 << 20])).await.unwrap();
    let (peer, message) = soon("the message", router.recv()).await.unwrap();
    router.send(&peer, message).await.unwrap();
    soon("the answer", dealer.recv()).await.unwrap();
    // The kernel's table: in the timer column 02 is a keepalive timer. Until all is acknowledged it is another one.
    let port = format!(":{:04X}", bound.port());
    soon("two keepalive timers", async {
        loop {
            let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
            let established = table.lines().filter(|line| line.contains(&port) && line.contains(" 01 "));
            if established.filter(|line| line.contains(" 02:")).count() == 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
