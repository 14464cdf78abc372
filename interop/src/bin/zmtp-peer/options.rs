//! What the `socket` command may say.

use std::time::Duration;

use interop::notation::{number, unhex};
use zmtp::{
    Dealer, Handover, Heartbeat, Ipv6, Limits, Pair, Pub, Pull, Push, Reconnect, Rep, Req, Router, RoutingId,
    SocketBuilder, Sub, Verbosity, XPub, XSub,
};

use crate::socket::Socket;
use crate::{Failure, millis, text};

/// Options of the `socket` command; times in milliseconds.
#[derive(Default)]
pub struct Options<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Options<'a> {
    pub fn parse(words: &[&'a str]) -> Result<Self, Failure> {
        words
            .iter()
            .map(|word| word.split_once('=').ok_or_else(|| format!("not name=value: {word}")))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The socket of the type of that name, in lower case.
    pub fn socket(&self, kind: &str) -> Result<Socket, Failure> {
        Ok(match kind {
            "dealer" => Socket::Dealer(self.common(Dealer::builder())?.build()),
            "pair" => Socket::Pair(self.common(Pair::builder())?.build()),
            "pub" => Socket::Pub(self.common(Pub::builder())?.build()),
            "pull" => Socket::Pull(self.common(Pull::builder())?.build()),
            "push" => Socket::Push(self.common(Push::builder())?.build()),
            "rep" => Socket::Rep(self.common(Rep::builder())?.build()),
            "req" => {
                let builder = self.common(Req::builder())?;
                Socket::Req(builder.relaxed(self.is_on("relaxed")).correlate(self.is_on("correlate")).build())
            }
            "router" => {
                let handover = if self.is_on("handover") { Handover::Replace } else { Handover::Refuse };
                Socket::Router(self.common(Router::builder())?.handover(handover).build())
            }
            "sub" => Socket::Sub(self.common(Sub::builder())?.build()),
            "xpub" => {
                let verbosity = if self.is_on("verboser") { Verbosity::Everything } else { Verbosity::Changes };
                Socket::XPub(self.common(XPub::builder())?.verbosity(verbosity).build())
            }
            "xsub" => Socket::XSub(self.common(XSub::builder())?.build()),
            _ => return Err(format!("no such socket type: {kind}")),
        })
    }

    fn is_on(&self, name: &str) -> bool {
        self.0.contains(&(name, "1"))
    }

    fn value(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(option, _)| *option == name).map(|(_, value)| *value)
    }

    fn common<T>(&self, builder: SocketBuilder<T>) -> Result<SocketBuilder<T>, Failure> {
        let mut builder = builder.linger(Duration::from_secs(1));
        let mut reconnect = Reconnect { first: Duration::from_millis(100), longest: Duration::from_secs(5) };
        let mut limits = Limits::default();
        if let Some(security) = interop::security::parse(&self.0)? {
            builder = builder.security(security);
        }
        for (name, value) in &self.0 {
            match *name {
                "id" => builder = builder.routing_id(RoutingId::new(unhex(value)?).map_err(text)?),
                "send_hwm" => builder = builder.send_hwm(number(value)?),
                "receive_hwm" => builder = builder.receive_hwm(number(value)?),
                "linger" => builder = builder.linger(millis(value)?),
                "handshake" => builder = builder.handshake_timeout(millis(value)?),
                "heartbeat" => {
                    let interval = millis(value)?;
                    let timeout = self.value("heartbeat_timeout").map_or(Ok(interval * 5), millis)?;
                    builder = builder.heartbeat(Heartbeat { interval, timeout, ttl: Duration::ZERO });
                }
                "reconnect" => reconnect.first = millis(value)?,
                "reconnect_max" => reconnect.longest = millis(value)?,
                "max_frame" => limits.frame = number(value)? as u64,
                "max_message" => limits.message = number(value)? as u64,
                "ipv6" => builder = builder.ipv6(if *value == "1" { Ipv6::DualStack } else { Ipv6::Never }),
                "heartbeat_timeout" | "handover" | "relaxed" | "correlate" | "verboser" => {}
                name if interop::security::OPTIONS.contains(&name) => {}
                _ => return Err(format!("no such option: {name}")),
            }
        }
        Ok(builder.reconnect(reconnect).limits(limits))
    }
}
