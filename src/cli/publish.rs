//! `emq publish`: a message for all who subscribe to a topic.

use std::process::ExitCode;
use std::time::Duration;

use zmtp::Endpoint;

use super::CliError;
use super::call::block_on;
use super::submit::Lines;
use crate::client::Publisher;

const EXAMPLES: &str = "\
Examples:
  emq publish orders.new '{\"id\": 4711}'
  tail -f events.log | emq publish events

Exit code 1 says that no device was there. A device acknowledges nothing: who is
subscribed at that moment gets the message.";

/// Publish a message through a pub/sub device.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// What it is published under; subscribers choose by the beginning
    topic: String,

    /// The message; without it, each line of standard input is one
    message: Option<String>,

    /// The device's address for publishers
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "EVENTMQ_PUBLISHER_INCOMING_ADDR",
        default_value = "tcp://127.0.0.1:47298"
    )]
    addr: Endpoint,

    /// How long to wait for the device
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = super::seconds)]
    timeout: Duration,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    block_on(publish(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn publish(args: &Args) -> Result<(), CliError> {
    let mut publisher = Publisher::connect(&args.addr)?;
    match tokio::time::timeout(args.timeout, publisher.connected()).await {
        Ok(connected) => connected?,
        Err(_) => return Err(CliError::NoDevice { endpoint: args.addr.clone(), after: args.timeout }),
    }
    match &args.message {
        Some(message) => publisher.publish(&args.topic, message).await?,
        None => {
            let mut lines = Lines::of_stdin();
            while let Some(line) = lines.next().await {
                publisher.publish(&args.topic, line.map_err(CliError::Input)?.text).await?;
            }
        }
    }
    publisher.close().await;
    Ok(())
}
