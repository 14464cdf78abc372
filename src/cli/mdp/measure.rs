//! `emq mdp client --count`: how fast a service answers.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use zmtp::Message;

use super::MdpError;
use crate::mdp::{Client, Part, ServiceName};

/// Replies between two looks at the progress bar.
const STRIDE: u64 = 256;

/// What was measured; `--json` prints it as it is.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    requests: u64,
    replies: u64,
    seconds: f64,
    requests_per_second: f64,
    pipeline: Option<NonZeroUsize>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    max_us: Option<f64>,
}

impl Measured {
    fn new(count: u64, took: Duration, pipeline: Option<NonZeroUsize>, mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        let at = |share: f64| {
            let last = latencies.len().checked_sub(1)?;
            Some(latencies[(last as f64 * share) as usize].as_secs_f64() * 1e6)
        };
        let seconds = took.as_secs_f64();
        let requests_per_second = count as f64 / seconds.max(1e-9);
        let (p50_us, p99_us, max_us) = (at(0.5), at(0.99), at(1.0));
        Self { requests: count, replies: count, seconds, requests_per_second, pipeline, p50_us, p99_us, max_us }
    }

    pub(super) fn to_json(&self) -> String {
        // Numbers alone cannot fail to be written.
        format!("{}\n", serde_json::to_string(self).unwrap_or_default())
    }

    pub(super) fn to_text(&self) -> String {
        let Self { replies, seconds, requests_per_second, .. } = self;
        let mut text = format!("{replies} replies in {seconds:.3} s: {requests_per_second:.0} a second\n");
        if let (Some(p50), Some(p99), Some(max)) = (self.p50_us, self.p99_us, self.max_us) {
            text.push_str(&format!("latency: median {p50:.1} us, 99 % within {p99:.1} us, at most {max:.1} us\n"));
        }
        text
    }
}

/// Sends `count` requests and waits for all replies.
pub(super) async fn run(
    client: &mut Client,
    service: &ServiceName,
    body: &Message,
    count: u64,
    pipeline: Option<NonZeroUsize>,
) -> Result<Measured, MdpError> {
    let bar = progress(count);
    let start = Instant::now();
    let mut latencies = Vec::new();
    match pipeline {
        None => {
            for n in 0..count {
                let sent = Instant::now();
                client.request(service.clone(), body.clone()).await?;
                latencies.push(sent.elapsed());
                tick(&bar, n + 1);
            }
        }
        Some(window) => pipelined(client, service, body, count, window.get() as u64, &bar).await?,
    }
    let took = start.elapsed();
    bar.finish_and_clear();
    Ok(Measured::new(count, took, pipeline, latencies))
}

/// Keeps `window` requests in flight.
async fn pipelined(
    client: &mut Client,
    service: &ServiceName,
    body: &Message,
    count: u64,
    window: u64,
    bar: &ProgressBar,
) -> Result<(), MdpError> {
    let (mut sent, mut received) = (0, 0);
    while received < count {
        while sent < count && sent - received < window {
            client.send(service.clone(), body.clone()).await?;
            sent += 1;
        }
        let mut next = Some(client.recv().await.map_err(|source| MdpError::Response { sent, received, source })?);
        while let Some(response) = next {
            received += u64::from(response.part == Part::Final);
            next = client.try_recv();
        }
        tick(bar, received);
    }
    Ok(())
}

/// A bar on standard error, if that is a terminal.
fn progress(count: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} {eta}");
    // The template is ours: it is right, or the usual bar is shown.
    ProgressBar::new(count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn tick(bar: &ProgressBar, done: u64) {
    if !bar.is_hidden() && (done.is_multiple_of(STRIDE) || Some(done) == bar.length()) {
        bar.set_position(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_printed_as_documented() {
        let latencies = (1..=100).map(Duration::from_micros).collect();
        let measured = Measured::new(100, Duration::from_millis(50), None, latencies);
        let json = r#"{"requests":100,"replies":100,"seconds":0.05,"requests_per_second":2000.0,"pipeline":null,"p50_us":50.0,"p99_us":99.0,"max_us":100.0}"#;
        assert_eq!(measured.to_json().trim(), json);
        let measured = Measured::new(10, Duration::from_millis(50), NonZeroUsize::new(7), Vec::new());
        assert!(measured.to_json().contains(r#""pipeline":7,"p50_us":null"#));
    }
}
