//! One socket of the crate `zeromq` (zmq.rs), driven line by line over stdin and stdout by the Python suite, with the
//! commands of `zmtp-peer` that the matrix needs: a second opinion beside libzmq's.
//!
//! A line is a command and its words; the answer is one line, `ok ...` or `error ...`. End of input ends the program.

#[path = "../../../../src/notation.rs"]
mod notation;

use std::io::{BufRead, Write};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::timeout;
use zeromq::util::PeerIdentity;
use zeromq::{
    DealerSocket, PubSocket, PullSocket, PushSocket, RepSocket, ReqSocket, RouterSocket, Socket as _, SocketOptions,
    SocketRecv, SocketSend, SubSocket, ZmqMessage, ZmqResult,
};

use notation::{number, parse_frame, parse_frames, show, unhex};

/// What went wrong, in words for the answer.
type Failure = String;

enum Socket {
    Dealer(DealerSocket),
    Router(RouterSocket),
    Req(ReqSocket),
    Rep(RepSocket),
    Push(PushSocket),
    Pull(PullSocket),
    Pub(PubSocket),
    Sub(SubSocket),
}

/// The same expression for whichever type it is.
macro_rules! each {
    ($socket:expr, $it:ident => $do:expr) => {
        match $socket {
            Socket::Dealer($it) => $do,
            Socket::Router($it) => $do,
            Socket::Req($it) => $do,
            Socket::Rep($it) => $do,
            Socket::Push($it) => $do,
            Socket::Pull($it) => $do,
            Socket::Pub($it) => $do,
            Socket::Sub($it) => $do,
        }
    };
}

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
    let mut socket = None;
    while let Some(line) = commands.recv().await {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match (&mut socket, words.as_slice()) {
            (None, ["socket", kind, options @ ..]) => Socket::new(kind, options).map(|made| {
                socket = Some(made);
                String::new()
            }),
            (None, _) => Err("the first command is: socket TYPE [id=HEX]".to_owned()),
            (Some(socket), words) => socket.command(words).await,
        };
        let (status, text) = answer.map_or_else(|error| ("error", error), |text| ("ok", text));
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{status} {text}").and_then(|()| out.flush()).is_err() {
            break;
        }
    }
}

impl Socket {
    fn new(kind: &str, options: &[&str]) -> Result<Self, Failure> {
        let mut with = SocketOptions::default();
        for option in options {
            let id = option.strip_prefix("id=").ok_or_else(|| format!("no such option: {option}"))?;
            with.peer_identity(PeerIdentity::try_from(unhex(id)?).map_err(text)?);
        }
        Ok(match kind {
            "dealer" => Self::Dealer(DealerSocket::with_options(with)),
            "router" => Self::Router(RouterSocket::with_options(with)),
            "req" => Self::Req(ReqSocket::with_options(with)),
            "rep" => Self::Rep(RepSocket::with_options(with)),
            "push" => Self::Push(PushSocket::with_options(with)),
            "pull" => Self::Pull(PullSocket::with_options(with)),
            "pub" => Self::Pub(PubSocket::with_options(with)),
            "sub" => Self::Sub(SubSocket::with_options(with)),
            _ => return Err(format!("no such socket type: {kind}")),
        })
    }

    async fn command(&mut self, words: &[&str]) -> Result<String, Failure> {
        match words {
            ["bind", endpoint] => {
                each!(self, socket => socket.bind(endpoint).await).map(|bound| bound.to_string()).map_err(text)
            }
            ["connect", endpoint] => done(each!(self, socket => socket.connect(endpoint).await)),
            ["subscribe", topic] => {
                let topic = String::from_utf8(parse_frame(topic)?).map_err(text)?;
                match self {
                    Self::Sub(socket) => done(socket.subscribe(&topic).await),
                    _ => Err("only a SUB subscribes".to_owned()),
                }
            }
            ["send", frames @ ..] => {
                let frames: Vec<Bytes> = parse_frames(frames)?.into_iter().map(Bytes::from).collect();
                done(self.send(ZmqMessage::try_from(frames).map_err(|_| "no frames".to_owned())?).await?)
            }
            ["receive", ms] => {
                let limit = Duration::from_millis(number(ms)? as u64);
                match timeout(limit, self.receive()).await {
                    Ok(message) => Ok(show(&message?.into_vec())),
                    Err(_) => Ok("nothing".to_owned()),
                }
            }
            _ => Err(format!("no such command: {words:?}")),
        }
    }

    async fn send(&mut self, message: ZmqMessage) -> Result<ZmqResult<()>, Failure> {
        Ok(match self {
            Self::Dealer(socket) => socket.send(message).await,
            Self::Router(socket) => socket.send(message).await,
            Self::Req(socket) => socket.send(message).await,
            Self::Rep(socket) => socket.send(message).await,
            Self::Push(socket) => socket.send(message).await,
            Self::Pub(socket) => socket.send(message).await,
            Self::Pull(_) | Self::Sub(_) => return Err("a socket of this type cannot send".to_owned()),
        })
    }

    async fn receive(&mut self) -> Result<ZmqMessage, Failure> {
        match self {
            Self::Dealer(socket) => socket.recv().await,
            Self::Router(socket) => socket.recv().await,
            Self::Req(socket) => socket.recv().await,
            Self::Rep(socket) => socket.recv().await,
            Self::Pull(socket) => socket.recv().await,
            Self::Sub(socket) => socket.recv().await,
            Self::Push(_) | Self::Pub(_) => return Err("a socket of this type cannot receive".to_owned()),
        }
        .map_err(text)
    }
}

fn done(result: ZmqResult<()>) -> Result<String, Failure> {
    result.map(|()| String::new()).map_err(text)
}

fn text(error: impl std::fmt::Display) -> Failure {
    error.to_string()
}
