//! `emq router`: the broker as a process.

use std::io;
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{debug, error, info, warn};

use super::{CliError, EXIT_CODES, Logging, SettingFlags, config, logging, print, print_notices, settings_help};
use crate::broker::{Server, ServerHandle};
use crate::conf::{
    ConfError, FlagValue, Flags, Loaded, Machine, Notice, Program, RouterConf, Urgency, process_variables,
};

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
        let mut flags = self.settings.flags()?;
        let own = [
            ("--frontend", "frontend_addr", &self.frontend),
            ("--backend", "backend_addr", &self.backend),
            ("--admin", "administrative_addr", &self.admin),
            ("--log-level", "log_level", &self.log_level),
        ];
        flags.values.extend(own.into_iter().filter_map(|(flag, key, value)| {
            Some(FlagValue { flag: flag.to_owned(), key: key.to_owned(), value: value.clone()? })
        }));
        Ok(flags)
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
    let filter = match args.log_level {
        Some(_) => None,
        None => std::env::var(logging::FILTER_VARIABLE).ok().filter(|filter| !filter.is_empty()),
    };
    let logging = Logging::start(&loaded.conf.log, filter)?;
    log_notices(&loaded.notices);
    // A broker is one hub and its links: a second thread costs more in wake-ups than it brings.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::System { what: "no event loop", source })?;
    runtime.block_on(start(loaded.conf, flags, logging))?;
    Ok(ExitCode::SUCCESS)
}

fn load(flags: &Flags) -> Result<Loaded, ConfError> {
    RouterConf::load(flags, &process_variables(), &Machine::read())
}

fn log_notices(notices: &[Notice]) {
    for notice in notices {
        match notice.urgency() {
            Urgency::Warning => warn!("{notice}"),
            Urgency::Info => info!("{notice}"),
            Urgency::Detail => debug!("{notice}"),
        }
    }
}

/// Runs the broker and passes signals on to it.
async fn start(conf: RouterConf, flags: Flags, logging: Logging) -> Result<(), CliError> {
    let signals = Signals::listen().map_err(|source| CliError::System { what: "no signals", source })?;
    let server = Server::bind(conf.server).await?;
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "broker ready");
    let forwarding = tokio::spawn(signals.forward(server.handle(), flags, logging));
    let done = server.run().await;
    forwarding.abort();
    done?;
    debug!("connections closed");
    Ok(())
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// A request to stop, with the number of its signal.
struct Stop(SignalKind);

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn stop(&mut self) -> Stop {
        tokio::select! {
            _ = self.terminate.recv() => Stop(SignalKind::terminate()),
            _ = self.interrupt.recv() => Stop(SignalKind::interrupt()),
        }
    }

    async fn forward(mut self, server: ServerHandle, flags: Flags, logging: Logging) {
        let Stop(first) = loop {
            tokio::select! {
                _ = self.terminate.recv() => break Stop(SignalKind::terminate()),
                _ = self.interrupt.recv() => break Stop(SignalKind::interrupt()),
                _ = self.hang_up.recv() => reload(&server, &flags, &logging),
            }
        };
        info!(signal = name(first), "stopping; a second signal ends the process at once");
        server.shutdown();
        let again = self.stop().await;
        warn!(signal = name(again.0), "ending at once: running jobs are not waited for");
        std::process::exit(128 + again.0.as_raw_value());
    }
}

fn name(signal: SignalKind) -> &'static str {
    if signal == SignalKind::interrupt() { "SIGINT" } else { "SIGTERM" }
}

fn reload(server: &ServerHandle, flags: &Flags, logging: &Logging) {
    info!("SIGHUP: reading the settings again");
    let applied = load(flags).map_err(CliError::from).and_then(|loaded| {
        logging.apply(&loaded.conf.log)?;
        Ok(loaded)
    });
    match applied {
        Ok(loaded) => {
            log_notices(&loaded.notices);
            server.reload(loaded.conf.server);
        }
        Err(error) => error!("the settings stay as they were: {error}"),
    }
}
