//! Texts of single settings into values: one small function per type.

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use zmtp::{Endpoint, EndpointError};

use crate::broker::{JobTracking, UnknownQueue};
use crate::emqp::{QueueName, QueueWeight};

/// Longest time a setting may name: a century, far below what the system's clocks can add.
const MAX_SECONDS: f64 = 3_200_000_000.0;

/// Why a text is not a value of its setting: completes the sentence "hwm = 'many' ...".
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BadValue {
    /// Neither yes nor no.
    #[error("is neither true nor false")]
    NotSwitch,
    /// Not a whole number.
    #[error("is not a whole number")]
    NotWhole,
    /// A number outside of what makes sense.
    #[error("is out of range: expected {min} to {max}")]
    OutOfRange {
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// Not a number of seconds.
    #[error("is not a number of seconds, such as 3 or 0.5")]
    NotSeconds,
    /// Zero where that would stop the program from working.
    #[error("must be more than 0 seconds")]
    ZeroSeconds,
    /// More than a century.
    #[error("is more than {MAX_SECONDS} seconds")]
    TooManySeconds,
    /// Not an address, or one of the wrong kind.
    #[error("is not a usable address: {0}")]
    Address(#[from] EndpointError),
    /// An address inside of one process, for programs that are processes of their own.
    #[error("is inside of one process, where no other program can reach it: expected tcp://HOST:PORT or ipc://PATH")]
    Inproc,
    /// Nothing where something is needed.
    #[error("is empty")]
    Empty,
    /// None of a few words.
    #[error("is not one of: {0}")]
    NotOneOf(&'static str),
    /// Not a number of bytes.
    #[error("is not a size: expected bytes, such as 1048576, 512 KiB, 64 MiB or 2 GiB")]
    NotSize,
    /// Neither a size nor a share of memory.
    #[error("is neither a size, such as 2 GiB, nor a share of memory from 1% to 100%")]
    NotMemory,
    /// JSON of another shape or no JSON.
    #[error("is not a JSON list of [weight, \"name\"] pairs, such as [[10, \"default\"], [20, \"email\"]]: {0}")]
    NotQueues(#[source] serde_json::Error),
    /// A queue without a name.
    #[error("names a queue \"\": every queue needs a name")]
    UnnamedQueue,
    /// Not a JSON object.
    #[error("is not a JSON object, such as {{\"socket_timeout\": 5}}: {0}")]
    NotObject(#[source] serde_json::Error),
}

/// Writes a value the way its setting would be written by a careful person.
pub trait Show {
    /// That text; parsing it again gives the same value.
    fn show(&self) -> String;
}

/// Yes or no.
///
/// Python takes any text with a `t` in it for true and everything else, `yes` and `1` included, for false. What it
/// takes for true is true here; what people mean as true (`yes`, `on`, `1`) is too, which
/// [`python_switch`] lets the caller warn about; `false`, `no`, `off`, `0` and nothing at all are false. The rest, such
/// as `enabled`, is refused rather than read as false.
pub fn switch(text: &str) -> Result<bool, BadValue> {
    match text.to_lowercase().as_str() {
        "yes" | "y" | "on" | "1" => Ok(true),
        "" | "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ if python_switch(text) => Ok(true),
        _ => Err(BadValue::NotSwitch),
    }
}

/// How Python reads a switch.
pub fn python_switch(text: &str) -> bool {
    text.to_lowercase().contains('t')
}

/// A whole number as Python's `int()` reads it: blanks around it, a sign, underscores between digits.
fn whole(text: &str) -> Result<i128, BadValue> {
    let text = text.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let well_formed = !digits.is_empty()
        && digits.split('_').all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()));
    if !well_formed {
        return Err(BadValue::NotWhole);
    }
    // Only a number of more than 38 digits does not fit; any value so large is out of every range.
    let value = digits.replace('_', "").parse::<i128>().unwrap_or(i128::MAX);
    Ok(if text.starts_with('-') { -value } else { value })
}

fn whole_within(text: &str, min: u64, max: u64) -> Result<u64, BadValue> {
    let value = whole(text)?;
    match u64::try_from(value) {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(BadValue::OutOfRange { min, max }),
    }
}

/// Most of anything that is counted: room for every real number, and no overflow when two are added.
const MAX_COUNT: u64 = 1 << 40;

/// A number from 0.
pub fn count(text: &str) -> Result<usize, BadValue> {
    whole_within(text, 0, MAX_COUNT).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// A number from 1.
pub fn positive(text: &str) -> Result<usize, BadValue> {
    whole_within(text, 1, MAX_COUNT).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// How many times something may happen: from 1, 32 bits.
pub fn times(text: &str) -> Result<u32, BadValue> {
    whole_within(text, 1, u32::MAX.into()).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
}

/// A TCP port of another service.
pub fn port(text: &str) -> Result<u16, BadValue> {
    whole_within(text, 1, u16::MAX.into()).map(|n| u16::try_from(n).unwrap_or(u16::MAX))
}

/// A weight of a queue; may be negative.
pub fn weight(text: &str) -> Result<QueueWeight, BadValue> {
    QueueWeight::try_from(whole(text)?).map_err(|_| BadValue::NotWhole)
}

/// Seconds, with decimals if wanted.
pub fn seconds(text: &str) -> Result<Duration, BadValue> {
    let text = text.trim();
    // `f64::from_str` also takes `inf` and `nan`.
    let plain = text.bytes().any(|b| b.is_ascii_digit()) && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match text.parse::<f64>() {
        Ok(seconds) if plain && seconds <= MAX_SECONDS => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) if plain => Err(BadValue::TooManySeconds),
        _ => Err(BadValue::NotSeconds),
    }
}

/// Seconds, more than none.
pub fn positive_seconds(text: &str) -> Result<Duration, BadValue> {
    match seconds(text)? {
        Duration::ZERO => Err(BadValue::ZeroSeconds),
        time => Ok(time),
    }
}

/// An address to bind.
pub fn bind_address(text: &str) -> Result<Endpoint, BadValue> {
    let endpoint: Endpoint = text.parse()?;
    endpoint.check_bind()?;
    between_processes(endpoint)
}

/// An address to connect to.
pub fn connect_address(text: &str) -> Result<Endpoint, BadValue> {
    let endpoint: Endpoint = text.parse()?;
    endpoint.check_connect()?;
    between_processes(endpoint)
}

fn between_processes(endpoint: Endpoint) -> Result<Endpoint, BadValue> {
    match endpoint {
        Endpoint::Inproc(_) => Err(BadValue::Inproc),
        endpoint => Ok(endpoint),
    }
}

/// Any text.
pub fn text(text: &str) -> Result<String, BadValue> {
    Ok(text.to_owned())
}

/// Any text but none.
pub fn name(text: &str) -> Result<String, BadValue> {
    if text.is_empty() { Err(BadValue::Empty) } else { Ok(text.to_owned()) }
}

/// The name of a queue.
pub fn queue_name(text: &str) -> Result<QueueName, BadValue> {
    if text.is_empty() {
        return Err(BadValue::Empty);
    }
    Ok(QueueName(Bytes::copy_from_slice(text.as_bytes())))
}

/// JSON: `[[10, "default"], [20, "email"]]`.
pub fn queues(text: &str) -> Result<Vec<(QueueWeight, QueueName)>, BadValue> {
    let pairs: Vec<(QueueWeight, String)> = serde_json::from_str(text).map_err(BadValue::NotQueues)?;
    if pairs.iter().any(|(_, name)| name.is_empty()) {
        return Err(BadValue::UnnamedQueue);
    }
    Ok(pairs.into_iter().map(|(weight, name)| (weight, QueueName(name.into()))).collect())
}

/// A JSON object.
pub fn object(text: &str) -> Result<serde_json::Map<String, serde_json::Value>, BadValue> {
    serde_json::from_str(text).map_err(BadValue::NotObject)
}

/// Bytes, plain or with a unit: `B`, `kB`, `KiB`, `MB`, `MiB`, `GB`, `GiB`.
pub fn size(text: &str) -> Result<u64, BadValue> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "kib" => 1 << 10,
        "mb" => 1_000_000,
        "mib" => 1 << 20,
        "gb" => 1_000_000_000,
        "gib" => 1 << 30,
        _ => return Err(BadValue::NotSize),
    };
    let number = whole(number).map_err(|_| BadValue::NotSize)?;
    let bytes = u64::try_from(number).ok().and_then(|n| n.checked_mul(factor)).ok_or(BadValue::NotSize)?;
    match bytes {
        1..=MAX_SIZE => Ok(bytes),
        _ => Err(BadValue::OutOfRange { min: 1, max: MAX_SIZE }),
    }
}

/// Most bytes of anything: 2^48, what a process can address.
const MAX_SIZE: u64 = 1 << 48;

/// An amount of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// So many bytes.
    Bytes(u64),
    /// So much of the machine's memory, 1 to 100.
    Percent(u8),
}

/// A size, or a share of the machine's memory.
pub fn memory(text: &str) -> Result<Memory, BadValue> {
    match text.trim().strip_suffix('%') {
        None => size(text).map(Memory::Bytes).map_err(|problem| match problem {
            BadValue::NotSize => BadValue::NotMemory,
            other => other,
        }),
        Some(share) => match whole(share) {
            Ok(share @ 1..=100) => Ok(Memory::Percent(share as u8)),
            _ => Err(BadValue::NotMemory),
        },
    }
}

/// A bound that may be left to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// As many as the machine allows.
    Auto,
    /// So many.
    Count(usize),
}

