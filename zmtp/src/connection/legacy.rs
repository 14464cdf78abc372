//! ZMTP 2.0 peers (RFC 15; libzmq 3.2 and 3.3): no mechanism and no commands.
//!
//! Behind signature and revision each side sends its socket type as one byte and its routing id as a frame, and then
//! messages in the frames that 3.x has too. Subscriptions are messages, and there are no heartbeats.

use bytes::{Buf, BufMut, BytesMut};

use super::{ConnectionConfig, ConnectionError, PeerInfo};
use crate::wire::frame::{self, COMMAND, FrameError, FrameHeader, MORE};
use crate::wire::greeting::Version;
use crate::{MAX_ROUTING_ID, RoutingId, RoutingIdError, SocketType};

/// The socket types by their numbers on the wire.
const CODES: [SocketType; 11] = [
    SocketType::Pair,
    SocketType::Pub,
    SocketType::Sub,
    SocketType::Req,
    SocketType::Rep,
    SocketType::Dealer,
    SocketType::Router,
    SocketType::Pull,
    SocketType::Push,
    SocketType::XPub,
    SocketType::XSub,
];

/// Writes what follows the revision in our greeting.
pub(super) fn greet(out: &mut impl BufMut, config: &ConnectionConfig) {
    let code = CODES.iter().position(|kind| *kind == config.socket_type).unwrap_or_default();
    out.put_u8(code as u8);
    frame::put(out, 0, config.routing_id.as_ref().map_or(&[], RoutingId::as_bytes));
}

/// Takes what follows the revision in the peer's greeting off the front of `input`, once all of it is there.
pub(super) fn receive(input: &mut BytesMut, config: &ConnectionConfig) -> Result<Option<PeerInfo>, ConnectionError> {
    let Some((&code, rest)) = input.split_first() else { return Ok(None) };
    let socket_type = check(code, config.socket_type)?;
    let Some(header) = FrameHeader::parse(rest)? else { return Ok(None) };
    if header.flags & (MORE | COMMAND) != 0 {
        return Err(FrameError::Flags(header.flags).into());
    }
    if header.size > MAX_ROUTING_ID as u64 {
        return Err(RoutingIdError::TooLong(header.size as usize).into());
    }
    let Some(id) = rest.get(header.header..header.header + header.size as usize) else { return Ok(None) };
    let routing_id = if id.is_empty() { None } else { Some(RoutingId::new(id)?) };
    input.advance(1 + header.header + header.size as usize);
    Ok(Some(PeerInfo { socket_type: Some(socket_type), routing_id, ..PeerInfo::new(Version::V2_0) }))
}

/// The type of that number, if it may talk to ours. There is no way to tell such a peer why it is refused.
fn check(code: u8, ours: SocketType) -> Result<SocketType, ConnectionError> {
    match CODES.get(usize::from(code)) {
        Some(theirs) if ours.may_talk_to(*theirs) => Ok(*theirs),
        Some(theirs) => Err(ConnectionError::SocketType { ours, theirs: theirs.name().as_bytes().into() }),
        None => Err(ConnectionError::SocketType { ours, theirs: [code].into() }),
    }
}
