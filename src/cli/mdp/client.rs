//! `emq mdp client`.

use std::io::{self, Read, Write};
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::{Duration, Instant};

use serde_json::json;
use zmtp::{Endpoint, Message};

use super::super::{CliError, EXIT_CODES, print};
use super::{MdpError, VersionArg, frames_json, measure, seconds, start_log};
use crate::conf::{LogFormat, LogLevel};
use crate::mdp::{Client, ServiceName};

const EXAMPLES: &str = "\
Examples:
  emq mdp client echo hello world          a request of two frames
  emq mdp client upper < text              the request is what is on standard input
  emq mdp client mmi.service echo          200 if somebody serves echo, else 404
  emq mdp client echo --count 10000        one request at a time, how fast?
  emq mdp client echo --count 100000 --pipeline --size 100
  emq mdp client emq.default '[\"run\", {\"path\": \"jobs\", \"callable\": \"f\"}]' --timeout 60

The frames of the reply are printed a line each. With --json one object:
  {\"service\": \"echo\", \"frames\": [\"hello\"], \"parts\": 0, \"seconds\": 0.0004}
A frame that is not UTF-8 is {\"hex\": \"...\"}; parts counts partial replies
(MDP/0.2), which are printed before the last. With --count:
  {\"requests\": 10000, \"replies\": 10000, \"seconds\": 1.1,
   \"requests_per_second\": 9000.0, \"pipeline\": null,
   \"p50_us\": 100.2, \"p99_us\": 180.0, \"max_us\": 900.1}
Latencies are measured without --pipeline only, and are null with it.";

/// Send a request and print the reply, or measure a service.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Args {
    /// The service to ask
    service: ServiceName,

    /// The frames of the request; none: one, from standard input
    frames: Vec<String>,

    /// The broker's address
    #[arg(short, long, value_name = "ADDRESS", default_value = "tcp://127.0.0.1:5555")]
    addr: Endpoint,

    /// The protocol's version
    #[arg(long, value_name = "VERSION", default_value = "0.1")]
    mdp: VersionArg,

    /// How long a reply is awaited, in each attempt
    #[arg(long, value_name = "SECONDS", default_value = "2.5", value_parser = seconds)]
    timeout: Duration,

    /// How often a request is sent at most
    #[arg(long, value_name = "N", default_value = "3")]
    attempts: NonZeroU32,

    /// Send that many requests and say how fast they were answered
    #[arg(long, value_name = "N")]
    count: Option<NonZeroU64>,

    /// With --count: keep WINDOW requests in flight [default: 1000]
    #[arg(long, value_name = "WINDOW", num_args = 0..=1, default_missing_value = "1000", requires = "count")]
    pipeline: Option<NonZeroUsize>,

    /// With --count and no frames: the size of the request in bytes
    #[arg(long, value_name = "BYTES", default_value = "10", requires = "count")]
    size: usize,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &Args) -> Result<(), CliError> {
    start_log(LogLevel::Warn, LogFormat::Text)?;
    let mut client = Client::builder(args.addr.clone())
        .version(args.mdp.into())
        .timeout(args.timeout)
        .attempts(args.attempts)
        .connect()
        .map_err(MdpError::from)?;
    let done = match args.count {
        Some(count) => measure_it(args, &mut client, count.get()).await,
        None => ask(args, &mut client).await,
    };
    client.close().await;
    done
}

async fn measure_it(args: &Args, client: &mut Client, count: u64) -> Result<(), CliError> {
    let body = if args.frames.is_empty() { vec![b'x'; args.size].into() } else { frames(args) };
    let measured = measure::run(client, &args.service, &body, count, args.pipeline).await?;
    print(&if args.json { measured.to_json() } else { measured.to_text() })
}

fn frames(args: &Args) -> Message {
    Message::from_frames(&args.frames)
}

async fn ask(args: &Args, client: &mut Client) -> Result<(), CliError> {
    let body = if args.frames.is_empty() {
        let mut input = Vec::new();
        io::stdin().lock().read_to_end(&mut input).map_err(MdpError::Input)?;
        Message::from(input)
    } else {
        frames(args)
    };
    let start = Instant::now();
    let (mut parts, mut failed) = (0u64, None);
    let reply = client
        .request_parts(args.service.clone(), body, |part| {
            parts += 1;
            if !args.json {
                failed = failed.take().or(print_frames(&part).err());
            }
        })
        .await
        .map_err(MdpError::from)?;
    if let Some(error) = failed {
        return Err(error);
    }
    if args.json {
        let answer = json!({
            "service": args.service.to_string(),
            "frames": frames_json(&reply),
            "parts": parts,
            "seconds": start.elapsed().as_secs_f64(),
        });
        return print(&format!("{answer}\n"));
    }
    print_frames(&reply)
}

/// The frames as they are, a line each.
fn print_frames(message: &Message) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    let mut write = || -> io::Result<()> {
        for frame in message.frames() {
            out.write_all(frame)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    };
    match write() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(()),
    }
}
