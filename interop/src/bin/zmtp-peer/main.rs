//! One socket of this workspace, driven line by line over stdin and stdout by the Python suite.
//!
//! A line is a command and its words; the answer is one line, `ok ...` or `error ...`. How frames are written is told in
//! [`interop::notation`]. A ROUTER's messages begin with the peer's routing id, and an XPUB's subscriptions are messages
//! of `01` or `00` and the topic.
//! End of input closes the socket and the program.

mod options;
mod socket;

use std::collections::{HashSet, VecDeque};
use std::io::{BufRead, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use interop::notation::{hex, number, parse_frame, parse_frames, show, unhex};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use zmtp::{Dealer, Endpoint, Message, MonitorEvent, RoutingId};

use self::options::Options;
use self::socket::Socket;

/// What went wrong, in words for the answer.
type Failure = String;

const USAGE: &str = "the first command is: socket TYPE [name=value ...]";

fn main() -> Result<(), std::io::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (lines, commands) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
    });
    runtime.block_on(serve(commands));
    Ok(())
}

async fn serve(mut commands: mpsc::UnboundedReceiver<String>) {
    let mut peer = None;
    while let Some(line) = commands.recv().await {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match (&mut peer, words.as_slice()) {
            (None, ["socket", kind, options @ ..]) => Peer::new(kind, options).map(|made| {
                peer = Some(made);
                String::new()
            }),
            (None, _) => Err(USAGE.to_owned()),
            (Some(peer), words) => peer.command(words).await,
        };
        let (status, text) = answer.map_or_else(|error| ("error", error), |text| ("ok", text));
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{status} {text}").and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    if let Some(peer) = peer {
        peer.socket.close().await;
    }
}

/// The socket of this process, and what its monitor told.
struct Peer {
    socket: Socket,
    seen: Arc<Mutex<Seen>>,
    endpoint: Option<Endpoint>,
}

/// What the monitor told since it was asked last, and who has come so far.
#[derive(Default)]
struct Seen {
    events: VecDeque<&'static str>,
    /// Why handshakes failed.
    failures: Vec<String>,
    peers: HashSet<RoutingId>,
    handshakes: usize,
}

impl Peer {
    fn new(kind: &str, options: &[&str]) -> Result<Self, Failure> {
        let socket = Options::parse(options)?.socket(kind)?;
        Ok(Self { socket, seen: Arc::default(), endpoint: None })
    }

    async fn command(&mut self, words: &[&str]) -> Result<String, Failure> {
        match words {
            ["bind", endpoint] => {
                self.watch();
                let bound = self.socket.bind(&endpoint.parse().map_err(text)?).await?;
                self.endpoint = Some(bound.clone());
                Ok(bound.to_string())
            }
            ["connect", endpoint] => {
                self.watch();
                self.socket.connect(&endpoint.parse().map_err(text)?)?;
                Ok(String::new())
            }
            ["subscribe", topic] => self.socket.subscribe(&parse_frame(topic)?).map(|()| String::new()),
            ["unsubscribe", topic] => self.socket.unsubscribe(&parse_frame(topic)?).map(|()| String::new()),
            ["endpoint"] => self.endpoint.as_ref().map(ToString::to_string).ok_or_else(|| "not bound".to_owned()),
            ["failures"] => Ok(std::mem::take(&mut locked(&self.seen).failures).join(" | ")),
            ["events"] => Ok(Vec::from(std::mem::take(&mut locked(&self.seen).events)).join(" ")),
            ["until-known", id, ms] => {
                let id = RoutingId::any(unhex(id)?).map_err(text)?;
                self.until(millis(ms)?, |seen| seen.peers.contains(&id)).await
            }
            ["until-peers", count, ms] => {
                let count = number(count)?;
                self.until(millis(ms)?, |seen| seen.handshakes >= count).await
            }
            ["send", frames @ ..] => {
                self.socket.send(parse_frames(frames)?).await?;
                Ok(String::new())
            }
            ["try-send", frames @ ..] => {
                self.socket.try_send(parse_frames(frames)?)?;
                Ok(String::new())
            }
            ["receive", ms] => match timeout(millis(ms)?, self.socket.receive()).await {
                Ok(message) => Ok(show(&message?)),
                Err(_) => Ok("nothing".to_owned()),
            },
            ["echo", count, ms] => timeout(millis(ms)?, self.echo(number(count)?)).await.map_err(text)?,
            ["serve", count] => self.serve(number(count)?).await,
            ["sink", count, ms] => timeout(millis(ms)?, self.sink(number(count)?)).await.map_err(text)?,
            ["churn", count, endpoint] => churn(number(count)?, &endpoint.parse().map_err(text)?).await,
            _ => Err(format!("no such command: {words:?}")),
        }
    }

