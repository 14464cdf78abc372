//! eMQP frames as the simulated peers and the model read and write them: written from the specification, not shared
//! with the code under test.

use zmtp::Message;

/// A message as a DEALER sends it: delimiter, protocol, command, msgid, body.
pub fn message(command: &str, msgid: &str, body: &[&[u8]]) -> Message {
    let head: [&[u8]; 4] = [b"", b"eMQP/1.0", command.as_bytes(), msgid.as_bytes()];
    Message::from_frames(head.iter().chain(body))
}

/// A message taken apart.
#[derive(Debug, Clone)]
pub struct Parsed<'a> {
    pub command: &'a [u8],
    pub msgid: &'a [u8],
    pub body: Vec<&'a [u8]>,
}

impl<'a> Parsed<'a> {
    pub fn of(message: &'a Message) -> Option<Self> {
        let mut frames = message.frames();
        let (delimiter, protocol) = (frames.next()?, frames.next()?);
        if !delimiter.is_empty() || protocol != b"eMQP/1.0" {
            return None;
        }
        let (command, msgid) = (frames.next()?, frames.next()?);
        if msgid.is_empty() || msgid.len() > 255 {
            return None;
        }
        Some(Self { command, msgid, body: frames.collect() })
    }

    /// Body frame `index` as text; empty when it is missing or not text.
    pub fn text(&self, index: usize) -> &'a str {
        self.body.get(index).and_then(|frame| std::str::from_utf8(frame).ok()).unwrap_or("")
    }
}

/// What a REQUEST's headers frame asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    pub reply: bool,
    pub guarantee: bool,
    pub retries: u32,
    pub timeout: Option<u64>,
    /// `retry-count` is there, be it 0.
    pub mentions_retries: bool,
}

impl Asked {
    /// `None` when a number is malformed.
    pub fn of(headers: &str) -> Option<Self> {
        let mut asked = Self::default();
        for header in headers.split(',') {
            match header.split_once(':') {
                Some(("retry-count", n)) => (asked.retries, asked.mentions_retries) = (n.parse().ok()?, true),
                Some(("timeout", n)) => asked.timeout = Some(n.parse().ok()?),
                _ if header == "reply-requested" => asked.reply = true,
                _ if header == "guarantee" => asked.guarantee = true,
                _ => {}
            }
        }
        Some(asked)
    }
}

/// Results that workers report.
pub mod result {
    pub const FINE: &str = r#"{"value": 42}"#;
    /// How Python reports an exception: it looks like any other value.
    pub const PYTHON_BOOM: &str = r#"{"value": "math domain error"}"#;
    pub const BOOM: &str =
        r#"{"value": "boom", "error": {"type": "ValueError", "message": "boom", "traceback": "line 1"}}"#;
    pub const TIMEOUT: &str = r#"{"value": "TimeoutError"}"#;

    /// Whether this result says that the job failed.
    pub fn is_failure(result: &[u8]) -> bool {
        result == BOOM.as_bytes() || result == TIMEOUT.as_bytes()
    }
}
