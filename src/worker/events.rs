//! What a worker's core is told, what happens to it, and what it wants done.

use std::time::Duration;

use bytes::Bytes;
use zmtp::Message;

use super::job::{Exit, Job, JobEnd};
use crate::emqp::MsgId;

/// Settings of the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreConfig {
    /// Jobs at a time.
    pub slots: usize,
    /// Jobs one runner takes before another replaces it; `None` for any number.
    pub jobs_per_runner: Option<usize>,
    /// For jobs without a timeout of their own; `None` for none.
    pub default_timeout: Option<Duration>,
    /// Time between asking a runner to end (SIGTERM) and making it (SIGKILL).
    pub terminate_grace: Duration,
    /// How long jobs may go on after a shutdown began.
    pub drain_grace: Duration,
}

/// Names a runner; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunnerId(pub u64);

/// What happens to the core.
#[derive(Debug)]
pub enum Input {
    /// A message the session delivered.
    Delivered(Message),
    /// The broker listens.
    Registered,
    /// The broker does not know us any more.
    Lost,
    /// A runner can take jobs.
    Up(RunnerId),
    /// A job ended and its runner lives on.
    Done {
        /// The runner.
        runner: RunnerId,
        /// How the job ended.
        end: JobEnd,
    },
    /// A runner is no more, with all it had started.
    Gone {
        /// The runner.
        runner: RunnerId,
        /// How it ended.
        exit: Exit,
    },
    /// Time passed.
    Tick,
    /// The settings changed: every runner is replaced once its job has ended.
    Reconfigure(CoreConfig),
    /// Finish what runs, then stop.
    Shutdown,
}

/// What to do with a runner.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Start it; [`Input::Up`] or [`Input::Gone`] follows.
    Start,
    /// Run a job; [`Input::Done`] or [`Input::Gone`] follows.
    Run(Job),
    /// Ask it to end, its job included.
    Terminate,
    /// End it and all it has started.
    Kill,
    /// It gets no more jobs: let it end by itself.
    Retire,
}

/// What the core wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Do something with a runner.
    Order(RunnerId, Order),
    /// Tell the broker of a free slot.
    Ready,
    /// Send a result.
    Reply {
        /// The job.
        msgid: MsgId,
        /// The result frame.
        result: Bytes,
    },
    /// Tell the broker that no more jobs are taken.
    Leave,
    /// Everything is done.
    Stop,
}
