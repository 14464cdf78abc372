//! What the fuzz targets check, one function each. The same functions run over the seeds as ordinary tests
//! (`zmtp/tests/corpus.rs`).
//!
//! A new target is a function here with a line in [`TARGETS`], a file in `fuzz_targets`, a `[[bin]]` in `Cargo.toml`
//! and at least one seed in `seeds/NAME`; the test says what is missing. Inputs that once failed stay as seeds.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use zmtp::auth::{AllowAny, Passwords};
use zmtp::connection::{Connection, ConnectionConfig, ConnectionError, Event};
use zmtp::wire::command::{self, Command};
use zmtp::wire::frame::{self, FrameHeader};
use zmtp::wire::greeting::{GREETING_LEN, Greeting, MechanismName, Revision};
use zmtp::wire::properties::{self, Properties};
use zmtp::wire::z85;
use zmtp::{Endpoint, Heartbeat, KEY_LEN, KeyPair, Limits, Message, RoutingId, Security, SocketType};

/// What a target does with its input: panics if something is wrong.
pub type Target = fn(&[u8]);

/// Every target by its name.
pub const TARGETS: &[(&str, Target)] = &[
    ("greeting", greeting),
    ("frames", frames),
    ("commands", commands),
    ("properties", properties),
    ("connection", connection),
    ("endpoint", endpoint),
    ("message", message),
    ("plain", plain),
    ("curve", curve),
    ("z85", z85),
];

/// Limits that inputs of a few kilobytes can meet.
const LIMITS: Limits = Limits { frame: 1000, message: 3000 };

/// What is decided by a beginning stays decided.
pub fn greeting(data: &[u8]) {
    let data = &data[..data.len().min(2 * GREETING_LEN)];
    let (mut greeting, mut revision) = (None, None);
    for end in 0..=data.len() {
        let now = Greeting::parse(&data[..end]);
        if let Some(before) = &greeting {
            assert_eq!(now, *before);
        } else if now != Ok(None) {
            greeting = Some(now);
        }
        let now = Revision::parse(&data[..end]);
        if let Some(before) = &revision {
            assert_eq!(now, *before);
        } else if now != Ok(None) {
            revision = Some(now);
        }
    }
    if data.len() >= GREETING_LEN {
        assert!(greeting.is_some());
    }
}

/// A frame header says what it says, and on an open connection frames become messages that come out of another one
/// unchanged.
pub fn frames(data: &[u8]) {
    if let Ok(Some(header)) = FrameHeader::parse(data) {
        assert!(header.header <= data.len() && header.size >> 63 == 0);
        if let Ok(size @ 0..100_000) = usize::try_from(header.size) {
            let mut written = Vec::new();
            frame::put_header(&mut written, header.flags & !frame::LONG, size);
            assert_eq!(header.is_canonical(), written.len() == header.header);
            assert!(!header.is_canonical() || data.starts_with(&written));
        }
    }
    let mut first = Fed::open(SocketType::Router, b"DEALER");
    let mut second = Fed::open(SocketType::Dealer, b"ROUTER");
    let _ = first.feed(data, usize::MAX);
    assert!(first.input.len() as u64 <= data.len() as u64);
    let messages: Vec<Event> = first.events.into_iter().filter(|event| matches!(event, Event::Message(_))).collect();
    let mut sender = Fed::open(SocketType::Router, b"DEALER");
    for event in &messages {
        if let Event::Message(message) = event {
            assert!(message.wire_len() as u64 <= LIMITS.message);
            sender.connection.send(message);
        }
    }
    let bytes = sender.output();
    assert_eq!(second.feed(&bytes, usize::MAX), Ok(()));
    assert_eq!(second.events, messages);
}

/// A command that is understood is written again the same way.
pub fn commands(data: &[u8]) {
    let Ok(parsed) = Command::parse(data) else { return };
    let (name, body): (&str, Vec<u8>) = match parsed {
        Command::Ready(body) => ("READY", body.into()),
        Command::Error(body) => {
            assert!(command::error_reason(body).len() <= body.len());
            ("ERROR", body.into())
        }
        Command::Ping(ping) => {
            assert!(ping.context.len() <= command::MAX_PING_CONTEXT);
            let tenths = (ping.ttl.as_millis() / 100) as u16;
            ("PING", [&tenths.to_be_bytes()[..], ping.context].concat())
        }
        Command::Pong(body) => ("PONG", body.into()),
        Command::Subscribe(body) => ("SUBSCRIBE", body.into()),
        Command::Cancel(body) => ("CANCEL", body.into()),
        _ => return,
    };
    let mut written = Vec::new();
    command::put(&mut written, name, &[&body]);
    let header = FrameHeader::parse(&written);
    assert!(matches!(header, Ok(Some(header)) if written[header.header..] == *data));
}

