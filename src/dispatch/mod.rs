//! What every broker core needs, whatever its protocol: pure parts without socket, task or clock.

mod recent;
mod refusals;
mod stall;
mod timers;
mod transport;
mod waiting;

pub(crate) use recent::Recent;
pub(crate) use refusals::{RefusalLog, Refusals};
pub(crate) use stall::Stall;
pub(crate) use timers::Timers;
pub use transport::{DownReason, Why};
pub(crate) use waiting::{Edit, Waiting};
