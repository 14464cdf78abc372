//! [`MsgId`]: what names a message, and [`MsgIds`], which makes new ones.

use std::borrow::Borrow;
use std::fmt;

use thiserror::Error;
use zmtp::ShortBytes;

/// The longest message id accepted, in bytes.
pub const MAX_MSGID: usize = 255;

/// A message id: 1 to 255 opaque bytes, cheap to clone, compare and hash.
///
/// Python uses the text of a UUID and emq-cli puts `admin:` in front of it; nothing here relies on that.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MsgId(ShortBytes);

/// Why a frame cannot be a message id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MsgIdError {
    /// No bytes at all.
    #[error("a message id needs at least one byte")]
    Empty,
    /// More than [`MAX_MSGID`] bytes.
    #[error("a message id has at most 255 bytes, this one has {0}")]
    TooLong(usize),
}

impl MsgId {
    /// An id of these bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, MsgIdError> {
        let bytes = bytes.as_ref();
        match bytes.len() {
            0 => Err(MsgIdError::Empty),
            n if n <= MAX_MSGID => Ok(Self(ShortBytes::new(bytes))),
            n => Err(MsgIdError::TooLong(n)),
        }
    }

    /// The id's bytes, as on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl AsRef<[u8]> for MsgId {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Borrow<[u8]> for MsgId {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Display for MsgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for MsgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MsgId(\"{self}\")")
    }
}

/// A repeatable source of message ids: the text of version 4 UUIDs drawn from a seeded generator.
///
/// Ids need to be unique, not secret, so a fast generator (SplitMix64) is enough; whoever builds one brings the seed.
#[derive(Debug, Clone)]
pub struct MsgIds {
    state: u64,
}

impl MsgIds {
    /// A generator that yields the same ids for the same seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next id.
    pub fn next_id(&mut self) -> MsgId {
        let mut random = [0; 16];
        random[..8].copy_from_slice(&self.next_u64().to_be_bytes());
        random[8..].copy_from_slice(&self.next_u64().to_be_bytes());
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        uuid::Builder::from_random_bytes(random).into_uuid().hyphenated().encode_lower(&mut text);
        MsgId(ShortBytes::new(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_1_to_255_bytes() {
        assert_eq!(MsgId::new(""), Err(MsgIdError::Empty));
        assert_eq!(MsgId::new([1; 256]), Err(MsgIdError::TooLong(256)));
        for n in [1, 36, 100, 255] {
            let id = MsgId::new(vec![0xff; n]).unwrap();
            assert_eq!(id.as_bytes(), vec![0xff; n]);
            assert_eq!(id, id.clone());
        }
    }

    #[test]
    fn generated_ids_are_uuid4_text_and_repeat_with_the_seed() {
        let (mut a, mut b) = (MsgIds::new(7), MsgIds::new(7));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let id = a.next_id();
            assert_eq!(id, b.next_id());
            let text = std::str::from_utf8(id.as_bytes()).unwrap();
            assert_eq!(uuid::Uuid::try_parse(text).unwrap().get_version_num(), 4);
            assert!(seen.insert(id));
        }
        assert_ne!(MsgIds::new(8).next_id(), MsgIds::new(7).next_id());
    }
}
