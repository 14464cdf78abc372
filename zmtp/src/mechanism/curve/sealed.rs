//! Traffic: every frame, command or part of a message, sealed in a MESSAGE.
//!
//! ```text
//! 07 "MESSAGE" | counter (8) | tag (16) | flags (1) payload    sealed from the flags on
//! ```
//!
//! The ZMTP frame around it has no COMMAND bit, whatever the RFC says: libzmq throws it away with it.

use bytes::{Buf, BufMut};

use super::keys::SharedKey;
use super::{COUNTER, TAG, counted, open, seal};
use crate::mechanism::SecurityFault;
use crate::wire::frame::{self, COMMAND, LONG, MORE};

/// What a sealed frame is longer than its payload, in bytes.
pub(crate) const OVERHEAD: usize = NAME.len() + COUNTER + TAG + 1;
/// How a sealed frame begins.
pub(crate) const NAME: &[u8; 8] = b"\x07MESSAGE";
const COUNTER_AT: usize = NAME.len();
const TAG_AT: usize = COUNTER_AT + COUNTER;
const FLAGS_AT: usize = TAG_AT + TAG;

/// Flag in the box: further frames of this message follow.
pub(crate) const SEALED_MORE: u8 = 0x01;
/// Flag in the box: a command. RFC 26 does not know it; without it PING and SUBSCRIBE would be messages.
pub(crate) const SEALED_COMMAND: u8 = 0x02;

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

impl Role {
    fn prefix(self) -> &'static [u8; 16] {
        match self {
            Self::Client => b"CurveZMQMESSAGEC",
            Self::Server => b"CurveZMQMESSAGES",
        }
    }
}

/// Seals what we send.
#[derive(Debug)]
pub(crate) struct Sealer {
    key: SharedKey,
    role: Role,
    /// The counter used last.
    last: u64,
}

impl Sealer {
    pub(super) fn new(key: SharedKey, ours: Role, last: u64) -> Self {
        Self { key, role: ours, last }
    }

    /// Whether no counter is left; then nothing is sealed any more.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.last >= u64::MAX - 1
    }

    /// Seals the frames at the front of `clear`, which are ours and whole, up to the end of a message or command.
    pub(crate) fn seal_message(&mut self, clear: &mut impl Buf, out: &mut Vec<u8>) {
        while let Ok(flags) = clear.try_get_u8() {
            let len = if flags & LONG == 0 { clear.try_get_u8().map(u64::from) } else { clear.try_get_u64() };
            self.seal_frame(flags, clear.take(len.unwrap_or(0) as usize), out);
            if flags & MORE == 0 {
                break;
            }
        }
    }

    /// Copies the payload once and encrypts it where it lies.
    fn seal_frame(&mut self, flags: u8, payload: impl Buf, out: &mut Vec<u8>) {
        if self.is_exhausted() {
            return;
        }
        self.last += 1;
        let more = if flags & MORE == 0 { 0 } else { SEALED_MORE };
        let command = if flags & COMMAND == 0 { 0 } else { SEALED_COMMAND };
        out.reserve(frame::MAX_HEADER + OVERHEAD + payload.remaining());
        frame::put_header(out, 0, OVERHEAD + payload.remaining());
        let start = out.len();
        out.put_slice(NAME);
        out.put_u64(self.last);
        out.put_bytes(0, TAG);
        out.put_u8(more | command);
        out.put(payload);
        let tag = seal(&self.key, &counted(self.role.prefix(), self.last), &mut out[start + FLAGS_AT..]);
        out[start + TAG_AT..start + FLAGS_AT].copy_from_slice(&tag);
    }
}

/// Opens what the peer sends.
#[derive(Debug)]
pub(crate) struct Opener {
    key: SharedKey,
    role: Role,
    /// The largest counter so far.
    last: u64,
}

impl Opener {
    pub(super) fn new(key: SharedKey, theirs: Role, last: u64) -> Self {
        Self { key, role: theirs, last }
    }

    /// Opens a MESSAGE where it lies; gives the flags. The payload begins at [`OVERHEAD`] then.
    pub(crate) fn open(&mut self, body: &mut [u8]) -> Result<u8, SecurityFault> {
        if !body.starts_with(NAME) {
            return Err(SecurityFault::Clear);
        }
        let (head, sealed) = body.split_at_mut_checked(FLAGS_AT).ok_or(SecurityFault::Length)?;
        let (Some(counter), Some(tag)) = (head[COUNTER_AT..].first_chunk(), head.last_chunk()) else {
            return Err(SecurityFault::Length);
        };
        if sealed.is_empty() {
            return Err(SecurityFault::Length);
        }
        let counter = u64::from_be_bytes(*counter);
        if counter <= self.last {
            return Err(SecurityFault::Counter);
        }
        open(&self.key, &counted(self.role.prefix(), counter), tag, sealed)?;
        // Only now: a forger must not be able to use counters up.
        self.last = counter;
        match sealed[0] {
            flags @ (0 | SEALED_MORE | SEALED_COMMAND) => Ok(flags),
            _ => Err(SecurityFault::Flags),
        }
    }
}
