//! The roles of the benchmark with `omq-tokio`, its sockets' drivers on the application's thread.

#[path = "../roles.rs"]
mod roles;

use bytes::Bytes;
use omq_tokio::{CurveKeypair, CurvePublicKey, CurveSecretKey, Message, Options, Socket, SocketType};

use roles::{CurveClient, CurveServer, Echo, HWM, Library, PUB_HWM, Receives, Result, SOCKET_BUFFER, Sends};

struct Omq;

impl Library for Omq {
    const NAME: &'static str = "omq";
    const CURVE: bool = true;
    type Message = Message;

    fn message<'a>(mut frames: impl ExactSizeIterator<Item = &'a [u8]>) -> Message {
        match (frames.len(), frames.next()) {
            (1, Some(only)) => Message::from_slice(only),
            (_, first) => Message::multipart(first.into_iter().chain(frames).map(Bytes::copy_from_slice)),
        }
    }

    fn frames(message: &Message) -> impl Iterator<Item = &[u8]> {
        (0..message.len()).map(|index| message.part_slice(index).unwrap_or_default())
    }

    async fn router(endpoint: &str) -> Result<impl Echo + Send> {
        bound(SocketType::Router, endpoint, options(HWM)).await
    }

    async fn dealer(endpoint: &str) -> Result<impl Sends<Self> + Receives<Self>> {
        connected(SocketType::Dealer, endpoint, options(HWM)).await
    }

    async fn push(endpoint: &str, curve: Option<CurveServer>) -> Result<impl Sends<Self>> {
        let options = match curve {
            Some(keys) => options(HWM).curve_server(pair(&keys.public, &keys.secret)?),
            None => options(HWM),
        };
        bound(SocketType::Push, endpoint, options).await
    }

    async fn pull(endpoint: &str, curve: Option<CurveClient>) -> Result<impl Receives<Self>> {
        let options = match curve {
            Some(keys) => {
                options(HWM).curve_client(pair(&keys.public, &keys.secret)?, CurvePublicKey::from_z85(&keys.server)?)
            }
            None => options(HWM),
        };
        connected(SocketType::Pull, endpoint, options).await
    }

    async fn publish(endpoint: &str) -> Result<impl Sends<Self>> {
        bound(SocketType::Pub, endpoint, options(PUB_HWM)).await
    }

    async fn subscribe(endpoint: &str) -> Result<impl Receives<Self>> {
        let socket = connected(SocketType::Sub, endpoint, options(PUB_HWM)).await?;
        socket.subscribe(Bytes::new()).await?;
        Ok(socket)
    }
}

fn options(hwm: usize) -> Options {
    let hwm = hwm as u32;
    Options::default().send_hwm(hwm).recv_hwm(hwm).send_buffer_size(SOCKET_BUFFER).recv_buffer_size(SOCKET_BUFFER)
}

fn pair(public: &str, secret: &str) -> Result<CurveKeypair> {
    Ok(CurveKeypair { public: CurvePublicKey::from_z85(public)?, secret: CurveSecretKey::from_z85(secret)? })
}

async fn bound(kind: SocketType, endpoint: &str, options: Options) -> Result<Socket> {
    let socket = Socket::try_new(kind, options)?;
    socket.bind(endpoint).await?;
    Ok(socket)
}

async fn connected(kind: SocketType, endpoint: &str, options: Options) -> Result<Socket> {
    let socket = Socket::try_new(kind, options)?;
    socket.connect(endpoint).await?;
    Ok(socket)
}

impl Echo for Socket {
    async fn echo(&mut self) -> Result {
        let message = self.recv().await?;
        Ok(Socket::send(self, message).await?)
    }
}

impl Sends<Omq> for Socket {
    async fn send(&mut self, message: Message) -> Result {
        Ok(Socket::send(self, message).await?)
    }
}

impl Receives<Omq> for Socket {
    async fn receive(&mut self) -> Result<Message> {
        Ok(self.recv().await?)
    }
}

fn main() -> std::process::ExitCode {
    roles::main::<Omq>()
}
