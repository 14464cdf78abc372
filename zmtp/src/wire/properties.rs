//! Connection properties (RFC 37, "metadata"): name and value pairs inside READY.

use bytes::{BufMut, Bytes};
use thiserror::Error;

/// Why a property list is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PropertyError {
    /// A length reaches past the end of the list.
    #[error("a property's length reaches past the end of the command")]
    Truncated,
    /// A property without a name.
    #[error("a property has an empty name")]
    EmptyName,
}

/// Iterates over a property list: `name-length (1) name value-length (4, big-endian) value`, repeated.
///
/// Yields the error once and then ends.
#[derive(Debug, Clone)]
pub struct Properties<'a>(&'a [u8]);

impl<'a> Properties<'a> {
    /// Over the bytes behind a command's name.
    pub fn new(list: &'a [u8]) -> Self {
        Self(list)
    }
}

impl<'a> Iterator for Properties<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), PropertyError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let property = take_one(&mut self.0);
        if property.is_err() {
            self.0 = &[];
        }
        Some(property)
    }
}

fn take_one<'a>(list: &mut &'a [u8]) -> Result<(&'a [u8], &'a [u8]), PropertyError> {
    let (&name_len, rest) = list.split_first().ok_or(PropertyError::Truncated)?;
    let (name, rest) = rest.split_at_checked(name_len.into()).ok_or(PropertyError::Truncated)?;
    let (value_len, rest) = rest.split_first_chunk::<4>().ok_or(PropertyError::Truncated)?;
    let value_len = usize::try_from(u32::from_be_bytes(*value_len)).map_err(|_| PropertyError::Truncated)?;
    let (value, rest) = rest.split_at_checked(value_len).ok_or(PropertyError::Truncated)?;
    if name.is_empty() {
        return Err(PropertyError::EmptyName);
    }
    *list = rest;
    Ok((name, value))
}

/// Writes one property. Names longer than 255 bytes do not exist here: ours are constants.
pub fn put(out: &mut impl BufMut, name: &str, value: &[u8]) {
    out.put_u8(name.len() as u8);
    out.put_slice(name.as_bytes());
    out.put_u32(value.len() as u32);
    out.put_slice(value);
}

/// A property that is neither `Socket-Type` nor `Identity`, as a peer announced it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Its name, case kept.
    pub name: Bytes,
    /// Its value.
    pub value: Bytes,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stray_trailing_byte_is_an_error() {
        let mut list = Vec::new();
        put(&mut list, "Socket-Type", b"DEALER");
        list.push(3);
        let read: Vec<_> = Properties::new(&list).collect();
        assert_eq!(read, [Ok((&b"Socket-Type"[..], &b"DEALER"[..])), Err(PropertyError::Truncated)]);
    }

    #[test]
    fn lying_lengths_are_errors() {
        for list in [&b"\x0bSocket"[..], b"\x01a\xff\xff\xff\xffabc", b"\x01a\x00\x00\x00\xc8abc", b"\x01a\x00"] {
            assert_eq!(Properties::new(list).last(), Some(Err(PropertyError::Truncated)), "{list:?}");
        }
        assert_eq!(Properties::new(b"\x00\x00\x00\x00\x00").last(), Some(Err(PropertyError::EmptyName)));
    }

    proptest! {
        #[test]
        fn garbage_ends(list: Vec<u8>) {
            prop_assert!(Properties::new(&list).count() <= list.len());
        }
    }
}
