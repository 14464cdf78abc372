//! The queue list of an INFORM.

use bytes::Bytes;
use thiserror::Error;

use super::{QueueName, QueueWeight};

/// Most queues one worker may name.
pub const MAX_QUEUES: usize = 1024;

/// The queues a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueList {
    /// None named: those the broker is configured with.
    Configured,
    /// JSON: pairs of weight and name, in the order given.
    Weighted(Vec<(QueueWeight, QueueName)>),
    /// The early form: names only.
    Named(Vec<QueueName>),
}

/// Why a queue list cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QueueListError {
    /// Neither JSON nor a comma-separated list of names.
    #[error("queues are neither JSON nor a comma-separated list")]
    Syntax,
    /// JSON, but not an array of `[weight, "name"]` pairs.
    #[error("queues are not an array of [weight, \"name\"] pairs")]
    Shape,
    /// A queue without a name.
    #[error("a queue has an empty name")]
    EmptyName,
    /// More than [`MAX_QUEUES`].
    #[error("{0} queues are more than one worker may name")]
    TooMany(usize),
}

impl QueueList {
    /// Reads the `queues` frame of an INFORM.
    pub fn parse(frame: &[u8]) -> Result<Self, QueueListError> {
        let text = std::str::from_utf8(frame).map_err(|_| QueueListError::Syntax)?.trim();
        let list = match text.as_bytes().first() {
            None => Self::Configured,
            Some(b'[') => Self::json(text)?,
            Some(_) => Self::csv(text)?,
        };
        match &list {
            Self::Weighted(pairs) if pairs.len() > MAX_QUEUES => Err(QueueListError::TooMany(pairs.len())),
            Self::Named(names) if names.len() > MAX_QUEUES => Err(QueueListError::TooMany(names.len())),
            _ => Ok(list),
        }
    }

    /// The frame's text again.
    pub fn to_frame(&self) -> String {
        let name = |name: &QueueName| String::from_utf8_lossy(name.as_bytes()).into_owned();
        match self {
            Self::Configured => String::new(),
            Self::Named(names) => names.iter().map(name).collect::<Vec<_>>().join(","),
            Self::Weighted(pairs) => {
                let pairs: Vec<_> = pairs
                    .iter()
                    .map(|(weight, queue)| format!("[{weight}, {}]", serde_json::Value::String(name(queue))))
                    .collect();
                format!("[{}]", pairs.join(", "))
            }
        }
    }

    fn json(text: &str) -> Result<Self, QueueListError> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(|_| QueueListError::Syntax)?;
        let pairs: Vec<(QueueWeight, String)> = serde_json::from_value(value).map_err(|_| QueueListError::Shape)?;
        if pairs.iter().any(|(_, name)| name.is_empty()) {
            return Err(QueueListError::EmptyName);
        }
        if pairs.is_empty() {
            return Ok(Self::Configured);
        }
        Ok(Self::Weighted(pairs.into_iter().map(|(weight, name)| (weight, QueueName(Bytes::from(name)))).collect()))
    }

    fn csv(text: &str) -> Result<Self, QueueListError> {
        if text.chars().any(|c| c.is_control() || matches!(c, '[' | ']' | '{' | '}' | '"')) {
            return Err(QueueListError::Syntax);
        }
        let names = text.split(',').map(str::trim);
        if names.clone().any(str::is_empty) {
            return Err(QueueListError::EmptyName);
        }
        Ok(Self::Named(names.map(|name| QueueName::copy_from(name.as_bytes())).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_all_three_forms() {
        let pairs = QueueList::Weighted(vec![(10, "default".into()), (20, "email".into())]);
        let text = "[[10, \"default\"], [20, \"email\"]]";
        assert_eq!(QueueList::parse(text.as_bytes()), Ok(pairs.clone()));
        assert_eq!(pairs.to_frame(), text);
        assert_eq!(QueueList::parse(b""), Ok(QueueList::Configured));
        assert_eq!(QueueList::parse(b"[]"), Ok(QueueList::Configured));
        assert_eq!(QueueList::parse(b"a, b"), Ok(QueueList::Named(vec!["a".into(), "b".into()])));
    }

    #[test]
    fn refuses_anything_else() {
        for (text, error) in [
            (&b"[[10, \"a\"]"[..], QueueListError::Syntax),
            (b"{\"a\": 1}", QueueListError::Syntax),
            (b"\xff\xfe", QueueListError::Syntax),
            (b"[10, \"a\"]", QueueListError::Shape),
            (b"[[\"a\", 10]]", QueueListError::Shape),
            (b"[[1.5, \"a\"]]", QueueListError::Shape),
            (b"[[1, \"\"]]", QueueListError::EmptyName),
            (b"a,,b", QueueListError::EmptyName),
        ] {
            assert_eq!(QueueList::parse(text), Err(error), "{}", text.escape_ascii());
        }
        let many = vec!["q"; MAX_QUEUES + 1].join(",");
        assert_eq!(QueueList::parse(many.as_bytes()), Err(QueueListError::TooMany(MAX_QUEUES + 1)));
        assert!(QueueList::parse("[".repeat(100_000).as_bytes()).is_err());
    }
}
