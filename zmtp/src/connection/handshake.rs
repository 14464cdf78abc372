//! Greeting and NULL handshake (RFC 37, "The NULL Security Mechanism").

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{ConnectionConfig, ConnectionError, PeerInfo, legacy};
use crate::wire::command::{self, Command};
use crate::wire::frame::{COMMAND, FrameHeader};
use crate::wire::greeting::{GREETING_LEN, Greeting, MechanismName, OPENING_LEN, Revision, Version};
use crate::wire::properties::{self, Properties, Property};
use crate::{RoutingId, SocketType};

/// Largest handshake command accepted, in bytes: apart from the limits for messages (zmtp.md pitfall 17).
const MAX_COMMAND: u64 = 64 * 1024;
/// Most application properties kept of one peer.
const MAX_PROPERTIES: usize = 64;

/// How far the handshake is.
#[derive(Debug)]
pub(super) enum Handshake {
    /// The peer's revision is not known, and only the beginning of our greeting is out.
    Opening,
    /// The peer's greeting is not complete; all of ours is out.
    Greeting,
    /// The peer speaks ZMTP 2.0; its socket type and routing id are not here.
    Legacy,
    /// Our READY is out; the peer's is not here.
    Ready(Version),
}

impl Handshake {
    /// Takes handshake bytes off the front of `input`; gives the peer once its READY is in.
    pub(super) fn receive(
        &mut self,
        input: &mut BytesMut,
        config: &ConnectionConfig,
        out: &mut impl BufMut,
    ) -> Result<Option<PeerInfo>, ConnectionError> {
        if let Self::Opening = self {
            match Revision::parse(input)? {
                None => return Ok(None),
                Some(Revision::V2) => {
                    input.advance(OPENING_LEN);
                    legacy::greet(out, config);
                    *self = Self::Legacy;
                }
                Some(Revision::V3) => {
                    out.put_slice(&Greeting::encode(MechanismName::NULL)[OPENING_LEN..]);
                    *self = Self::Greeting;
                }
            }
        }
        if let Self::Legacy = self {
            return legacy::receive(input, config);
        }
        if let Self::Greeting = self {
            let Some(greeting) = Greeting::parse(input)? else { return Ok(None) };
            if greeting.mechanism != MechanismName::NULL {
                return Err(ConnectionError::Mechanism { ours: MechanismName::NULL, theirs: greeting.mechanism });
            }
            input.advance(GREETING_LEN);
            put_ready(out, config);
            *self = Self::Ready(greeting.version);
        }
        let Self::Ready(version) = *self else { return Ok(None) };
        let Some(body) = take_command(input)? else { return Ok(None) };
        match Command::parse(&body)? {
            Command::Ready(list) => read_peer(list, version, config, out).map(Some),
            Command::Error(data) => Err(ConnectionError::Refused(command::error_reason(data).into())),
            _ => Err(ConnectionError::UnexpectedCommand),
        }
    }
}

/// The body of the command at the front of `input`, once it is complete.
fn take_command(input: &mut BytesMut) -> Result<Option<Bytes>, ConnectionError> {
    let Some(header) = FrameHeader::parse(input)? else { return Ok(None) };
    if header.flags & COMMAND == 0 {
        return Err(ConnectionError::MessageInHandshake);
    }
    if header.size > MAX_COMMAND {
        return Err(ConnectionError::FrameTooLarge { size: header.size, max: MAX_COMMAND });
    }
    let total = header.header + header.size as usize;
    if input.len() < total {
        return Ok(None);
    }
    let mut frame = input.split_to(total).freeze();
    frame.advance(header.header);
    Ok(Some(frame))
}

/// Writes our READY: the properties libzmq sends, in its order.
fn put_ready(out: &mut impl BufMut, config: &ConnectionConfig) {
    let mut list = Vec::with_capacity(64);
    properties::put(&mut list, "Socket-Type", config.socket_type.name().as_bytes());
    if config.socket_type.announces_identity() {
        properties::put(&mut list, "Identity", config.routing_id.as_ref().map_or(&[], RoutingId::as_bytes));
    }
    command::put(out, "READY", &[&list]);
}

/// Checks the peer's properties.
fn read_peer(
    list: &[u8],
    version: Version,
    config: &ConnectionConfig,
    out: &mut impl BufMut,
) -> Result<PeerInfo, ConnectionError> {
    let mut peer = PeerInfo { version, socket_type: None, routing_id: None, properties: Vec::new() };
    for property in Properties::new(list) {
        let (name, value) = property?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            match SocketType::from_name(value) {
                Some(theirs) if config.socket_type.may_talk_to(theirs) => peer.socket_type = Some(theirs),
                _ => {
                    command::put(out, "ERROR", &[b"\x13Invalid socket type"]);
                    let theirs = value[..value.len().min(16)].into();
                    return Err(ConnectionError::SocketType { ours: config.socket_type, theirs });
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
