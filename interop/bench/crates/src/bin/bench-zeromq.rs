//! The roles of the benchmark with `zeromq` (zmq.rs). It asks for 4 MiB socket buffers by itself, has queues of 100,000
//! messages in place of high-water marks, and no CURVE.

#[path = "../roles.rs"]
mod roles;

use bytes::Bytes;
use zeromq::{
    DealerSocket, PubSocket, PullSocket, PushSocket, RouterSocket, Socket, SocketRecv, SocketSend, SubSocket,
    ZmqMessage,
};

use roles::{CurveClient, CurveServer, Echo, Library, Receives, Result, Sends};

struct Zeromq;

impl Library for Zeromq {
    const NAME: &'static str = "zeromq";
    const CURVE: bool = false;
    type Message = ZmqMessage;

    fn message<'a>(mut frames: impl ExactSizeIterator<Item = &'a [u8]>) -> ZmqMessage {
        let mut message = ZmqMessage::from(frames.next().map(Bytes::copy_from_slice).unwrap_or_default());
        for frame in frames {
            message.push_back(Bytes::copy_from_slice(frame));
        }
        message
    }

    fn frames(message: &ZmqMessage) -> impl Iterator<Item = &[u8]> {
        message.iter().map(Bytes::as_ref)
    }

    async fn router(endpoint: &str) -> Result<impl Echo + Send> {
        bound::<RouterSocket>(endpoint).await
    }

    async fn dealer(endpoint: &str) -> Result<impl Sends<Self> + Receives<Self>> {
        connected::<DealerSocket>(endpoint).await
    }

    async fn push(endpoint: &str, _: Option<CurveServer>) -> Result<impl Sends<Self>> {
        bound::<PushSocket>(endpoint).await
    }

    async fn pull(endpoint: &str, _: Option<CurveClient>) -> Result<impl Receives<Self>> {
        connected::<PullSocket>(endpoint).await
    }

    async fn publish(endpoint: &str) -> Result<impl Sends<Self>> {
        bound::<PubSocket>(endpoint).await
    }

    async fn subscribe(endpoint: &str) -> Result<impl Receives<Self>> {
        let mut socket = connected::<SubSocket>(endpoint).await?;
        socket.subscribe("").await?;
        Ok(socket)
    }
}

async fn bound<S: Socket>(endpoint: &str) -> Result<S> {
    let mut socket = S::new();
    socket.bind(endpoint).await?;
    Ok(socket)
}

async fn connected<S: Socket>(endpoint: &str) -> Result<S> {
    let mut socket = S::new();
    socket.connect(endpoint).await?;
    Ok(socket)
}

impl Echo for RouterSocket {
    async fn echo(&mut self) -> Result {
        let message = self.recv().await?;
        Ok(SocketSend::send(self, message).await?)
    }
}

impl<S: SocketSend + Send + 'static> Sends<Zeromq> for S {
    async fn send(&mut self, message: ZmqMessage) -> Result {
        Ok(SocketSend::send(self, message).await?)
    }
}

impl<S: SocketRecv + Send + 'static> Receives<Zeromq> for S {
    async fn receive(&mut self) -> Result<ZmqMessage> {
        Ok(self.recv().await?)
    }
}

fn main() -> std::process::ExitCode {
    roles::main::<Zeromq>()
}
