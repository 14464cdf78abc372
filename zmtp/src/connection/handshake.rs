//! Greeting, then the mechanism's commands, up to the end of the handshake.

use bytes::{Buf, BytesMut};

use super::{ConnectionConfig, ConnectionError, PeerInfo, legacy};
use crate::PeerAddress;
use crate::mechanism::{Context, Mechanism, Stage, Step, Transforms};
use crate::wire::frame::{COMMAND, FrameHeader};
use crate::wire::greeting::{GREETING_LEN, Greeting, OPENING_LEN, Revision, Version};

/// How far the handshake is.
#[derive(Debug)]
pub(super) enum Handshake {
    /// The peer's revision is not known, and only the beginning of our greeting is out.
    Opening,
    /// The peer speaks ZMTP 2.0; its socket type and routing id are not here.
    Legacy,
    /// The peer's greeting is not complete; all of ours is out.
    Greeting,
    /// The mechanism awaits a command.
    Commands(Version, Mechanism),
}

impl Handshake {
    /// Takes handshake bytes off the front of `input`; gives the peer once the handshake is complete.
    pub(super) fn receive(
        &mut self,
        input: &mut BytesMut,
        config: &ConnectionConfig,
        address: Option<PeerAddress>,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Box<PeerInfo>, Transforms)>, ConnectionError> {
        if let Self::Opening = self {
            match Revision::parse(input)? {
                None => return Ok(None),
                Some(Revision::V2) => {
                    input.advance(OPENING_LEN);
                    legacy::greet(out, config);
                    *self = Self::Legacy;
                }
                Some(Revision::V3) => {
                    out.extend_from_slice(&config.security.greeting()[OPENING_LEN..]);
                    *self = Self::Greeting;
                }
            }
        }
        if let Self::Legacy = self {
            return Ok(legacy::receive(input, config)?.map(|peer| (Box::new(peer), Transforms::Clear)));
        }
        if let Self::Greeting = self {
            let Some(greeting) = Greeting::parse(input)? else { return Ok(None) };
            let (ours, theirs) = (config.security.mechanism(), greeting.mechanism);
            if theirs != ours {
                return Err(ConnectionError::Mechanism { ours, theirs });
            }
            input.advance(GREETING_LEN);
            let version = greeting.version;
            let mechanism = Mechanism::start(&mut Context { config, version, address, out })?;
            *self = Self::Commands(version, mechanism);
        }
        while let Self::Commands(version, mechanism) = self {
            let version = *version;
            let Some(body) = take_command(input, mechanism.max_command())? else { break };
            // The state is moved; after an error nobody asks for it.
            let Self::Commands(_, mechanism) = std::mem::replace(self, Self::Greeting) else { break };
            match mechanism.step(body, &mut Context { config, version, address, out })? {
                Step::Next(mechanism) => *self = Self::Commands(version, mechanism),
                Step::Done(peer, transforms) => return Ok(Some((peer, transforms))),
            }
        }
        Ok(None)
    }

    /// What the peer has to send next.
    pub(super) fn awaits(&self) -> Stage {
        match self {
            Self::Opening | Self::Legacy | Self::Greeting => Stage::Greeting,
            Self::Commands(_, mechanism) => mechanism.awaits(),
        }
    }
}

/// The body of the command at the front of `input`, once it is complete.
fn take_command(input: &mut BytesMut, max: u64) -> Result<Option<BytesMut>, ConnectionError> {
    let Some(header) = FrameHeader::parse(input)? else { return Ok(None) };
    if header.flags & COMMAND == 0 {
        return Err(ConnectionError::MessageInHandshake);
    }
    if header.size > max {
        return Err(ConnectionError::FrameTooLarge { size: header.size, max });
    }
    let total = header.header + header.size as usize;
    if input.len() < total {
        return Ok(None);
    }
    let mut frame = input.split_to(total);
    frame.advance(header.header);
    Ok(Some(frame))
}
