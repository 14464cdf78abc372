//! How traffic goes over the wire once the handshake is complete: in clear, or sealed frame by frame.

use bytes::{Buf, BytesMut};

use super::inbound::{Inbound, Incoming, MAX_COMMAND};
use super::{ConnectionError, Limits, Transmit};
use crate::Message;
use crate::mechanism::curve::sealed::{NAME, OVERHEAD, Opener, SEALED_COMMAND, SEALED_MORE, Sealer};
use crate::mechanism::{SecurityFault, Stage, Transforms};
use crate::message::BY_REFERENCE;
use crate::wire::frame::{self, FrameHeader, MORE};

/// About this much is sealed ahead of what the transport takes, in bytes: what is queued is not in memory twice, and is
/// still in the cache when it is written.
const SEAL_AHEAD: usize = 128 * 1024;

/// Chosen once, at the end of the handshake.
#[derive(Debug)]
pub(super) enum Codec {
    Clear(Inbound),
    Sealed(Box<Sealed>),
}

/// Both directions under CURVE.
#[derive(Debug)]
pub(super) struct Sealed {
    sealer: Sealer,
    opener: Opener,
    /// Encoded and not sealed yet.
    clear: Transmit,
    /// The frames so far of the message that is arriving, as they would be in clear.
    parts: BytesMut,
    frames: u32,
    /// Missing bytes of the frame that is arriving.
    wanted: usize,
}

impl Codec {
    pub(super) fn new(transforms: Transforms) -> Self {
        match transforms {
            Transforms::Clear => Self::Clear(Inbound::default()),
            Transforms::Sealed(sealer, opener) => Self::Sealed(Box::new(Sealed {
                sealer,
                opener,
                clear: Transmit::new(),
                parts: BytesMut::new(),
                frames: 0,
                wanted: 0,
            })),
        }
    }

    pub(super) fn wanted(&self) -> usize {
        match self {
            Self::Clear(inbound) => inbound.wanted(),
            Self::Sealed(sealed) => sealed.wanted,
        }
    }

    /// The next message or command, once all of it is in `input`.
    pub(super) fn next(&mut self, input: &mut BytesMut, limits: Limits) -> Result<Option<Incoming>, ConnectionError> {
        match self {
            Self::Clear(inbound) => inbound.next(input, limits),
            Self::Sealed(sealed) => sealed.next(input, limits),
        }
    }

    pub(super) fn send(&mut self, message: &Message, transmit: &mut Transmit) {
        match self {
            Self::Clear(_) => transmit.push(message),
            Self::Sealed(sealed) => sealed.clear.push(message),
        }
    }

    pub(super) fn send_batch(&mut self, batch: &mut Transmit, transmit: &mut Transmit) {
        match self {
            Self::Clear(_) => transmit.append(batch),
            Self::Sealed(sealed) => sealed.clear.append(batch),
        }
    }

    /// Sends a command, which `put` writes as a frame in clear.
    pub(super) fn command(&mut self, transmit: &mut Transmit, put: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Self::Clear(_) => put(transmit.run_mut()),
            Self::Sealed(sealed) => {
                let mut clear = Vec::new();
                put(&mut clear);
                sealed.sealer.seal_message(&mut &clear[..], transmit.run_mut());
            }
        }
    }

    /// Seals more once everything sealed has been written.
    pub(super) fn refill(&mut self, transmit: &mut Transmit) {
        let Self::Sealed(sealed) = self else { return };
        if !transmit.is_empty() {
            return;
        }
        while sealed.clear.has_remaining() && transmit.remaining() < SEAL_AHEAD {
            sealed.sealer.seal_message(&mut sealed.clear, transmit.run_mut());
        }
    }
}

impl Sealed {
    fn next(&mut self, input: &mut BytesMut, limits: Limits) -> Result<Option<Incoming>, ConnectionError> {
        self.wanted = 0;
        if self.sealer.is_exhausted() {
            return Err(Stage::Message.error(SecurityFault::Exhausted));
        }
        loop {
            let Some(header) = FrameHeader::parse(input)? else { return Ok(None) };
            self.check(header, &input[header.header..], limits)?;
            let total = header.header + header.size as usize;
            if input.len() < total {
                self.wanted = total - input.len();
                return Ok(None);
            }
            let mut frame = input.split_to(total);
            frame.advance(header.header);
            let flags = self.opener.open(&mut frame).map_err(|fault| Stage::Message.error(fault))?;
            if flags & SEALED_COMMAND != 0 {
                frame.advance(OVERHEAD);
                if frame.len() as u64 > MAX_COMMAND {
                    return Err(ConnectionError::FrameTooLarge { size: frame.len() as u64, max: MAX_COMMAND });
                }
                return Ok(Some(Incoming::Command(frame.freeze())));
            }
            self.check_limits(frame.len() - OVERHEAD, limits)?;
            if let Some(message) = self.add(frame, flags) {
                return Ok(Some(Incoming::Message(message)));
            }
        }
    }

    /// Refuses as early as the bytes allow: what is not sealed, and what is too large whatever it is.
    fn check(&self, header: FrameHeader, body: &[u8], limits: Limits) -> Result<(), ConnectionError> {
        let name = &body[..body.len().min(NAME.len()).min(header.size as usize)];
        // The outer frame may call itself a command or not, but parts there are only inside.
        if header.flags & MORE != 0 || !NAME.starts_with(name) {
            return Err(Stage::Message.error(SecurityFault::Clear));
        }
        let Some(size) = header.size.checked_sub(OVERHEAD as u64) else {
            return Err(Stage::Message.error(SecurityFault::Length));
        };
        // Whether it is a command is known once it is open.
        if size > MAX_COMMAND { self.check_limits(size as usize, limits) } else { Ok(()) }
    }

    /// Whether a frame of that size may be the next of this message: the limits are those of frames in clear.
    fn check_limits(&self, len: usize, limits: Limits) -> Result<(), ConnectionError> {
        let size = len as u64;
        if size > limits.frame {
            return Err(ConnectionError::FrameTooLarge { size, max: limits.frame });
        }
        let size = (self.parts.len() + frame::header(0, len).len()) as u64 + size;
        if size > limits.message {
            return Err(ConnectionError::MessageTooLarge { size, max: limits.message });
        }
        Ok(())
    }

    /// Adds an opened frame; gives the message if it was the last one.
    ///
    /// The frame's header in clear fits where counter and tag were. So a message of one frame is a slice of what was
    /// read, and a large last frame is one beside a copy of the others.
    fn add(&mut self, mut frame: BytesMut, flags: u8) -> Option<Message> {
        let more = if flags & SEALED_MORE == 0 { 0 } else { MORE };
        let header = frame::header(more, frame.len() - OVERHEAD);
        let len = header.len();
        frame.advance(OVERHEAD - len);
        frame[..len].copy_from_slice(&header);
        self.frames += 1;
        if more != 0 {
            self.parts.extend_from_slice(&frame);
            return None;
        }
        let frames = std::mem::take(&mut self.frames);
        if self.parts.is_empty() {
            return Some(Message::from_wire(frame.freeze(), frames));
        }
        let tail = if frame.len() < BY_REFERENCE { BytesMut::new() } else { frame.split_off(len) };
        self.parts.extend_from_slice(&frame);
        Some(Message::from_head_and_tail(std::mem::take(&mut self.parts).freeze(), tail.freeze(), frames))
    }
}