/// `auto`, or a number from 1.
pub fn bound(text: &str) -> Result<Bound, BadValue> {
    match text {
        "auto" => Ok(Bound::Auto),
        other => positive(other).map(Bound::Count),
    }
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What stops something from working.
    Error,
    /// Also what should be looked at.
    Warn,
    /// Also what happened to the program and its peers.
    Info,
    /// Also single messages.
    Debug,
    /// Everything.
    Trace,
}

/// What a log line looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// A type whose values are a few words.
macro_rules! choice {
    ($(#[$doc:meta])* $function:ident: $type:ty { $($word:literal = $value:expr),+ } $words:literal) => {
        $(#[$doc])*
        pub fn $function(text: &str) -> Result<$type, BadValue> {
            match text.to_ascii_lowercase().as_str() {
                $($word => Ok($value),)+
                _ => Err(BadValue::NotOneOf($words)),
            }
        }

        impl Show for $type {
            fn show(&self) -> String {
                let word = match self {
                    $(value if *value == $value => $word,)+
                    _ => "",
                };
                word.to_owned()
            }
        }
    };
}

choice! {
    /// `default` or `hold`.
    unknown_queue: UnknownQueue { "default" = UnknownQueue::Default, "hold" = UnknownQueue::Hold } "default, hold"
}
choice! {
    /// `all` or `asked`.
    tracking: JobTracking { "all" = JobTracking::All, "asked" = JobTracking::Asked } "all, asked"
}
choice! {
    /// `text` or `json`.
    log_format: LogFormat { "text" = LogFormat::Text, "json" = LogFormat::Json } "text, json"
}
choice! {
    /// `error` to `trace`.
    log_level: LogLevel {
        "error" = LogLevel::Error, "warn" = LogLevel::Warn, "info" = LogLevel::Info, "debug" = LogLevel::Debug,
        "trace" = LogLevel::Trace
    } "error, warn, info, debug, trace"
}

macro_rules! show_as_display {
    ($($type:ty),+) => {
        $(impl Show for $type {
            fn show(&self) -> String {
                self.to_string()
            }
        })+
    };
}

show_as_display!(bool, u16, u32, u64, i64, usize, String, Endpoint);

impl Show for Duration {
    fn show(&self) -> String {
        self.as_secs_f64().to_string()
    }
}

impl Show for QueueName {
    fn show(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl Show for Vec<(QueueWeight, QueueName)> {
    fn show(&self) -> String {
        let pair =
            |(weight, name): &(QueueWeight, QueueName)| format!("[{weight}, {}]", serde_json::Value::from(name.show()));
        format!("[{}]", self.iter().map(pair).collect::<Vec<_>>().join(", "))
    }
}

impl Show for serde_json::Map<String, serde_json::Value> {
    fn show(&self) -> String {
        serde_json::Value::Object(self.clone()).to_string()
    }
}

impl Show for Memory {
    fn show(&self) -> String {
        match self {
            Self::Bytes(bytes) => bytes.to_string(),
            Self::Percent(share) => format!("{share}%"),
        }
    }
}

impl Show for Bound {
    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Count(count) => count.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_python_reads_as_true_is_never_false() {
        for text in ["true", "True", "T", "tRUE ; comment", "not", "false # not now"] {
            assert!(python_switch(text) && switch(text).unwrap(), "{text}");
        }
        for text in ["yes", "Y", "on", "1"] {
            assert!(!python_switch(text) && switch(text).unwrap(), "{text}");
        }
        for text in ["false", "F", "no", "off", "0", ""] {
            assert!(!python_switch(text) && !switch(text).unwrap(), "{text}");
        }
        for text in ["enabled", "2", "flase", "nil"] {
            assert!(!python_switch(text) && switch(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_as_python_writes_them() {
        assert_eq!(count(" +10_000 ").unwrap(), 10_000);
        assert_eq!(weight("-3").unwrap(), -3);
        for text in ["", "+", "1.5", "0x10", "_1", "1__0", "ten"] {
            assert!(matches!(count(text), Err(BadValue::NotWhole)), "{text}");
        }
        for text in ["-1", "99999999999999999999", &"9".repeat(60)] {
            assert!(matches!(count(text), Err(BadValue::OutOfRange { .. })), "{text}");
        }
        assert!(positive("0").is_err());
        assert!(times("4294967296").is_err());
        assert!(weight("9223372036854775808").is_err());
    }

    #[test]
    fn times_and_sizes() {
        assert_eq!(seconds("2.5").unwrap(), Duration::from_millis(2500));
        assert_eq!(seconds("0").unwrap(), Duration::ZERO);
        for text in ["", ".", "-1", "inf", "nan", "1e3", "3s", "1.2.3"] {
            assert!(matches!(seconds(text), Err(BadValue::NotSeconds)), "{text}");
        }
        assert!(matches!(seconds("3200000001"), Err(BadValue::TooManySeconds)));
        assert!(matches!(positive_seconds("0.0"), Err(BadValue::ZeroSeconds)));
        for (text, bytes) in [("1", 1), ("512 KiB", 524_288), ("2gib", 1 << 31), ("5 MB", 5_000_000)] {
            assert_eq!(size(text).unwrap(), bytes);
        }
        for text in ["", "0", "MiB", "1 XiB", "-5", "1.5 GiB", "999999999999 GiB"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(memory("50%").unwrap(), Memory::Percent(50));
        assert_eq!(memory("1 GiB").unwrap(), Memory::Bytes(1 << 30));
        for text in ["0%", "101%", "%", "half"] {
            assert!(matches!(memory(text), Err(BadValue::NotMemory)), "{text}");
        }
    }

    #[test]
    fn queues_are_json_pairs() {
        let parsed = queues("[[10, \"default\"],\n [20, \"e\\u00e9\"]]").unwrap();
        assert_eq!(parsed.show(), "[[10, \"default\"], [20, \"eé\"]]");
        assert!(queues("[]").unwrap().is_empty());
        for text in ["", "one,two", "[\"a\"]", "[[\"a\", 1]]", "[[1.5, \"a\"]]", "[[1, \"a\", 2]]", "{}", "[[1, \"\"]]"]
        {
            assert!(queues(text).is_err(), "{text}");
        }
    }
}
