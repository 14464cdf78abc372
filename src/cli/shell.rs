//! `emq cli`: one question to a running broker.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use serde_json::Value;
use zmtp::Endpoint;

use super::{CliError, print};
use crate::admin::{Admin, AdminError};
use crate::emqp::MsgId;

const EXAMPLES: &str = "\
Examples:
  emq cli status
  emq cli --addr tcp://10.0.0.5:47293 show_workers
  emq cli show_dead                     jobs that were given up, with their history
  emq cli retry_dead                    run them all again
  emq cli retry_dead 6f648343-fcf1-41be-b50c-a7e836b0d857
  emq cli shutdown

Exit code 1 says that no broker answered.";

/// Ask a running broker how it is, or tell it to stop.
///
/// Answers are JSON on standard output.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The broker's administrative address
    #[arg(short, long, value_name = "ADDRESS", default_value = "tcp://127.0.0.1:47293")]
    addr: Endpoint,

    /// How long to wait for the answer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: Duration,

    #[command(subcommand)]
    question: Question,
}

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
enum Question {
    /// Counters, and jobs by queue and worker
    Status,
    /// The workers and the queues they serve
    ShowWorkers,
    /// The schedulers
    ShowSchedulers,
    /// Jobs that were given up and kept
    ShowDead,
    /// Run dead jobs again
    RetryDead {
        /// Only this one
        #[arg(value_parser = msgid)]
        msgid: Option<MsgId>,
    },
    /// Stop the broker; running jobs get its shutdown_grace to finish
    Shutdown,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "expected a number of seconds, for example 2.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn msgid(text: &str) -> Result<MsgId, String> {
    MsgId::new(text).map_err(|error| error.to_string())
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::System { what: "no event loop", source })?;
    let answer = runtime.block_on(ask(args))?;
    // Only a map with keys that are not text could fail here.
    let text = serde_json::to_string_pretty(&answer).unwrap_or_default();
    print(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}

async fn ask(args: &Args) -> Result<Value, AdminError> {
    let mut admin = Admin::connect(&args.addr, args.timeout)?;
    match &args.question {
        Question::Status => admin.status().await,
        Question::ShowWorkers => admin.workers().await,
        Question::ShowSchedulers => admin.schedulers().await,
        Question::ShowDead => admin.dead().await,
        Question::RetryDead { msgid } => admin.retry_dead(msgid.clone()).await,
        Question::Shutdown => {
            admin.shut_down().await?;
            Ok(serde_json::json!({ "stopping": true }))
        }
    }
}
