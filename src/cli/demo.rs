//! `emq demo`: a whole system in one process for a few seconds.

use std::borrow::Cow;
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
use crate::broker::{BrokerConfig, ServerConf};
use crate::client::{CallError, Client, Confirmation, Job, Publisher, Schedule, Subscriber};
use crate::emqp::{PeerKind, QueueList};
use crate::pubsub::DeviceConf;
use crate::scheduler::{self, AbsentStore, MemoryStore, SchedulerConfig};
use crate::serve::{BuiltinScheduler, Need, Serve, ServeConf};
use crate::session::{SessionConfig, WireOptions};
use crate::worker::{Call, HandlerError, HandlerResult, Worker};

const EXAMPLES: &str = "\
Examples:
  emq demo
  emq demo --seconds 10 --slots 64

Nothing else is needed: broker, scheduler, publisher, worker and client are of this
program and talk over TCP on ports of 127.0.0.1 that are free.";

/// Jobs of one batch.
const BATCH: u64 = 1000;
/// Runs of its schedule.
const TICKS: u64 = 2;
/// More than any job of the demo should take.
const PATIENCE: Duration = Duration::from_secs(10);

/// See it work: broker, scheduler, publisher, worker and client in one process, running real jobs for a few seconds.
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

/// Where everything listens.
struct Addresses {
    clients: Endpoint,
    workers: Endpoint,
    admin: Endpoint,
    publishers: Endpoint,
    subscribers: Endpoint,
}

async fn demo(args: &Args) -> Result<(), CliError> {
    let serve = Serve::bind(everything()).await?;
    let device = serve.publisher().ok_or_else(|| CliError::Demo("there is no publisher".to_owned()))?;
    let at = Addresses {
        clients: serve.broker().frontend().clone(),
        workers: serve.broker().backend().clone(),
        admin: serve.broker().admin().clone(),
        publishers: device.incoming().clone(),
        subscribers: device.outgoing().clone(),
    };
    let broker = serve.broker().handle();
    let running = tokio::spawn(serve.run());
    say(&format!("serve   broker for clients at {}, for workers at {}; scheduler", at.clients, at.workers))?;
    say(&format!(
        "serve   publisher for those who publish at {}, for subscribers at {}",
        at.publishers, at.subscribers
    ))?;

    let worker = worker(&at, args.slots)?;
    let hands = worker.handle();
    let working = tokio::spawn(worker.run());
    say(&format!("worker  with {} slots: demo.add, demo.divide, demo.flaky, demo.tick", args.slots))?;

    let client = Client::connect(&at.clients)?;
    let shown = show(&client, args.seconds, &at).await;
    client.close().await;
    hands.shutdown();
    working.await.map_err(CliError::Task)?;
    broker.shutdown();
    running.await.map_err(CliError::Task)??;
    shown?;
    say("end     all of it has ended; next: emq serve, emq worker, emq submit")
}

/// Broker, scheduler and publisher on ports that are free; schedules are kept in memory.
fn everything() -> ServeConf {
    let any = Endpoint::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    let core = BrokerConfig { retry_backoff: Duration::from_millis(50), ..BrokerConfig::default() };
    let broker =
        ServerConf { frontend: any.clone(), backend: any.clone(), admin: any.clone(), core, ..ServerConf::default() };
    let conf = scheduler::ServerConf {
        session: SessionConfig::new(PeerKind::Scheduler, QueueList::Configured, any.clone()),
        wire: WireOptions::default(),
        core: SchedulerConfig::default(),
        control: None,
        absent_store: AbsentStore::Fail,
    };
    ServeConf {
        broker,
        scheduler: Some(BuiltinScheduler { conf, store: Box::new(MemoryStore::default()), need: Need::Required }),
        publisher: Some(DeviceConf { incoming: any.clone(), outgoing: any, ..DeviceConf::default() }),
    }
}

