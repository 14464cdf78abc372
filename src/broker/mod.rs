//! The broker: a pure core ([`Broker`]) and the shell that drives it.

mod config;
mod effect;
mod input;
mod server;

pub use config::{BrokerConfig, JobTracking, Roles, UnknownQueue};
pub use effect::Effect;
pub use input::{DownReason, Input, SocketId, Why};
pub use server::{Server, ServerConf, ServerError, ServerHandle, WireConf};
