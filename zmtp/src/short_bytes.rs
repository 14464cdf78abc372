//! [`ShortBytes`]: what ids are made of.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Up to this length (a UUID's text is 36) bytes live inside the value, without an allocation.
const INLINE: usize = 38;

/// A few immutable bytes, cheap to clone, compare and hash: the stuff of routing ids and other names on the wire.
///
/// Up to 38 bytes take no allocation; longer ones are shared. Equal, ordered and hashed as the bytes are. Printing escapes
/// what is not printable ASCII, so any value is safe in a log line.
#[derive(Clone)]
pub struct ShortBytes(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE] },
    Shared(Arc<[u8]>),
}

impl ShortBytes {
    /// A copy of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        if bytes.len() > INLINE {
            return Self(Repr::Shared(bytes.into()));
        }
        let mut inline = [0; INLINE];
        inline[..bytes.len()].copy_from_slice(bytes);
        Self(Repr::Inline { len: bytes.len() as u8, bytes: inline })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Shared(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for ShortBytes {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for ShortBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for ShortBytes {}

impl PartialOrd for ShortBytes {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ShortBytes {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for ShortBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Display for ShortBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

impl fmt::Debug for ShortBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_are_equal_whatever_their_length() {
        for n in [0, 1, INLINE - 1, INLINE, INLINE + 1, 255, 1000] {
            let bytes = vec![b'x'; n];
            let short = ShortBytes::new(&bytes);
            assert_eq!(short.as_bytes(), bytes);
            assert_eq!(short, short.clone());
            assert!(n == 0 || short > ShortBytes::new(&bytes[1..]));
        }
    }

    #[test]
    fn prints_escaped() {
        let short = ShortBytes::new(b"a\0\xff\"");
        assert_eq!((short.to_string(), format!("{short:?}")), (r#"a\x00\xff\""#.into(), r#""a\x00\xff\"""#.into()));
    }
}
