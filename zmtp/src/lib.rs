//! ZeroMQ's wire protocol ZMTP 3.x and its sockets, in pure Rust over tokio: no libzmq, no C.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use zmtp::{Dealer, Message, Router};
//!
//! let mut server = Router::builder().build();
//! let endpoint = server.bind(&"tcp://127.0.0.1:0".parse()?).await?;
//!
//! let mut client = Dealer::builder().build();
//! client.connect(&endpoint)?;
//! client.send(Message::from_frames(["", "hello"])).await?;
//!
//! let (peer, message) = server.recv().await?;
//! server.send(&peer, message).await?;
//! assert_eq!(client.recv().await?.frame(1), Some(&b"hello"[..]));
//! # Ok(()) }
//! ```
//!
//! # Patterns
//! A socket of each type does only what its type can: a PUSH has no `recv`, a SUB no `send`, and an option that a type
//! does not know does not compile. Every type here has an example.
//!
//! | Pattern | Types | A message goes to | When there is no room or nobody |
//! |---|---|---|---|
//! | Addressed | [`Router`] with [`Dealer`] or [`Req`] | the peer named | `send` waits, or says that the peer is gone |
//! | Dealt out | [`Dealer`] with [`Router`], [`Dealer`] or [`Rep`] | one peer after another | `send` waits |
//! | Request and reply | [`Req`] with [`Rep`] | one peer, and back to the asker | a request waits, a reply is dropped |
//! | Publish and subscribe | [`Pub`] or [`XPub`] with [`Sub`] or [`XSub`] | all who subscribe to what it begins with | dropped for that subscriber |
//! | Pipeline | [`Push`] with [`Pull`] | one peer after another | `send` waits |
//! | Pair | [`Pair`] with [`Pair`] | the one peer | `send` waits |
//!
//! Either side may bind, and a socket may bind and connect as often as it likes. What is sent to a connected endpoint
//! before anybody is there waits. [`proxy`] joins two sockets into a queue, forwarder or streamer.
//!
//! Receiving halves are `Stream`s; [`Push`], [`Pub`], [`DealerSender`] and [`PairSender`] are `Sink`s. `recv` and `send` are
//! cancel-safe: put them under `select!` or a timeout (which stands for RCVTIMEO and SNDTIMEO) as you like.
//!
//! # Layers
//! * [`wire`]: greeting, frames, commands, properties; pure functions over bytes.
//! * [`connection`]: one connection as a state machine without socket or clock.
//! * [`Router`], [`Dealer`] and the others: sockets on tokio. Each connection is one task on the caller's runtime; there
//!   is no background thread. A message is handed over encoded and written in batches.
//!
//! # Transports
//! tcp, ipc (Unix domain sockets) and inproc, see [`Endpoint`]; all with the same sockets, events and limits. inproc
//! joins sockets of one process, on whichever runtimes they live: names belong to the process and go with the socket
//! that bound them, connecting before binding waits, and mechanisms and heartbeats do not apply. The connecting socket's
//! runtime moves the messages. Between two sockets there may be, beside both queues, as many messages under way as one
//! send queue holds.
//!
//! Peers of ZMTP 3.0 and, without security, 2.0 (libzmq 3.2) are served; 1.0 is refused.
//!
//! # Security
//! A socket has one [`Security`]: NULL, PLAIN or CURVE, as client or server. Servers ask an authenticator who may
//! connect; [`auth`] has the trait and ready-made ones.
//!
//! # Where it differs from libzmq
//! * A second connection with a routing id in use is closed (or takes over, see [`Handover`]); libzmq leaves it open
//!   and deaf.
//! * Reconnecting backs off with jitter and starts over only after a completed handshake, not after a TCP success.
//! * Any received byte is a sign of life for heartbeats, not only whole frames.
//! * Ids a ROUTER generates start at a random number; a peer may not announce one that begins with a zero byte.
//! * Binding an ipc path replaces a socket that nobody listens on, never one that is in use nor another file; the file
//!   goes with its listener. `ipc://*` goes to the system's directory for temporary files, not to the working directory.
//! * IPv6 literals need no option ([`Ipv6`]), and IPv4 ones stay IPv4. An address is understood in full or refused.
//! * inproc reconnects like any transport when the bound side comes back.
//! * A REQ skips a malformed reply and keeps the connection; a PAIR closes a second peer; PUSH and PUB read and discard
//!   what peers send, and so answer PING.
//! * Subscriptions are never subject to the send high-water mark, and come before anything else on each connection.
//! * On an XPUB only a message of a single frame is a subscription; in libzmq each frame that begins so is one, unless
//!   ONLY_FIRST_SUBSCRIBE is set. Topics have at most 65,536 bytes, and those of one peer a limit in memory.
//! * A SUBSCRIBE to a socket that does not publish is dropped; libzmq hands it to the application.
//! * Under CURVE the server checks that a client's vouch is for this server, HELLO's padding and proof, and that keys are
//!   not of low order. A client that is refused for the time being (300) is closed at once, not left to its timer.
//! * There is a limit for whole messages beside the one for frames, and both have a default.

pub mod connection;
mod endpoint;
mod engine;
mod error;
mod mechanism;
mod message;
mod monitor;
mod pattern;
mod peer_address;
mod proxy;
mod random;
mod routing_id;
mod short_bytes;
mod socket;
mod socket_type;
pub mod wire;

pub use connection::{Heartbeat, Limits, PeerInfo};
pub use endpoint::{
    Endpoint, EndpointError, Host, InprocEndpoint, IpcAddress, IpcEndpoint, SourceAddress, TcpEndpoint,
};
pub use error::{BindError, ConnectError, LockstepError, RecvError, SendError, SendFailure, SubscribeError};
pub use mechanism::auth;
pub use mechanism::curve::{KEY_LEN, KeyError, KeyPair, PublicKey, SecretKey};
pub use mechanism::{CredentialsError, EntropyError, Security, SecurityFault, Stage};
pub use message::{Frames, Message, MessageBuilder};
pub use monitor::{Monitor, MonitorEvent, Reason};
pub use peer_address::{Credentials, PeerAddress};
pub use proxy::{
    Count, ProxyCommands, ProxyControl, ProxyError, ProxySocket, ProxyStatistics, ProxyTraffic, proxy, proxy_control,
};
pub use routing_id::{MAX_ROUTING_ID, RoutingId, RoutingIdError};
pub use short_bytes::ShortBytes;
pub use socket::{
    CanConflate, CanInvert, Dealer, DealerReceiver, DealerSender, Handover, Immediate, Ipv6, Keepalive, KeepaliveError,
    LimitsTopics, Pair, PairReceiver, PairSender, ProbesRouters, Pub, Pull, Push, Reconnect, Rep, Req, Resolve, Router,
    RouterEvent, RouterReceiver, RouterSender, SocketBuilder, Sub, SubReceiver, Subscriber, Verbosity, XPub, XPubEvent,
    XPubReceiver, XPubSender, XSub, XSubReceiver, XSubSender,
};
pub use socket_type::SocketType;
