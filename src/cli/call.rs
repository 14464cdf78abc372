//! Flags of the commands that talk to a broker as clients: which broker, and what is to be called.

use std::future::Future;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use zmtp::Endpoint;

use super::CliError;
use crate::client::{CallableNameError, Client, ClientBuilder, Job};
use crate::emqp::MsgId;

/// The exit codes of these commands, for their help.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  done: accepted, or with --wait: the job returned
  1  not done, and it will not run: no connection, refused by the broker
  2  wrong usage, or a line that is no job
  3  the job ran and failed (--wait)
  4  not known: sent, but no answer within --timeout; it may run
With many jobs it is the highest of theirs.";

/// Which broker.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct BrokerArgs {
    /// The broker's address for clients
    #[arg(long, value_name = "ADDRESS", env = "EMQ_BROKER_ADDR", default_value = "tcp://127.0.0.1:47291")]
    broker: Endpoint,

    /// How long to wait for the answer [default: 10; with --wait, a result is waited for as long as it takes]
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    timeout: Option<Duration>,
}

impl BrokerArgs {
    /// Time for an acceptance.
    const ACCEPTANCE: Duration = Duration::from_secs(10);

    pub(super) fn builder(&self) -> ClientBuilder {
        let timeout = self.timeout.unwrap_or(Self::ACCEPTANCE);
        Client::builder().acceptance_timeout(timeout).confirmation_timeout(timeout)
    }

    pub(super) fn address(&self) -> &Endpoint {
        &self.broker
    }

    /// As given.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

/// What a job is given, beside its callable.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct JobArgs {
    /// Positional arguments, a JSON array such as '[1, "two"]'
    #[arg(long, value_name = "JSON", value_parser = array)]
    args: Option<Array>,

    /// Named arguments, a JSON object such as '{"to": "a@b.c"}'
    #[arg(long, value_name = "JSON", value_parser = object)]
    kwargs: Option<Object>,

    /// Positional arguments for the class of a method, a JSON array
    #[arg(long, value_name = "JSON", value_parser = array)]
    class_args: Option<Array>,

    /// Named arguments for the class of a method, a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    class_kwargs: Option<Object>,

    /// The queue [default: default]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// Run it again if its worker is lost: at least once instead of at most once
    #[arg(long)]
    guarantee: bool,

    /// Try it so often again after it failed
    #[arg(long, value_name = "TIMES")]
    retry_count: Option<u32>,

    /// How long the job may run; the worker stops it then
    #[arg(long, value_name = "SECONDS")]
    job_timeout: Option<NonZeroU64>,
}

/// A job of a line of JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobLine {
    job: String,
    args: Option<Array>,
    kwargs: Option<Object>,
    class_args: Option<Array>,
    class_kwargs: Option<Object>,
    queue: Option<String>,
    #[serde(default)]
    guarantee: bool,
    retry_count: Option<u32>,
    timeout: Option<NonZeroU64>,
    id: Option<String>,
}

/// A JSON array.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Array(Vec<Value>);

/// A JSON object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Object(Map<String, Value>);

fn array(text: &str) -> Result<Array, String> {
    serde_json::from_str(text).map_err(|error| format!("expected a JSON array such as '[1, \"two\"]': {error}"))
}

fn object(text: &str) -> Result<Object, String> {
    serde_json::from_str(text).map_err(|error| format!("expected a JSON object such as '{{\"a\": 1}}': {error}"))
}

/// A callable's name, as an argument of a command.
pub(super) fn callable(text: &str) -> Result<Job, CallableNameError> {
    text.parse()
}

/// A message id, as an argument of a command.
pub(super) fn msgid(text: &str) -> Result<MsgId, String> {
    MsgId::new(text).map_err(|error| error.to_string())
}

impl JobArgs {
    /// The call of `callable` with all this.
    pub(super) fn job(&self, callable: Job) -> Job {
        let Self { args, kwargs, class_args, class_kwargs, queue, guarantee, retry_count, job_timeout } = self.clone();
        let mut job = callable.args(args.unwrap_or_default().0);
        for (name, value) in kwargs.unwrap_or_default().0 {
            job = job.kwarg(name, value);
        }
        job = class_args.unwrap_or_default().0.into_iter().fold(job, Job::class_arg);
        for (name, value) in class_kwargs.unwrap_or_default().0 {
            job = job.class_kwarg(name, value);
        }
        if let Some(queue) = queue {
            job = job.queue(queue);
        }
        if guarantee {
            job = job.guarantee();
        }
        if let Some(times) = retry_count {
            job = job.retry_count(times);
        }
        match job_timeout {
            Some(limit) => job.timeout(Duration::from_secs(limit.get())),
            None => job,
        }
    }

    /// The job of a line of JSON; what it does not say is as in these flags.
    pub(super) fn job_of_line(&self, line: &[u8]) -> Result<Job, String> {
        let line: JobLine = serde_json::from_slice(line).map_err(|error| format!("no job: {error}"))?;
        let callable: Job = line.job.parse().map_err(|error: CallableNameError| error.to_string())?;
        let flags = self.clone();
        let merged = Self {
            args: line.args.or(flags.args),
            kwargs: line.kwargs.or(flags.kwargs),
            class_args: line.class_args.or(flags.class_args),
            class_kwargs: line.class_kwargs.or(flags.class_kwargs),
            queue: line.queue.or(flags.queue),
            guarantee: line.guarantee || flags.guarantee,
            retry_count: line.retry_count.or(flags.retry_count),
            job_timeout: line.timeout.or(flags.job_timeout),
        };
        let job = merged.job(callable);
        match line.id {
            Some(id) => Ok(job.id(msgid(&id)?)),
            None => Ok(job),
        }
    }
}

/// Runs a command's future on a runtime of its own.
pub(super) fn block_on<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = super::daemon::runtime()?;
    let done = runtime.block_on(future);
    // A thread that waits for a terminal or a pipe is not waited for.
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_more_than_flags() {
        let flags = JobArgs { queue: Some("slow".to_owned()), retry_count: Some(2), ..JobArgs::default() };
        let text = |line: &str| format!("{:?}", flags.job_of_line(line.as_bytes()).unwrap());
        let own =
            text(r#"{"job": "a.b:C.d", "args": [1], "kwargs": {"x": null}, "queue": "fast", "timeout": 5, "id": "i"}"#);
        let same = Job::method("a.b", "C", "d").arg(1).kwarg("x", Value::Null).queue("fast").retry_count(2);
        let same = same.timeout(Duration::from_secs(5)).id(MsgId::new("i").unwrap());
        assert_eq!(own, format!("{same:?}"));
        assert_eq!(text(r#"{"job": "m.f"}"#), format!("{:?}", Job::new("m", "f").queue("slow").retry_count(2)));
    }

    #[test]
    fn a_line_that_is_no_job_says_what_is_wrong() {
        for (line, expected) in [
            ("", "no job: EOF while parsing a value at line 1 column 0"),
            ("[1]", "no job: invalid type: integer `1`, expected a string at line 1 column 2"),
            (r#"{"args": []}"#, "no job: missing field `job` at line 1 column 12"),
            (r#"{"job": "m.f", "arg": []}"#, "no job: unknown field `arg`"),
            (r#"{"job": "m.f", "timeout": 0}"#, "no job: invalid value"),
            (r#"{"job": "f"}"#, "\"f\" names no callable: expected package.module.callable"),
            (r#"{"job": "m.f", "id": ""}"#, "a message id needs at least one byte"),
        ] {
            let error = JobArgs::default().job_of_line(line.as_bytes()).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
    }
}
