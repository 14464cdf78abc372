//! [`ScheduleId`]: what makes two SCHEDULEs the same schedule.

use std::fmt;
use std::str::FromStr;

use sha1::{Digest, Sha1};
use thiserror::Error;

use super::json::{Json, JsonError};

/// Longest payload that is read, in bytes: as a tree of values it takes thirty times its length.
const MAX_PAYLOAD: usize = 1 << 20;

/// The keys that count, sorted.
const KEYS: [&str; 6] = ["args", "callable", "class_args", "class_kwargs", "kwargs", "path"];

/// Identity of a schedule: the SHA-1 of what is to be called with which arguments, exactly as Python's scheduler makes it.
///
/// Queue, interval, cron expression and headers are not part of it: the same call scheduled again is the same schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduleId([u8; 20]);

/// The call in the payload of a SCHEDULE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledCall {
    /// Its identity.
    pub id: ScheduleId,
    /// The module, with `:Class` for a method.
    pub path: String,
    /// The function or method.
    pub callable: String,
}

/// Why a payload names no call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// More than a schedule may hold.
    #[error("the message has {0} bytes: expected at most {MAX_PAYLOAD}; keep large arguments where the job finds them")]
    TooLong(usize),
    /// Not text.
    #[error("the message is not UTF-8 at byte {at}")]
    Utf8 {
        /// Counted from 0.
        at: usize,
    },
    /// Not JSON.
    #[error("the message is not JSON: {0}")]
    Json(#[from] JsonError),
    /// JSON of another shape.
    #[error("the message is not a JSON array whose second element is an object")]
    Shape,
    /// Python's scheduler needs all six keys.
    #[error("the message has no \"{0}\"")]
    Missing(&'static str),
    /// Path and callable must be texts.
    #[error("\"{0}\" of the message is not a text")]
    NotText(&'static str),
}

impl ScheduleId {
    /// The 20 bytes of the hash.
    pub fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

impl ScheduledCall {
    /// Reads the payload of a SCHEDULE: `["run", {"path": …, "callable": …, "args": …, …}]`.
    ///
    /// # Errors
    /// It is longer than 1 MiB, is not such JSON, or lacks one of the six keys that make the identity.
    pub fn read(payload: &[u8]) -> Result<Self, IdentityError> {
        if payload.len() > MAX_PAYLOAD {
            return Err(IdentityError::TooLong(payload.len()));
        }
        let text = std::str::from_utf8(payload).map_err(|error| IdentityError::Utf8 { at: error.valid_up_to() })?;
        let Json::List(elements) = Json::parse(text)? else { return Err(IdentityError::Shape) };
        let Some(Json::Object(call)) = elements.get(1) else { return Err(IdentityError::Shape) };
        let mut counted = String::from("{");
        for (index, key) in KEYS.into_iter().enumerate() {
            let value = call.get(key.as_bytes()).ok_or(IdentityError::Missing(key))?;
            counted.push_str(if index == 0 { "\"" } else { ", \"" });
            counted.push_str(key);
            counted.push_str("\": ");
            value.write(&mut counted);
        }
        counted.push('}');
        let name = |key: &'static str| match call.get(key.as_bytes()) {
            Some(Json::Text(text)) => Ok(String::from_utf8_lossy(text).into_owned()),
            _ => Err(IdentityError::NotText(key)),
        };
        let id = ScheduleId(Sha1::digest(counted.as_bytes()).into());
        Ok(Self { id, path: name("path")?, callable: name("callable")? })
    }
}

impl fmt::Display for ScheduleId {
    /// Forty hexadecimal digits, as Python writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text is not forty hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the id of a schedule is forty hexadecimal digits")]
pub struct ScheduleIdError;

impl FromStr for ScheduleId {
    type Err = ScheduleIdError;

    fn from_str(text: &str) -> Result<Self, ScheduleIdError> {
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(ScheduleIdError);
        let digits = text.as_bytes();
        if digits.len() != 40 {
            return Err(ScheduleIdError);
        }
        let mut id = [0; 20];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Self(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(args: &str, kwargs: &str) -> String {
        let payload = format!(
            "[\"run\", {{\"callable\": \"f\", \"path\": \"m\", \"args\": {args}, \"kwargs\": {kwargs}, \
             \"class_args\": [], \"class_kwargs\": {{}}, \"extra\": 1}}]"
        );
        ScheduledCall::read(payload.as_bytes()).unwrap().id.to_string()
    }

    #[test]
    fn d10_the_hashes_are_pythons() {
        for (args, kwargs, hash) in [
            ("[]", "{}", "234b586af79d27ef18e00cabd07abd5425e595ff"),
            ("[1,\"a\",null,true]", "{}", "f8f70954000c849bdb18c066fa371100c4779dd9"),
            ("[\"hé世😀\"]", "{}", "3e651c30b7f6d4e69352504dfd57773c17d3b1ac"),
            ("[\"h\\u00e9\\u4e16\\ud83d\\ude00\"]", "{}", "3e651c30b7f6d4e69352504dfd57773c17d3b1ac"),
            ("[\"hé世\"]", "{}", "e390a50d40fb3a752ddc92dee89dc4c6541d2472"),
            (
                "[1.0,1e22,1E5,-0.0,0.1,1e-7,123456789012345678901234567890]",
                "{}",
                "2d2d46ef4bb4960648b95e2a2a09900fbaef0903",
            ),
            ("[]", "{\"b\":{\"z\":1,\"a\":2},\"a\":[{\"y\":1,\"x\":2}]}", "ef93f47374e394c1f7aef441b8f8d25893aa783c"),
            ("[NaN,Infinity]", "{}", "44b84b2229b87bd9aa6548bf09ae99ae73c407b2"),
            ("[]", "{\"a\":1,\"a\":2}", "605ca2b162bd9f89dc56d8c32703a21cabe720e0"),
            ("[\"\\ud800\"]", "{}", "b70dac1566d17a1ceb33cc7a2d95da07450dd945"),
        ] {
            assert_eq!(id(args, kwargs), hash, "{args} {kwargs}");
        }
    }

    #[test]
    fn says_what_is_wrong_with_a_payload() {
        let problem = |payload: &[u8]| ScheduledCall::read(payload).unwrap_err();
        assert_eq!(problem(b"\xff"), IdentityError::Utf8 { at: 0 });
        assert_eq!(problem(&[b'['; MAX_PAYLOAD + 1]), IdentityError::TooLong(MAX_PAYLOAD + 1));
        assert!(matches!(problem(&[b'['; MAX_PAYLOAD]), IdentityError::Json(_)));
        assert!(matches!(problem(b"{bad"), IdentityError::Json(_)));
        for shape in [&b"{}"[..], b"[]", b"[\"run\"]", b"[\"run\", []]", b"7"] {
            assert_eq!(problem(shape), IdentityError::Shape);
        }
        assert_eq!(problem(b"[\"run\", {\"args\": []}]"), IdentityError::Missing("callable"));
        let not_text = br#"["run", {"args":[],"callable":"f","class_args":[],"class_kwargs":{},"kwargs":{},"path":1}]"#;
        assert_eq!(problem(not_text), IdentityError::NotText("path"));
    }

    #[test]
    fn an_id_survives_its_text() {
        let call = ScheduledCall::read(
            br#"["run", {"args":[],"callable":"f","class_args":[],"class_kwargs":{},"kwargs":{},"path":"m"}]"#,
        );
        let call = call.unwrap();
        assert_eq!(call.id.to_string().parse(), Ok(call.id));
        assert_eq!((&*call.path, &*call.callable), ("m", "f"));
        for bad in ["", "12", &"g".repeat(40), &"0".repeat(41)] {
            assert_eq!(bad.parse::<ScheduleId>(), Err(ScheduleIdError));
        }
    }
}
