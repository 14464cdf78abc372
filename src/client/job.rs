//! [`Job`]: a call that a worker is to make, with the conditions it is made under.

use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

use super::SubmitError;
use crate::emqp::MsgId;

/// The queue of a job that names none, as in Python.
const DEFAULT_QUEUE: &str = "default";

/// A call to be made by a worker: of a Python callable, or of a native worker's handler.
///
/// A builder. An argument that cannot be JSON is reported when the job is submitted.
///
/// ```
/// use std::time::Duration;
/// use eventmq::client::Job;
///
/// let mail = Job::new("shop.mail", "send_receipt")
///     .arg(4711)
///     .kwarg("language", "en")
///     .queue("email")
///     .guarantee()
///     .retry_count(3)
///     .timeout(Duration::from_secs(30));
/// # let _ = mail;
/// ```
#[derive(Debug, Clone)]
#[must_use = "a job does nothing until it is submitted"]
pub struct Job {
    call: Call,
    queue: String,
    delivery: Delivery,
    timeout: Option<u64>,
    id: Option<MsgId>,
    deadline: Option<Duration>,
    fault: Option<ArgumentFault>,
}

/// The second element of a job's message.
#[derive(Debug, Clone, Serialize)]
struct Call {
    callable: String,
    path: String,
    args: Vec<Value>,
    kwargs: Map<String, Value>,
    class_args: Vec<Value>,
    class_kwargs: Map<String, Value>,
}

/// How often a job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Delivery {
    guaranteed: bool,
    retries: u32,
}

/// An argument that cannot be written as JSON. Kept as text, so that a job can be cloned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what} cannot be written as JSON: {why}")]
pub struct ArgumentFault {
    what: String,
    why: String,
}

/// A text that names no callable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} names no callable: expected package.module.callable or package.module:Class.method")]
pub struct CallableNameError(String);

impl Job {
    /// Calls `callable` of the module `path`, such as `"package.module"`.
    pub fn new(path: impl Into<String>, callable: impl Into<String>) -> Self {
        let call = Call {
            callable: callable.into(),
            path: path.into(),
            args: Vec::new(),
            kwargs: Map::new(),
            class_args: Vec::new(),
            class_kwargs: Map::new(),
        };
        Self {
            call,
            queue: DEFAULT_QUEUE.to_owned(),
            delivery: Delivery::default(),
            timeout: None,
            id: None,
            deadline: None,
            fault: None,
        }
    }

    /// Calls a method: the worker makes an object of the class, from [`class_arg`](Self::class_arg) and
    /// [`class_kwarg`](Self::class_kwarg), and calls its method.
    pub fn method(path: &str, class: &str, method: impl Into<String>) -> Self {
        Self::new(format!("{path}:{class}"), method)
    }

    /// One more positional argument.
    pub fn arg(mut self, value: impl Serialize) -> Self {
        let what = format_args!("argument {}", self.call.args.len() + 1).to_string();
        if let Some(value) = self.json(what, value) {
            self.call.args.push(value);
        }
        self
    }

    /// More positional arguments.
    pub fn args(self, values: impl IntoIterator<Item = impl Serialize>) -> Self {
        values.into_iter().fold(self, Self::arg)
    }

    /// A named argument.
    pub fn kwarg(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let name = name.into();
        if let Some(value) = self.json(format!("argument {name}"), value) {
            self.call.kwargs.insert(name, value);
        }
        self
    }

    /// One more positional argument for the class of a [`method`](Self::method).
    pub fn class_arg(mut self, value: impl Serialize) -> Self {
        let what = format!("class argument {}", self.call.class_args.len() + 1);
        if let Some(value) = self.json(what, value) {
            self.call.class_args.push(value);
        }
        self
    }

    /// A named argument for the class of a [`method`](Self::method).
    pub fn class_kwarg(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let name = name.into();
        if let Some(value) = self.json(format!("class argument {name}"), value) {
            self.call.class_kwargs.insert(name, value);
        }
        self
    }

