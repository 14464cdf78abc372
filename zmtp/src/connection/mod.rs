//! The ZMTP connection as a state machine: bytes and times in, events and bytes out. It owns no socket and no clock.
//!
//! ```text
//!  bytes read ──receive()──▶ Connection ──▶ Event::{Ready, Message, ...}
//!  messages   ──send()─────▶            ──▶ transmit(): bytes to write
//!  time       ──on_deadline()▶          ──▶ deadline(): when to call it
//! ```
//!
//! It knows the greeting, the handshake, frames, commands and heartbeats (RFC 37), and nothing of routing.

mod codec;
mod error;
mod handshake;
mod heartbeat;
mod inbound;
mod legacy;
mod transmit;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use self::codec::Codec;
pub use self::error::ConnectionError;
use self::handshake::Handshake;
use self::heartbeat::Liveness;
use self::inbound::Incoming;
pub use self::transmit::Transmit;
use crate::mechanism::{Security, Stage};
use crate::wire::command::{self, Command};
use crate::wire::frame::{self, FrameError};
use crate::wire::greeting::{MechanismName, OPENING_LEN, Version};
use crate::wire::properties::Property;
use crate::{Message, PeerAddress, RoutingId, SocketType};

/// What a connection has to know beforehand; shared by all connections of a socket.
#[derive(Debug, Clone)]
pub struct ConnectionConfig {
    /// Our socket type.
    pub socket_type: SocketType,
    /// Our own routing id, if we announce one.
    pub routing_id: Option<RoutingId>,
    /// Sizes that a peer may not exceed.
    pub limits: Limits,
    /// From the transport's opening to the end of the handshake; `None`: for ever.
    pub handshake_timeout: Option<Duration>,
    /// ZMTP heartbeats; `None`: we send none, but answer the peer's.
    pub heartbeat: Option<Heartbeat>,
    /// The security mechanism.
    pub security: Security,
}

impl ConnectionConfig {
    /// With everything else at its default.
    pub fn new(socket_type: SocketType) -> Self {
        Self {
            socket_type,
            routing_id: None,
            limits: Limits::default(),
            handshake_timeout: Some(Duration::from_secs(30)),
            heartbeat: None,
            security: Security::null(),
        }
    }
}

/// Sizes that are checked before they are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest frame body accepted, in bytes.
    pub frame: u64,
    /// Largest message accepted, all its frames with their headers, in bytes.
    pub message: u64,
}

impl Default for Limits {
    /// 256 MiB a frame, 512 MiB a message.
    fn default() -> Self {
        Self { frame: 256 << 20, message: 512 << 20 }
    }
}

/// Heartbeat settings (RFC 37, "Connection heartbeating"; libzmq's HEARTBEAT_IVL, _TIMEOUT and _TTL).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Period of our PINGs; zero: none are sent.
    pub interval: Duration,
    /// The connection ends when nothing arrives for this long after a PING; zero: it does not.
    pub timeout: Duration,
    /// We ask the peer to give up after this long without traffic; zero: we do not ask. At most 65.5 s are sent.
    pub ttl: Duration,
}

/// What a completed handshake tells of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its protocol revision.
    pub version: Version,
    /// Its socket type, if it says one.
    pub socket_type: Option<SocketType>,
    /// Its routing id, if it announces one.
    pub routing_id: Option<RoutingId>,
    /// Its other properties, such as `X-` ones.
    pub properties: Vec<Property>,
    /// Who it is, by the word of our authenticator; none if no authenticator was asked.
    pub user_id: Option<String>,
    /// What else our authenticator told of it.
    pub metadata: Vec<Property>,
}

/// What a connection has to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete. Comes first, once.
    Ready(Box<PeerInfo>),
    /// A whole message.
    Message(Message),
    /// The peer subscribes to a prefix.
    Subscribe(Bytes),
    /// The peer cancels a subscription.
    Cancel(Bytes),
}