    /// Listens to the monitor from the first endpoint on.
    fn watch(&self) {
        if Arc::strong_count(&self.seen) == 1 {
            let (mut monitor, seen) = (self.socket.monitor(), self.seen.clone());
            tokio::spawn(async move {
                while let Some(event) = monitor.recv().await {
                    locked(&seen).note(event);
                }
            });
        }
    }

    async fn until(&self, limit: Duration, done: impl Fn(&Seen) -> bool) -> Result<String, Failure> {
        let waiting = async {
            while !done(&locked(&self.seen)) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(limit, waiting).await.map_err(text).map(|()| String::new())
    }

    /// Sends so many messages back where they came from.
    async fn echo(&mut self, count: usize) -> Result<String, Failure> {
        for _ in 0..count {
            let message = self.socket.receive().await?;
            self.socket.send(message).await?;
        }
        Ok(count.to_string())
    }

    /// As `echo`, but waits for nobody: an answer to a peer that is gone or full is dropped.
    async fn serve(&mut self, count: usize) -> Result<String, Failure> {
        for _ in 0..count {
            let message = self.socket.receive().await?;
            let _ = self.socket.try_send(message);
        }
        Ok(count.to_string())
    }

    /// Takes so many messages, numbered by their last frame, giving every single wait up after a millisecond.
    async fn sink(&mut self, count: usize) -> Result<String, Failure> {
        let mut expected: u32 = 0;
        while (expected as usize) < count {
            let Ok(message) = timeout(Duration::from_millis(1), self.socket.receive()).await else { continue };
            let got = message?.last().cloned().unwrap_or_default();
            if got != expected.to_be_bytes() {
                return Err(format!("message {expected} is {}", hex(&got)));
            }
            expected += 1;
        }
        Ok(format!("{expected} in order"))
    }
}

impl Seen {
    fn note(&mut self, event: MonitorEvent) {
        let name = match event {
            MonitorEvent::Listening { .. } => "listening",
            MonitorEvent::Accepted { .. } => "accepted",
            MonitorEvent::Connected { .. } => "connected",
            MonitorEvent::Retrying { .. } => "retrying",
            MonitorEvent::GaveUp { .. } => "gave-up",
            MonitorEvent::HandshakeSucceeded { routing_id, .. } => {
                self.handshakes += 1;
                self.peers.insert(routing_id);
                "handshake-succeeded"
            }
            MonitorEvent::HandshakeFailed { reason, .. } => {
                self.failures.push(reason.to_string());
                "handshake-failed"
            }
            MonitorEvent::Disconnected { .. } => "disconnected",
            _ => "other",
        };
        self.events.push_back(name);
    }
}

/// Connects anew for every message.
async fn churn(count: usize, endpoint: &Endpoint) -> Result<String, Failure> {
    for number in 0..count {
        let dealer = Dealer::builder().linger(Duration::from_secs(5)).build();
        dealer.connect(endpoint).map_err(text)?;
        dealer.send(Message::single(number.to_string())).await.map_err(text)?;
        dealer.close().await;
    }
    Ok(count.to_string())
}

fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(error: impl std::fmt::Display) -> Failure {
    error.to_string()
}

fn millis(word: &str) -> Result<Duration, Failure> {
    number(word).map(|ms| Duration::from_millis(ms as u64))
}
