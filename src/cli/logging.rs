//! The log: one line per event on standard error.

use std::io::{self, IsTerminal, Write};

use thiserror::Error;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::conf::{LogConf, LogFormat, LogLevel};

/// The variable with a filter of one's own, in the notation of `tracing-subscriber`: `info,zmtp=trace`.
pub const FILTER_VARIABLE: &str = "EMQ_LOG";

/// Events about heartbeats carry this target, so that `hide_heartbeat_logs` can leave them out.
pub const HEARTBEAT_TARGET: &str = "eventmq::heartbeat";

/// Why the log could not be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoggingError {
    /// The filter is not one.
    #[error(
        "environment variable {FILTER_VARIABLE} = {text:?} is not a filter ({source}); expected for example debug, or info,zmtp=trace"
    )]
    Filter {
        /// The text.
        text: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// Another log is there already.
    #[error("the log is set up already: {0}")]
    Twice(#[from] tracing::subscriber::SetGlobalDefaultError),
}

/// The log of this process.
pub struct Logging {
    filter: reload::Handle<EnvFilter, Registry>,
    fixed: Option<String>,
}

impl Logging {
    /// Begins to log. A `filter` given here counts more than the level in the settings.
    pub fn start(conf: &LogConf, filter: Option<String>) -> Result<Self, LoggingError> {
        let (filter_layer, handle) = reload::Layer::new(filter_for(conf, filter.as_deref())?);
        let lines = fmt::layer().with_writer(Stderr).with_target(false).log_internal_errors(false);
        let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let registry = Registry::default().with(filter_layer);
        match conf.format {
            LogFormat::Text => tracing::subscriber::set_global_default(registry.with(lines.with_ansi(colours)))?,
            LogFormat::Json => {
                let lines = lines.json().flatten_event(true).with_target(true);
                tracing::subscriber::set_global_default(registry.with(lines))?;
            }
        }
        Ok(Self { filter: handle, fixed: filter })
    }

    /// Follows settings that were read again; the format stays as it was.
    pub fn apply(&self, conf: &LogConf) -> Result<(), LoggingError> {
        let filter = filter_for(conf, self.fixed.as_deref())?;
        // Fails only if the log is gone, and then there is nobody left to tell.
        let _ = self.filter.reload(filter);
        Ok(())
    }
}

fn filter_for(conf: &LogConf, fixed: Option<&str>) -> Result<EnvFilter, LoggingError> {
    let level = match conf.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    let mut text = fixed.unwrap_or(level).to_owned();
    if conf.hide_heartbeats && !text.contains(HEARTBEAT_TARGET) {
        text = format!("{text},{HEARTBEAT_TARGET}=off");
    }
    EnvFilter::builder().parse(&text).map_err(|source| LoggingError::Filter { text, source })
}

/// Standard error, which may be closed: a log that nobody reads is no reason to stop a broker.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Stderr {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(level: LogLevel, hide_heartbeats: bool, fixed: Option<&str>) -> Result<String, LoggingError> {
        let conf = LogConf { level, format: LogFormat::Text, super_debug: false, hide_heartbeats };
        Ok(filter_for(&conf, fixed)?.to_string())
    }

    #[test]
    fn heartbeats_are_hidden_unless_asked_for() {
        assert_eq!(filter(LogLevel::Debug, true, None).unwrap(), "eventmq::heartbeat=off,debug");
        assert_eq!(filter(LogLevel::Debug, false, None).unwrap(), "debug");
        assert_eq!(filter(LogLevel::Info, true, Some("trace")).unwrap(), "eventmq::heartbeat=off,trace");
        let own = "info,eventmq::heartbeat=trace";
        assert_eq!(filter(LogLevel::Info, true, Some(own)).unwrap(), "eventmq::heartbeat=trace,info");
    }

    #[test]
    fn a_bad_filter_is_an_error() {
        let message = filter(LogLevel::Info, false, Some("zmtp=loud")).unwrap_err().to_string();
        assert!(message.starts_with("environment variable EMQ_LOG = \"zmtp=loud\" is not a filter ("), "{message}");
    }
}