/// One ZMTP connection, from its first byte to its last. See the [module](self) for how to drive it.
#[derive(Debug)]
pub struct Connection {
    config: Arc<ConnectionConfig>,
    state: State,
    transmit: Transmit,
    /// Where the peer is, for the authenticator.
    address: Option<PeerAddress>,
}

#[derive(Debug)]
enum State {
    Handshake { handshake: Handshake, deadline: Option<Instant> },
    Open(Open),
    Closed,
}

/// What exists only once the handshake is complete.
#[derive(Debug)]
struct Open {
    codec: Codec,
    liveness: Liveness,
    /// ZMTP 2.0 has none.
    has_commands: bool,
    /// A PONG waits in the transmit queue: further PINGs are answered by that one.
    pong_pending: bool,
    /// A PING waits there too: to a peer that takes nothing no second one is written.
    ping_pending: bool,
}

impl Connection {
    /// A new connection: the beginning of our greeting is ready to be written.
    ///
    /// The rest follows once the peer's revision is known, in the same write as our READY: a ZMTP 2.0 peer would
    /// misread it. libzmq does the same, so a 3.x peer loses at most the time that takes it. Where 2.0 is not served, the
    /// whole greeting goes at once.
    pub fn new(config: Arc<ConnectionConfig>, now: Instant) -> Self {
        let mut transmit = Transmit::new();
        let greeting = config.security.greeting();
        let (handshake, early) = match config.security.allows_older_protocols() {
            true => (Handshake::Opening, &greeting[..OPENING_LEN]),
            false => (Handshake::Greeting, &greeting[..]),
        };
        transmit.run_mut().extend_from_slice(early);
        let deadline = config.handshake_timeout.map(|timeout| now + timeout);
        Self { config, state: State::Handshake { handshake, deadline }, transmit, address: None }
    }

    /// Tells where the peer is, for an authenticator that wants to know.
    pub fn with_address(mut self, address: PeerAddress) -> Self {
        self.address = Some(address);
        self
    }

    /// Takes whole frames off the front of `input` and leaves the rest, until `budget` events came out.
    ///
    /// Calling it again with the same input goes on where it stopped. `input` must not be changed except by appending.
    ///
    /// # Errors
    /// What the peer did wrong. The connection is closed then; what [`transmit`](Self::transmit) still holds (an
    /// ERROR command, for one) should be written before the transport is closed.
    pub fn receive(
        &mut self,
        input: &mut BytesMut,
        budget: usize,
        now: Instant,
        events: &mut Vec<Event>,
    ) -> Result<(), ConnectionError> {
        let result = self.advance(input, budget, now, events);
        if result.is_err() {
            self.state = State::Closed;
        }
        result
    }

    fn advance(
        &mut self,
        input: &mut BytesMut,
        budget: usize,
        now: Instant,
        events: &mut Vec<Event>,
    ) -> Result<(), ConnectionError> {
        if let State::Handshake { handshake, .. } = &mut self.state {
            let out = self.transmit.run_mut();
            let done = handshake.receive(input, &self.config, self.address, out)?;
            let Some((peer, transforms)) = done else { return Ok(()) };
            self.state = State::Open(Open {
                codec: Codec::new(transforms),
                liveness: Liveness::new(self.config.heartbeat, peer.version, now),
                has_commands: peer.version >= Version::V3_0,
                pong_pending: false,
                ping_pending: false,
            });
            events.push(Event::Ready(peer));
        }
        let State::Open(open) = &mut self.state else { return Ok(()) };
        open.liveness.on_traffic(now);
        let full = events.len().saturating_add(budget);
        while events.len() < full {
            match open.codec.next(input, self.config.limits)? {
                None => break,
                Some(Incoming::Message(message)) => events.push(Event::Message(message)),
                Some(Incoming::Command(body)) => open.on_command(&body, now, &mut self.transmit, events)?,
            }
        }
        Ok(())
    }

