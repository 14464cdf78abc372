//! `emq submit`: one job, or many as lines of JSON.

mod lines;
mod progress;

use std::process::ExitCode;

use tokio::task::JoinSet;

pub(super) use self::lines::Lines;
use self::progress::Progress;
use super::answer::{Answer, Outcome, Severity};
use super::call::{BrokerArgs, EXIT_CODES, JobArgs, block_on, callable, msgid};
use super::{CliError, print, print_complaint};
use crate::client::{Client, FullQueues, Job, SubmitError};
use crate::emqp::MsgId;

const EXAMPLES: &str = "\
Examples:
  emq submit shop.mail.send_receipt --args '[4711]' --queue email --guarantee
  emq submit shop.tax.total --kwargs '{\"year\": 2026}' --wait --timeout 30
  emq submit shop.mail:Mailer.send --class-args '[\"smtp\"]' --args '[\"a@b.c\"]'
  emq submit - --queue index --wait --json < jobs.jsonl > results.jsonl

Lines of input, all but job optional; flags count for what a line does not say:
  {\"job\": \"shop.index.update\", \"args\": [1], \"kwargs\": {}, \"class_args\": [],
   \"class_kwargs\": {}, \"queue\": \"index\", \"guarantee\": true, \"retry_count\": 3,
   \"timeout\": 30, \"id\": \"my-id\"}

Lines of output with --json, in the order in which jobs end:
  {\"line\": 1, \"id\": \"my-id\", \"outcome\": \"returned\", \"value\": 3}
  {\"line\": 2, \"id\": \"...\", \"outcome\": \"failed\",
   \"error\": {\"type\": \"ValueError\", \"message\": \"no\", \"traceback\": \"...\"}}
Outcomes: accepted, sent, returned, failed, refused, not_sent, unknown, invalid.

Python's emq-router acknowledges a job only if a worker is free for it, and never
passes results on: give it --no-confirm.";

/// Submit a job, or many.
///
/// Prints the job's id once the broker has accepted it; with --wait, what the job returned, as JSON.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Args {
    /// What to call: package.module.callable or package.module:Class.method; - takes jobs from standard input
    #[arg(value_name = "PATH", value_parser = source)]
    source: Source,

    #[command(flatten)]
    job: JobArgs,

    /// The job's message id, instead of a new one
    #[arg(long, value_parser = msgid)]
    id: Option<MsgId>,

    /// Wait for the result
    #[arg(long)]
    wait: bool,

    /// Do not wait for the broker's acceptance
    #[arg(long, conflicts_with = "wait")]
    no_confirm: bool,

    /// Most jobs of standard input under way at a time
    #[arg(long, value_name = "JOBS", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    parallel: u32,

    /// If the queue is full, say so at once instead of waiting for room
    #[arg(long)]
    fail_when_full: bool,

    #[command(flatten)]
    broker: BrokerArgs,

    /// Print a line of JSON for each job
    #[arg(long)]
    json: bool,
}

/// Where jobs come from.
#[derive(Debug, Clone)]
enum Source {
    Callable(Box<Job>),
    Lines,
}

fn source(text: &str) -> Result<Source, String> {
    match text {
        "-" => Ok(Source::Lines),
        text => callable(text).map(|job| Source::Callable(Box::new(job))).map_err(|error| error.to_string()),
    }
}

/// How far a job is followed.
#[derive(Debug, Clone, Copy)]
enum Until {
    Sent,
    Accepted,
    Returned,
}

impl Args {
    fn connect(&self) -> Result<Client, CliError> {
        let full_queues = if self.fail_when_full { FullQueues::Report } else { FullQueues::Wait };
        let builder = self.broker.builder().max_unaccepted(self.parallel as usize).full_queues(full_queues);
        Ok(builder.connect(self.broker.address())?)
    }

    fn until(&self) -> Until {
        match (self.wait, self.no_confirm) {
            (true, _) => Until::Returned,
            (false, true) => Until::Sent,
            (false, false) => Until::Accepted,
        }
    }

    /// A job with the deadline of the command line.
    fn with_deadline(&self, job: Job) -> Job {
        match self.broker.timeout() {
            Some(timeout) => job.deadline(timeout),
            None => job,
        }
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let worst = block_on(async {
        let client = args.connect()?;
        let worst = match &args.source {
            Source::Callable(callable) => one(args, &client, (**callable).clone()).await?,
            Source::Lines => many(args, &client).await?,
        };
        client.close().await;
        Ok(worst)
    })?;
    Ok(ExitCode::from(worst as u8))
}

async fn one(args: &Args, client: &Client, callable: Job) -> Result<Severity, CliError> {
    let mut job = args.with_deadline(args.job.job(callable));
    if let Some(id) = &args.id {
        job = job.id(id.clone());
    }
    let answer = follow(client, job, args.until()).await;
    show(args, &answer, |print| print())?;
    Ok(answer.outcome.severity())
}

/// Jobs of standard input; answers as they come.
async fn many(args: &Args, client: &Client) -> Result<Severity, CliError> {
    if args.id.is_some() {
        return Err(CliError::Usage("--id is for a single job; a line of input has a key id"));
    }
    let mut lines = Lines::of_stdin();
    let mut progress = Progress::new(lines.total_bytes());
    let mut running: JoinSet<Answer> = JoinSet::new();
    let mut worst = Severity::Done;
    let mut open = true;
    while open || !running.is_empty() {
        let answer = tokio::select! {
            Some(done) = running.join_next() => match done {
                Ok(answer) => answer,
                Err(error) => return Err(CliError::Task(error)),
            },
            line = lines.next(), if open && running.len() < args.parallel as usize => {
                let Some(line) = line else {
                    open = false;
                    continue;
                };
                let line = line.map_err(CliError::Input)?;
                progress.read(&line);
                match args.job.job_of_line(&line.text) {
                    Ok(job) => {
                        let (client, job, until) = (client.clone(), args.with_deadline(job), args.until());
                        running.spawn(async move { follow(&client, job, until).await.on_line(Some(line.number)) });
                        continue;
                    }
                    Err(why) => Answer::new(None, Outcome::invalid(why)).on_line(Some(line.number)),
                }
            }
        };
        worst = worst.max(answer.outcome.severity());
        progress.answered(answer.outcome.severity());
        show(args, &answer, |print| progress.aside(print))?;
    }
    progress.finish();
    Ok(worst)
}

/// Submits a job and follows it as far as asked.
async fn follow(client: &Client, job: Job, until: Until) -> Answer {
    let given = job.given_id().cloned();
    let not_taken = |error: SubmitError| Answer::new(error.msgid().cloned().or(given), error.into());
    match until {
        Until::Sent => match client.post(job).await {
            Ok(id) => Answer::new(Some(id), Outcome::Sent),
            Err(error) => not_taken(error),
        },
        Until::Accepted => match client.submit(job).await {
            Ok(id) => Answer::new(Some(id), Outcome::Accepted),
            Err(error) => not_taken(error),
        },
        Until::Returned => match client.start(job).await {
            Ok(handle) => {
                let id = handle.msgid().clone();
                let outcome = handle.await.map_or_else(Outcome::from, |value| Outcome::Returned { value });
                Answer::new(Some(id), outcome)
            }
            Err(error) => not_taken(error),
        },
    }
}

/// Prints an answer; `aside` makes room on the terminal for it.
fn show(
    args: &Args,
    answer: &Answer,
    aside: impl FnOnce(&mut dyn FnMut() -> Result<(), CliError>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let (out, complaint) =
        if args.json { (Some(answer.to_json()), None) } else { (answer.to_text(), answer.complaint()) };
    aside(&mut || {
        complaint.as_deref().map(print_complaint);
        out.as_deref().map_or(Ok(()), print)
    })
}
