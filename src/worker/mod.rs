//! Workers: what runs jobs for a broker.
//!
//! [`Worker`] runs async Rust functions, [`ExecWorker`] a program for each job; Python processes are the
//! [`jobmanager`](crate::jobmanager)'s. All three are an executor around one pure [`core`](Core), which keeps slots,
//! deadlines and the drain.

mod call;
mod common;
mod core;
mod events;
mod exec;
pub(crate) mod guard;
mod job;
mod native;
pub(crate) mod output;
mod serve;

pub use self::call::{Call, HandlerError, HandlerResult};
pub use self::core::Core;
pub use self::events::{CoreConfig, Effect, Input, Order, RunnerId};
pub use self::exec::{Exec, ExecError, ExecWorker, ExecWorkerBuilder, WorkerError};
pub use self::job::{Exit, Job, JobEnd};
pub use self::native::{Worker, WorkerBuilder, WorkerHandle};
pub use self::serve::{Executor, Reload, Serve, ServeHandle};
