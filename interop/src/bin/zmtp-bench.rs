//! The roles of the benchmark with `zmtp`: see `interop/bench/crates/src/roles.rs`, which other libraries share.

#[path = "../../bench/crates/src/roles.rs"]
mod roles;

use zmtp::auth::AllowAny;
use zmtp::{Dealer, KeyPair, Message, Pub, Pull, Push, Router, Security, SocketBuilder, Sub};

use roles::{CurveClient, CurveServer, Echo, HWM, Library, PUB_HWM, Receives, Result, SOCKET_BUFFER, Sends};

struct Zmtp;

impl Library for Zmtp {
    const NAME: &'static str = "zmtp";
    const CURVE: bool = true;
    type Message = Message;

    fn message<'a>(mut frames: impl ExactSizeIterator<Item = &'a [u8]>) -> Message {
        match (frames.len(), frames.next()) {
            (1, Some(only)) => Message::single(only),
            (_, first) => {
                first.into_iter().chain(frames).fold(Message::builder(), |made, frame| made.frame(frame)).build()
            }
        }
    }

    fn frames(message: &Message) -> impl Iterator<Item = &[u8]> {
        message.frames()
    }

    async fn router(endpoint: &str) -> Result<impl Echo + Send> {
        let router = options(Router::builder(), HWM).build();
        router.bind(&endpoint.parse()?).await?;
        Ok(router)
    }

    async fn dealer(endpoint: &str) -> Result<impl Sends<Self> + Receives<Self>> {
        let dealer = options(Dealer::builder(), HWM).build();
        dealer.connect(&endpoint.parse()?)?;
        Ok(dealer)
    }

    async fn push(endpoint: &str, curve: Option<CurveServer>) -> Result<impl Sends<Self>> {
        let security = match curve {
            Some(keys) => Security::curve_server(pair(&keys.secret)?, AllowAny),
            None => Security::null(),
        };
        let push = options(Push::builder(), HWM).security(security).build();
        push.bind(&endpoint.parse()?).await?;
        Ok(push)
    }

    async fn pull(endpoint: &str, curve: Option<CurveClient>) -> Result<impl Receives<Self>> {
        let security = match curve {
            Some(keys) => Security::curve_client(keys.server.parse()?, pair(&keys.secret)?),
            None => Security::null(),
        };
        let pull = options(Pull::builder(), HWM).security(security).build();
        pull.connect(&endpoint.parse()?)?;
        Ok(pull)
    }

    async fn publish(endpoint: &str) -> Result<impl Sends<Self>> {
        let publisher = options(Pub::builder(), PUB_HWM).build();
        publisher.bind(&endpoint.parse()?).await?;
        Ok(publisher)
    }

    async fn subscribe(endpoint: &str) -> Result<impl Receives<Self>> {
        let subscriber = options(Sub::builder(), PUB_HWM).build();
        subscriber.subscribe("")?;
        subscriber.connect(&endpoint.parse()?)?;
        Ok(subscriber)
    }
}

fn options<S>(builder: SocketBuilder<S>, hwm: usize) -> SocketBuilder<S> {
    let buffer = SOCKET_BUFFER as u32;
    builder.send_hwm(hwm).receive_hwm(hwm).send_buffer(buffer).receive_buffer(buffer)
}

fn pair(secret: &str) -> Result<KeyPair> {
    Ok(KeyPair::from_secret(secret.parse()?))
}

impl Echo for Router {
    async fn echo(&mut self) -> Result {
        let (peer, message) = self.recv().await?;
        Ok(self.send(&peer, message).await?)
    }
}

macro_rules! sends {
    ($($socket:ty),*) => {$(
        impl Sends<Zmtp> for $socket {
            async fn send(&mut self, message: Message) -> Result {
                Ok(<$socket>::send(self, message).await?)
            }
        }
    )*};
}

macro_rules! receives {
    ($($socket:ty),*) => {$(
        impl Receives<Zmtp> for $socket {
            async fn receive(&mut self) -> Result<Message> {
                Ok(self.recv().await?)
            }
        }
    )*};
}

sends!(Dealer, Push, Pub);
receives!(Dealer, Pull, Sub);

fn main() -> std::process::ExitCode {
    roles::main::<Zmtp>()
}
