//! `emq router`: the broker as a process.

use std::process::ExitCode;

use tracing::{debug, info};

use super::daemon::{self, Daemon, Signals};
use super::{CliError, EXIT_CODES, Logging, SettingFlags, config, print, print_notices, settings_help};
use crate::broker::{Server, ServerHandle};
use crate::conf::{ConfError, Flags, Loaded, Machine, Notice, Program, RouterConf, process_variables};

const EXAMPLES: &str = "\
Examples:
  emq router                                    with /etc/eventmq.conf, if it exists
  emq router -C eventmq.conf                    with another conf file
  emq router -C eventmq.conf --check            only check the settings and show them
  emq router --frontend tcp://*:47291 --backend tcp://*:47290
  emq router --set hwm=20000 --set unknown_queue=hold --log-level debug
  EVENTMQ_HWM=20000 emq router                  set by the environment";

const SIGNALS: &str = "\
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

    /// Log this and everything more urgent: error, warn, info, debug or trace (setting log_level)
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,

    /// Check the settings, show them with their origins, and exit
    #[arg(long)]
    check: bool,
}

impl Args {
    fn flags(&self) -> Result<Flags, CliError> {
        self.settings.flags_and(&[
            ("--frontend", "frontend_addr", self.frontend.as_ref()),
            ("--backend", "backend_addr", self.backend.as_ref()),
            ("--admin", "administrative_addr", self.admin.as_ref()),
            ("--log-level", "log_level", self.log_level.as_ref()),
        ])
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let flags = args.flags()?;
    // Service managers start programs with few files allowed and leave it to those that need more to ask. What cannot
    // be had shows in max_connections.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let loaded = load(&flags)?;
    if args.check {
        print_notices(&loaded.notices);
        print(&config::table(&loaded.effective))?;
        return Ok(ExitCode::SUCCESS);
    }
    let logging = daemon::start_logging(&loaded.conf.log, args.log_level.as_ref())?;
    daemon::log_notices(&loaded.notices);
    // A broker is one hub and its links: a second thread costs more in wake-ups than it brings.
    daemon::runtime()?.block_on(start(loaded.conf, flags, logging))?;
    Ok(ExitCode::SUCCESS)
}

fn load(flags: &Flags) -> Result<Loaded, ConfError> {
    RouterConf::load(flags, &process_variables(), &Machine::read())
}

/// Runs the broker and passes signals on to it.
async fn start(conf: RouterConf, flags: Flags, logging: Logging) -> Result<(), CliError> {
    let signals = Signals::listen()?;
    let server = Server::bind(conf.server).await?;
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "broker ready");
    let forwarding = tokio::spawn(signals.forward(Running { server: server.handle(), flags }, logging));
    let done = server.run().await;
    forwarding.abort();
    done?;
    debug!("connections closed");
    Ok(())
}

struct Running {
    server: ServerHandle,
    flags: Flags,
}

impl Daemon for Running {
    fn shutdown(&self) {
        self.server.shutdown();
    }

    fn reload(&self, logging: &Logging) -> Result<Vec<Notice>, CliError> {
        let loaded = load(&self.flags)?;
        logging.apply(&loaded.conf.log)?;
        self.server.reload(loaded.conf.server);
        Ok(loaded.notices)
    }
}