/// A list that is understood is written again the same way; one that is not ends with its error.
pub fn properties(data: &[u8]) {
    let list: Vec<_> = Properties::new(data).collect();
    assert!(list.len() <= data.len());
    let mut written = Vec::new();
    for (at, property) in list.iter().enumerate() {
        match property {
            Ok((name, value)) => match std::str::from_utf8(name) {
                Ok(name) => properties::put(&mut written, name, value),
                Err(_) => return,
            },
            Err(_) => {
                assert_eq!(at, list.len() - 1);
                return;
            }
        }
    }
    assert_eq!(written, data);
}

/// A whole connection: whatever is fed, in whatever pieces, gives the same events, the same error and the same answer.
///
/// The first bytes choose our side: socket type, routing id, heartbeats, budget and where the input is cut.
pub fn connection(data: &[u8]) {
    let Some((choice, data)) = data.split_first_chunk::<4>() else { return };
    let types = [SocketType::Router, SocketType::Dealer, SocketType::Pub, SocketType::XSub];
    let beat = Heartbeat {
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        ttl: Duration::from_secs(u64::from(choice[1])),
    };
    let config = ConnectionConfig {
        routing_id: if choice[0] & 4 != 0 { RoutingId::new([choice[1] | 1; 9]).ok() } else { None },
        heartbeat: (choice[0] & 8 != 0).then_some(beat),
        ..config(types[usize::from(choice[0] & 3)])
    };
    let whole = run(config.clone(), data, data.len().max(1), usize::MAX);
    for piece in [1, usize::from(choice[2]) + 1] {
        assert_eq!(run(config.clone(), data, piece, usize::from(choice[3] % 8) + 1), whole);
    }
}

