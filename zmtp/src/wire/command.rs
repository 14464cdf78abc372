//! Commands (RFC 37, "Commands"): `name-length (1) name data`, in a frame with the COMMAND bit.

use std::time::Duration;

use bytes::BufMut;
use thiserror::Error;

use super::frame::{self, COMMAND};

/// The longest context of a PING, in bytes (RFC 37).
pub const MAX_PING_CONTEXT: usize = 16;

/// A command's name and what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// End of the NULL handshake; carries a property list.
    Ready(&'a [u8]),
    /// Fatal refusal during the handshake; carries a length-prefixed reason.
    Error(&'a [u8]),
    /// Asks for a PONG.
    Ping(Ping<'a>),
    /// Answers a PING; carries its context.
    Pong(&'a [u8]),
    /// From SUB and XSUB: wants messages that begin so.
    Subscribe(&'a [u8]),
    /// Takes a SUBSCRIBE back.
    Cancel(&'a [u8]),
    /// A name we do not know.
    Unknown,
}

/// Body of a PING.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ping<'a> {
    /// The peer wants us to give the connection up when nothing arrives for this long; zero: no wish.
    pub ttl: Duration,
    /// Sent back in the PONG: at most [`MAX_PING_CONTEXT`] bytes.
    pub context: &'a [u8],
}

/// Why a command frame is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No name, or a name longer than the frame.
    #[error("a command's name does not fit its frame")]
    Name,
    /// A PING without its two TTL bytes or with more than 16 bytes of context.
    #[error("a PING of the wrong length")]
    Ping,
}

impl<'a> Command<'a> {
    /// Reads the body of a command frame.
    pub fn parse(body: &'a [u8]) -> Result<Self, CommandError> {
        let (&len, rest) = body.split_first().ok_or(CommandError::Name)?;
        let (name, data) = rest.split_at_checked(len.into()).ok_or(CommandError::Name)?;
        Ok(match name {
            b"PING" => Self::Ping(Ping::parse(data)?),
            b"PONG" => Self::Pong(data),
            b"READY" => Self::Ready(data),
            b"ERROR" => Self::Error(data),
            b"SUBSCRIBE" => Self::Subscribe(data),
            b"CANCEL" => Self::Cancel(data),
            b"" => return Err(CommandError::Name),
            _ => Self::Unknown,
        })
    }
}

impl<'a> Ping<'a> {
    fn parse(data: &'a [u8]) -> Result<Self, CommandError> {
        match data.split_first_chunk::<2>() {
            Some((ttl, context)) if context.len() <= MAX_PING_CONTEXT => {
                Ok(Self { ttl: Duration::from_millis(u64::from(u16::from_be_bytes(*ttl)) * 100), context })
            }
            _ => Err(CommandError::Ping),
        }
    }
}

/// Writes a whole command frame.
pub fn put(out: &mut impl BufMut, name: &str, data: &[&[u8]]) {
    let len = 1 + name.len() + data.iter().map(|part| part.len()).sum::<usize>();
    frame::put_header(out, COMMAND, len);
    out.put_u8(name.len() as u8);
    out.put_slice(name.as_bytes());
    data.iter().for_each(|part| out.put_slice(part));
}

/// Writes a PING. The TTL goes out in tenths of a second, rounded down and at most 655: libzmq 4.3 overflows above
/// that and drops the connection at once.
pub fn put_ping(out: &mut impl BufMut, ttl: Duration) {
    let tenths = u16::try_from(ttl.as_millis() / 100).unwrap_or(u16::MAX).min(655);
    put(out, "PING", &[&tenths.to_be_bytes()]);
}

/// The reason in the data of an ERROR command, without its length byte; lenient, since it is only shown to people.
pub fn error_reason(data: &[u8]) -> &[u8] {
    match data.split_first() {
        Some((&len, reason)) => reason.get(..len.into()).unwrap_or(reason),
        None => data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn pings_as_libzmq_writes_them() {
        let mut out = Vec::new();
        put_ping(&mut out, Duration::ZERO);
        put_ping(&mut out, Duration::from_secs(5));
        put(&mut out, "PONG", &[]);
        put(&mut out, "PONG", &[b"abcd"]);
        let expected = hex("0407 04 50494e47 0000  0407 04 50494e47 0032  0405 04 504f4e47  0409 04 504f4e47 61626364");
        assert_eq!(out, expected);
    }

    /// Pitfall 15: a TTL of 656 tenths wraps to 64 ms in libzmq.
    #[test]
    fn pitfall_15_never_sends_a_ttl_that_overflows_libzmq() {
        let mut out = Vec::new();
        put_ping(&mut out, Duration::from_secs(3600));
        assert_eq!(out[7..9], 655u16.to_be_bytes());
    }

    #[test]
    fn pitfall_15_honours_a_large_ttl_it_is_sent() {
        let Ok(Command::Ping(ping)) = Command::parse(b"\x04PING\xff\xffctx") else { panic!("not a PING") };
        assert_eq!((ping.ttl, ping.context), (Duration::from_millis(6_553_500), &b"ctx"[..]));
    }

    #[test]
    fn malformed_commands() {
        for (body, error) in [
            (&b""[..], CommandError::Name),
            (b"\x00", CommandError::Name),
            (b"\x06READY", CommandError::Name),
            (b"\x04PING\x00", CommandError::Ping),
            (b"\x04PING\x00\x0012345678901234567", CommandError::Ping),
        ] {
            assert_eq!(Command::parse(body), Err(error), "{body:?}");
        }
        assert_eq!(Command::parse(b"\x05HELLO"), Ok(Command::Unknown));
    }
}