    /// The queue, instead of `default`.
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queue = name.into();
        self
    }

    /// Runs it again if its worker is lost, and sends it again if the connection is: at least once instead of at most
    /// once.
    pub fn guarantee(mut self) -> Self {
        self.delivery.guaranteed = true;
        self
    }

    /// How often it is tried again after it failed.
    pub fn retry_count(mut self, retries: u32) -> Self {
        self.delivery.retries = retries;
        self
    }

    /// How long it may run once it has begun. Sent in whole seconds, rounded up; at least one.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(whole_seconds(limit));
        self
    }

    /// How long to wait for its answer, counted from the submission. The job itself is not stopped by it.
    ///
    /// Without it, acceptance is awaited for the client's acceptance timeout, and a result for as long as it takes.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    /// Its message id, instead of a new one. A broker that still holds a job of this id takes it for the same job.
    pub fn id(mut self, id: MsgId) -> Self {
        self.id = Some(id);
        self
    }

    /// The queue it goes to.
    pub fn queue_name(&self) -> &str {
        &self.queue
    }

    /// The message id given by [`id`](Self::id).
    pub fn given_id(&self) -> Option<&MsgId> {
        self.id.as_ref()
    }

    pub(super) fn own_deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Whether it may be sent again when nobody knows whether it arrived.
    pub(super) fn may_run_twice(&self) -> bool {
        self.delivery.guaranteed
    }

    /// The headers frame, with `more` behind the job's own.
    pub(super) fn headers<'a>(&self, more: impl IntoIterator<Item = &'a str>) -> String {
        let mut headers: Vec<String> = more.into_iter().map(str::to_owned).collect();
        if self.delivery.guaranteed {
            headers.push("guarantee".to_owned());
        }
        if self.delivery.retries > 0 {
            headers.push(format!("retry-count:{}", self.delivery.retries));
        }
        if let Some(seconds) = self.timeout {
            headers.push(format!("timeout:{seconds}"));
        }
        headers.join(",")
    }

    /// The message frame.
    pub(super) fn payload(&self) -> Result<Vec<u8>, SubmitError> {
        if let Some(fault) = &self.fault {
            return Err(SubmitError::Argument(fault.clone()));
        }
        let unwritable = |error: serde_json::Error| {
            SubmitError::Argument(ArgumentFault { what: "the call".to_owned(), why: error.to_string() })
        };
        serde_json::to_vec(&("run", &self.call)).map_err(unwritable)
    }

    /// A value as JSON; the first that cannot be is remembered.
    fn json(&mut self, what: String, value: impl Serialize) -> Option<Value> {
        match serde_json::to_value(value) {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault.get_or_insert(ArgumentFault { what, why: error.to_string() });
                None
            }
        }
    }
}

impl FromStr for Job {
    type Err = CallableNameError;

    /// `package.module.callable`, or `package.module:Class.method`: what follows the last dot is called.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || c == ':');
        let fine = |dotted: &str| dotted.split('.').all(word);
        let error = || CallableNameError(text.to_owned());
        let (path, callable) = text.rsplit_once('.').ok_or_else(error)?;
        let path_is_fine = match path.split_once(':') {
            Some((module, class)) => fine(module) && fine(class),
            None => fine(path),
        };
        if !path_is_fine || !word(callable) {
            return Err(error());
        }
        Ok(Self::new(path, callable))
    }
}

/// At least one, and rounded up: a shorter time than asked for would be the wrong direction.
fn whole_seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn payload(job: &Job) -> String {
        String::from_utf8(job.payload().unwrap()).unwrap()
    }

    #[test]
    fn a_call_is_written_as_workers_expect_it() {
        let job = Job::method("shop.mail", "Sender", "send").args([1, 2]).arg("x").kwarg("to", "a@b").class_arg(true);
        let expected = r#"["run",{"callable":"send","path":"shop.mail:Sender","args":[1,2,"x"],"kwargs":{"to":"a@b"},"class_args":[true],"class_kwargs":{}}]"#;
        assert_eq!(payload(&job), expected);
        assert_eq!(job.headers([]), "");
    }

    #[test]
    fn headers_are_those_asked_for() {
        let job = Job::new("m", "f").guarantee().retry_count(3).timeout(Duration::from_millis(1500));
        assert_eq!(job.headers(["reply-requested"]), "reply-requested,guarantee,retry-count:3,timeout:2");
        let read = crate::emqp::Headers(job.headers([]).as_bytes()).read().unwrap();
        assert!(read.guarantee && !read.reply_requested);
        assert_eq!((read.retry_count, read.timeout), (Some(3), Some(2)));
        assert_eq!(Job::new("m", "f").timeout(Duration::ZERO).headers([]), "timeout:1");
    }

    #[test]
    fn an_argument_that_is_no_json_is_named() {
        let job =
            Job::new("m", "f").arg(1).arg(BTreeMap::from([((1, 2), 3)])).kwarg("late", BTreeMap::from([([1], 1)]));
        let SubmitError::Argument(fault) = job.payload().unwrap_err() else { panic!("another error") };
        assert_eq!(fault.to_string(), "argument 2 cannot be written as JSON: key must be a string");
    }

    #[test]
    fn names_of_callables() {
        for (text, path, callable) in [
            ("jobs.mark", "jobs", "mark"),
            ("a.b.c", "a.b", "c"),
            ("a.b:Class.method", "a.b:Class", "method"),
            ("a:Outer.Inner.method", "a:Outer.Inner", "method"),
        ] {
            let job: Job = text.parse().unwrap();
            assert_eq!((job.call.path.as_str(), job.call.callable.as_str()), (path, callable), "{text}");
        }
        for text in ["", "mark", ".mark", "jobs.", "a..b", "a:B", "a.b:", "a:.b", ":B.c", "a b.c", "a.b:C:d.e", "a.b:c"]
        {
            assert!(text.parse::<Job>().is_err(), "{text}");
        }
    }
}