/// An address is refused, or its text gives it again.
pub fn endpoint(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.parse::<Endpoint>() {
        Ok(endpoint) => {
            assert_eq!(endpoint.to_string().parse(), Ok(endpoint.clone()));
            let _ = (endpoint.check_bind(), endpoint.check_connect(), endpoint.host(), endpoint.is_ephemeral());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A message edited in steps equals a list of frames edited in the same steps, and comes through a connection.
///
/// Each step is two bytes: what to do, and with how much.
pub fn message(data: &[u8]) {
    let mut list = vec![Vec::new()];
    let mut message = Message::from_frames(&list);
    for step in data.chunks_exact(2).take(40) {
        let (amount, at) = (usize::from(step[1]), usize::from(step[0] >> 4));
        let body = vec![step[1]; if step[0] & 8 == 0 { amount } else { amount * 100 }];
        match step[0] & 7 {
            0 | 1 => {
                let frames = message.frames().map(Bytes::copy_from_slice).collect::<Vec<_>>();
                let built = frames.into_iter().fold(Message::builder(), |built, frame| built.bytes(frame));
                message = if step[0] & 1 == 0 { built.frame(&body) } else { built.bytes(body.clone().into()) }.build();
                list.push(body);
            }
            2 => {
                message = message.prepend(&body);
                list.insert(0, body);
            }
            3 => match message.skip_frames(at) {
                Some(rest) => {
                    message = rest;
                    list.drain(..at);
                }
                None => assert!(at >= list.len()),
            },
            4 => {
                message = message.replace_frame(at, &body);
                if let Some(frame) = list.get_mut(at) {
                    *frame = body;
                }
            }
            5 => message = message.compact(),
            _ => message = message.clone(),
        }
        if list.len() > 64 {
            break;
        }
    }
    assert!(message.frames().eq(list.iter().map(Vec::as_slice)));
    assert_eq!(message.frame_count(), list.len());
    for (at, frame) in list.iter().enumerate() {
        assert_eq!(message.frame_bytes(at).as_deref(), Some(&frame[..]));
    }
    let roomy = |socket_type| ConnectionConfig { limits: Limits::default(), ..config(socket_type) };
    let mut sender = Fed::open_with(roomy(SocketType::Dealer), b"ROUTER");
    let mut receiver = Fed::open_with(roomy(SocketType::Router), b"DEALER");
    sender.connection.send(&message);
    let bytes = sender.output();
    assert_eq!(bytes.len(), message.wire_len());
    assert_eq!(receiver.feed(&bytes, usize::MAX), Ok(()));
    assert_eq!(receiver.events, [Event::Message(message)]);
}

/// A PLAIN server or client, fed as [`connection`] is. The first byte chooses the side, the second the pieces.
pub fn plain(data: &[u8]) {
    let Some(([side, piece], data)) = data.split_first_chunk::<2>() else { return };
    let security = if side & 1 == 0 {
        let passwords = Passwords::new();
        assert_eq!(passwords.insert("admin", "secret"), Ok(()));
        Some(Security::plain_server(passwords))
    } else {
        Security::plain_client("admin", "secret").ok()
    };
    let Some(security) = security else { return };
    let config = ConnectionConfig { security, ..config(SocketType::Router) };
    let whole = run(config.clone(), data, data.len().max(1), usize::MAX);
    assert_eq!(run(config, data, usize::from(*piece) + 1, 1), whole);
}

/// A CURVE client and server, and somebody between them who changes bytes: each four bytes name a transfer, a place in
/// it and what is done to the byte there. Nothing but what was sent is ever received, and all of it if nothing changed.
pub fn curve(data: &[u8]) {
    let server = KeyPair::from_secret([7; KEY_LEN].into());
    let client = KeyPair::from_secret([9; KEY_LEN].into());
    let curve = |socket_type, security| ConnectionConfig { security, ..config(socket_type) };
    let mut ends = [
        Fed::new(curve(SocketType::Dealer, Security::curve_client(server.public(), client))),
        Fed::new(curve(SocketType::Router, Security::curve_server(server, AllowAny))),
    ];
    let message = Message::from_frames(["", "sealed", "in three frames"]);
    let (mut sent, mut changed) = ([false; 2], false);
    for transfer in 0..16u8 {
        let from = usize::from(transfer & 1);
        if ends[from].connection.is_open() && !std::mem::replace(&mut sent[from], true) {
            ends[from].connection.send(&message);
        }
        let mut bytes = ends[from].output();
        for change in data.chunks_exact(4).filter(|change| change[0] == transfer) {
            let at = usize::from(u16::from_be_bytes([change[1], change[2]]));
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= change[3];
                changed |= change[3] != 0;
            }
        }
        if ends[1 - from].feed(&bytes, usize::MAX).is_err() {
            assert!(changed);
            return;
        }
    }
    for end in &ends {
        let got = end.events.iter().filter_map(|event| if let Event::Message(got) = event { Some(got) } else { None });
        assert!(got.clone().all(|got| *got == message));
        assert!(changed || got.count() == 1);
    }
}

/// Text that is Z85 is that of its bytes and of no others; so are bytes.
pub fn z85(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(bytes) = z85::decode(text)
    {
        assert_eq!(z85::encode(&bytes).as_deref(), Ok(text));
    }
    match z85::encode(data) {
        Ok(text) => assert_eq!(z85::decode(&text).as_deref(), Ok(data)),
        Err(_) => assert!(!data.len().is_multiple_of(4)),
    }
}

fn config(socket_type: SocketType) -> ConnectionConfig {
    ConnectionConfig { limits: LIMITS, handshake_timeout: None, ..ConnectionConfig::new(socket_type) }
}

/// Events, error and output of a connection that is fed in pieces.
fn run(
    config: ConnectionConfig,
    data: &[u8],
    piece: usize,
    budget: usize,
) -> (Vec<Event>, Option<ConnectionError>, Vec<u8>) {
    let mut fed = Fed::new(config);
    for bytes in data.chunks(piece) {
        if let Err(error) = fed.feed(bytes, budget) {
            let output = fed.output();
            return (fed.events, Some(error), output);
        }
        assert!(fed.input.len() as u64 <= 64 * 1024 + LIMITS.message + piece as u64);
    }
    let output = fed.output();
    (fed.events, None, output)
}

/// A connection and what is fed to it.
struct Fed {
    connection: Connection,
    input: BytesMut,
    events: Vec<Event>,
    now: Instant,
}

impl Fed {
    fn new(config: ConnectionConfig) -> Self {
        let now = Instant::now();
        Self { connection: Connection::new(Arc::new(config), now), input: BytesMut::new(), events: Vec::new(), now }
    }

    fn open(socket_type: SocketType, peer: &[u8]) -> Self {
        Self::open_with(config(socket_type), peer)
    }

    /// With its handshake complete and what it said so far taken.
    fn open_with(config: ConnectionConfig, peer: &[u8]) -> Self {
        let mut fed = Self::new(config);
        let mut list = Vec::new();
        properties::put(&mut list, "Socket-Type", peer);
        let mut bytes = Greeting::encode(MechanismName::NULL).to_vec();
        command::put(&mut bytes, "READY", &[&list]);
        assert_eq!(fed.feed(&bytes, usize::MAX), Ok(()));
        assert!(fed.connection.is_open());
        fed.output();
        fed.events.clear();
        fed
    }

    /// Takes bytes in and decodes all there is, `budget` events at a time.
    fn feed(&mut self, bytes: &[u8], budget: usize) -> Result<(), ConnectionError> {
        self.input.extend_from_slice(bytes);
        loop {
            let before = self.events.len();
            self.connection.receive(&mut self.input, budget, self.now, &mut self.events)?;
            if self.events.len() == before {
                return Ok(());
            }
        }
    }

    /// What it wants to write, as if written.
    fn output(&mut self) -> Vec<u8> {
        let transmit = self.connection.transmit();
        let bytes = transmit.copy_to_bytes(transmit.remaining()).to_vec();
        self.connection.on_flushed();
        bytes
    }
}
