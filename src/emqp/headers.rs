//! Headers of a REQUEST or SCHEDULE: `name` or `name:number`, separated by commas.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

const REPLY_REQUESTED: &[u8] = b"reply-requested";

/// A headers frame, unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers<'a>(pub &'a [u8]);

/// One header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Header<'a> {
    /// The sender wants the result.
    ReplyRequested,
    /// The job must be run again if its worker is lost.
    Guarantee,
    /// How often the job is tried again after it failed.
    RetryCount(u32),
    /// How long the job may run, in seconds.
    Timeout(u64),
    /// A schedule must not run at once on arrival.
    NoHaste,
    /// How often a schedule runs in all.
    RunCount(i64),
    /// Anything else: forwarded as it is.
    Other(&'a [u8]),
}

/// The headers that carry a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderName {
    /// `retry-count`
    RetryCount,
    /// `timeout`
    Timeout,
    /// `run_count`
    RunCount,
}

/// A header whose number is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("header {0} needs a whole number")]
pub struct HeaderError(pub HeaderName);

/// What headers say, at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobHeaders {
    /// `reply-requested`
    pub reply_requested: bool,
    /// `guarantee`
    pub guarantee: bool,
    /// `nohaste`
    pub nohaste: bool,
    /// `retry-count:N`
    pub retry_count: Option<u32>,
    /// `timeout:N`, in seconds
    pub timeout: Option<u64>,
    /// `run_count:N`
    pub run_count: Option<i64>,
}

impl<'a> Headers<'a> {
    /// The headers one by one, empty ones skipped.
    pub fn iter(self) -> impl Iterator<Item = Result<Header<'a>, HeaderError>> {
        self.0.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|text| !text.is_empty()).map(Header::parse)
    }

    /// All of them; the last of a kind counts.
    pub fn read(self) -> Result<JobHeaders, HeaderError> {
        let mut read = JobHeaders::default();
        for header in self.iter() {
            match header? {
                Header::ReplyRequested => read.reply_requested = true,
                Header::Guarantee => read.guarantee = true,
                Header::NoHaste => read.nohaste = true,
                Header::RetryCount(n) => read.retry_count = Some(n),
                Header::Timeout(n) => read.timeout = Some(n),
                Header::RunCount(n) => read.run_count = Some(n),
                Header::Other(_) => {}
            }
        }
        Ok(read)
    }

    /// The frame with `reply-requested` appended.
    pub fn with_reply_requested(self) -> Cow<'static, [u8]> {
        if self.0.trim_ascii().is_empty() {
            return Cow::Borrowed(REPLY_REQUESTED);
        }
        Cow::Owned([self.0, b",", REPLY_REQUESTED].concat())
    }
}

impl<'a> Header<'a> {
    fn parse(text: &'a [u8]) -> Result<Self, HeaderError> {
        match text {
            REPLY_REQUESTED => return Ok(Self::ReplyRequested),
            b"guarantee" => return Ok(Self::Guarantee),
            b"nohaste" => return Ok(Self::NoHaste),
            _ => {}
        }
        let Some(colon) = text.iter().position(|byte| *byte == b':') else { return Ok(Self::Other(text)) };
        let value = &text[colon + 1..];
        Ok(match text[..colon].trim_ascii_end() {
            b"retry-count" => {
                Self::RetryCount(u32::try_from(number::<u64>(HeaderName::RetryCount, value)?).unwrap_or(u32::MAX))
            }
            b"timeout" => Self::Timeout(number(HeaderName::Timeout, value)?),
            b"run_count" => Self::RunCount(number(HeaderName::RunCount, value)?),
            _ => Self::Other(text),
        })
    }
}

fn number<T: FromStr>(name: HeaderName, text: &[u8]) -> Result<T, HeaderError> {
    std::str::from_utf8(text.trim_ascii()).ok().and_then(|text| text.parse().ok()).ok_or(HeaderError(name))
}

impl fmt::Display for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RetryCount => "retry-count",
            Self::Timeout => "timeout",
            Self::RunCount => "run_count",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_header() {
        let text = b"reply-requested, guarantee,retry-count:3,timeout: 25 ,nohaste,run_count:-1,x-trace:9,,flag";
        let read = Headers(text).read().unwrap();
        let all = JobHeaders {
            reply_requested: true,
            guarantee: true,
            nohaste: true,
            retry_count: Some(3),
            timeout: Some(25),
            run_count: Some(-1),
        };
        assert_eq!(read, all);
        let others: Vec<_> = Headers(text).iter().filter(|h| matches!(h, Ok(Header::Other(_)))).collect();
        assert_eq!(others, [Ok(Header::Other(b"x-trace:9")), Ok(Header::Other(b"flag"))]);
        assert_eq!(Headers(b"").read(), Ok(JobHeaders::default()));
    }

    #[test]
    fn a_malformed_number_is_an_error_of_that_header() {
        for (text, name) in [
            ("timeout:abc", HeaderName::Timeout),
            ("timeout:", HeaderName::Timeout),
            ("timeout:-1", HeaderName::Timeout),
            ("guarantee,retry-count:1.5", HeaderName::RetryCount),
            ("run_count:1e3", HeaderName::RunCount),
        ] {
            assert_eq!(Headers(text.as_bytes()).read(), Err(HeaderError(name)), "{text}");
        }
        assert_eq!(Headers(b"retry-count:99999999999").read().unwrap().retry_count, Some(u32::MAX));
    }

    #[test]
    fn asks_for_a_reply_without_losing_the_others() {
        assert_eq!(&Headers(b"").with_reply_requested()[..], b"reply-requested");
        assert_eq!(&Headers(b"guarantee,x:1").with_reply_requested()[..], b"guarantee,x:1,reply-requested");
    }
}
