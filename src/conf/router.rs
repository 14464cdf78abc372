//! [`RouterConf`]: everything a broker is told, resolved.

use zmtp::{Endpoint, Host, Limits};

use super::key::{Key, Program};
use super::machine::Machine;
use super::report::{ConfError, Notice, Origin};
use super::resolve::{Effective, Resolved};
use super::settings::{self as key};
use super::sources::{Flags, Sources, Variables};
use super::values::{Bound, LogFormat, LogLevel, Memory};
use crate::broker::{BrokerConfig, Roles, ServerConf, WireConf};

/// Open files kept for other things than connections: listeners, the log, the store.
const RESERVED_FILES: usize = 64;

/// Settings of `emq router`: nothing in here means "ask elsewhere".
#[derive(Debug, Clone, PartialEq)]
pub struct RouterConf {
    /// What the broker is told.
    pub server: ServerConf,
    /// What is logged.
    pub log: LogConf,
    /// Whether it keeps schedules itself while no scheduler is connected.
    pub builtin_scheduler: bool,
}

/// What is logged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogConf {
    /// The least urgent level shown; at least debug with `super_debug`.
    pub level: LogLevel,
    /// Lines for people or for programs.
    pub format: LogFormat,
    /// Whether single messages are logged.
    pub super_debug: bool,
    /// Whether heartbeats are not.
    pub hide_heartbeats: bool,
}

/// Settings with what is worth saying about them.
#[derive(Debug, Clone)]
pub struct Loaded<C = RouterConf> {
    /// The settings.
    pub conf: C,
    /// Each of them with its origin.
    pub effective: Vec<Effective>,
    /// What does not stop the start.
    pub notices: Vec<Notice>,
}

impl RouterConf {
    /// Reads all sources and resolves the broker's settings.
    pub fn load(flags: &Flags, variables: &Variables, machine: &Machine) -> Result<Loaded, ConfError> {
        let mut resolved = Resolved::new(Program::Router, &Sources::read(flags, variables)?)?;
        let conf = Self::resolve(&resolved, machine)?;
        if conf.server.core.heartbeat_interval.is_some_and(|interval| interval >= conf.server.core.heartbeat_timeout) {
            resolved.notice(Notice::SlowHeartbeats);
        }
        if conf.server.core.queues.is_empty() {
            resolved.notice(Notice::NoQueues { origin: resolved.origin(key::QUEUES.setting) });
        }
        let effective = resolved.effective(Program::Router);
        Ok(Loaded { conf, effective, notices: resolved.notices().to_vec() })
    }

    /// The broker's settings from checked texts.
    pub fn resolve(from: &Resolved, machine: &Machine) -> Result<Self, ConfError> {
        let frontend = from.get(key::FRONTEND_ADDR)?;
        let backend = from.get(key::BACKEND_ADDR)?;
        let admin = from.get(key::ADMINISTRATIVE_ADDR)?;
        check_overlap(from, [(key::FRONTEND_ADDR, &frontend), (key::BACKEND_ADDR, &backend)])?;
        check_overlap(from, [(key::FRONTEND_ADDR, &frontend), (key::ADMINISTRATIVE_ADDR, &admin)])?;
        check_overlap(from, [(key::BACKEND_ADDR, &backend), (key::ADMINISTRATIVE_ADDR, &admin)])?;
        let core = resolve_core(from, share_sockets([&frontend, &backend, &admin]), machine)?;
        let server = ServerConf { core, wire: resolve_wire(from, machine)?, frontend, backend, admin };
        Ok(Self { server, log: resolve_log(from)?, builtin_scheduler: from.get(key::BUILTIN_SCHEDULER)? })
    }
}

fn resolve_core(from: &Resolved, sockets: Vec<Roles>, machine: &Machine) -> Result<BrokerConfig, ConfError> {
    let disabled = from.get(key::DISABLE_HEARTBEATS)?;
    let interval = from.get(key::HEARTBEAT_INTERVAL)?;
    let waiting_bytes = match from.get(key::WAITING_MEMORY)? {
        Memory::Bytes(bytes) => bytes,
        // Divide first: the sum of all memory times a hundred may not fit.
        Memory::Percent(share) => machine.memory / 100 * u64::from(share),
    };
    let (retry_backoff, retry_backoff_max) = (from.get(key::RETRY_BACKOFF)?, from.get(key::RETRY_BACKOFF_MAX)?);
    if retry_backoff > retry_backoff_max {
        let advice = "raise the one or lower the other";
        return Err(conflict(from, key::RETRY_BACKOFF, "is longer than", key::RETRY_BACKOFF_MAX, advice));
    }
    Ok(BrokerConfig {
        sockets,
        default_queue: from.get(key::DEFAULT_QUEUE_NAME)?,
        default_weight: from.get(key::DEFAULT_QUEUE_WEIGHT)?,
        queues: from.get(key::QUEUES)?,
        unknown_queue: from.get(key::UNKNOWN_QUEUE)?,
        hwm: from.get(key::HWM)?,
        waiting_bytes: usize::try_from(waiting_bytes).unwrap_or(usize::MAX),
        heartbeat_interval: (!disabled).then_some(interval),
        heartbeat_timeout: from.get(key::HEARTBEAT_TIMEOUT)?,
        heartbeat_liveness: from.get(key::HEARTBEAT_LIVENESS)?,
        delivery_limit: from.get(key::DELIVERY_LIMIT)?,
        retry_backoff,
        retry_backoff_max,
        timeout_grace: from.get(key::TIMEOUT_GRACE)?,
        global_timeout: from.get(key::GLOBAL_TIMEOUT)?,
        shutdown_grace: from.get(key::SHUTDOWN_GRACE)?,
        dead_limit: from.get(key::DEAD_LIMIT)?,
        tracking: from.get(key::JOB_TRACKING)?,
    })
}

