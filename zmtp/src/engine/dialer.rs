//! Dialers: keep one connection to an endpoint, for as long as the socket wants it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::core::{Core, Running};
use super::inproc;
use super::link::{drive, now};
use super::membership::{LinkContext, LinkEnd};
use super::pipe::{Order, Pipe};
use super::transport;
use crate::Endpoint;
use crate::connection::ConnectionError;
use crate::monitor::{MonitorEvent, Reason};
use crate::pattern::{Origin, Pattern};
use crate::random::Random;
use crate::socket::Reconnect;

/// Connects, drives the link, and connects again, over the same pipe, until told to stop.
pub(crate) async fn dial<P: Pattern>(
    core: Arc<Core<P>>,
    endpoint: Endpoint,
    pipe: Arc<Pipe>,
    running: Running,
    random: Random,
) {
    let token = &running.stop;
    let mut backoff = Backoff::new(core.options.reconnect, random);
    let gave_up = loop {
        if let Stop::Now = stop(&core, &pipe) {
            break None;
        }
        let Some(end) = attempt(&core, &endpoint, &pipe, token).await else { continue };
        if let Reason::Protocol(ConnectionError::Refused(_)) | Reason::Replaced = end.reason {
            break Some(end.reason);
        }
        if let Stop::Now = stop(&core, &pipe) {
            break None;
        }
        backoff.learn(&end);
        let Some(after) = backoff.next() else { break Some(end.reason) };
        core.tell(|| MonitorEvent::Retrying { endpoint: endpoint.clone(), after, reason: end.reason });
        tokio::select! {
            () = tokio::time::sleep(after) => {}
            // The order to finish: one attempt at once, then in turn until linger is over.
            () = token.cancelled(), if !token.is_cancelled() => {}
            () = told_to_stop(&pipe, token) => {}
        }
    };
    if let Some(reason) = gave_up {
        tracing::error!(%endpoint, %reason, "no further attempts to connect");
        core.tell(|| MonitorEvent::GaveUp { endpoint: endpoint.clone(), reason });
    }
    core.retire(&pipe);
    core.forget_endpoint(&endpoint, &running);
}

/// Whether a dialer still has a reason to try.
enum Stop {
    Now,
    NotYet,
}

fn stop<P: Pattern>(core: &Core<P>, pipe: &Pipe) -> Stop {
    match pipe.order() {
        // Connected while the socket was being closed.
        Order::Run if core.closing.is_cancelled() => Stop::Now,
        Order::Run => Stop::NotYet,
        Order::Abort(_) => Stop::Now,
        Order::Finish(until) if until.is_some_and(|until| until <= now()) => Stop::Now,
        Order::Finish(_) if pipe.is_empty() => Stop::Now,
        Order::Finish(_) => Stop::NotYet,
    }
}

/// Waits until [`stop`] says so. Only for between two links: it does not see the pipe being emptied.
async fn told_to_stop(pipe: &Pipe, token: &CancellationToken) {
    token.cancelled().await;
    match pipe.order() {
        Order::Finish(until) if !pipe.is_empty() => match until {
            Some(until) => tokio::time::sleep_until(until.into()).await,
            None => std::future::pending().await,
        },
        _ => {}
    }
}

/// One connection from start to end; `None` when told to stop before there was one.
async fn attempt<P: Pattern>(
    core: &Arc<Core<P>>,
    endpoint: &Endpoint,
    pipe: &Arc<Pipe>,
    token: &CancellationToken,
) -> Option<LinkEnd> {
    if let Endpoint::Inproc(name) = endpoint {
        return inproc::connect(core, name, pipe, told_to_stop(pipe, token)).await;
    }
    let connecting = async {
        match core.options.connect_timeout {
            Some(limit) => match tokio::time::timeout(limit, transport::connect(endpoint, &core.options)).await {
                Ok(result) => result,
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            },
            None => transport::connect(endpoint, &core.options).await,
        }
    };
    let opened = tokio::select! {
        opened = connecting => opened,
        () = told_to_stop(pipe, token) => return None,
    };
    match opened {
        Ok((stream, peer)) => {
            core.tell(|| MonitorEvent::Connected { endpoint: endpoint.clone(), peer });
            let id = core.enter(pipe, Origin::Connected);
            let context = LinkContext { id, endpoint: endpoint.clone(), peer, origin: Origin::Connected };
            Some(drive(stream, context, pipe.clone(), core.clone()).await)
        }
        Err(error) => Some(LinkEnd { reason: Reason::Connect(Arc::new(error)), established: false }),
    }
}

/// Pauses between attempts: doubling, with jitter, starting over only after a completed handshake.
struct Backoff {
    settings: Reconnect,
    pause: Duration,
    random: Random,
}

impl Backoff {
    fn new(settings: Reconnect, random: Random) -> Self {
        Self { settings, pause: settings.first, random }
    }

    /// Chooses the next pause by how the last attempt ended.
    fn learn(&mut self, end: &LinkEnd) {
        match &end.reason {
            Reason::Protocol(ConnectionError::Silent | ConnectionError::HandshakeTimeout) => {}
            // A slip in the protocol will hardly be gone in a moment.
            Reason::Protocol(_) => return self.pause = self.settings.longest,
            _ => {}
        }
        if end.established {
            self.pause = self.settings.first;
        }
    }

    /// The next pause, three quarters to all of the nominal one; `None`: never again.
    fn next(&mut self) -> Option<Duration> {
        if self.settings.first.is_zero() {
            return None;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(self.settings.longest.max(self.settings.first));
        Some(pause.mul_f64(1.0 - 0.25 * self.random.unit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_over_after_a_handshake() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(Reconnect { first: ms(100), longest: ms(350) }, Random::from_seed(1));
        let near = |nominal: Duration, backoff: &mut Backoff| {
            let pause = backoff.next().unwrap();
            assert!(pause <= nominal && pause >= nominal.mul_f64(0.75), "{pause:?} for {nominal:?}");
        };
        for nominal in [100, 200, 350, 350] {
            near(ms(nominal), &mut backoff);
        }
        backoff.learn(&LinkEnd { reason: Reason::PeerClosed, established: true });
        near(ms(100), &mut backoff);
        for established in [false, true] {
            let reason = Reason::Protocol(ConnectionError::UnexpectedCommand);
            backoff.learn(&LinkEnd { reason, established });
            near(ms(350), &mut backoff);
        }
    }

    #[test]
    fn zero_means_never() {
        let never = Reconnect { first: Duration::ZERO, longest: Duration::ZERO };
        assert_eq!(Backoff::new(never, Random::from_seed(1)).next(), None);
    }
}
