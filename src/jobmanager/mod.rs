//! The job manager: runs the Python callables that jobs name, in a pool of Python processes.
//!
//! The processes need CPython 3.8 or newer and nothing else: a small program of ours, given to each at its start, takes
//! jobs from a socket pair and imports what they name. Slots, deadlines and the drain are the [`worker`](crate::worker)
//! core's; [`Pool`] keeps the processes.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use eventmq::conf::{Flags, JobManagerConf, process_variables};
//! use eventmq::jobmanager::JobManager;
//!
//! let conf = JobManagerConf::load(&Flags::default(), &process_variables())?.conf;
//! let manager = JobManager::start(conf.manager)?;
//! let handle = manager.handle();
//! tokio::spawn(async move {
//!     tokio::signal::ctrl_c().await.ok();
//!     handle.shutdown();
//! });
//! manager.run().await;
//! # Ok(()) }
//! ```

mod pool;
mod process;

use std::ffi::OsString;

use thiserror::Error;

pub use self::pool::{Pool, PoolConf};
use crate::session::{SessionConfig, WireOptions};
use crate::worker::{CoreConfig, Reload, Serve, ServeHandle};

/// Everything a job manager is told.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagerConf {
    /// What this job manager is called: its first routing id.
    pub name: Option<String>,
    /// Its session with the broker.
    pub session: SessionConfig,
    /// Its socket.
    pub wire: WireOptions,
    /// Slots and times.
    pub core: CoreConfig,
    /// Its processes.
    pub pool: PoolConf,
}

/// Why a job manager could not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JobManagerError {
    /// The interpreter cannot be run.
    #[error(
        "cannot run the Python interpreter {}: {source}; --python (setting python) names another", python.display()
    )]
    Python {
        /// Its name.
        python: OsString,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A job manager, ready to run.
#[derive(Debug)]
pub struct JobManager(Serve<Pool>);

/// Tells a running [`JobManager`] what to do; cheap to clone.
#[derive(Debug, Clone)]
pub struct JobManagerHandle(ServeHandle<PoolConf>);

impl JobManager {
    /// Prepares everything; processes are started by [`run`](Self::run). Needs a tokio runtime.
    ///
    /// # Errors
    /// The interpreter cannot be run.
    pub fn start(conf: ManagerConf) -> Result<Self, JobManagerError> {
        let python = conf.pool.python.clone();
        let (pool, reports) = Pool::new(conf.pool).map_err(|source| JobManagerError::Python { python, source })?;
        let serve = Serve::new(conf.session, conf.wire, conf.core, pool, reports);
        Ok(Self(match conf.name {
            Some(name) => serve.named(&name),
            None => serve,
        }))
    }

    /// Something to end or change it with while it runs.
    pub fn handle(&self) -> JobManagerHandle {
        JobManagerHandle(self.0.handle())
    }

    /// Runs until it is shut down.
    pub async fn run(self) {
        self.0.run().await;
    }
}

impl JobManagerHandle {
    /// No new jobs; those that run are finished and replied to, then [`JobManager::run`] returns.
    pub fn shutdown(&self) {
        self.0.shutdown();
    }

    /// Changes the settings. Each process is replaced once its job has ended, so that changed code is loaded as well.
    pub fn reload(&self, conf: ManagerConf) {
        self.0.reload(Reload { session: conf.session, core: conf.core, executor: conf.pool });
    }
}
