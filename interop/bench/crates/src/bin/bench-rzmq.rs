//! The roles of the benchmark with `rzmq`, without io_uring.

#[path = "../roles.rs"]
mod roles;

use std::slice;

use rzmq::socket::options::{
    AUTO_DELIMITER, CURVE_SECRET_KEY, CURVE_SERVER, CURVE_SERVER_KEY, RCVBUF, RCVHWM, SNDBUF, SNDHWM, SUBSCRIBE,
};
use rzmq::{Context, Msg, MsgFlags, Socket, SocketType};

use roles::{CurveClient, CurveServer, Echo, HWM, Library, PUB_HWM, Receives, Result, SOCKET_BUFFER, Sends};

struct Rzmq;

/// Sockets have calls of their own for messages of one frame.
enum Message {
    One(Msg),
    Many(Vec<Msg>),
}

impl Library for Rzmq {
    const NAME: &'static str = "rzmq";
    const CURVE: bool = true;
    type Message = Message;

    fn message<'a>(mut frames: impl ExactSizeIterator<Item = &'a [u8]>) -> Message {
        let mut next = || frames.next().map(|frame| Msg::from_vec(frame.to_vec()));
        let first = next().unwrap_or_default();
        let Some(second) = next() else { return Message::One(first) };
        let mut all = vec![first, second];
        all.extend(std::iter::from_fn(next));
        let last = all.len() - 1;
        all[..last].iter_mut().for_each(|frame| frame.set_flags(MsgFlags::MORE));
        Message::Many(all)
    }

    fn frames(message: &Message) -> impl Iterator<Item = &[u8]> {
        let frames = match message {
            Message::One(frame) => slice::from_ref(frame),
            Message::Many(frames) => frames,
        };
        frames.iter().map(|frame| frame.data().unwrap_or_default())
    }

    async fn router(endpoint: &str) -> Result<impl Echo + Send> {
        let socket = socket(SocketType::Router).await?;
        socket.set_option(AUTO_DELIMITER, false).await?;
        socket.bind(endpoint).await?;
        Ok(Whole(socket))
    }

    async fn dealer(endpoint: &str) -> Result<impl Sends<Self> + Receives<Self>> {
        let socket = socket(SocketType::Dealer).await?;
        socket.set_option(AUTO_DELIMITER, false).await?;
        socket.connect(endpoint).await?;
        Ok(Whole(socket))
    }

    async fn push(endpoint: &str, curve: Option<CurveServer>) -> Result<impl Sends<Self>> {
        let socket = socket(SocketType::Push).await?;
        if let Some(keys) = curve {
            socket.set_option(CURVE_SERVER, true).await?;
            socket.set_option(CURVE_SECRET_KEY, keys.secret).await?;
        }
        socket.bind(endpoint).await?;
        Ok(Single(socket))
    }

    async fn pull(endpoint: &str, curve: Option<CurveClient>) -> Result<impl Receives<Self>> {
        let socket = socket(SocketType::Pull).await?;
        if let Some(keys) = curve {
            socket.set_option(CURVE_SECRET_KEY, keys.secret).await?;
            socket.set_option(CURVE_SERVER_KEY, keys.server).await?;
        }
        socket.connect(endpoint).await?;
        Ok(Single(socket))
    }

    async fn publish(endpoint: &str) -> Result<impl Sends<Self>> {
        let socket = socket(SocketType::Pub).await?;
        socket.bind(endpoint).await?;
        Ok(Single(socket))
    }

    async fn subscribe(endpoint: &str) -> Result<impl Receives<Self>> {
        let socket = socket(SocketType::Sub).await?;
        socket.set_option(SUBSCRIBE, "").await?;
        socket.connect(endpoint).await?;
        Ok(Single(socket))
    }
}

async fn socket(kind: SocketType) -> Result<Socket> {
    let socket = Context::new()?.socket(kind)?;
    let hwm = if matches!(kind, SocketType::Pub | SocketType::Sub) { PUB_HWM } else { HWM };
    for option in [SNDHWM, RCVHWM] {
        socket.set_option(option, i32::try_from(hwm)?).await?;
    }
    for option in [SNDBUF, RCVBUF] {
        socket.set_option(option, i32::try_from(SOCKET_BUFFER)?).await?;
    }
    Ok(socket)
}

/// A socket for messages of any number of frames.
struct Whole(Socket);

impl Echo for Whole {
    async fn echo(&mut self) -> Result {
        let frames = self.0.recv_multipart().await?;
        Ok(self.0.send_multipart(frames).await?)
    }
}

impl Sends<Rzmq> for Whole {
    async fn send(&mut self, message: Message) -> Result {
        let frames = match message {
            Message::One(frame) => vec![frame],
            Message::Many(frames) => frames,
        };
        Ok(self.0.send_multipart(frames).await?)
    }
}

impl Receives<Rzmq> for Whole {
    async fn receive(&mut self) -> Result<Message> {
        Ok(Message::Many(self.0.recv_multipart().await?))
    }
}

/// A socket for messages of one frame.
struct Single(Socket);

impl Sends<Rzmq> for Single {
    async fn send(&mut self, message: Message) -> Result {
        match message {
            Message::One(frame) => Ok(self.0.send(frame).await?),
            Message::Many(_) => Err("only messages of one frame".into()),
        }
    }
}

impl Receives<Rzmq> for Single {
    async fn receive(&mut self) -> Result<Message> {
        Ok(Message::One(self.0.recv().await?))
    }
}

fn main() -> std::process::ExitCode {
    roles::main::<Rzmq>()
}
