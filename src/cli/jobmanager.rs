//! `emq jobmanager`: runs Python jobs, as a process.

use std::process::ExitCode;

use tracing::{debug, info};

use super::daemon::{self, Daemon, DaemonFlags, Signals};
use super::{CliError, Logging, SettingFlags, settings_help};
use crate::conf::{FlagValue, Flags, JobManagerConf, Loaded, Notice, Program, process_variables};
use crate::jobmanager::{JobManager, JobManagerHandle};

const EXAMPLES: &str = "\
Examples:
  emq jobmanager                                with /etc/eventmq.conf, if it exists
  emq jobmanager -B tcp://10.0.0.5:47290 -J 8   eight jobs at a time for that broker
  emq jobmanager -Q email sms                   only jobs of these queues
  emq jobmanager --python venv/bin/python       with the packages of that environment
  emq jobmanager --set 'allowed_callables=jobs.email.*,jobs.report.build'
  emq jobmanager -C eventmq.conf --check        only check the settings and show them";

const SIGNALS: &str = "\
Signals:
  SIGTERM, SIGINT  stop: running jobs are finished and replied to, for at most
                   kill_grace_period; a second one ends everything at once
  SIGHUP           read the settings again and replace each process once its
                   job is done, so that changed code is loaded; if the settings
                   cannot be used, an error is logged and the old ones stay

Modules are looked for where Python looks for them: in the directory the job
manager is started in, in PYTHONPATH, and in the interpreter's environment.
What jobs print goes to the log, with the job's message id.";

const EXIT_CODES: &str = "\
Exit codes:
  0    stopped as asked (SIGTERM, SIGINT)
  1    failed while starting, for example: no such interpreter
  2    wrong usage, or settings that cannot be used
  130  ended at once by a second SIGINT (143: SIGTERM) while waiting for jobs";

/// Run Python jobs: takes them from a broker and runs them in a pool of Python processes.
///
/// Needs CPython 3.8 or newer and no package in it. A conf file of Python's emq-jobmanager can be used unchanged.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{SIGNALS}\n\n{EXIT_CODES}\n\n--help lists all settings."))]
#[command(after_long_help = format!("{EXAMPLES}\n\n{SIGNALS}\n\n{EXIT_CODES}\n\n{}", settings_help(Program::JobManager)))]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingFlags,

    /// The broker's backend (setting worker_addr)
    #[arg(short = 'B', long, value_name = "ADDRESS", num_args = 0..=1)]
    broker_addr: Option<Option<String>>,

    /// Serve these queues, with the weight default_queue_weight (setting queues)
    #[arg(short = 'Q', long, value_name = "QUEUE", num_args = 1..)]
    queues: Vec<String>,

    /// Run so many jobs at a time (setting concurrent_jobs)
    #[arg(short = 'J', long, value_name = "JOBS", num_args = 0..=1)]
    jobs: Option<Option<String>>,

    /// What the broker shows this job manager as; must be unique (without it: a random UUID)
    #[arg(short = 'n', long)]
    name: Option<String>,

    /// The Python interpreter that runs jobs (setting python)
    #[arg(long, value_name = "PATH")]
    python: Option<String>,

    #[command(flatten)]
    daemon: DaemonFlags,
}

impl Args {
    fn flags(&self) -> Result<Flags, CliError> {
        // As in Python, a flag without its value says nothing.
        self.settings.flags_and(&[
            ("--broker-addr", "worker_addr", self.broker_addr.as_ref().and_then(Option::as_ref)),
            ("--jobs", "concurrent_jobs", self.jobs.as_ref().and_then(Option::as_ref)),
            ("--python", "python", self.python.as_ref()),
            self.daemon.setting(),
        ])
    }

    /// Names of `-Q`, also those joined by commas.
    fn queue_names(&self) -> Vec<&str> {
        self.queues.iter().flat_map(|names| names.split(',')).map(str::trim).filter(|name| !name.is_empty()).collect()
    }

    fn load(&self) -> Result<Loaded<JobManagerConf>, CliError> {
        let mut flags = self.flags()?;
        let variables = process_variables();
        let names = self.queue_names();
        if !names.is_empty() {
            // Their weight is itself a setting, which is known once the others are.
            let weight = JobManagerConf::load(&flags, &variables)?.conf.default_weight;
            let pairs: Vec<_> = names.into_iter().map(|name| (weight, name)).collect();
            // Only a map with keys that are not text could fail here.
            let value = serde_json::to_string(&pairs).unwrap_or_default();
            flags.values.push(FlagValue { flag: "--queues".to_owned(), key: "queues".to_owned(), value });
        }
        let mut loaded = JobManagerConf::load(&flags, &variables)?;
        loaded.conf.manager.name.clone_from(&self.name);
        if self.broker_addr.clone().flatten().is_some() {
            // One broker asked for by flag is the only one.
            loaded.conf.manager.session.failover.clear();
        }
        Ok(loaded)
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let loaded = args.load()?;
    let Some(logging) = args.daemon.begin(&loaded, &loaded.conf.log)? else { return Ok(ExitCode::SUCCESS) };
    // What is done here is little beside the jobs: one thread leaves the others to them.
    daemon::runtime()?.block_on(start(loaded.conf, args, logging))?;
    Ok(ExitCode::SUCCESS)
}

async fn start(conf: JobManagerConf, args: &Args, logging: Logging) -> Result<(), CliError> {
    let signals = Signals::listen()?;
    let (slots, python) = (conf.manager.core.slots, conf.manager.pool.python.clone());
    let manager = JobManager::start(conf.manager)?;
    let python = python.to_string_lossy();
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), slots, %python, "job manager ready");
    let running = Running { manager: manager.handle(), args };
    tokio::select! {
        () = manager.run() => debug!("all processes ended"),
        () = signals.forward(running, logging) => {}
    }
    Ok(())
}

struct Running<'a> {
    manager: JobManagerHandle,
    args: &'a Args,
}

impl Daemon for Running<'_> {
    fn shutdown(&self) {
        self.manager.shutdown();
    }

    fn reload(&self, logging: &Logging) -> Result<Vec<Notice>, CliError> {
        let loaded = self.args.load()?;
        logging.apply(&loaded.conf.log)?;
        self.manager.reload(loaded.conf.manager);
        Ok(loaded.notices)
    }
}
