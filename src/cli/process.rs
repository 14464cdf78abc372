//! What all long-running subcommands have in common: their log, their event loop and their signals.

use std::future::Future;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{debug, error, info, warn};

use super::{CliError, Logging, logging};
use crate::conf::{LogConf, Notice, Urgency};

/// Sets the log up. A level asked for on the command line is meant as it stands, whatever the filter variable says.
pub(super) fn start_logging(conf: &LogConf, asked: Option<&String>) -> Result<Logging, CliError> {
    let filter = match asked {
        Some(_) => None,
        None => std::env::var(logging::FILTER_VARIABLE).ok().filter(|filter| !filter.is_empty()),
    };
    Ok(Logging::start(conf, filter)?)
}

/// Runs a service to its end. One thread: a second costs more in wake-ups than it brings.
pub(super) fn block_on<T>(service: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::System { what: "no event loop", source })?;
    runtime.block_on(service)
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

/// The signals of a service.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// A request to stop, with the number of its signal.
struct Stop(SignalKind);

impl Signals {
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

    /// SIGHUP calls `reload`; the first SIGTERM or SIGINT calls `stop`, the second ends the process.
    pub(super) async fn forward(mut self, stop: impl FnOnce(), mut reload: impl FnMut()) {
        let Stop(first) = loop {
            tokio::select! {
                _ = self.terminate.recv() => break Stop(SignalKind::terminate()),
                _ = self.interrupt.recv() => break Stop(SignalKind::interrupt()),
                _ = self.hang_up.recv() => {
                    info!("SIGHUP: reading the settings again");
                    reload();
                }
            }
        };
        info!(signal = name(first), "stopping; a second signal ends the process at once");
        stop();
        let again = self.stop().await;
        warn!(signal = name(again.0), "ending at once: nothing is waited for");
        std::process::exit(128 + again.0.as_raw_value());
    }
}

/// Says why settings that were read again are not used.
pub(super) fn log_unchanged(error: &CliError) {
    error!("the settings stay as they were: {error}");
}

fn name(signal: SignalKind) -> &'static str {
    if signal == SignalKind::interrupt() { "SIGINT" } else { "SIGTERM" }
}
