//! When to PING and when to give a silent peer up (RFC 37, "Connection heartbeating").

use std::time::{Duration, Instant};

use super::{ConnectionError, Heartbeat};
use crate::wire::greeting::Version;

/// Liveness of one open connection. Every received byte is a sign of life.
#[derive(Debug)]
pub(super) struct Liveness {
    pings: Option<Pings>,
    last_traffic: Instant,
    /// The peer asked us to give up after this long without traffic.
    peer_ttl: Option<Duration>,
}

#[derive(Debug)]
struct Pings {
    settings: Heartbeat,
    next: Instant,
    /// The oldest PING that no traffic has followed yet.
    unanswered: Option<Instant>,
}

impl Liveness {
    /// PINGs go to 3.1 peers only: libzmq 4.0 and 4.1 hand them to the application as messages.
    pub(super) fn new(heartbeat: Option<Heartbeat>, version: Version, now: Instant) -> Self {
        let wanted = |settings: &Heartbeat| !settings.interval.is_zero() && version >= Version::V3_1;
        let pings = heartbeat.filter(wanted).map(|settings| Pings {
            settings,
            next: now + settings.interval,
            unanswered: None,
        });
        Self { pings, last_traffic: now, peer_ttl: None }
    }

    pub(super) fn on_traffic(&mut self, now: Instant) {
        self.last_traffic = now;
    }

    pub(super) fn on_ping(&mut self, ttl: Duration, now: Instant) {
        self.last_traffic = now;
        self.peer_ttl = (!ttl.is_zero()).then_some(ttl);
    }

    /// May be earlier than anything is really due: traffic moves the true time, not the timer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let pings = self.pings.as_ref().map(|pings| match pings.unanswered {
            Some(sent) if !pings.settings.timeout.is_zero() => pings.next.min(sent + pings.settings.timeout),
            _ => pings.next,
        });
        let ttl = self.peer_ttl.map(|ttl| self.last_traffic + ttl);
        pings.into_iter().chain(ttl).min()
    }

    /// The TTL of a PING to send now, if one is due.
    pub(super) fn on_deadline(&mut self, now: Instant) -> Result<Option<Duration>, ConnectionError> {
        if self.peer_ttl.is_some_and(|ttl| self.last_traffic + ttl <= now) {
            return Err(ConnectionError::Silent);
        }
        let Some(pings) = &mut self.pings else { return Ok(None) };
        if let Some(sent) = pings.unanswered {
            // Traffic in the instant of the PING counts: clocks are coarse, and it is a sign of life either way.
            if self.last_traffic >= sent {
                pings.unanswered = None;
            } else if !pings.settings.timeout.is_zero() && sent + pings.settings.timeout <= now {
                return Err(ConnectionError::Silent);
            }
        }
        if pings.next > now {
            return Ok(None);
        }
        // From now, not from when it was due: after a pause one PING goes out, not a burst.
        pings.next = now + pings.settings.interval;
        pings.unanswered.get_or_insert(now);
        Ok(Some(pings.settings.ttl))
    }
}
