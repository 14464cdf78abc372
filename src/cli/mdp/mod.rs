//! `emq mdp`: broker, worker and client of the Majordomo protocol.

mod broker;
mod client;
mod exec;
mod measure;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use serde_json::Value;
use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};
use zmtp::{BindError, ConnectError, Message};

use super::{CliError, Logging, logging};
use crate::conf::{LogConf, LogFormat, LogLevel};
use crate::mdp::{BrokerError, RequestError, ResponseError, Version, WorkerError};

const EXAMPLES: &str = "\
Examples:
  emq mdp broker                             on tcp://127.0.0.1:5555
  emq mdp worker upper --exec tr a-z A-Z     serve \"upper\" with a program
  emq mdp worker echo                        serve \"echo\" with the built-in echo
  emq mdp client upper hello                 prints HELLO
  emq mdp client echo --count 100000 --pipeline

Any peer of MDP/0.1 or MDP/0.2 can take the part of any of the three.";

/// Majordomo: services behind a broker, for peers of MDP/0.1 and MDP/0.2.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    Broker(broker::Args),
    Worker(worker::Args),
    Client(client::Args),
}

/// Why a Majordomo program ends before its time.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MdpError {
    /// The broker could not start.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The worker could not start.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The broker's address can never be connected to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A request has no reply.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Replies stopped coming.
    #[error("{received} of {sent} replies came: {source}")]
    Response {
        /// Requests sent.
        sent: u64,
        /// Replies received.
        received: u64,
        /// What ended it.
        source: ResponseError,
    },
    /// The body could not be read from standard input.
    #[error("cannot read the request from standard input: {0}")]
    Input(#[source] std::io::Error),
}

impl MdpError {
    /// Why an address could not be listened on, if that is it.
    pub(super) fn bind(&self) -> Option<&BindError> {
        match self {
            Self::Broker(BrokerError::Bind(error)) => Some(error),
            _ => None,
        }
    }
}

/// Versions by the names people give them.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum VersionArg {
    #[value(name = "0.1")]
    V01,
    #[value(name = "0.2")]
    V02,
}

impl From<VersionArg> for Version {
    fn from(version: VersionArg) -> Self {
        match version {
            VersionArg::V01 => Self::V01,
            VersionArg::V02 => Self::V02,
        }
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::System { what: "no event loop", source })?;
    match &args.role {
        Role::Broker(args) => runtime.block_on(broker::run(args)),
        Role::Worker(args) => runtime.block_on(worker::run(args)),
        Role::Client(args) => runtime.block_on(client::run(args)),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "expected a number of seconds, for example 2.5".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(Duration::ZERO) => Err("expected more than 0 seconds".to_owned()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}

/// As [`seconds`]; 0 is none.
fn seconds_or_none(text: &str) -> Result<Limit, String> {
    if text.parse() == Ok(0.0) { Ok(Limit(None)) } else { seconds(text).map(|limit| Limit(Some(limit))) }
}

/// A time limit, or none.
#[derive(Debug, Clone, Copy)]
struct Limit(Option<Duration>);

/// Begins to log at that level.
fn start_log(level: LogLevel, format: LogFormat) -> Result<(), CliError> {
    let filter = std::env::var(logging::FILTER_VARIABLE).ok().filter(|filter| !filter.is_empty());
    let conf = LogConf { level, format, super_debug: false, hide_heartbeats: true };
    Logging::start(&conf, filter).map(drop).map_err(CliError::from)
}

/// SIGTERM and SIGINT, from now on.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn listen() -> Result<Self, CliError> {
        let listen = |kind| signal(kind).map_err(|source| CliError::System { what: "no signals", source });
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// The first of them; a second one ends the process at once.
    async fn asked(mut self) {
        self.one().await;
        info!("stopping; a second signal ends the process at once");
        tokio::spawn(async move {
            let number = self.one().await.as_raw_value();
            warn!("ending at once");
            std::process::exit(128 + number);
        });
    }

    async fn one(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        }
    }
}

/// A frame in JSON: its text, or `{"hex": "..."}` if it is not UTF-8.
fn frame_json(frame: &[u8]) -> Value {
    match std::str::from_utf8(frame) {
        Ok(text) => text.into(),
        Err(_) => serde_json::json!({ "hex": frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>() }),
    }
}

fn frames_json(message: &Message) -> Value {
    message.frames().map(frame_json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_are_no_text_are_shown_in_hex() {
        let message = Message::from_frames([&b"text"[..], b"", b"\xff\x00"]);
        assert_eq!(frames_json(&message).to_string(), r#"["text","",{"hex":"ff00"}]"#);
    }

    #[test]
    fn zero_seconds_are_no_limit_where_that_makes_sense() {
        assert!(seconds("0").is_err() && seconds("-1").is_err() && seconds("x").is_err());
        assert_eq!(seconds_or_none("0").unwrap().0, None);
        assert_eq!(seconds_or_none("0.5").unwrap().0, Some(Duration::from_millis(500)));
    }
}
