//! Z85 (RFC 32): binary as printable text, four bytes to five characters.

use thiserror::Error;

/// The digits in the order of their values.
const ALPHABET: &[u8; 85] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
/// No digit has this value.
const NONE: u8 = u8::MAX;
const VALUES: [u8; 256] = values();

/// Why text or bytes have no Z85 counterpart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Z85Error {
    /// Text comes in groups of five characters, bytes in groups of four.
    #[error("a length of {0} is no multiple of the group size (5 characters for 4 bytes)")]
    Length(usize),
    /// A character that is no Z85 digit.
    #[error("character {at} is no Z85 digit")]
    Digit {
        /// Its place, in bytes from the start of the text.
        at: usize,
    },
    /// Five digits that stand for more than four bytes hold.
    #[error("the group at character {at} is larger than four bytes hold")]
    Overflow {
        /// Where the group begins, in bytes from the start of the text.
        at: usize,
    },
}

/// Bytes to text.
///
/// # Errors
/// [`Z85Error::Length`] unless the number of bytes is a multiple of four.
///
/// ```
/// let bytes = [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b];
/// assert_eq!(zmtp::wire::z85::encode(&bytes)?, "HelloWorld");
/// assert_eq!(zmtp::wire::z85::decode("HelloWorld")?, bytes);
/// # Ok::<(), zmtp::wire::z85::Z85Error>(())
/// ```
pub fn encode(bytes: &[u8]) -> Result<String, Z85Error> {
    let (groups, []) = bytes.as_chunks::<4>() else { return Err(Z85Error::Length(bytes.len())) };
    let mut text = String::with_capacity(groups.len() * 5);
    for group in groups {
        let value = u32::from_be_bytes(*group);
        for power in [52_200_625, 614_125, 7225, 85, 1] {
            text.push(char::from(ALPHABET[(value / power % 85) as usize]));
        }
    }
    Ok(text)
}

/// Text to bytes.
///
/// # Errors
/// What is wrong with the text.
pub fn decode(text: &str) -> Result<Vec<u8>, Z85Error> {
    let (groups, []) = text.as_bytes().as_chunks::<5>() else { return Err(Z85Error::Length(text.len())) };
    // Of its final size from the start: a secret key must not leave a copy in a buffer that was too small.
    let mut bytes = Vec::with_capacity(groups.len() * 4);
    for (index, group) in groups.iter().enumerate() {
        let mut value = 0u64;
        for (offset, character) in group.iter().enumerate() {
            match VALUES[usize::from(*character)] {
                NONE => return Err(Z85Error::Digit { at: index * 5 + offset }),
                digit => value = value * 85 + u64::from(digit),
            }
        }
        let value = u32::try_from(value).map_err(|_| Z85Error::Overflow { at: index * 5 })?;
        bytes.extend_from_slice(&value.to_be_bytes());
    }
    Ok(bytes)
}

const fn values() -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut digit = 0;
    while digit < ALPHABET.len() {
        values[ALPHABET[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_vector_of_rfc_32() {
        assert_eq!(encode(&[0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b]).unwrap(), "HelloWorld");
    }

    #[test]
    fn the_edges() {
        assert_eq!(decode("").unwrap(), b"");
        assert_eq!(decode("00000").unwrap(), [0; 4]);
        assert_eq!(decode("%nSc0").unwrap(), [0xff; 4]);
        assert_eq!(decode("%nSc1"), Err(Z85Error::Overflow { at: 0 }));
        assert_eq!(decode("00000#####"), Err(Z85Error::Overflow { at: 5 }));
    }

    #[test]
    fn what_is_no_z85() {
        assert_eq!(encode(b"abcde"), Err(Z85Error::Length(5)));
        assert_eq!(decode("abcd"), Err(Z85Error::Length(4)));
        for text in ["Hello\"orld", "Hello orld", "Hello~orld", "Hello\u{e9}rld", "Hello\\orld", "Hello\0orld"] {
            assert_eq!(decode(text), Err(Z85Error::Digit { at: 5 }), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn bytes_come_back(groups in proptest::collection::vec(any::<[u8; 4]>(), 0..20)) {
            let bytes = groups.concat();
            let text = encode(&bytes).unwrap();
            prop_assert_eq!(text.len(), groups.len() * 5);
            prop_assert_eq!(decode(&text).unwrap(), bytes);
        }

        #[test]
        fn text_is_refused_or_comes_back(text in "\\PC{0,20}|[0-9a-zA-Z.:+=^!/*?&<>()@%$#-]{5}") {
            if let Ok(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes).unwrap(), text);
            }
        }
    }
}
