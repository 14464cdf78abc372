//! Sockets' machinery on tokio: one task per connection (a link), a queue towards each peer (a pipe), one ordered
//! stream of deliveries per socket.

pub(crate) mod core;
mod decode;
pub(crate) mod dialer;
pub(crate) mod inbox;
mod inproc;
#[cfg(unix)]
mod ipc;
pub(crate) mod link;
pub(crate) mod listener;
pub(crate) mod lock;
pub(crate) mod membership;
pub(crate) mod pipe;
pub(crate) mod pool;
mod tcp;
pub(crate) mod throttle;
mod transport;
