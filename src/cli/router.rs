//! `emq router`: the broker as a process.

use std::process::ExitCode;

use tracing::{debug, info, warn};

use super::daemon::{self, Daemon, DaemonFlags, Signals};
use super::{CliError, EXIT_CODES, Logging, SettingFlags, settings_help};
use crate::broker::ServerHandle;
use crate::conf::{
    ConfError, Flags, Loaded, Machine, Notice, Program, RouterConf, SchedulerConf, StoreConf, process_variables,
    schedule_file,
};
use crate::scheduler::FileStore;
use crate::serve::{BuiltinScheduler, Need, Serve, ServeConf};

const EXAMPLES: &str = "\
Examples:
  emq router                                    with /etc/eventmq.conf, if it exists
  emq router -C eventmq.conf                    with another conf file
  emq router -C eventmq.conf --check            only check the settings and show them
  emq router --frontend tcp://*:47291 --backend tcp://*:47290
  emq router --set hwm=20000 --set unknown_queue=hold --log-level debug
  EVENTMQ_HWM=20000 emq router                  set by the environment";

pub(super) const SIGNALS: &str = "\
Signals:
  SIGTERM, SIGINT  stop: running jobs get shutdown_grace to finish;
                   a second one ends the process at once
  SIGHUP           read the settings again; if they cannot be used, an error
                   is logged and the old ones stay

EMQ_LOG holds a filter for the log, such as info,zmtp=trace; --log-level
counts more.";

/// Run the broker: takes jobs from clients and gives them to workers.
///
/// A conf file of Python's emq-router can be used unchanged.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{SIGNALS}\n\n{EXIT_CODES}\n\n--help lists all settings."))]
#[command(after_long_help = format!("{EXAMPLES}\n\n{SIGNALS}\n\n{EXIT_CODES}\n\n{}", settings_help(Program::Router)))]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingFlags,

    /// Listen here for clients and schedulers (setting frontend_addr)
    #[arg(long, value_name = "ADDRESS")]
    frontend: Option<String>,

    /// Listen here for workers (setting backend_addr)
    #[arg(long, value_name = "ADDRESS")]
    backend: Option<String>,

    /// Listen here for administration (setting administrative_addr)
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,

    #[command(flatten)]
    daemon: DaemonFlags,
}

impl Args {
    fn flags(&self) -> Result<Flags, CliError> {
        self.settings.flags_and(&[
            ("--frontend", "frontend_addr", self.frontend.as_ref()),
            ("--backend", "backend_addr", self.backend.as_ref()),
            ("--admin", "administrative_addr", self.admin.as_ref()),
            self.daemon.setting(),
        ])
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let flags = args.flags()?;
    // Service managers start programs with few files allowed and leave it to those that need more to ask. What cannot
    // be had shows in max_connections.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let loaded = load(&flags)?;
    let Some(logging) = args.daemon.begin(&loaded, &loaded.conf.log)? else { return Ok(ExitCode::SUCCESS) };
    // A broker is one hub and its links: a second thread costs more in wake-ups than it brings.
    daemon::runtime()?.block_on(start(loaded.conf, flags, logging))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn load(flags: &Flags) -> Result<Loaded, ConfError> {
    RouterConf::load(flags, &process_variables(), &Machine::read())
}

/// Runs the broker and passes signals on to it.
async fn start(conf: RouterConf, flags: Flags, logging: Logging) -> Result<(), CliError> {
    let signals = Signals::listen()?;
    let scheduler = if conf.builtin_scheduler { builtin_scheduler(&flags) } else { None };
    let serve = Serve::bind(ServeConf { broker: conf.server, scheduler, publisher: None }).await?;
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "broker ready");
    run_to_end(serve, signals, flags, logging).await
}

/// Runs a broker, and what else is in its process, until a signal or an administrator ends it.
pub(super) async fn run_to_end(serve: Serve, signals: Signals, flags: Flags, logging: Logging) -> Result<(), CliError> {
    let running = Running { broker: serve.broker().handle(), flags };
    let forwarding = tokio::spawn(signals.forward(running, logging));
    let done = serve.run().await;
    forwarding.abort();
    done?;
    debug!("connections closed");
    Ok(())
}

/// The scheduler a broker falls back on. A broker does not need it, so what is wrong with it is only logged.
fn builtin_scheduler(flags: &Flags) -> Option<BuiltinScheduler> {
    let variables = process_variables();
    let conf = schedule_file(flags, &variables)
        .and_then(|file| Ok(SchedulerConf::load(flags, &variables)?.conf.for_router(file)))
        .inspect_err(|error| warn!("no scheduler of our own, a SCHEDULE without another is refused: {error}"))
        .ok()?;
    let StoreConf::File(file) = &conf.store else { return None };
    let store = Box::new(FileStore::lazy(file));
    Some(BuiltinScheduler { conf: conf.server, store, need: Need::Optional })
}

/// A broker, alone or with what else runs in its process.
struct Running {
    broker: ServerHandle,
    flags: Flags,
}

impl Daemon for Running {
    fn shutdown(&self) {
        self.broker.shutdown();
    }

    fn reload(&self, logging: &Logging) -> Result<Vec<Notice>, CliError> {
        let loaded = load(&self.flags)?;
        logging.apply(&loaded.conf.log)?;
        self.broker.reload(loaded.conf.server);
        Ok(loaded.notices)
    }
}
