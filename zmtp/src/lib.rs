#![doc = include_str!("guide.md")]

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
