//! Sockets of all types behind one face.

use zmtp::{
    Dealer, Endpoint, LockstepError, Message, Monitor, Pair, Pub, Pull, Push, RecvError, Rep, Req, Router, RoutingId,
    SendError, SendFailure, Sub, XPub, XSub,
};

use crate::{Failure, text};

/// A socket of any type; messages are lists of frames, a ROUTER's with the routing id in front.
pub enum Socket {
    Dealer(Dealer),
    Pair(Pair),
    Pub(Pub),
    Pull(Pull),
    Push(Push),
    Rep(Rep),
    Req(Req),
    Router(Router),
    Sub(Sub),
    XPub(XPub),
    XSub(XSub),
}

/// The same expression for whichever type it is.
macro_rules! each {
    ($socket:expr, $it:ident => $do:expr) => {
        match $socket {
            Socket::Dealer($it) => $do,
            Socket::Pair($it) => $do,
            Socket::Pub($it) => $do,
            Socket::Pull($it) => $do,
            Socket::Push($it) => $do,
            Socket::Rep($it) => $do,
            Socket::Req($it) => $do,
            Socket::Router($it) => $do,
            Socket::Sub($it) => $do,
            Socket::XPub($it) => $do,
            Socket::XSub($it) => $do,
        }
    };
}

impl Socket {
    pub async fn bind(&self, endpoint: &Endpoint) -> Result<Endpoint, Failure> {
        each!(self, socket => socket.bind(endpoint).await).map_err(text)
    }

    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), Failure> {
        each!(self, socket => socket.connect(endpoint)).map_err(text)
    }

    pub fn monitor(&self) -> Monitor {
        each!(self, socket => socket.monitor())
    }

    pub async fn close(self) {
        each!(self, socket => socket.close().await);
    }

    pub fn subscribe(&self, topic: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Sub(sub) => sub.subscribe(topic).map_err(text),
            Self::XSub(xsub) => xsub.subscribe(topic).map_err(text),
            _ => Err(no("subscribe")),
        }
    }

    pub fn unsubscribe(&self, topic: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Sub(sub) => sub.unsubscribe(topic),
            Self::XSub(xsub) => xsub.unsubscribe(topic),
            _ => return Err(no("unsubscribe")),
        };
        Ok(())
    }

    pub async fn send(&mut self, frames: Vec<Vec<u8>>) -> Result<(), Failure> {
        match self {
            Self::Router(router) => {
                let (to, message) = addressed(&frames)?;
                router.send(&to, message).await
            }
            Self::Dealer(dealer) => dealer.send(Message::from_frames(frames)).await,
            Self::Pair(pair) => pair.send(Message::from_frames(frames)).await,
            Self::Push(push) => push.send(Message::from_frames(frames)).await,
            Self::Req(req) => req.send(Message::from_frames(frames)).await,
            Self::Pub(publisher) => publisher.send(Message::from_frames(frames)).await,
            Self::XPub(xpub) => xpub.send(Message::from_frames(frames)).await,
            _ => return self.try_send(frames),
        }
        .map_err(why)
    }

    pub fn try_send(&mut self, frames: Vec<Vec<u8>>) -> Result<(), Failure> {
        match self {
            Self::Router(router) => {
                let (to, message) = addressed(&frames)?;
                router.try_send(&to, message)
            }
            Self::Dealer(dealer) => dealer.try_send(Message::from_frames(frames)),
            Self::Pair(pair) => pair.try_send(Message::from_frames(frames)),
            Self::Push(push) => push.try_send(Message::from_frames(frames)),
            Self::Req(req) => req.try_send(Message::from_frames(frames)),
            Self::Rep(rep) => rep.send(Message::from_frames(frames)),
            Self::Pub(publisher) => publisher.try_send(Message::from_frames(frames)),
            Self::XPub(xpub) => xpub.try_send(Message::from_frames(frames)),
            Self::XSub(xsub) => xsub.try_send(Message::from_frames(frames)),
            Self::Pull(_) | Self::Sub(_) => return Err(no("send")),
        }
        .map_err(why)
    }

    pub async fn receive(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        let message = match self {
            Self::Router(router) => {
                let (from, message) = router.recv().await.map_err(closed)?;
                message.prepend(from)
            }
            Self::Dealer(dealer) => dealer.recv().await.map_err(closed)?,
            Self::Pair(pair) => pair.recv().await.map_err(closed)?,
            Self::Pull(pull) => pull.recv().await.map_err(closed)?,
            Self::Rep(rep) => rep.recv().await.map_err(turn)?,
            Self::Req(req) => req.recv().await.map_err(turn)?,
            Self::Sub(sub) => sub.recv().await.map_err(closed)?,
            Self::XPub(xpub) => xpub.recv().await.map_err(closed)?.into(),
            Self::XSub(xsub) => xsub.recv().await.map_err(closed)?,
            Self::Pub(_) | Self::Push(_) => return Err(no("receive")),
        };
        Ok(message.frames().map(<[u8]>::to_vec).collect())
    }
}

fn no(what: &str) -> Failure {
    format!("a socket of this type cannot {what}")
}

fn closed(error: RecvError) -> Failure {
    text(error)
}

fn turn(error: LockstepError) -> Failure {
    text(error)
}

fn addressed(frames: &[Vec<u8>]) -> Result<(RoutingId, Message), Failure> {
    let (id, body) = frames.split_first().ok_or("no frames")?;
    Ok((RoutingId::any(id).map_err(text)?, Message::from_frames(body)))
}

fn why(error: SendError) -> Failure {
    match error.reason {
        SendFailure::Full => "full".to_owned(),
        SendFailure::Gone => "gone".to_owned(),
        other => other.to_string(),
    }
}
