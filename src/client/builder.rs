//! [`ClientBuilder`]: settings of a client.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use zmtp::connection::Heartbeat;
use zmtp::{Dealer, Endpoint, Reconnect, RoutingId, Security};

use super::ClientError;
use super::driver::Driver;
use super::handle::{Client, FullQueues, Shared};
use crate::emqp::MsgIds;

/// Settings of a [`Client`] to be.
#[derive(Debug, Clone)]
#[must_use]
pub struct ClientBuilder {
    acceptance_timeout: Duration,
    confirmation_timeout: Duration,
    max_unaccepted: usize,
    full_queues: FullQueues,
    reconnect: Reconnect,
    heartbeat: Option<Heartbeat>,
    linger: Duration,
    security: Option<Security>,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            acceptance_timeout: Duration::from_secs(10),
            confirmation_timeout: Duration::from_secs(2),
            max_unaccepted: 1000,
            full_queues: FullQueues::default(),
            reconnect: Reconnect { first: Duration::from_millis(50), longest: Duration::from_secs(2) },
            heartbeat: Some(Heartbeat {
                interval: Duration::from_secs(5),
                timeout: Duration::from_secs(10),
                ttl: Duration::ZERO,
            }),
            linger: Duration::from_secs(5),
            security: None,
        }
    }
}

impl ClientBuilder {
    /// How long the acceptance of a job is awaited, connecting included. Default 10 s.
    pub fn acceptance_timeout(mut self, limit: Duration) -> Self {
        self.acceptance_timeout = limit;
        self
    }

    /// How long the confirmation of a schedule is awaited, connecting included. Default 2 s.
    pub fn confirmation_timeout(mut self, limit: Duration) -> Self {
        self.confirmation_timeout = limit;
        self
    }

    /// Most jobs handed over and not accepted; past it submitting waits. Default 1000; at least 1.
    pub fn max_unaccepted(mut self, jobs: usize) -> Self {
        self.max_unaccepted = jobs.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// What to do about full queues. Default: report them.
    pub fn full_queues(mut self, policy: FullQueues) -> Self {
        self.full_queues = policy;
        self
    }

    /// Pauses between attempts to connect. Default 50 ms, doubling up to 2 s, with jitter.
    pub fn reconnect(mut self, reconnect: Reconnect) -> Self {
        self.reconnect = reconnect;
        self
    }

    /// How a broker that went silent is found out. Default: a PING every 5 s, and 10 s without any sign of life.
    pub fn heartbeat(mut self, heartbeat: impl Into<Option<Heartbeat>>) -> Self {
        self.heartbeat = heartbeat.into();
        self
    }

    /// How long what is sent may take to be written once the client is closed. Default 5 s.
    pub fn linger(mut self, limit: Duration) -> Self {
        self.linger = limit;
        self
    }

    /// The connection's security mechanism, as the broker has it. Default: none.
    pub fn security(mut self, security: Security) -> Self {
        self.security = Some(security);
        self
    }

    /// Makes the client. It connects in the background; needs a tokio runtime.
    ///
    /// # Errors
    /// Only for an address that can never be connected to.
    pub fn connect(self, endpoint: &Endpoint) -> Result<Client, ClientError> {
        let unique = uuid::Uuid::new_v4();
        // A Python router decodes routing ids as text.
        let mut socket = Dealer::builder()
            .routing_id(RoutingId::new(unique.to_string())?)
            .reconnect(self.reconnect)
            .heartbeat(self.heartbeat)
            .linger(self.linger);
        if let Some(security) = self.security {
            socket = socket.security(security);
        }
        let dealer = socket.build();
        let monitor = dealer.monitor();
        dealer.connect(endpoint)?;
        let (orders, received) = mpsc::unbounded_channel();
        tokio::spawn(Driver::new(dealer, monitor, received).run());
        let (seed, more) = uuid::Uuid::new_v4().as_u64_pair();
        Ok(Client::new(Shared {
            endpoint: endpoint.clone(),
            acceptance_timeout: self.acceptance_timeout,
            confirmation_timeout: self.confirmation_timeout,
            full_queues: self.full_queues,
            orders,
            room: Arc::new(Semaphore::new(self.max_unaccepted)),
            ids: Mutex::new(MsgIds::new(seed ^ more.rotate_left(32))),
        }))
    }
}
