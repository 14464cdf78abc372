//! The broker: a pure core ([`Broker`]) and the shell that drives it.
//!
//! The core owns no socket, task, clock or random source. A shell tells it what happened with [`Broker::step`], carries
//! out the [`Effect`]s in their order, and steps an [`Input::Tick`] no later than [`Broker::deadline`].
//!
//! Its parts keep their own invariants: `workers` and `queues` know who can take a job, `slots` what a READY means,
//! `jobs` where each job is, `timers` what is due. `core` takes inputs apart; `requests`, `replies`,
//! `peers`, `liveness`, `dispatch`, `losses`, `admin` and `shutdown` say what follows from each.

mod admin;
mod config;
mod core;
mod counters;
mod dead;
mod dispatch;
mod effect;
mod gate;
mod input;
mod jobs;
mod liveness;
mod losses;
mod peers;
mod queues;
mod replies;
mod report;
mod requests;
mod schedulers;
mod server;
mod shutdown;
mod slots;
mod snapshot;
mod tally;
mod timers;
mod workers;

pub use self::core::Broker;
pub use config::{BrokerConfig, JobTracking, Roles, UnknownQueue};
pub use counters::Counters;
pub use dead::DeadReason;
pub use effect::Effect;
pub use gate::Gate;
pub use input::{Input, SocketId};
pub use server::{Server, ServerConf, ServerError, ServerHandle, WireConf};
pub use snapshot::{DeadView, JobPlace, JobView, SchedulerView, Snapshot, WorkerState, WorkerView};

pub use crate::dispatch::{DownReason, Why};

#[cfg(test)]
mod tests;
