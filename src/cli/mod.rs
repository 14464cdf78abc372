//! The command line of `emq`: one file per subcommand, each of flags, one call into the library, and printing.

mod answer;
mod call;
mod config;
mod daemon;
mod demo;
mod jobmanager;
mod logging;
mod mdp;
mod publish;
mod router;
mod schedule;
mod shell;
mod state;
mod submit;
mod subscribe;
mod table;
mod top;
mod unschedule;
mod worker;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};
use thiserror::Error;
use zmtp::{BindError, Endpoint, SubscribeError};

pub use self::mdp::MdpError;
pub use logging::{FILTER_VARIABLE, HEARTBEAT_TARGET, Logging, LoggingError};

use crate::admin::AdminError;
use crate::broker::ServerError;
use crate::client::{CallError, ClientError, PublishError};
use crate::conf::{ConfError, FlagValue, Flags, Kind, Notice, Program, Urgency, settings};
use crate::jobmanager::JobManagerError;
use crate::worker::WorkerError;

const ABOUT: &str = "EventMQ job broker";

const EXIT_CODES: &str = "\
Exit codes:
  0    done, or stopped as asked (SIGTERM, SIGINT, emq-cli shutdown)
  1    failed while starting or running, for example: address in use
  2    wrong usage, or settings that cannot be used
  130  ended at once by a second SIGINT (143: SIGTERM) while waiting for jobs";

const EXAMPLES: &str = "\
Examples:
  emq demo                           see broker, worker and client at work for a few seconds
  emq router                         run the broker with /etc/eventmq.conf, if it exists
  emq router -C eventmq.conf         run it with another conf file
  emq jobmanager                     run Python jobs for it
  emq worker --exec resize=./resize  run a program for each job of a name
  emq config router                  show every setting in force and where it comes from
  emq submit shop.tax.total --wait   have a job done and print what it returns
  emq cli status                     ask a running broker how it is
  emq top                            watch its queues and workers
  emq mdp broker                     run a Majordomo broker (MDP/0.1 and 0.2)
  emq router --help                  all flags and settings

Called as emq-router (a link to this program) it is emq router, and so for the others.";

/// EventMQ: jobs from clients to workers over ZeroMQ's protocol.
#[derive(Debug, Parser)]
#[command(name = "emq", version, about = ABOUT, propagate_version = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Router(router::Args),
    Submit(submit::Args),
    Schedule(schedule::Args),
    Unschedule(unschedule::Args),
    Publish(publish::Args),
    Subscribe(subscribe::Args),
    #[command(name = "jobmanager")]
    JobManager(jobmanager::Args),
    Worker(worker::Args),
    #[command(name = "cli")]
    Shell(shell::Args),
    Top(top::Args),
    Config(config::Args),
    Mdp(mdp::Args),
}

