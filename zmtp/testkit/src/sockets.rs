//! Sockets to test, what they exchange, and waits that fail instead of hanging.

use std::future::Future;
use std::time::Duration;

use zmtp::{Dealer, Endpoint, Limits, Message, Monitor, MonitorEvent, Reason, Router, RoutingId};

use crate::Raw;

/// The result, or a failed test after a time that no machine needs.
pub async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(Duration::from_secs(20), future).await {
        Ok(output) => output,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

/// A loopback endpoint whose port the system chooses.
pub fn any_port() -> Endpoint {
    "tcp://127.0.0.1:0".parse().unwrap()
}

/// Messages of the sizes and shapes where encodings change.
pub fn shapes() -> Vec<Message> {
    let long = |len: usize| -> Vec<u8> { (0..=u8::MAX).cycle().take(len).collect() };
    vec![
        Message::from("hello"),
        Message::from(""),
        Message::from(long(300)),
        Message::from(long(1 << 20)),
        Message::from_frames(["", "one", "", "two", ""]),
        Message::from_frames([long(1 << 20), vec![], long(8192), long(222), long(223), b"end".to_vec()]),
        Message::from_frames([b"".to_vec(), long(300_000)]),
        Message::from_frames((0..300).map(|number| number.to_string())),
    ]
}

/// An endpoint where nobody listens.
pub fn dead_port() -> Endpoint {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    Endpoint::from(listener.local_addr().unwrap())
}

/// The routing id of that name.
pub fn id(name: &str) -> RoutingId {
    RoutingId::new(name).unwrap()
}

/// A DEALER with that routing id.
pub fn named_dealer(name: &str) -> Dealer {
    Dealer::builder().routing_id(id(name)).build()
}

/// The first event that `pick` takes.
pub async fn until<T>(monitor: &mut Monitor, what: &str, mut pick: impl FnMut(MonitorEvent) -> Option<T>) -> T {
    soon(what, async {
        loop {
            let event = monitor.recv().await.expect("the socket is gone");
            if let Some(found) = pick(event) {
                return found;
            }
        }
    })
    .await
}

/// One round trip of a fresh, healthy peer.
pub async fn echo(router: &mut Router, endpoint: &Endpoint) {
    let mut dealer = Dealer::builder().build();
    dealer.connect(endpoint).unwrap();
    dealer.send(Message::from("are you there?")).await.unwrap();
    let (peer, message) = soon("a healthy peer's message", router.recv()).await.unwrap();
    router.send(&peer, message).await.unwrap();
    let answer = soon("the answer to a healthy peer", dealer.recv()).await.unwrap();
    assert_eq!(answer, Message::from("are you there?"));
    soon("a healthy peer's close", dealer.close()).await;
}

/// A ROUTER with a monitor that counts links.
pub struct Target {
    /// The ROUTER.
    pub router: Router,
    /// Where it is bound.
    pub endpoint: Endpoint,
    /// Its events.
    pub monitor: Monitor,
    links: usize,
    /// Why connections ended, in order.
    pub failures: Vec<Reason>,
}

impl Target {
    /// Binds a ROUTER on loopback.
    pub async fn new(router: Router) -> Self {
        let monitor = router.monitor();
        let endpoint = router.bind(&any_port()).await.unwrap();
        Self { router, endpoint, monitor, links: 0, failures: Vec::new() }
    }

    /// A ROUTER with these limits, in bytes.
    pub async fn with_limits(frame: u64, message: u64) -> Self {
        Self::new(Router::builder().limits(Limits { frame, message }).build()).await
    }

    /// Takes a bad peer's bytes; the connection must be closed.
    pub async fn refuses(&mut self, bytes: &[u8]) {
        let mut raw = Raw::connect(&self.endpoint).await;
        raw.send(bytes).await;
        raw.closed().await;
        // Until all is quiet, and with a healthy peer after it.
        self.settle(1).await;
        echo(&mut self.router, &self.endpoint).await;
        self.settle(1).await;
    }

    /// Reads events until `opened` more connections came and all are gone again.
    pub async fn settle(&mut self, opened: usize) {
        let mut accepted = 0;
        soon("all connections' end", async {
            while accepted < opened || self.links > 0 {
                match self.monitor.recv().await.expect("the socket is gone") {
                    MonitorEvent::Accepted { .. } => {
                        accepted += 1;
                        self.links += 1;
                    }
                    MonitorEvent::HandshakeFailed { reason, .. } | MonitorEvent::Disconnected { reason, .. } => {
                        self.failures.push(reason);
                        self.links -= 1;
                    }
                    _ => {}
                }
            }
        })
        .await;
    }
}
