//! How the programs of the Python suite write messages in a line: each frame in hex, an empty one as `-`, and a large one
//! as `@LENGTH:START`: the bytes 0 to 255 over and over, beginning at START. A received frame of more than 1,024 bytes is
//! shown as `#LENGTH:ADLER32`.

use std::fmt::Write as _;

/// Longer frames are shown by their checksum, in bytes.
const SHOWN_IN_FULL: usize = 1024;

/// The frames of these words.
///
/// # Errors
/// Which word is not a frame, and why.
pub fn parse_frames(words: &[&str]) -> Result<Vec<Vec<u8>>, String> {
    words.iter().map(|word| parse_frame(word)).collect()
}

/// The frame of a word.
///
/// # Errors
/// Why it is none.
pub fn parse_frame(word: &str) -> Result<Vec<u8>, String> {
    match (word, word.strip_prefix('@').and_then(|rest| rest.split_once(':'))) {
        ("-", _) => Ok(Vec::new()),
        (_, Some((length, start))) => Ok(pattern(number(length)?, number(start)?)),
        (word, None) => unhex(word),
    }
}

/// The bytes 0 to 255 over and over, beginning at `start`.
fn pattern(length: usize, start: usize) -> Vec<u8> {
    let block: Vec<u8> = (0..256).map(|at| (start + at) as u8).collect();
    let mut made = block.repeat(length.div_ceil(block.len()));
    made.truncate(length);
    made
}

/// The bytes of hexadecimal digits.
///
/// # Errors
/// That they are something else.
pub fn unhex(word: &str) -> Result<Vec<u8>, String> {
    let digits = word.as_bytes().chunks(2);
    digits
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("not hex: {word}"))
}

/// A message as it is shown.
pub fn show<F: AsRef<[u8]>>(frames: &[F]) -> String {
    let frames: Vec<String> = frames.iter().map(|frame| show_frame(frame.as_ref())).collect();
    frames.join(" ")
}

fn show_frame(frame: &[u8]) -> String {
    match frame.len() {
        0 => "-".to_owned(),
        length if length > SHOWN_IN_FULL => format!("#{length}:{}", adler32(frame)),
        _ => hex(frame),
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The checksum of RFC 1950, as zlib has it.
fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.chunks(5000).fold((1u32, 0u32), |(low, high), chunk| {
        let (low, high) = chunk.iter().fold((low, high), |(low, high), byte| {
            let low = low + u32::from(*byte);
            (low, high + low)
        });
        (low % 65521, high % 65521)
    });
    high << 16 | low
}

/// The number a word is.
///
/// # Errors
/// Why it is none.
pub fn number(word: &str) -> Result<usize, String> {
    word.parse().map_err(|error| format!("{word}: {error}"))
}
