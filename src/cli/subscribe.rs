//! `emq subscribe`: prints what is published.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use zmtp::Endpoint;

use super::CliError;
use super::call::block_on;
use crate::client::{Publication, Subscriber};

const EXAMPLES: &str = "\
Examples:
  emq subscribe                            everything, as topic, a tab, message
  emq subscribe orders. invoices.          topics that begin so
  emq subscribe orders. --count 1 --timeout 30 --json

Lines with --json; a message that is no UTF-8 is given as hex:
  {\"topic\": \"orders.new\", \"message\": \"{\\\"id\\\": 4711}\"}
  {\"topic\": \"orders.raw\", \"hex\": \"ff00\"}

Exit code 4 says that --timeout was over before --count messages were there.";

/// Print what is published through a pub/sub device.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Topics; each stands for all that begin with it. Without any: everything
    topics: Vec<String>,

    /// End after so many messages
    #[arg(long, value_name = "MESSAGES")]
    count: Option<u64>,

    /// End after so long
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    timeout: Option<Duration>,

    /// The device's address for subscribers
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "EVENTMQ_PUBLISHER_OUTGOING_ADDR",
        default_value = "tcp://127.0.0.1:47299"
    )]
    addr: Endpoint,

    /// Print a line of JSON for each message
    #[arg(long)]
    json: bool,
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    topic: String,
    #[serde(flatten)]
    payload: Payload,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Payload {
    Message(String),
    Hex(String),
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    block_on(subscribe(args))
}

async fn subscribe(args: &Args) -> Result<ExitCode, CliError> {
    let mut subscriber = Subscriber::connect(&args.addr)?;
    let everything = [String::new()];
    let topics = if args.topics.is_empty() { &everything[..] } else { &args.topics };
    for topic in topics {
        subscriber.subscribe(topic)?;
    }
    let deadline = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut seen = 0;
    while args.count.is_none_or(|count| seen < count) {
        let publication = tokio::select! {
            publication = subscriber.recv() => publication.map_err(|_| CliError::DeviceClosed)?,
            () = until(deadline) => return Ok(if args.count.is_some() { ExitCode::from(4) } else { ExitCode::SUCCESS }),
        };
        seen += 1;
        let line = if args.json { json(&publication) } else { text(&publication) };
        let mut out = io::stdout().lock();
        match out.write_all(&line).and_then(|()| out.flush()) {
            // Who has seen enough is not an error, but the end.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written.map_err(CliError::Output)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn text(publication: &Publication) -> Vec<u8> {
    [&publication.topic[..], b"\t", &publication.payload, b"\n"].concat()
}

fn json(publication: &Publication) -> Vec<u8> {
    let payload = match std::str::from_utf8(&publication.payload) {
        Ok(text) => Payload::Message(text.to_owned()),
        Err(_) => Payload::Hex(publication.payload.iter().fold(String::new(), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })),
    };
    let topic = String::from_utf8_lossy(&publication.topic).into_owned();
    // Two strings can always be written.
    let mut line = serde_json::to_vec(&Report { topic, payload }).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn lines_are_as_documented() {
        let publication = |payload: &'static [u8]| Publication {
            topic: Bytes::from_static(b"orders.new"),
            payload: Bytes::from_static(payload),
        };
        assert_eq!(text(&publication(b"\xff x")), b"orders.new\t\xff x\n");
        assert_eq!(
            json(&publication(br#"{"id": 4711}"#)),
            *br#"{"topic":"orders.new","message":"{\"id\": 4711}"}"#.iter().chain(b"\n").copied().collect::<Vec<_>>()
        );
        assert_eq!(json(&publication(b"\xff\x00")), b"{\"topic\":\"orders.new\",\"hex\":\"ff00\"}\n");
    }
}
