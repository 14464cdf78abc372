//! The client: submits jobs to a broker, awaits their results, keeps schedules, publishes and subscribes.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use eventmq::client::{Client, Job, Schedule};
//!
//! let client = Client::connect(&"tcp://127.0.0.1:47291".parse()?)?;
//!
//! // Accepted, and that is all we want to know.
//! client.submit(Job::new("shop.mail", "send_receipt").arg(4711)).await?;
//!
//! // What it returns, if it does within five seconds.
//! let sum: u64 = client.call(Job::new("shop.tax", "sum").arg([1, 2, 3]).deadline(Duration::from_secs(5))).await?;
//!
//! // Many, under way together.
//! let jobs = (0..10_000).map(|n| Job::new("shop.index", "update").arg(n).queue("index"));
//! let accepted = client.submit_all(jobs).await.iter().filter(|answer| answer.is_ok()).count();
//!
//! client.schedule(Schedule::cron("0 6 * * *", Job::new("shop.jobs", "report")).later()).await?;
//! # let _ = (sum, accepted);
//! client.close().await;
//! # Ok(()) }
//! ```
//!
//! # What an answer means
//! A job is **accepted** once the broker says so; what is not accepted says so, too, and [`SubmitError::may_run`] tells
//! whether it may run all the same. A job is sent at most once, unless it has a [`guarantee`](Job::guarantee): then it is
//! sent again, under the same id, when the connection comes back before its acceptance or its result. A broker of this
//! crate takes it for the same job as long as it holds it.
//!
//! # With Python's emq-router
//! It acknowledges a job only when a worker is free for it at that moment: for others [`Client::submit`] ends with
//! [`SubmitError::Unconfirmed`] although they will run, so [`Client::post`] is the better choice there. It never passes
//! results on: [`Client::call`] waits until the job's [`deadline`](Job::deadline). Schedules are never confirmed by it,
//! which is [`Confirmation::Unconfirmed`].
//!
//! # Inside
//! `core` is a state machine without socket or clock; `driver` is the task that owns it and the connection.

mod builder;
mod core;
mod driver;
mod error;
mod handle;
mod job;
mod outcome;
mod pubsub;
mod schedule;

pub use builder::ClientBuilder;
pub use error::{CallError, ClientError, Failure, SubmitError};
pub use handle::{Client, Confirmation, FullQueues, JobHandle};
pub use job::{ArgumentFault, CallableNameError, Job};
pub use pubsub::{Publication, PublishError, Publisher, Subscriber};
pub use schedule::Schedule;
