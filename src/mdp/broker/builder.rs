//! [`BrokerBuilder`]: settings of a broker to be.

use std::time::{Duration, Instant};

use zmtp::{Endpoint, Handover, Heartbeat, Limits, Router, Security};

use super::bridge::Bridge;
use super::hub::Hub;
use super::{Broker, BrokerError, BrokerHandle};
use crate::mdp::core::{BridgeConfig, Bridging, BrokerConfig, Core};

/// How long messages queued for peers are still sent after the end.
const LINGER: Duration = Duration::from_secs(2);

/// Settings of a broker to be, by [`Broker::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct BrokerBuilder {
    endpoints: Vec<Endpoint>,
    config: BrokerConfig,
    bridge: Option<Endpoint>,
    send_hwm: usize,
    receive_hwm: usize,
    limits: Limits,
    heartbeat: Option<Heartbeat>,
    security: Security,
}

impl Default for BrokerBuilder {
    fn default() -> Self {
        let (interval, timeout) = (Duration::from_secs(1), Duration::from_secs(5));
        Self {
            endpoints: Vec::new(),
            config: BrokerConfig::default(),
            bridge: None,
            send_hwm: 500_000,
            receive_hwm: 1_000,
            limits: Limits::default(),
            heartbeat: Some(Heartbeat { interval, timeout, ttl: Duration::ZERO }),
            security: Security::null(),
        }
    }
}

impl BrokerBuilder {
    /// Listens on one more endpoint. Clients and workers may use any.
    pub fn bind(mut self, endpoint: Endpoint) -> Self {
        self.endpoints.push(endpoint);
        self
    }

    /// Heartbeats, expiries and bounds.
    pub fn config(mut self, config: BrokerConfig) -> Self {
        self.config = config;
        self
    }

    /// Makes requests for services `emq.QUEUE` jobs of the eMQP broker whose frontend is at `frontend`. Default: no
    /// bridge. Bounds: [`BrokerConfig::bridge`].
    pub fn bridge(mut self, frontend: Endpoint) -> Self {
        self.bridge = Some(frontend);
        self
    }

    /// Most messages queued for one peer; then further replies to it are dropped and counted. Default 500,000: clients
    /// that send all their requests before they read a reply are common.
    pub fn send_hwm(mut self, messages: usize) -> Self {
        self.send_hwm = messages;
        self
    }

    /// Most messages of one peer read and not dealt with. Default 1000.
    pub fn receive_hwm(mut self, messages: usize) -> Self {
        self.receive_hwm = messages;
        self
    }

    /// Largest frame and message taken from a peer. Default 256 MiB and 512 MiB.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// ZMTP's own PINGs, which find connections that are dead though not closed, also of workers that do not send
    /// heartbeats while they work. Default: each second, 5 s for the answer; `None` sends none.
    pub fn zmtp_heartbeat(mut self, heartbeat: impl Into<Option<Heartbeat>>) -> Self {
        self.heartbeat = heartbeat.into();
        self
    }

    /// The security mechanism and our part in it. Default: NULL, no security at all.
    pub fn security(mut self, security: Security) -> Self {
        self.security = security;
        self
    }

    /// Binds the endpoints; from then on peers can connect and wait. Needs a tokio runtime.
    ///
    /// # Errors
    /// There is no endpoint, or one cannot be listened on; or the bridge's can never be connected to.
    pub async fn start(mut self) -> Result<Broker, BrokerError> {
        if self.endpoints.is_empty() {
            return Err(BrokerError::NoEndpoint);
        }
        let bridge = self.bridge.as_ref().map(Bridge::connect).transpose()?;
        self.config.bridge = match (&bridge, self.config.bridge) {
            (None, _) => Bridging::Off,
            (Some(_), Bridging::Off) => Bridging::On(BridgeConfig::default()),
            (Some(_), on) => on,
        };
        let (sender, receiver) = self.router().split();
        let mut endpoints = Vec::new();
        for endpoint in &self.endpoints {
            let bound = sender.bind(endpoint).await?;
            tracing::info!(endpoint = %bound, "listening for clients and workers");
            endpoints.push(bound);
        }
        let (seed, _) = uuid::Uuid::new_v4().as_u64_pair();
        let core = Core::new(self.config, Instant::now(), seed);
        let (control_sender, control) = tokio::sync::mpsc::unbounded_channel();
        let hub = Hub::new(core, sender, receiver, endpoints.clone(), bridge);
        Ok(Broker { hub, endpoints, control, handle: BrokerHandle(control_sender) })
    }

    fn router(&self) -> Router {
        Router::builder()
            // A worker that returns before its old connection was noticed to be dead takes its name over.
            .handover(Handover::Replace)
            .heartbeat(self.heartbeat)
            .limits(self.limits)
            .send_hwm(self.send_hwm)
            .receive_hwm(self.receive_hwm)
            .security(self.security.clone())
            .linger(LINGER)
            .build()
    }
}
