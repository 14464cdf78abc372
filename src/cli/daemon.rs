//! What programs that run until they are stopped have in common: their log, their event loop, their signals.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{debug, error, info, warn};

use super::{CliError, Logging, config, logging, print, print_notices};
use crate::conf::{Loaded, LogConf, Notice, Urgency};

/// A running program, as signals see it.
pub(super) trait Daemon {
    /// Lets it finish what it does, and end.
    fn shutdown(&self);

    /// Reads the settings again; they are used only if all of them can be.
    fn reload(&self, logging: &Logging) -> Result<Vec<Notice>, CliError>;
}

/// Flags of every such program.
#[derive(Debug, clap::Args)]
pub(super) struct DaemonFlags {
    /// Log this and everything more urgent: error, warn, info, debug or trace (setting log_level)
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,

    /// Check the settings, show them with their origins, and exit
    #[arg(long)]
    pub(super) check: bool,
}

impl DaemonFlags {
    /// The setting among them: flag, key and value.
    pub(super) fn setting(&self) -> (&'static str, &'static str, Option<&String>) {
        ("--log-level", "log_level", self.log_level.as_ref())
    }

    /// Begins to log, what there is to say about the settings first.
    pub(super) fn start_logging(&self, conf: &LogConf, notices: &[Notice]) -> Result<Logging, CliError> {
        let logging = start_logging(conf, self.log_level.as_ref())?;
        log_notices(notices);
        Ok(logging)
    }

    /// Begins to log with settings that were read; without a log they were only to be shown, and are.
    pub(super) fn begin<C>(&self, loaded: &Loaded<C>, conf: &LogConf) -> Result<Option<Logging>, CliError> {
        if self.check {
            print_notices(&loaded.notices);
            print(&config::table(&loaded.effective))?;
            return Ok(None);
        }
        self.start_logging(conf, &loaded.notices).map(Some)
    }
}

/// Begins to log. A level asked for by flag counts more than the filter in the environment.
pub(super) fn start_logging(conf: &LogConf, level: Option<&String>) -> Result<Logging, CliError> {
    let filter = match level {
        Some(_) => None,
        None => std::env::var(logging::FILTER_VARIABLE).ok().filter(|filter| !filter.is_empty()),
    };
    Ok(Logging::start(conf, filter)?)
}

/// An event loop on this thread.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::System { what: "no event loop", source })
}

pub(super) fn log_notices(notices: &[Notice]) {
    for notice in notices {
        match notice.urgency() {
            Urgency::Warning => warn!("{notice}"),
            Urgency::Info => info!("{notice}"),
            Urgency::Detail => debug!("{notice}"),
        }
    }
}

/// The signals a program listens to.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// A request to stop, with the number of its signal.
struct Stop(SignalKind);

impl Signals {
    /// From now on these signals do not end the process.
    pub(super) fn listen() -> Result<Self, CliError> {
        let listen = || -> io::Result<Self> {
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                hang_up: signal(SignalKind::hangup())?,
            })
        };
        listen().map_err(|source| CliError::System { what: "no signals", source })
    }

    async fn stop(&mut self) -> Stop {
        tokio::select! {
            _ = self.terminate.recv() => Stop(SignalKind::terminate()),
            _ = self.interrupt.recv() => Stop(SignalKind::interrupt()),
        }
    }

    /// Waits for a request to stop, before there is anything to be stopped in an orderly way.
    pub(super) async fn stopped(&mut self) {
        let Stop(which) = self.stop().await;
        info!(signal = name(which), "stopping");
    }

    /// Passes signals on, for as long as it is awaited.
    pub(super) async fn forward(mut self, daemon: impl Daemon, logging: Logging) {
        let Stop(first) = loop {
            tokio::select! {
                _ = self.terminate.recv() => break Stop(SignalKind::terminate()),
                _ = self.interrupt.recv() => break Stop(SignalKind::interrupt()),
                _ = self.hang_up.recv() => reload(&daemon, &logging),
            }
        };
        info!(signal = name(first), "stopping; a second signal ends the process at once");
        daemon.shutdown();
        let again = self.stop().await;
        warn!(signal = name(again.0), "ending at once: running jobs are not waited for");
        std::process::exit(128 + again.0.as_raw_value());
    }
}

fn name(signal: SignalKind) -> &'static str {
    if signal == SignalKind::interrupt() { "SIGINT" } else { "SIGTERM" }
}

fn reload(daemon: &impl Daemon, logging: &Logging) {
    info!("SIGHUP: reading the settings again");
    match daemon.reload(logging) {
        Ok(notices) => log_notices(&notices),
        Err(error) => error!("the settings stay as they were: {error}"),
    }
}
