//! `emq mdp broker`.

use std::num::NonZeroU32;
use std::time::Duration;

use tracing::info;
use zmtp::Endpoint;

use super::super::{CliError, EXIT_CODES, print};
use super::{Limit, MdpError, Stop, seconds, seconds_or_none, start_log};
use crate::conf::{LogFormat, LogLevel};
use crate::mdp::Broker;
use crate::mdp::core::{BridgeConfig, Bridging, BrokerConfig};

const EXAMPLES: &str = "\
Examples:
  emq mdp broker                                 on tcp://127.0.0.1:5555
  emq mdp broker --bind tcp://*:5555 --bind ipc:///run/mdp.sock
  emq mdp broker --heartbeat 1 --expiry 60
  emq mdp broker --bridge tcp://127.0.0.1:47291  requests for emq.email become
                                                 jobs on the queue \"email\"

A request for emq.QUEUE has one frame, the job's message, or two, headers and
message; its reply is the job's result. A client that asks again submits the
job again: give it a timeout that is longer than the job.

SIGTERM and SIGINT stop it: requests in hand get 5 s to end. --json prints the
counters at the end on standard output, one object:
  {\"requests\": 3, \"dispatched\": 3, \"replies\": 3, ...}";

/// Run a broker: passes requests for services on to their workers.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Args {
    /// Listen here for clients and workers; may be repeated
    #[arg(long, value_name = "ADDRESS", default_value = "tcp://127.0.0.1:5555")]
    bind: Vec<Endpoint>,

    /// Pause between heartbeats to workers; workers must be set alike
    #[arg(long, value_name = "SECONDS", default_value = "2.5", value_parser = seconds)]
    heartbeat: Duration,

    /// Silent intervals after which an idle worker counts as dead
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    liveness: u32,

    /// Longest wait of a request for a worker; 0: for ever
    #[arg(long, value_name = "SECONDS", default_value = "7.5", value_parser = seconds_or_none)]
    expiry: Limit,

    /// Longest time a worker may have a request; 0: as long as it likes
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds_or_none)]
    reply_timeout: Limit,

    /// Most workers a request is given to when they are lost with it
    #[arg(long, value_name = "N", default_value = "3")]
    max_attempts: NonZeroU32,

    /// Most requests waiting for one service; then the oldest is dropped
    #[arg(long, value_name = "N", default_value = "1000000")]
    max_waiting: usize,

    /// Most bytes of requests waiting for one service
    #[arg(long, value_name = "BYTES", default_value = "268435456")]
    max_waiting_bytes: usize,

    /// Make requests for emq.QUEUE jobs of the eMQP broker with this frontend
    #[arg(long, value_name = "ADDRESS")]
    bridge: Option<Endpoint>,

    /// How long the result of such a job is awaited
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds, requires = "bridge")]
    job_timeout: Duration,

    /// Log as JSON, and print the counters as JSON at the end
    #[arg(long)]
    json: bool,
}

impl Args {
    fn config(&self) -> BrokerConfig {
        let job_timeout = self.job_timeout;
        let bridge = match self.bridge {
            Some(_) => Bridging::On(BridgeConfig { job_timeout, ..BridgeConfig::default() }),
            None => Bridging::Off,
        };
        BrokerConfig {
            heartbeat_interval: self.heartbeat,
            heartbeat_liveness: self.liveness,
            request_expiry: self.expiry.0,
            reply_timeout: self.reply_timeout.0,
            max_attempts: self.max_attempts,
            max_waiting: self.max_waiting,
            max_waiting_bytes: self.max_waiting_bytes,
            bridge,
            ..BrokerConfig::default()
        }
    }
}

pub(super) async fn run(args: &Args) -> Result<(), CliError> {
    start_log(LogLevel::Info, if args.json { LogFormat::Json } else { LogFormat::Text })?;
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let stop = Stop::listen()?;
    let builder = args.bind.iter().cloned().fold(Broker::builder(), |builder, endpoint| builder.bind(endpoint));
    let builder = args.bridge.iter().cloned().fold(builder, |builder, frontend| builder.bridge(frontend));
    let broker = builder.config(args.config()).start().await.map_err(MdpError::from)?;
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "broker ready");
    let counters = broker.run_until(stop.asked()).await;
    if args.json {
        // Numbers alone cannot fail to be written.
        print(&format!("{}\n", serde_json::to_string(&counters).unwrap_or_default()))?;
    } else {
        info!(?counters, "ended");
    }
    Ok(())
}
