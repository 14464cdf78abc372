//! JSON as Python reads and writes it, as far as the identity of a schedule needs it: what `json.loads` takes, written
//! the way `json.dumps(…, sort_keys=True)` would.
//!
//! A JSON library will not do: Python takes `NaN` and lone surrogates, keeps integers of any size, and writes floats in
//! its own way, and the hash is made of that text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use thiserror::Error;

/// Deeper nesting than this is refused; Python itself gives up before 1,000.
const MAX_DEPTH: usize = 500;
/// Python refuses integers with more digits.
const MAX_DIGITS: usize = 4300;

/// A JSON value. Texts are WTF-8: UTF-8 that may hold lone surrogates; its bytes sort as Python sorts text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Json {
    /// `null`, `true`, `false` and numbers, as Python writes them.
    Literal(String),
    Text(Vec<u8>),
    List(Vec<Json>),
    Object(BTreeMap<Vec<u8>, Json>),
}

/// Why a text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{problem} at byte {at}")]
pub struct JsonError {
    /// Counted from 0.
    pub at: usize,
    /// What is wrong there.
    pub problem: JsonProblem,
}

/// What can be wrong with JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JsonProblem {
    /// Something else should stand here.
    #[error("{0} expected")]
    Expected(&'static str),
    /// A string does not end.
    #[error("string without an end")]
    OpenString,
    /// A control character stands in a string.
    #[error("control character in a string")]
    Control,
    /// A backslash before something it cannot stand before.
    #[error("invalid escape")]
    Escape,
    /// More digits than Python takes.
    #[error("integer with too many digits")]
    TooLong,
    /// Arrays in arrays in arrays.
    #[error("too many levels")]
    TooDeep,
    /// Something behind the end.
    #[error("more text behind the value")]
    Trailing,
}

impl Json {
    /// Reads one value.
    pub(super) fn parse(text: &str) -> Result<Self, JsonError> {
        let mut reader = Reader { text: text.as_bytes(), at: 0 };
        reader.blanks();
        let value = reader.value(0)?;
        reader.blanks();
        match reader.peek() {
            None => Ok(value),
            Some(_) => Err(reader.error(JsonProblem::Trailing)),
        }
    }

