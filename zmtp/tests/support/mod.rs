//! What the tests share: bytes as peers write them, connections fed by hand, raw TCP peers, deadlines that fail
//! instead of hanging.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use zmtp::connection::{Connection, ConnectionConfig, ConnectionError, Event};
use zmtp::{Dealer, Endpoint, Limits, Message, Monitor, MonitorEvent, Reason, Router, RoutingId, SocketType};

/// Bytes from hexadecimal digits; everything else is for the eye.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The greeting of a NULL peer as libzmq 4.3.5 writes it.
pub fn greeting() -> Vec<u8> {
    let mut bytes = hex("ff0000000000000001 7f 03 01 4e554c4c");
    bytes.resize(64, 0);
    bytes
}

pub fn property(name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![name.len() as u8];
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(&(value.len() as u32).to_be_bytes());
    bytes.extend_from_slice(value);
    bytes
}

/// A frame in its shortest form.
pub fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = match u8::try_from(body.len()) {
        Ok(len) => vec![flags, len],
        Err(_) => return long_frame(flags, body),
    };
    bytes.extend_from_slice(body);
    bytes
}

/// A frame with an eight-byte size, whatever its length.
pub fn long_frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = header(flags, body.len() as u64);
    bytes.extend_from_slice(body);
    bytes
}

/// The header of a long frame that announces `size`.
pub fn header(flags: u8, size: u64) -> Vec<u8> {
    let mut bytes = vec![flags | 2];
    bytes.extend_from_slice(&size.to_be_bytes());
    bytes
}

pub fn command(name: &str, data: &[u8]) -> Vec<u8> {
    let mut body = vec![name.len() as u8];
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(data);
    frame(4, &body)
}

/// A READY as libzmq writes it.
pub fn ready(socket_type: &str, identity: &[u8]) -> Vec<u8> {
    command("READY", &[property("Socket-Type", socket_type.as_bytes()), property("Identity", identity)].concat())
}

/// A message's frames on the wire.
pub fn wire<B: AsRef<[u8]>>(bodies: &[B]) -> Vec<u8> {
    let last = bodies.len() - 1;
    bodies.iter().enumerate().flat_map(|(i, body)| frame(u8::from(i < last), body.as_ref())).collect()
}

pub fn config(socket_type: SocketType) -> ConnectionConfig {
    ConnectionConfig::new(socket_type)
}

/// One connection fed by hand.
pub struct Hand {
    pub connection: Connection,
    pub input: BytesMut,
}

impl Hand {
    pub fn new(config: ConnectionConfig, now: Instant) -> Self {
        Self { connection: Connection::new(Arc::new(config), now), input: BytesMut::new() }
    }

    /// A connection whose handshake with a peer of that type is complete and whose output so far was taken.
    pub fn open(config: ConnectionConfig, peer: &str, now: Instant) -> Self {
        let mut hand = Self::new(config, now);
        let events = hand.feed(&[greeting(), ready(peer, b"")].concat(), now).unwrap();
        assert!(matches!(events[..], [Event::Ready(_)]));
        hand.take();
        hand
    }

    /// Appends bytes and decodes all there is.
    pub fn feed(&mut self, bytes: &[u8], now: Instant) -> Result<Vec<Event>, ConnectionError> {
        self.input.extend_from_slice(bytes);
        let mut events = Vec::new();
        self.connection.receive(&mut self.input, usize::MAX, now, &mut events).map(|()| events)
    }

    /// What it wants to write, as if written.
    pub fn take(&mut self) -> Vec<u8> {
        let transmit = self.connection.transmit();
        let bytes = transmit.copy_to_bytes(transmit.remaining()).to_vec();
        self.connection.on_flushed();
        bytes
    }
}

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

pub fn id(name: &str) -> RoutingId {
    RoutingId::new(name).unwrap()
}

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

/// A peer with hand-made bytes, over TCP as a rule.
pub struct Raw<S = TcpStream>(pub S);

#[cfg(unix)]
impl Raw<tokio::net::UnixStream> {
    pub async fn ipc(path: &std::path::Path) -> Self {
        Self(tokio::net::UnixStream::connect(path).await.unwrap())
    }
}

impl Raw {
    pub async fn connect(endpoint: &Endpoint) -> Self {
        let stream = TcpStream::connect((endpoint.host().as_str(), endpoint.port())).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// Connects and completes the handshake.
    pub async fn shaken(endpoint: &Endpoint, socket_type: &str, identity: &[u8]) -> Self {
        let mut raw = Self::connect(endpoint).await;
        raw.shake(socket_type, identity).await;
        raw
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Raw<S> {
    pub async fn shake(&mut self, socket_type: &str, identity: &[u8]) {
        self.send(&[greeting(), ready(socket_type, identity)].concat()).await;
        self.read(64).await;
        let (flags, _) = self.read_frame().await;
        assert_eq!(flags, 4, "READY");
    }

    /// Sends what the other side takes: it may have closed in the middle of it.
    pub async fn send(&mut self, bytes: &[u8]) {
        let _ = soon("room in the socket", self.0.write_all(bytes)).await;
    }

    pub async fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        soon("bytes", self.0.read_exact(&mut bytes)).await.unwrap();
        bytes
    }

    /// Flags and body.
    pub async fn read_frame(&mut self) -> (u8, Vec<u8>) {
        let start = self.read(2).await;
        let len = if start[0] & 2 == 0 {
            usize::from(start[1])
        } else {
            let rest = self.read(7).await;
            let size: Vec<u8> = [&start[1..], &rest[..]].concat();
            u64::from_be_bytes(size.try_into().unwrap()) as usize
        };
        (start[0], self.read(len).await)
    }

    /// Reads until the other side has closed.
    pub async fn closed(&mut self) {
        let mut bytes = [0; 4096];
        soon("the end of the connection", async { while matches!(self.0.read(&mut bytes).await, Ok(1..)) {} }).await;
    }
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
    pub router: Router,
    pub endpoint: Endpoint,
    pub monitor: Monitor,
    links: usize,
    pub failures: Vec<Reason>,
}

impl Target {
    pub async fn new(router: Router) -> Self {
        let monitor = router.monitor();
        let endpoint = router.bind(&any_port()).await.unwrap();
        Self { router, endpoint, monitor, links: 0, failures: Vec::new() }
    }

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

/// A hand-made peer that speaks 3.`minor`.
pub async fn raw_peer(mut raw: Raw, socket_type: &str, minor: u8) -> Raw {
    let mut hello = greeting();
    hello[11] = minor;
    raw.send(&[hello, ready(socket_type, b"")].concat()).await;
    raw.read(64).await;
    assert_eq!(raw.read_frame().await.0, 4, "READY");
    raw
}

pub async fn raw_to(endpoint: &Endpoint, socket_type: &str, minor: u8) -> Raw {
    raw_peer(Raw::connect(endpoint).await, socket_type, minor).await
}

/// Waits until everything sent so far has been taken in.
pub async fn settled(raw: &mut Raw) {
    raw.send(&command("PING", b"\0\0")).await;
    assert_eq!(raw.read_frame().await, (4, b"\x04PONG".to_vec()));
}

/// A subscription, or its end, in the form of a command or of a message.
pub fn wish(subscribe: bool, topic: &[u8], as_command: bool) -> Vec<u8> {
    match as_command {
        true => command(if subscribe { "SUBSCRIBE" } else { "CANCEL" }, topic),
        false => frame(0, &[&[u8::from(subscribe)], topic].concat()),
    }
}
