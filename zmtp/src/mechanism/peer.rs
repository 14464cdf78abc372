//! Properties that a handshake carries: ours, and what the peer's tell of it.

use bytes::Bytes;

use super::Context;
use super::auth::Accepted;
use crate::connection::{ConnectionConfig, ConnectionError, PeerInfo};
use crate::wire::command;
use crate::wire::greeting::Version;
use crate::wire::properties::{self, Properties, Property};
use crate::{RoutingId, SocketType};

/// Most application properties kept of one peer.
const MAX_PROPERTIES: usize = 64;

/// Whether a peer whose type does not fit is told so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Error,
    /// A client of PLAIN and CURVE has no ERROR.
    Silence,
}

/// What we tell: the properties libzmq sends, in its order.
pub(super) fn our_properties(config: &ConnectionConfig) -> Vec<u8> {
    let mut list = Vec::with_capacity(64);
    properties::put(&mut list, "Socket-Type", config.socket_type.name().as_bytes());
    if config.socket_type.announces_identity() {
        properties::put(&mut list, "Identity", config.routing_id.as_ref().map_or(&[], RoutingId::as_bytes));
    }
    list
}

/// Checks the peer's properties.
pub(super) fn read(list: &[u8], answer: Answer, cx: &mut Context<'_>) -> Result<PeerInfo, ConnectionError> {
    let ours = cx.config.socket_type;
    let mut peer = PeerInfo::new(cx.version);
    for property in Properties::new(list) {
        let (name, value) = property?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            match SocketType::from_name(value) {
                Some(theirs) if ours.may_talk_to(theirs) => peer.socket_type = Some(theirs),
                _ => {
                    if answer == Answer::Error {
                        command::put(cx.out, "ERROR", &[b"\x13Invalid socket type"]);
                    }
                    let theirs = value[..value.len().min(16)].into();
                    return Err(ConnectionError::SocketType { ours, theirs });
                }
            }
        } else if name.eq_ignore_ascii_case(b"Identity") {
            peer.routing_id = if value.is_empty() { None } else { Some(RoutingId::new(value)?) };
        } else if peer.properties.len() < MAX_PROPERTIES {
            // A copy: a slice would keep the whole read buffer alive for as long as the peer is connected.
            peer.properties.push(Property { name: Bytes::copy_from_slice(name), value: Bytes::copy_from_slice(value) });
        }
    }
    Ok(peer)
}

impl PeerInfo {
    /// Nothing is known but the protocol revision.
    pub(crate) fn new(version: Version) -> Self {
        Self {
            version,
            socket_type: None,
            routing_id: None,
            properties: Vec::new(),
            user_id: None,
            metadata: Vec::new(),
        }
    }

    /// With what an authenticator told of it, if there was one.
    pub(super) fn accepted(mut self, accepted: Option<Accepted>) -> Self {
        if let Some(Accepted { user_id, metadata }) = accepted {
            self.user_id = Some(user_id);
            self.metadata = metadata;
        }
        self
    }
}
