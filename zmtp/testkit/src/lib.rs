//! What the tests of `zmtp` share: bytes as peers write them, connections fed by hand, raw TCP peers, waits that fail
//! instead of hanging. A crate of its own, so that each test file may use its own part.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod bytes;
pub mod curve;
mod hand;
mod raw;
mod sockets;

pub use self::bytes::*;
pub use self::hand::{Hand, config};
pub use self::raw::{Raw, raw_peer, raw_to, settled};
pub use self::sockets::{Target, any_port, dead_port, echo, id, named_dealer, shapes, soon, until};
