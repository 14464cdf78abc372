//! The result frame of a job, read.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{CallError, Failure};

/// What Python puts where a value goes when a job ran out of time.
const PYTHON_TIMEOUT: &str = "TimeoutError";

/// A result frame: an object, of which two keys matter.
type Frame = Map<String, Value>;

/// The value in a result frame, or why there is none.
pub(super) fn read(raw: &Bytes) -> Result<Value, CallError> {
    let mut frame: Frame =
        serde_json::from_slice(raw).map_err(|source| CallError::Result { source, raw: raw.clone() })?;
    let mut take = |key| frame.remove(key).unwrap_or_default();
    match (failure(take("error")), take("value")) {
        (Some(failure), _) => Err(CallError::Failed(failure)),
        (None, Value::String(text)) if text == PYTHON_TIMEOUT => Err(CallError::Failed(Failure {
            kind: text,
            message: "the job did not end within its timeout".to_owned(),
            traceback: None,
        })),
        (None, value) => Ok(value),
    }
}

/// The error in a result frame, if it has one.
pub(super) fn failure_in(raw: &[u8]) -> Option<Failure> {
    failure(serde_json::from_slice::<Frame>(raw).ok()?.remove("error")?)
}

/// What an `error` says; one that is no object is a message.
fn failure(error: Value) -> Option<Failure> {
    match error {
        Value::Null => None,
        Value::String(message) => Some(Failure { kind: Failure::unnamed(), message, traceback: None }),
        error => {
            let text = error.to_string();
            let unknown = |_| Failure { kind: Failure::unnamed(), message: text, traceback: None };
            Some(serde_json::from_value(error).unwrap_or_else(unknown))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::emqp::{JobError, JobErrorKind};

    fn read_text(text: &'static str) -> Result<Value, CallError> {
        read(&Bytes::from_static(text.as_bytes()))
    }

    fn failure_of(text: &'static str) -> Failure {
        match read_text(text) {
            Err(CallError::Failed(failure)) => failure,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn values() {
        assert_eq!(read_text(r#"{"value": [1, null]}"#).unwrap(), json!([1, null]));
        assert_eq!(read_text(r#"{"value": {"error": 1}, "error": null}"#).unwrap(), json!({"error": 1}));
        assert_eq!(read_text("{}").unwrap(), Value::Null);
    }

    #[test]
    fn failures() {
        let full = r#"{"value": "no", "error": {"type": "ValueError", "message": "no", "traceback": "File"}}"#;
        let expected =
            Failure { kind: "ValueError".to_owned(), message: "no".to_owned(), traceback: Some("File".to_owned()) };
        assert_eq!(failure_of(full), expected);
        assert_eq!(failure_of(r#"{"error": "no"}"#).to_string(), "Error: no");
        assert_eq!(failure_of(r#"{"error": 7}"#).to_string(), "Error: 7");
        assert_eq!(failure_of(r#"{"error": {"type": 7}}"#).to_string(), r#"Error: {"type":7}"#);
        assert_eq!(failure_of(r#"{"value": "TimeoutError"}"#).kind, "TimeoutError");
    }

    #[test]
    fn a_brokers_own_errors_have_their_kind() {
        let result = JobError::from(JobErrorKind::QueueFull).to_result();
        assert_eq!(failure_in(&result).and_then(|failure| failure.broker_kind()), Some(JobErrorKind::QueueFull));
        assert_eq!(failure_of(r#"{"error": {"type": "ValueError"}}"#).broker_kind(), None);
    }

    #[test]
    fn what_is_no_result_is_an_error() {
        for text in ["", "[1]", "{\"value\": NaN}", "7"] {
            assert!(matches!(read_text(text), Err(CallError::Result { .. })), "{text}");
        }
    }
}
