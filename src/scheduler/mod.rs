//! The scheduler: keeps schedules and sends their jobs to a broker when they are due.
//!
//! [`Scheduler`] is the logic, a state machine without sockets, clocks or files; [`Cron`] says when an expression is due;
//! a [`ScheduleStore`] keeps schedules over restarts.
//!
//! A schedule is the same schedule if it makes the same call ([`ScheduleId`](crate::emqp::ScheduleId)): sent again with
//! another period, queue or headers it replaces the former, sent again as it is it changes nothing.

mod core;
mod cron;
mod orders;
mod record;
mod report;
mod server;
mod store;

pub use self::core::{Effect, Input, MissedRuns, ScheduleView, Scheduler, SchedulerConfig, Stored};
pub use cron::{Cron, CronError, CronProblem};
pub use record::{Haste, Record, Refusal, Timing};
pub use report::{ListedSchedule, Listing};
pub use server::{AbsentStore, Server, ServerConf, ServerError, ServerHandle};
pub use store::{Change, FileStore, MemoryStore, RedisServer, RedisStore, Saved, ScheduleStore, StoreError};

#[cfg(test)]
mod tests;
