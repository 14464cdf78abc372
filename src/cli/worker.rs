//! `emq worker`: runs a program for each job.

use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use tracing::{debug, info, warn};
use zmtp::Endpoint;

use super::daemon::{self, Daemon, Signals};
use super::{CliError, Logging, print};
use crate::conf::{LogConf, LogFormat, LogLevel, Notice};
use crate::emqp::{QueueName, QueueWeight};
use crate::worker::{Exec, ExecWorker, ExecWorkerBuilder, WorkerHandle};

const EXAMPLES: &str = "\
Examples:
  emq worker --exec images.resize=./resize              ./resize runs each job images.resize
  emq worker --exec 'a.b=jq .args' -Q 20:images default -J 8
  emq worker --exec '*=./anything' --timeout 60         for jobs of every other name

A job's name is its path and its callable, joined by a dot. The program gets the
job as a JSON object on standard input:
  {\"path\": \"images\", \"callable\": \"resize\", \"args\": [..], \"kwargs\": {..}}
and in its environment EMQ_MSGID and EMQ_QUEUE. What it writes to standard output
is the result: JSON, or else a text. An exit status other than 0 fails the job;
what it wrote to standard error is then the error's message, and goes to the log
in any case. PROGRAM is split at blanks, quotes and backslashes as in a shell,
and is run without one.

Signals:
  SIGTERM, SIGINT  stop: running jobs are finished; a second one ends at once

Exit codes:
  0    stopped as asked (SIGTERM, SIGINT)
  1    failed while starting
  2    wrong usage
  130  ended at once by a second SIGINT (143: SIGTERM) while waiting for jobs";

/// Run a program of any language for each job of a name.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Run PROGRAM for each job of that NAME; `*` for jobs of all other names
    #[arg(long = "exec", value_name = "NAME=PROGRAM", required = true)]
    programs: Vec<Exec>,

    /// The broker's backend
    #[arg(
        short = 'B',
        long,
        value_name = "ADDRESS",
        default_value = "tcp://127.0.0.1:47290",
        env = "EVENTMQ_WORKER_ADDR"
    )]
    broker_addr: Endpoint,

    /// Serve these queues, with these weights
    #[arg(short = 'Q', long, value_name = "[WEIGHT:]QUEUE", num_args = 1.., default_value = "default")]
    queues: Vec<Queue>,

    /// Run so many programs at a time
    #[arg(short = 'J', long, value_name = "JOBS", default_value = "4", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,

    /// What the broker shows this worker as; must be unique (without it: a random UUID)
    #[arg(short = 'n', long)]
    name: Option<String>,

    /// How long a job may run that has no timeout of its own
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    timeout: Duration,

    /// How long running jobs may go on once the worker was told to stop
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    shutdown_grace: Duration,

    /// Log this and everything more urgent
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: Level,

    /// Check the flags, show the programs, and exit
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Clone)]
struct Queue(QueueWeight, QueueName);

impl FromStr for Queue {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (weight, name) = match text.split_once(':') {
            Some((weight, name)) => (weight.parse().map_err(|_| "expected WEIGHT:QUEUE, for example 20:email")?, name),
            None => (10, text),
        };
        if name.is_empty() {
            return Err("a queue needs a name");
        }
        Ok(Self(weight, QueueName::copy_from(name.as_bytes())))
    }
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "expected a number of seconds, for example 2.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    if args.check {
        let line = |exec: &Exec| format!("{}  {}\n", exec.name, exec.command.join(" "));
        print(&args.programs.iter().map(line).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let level = match args.log_level {
        Level::Error => LogLevel::Error,
        Level::Warn => LogLevel::Warn,
        Level::Info => LogLevel::Info,
        Level::Debug => LogLevel::Debug,
        Level::Trace => LogLevel::Trace,
    };
    let log = LogConf { level, format: LogFormat::Text, super_debug: false, hide_heartbeats: true };
    let logging = daemon::start_logging(&log, None)?;
    daemon::runtime()?.block_on(start(args, logging))?;
    Ok(ExitCode::SUCCESS)
}

fn worker(args: &Args) -> ExecWorkerBuilder {
    let mut builder = ExecWorker::builder(args.broker_addr.clone())
        .concurrency(usize::from(args.jobs))
        .default_timeout(args.timeout)
        .shutdown_grace(args.shutdown_grace);
    for Queue(weight, name) in &args.queues {
        builder = builder.queue(*weight, name.clone());
    }
    for program in &args.programs {
        builder = builder.program(program.clone());
    }
    match &args.name {
        Some(name) => builder.name(name),
        None => builder,
    }
}

async fn start(args: &Args, logging: Logging) -> Result<(), CliError> {
    let signals = Signals::listen()?;
    let worker = worker(args).build()?;
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), slots = args.jobs, "worker ready");
    let running = Running(worker.handle());
    tokio::select! {
        () = worker.run() => debug!("all programs ended"),
        () = signals.forward(running, logging) => {}
    }
    Ok(())
}

struct Running(WorkerHandle);

impl Daemon for Running {
    fn shutdown(&self) {
        self.0.shutdown();
    }

    fn reload(&self, _: &Logging) -> Result<Vec<Notice>, CliError> {
        warn!("this worker has no settings beside its flags");
        Ok(Vec::new())
    }
}
