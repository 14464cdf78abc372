//! `emq schedule`: have a job run again and again.

use std::num::NonZeroU64;
use std::process::ExitCode;
use std::time::Duration;

use super::answer::{Answer, Outcome};
use super::call::{BrokerArgs, EXIT_CODES, JobArgs, block_on, callable};
use super::{CliError, print, print_complaint};
use crate::client::{Confirmation, Failure, Job, Schedule, SubmitError};

const EXAMPLES: &str = "\
Examples:
  emq schedule shop.jobs.clean_up --every 300
  emq schedule shop.jobs.report --cron '0 6 * * 1-5' --later --queue slow
  emq schedule shop.jobs.remind --every 60 --run-count 3 --args '[4711]'

The same call scheduled again replaces the former schedule. Python's router and
scheduler confirm nothing: with them give --no-confirm, or expect exit code 4.";

/// Have a job run again and again.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
#[command(group = clap::ArgGroup::new("period").required(true))]
pub(super) struct Args {
    /// What to call: package.module.callable or package.module:Class.method
    #[arg(value_name = "PATH", value_parser = callable)]
    callable: Job,

    /// Run it so often, in whole seconds
    #[arg(long, value_name = "SECONDS", group = "period")]
    every: Option<NonZeroU64>,

    /// Run it when this says: minute, hour, day of month, month, day of week
    #[arg(long, value_name = "EXPRESSION", group = "period")]
    cron: Option<String>,

    /// End after so many runs
    #[arg(long, value_name = "RUNS")]
    run_count: Option<NonZeroU64>,

    /// Do not also run it at once
    #[arg(long)]
    later: bool,

    #[command(flatten)]
    job: JobArgs,

    #[command(flatten)]
    confirm: ConfirmArgs,
}

/// What counts as success, and how it is told.
#[derive(Debug, clap::Args)]
pub(super) struct ConfirmArgs {
    /// Silence of the broker within --timeout is success
    #[arg(long)]
    no_confirm: bool,

    #[command(flatten)]
    broker: BrokerArgs,

    /// Print a line of JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let job = args.job.job(args.callable.clone());
    let mut schedule = match (&args.every, &args.cron) {
        (Some(seconds), _) => Schedule::every(Duration::from_secs(seconds.get()), job),
        (None, Some(expression)) => Schedule::cron(expression, job),
        (None, None) => return Err(CliError::Usage("give --every or --cron")),
    };
    if args.later {
        schedule = schedule.later();
    }
    if let Some(runs) = args.run_count {
        schedule = schedule.run_count(runs.get());
    }
    args.confirm.run(async |client| client.schedule(schedule).await)
}

impl ConfirmArgs {
    /// Connects, does it, and tells what became of it.
    pub(super) fn run(
        &self,
        what: impl AsyncFnOnce(&crate::client::Client) -> Result<Confirmation, SubmitError>,
    ) -> Result<ExitCode, CliError> {
        let done = block_on(async {
            let client = self.broker.builder().connect(self.broker.address())?;
            let done = what(&client).await;
            client.close().await;
            Ok(done)
        })?;
        let answer = Answer::new(None, self.outcome(done));
        if self.json {
            print(&answer.to_json())?;
        } else if let Some(complaint) = answer.complaint() {
            print_complaint(&complaint);
        }
        Ok(ExitCode::from(answer.outcome.severity() as u8))
    }

    fn outcome(&self, done: Result<Confirmation, SubmitError>) -> Outcome {
        match done {
            Ok(Confirmation::Confirmed) => Outcome::Accepted,
            Ok(Confirmation::Unconfirmed) if self.no_confirm => Outcome::Sent,
            Ok(Confirmation::Unconfirmed) => Outcome::Unknown {
                error: Failure {
                    kind: "Unconfirmed".to_owned(),
                    message: "sent, but nobody confirmed it in time (Python's router and scheduler never do)"
                        .to_owned(),
                    traceback: None,
                },
            },
            Err(error) => error.into(),
        }
    }
}