fn resolve_wire(from: &Resolved, machine: &Machine) -> Result<WireConf, ConfError> {
    let heartbeat_interval = from.get(key::ZMTP_HEARTBEAT_INTERVAL)?;
    let (max_connections, limits) = wire_of(from, machine)?;
    Ok(WireConf {
        max_connections,
        max_pending_handshakes: from.get(key::MAX_PENDING_HANDSHAKES)?,
        handshake_timeout: from.get(key::HANDSHAKE_TIMEOUT)?,
        limits,
        heartbeat_interval: (!heartbeat_interval.is_zero()).then_some(heartbeat_interval),
        heartbeat_timeout: from.get(key::ZMTP_HEARTBEAT_TIMEOUT)?,
        send_hwm: from.get(key::SEND_HWM)?,
        receive_hwm: from.get(key::RECEIVE_HWM)?,
    })
}

/// Most connections, and the largest frame and message.
pub(super) fn wire_of(from: &Resolved, machine: &Machine) -> Result<(usize, Limits), ConfError> {
    let max_connections = match from.get(key::MAX_CONNECTIONS)? {
        Bound::Auto => machine.open_files.saturating_sub(RESERVED_FILES).max(1),
        Bound::Count(count) => count,
    };
    Ok((max_connections, limits_of(from)?))
}

/// The largest frame and message.
pub(super) fn limits_of(from: &Resolved) -> Result<Limits, ConfError> {
    let message = from.get(key::MAX_MESSAGE_SIZE)?;
    Ok(Limits { frame: from.get(key::MAX_FRAME_SIZE)?.min(message), message })
}

pub(super) fn resolve_log(from: &Resolved) -> Result<LogConf, ConfError> {
    let super_debug = from.get(key::SUPER_DEBUG)?;
    let level = from.get(key::LOG_LEVEL)?;
    // A level asked for on the command line is meant as it stands.
    let asked = matches!(from.origin(key::LOG_LEVEL.setting), Origin::Flag(_));
    Ok(LogConf {
        level: if super_debug && !asked { level.max(LogLevel::Debug) } else { level },
        format: from.get(key::LOG_FORMAT)?,
        super_debug,
        hide_heartbeats: from.get(key::HIDE_HEARTBEAT_LOGS)?,
    })
}

/// Gives every role a socket: one to roles whose addresses are equal, unless they ask the system for an address of
/// one's own (port 0, `ipc://*`).
fn share_sockets([frontend, backend, admin]: [&Endpoint; 3]) -> Vec<Roles> {
    let same = |one: &Endpoint, other: &Endpoint| one == other && !one.is_ephemeral();
    let none = Roles::default();
    let mut sockets = vec![Roles { frontend: true, ..none }];
    if same(backend, frontend) {
        sockets[0].backend = true;
    } else {
        sockets.push(Roles { backend: true, ..none });
    }
    if same(admin, frontend) {
        sockets[0].admin = true;
    } else if same(admin, backend) {
        sockets[1].admin = true;
    } else {
        sockets.push(Roles { admin: true, ..none });
    }
    sockets
}

/// Refuses two addresses of which one covers the other: binding the second would fail with "address in use", which
/// does not say by whom.
pub(super) fn check_overlap(
    from: &Resolved,
    [(first_key, first), (second_key, second)]: [(Key<Endpoint>, &Endpoint); 2],
) -> Result<(), ConfError> {
    let is_v6 = |endpoint: &Endpoint| match endpoint {
        Endpoint::Tcp(tcp) => matches!(tcp.host(), Host::Ip(ip) if ip.is_ipv6()),
        _ => false,
    };
    let overlap = first.port() == second.port()
        && first.port() != 0
        && first != second
        && is_v6(first) == is_v6(second)
        && (first.is_wildcard() || second.is_wildcard());
    if overlap {
        let advice = "give them different ports, or the very same address to share one socket";
        return Err(conflict(from, first_key, "overlaps", second_key, advice));
    }
    Ok(())
}

fn conflict<T>(
    from: &Resolved,
    first: Key<T>,
    conflict: &'static str,
    second: Key<T>,
    advice: &'static str,
) -> ConfError {
    let place = |key: Key<T>| Box::new(from.assignment(key.setting));
    ConfError::Conflict { first: place(first), conflict, second: place(second), advice }
}
