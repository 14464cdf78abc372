//! `emq mdp worker`.

use std::convert::Infallible;
use std::time::Duration;

use tracing::info;
use zmtp::Endpoint;

use super::super::{CliError, EXIT_CODES, print};
use super::{MdpError, Stop, VersionArg, exec, seconds, start_log};
use crate::conf::{LogFormat, LogLevel};
use crate::mdp::{ServiceName, Worker};

const EXAMPLES: &str = "\
Examples:
  emq mdp worker echo                       answers with what it is asked
  emq mdp worker upper --exec tr a-z A-Z    runs the program for each request
  emq mdp worker count --addr tcp://10.0.0.5:5555 --exec wc -c

The program gets the frames of the request, one after another, on standard
input; what it prints is the reply, one frame. If it fails, the broker gives
the request to another worker, up to its --max-attempts.

SIGTERM and SIGINT stop it: the request it has is finished first. --json prints
the number of requests at the end on standard output: {\"served\": 3, \"failed\": 0}";

/// Run a worker: serves a service with a program, or echoes.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Args {
    /// The service to serve: 1 to 255 bytes
    service: ServiceName,

    /// The broker's address
    #[arg(short, long, value_name = "ADDRESS", default_value = "tcp://127.0.0.1:5555")]
    addr: Endpoint,

    /// The protocol's version
    #[arg(long, value_name = "VERSION", default_value = "0.1")]
    mdp: VersionArg,

    /// Pause between heartbeats; the broker must be set alike
    #[arg(long, value_name = "SECONDS", default_value = "2.5", value_parser = seconds)]
    heartbeat: Duration,

    /// Silent intervals after which the broker counts as dead
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    liveness: u32,

    /// Pause before a broker that counts as dead is tried again
    #[arg(long, value_name = "SECONDS", default_value = "2.5", value_parser = seconds)]
    reconnect: Duration,

    /// Log as JSON, and print what was done as JSON at the end
    #[arg(long)]
    json: bool,

    /// The program that serves, and its arguments; comes last
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true)]
    exec: Vec<String>,
}

pub(super) async fn run(args: &Args) -> Result<(), CliError> {
    start_log(LogLevel::Info, if args.json { LogFormat::Json } else { LogFormat::Text })?;
    let stop = Stop::listen()?;
    let mut worker = Worker::builder(args.addr.clone())
        .version(args.mdp.into())
        .heartbeat(args.heartbeat)
        .liveness(args.liveness)
        .reconnect(args.reconnect)
        .connect(args.service.clone())
        .map_err(MdpError::from)?;
    info!(service = %args.service, broker = %args.addr, "worker ready");
    let handle = worker.handle();
    tokio::spawn(async move {
        stop.asked().await;
        handle.close();
    });
    let (mut served, mut failed) = (0u64, 0u64);
    if args.exec.is_empty() {
        worker
            .serve(async |body| {
                served += 1;
                Ok::<_, Infallible>(body)
            })
            .await;
    } else {
        worker
            .serve(async |body| {
                let done = exec::run(&args.exec, &body).await;
                *if done.is_ok() { &mut served } else { &mut failed } += 1;
                done
            })
            .await;
    }
    worker.close().await;
    if args.json {
        print(&format!("{}\n", serde_json::json!({ "served": served, "failed": failed })))?;
    } else {
        info!(served, failed, "ended");
    }
    Ok(())
}
