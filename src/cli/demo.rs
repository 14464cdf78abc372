//! `emq demo`: a whole system in one process for a few seconds.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zmtp::Endpoint;

use super::call::block_on;
use super::state::Status;
use super::{CliError, print};
use crate::admin::Admin;
use crate::broker::{BrokerConfig, Server, ServerConf};
use crate::client::{CallError, Client, Job};
use crate::worker::{Call, HandlerError, HandlerResult, Worker};

const EXAMPLES: &str = "\
Examples:
  emq demo
  emq demo --seconds 10 --slots 64

Nothing else is needed: broker, worker and client are of this program and talk over
TCP on ports of 127.0.0.1 that are free.";

/// Jobs of one batch.
const BATCH: u64 = 1000;
/// More than any job of the demo should take.
const PATIENCE: Duration = Duration::from_secs(10);

/// See it work: broker, worker and client in one process, running real jobs for a few seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// How long to run jobs in bulk
    #[arg(long, default_value = "3", value_parser = super::seconds)]
    seconds: Duration,

    /// How many jobs the worker runs at a time
    #[arg(long, default_value = "32", value_parser = clap::value_parser!(u16).range(1..))]
    slots: u16,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    block_on(demo(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn demo(args: &Args) -> Result<(), CliError> {
    let any = Endpoint::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    let core = BrokerConfig { retry_backoff: Duration::from_millis(50), ..BrokerConfig::default() };
    let conf = ServerConf { frontend: any.clone(), backend: any.clone(), admin: any, core, ..ServerConf::default() };
    let server = Server::bind(conf).await?;
    let (clients, workers, admin) = (server.frontend().clone(), server.backend().clone(), server.admin().clone());
    let broker = server.handle();
    let running = tokio::spawn(server.run());
    say(&format!("broker  for clients at {clients}, for workers at {workers}"))?;

    let worker = worker(workers, args.slots);
    let hands = worker.handle();
    let working = tokio::spawn(worker.run());
    say(&format!("worker  with {} slots: demo.add, demo.divide, demo.flaky", args.slots))?;

    let client = Client::connect(&clients)?;
    let shown = show(&client, args.seconds, &admin).await;
    client.close().await;
    hands.shutdown();
    working.await.map_err(CliError::Task)?;
    broker.shutdown();
    running.await.map_err(CliError::Task)??;
    shown?;
    say("end     worker and broker have ended; next: emq router, emq worker, emq submit")
}

fn worker(address: Endpoint, slots: u16) -> Worker {
    let attempts = Arc::new(AtomicU32::new(0));
    let flaky = move |_: Call| {
        let attempt = attempts.fetch_add(1, Ordering::Relaxed) + 1;
        async move {
            match attempt {
                1 => Err(HandlerError::new("Unlucky", "it never works at the first attempt")),
                attempt => Ok(attempt),
            }
        }
    };
    let worker = Worker::builder(address).queue(10, "default").concurrency(slots.into());
    worker.handler("demo.add", add).handler("demo.divide", divide).handler("demo.flaky", flaky).build()
}

async fn add(call: Call) -> HandlerResult<u64> {
    Ok(call.arg::<u64>(0, "a")? + call.arg::<u64>(1, "b")?)
}

async fn divide(call: Call) -> HandlerResult<u64> {
    let (a, b): (u64, u64) = (call.arg(0, "a")?, call.arg(1, "b")?);
    a.checked_div(b).ok_or_else(|| HandlerError::new("ZeroDivisionError", "division by zero"))
}

fn job(callable: &str) -> Job {
    Job::new("demo", callable).deadline(PATIENCE)
}

/// What a client sees: a value, a failure, a retry, and many jobs at a time.
async fn show(client: &Client, time: Duration, admin: &Endpoint) -> Result<(), CliError> {
    let began = Instant::now();
    let sum: u64 = client.call(job("add").arg(19).arg(23)).await?;
    say(&format!("client  demo.add(19, 23) returned {sum} after {:.1} ms", milliseconds(began)))?;

    match client.call::<Value>(job("divide").arg(1).arg(0)).await {
        Err(CallError::Failed(failure)) => say(&format!("client  demo.divide(1, 0) failed as it should: {failure}"))?,
        Err(error) => return Err(error.into()),
        Ok(value) => return Err(CliError::Demo(format!("demo.divide(1, 0) returned {value}"))),
    }

    let attempt: u32 = client.call(job("flaky").retry_count(3)).await?;
    say(&format!("client  demo.flaky(), with 3 retries, succeeded at attempt {attempt}"))?;

    say(&format!("client  demo.add in batches of {BATCH}, results awaited, for {} s ...", time.as_secs_f64()))?;
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < time {
        let numbers = done..done + BATCH;
        let results = client.call_all(numbers.clone().map(|n| job("add").arg(n).arg(1))).await;
        for (n, result) in numbers.zip(results) {
            let sum = result?;
            if sum != json!(n + 1) {
                return Err(CliError::Demo(format!("demo.add({n}, 1) returned {sum}")));
            }
        }
        done += BATCH;
    }
    let rate = done as f64 / began.elapsed().as_secs_f64();
    say(&format!("client  {done} jobs done, every result right: {rate:.0} jobs/s"))?;

    let mut alone = Vec::new();
    for n in 0..200_u64 {
        let began = Instant::now();
        client.call::<u64>(job("add").arg(n).arg(1)).await?;
        alone.push(milliseconds(began));
    }
    alone.sort_by(f64::total_cmp);
    say(&format!("client  one job at a time, submit to result: {:.2} ms (median of {})", alone[100], alone.len()))?;

    let status: Status = serde_json::from_value(Admin::connect(admin, PATIENCE)?.status().await?)
        .map_err(crate::admin::AdminError::from)?;
    let Status { accepted, completed, failed, retried, .. } = status;
    say(&format!("broker  accepted {accepted}, completed {completed}, failed {failed}, retried {retried}"))
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

fn say(line: &str) -> Result<(), CliError> {
    print(&format!("{line}\n"))
}
