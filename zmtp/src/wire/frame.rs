//! Frame headers (RFC 37, "Framing"): `flags (1) size (1 or 8, big-endian) body`.

use bytes::BufMut;
use thiserror::Error;

/// Flag bit: further frames of this message follow.
pub const MORE: u8 = 0x01;
/// Flag bit: the size field has eight bytes.
pub const LONG: u8 = 0x02;
/// Flag bit: the frame is a command, not part of a message.
pub const COMMAND: u8 = 0x04;
/// The longest frame header, in bytes.
pub const MAX_HEADER: usize = 9;
/// The longest body a short header can announce.
const SHORT_MAX: usize = 255;

/// A decoded frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Flag bits as on the wire.
    pub flags: u8,
    /// Size of the body, in bytes, as announced.
    pub size: u64,
    /// Size of the header itself, in bytes: 2 or 9.
    pub header: usize,
}

/// A frame header no peer may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Reserved flag bits, or MORE on a command.
    #[error("invalid frame flags {0:#04x}")]
    Flags(u8),
    /// The top bit of a size must be zero.
    #[error("frame size {0:#x} has its top bit set")]
    Size(u64),
}

impl FrameHeader {
    /// Reads a header from the start of `input`; `None` while it is not complete.
    pub fn parse(input: &[u8]) -> Result<Option<Self>, FrameError> {
        let Some(&flags) = input.first() else { return Ok(None) };
        if flags & !(MORE | LONG | COMMAND) != 0 || flags & (MORE | COMMAND) == (MORE | COMMAND) {
            return Err(FrameError::Flags(flags));
        }
        if flags & LONG == 0 {
            return Ok(input.get(1).map(|&size| Self { flags, size: size.into(), header: 2 }));
        }
        let Some(size) = input.get(1..MAX_HEADER).and_then(|b| <[u8; 8]>::try_from(b).ok()) else { return Ok(None) };
        match u64::from_be_bytes(size) {
            size if size >> 63 != 0 => Err(FrameError::Size(size)),
            size => Ok(Some(Self { flags, size, header: MAX_HEADER })),
        }
    }

    /// Whether the size could not have been written shorter.
    pub fn is_canonical(&self) -> bool {
        self.header == 2 || self.size > SHORT_MAX as u64
    }
}

/// The length of the header in front of a body of `len` bytes.
pub fn header_len(len: usize) -> usize {
    if len <= SHORT_MAX { 2 } else { MAX_HEADER }
}

/// Writes a frame header; the size form follows from `len`.
pub fn put_header(out: &mut impl BufMut, flags: u8, len: usize) {
    if len <= SHORT_MAX {
        out.put_slice(&[flags, len as u8]);
    } else {
        out.put_u8(flags | LONG);
        out.put_u64(len as u64);
    }
}

/// A frame header by itself, as [`put_header`] writes it.
pub(crate) fn header(flags: u8, len: usize) -> Header {
    let mut header = Header { bytes: [0; MAX_HEADER], len: 0 };
    let mut rest = &mut header.bytes[..];
    put_header(&mut rest, flags, len);
    header.len = MAX_HEADER - rest.len();
    header
}

/// The bytes of a header.
pub(crate) struct Header {
    bytes: [u8; MAX_HEADER],
    len: usize,
}

impl std::ops::Deref for Header {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Writes a whole frame.
pub fn put(out: &mut impl BufMut, flags: u8, body: &[u8]) {
    put_header(out, flags, body.len());
    out.put_slice(body);
}

/// Header and body length of the frame at the start of bytes that were checked before; `None` at their end.
pub(crate) fn split_checked(wire: &[u8]) -> Option<(usize, usize)> {
    match wire {
        [] | [_] => None,
        [flags, len, ..] if flags & LONG == 0 => Some((2, usize::from(*len))),
        _ => {
            let size = <[u8; 8]>::try_from(wire.get(1..MAX_HEADER)?).ok()?;
            Some((MAX_HEADER, u64::from_be_bytes(size) as usize))
        }
    }
}
