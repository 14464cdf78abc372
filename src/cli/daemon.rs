//! What programs that run until they are stopped have in common: their log, their event loop, their signals.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{debug, error, info, warn};

use super::{CliError, Logging, logging};
use crate::conf::{LogConf, Notice, Urgency};

/// A running program, as signals see it.
pub(super) trait Daemon {
    /// Lets it finish what it does, and end.
    fn shutdown(&self);

    /// Reads the settings again; they are used only if all of them can be.
    fn reload(&self, logging: &Logging) -> Result<Vec<Notice>, CliError>;
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
