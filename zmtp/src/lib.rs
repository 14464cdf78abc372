//! ZeroMQ's wire protocol and sockets in pure Rust over tokio.

mod endpoint;
mod message;
mod routing_id;
pub mod wire;

pub use endpoint::{Endpoint, EndpointError, Host, TcpEndpoint};
pub use message::{Frames, Message, MessageBuilder};
pub use routing_id::{MAX_ROUTING_ID, RoutingId, RoutingIdError};