    /// How many more bytes of the frame at the front of the input are known to be missing.
    pub fn wanted(&self) -> usize {
        match &self.state {
            State::Open(open) => open.codec.wanted(),
            _ => 0,
        }
    }

    /// What the peer has to send next, while the handshake of a mechanism other than NULL is not complete.
    pub fn awaits(&self) -> Option<Stage> {
        match &self.state {
            State::Handshake { handshake, .. } if self.config.security.mechanism() != MechanismName::NULL => {
                Some(handshake.awaits())
            }
            _ => None,
        }
    }

    /// Whether the handshake is complete and the connection not closed: only then may messages be sent.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Encodes a message into the transmit queue.
    pub fn send(&mut self, message: &Message) {
        if let State::Open(open) = &mut self.state {
            open.codec.send(message, &mut self.transmit);
        }
    }

    /// Moves messages encoded beforehand into the transmit queue and leaves `batch` empty.
    pub fn send_batch(&mut self, batch: &mut Transmit) {
        if let State::Open(open) = &mut self.state {
            open.codec.send_batch(batch, &mut self.transmit);
        }
    }

    /// Bytes to write, in order. Advance it by what was written.
    pub fn transmit(&mut self) -> &mut Transmit {
        if let State::Open(open) = &mut self.state {
            open.codec.refill(&mut self.transmit);
        }
        &mut self.transmit
    }

    /// To be told whenever [`transmit`](Self::transmit) has been written to its end.
    pub fn on_flushed(&mut self) {
        if let State::Open(open) = &mut self.state {
            open.pong_pending = false;
            open.ping_pending = false;
        }
    }

    /// When [`on_deadline`](Self::on_deadline) wants to be called at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Handshake { deadline, .. } => *deadline,
            State::Open(open) => open.liveness.deadline(),
            State::Closed => None,
        }
    }

    /// To be told before [`on_deadline`](Self::on_deadline) if, for reasons of our own, what the peer sends is not
    /// being read: then its silence says nothing about it.
    pub fn on_held_back(&mut self, now: Instant) {
        if let State::Open(open) = &mut self.state {
            open.liveness.on_traffic(now);
        }
    }

    /// Does what is due: a PING, or giving the connection up.
    ///
    /// # Errors
    /// The handshake took too long, or the peer is silent.
    pub fn on_deadline(&mut self, now: Instant) -> Result<(), ConnectionError> {
        let result = match &mut self.state {
            State::Handshake { deadline, .. } if deadline.is_some_and(|at| at <= now) => {
                Err(ConnectionError::HandshakeTimeout)
            }
            State::Open(open) => match open.liveness.on_deadline(now) {
                Ok(Some(ttl)) => {
                    if !std::mem::replace(&mut open.ping_pending, true) {
                        open.codec.command(&mut self.transmit, |out| command::put_ping(out, ttl));
                    }
                    Ok(())
                }
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            },
            _ => Ok(()),
        };
        if result.is_err() {
            self.state = State::Closed;
        }
        result
    }
}

impl Open {
    fn on_command(
        &mut self,
        body: &Bytes,
        now: Instant,
        transmit: &mut Transmit,
        events: &mut Vec<Event>,
    ) -> Result<(), ConnectionError> {
        if !self.has_commands {
            return Err(FrameError::Flags(frame::COMMAND).into());
        }
        match Command::parse(body)? {
            Command::Ping(ping) => {
                self.liveness.on_ping(ping.ttl, now);
                if !self.pong_pending {
                    self.codec.command(transmit, |out| command::put(out, "PONG", &[ping.context]));
                    self.pong_pending = true;
                }
            }
            Command::Subscribe(topic) => events.push(Event::Subscribe(body.slice_ref(topic))),
            Command::Cancel(topic) => events.push(Event::Cancel(body.slice_ref(topic))),
            Command::Ready(_) | Command::Error(_) => return Err(ConnectionError::UnexpectedCommand),
            Command::Pong(_) | Command::Unknown => {}
        }
        Ok(())
    }
}