    /// Writes it: separators `", "` and `": "`, keys sorted, everything beyond ASCII escaped.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Literal(text) => out.push_str(text),
            Self::Text(text) => write_text(text, out),
            Self::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { ", " });
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(entries) => {
                out.push('{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { ", " });
                    write_text(key, out);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn error(&self, problem: JsonProblem) -> JsonError {
        JsonError { at: self.at, problem }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.text[self.at..].starts_with(word.as_bytes());
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, JsonError> {
        if depth > MAX_DEPTH {
            return Err(self.error(JsonProblem::TooDeep));
        }
        match self.peek() {
            Some(b'"') => self.string().map(Json::Text),
            Some(b'[') => self.list(depth),
            Some(b'{') => self.object(depth),
            _ => self.literal(),
        }
    }

    fn literal(&mut self) -> Result<Json, JsonError> {
        for word in ["null", "true", "false", "NaN", "Infinity", "-Infinity"] {
            if self.take(word) {
                return Ok(Json::Literal(word.to_owned()));
            }
        }
        self.number().map(Json::Literal)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<String, JsonError> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let whole = self.at;
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else if self.digits() == 0 {
            self.at = start;
            return Err(self.error(JsonProblem::Expected("a value")));
        }
        let digits = self.at - whole;
        // A dot or an `e` without digits behind it is not part of the number.
        let integer = self.at;
        for (marks, signs) in [(&b"."[..], &b""[..]), (b"eE", b"+-")] {
            let before = self.at;
            if self.peek().is_some_and(|byte| marks.contains(&byte)) {
                self.at += 1;
                self.at += usize::from(self.peek().is_some_and(|byte| signs.contains(&byte)));
                if self.digits() == 0 {
                    self.at = before;
                }
            }
        }
        let text = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        if self.at > integer {
            return Ok(text.parse().map_or(text, python_float));
        }
        if digits > MAX_DIGITS {
            return Err(self.error(JsonProblem::TooLong));
        }
        Ok(if text == "-0" { "0".to_owned() } else { text })
    }

    fn list(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.blanks();
        if self.take("]") {
            return Ok(Json::List(items));
        }
        loop {
            self.blanks();
            items.push(self.value(depth + 1)?);
            self.blanks();
            if self.take("]") {
                return Ok(Json::List(items));
            }
            if !self.take(",") {
                return Err(self.error(JsonProblem::Expected("',' or ']'")));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.at += 1;
        let mut entries = BTreeMap::new();
        self.blanks();
        if self.take("}") {
            return Ok(Json::Object(entries));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.error(JsonProblem::Expected("a key in double quotes")));
            }
            let key = self.string()?;
            self.blanks();
            if !self.take(":") {
                return Err(self.error(JsonProblem::Expected("':'")));
            }
            self.blanks();
            // Of equal keys the last one counts.
            entries.insert(key, self.value(depth + 1)?);
            self.blanks();
            if self.take("}") {
                return Ok(Json::Object(entries));
            }
            if !self.take(",") {
                return Err(self.error(JsonProblem::Expected("',' or '}'")));
            }
        }
    }

    fn string(&mut self) -> Result<Vec<u8>, JsonError> {
        let start = self.at;
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.peek() {
                None => return Err(JsonError { at: start, problem: JsonProblem::OpenString }),
                Some(b'"') => break,
                Some(b'\\') => self.escape(&mut text)?,
                Some(byte) if byte < 0x20 => return Err(self.error(JsonProblem::Control)),
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Ok(text)
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), JsonError> {
        let plain = match self.text.get(self.at + 1) {
            Some(b'u') => {
                let code = self.unicode_escape()?;
                push_code_point(code, text);
                return Ok(());
            }
            Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            _ => return Err(self.error(JsonProblem::Escape)),
        };
        text.push(plain);
        self.at += 2;
        Ok(())
    }

    /// `\uXXXX`, or two of them that are one code point.
    fn unicode_escape(&mut self) -> Result<u32, JsonError> {
        let Some(first) = self.unit(self.at) else { return Err(self.error(JsonProblem::Escape)) };
        self.at += 6;
        if (0xd800..0xdc00).contains(&first)
            && let Some(second) = self.unit(self.at).filter(|unit| (0xdc00..0xe000).contains(unit))
        {
            self.at += 6;
            return Ok(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
        }
        Ok(first)
    }

    fn unit(&self, at: usize) -> Option<u32> {
        let hex = self.text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        hex.iter().try_fold(0, |unit, byte| Some(unit * 16 + char::from(*byte).to_digit(16)?))
    }
}

/// Appends a code point, which may be a surrogate, as UTF-8 would write it.
fn push_code_point(code: u32, text: &mut Vec<u8>) {
    match char::from_u32(code) {
        Some(character) => text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        None => text.extend_from_slice(&[
            0xe0 | (code >> 12) as u8,
            0x80 | (code >> 6 & 0x3f) as u8,
            0x80 | (code & 0x3f) as u8,
        ]),
    }
}

/// Takes the first code point off WTF-8 text.
fn first_code_point(text: &[u8]) -> Option<(u32, &[u8])> {
    let (&lead, rest) = text.split_first()?;
    let (more, bits) = match lead {
        0..0x80 => (0, u32::from(lead)),
        0x80..0xe0 => (1, u32::from(lead & 0x1f)),
        0xe0..0xf0 => (2, u32::from(lead & 0x0f)),
        _ => (3, u32::from(lead & 0x07)),
    };
    let (tail, rest) = rest.split_at_checked(more)?;
    Some((tail.iter().fold(bits, |code, byte| code << 6 | u32::from(byte & 0x3f)), rest))
}

fn write_text(mut text: &[u8], out: &mut String) {
    out.push('"');
    while let Some((code, rest)) = first_code_point(text) {
        match code {
            0x22 => out.push_str("\\\""),
            0x5c => out.push_str("\\\\"),
            0x0a => out.push_str("\\n"),
            0x0d => out.push_str("\\r"),
            0x09 => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            0x20..0x7f => out.push(code as u8 as char),
            // Writing to a String cannot fail.
            0..0x10000 => {
                let _ = write!(out, "\\u{code:04x}");
            }
            _ => {
                let (high, low) = (0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
                let _ = write!(out, "\\u{high:04x}\\u{low:04x}");
            }
        }
        text = rest;
    }
    out.push('"');
}

/// The text of Python's `repr` of a float.
fn python_float(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    // Rust writes the same shortest digits, but places the point by other rules.
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    if !(-4..16).contains(&exponent) {
        let way = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{way}{:02}", exponent.unsigned_abs());
    }
    let digits = mantissa.replace('.', "");
    let place = exponent.unsigned_abs() as usize;
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(place - 1));
    }
    let whole = format!("{digits:0<width$}", width = place + 1);
    let (integer, fraction) = whole.split_at(place + 1);
    format!("{sign}{integer}.{}", if fraction.is_empty() { "0" } else { fraction })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rewritten(text: &str) -> String {
        let mut out = String::new();
        Json::parse(text).unwrap().write(&mut out);
        out
    }

    #[test]
    fn writes_numbers_as_python_does() {
        for (text, python) in [
            ("1.0", "1.0"),
            ("1e22", "1e+22"),
            ("1E5", "100000.0"),
            ("-0.0", "-0.0"),
            ("-0", "0"),
            ("0.1", "0.1"),
            ("1e-7", "1e-07"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("1e15", "1000000000000000.0"),
            ("9999999999999998.0", "9999999999999998.0"),
            ("1e16", "1e+16"),
            ("123.456", "123.456"),
            ("1.5e300", "1.5e+300"),
            ("5e-324", "5e-324"),
            ("1e999", "Infinity"),
            ("-1e999", "-Infinity"),
            ("0e0", "0.0"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("NaN", "NaN"),
            ("[-Infinity,Infinity]", "[-Infinity, Infinity]"),
        ] {
            assert_eq!(rewritten(text), python, "{text}");
        }
    }

    #[test]
    fn sorts_escapes_and_separates_as_python_does() {
        assert_eq!(rewritten(" {\"b\" :[1 ,2],\n\"a\":{}} "), "{\"a\": {}, \"b\": [1, 2]}");
        assert_eq!(rewritten("\"h\\u00e9世\\ud83d\\ude00😀\\ud800\\/\\u007f\""), {
            "\"h\\u00e9\\u4e16\\ud83d\\ude00\\ud83d\\ude00\\ud800/\\u007f\""
        });
        // By code point: a lone surrogate comes before what UTF-16 writes as a pair.
        assert_eq!(rewritten("{\"\\uffff\":1,\"😀\":2,\"\\ud83d\":3}"), {
            "{\"\\ud83d\": 3, \"\\uffff\": 1, \"\\ud83d\\ude00\": 2}"
        });
    }

    #[test]
    fn refuses_what_python_refuses_and_says_where() {
        let problem = |text: &str| Json::parse(text).unwrap_err();
        for (text, at) in [
            ("", 0),
            ("{bad", 1),
            ("[1,]", 3),
            ("01", 1),
            ("1.", 1),
            ("+1", 0),
            (".5", 0),
            ("[1 2]", 3),
            ("{\"a\" 1}", 5),
            ("{\"a\":1,}", 7),
            ("\"a", 0),
            ("\"\n\"", 1),
            ("\"\\x\"", 1),
            ("\"\\u12g4\"", 1),
            ("nul", 0),
            ("'a'", 0),
            ("\u{feff}1", 0),
        ] {
            assert_eq!(problem(text).at, at, "{text:?}: {}", problem(text));
        }
        assert_eq!(problem(&"9".repeat(4301)).problem, JsonProblem::TooLong);
        assert_eq!(problem(&"[".repeat(100_000)).problem, JsonProblem::TooDeep);
    }

    proptest! {
        #[test]
        fn floats_survive(value in any::<f64>().prop_filter("finite", |value| value.is_finite())) {
            prop_assert_eq!(python_float(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }

        #[test]
        fn never_panics_and_is_stable(text in "[\\[\\]{}\",:0-9eE+\\-.\\\\ua-f \u{e9}😀]{0,40}") {
            if let Ok(value) = Json::parse(&text) {
                let mut once = String::new();
                value.write(&mut once);
                prop_assert_eq!(rewritten(&once), once);
            }
        }
    }
}