fn worker(at: &Addresses, slots: u16) -> Result<Worker, CliError> {
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
    let (publisher, ticks) = (Arc::new(Publisher::connect(&at.publishers)?), Arc::new(AtomicU32::new(0)));
    let tick = move |_: Call| {
        let (publisher, tick) = (publisher.clone(), ticks.fetch_add(1, Ordering::Relaxed) + 1);
        async move {
            let published = publisher.publish("demo.ticks", format!("tick {tick}")).await;
            published.map_err(|error| HandlerError::new("PublishError", error.to_string()))
        }
    };
    let worker = Worker::builder(at.workers.clone()).queue(10, "default").concurrency(slots.into());
    let worker = worker.handler("demo.add", add).handler("demo.divide", divide);
    Ok(worker.handler("demo.flaky", flaky).handler("demo.tick", tick).build())
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

/// What a client sees: jobs, one by one and many at a time, and meanwhile a schedule and what is published.
async fn show(client: &Client, time: Duration, at: &Addresses) -> Result<(), CliError> {
    jobs(client).await?;
    let mut subscriber = subscribe(at).await?;
    schedule(client).await?;
    bulk(client, time).await?;
    alone(client).await?;
    ticks(&mut subscriber).await?;

    let status: Status = serde_json::from_value(Admin::connect(&at.admin, PATIENCE)?.status().await?)
        .map_err(crate::admin::AdminError::from)?;
    let Status { accepted, completed, failed, retried, .. } = status;
    say(&format!("broker  accepted {accepted}, completed {completed}, failed {failed}, retried {retried}"))
}

/// A value, a failure, a retry.
async fn jobs(client: &Client) -> Result<(), CliError> {
    let began = Instant::now();
    let sum: u64 = client.call(job("add").arg(19).arg(23)).await?;
    say(&format!("client  demo.add(19, 23) returned {sum} after {:.1} ms", milliseconds(began)))?;

    match client.call::<Value>(job("divide").arg(1).arg(0)).await {
        Err(CallError::Failed(failure)) => say(&format!("client  demo.divide(1, 0) failed as it should: {failure}"))?,
        Err(error) => return Err(error.into()),
        Ok(value) => return Err(CliError::Demo(format!("demo.divide(1, 0) returned {value}"))),
    }

    let attempt: u32 = client.call(job("flaky").retry_count(3)).await?;
    say(&format!("client  demo.flaky(), with 3 retries, succeeded at attempt {attempt}"))
}

/// Subscribes, and publishes until what is published comes back: a device does not say when a subscription has arrived.
async fn subscribe(at: &Addresses) -> Result<Subscriber, CliError> {
    let (publisher, mut subscriber) = (Publisher::connect(&at.publishers)?, Subscriber::connect(&at.subscribers)?);
    subscriber.subscribe("demo.")?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        publisher.publish("demo.news", "hello").await?;
        if let Ok(publication) = tokio::time::timeout(Duration::from_millis(50), subscriber.recv()).await {
            let publication = publication.map_err(|_| CliError::DeviceClosed)?;
            let (topic, payload) = (text(&publication.topic), text(&publication.payload));
            say(&format!("client  published to topic {topic}; a subscriber of demo. received: {payload}"))?;
            publisher.close().await;
            return Ok(subscriber);
        }
    }
    Err(CliError::Demo(format!("nothing that is published arrived within {} s", PATIENCE.as_secs())))
}

async fn schedule(client: &Client) -> Result<(), CliError> {
    let every = Schedule::every(Duration::from_secs(1), job("tick")).run_count(TICKS);
    match client.schedule(every).await.map_err(CallError::from)? {
        Confirmation::Confirmed => {
            say(&format!("client  demo.tick, which publishes, is scheduled every second, {TICKS} times"))
        }
        other => Err(CliError::Demo(format!("the schedule was not confirmed: {other:?}"))),
    }
}

/// What the scheduled jobs published.
async fn ticks(subscriber: &mut Subscriber) -> Result<(), CliError> {
    let mut seen = 0;
    while seen < TICKS {
        let publication = tokio::time::timeout(PATIENCE, subscriber.recv()).await;
        let publication = publication.map_err(|_| CliError::Demo("a scheduled job did not publish".to_owned()))?;
        let publication = publication.map_err(|_| CliError::DeviceClosed)?;
        if &publication.topic[..] == b"demo.ticks" {
            seen += 1;
            say(&format!("client  the schedule ran demo.tick, a subscriber received: {}", text(&publication.payload)))?;
        }
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Many jobs at a time.
async fn bulk(client: &Client, time: Duration) -> Result<(), CliError> {
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
    say(&format!("client  {done} jobs done, every result right: {rate:.0} jobs/s"))
}

/// One job at a time.
async fn alone(client: &Client) -> Result<(), CliError> {
    let mut alone = Vec::new();
    for n in 0..200_u64 {
        let began = Instant::now();
        client.call::<u64>(job("add").arg(n).arg(1)).await?;
        alone.push(milliseconds(began));
    }
    alone.sort_by(f64::total_cmp);
    say(&format!("client  one job at a time, submit to result: {:.2} ms (median of {})", alone[100], alone.len()))
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

fn say(line: &str) -> Result<(), CliError> {
    print(&format!("{line}\n"))
}