/// Why the program ends before its time.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CliError {
    /// Settings that cannot be used.
    #[error(transparent)]
    Conf(#[from] ConfError),
    /// The log could not be set up.
    #[error(transparent)]
    Logging(#[from] LoggingError),
    /// `--set` without `=`.
    #[error("--set {given}: expected KEY=VALUE, for example --set hwm=20000")]
    BadAssignment {
        /// What was given.
        given: String,
    },
    /// The system refused what every run needs.
    #[error("cannot start: {what}: {source}")]
    System {
        /// What was asked of it.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// Nothing can be printed; a reader that went away is not an error.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
    /// The broker ended with an error.
    #[error("{}{}", .0, advice(.0))]
    Run(#[from] ServerError),
    /// A broker did not answer.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// There is no way to a broker.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Arguments that do not go together.
    #[error("{0}")]
    Usage(&'static str),
    /// A job that should have returned did not.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The demo did not do what it shows.
    #[error("this should not happen: {0}")]
    Demo(String),
    /// Standard input cannot be read.
    #[error("cannot read standard input: {0}")]
    Input(#[source] io::Error),
    /// A task ended without its result.
    #[error("internal error: {0}")]
    Task(#[source] tokio::task::JoinError),
    /// No pub/sub device was reached.
    #[error("no pub/sub device at {endpoint} within {} s", after.as_secs_f64())]
    NoDevice {
        /// Its address.
        endpoint: Endpoint,
        /// How long it was tried.
        after: Duration,
    },
    /// A pub/sub device is not reached any more.
    #[error("the connection is closed")]
    DeviceClosed,
    /// A message could not be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A topic cannot be subscribed to.
    #[error(transparent)]
    Topic(#[from] SubscribeError),
    /// The terminal cannot be used.
    #[error("cannot use the terminal: {0}")]
    Terminal(#[source] io::Error),
    /// The line editor failed.
    #[error("cannot read a line: {0}")]
    LineEditor(#[from] rustyline::error::ReadlineError),
    /// The job manager could not start.
    #[error(transparent)]
    JobManager(#[from] JobManagerError),
    /// A worker could not start.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// A Majordomo program ended with an error.
    #[error("{}{}", .0, .0.bind().map_or("", bind_advice))]
    Mdp(#[from] MdpError),
}

/// What to do about a start that failed.
fn advice(error: &ServerError) -> &'static str {
    let ServerError::Bind(error) = error else { return "" };
    bind_advice(error)
}

/// What to do about an address that cannot be listened on.
fn bind_advice(error: &BindError) -> &'static str {
    let BindError::Io { source, .. } = error else { return "" };
    match source.kind() {
        io::ErrorKind::AddrInUse => "; is another broker (emq-router) still running there?",
        io::ErrorKind::AddrNotAvailable => "; no interface of this machine has that address",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need privileges",
        _ => "",
    }
}

impl CliError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Conf(_)
            | Self::Logging(LoggingError::Filter { .. })
            | Self::BadAssignment { .. }
            | Self::Usage(_)
            | Self::Topic(_) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}

/// Runs the program with the arguments of its process, its own name first.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(by_name(arguments.into_iter().collect())) {
        Ok(cli) => cli,
        Err(answer) => {
            // Help and version are answers too; they go to standard output with exit code 0.
            let _ = answer.print();
            return ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2));
        }
    };
    let done = match &cli.command {
        Command::Demo(args) => demo::run(args),
        Command::Router(args) => router::run(args),
        Command::Submit(args) => submit::run(args),
        Command::Schedule(args) => schedule::run(args),
        Command::Unschedule(args) => unschedule::run(args),
        Command::Publish(args) => publish::run(args),
        Command::Subscribe(args) => subscribe::run(args),
        Command::JobManager(args) => jobmanager::run(args),
        Command::Worker(args) => worker::run(args),
        Command::Shell(args) => shell::run(args),
        Command::Top(args) => top::run(args),
        Command::Config(args) => config::run(args),
        Command::Mdp(args) => mdp::run(args),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            print_complaint(&error.to_string());
            error.exit_code()
        }
    }
}

/// `emq-router ...` is `emq router ...`, and so for every subcommand.
fn by_name(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
    let subcommand = name.and_then(|name| name.strip_prefix("emq-")).map(str::to_owned);
    let known = |name: &String| Cli::command().get_subcommands().any(|known| known.get_name() == name);
    if let Some(subcommand) = subcommand.filter(known) {
        arguments.insert(1, subcommand.into());
    }
    arguments
}

/// Flags about settings that every subcommand with settings has.
#[derive(Debug, clap::Args)]
struct SettingFlags {
    /// Read this conf file (without FILE: the default one)
    #[arg(short = 'C', long, value_name = "FILE", num_args = 0..=1)]
    config: Option<Option<OsString>>,

    /// Set any setting, before environment and conf file; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl SettingFlags {
    fn flags(&self) -> Result<Flags, CliError> {
        let assignment = |given: &String| match given.split_once('=') {
            Some((key, value)) => {
                let key = key.trim();
                Ok(FlagValue { flag: format!("--set {key}"), key: key.to_owned(), value: value.trim().to_owned() })
            }
            None => Err(CliError::BadAssignment { given: given.clone() }),
        };
        let values = self.set.iter().map(assignment).collect::<Result<_, _>>()?;
        // An empty name is none, as in Python.
        let config = self.config.clone().flatten().filter(|path| !path.is_empty()).map(PathBuf::from);
        Ok(Flags { config, values })
    }

    /// These and a program's own flags: name, key and value, if one was given. Its own ones come last and count.
    fn flags_and(&self, own: &[(&str, &str, Option<&String>)]) -> Result<Flags, CliError> {
        let mut flags = self.flags()?;
        let given = |(flag, key, value): &(&str, &str, Option<&String>)| {
            Some(FlagValue { flag: (*flag).to_owned(), key: (*key).to_owned(), value: value.cloned()? })
        };
        flags.values.extend(own.iter().filter_map(given));
        Ok(flags)
    }
}

/// Prints to standard output; a reader that has seen enough (`| head`) is no error.
fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(()),
    }
}

/// Says on standard error what is wrong.
fn print_complaint(text: &str) {
    for line in text.lines() {
        let _ = writeln!(io::stderr(), "emq: {line}");
    }
}

/// A number of seconds, as an argument of a command.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "expected a number of seconds, for example 2.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Prints notices to standard error, for commands that do not log.
fn print_notices(notices: &[Notice]) {
    let mut out = io::stderr().lock();
    for notice in notices {
        let word = match notice.urgency() {
            Urgency::Warning => "warning",
            Urgency::Info | Urgency::Detail => "note",
        };
        let _ = writeln!(out, "{word}: {notice}");
    }
}

/// The settings of a program as a part of its help.
fn settings_help(program: Program) -> String {
    let mut help = String::from(
        "Settings: keys of the conf file, EVENTMQ_<KEY> in the environment, or --set KEY=VALUE.\n\
         The first of these counts: flag, environment, own section, [global], default.\n",
    );
    for setting in settings::TABLE.iter().filter(|setting| setting.matters_to(program)) {
        let default = match (setting.kind, setting.default) {
            (Kind::Secret, _) | (_, "") => "none",
            (_, default) => default,
        };
        help.push_str(&format!("\n  {} <{}> [default: {default}]\n", setting.name, setting.kind));
        for line in wrap(setting.help, 74) {
            help.push_str(&format!("      {line}\n"));
        }
    }
    help
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_programs_name_chooses_the_subcommand() {
        let by_name = |line: &str| by_name(line.split(' ').map(OsString::from).collect());
        assert_eq!(by_name("/usr/bin/emq-router -C x"), ["/usr/bin/emq-router", "router", "-C", "x"]);
        assert_eq!(by_name("emq router"), ["emq", "router"]);
        assert_eq!(by_name("emq-nothing x"), ["emq-nothing", "x"]);
    }
}
