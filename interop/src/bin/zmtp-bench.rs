//! DEALER against ROUTER of `zmtp`, each in a process of its own; the counterpart of `interop/bench/c/echo.c`, which does
//! the same with libzmq.
//!
//! - `zmtp-bench router ENDPOINT` binds and sends every message back, until it is killed.
//! - `zmtp-bench dealer ENDPOINT SIZES IN_FLIGHT SECONDS` connects, keeps IN_FLIGHT messages of frames of SIZES (a,b,c)
//!   under way for SECONDS, then waits for the rest and prints one line of JSON.
//!
//! The first frame of 8 bytes or more carries a sequence number: each message must come back once, in order and of the
//! same shape. With one in flight round-trip times are taken as well.

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use zmtp::{Dealer, Endpoint, Message, Router};

const USAGE: &str = "usage: zmtp-bench router ENDPOINT | zmtp-bench dealer ENDPOINT SIZES IN_FLIGHT SECONDS";
/// How long the last message may take.
const PATIENCE: Duration = Duration::from_secs(30);

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["router", endpoint] => router(endpoint).await,
        ["dealer", endpoint, sizes, in_flight, seconds] => dealer(endpoint, sizes, in_flight, seconds).await,
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zmtp-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn router(endpoint: &str) -> Result {
    let mut router = Router::builder().send_hwm(0).receive_hwm(0).build();
    router.bind(&endpoint.parse()?).await?;
    loop {
        let (peer, message) = router.recv().await?;
        // A dealer that has ended is no error of ours.
        router.send(&peer, message).await.ok();
    }
}

async fn dealer(endpoint: &str, sizes: &str, in_flight: &str, seconds: &str) -> Result {
    let endpoint: Endpoint = endpoint.parse()?;
    let mut shape = Shape::new(sizes)?;
    let in_flight: u64 = in_flight.parse()?;
    let time = Duration::try_from_secs_f64(seconds.parse()?)?;
    if in_flight == 0 || time.is_zero() {
        return Err(USAGE.into());
    }
    let mut dealer = Dealer::builder().send_hwm(0).receive_hwm(0).linger(Duration::ZERO).build();
    dealer.connect(&endpoint)?;
    tokio::time::timeout(time + PATIENCE, measure(&mut dealer, &mut shape, in_flight, time)).await?
}

async fn measure(dealer: &mut Dealer, shape: &mut Shape, in_flight: u64, time: Duration) -> Result {
    // Once round before the clock starts.
    dealer.send(shape.message(0)).await?;
    shape.check(&dealer.recv().await?, 0)?;

    let start = Instant::now();
    let mut latencies = Vec::new();
    let mut received = 0;
    if in_flight == 1 {
        let mut before = start;
        while before - start < time {
            dealer.send(shape.message(received)).await?;
            shape.check(&dealer.recv().await?, received)?;
            let now = Instant::now();
            latencies.push(now - before);
            before = now;
            received += 1;
        }
    } else {
        let mut sent = 0;
        let mut sending = true;
        while sent < in_flight {
            dealer.send(shape.message(sent)).await?;
            sent += 1;
        }
        while received < sent {
            shape.check(&dealer.recv().await?, received)?;
            received += 1;
            if sending {
                dealer.send(shape.message(sent)).await?;
                sent += 1;
            }
            if received % 256 == 0 {
                sending = start.elapsed() < time;
            }
        }
    }
    report(received, start.elapsed(), latencies);
    Ok(())
}

fn report(messages: u64, elapsed: Duration, mut latencies: Vec<Duration>) {
    let mut line = format!(r#"{{"messages": {messages}, "msgs_per_s": {:.1}"#, messages as f64 / elapsed.as_secs_f64());
    latencies.sort_unstable();
    let micros = |hundredth: usize| latencies.get(latencies.len() * hundredth / 100).map(|l| l.as_secs_f64() * 1e6);
    if let (Some(p50), Some(p99)) = (micros(50), micros(99)) {
        line += &format!(r#", "p50_us": {p50:.2}, "p99_us": {p99:.2}"#);
    }
    println!("{line}}}");
}

/// What all messages of a run look like.
struct Shape {
    sizes: Vec<usize>,
    /// The frame with the sequence number.
    numbered: usize,
    body: Vec<u8>,
}

impl Shape {
    fn new(sizes: &str) -> Result<Self> {
        let sizes = sizes.split(',').map(str::parse).collect::<std::result::Result<Vec<usize>, _>>()?;
        let numbered = sizes.iter().position(|&size| size >= 8).ok_or("one frame must have 8 bytes or more")?;
        let body = vec![0; sizes.iter().copied().max().unwrap_or_default()];
        Ok(Self { sizes, numbered, body })
    }

    fn message(&mut self, number: u64) -> Message {
        let wire_len = self.sizes.iter().map(|size| size + 9).sum();
        let mut builder = Message::builder().reserve(wire_len);
        for (index, &size) in self.sizes.iter().enumerate() {
            if index == self.numbered {
                self.body[..8].copy_from_slice(&number.to_le_bytes());
            }
            builder = builder.frame(&self.body[..size]);
        }
        builder.build()
    }

    fn check(&self, message: &Message, expected: u64) -> Result {
        if message.frame_count() != self.sizes.len() {
            return Err("a message changed shape".into());
        }
        for (index, (frame, &size)) in message.frames().zip(&self.sizes).enumerate() {
            if frame.len() != size {
                return Err("a message changed shape".into());
            }
            if index == self.numbered && frame[..8] != expected.to_le_bytes() {
                return Err("a message is missing".into());
            }
        }
        Ok(())
    }
}
