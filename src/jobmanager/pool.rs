//! [`Pool`]: the Python processes of a job manager.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::debug;

use super::process::{Process, Told};
use crate::worker::guard::{Guard, GuardProgram};
use crate::worker::{Executor, Exit, Input, Order, RunnerId};

/// The guard, for Python: where the interpreter is there need not be a shell.
const GUARD: &str = include_str!("guard.py");
/// How long processes may take to end once nothing runs in them.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// What the pool is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolConf {
    /// The interpreter, by path or by name.
    #[serde(skip)]
    pub python: OsString,
    /// A function called once in each new process; empty for none.
    pub setup_func: String,
    /// The deprecated form of the same.
    pub setup_path: String,
    /// With [`setup_path`](Self::setup_path).
    pub setup_callable: String,
    /// A function called before each job; empty for none.
    pub job_entry_func: String,
    /// A function called after each job; empty for none.
    pub job_exit_func: String,
    /// Names of callables, `*` standing for anything, that may run; empty for all.
    pub allowed_callables: Vec<String>,
    /// Most bytes of a result.
    pub max_result_size: u64,
}

/// The processes, each kept by a task of its own.
#[derive(Debug)]
pub struct Pool {
    conf: Arc<PoolConf>,
    guard: Guard,
    reports: mpsc::UnboundedSender<Input>,
    processes: HashMap<RunnerId, mpsc::UnboundedSender<Told>>,
    tasks: JoinSet<()>,
}

impl Pool {
    /// A pool without processes, and what it reports.
    ///
    /// # Errors
    /// The interpreter cannot be run.
    pub(super) fn new(conf: PoolConf) -> io::Result<(Self, mpsc::UnboundedReceiver<Input>)> {
        let program = [conf.python.clone(), "-I".into(), "-S".into(), "-c".into(), GUARD.into()];
        let guard = Guard::start(GuardProgram(program.to_vec()))?;
        let (reports, receiver) = mpsc::unbounded_channel();
        let (processes, tasks) = (HashMap::new(), JoinSet::new());
        Ok((Self { conf: Arc::new(conf), guard, reports, processes, tasks }, receiver))
    }

    fn start(&mut self, runner: RunnerId) {
        // Finished ones are forgotten here, so that they do not pile up.
        while self.tasks.try_join_next().is_some() {}
        self.processes.retain(|_, told| !told.is_closed());
        match Process::spawn(&self.conf, runner, self.guard.clone(), self.reports.clone()) {
            Ok((process, told)) => {
                self.processes.insert(runner, told);
                self.tasks.spawn(process.keep());
            }
            Err(error) => {
                let exit = Exit::Failed(format!("{}: {error}", self.conf.python.display()));
                let _ = self.reports.send(Input::Gone { runner, exit });
            }
        }
    }

    fn tell(&self, runner: RunnerId, told: Told) {
        if let Some(process) = self.processes.get(&runner) {
            // One that has just ended reports so itself.
            let _ = process.send(told);
        }
    }
}

impl Executor for Pool {
    type Settings = PoolConf;

    fn perform(&mut self, runner: RunnerId, order: Order) {
        match order {
            Order::Start => self.start(runner),
            Order::Run(job) => self.tell(runner, Told::Run(job)),
            Order::Terminate => self.tell(runner, Told::Terminate),
            Order::Kill => self.tell(runner, Told::Kill),
            Order::Retire => self.tell(runner, Told::Retire),
        }
    }

    fn reconfigure(&mut self, settings: PoolConf) {
        self.conf = Arc::new(settings);
    }

    async fn close(mut self) {
        for process in self.processes.values() {
            let _ = process.send(Told::Retire);
        }
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(CLOSE_GRACE, ended).await.is_err() {
            debug!("processes that did not end are killed");
            for process in self.processes.values() {
                let _ = process.send(Told::Kill);
            }
            while self.tasks.join_next().await.is_some() {}
        }
    }
}
