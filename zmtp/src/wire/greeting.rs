//! The greeting (RFC 37, "Greeting"): 64 bytes each way before anything else.

use thiserror::Error;

/// Length of a ZMTP 3.x greeting, in bytes.
pub const GREETING_LEN: usize = 64;
/// Length of what greetings of ZMTP 2.0 and 3.x have in common, in bytes: the signature and the revision.
pub const OPENING_LEN: usize = 11;

/// The minor version we announce: 3.1.
const MINOR: u8 = 1;
const MAJOR: u8 = 3;
const MECHANISM: std::ops::Range<usize> = 12..32;
const AS_SERVER: usize = 32;

/// Name of a security mechanism, zero-padded as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MechanismName([u8; 20]);

impl MechanismName {
    /// No security at all.
    pub const NULL: Self = Self::from_ascii("NULL");
    /// User name and password, in clear (RFC 24).
    pub const PLAIN: Self = Self::from_ascii("PLAIN");
    /// Public keys and encryption (RFC 25).
    pub const CURVE: Self = Self::from_ascii("CURVE");

    const fn from_ascii(name: &str) -> Self {
        let mut padded = [0; 20];
        let mut i = 0;
        while i < name.len() {
            padded[i] = name.as_bytes()[i];
            i += 1;
        }
        Self(padded)
    }
}

impl std::fmt::Display for MechanismName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.0.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
        write!(f, "{}", self.0[..end].escape_ascii())
    }
}

/// Which revision of ZMTP a peer speaks: it decides how subscriptions are written and whether PING is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 2.0 (RFC 15): libzmq 3.2 and 3.3. Served only without security; it knows no commands.
    V2_0,
    /// 3.0 (RFC 23): libzmq 4.0 to 4.3.2.
    V3_0,
    /// 3.1 (RFC 37) or later.
    V3_1,
}

/// What a peer's greeting says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// The peer's protocol revision.
    pub version: Version,
    /// The mechanism it insists on.
    pub mechanism: MechanismName,
}

/// What the eleventh byte of a greeting says: how the peer's greeting goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revision {
    /// ZMTP 2.0: socket type and routing id follow, and then messages.
    V2,
    /// ZMTP 3.0 or later: 64 bytes in all, and a handshake.
    V3,
}

/// Why a greeting is not one we can talk to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GreetingError {
    /// The first byte is not FF: not a ZeroMQ peer, or one of ZMTP 1.0.
    #[error("not ZMTP: the first byte is {0:#04x}, not 0xff")]
    NotZmtp(u8),
    /// A peer older than ZMTP 3.
    #[error("the peer speaks ZMTP {0}, older than 3.0")]
    TooOld(u8),
}

impl Revision {
    /// Reads the revision of a greeting that begins `input`; `None` while its bytes do not tell.
    ///
    /// # Errors
    /// As early as the bytes allow: no ZMTP, or ZMTP 1.0.
    pub fn parse(input: &[u8]) -> Result<Option<Self>, GreetingError> {
        match input {
            [first, ..] if *first != 0xff => Err(GreetingError::NotZmtp(*first)),
            [_, _, _, _, _, _, _, _, _, tenth, ..] if tenth & 1 == 0 => Err(GreetingError::TooOld(1)),
            // Versioned, with the frames of 1.0.
            [_, _, _, _, _, _, _, _, _, _, 0, ..] => Err(GreetingError::TooOld(1)),
            [_, _, _, _, _, _, _, _, _, _, major, ..] if *major < MAJOR => Ok(Some(Self::V2)),
            [_, _, _, _, _, _, _, _, _, _, _, ..] => Ok(Some(Self::V3)),
            _ => Ok(None),
        }
    }
}

impl Greeting {
    /// Our greeting. To a peer that may speak ZMTP 2.0 only its first [`OPENING_LEN`] bytes may be sent before the
    /// peer's revision is known: such a peer would take the next one for a socket type and the rest for frames.
    pub fn encode(mechanism: MechanismName) -> [u8; GREETING_LEN] {
        let mut bytes = [0; GREETING_LEN];
        bytes[0] = 0xff;
        bytes[9] = 0x7f;
        bytes[10] = MAJOR;
        bytes[11] = MINOR;
        bytes[MECHANISM].copy_from_slice(&mechanism.0);
        bytes[AS_SERVER] = 0;
        bytes
    }

    /// The greeting of a PLAIN or CURVE server. Nobody relies on the difference: libzmq does not make it.
    pub fn encode_as_server(mechanism: MechanismName) -> [u8; GREETING_LEN] {
        let mut bytes = Self::encode(mechanism);
        bytes[AS_SERVER] = 1;
        bytes
    }

    /// Reads a greeting from the start of `input`; `None` while it is not complete.
    ///
    /// Refuses as early as the bytes allow. Ignores the padding, the as-server byte and the filler, as libzmq does.
    pub fn parse(input: &[u8]) -> Result<Option<Self>, GreetingError> {
        if let Some(Revision::V2) = Revision::parse(input)? {
            return Err(GreetingError::TooOld(2));
        }
        let Some(greeting) = input.get(..GREETING_LEN) else { return Ok(None) };
        let mut mechanism = [0; 20];
        mechanism.copy_from_slice(&greeting[MECHANISM]);
        let version = if greeting[10] == MAJOR && greeting[11] == 0 { Version::V3_0 } else { Version::V3_1 };
        Ok(Some(Self { version, mechanism: MechanismName(mechanism) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_libzmq_sends() {
        let mut bytes = Greeting::encode(MechanismName::NULL);
        bytes[8] = 9; // libzmq pads with the identity's length + 1
        assert_eq!(
            Greeting::parse(&bytes),
            Ok(Some(Greeting { version: Version::V3_1, mechanism: MechanismName::NULL }))
        );
        bytes[11] = 0;
        assert_eq!(Greeting::parse(&bytes).unwrap().unwrap().version, Version::V3_0);
        bytes[10] = 4;
        assert_eq!(Greeting::parse(&bytes).unwrap().unwrap().version, Version::V3_1);
    }

    #[test]
    fn waits_for_every_byte() {
        let bytes = Greeting::encode(MechanismName::NULL);
        for n in 0..GREETING_LEN {
            assert_eq!(Greeting::parse(&bytes[..n]), Ok(None), "after {n} bytes");
        }
    }

    #[test]
    fn refuses_at_the_first_byte_that_tells() {
        assert_eq!(Greeting::parse(b"G"), Err(GreetingError::NotZmtp(b'G')));
        assert_eq!(Greeting::parse(&[0xff, 0, 0, 0, 0, 0, 0, 0, 5, 0]), Err(GreetingError::TooOld(1)));
        let mut opening = [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 0];
        for (revision, expected) in [
            (0, Err(GreetingError::TooOld(1))),
            (1, Ok(Some(Revision::V2))),
            (2, Ok(Some(Revision::V2))),
            (3, Ok(Some(Revision::V3))),
            (0xff, Ok(Some(Revision::V3))),
        ] {
            opening[10] = revision;
            assert_eq!(Revision::parse(&opening), expected);
            assert_eq!(Revision::parse(&opening[..10]), Ok(None));
        }
        opening[10] = 1;
        assert_eq!(Greeting::parse(&opening), Err(GreetingError::TooOld(2)));
    }

    #[test]
    fn names_print_without_padding() {
        assert_eq!(MechanismName::NULL.to_string(), "NULL");
    }
}
