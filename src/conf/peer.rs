//! What every program is told that connects to a broker.

use super::report::{ConfError, Notice};
use super::resolve::Resolved;
use super::settings::{self as key};
use crate::session::Heartbeats;

/// Its heartbeats; `None` if they are switched off.
pub(super) fn heartbeats(from: &Resolved) -> Result<Option<Heartbeats>, ConfError> {
    let heartbeats = Heartbeats {
        interval: from.get(key::HEARTBEAT_INTERVAL)?,
        timeout: from.get(key::HEARTBEAT_TIMEOUT)?,
        liveness: from.get(key::HEARTBEAT_LIVENESS)?,
    };
    Ok((!from.get(key::DISABLE_HEARTBEATS)?).then_some(heartbeats))
}

/// Notes heartbeats that are too slow to be of use.
pub(super) fn check_heartbeats(resolved: &mut Resolved, heartbeats: Option<Heartbeats>) {
    if heartbeats.is_some_and(|heartbeats| heartbeats.interval >= heartbeats.timeout) {
        resolved.notice(Notice::SlowHeartbeats);
    }
}
