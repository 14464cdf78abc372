//! `emq cli`: questions to a running broker: one, or a session of them.

mod editor;
mod session;

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};
use zmtp::Endpoint;

use self::session::Session;
use super::call::{block_on, msgid};
use super::{CliError, print, table};
use crate::admin::{Admin, AdminError};
use crate::emqp::MsgId;

const EXAMPLES: &str = "\
Examples:
  emq cli status
  emq cli --addr tcp://10.0.0.5:47293 show_workers
  emq cli --json show_schedulers
  emq cli show_dead                     jobs that were given up, with their history
  emq cli retry_dead                    run them all again
  emq cli retry_dead 6f648343-fcf1-41be-b50c-a7e836b0d857
  echo status | emq cli                 commands from standard input, a line each
  emq cli shutdown

Without a command it is a shell with the commands of Python's emq-cli, with history and
completion (Tab); connect and disconnect are commands there. Called as emq-cli (a link to
this program) it is emq cli.

Exit code 1 says that no broker answered.";

/// The broker that is asked if no address is given.
const DEFAULT_ADDRESS: &str = "tcp://127.0.0.1:47293";

/// Ask a running broker how it is, or tell it to stop.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The broker's administrative address [default: tcp://127.0.0.1:47293]
    #[arg(short, long, value_name = "ADDRESS", num_args = 0..=1, env = "EVENTMQ_ADMINISTRATIVE_ADDR")]
    addr: Option<Option<Endpoint>>,

    /// How long to wait for an answer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = super::seconds)]
    timeout: Duration,

    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,

    #[command(subcommand)]
    question: Option<Question>,
}

/// Questions and orders to a broker; also the words of a session.
#[derive(Debug, Clone, Subcommand)]
#[command(rename_all = "snake_case")]
pub(super) enum Question {
    /// Counters, and jobs by queue
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
    /// Send a command of the protocol, with frames of its body, and print what comes back
    SendCmd {
        /// The command, such as STATUS
        command: String,
        /// Frames of its body
        body: Vec<String>,
    },
    /// Stop the broker; running jobs get its shutdown_grace to finish
    Shutdown,
}

/// How answers are printed.
#[derive(Debug, Clone, Copy)]
enum Format {
    Tables,
    Json,
}

impl Args {
    fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Tables }
    }

    fn given(&self) -> Option<&Endpoint> {
        self.addr.as_ref().and_then(Option::as_ref)
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    block_on(async {
        let Some(question) = &args.question else {
            return Session::new(args)?.run().await;
        };
        let mut admin = Admin::connect(&address(args.given())?, args.timeout)?;
        print(&ask(&mut admin, question, args.format()).await?)?;
        Ok(ExitCode::SUCCESS)
    })
}

fn address(given: Option<&Endpoint>) -> Result<Endpoint, AdminError> {
    match given {
        Some(endpoint) => Ok(endpoint.clone()),
        None => DEFAULT_ADDRESS.parse().map_err(|error| AdminError::Connect(zmtp::ConnectError::Endpoint(error))),
    }
}

/// The answer to a question, to be printed.
async fn ask(admin: &mut Admin, question: &Question, format: Format) -> Result<String, AdminError> {
    let answer = match question {
        Question::Status => admin.status().await?,
        Question::ShowWorkers => admin.workers().await?,
        Question::ShowSchedulers => admin.schedulers().await?,
        Question::ShowDead => admin.dead().await?,
        Question::RetryDead { msgid } => admin.retry_dead(msgid.clone()).await?,
        Question::SendCmd { command, body } => frames(&admin.send_raw(command, body).await?),
        Question::Shutdown => {
            admin.shut_down().await?;
            json!({ "stopping": true })
        }
    };
    match (format, question) {
        (Format::Json, _) | (_, Question::SendCmd { .. }) => Ok(pretty(&answer)),
        (Format::Tables, Question::Status) => Ok(table::status(&read(answer)?)),
        (Format::Tables, Question::ShowWorkers) => {
            let status = read(admin.status().await?)?;
            Ok(table::workers(&status, &read(answer)?))
        }
        (Format::Tables, Question::ShowSchedulers) => {
            let status = read(admin.status().await?)?;
            Ok(table::schedulers(&status, &read(answer)?))
        }
        (Format::Tables, Question::ShowDead) => Ok(table::dead(&read::<Vec<_>>(answer)?)),
        (Format::Tables, Question::RetryDead { .. }) => {
            Ok(format!("{} jobs run again\n", answer.get("requeued").unwrap_or(&Value::Null)))
        }
        (Format::Tables, Question::Shutdown) => Ok("the broker is stopping\n".to_owned()),
    }
}

fn read<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, AdminError> {
    Ok(serde_json::from_value(answer)?)
}

fn pretty(answer: &Value) -> String {
    // Only a map with keys that are not text could fail here.
    let text = serde_json::to_string_pretty(answer).unwrap_or_default();
    format!("{text}\n")
}

/// Frames as JSON: text where it is text.
fn frames(message: &zmtp::Message) -> Value {
    message.frames().map(|frame| Value::String(String::from_utf8_lossy(frame).into_owned())).collect()
}
