//! [`PublisherConf`]: everything a publisher is told, resolved.

use std::time::Duration;

use zmtp::Heartbeat;

use super::key::Program;
use super::machine::Machine;
use super::report::ConfError;
use super::resolve::Resolved;
use super::router::{Loaded, LogConf, check_overlap, resolve_log, wire_of};
use super::settings::{self as key};
use super::sources::{Flags, Sources, Variables};
use crate::pubsub::DeviceConf;

/// Settings of `emq pubsub`: nothing in here means "ask elsewhere".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublisherConf {
    /// What the publisher is told.
    pub device: DeviceConf,
    /// What is logged.
    pub log: LogConf,
}

impl PublisherConf {
    /// Reads all sources and resolves the publisher's settings.
    ///
    /// # Errors
    /// Settings that cannot be used.
    pub fn load(flags: &Flags, variables: &Variables, machine: &Machine) -> Result<Loaded<Self>, ConfError> {
        let resolved = Resolved::new(Program::Publisher, &Sources::read(flags, variables)?)?;
        let conf = Self::resolve(&resolved, machine)?;
        let effective = resolved.effective(Program::Publisher);
        Ok(Loaded { conf, effective, notices: resolved.notices().to_vec() })
    }

    /// The publisher's settings from checked texts.
    ///
    /// # Errors
    /// Two addresses of which one covers the other.
    pub fn resolve(from: &Resolved, machine: &Machine) -> Result<Self, ConfError> {
        let incoming = from.get(key::PUBLISHER_INCOMING_ADDR)?;
        let outgoing = from.get(key::PUBLISHER_OUTGOING_ADDR)?;
        let keys = [key::PUBLISHER_INCOMING_ADDR, key::PUBLISHER_OUTGOING_ADDR];
        check_overlap(from, [(keys[0], &incoming), (keys[1], &outgoing)])?;
        let (max_connections, limits) = wire_of(from, machine)?;
        let interval = from.get(key::ZMTP_HEARTBEAT_INTERVAL)?;
        let timeout = from.get(key::ZMTP_HEARTBEAT_TIMEOUT)?;
        let heartbeat = (!interval.is_zero()).then_some(Heartbeat { interval, timeout, ttl: Duration::ZERO });
        let device = DeviceConf {
            incoming,
            outgoing,
            max_connections,
            limits,
            heartbeat,
            send_hwm: from.get(key::SEND_HWM)?,
            receive_hwm: from.get(key::RECEIVE_HWM)?,
        };
        Ok(Self { device, log: resolve_log(from)? })
    }
}
