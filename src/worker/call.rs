//! [`Call`]: a job as a handler sees it, and [`HandlerError`]: why one failed.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::job::Job;
use crate::emqp::{MsgId, QueueName};

/// What a job asks for: a name and its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The job's message id.
    pub msgid: MsgId,
    /// The queue it was sent to.
    pub queue: QueueName,
    /// Its module: `images`, or `images:Resizer` for a method.
    pub path: String,
    /// Its function.
    pub callable: String,
    /// Its arguments.
    pub args: Vec<Value>,
    /// Its named arguments.
    pub kwargs: Map<String, Value>,
    /// For a method, the arguments its object is made with.
    pub class_args: Vec<Value>,
    /// For a method, the named arguments its object is made with.
    pub class_kwargs: Map<String, Value>,
}

/// The message frame's second element.
#[derive(Deserialize)]
struct Named {
    path: String,
    callable: String,
    #[serde(default)]
    args: Vec<Value>,
    #[serde(default)]
    kwargs: Map<String, Value>,
    #[serde(default)]
    class_args: Vec<Value>,
    #[serde(default)]
    class_kwargs: Map<String, Value>,
}

impl Call {
    /// Reads a job's message.
    pub(super) fn read(job: &Job) -> Result<Self, serde_json::Error> {
        let (subcommand, named): (String, Named) = serde_json::from_slice(&job.payload)?;
        if subcommand != "run" {
            return Err(serde::de::Error::custom("there is no such subcommand, only run"));
        }
        let Named { path, callable, args, kwargs, class_args, class_kwargs } = named;
        let (msgid, queue) = (job.msgid.clone(), QueueName(job.queue.clone()));
        Ok(Self { msgid, queue, path, callable, args, kwargs, class_args, class_kwargs })
    }

    /// The name a handler goes by: path and callable, joined by a dot.
    pub fn name(&self) -> String {
        format!("{}.{}", self.path, self.callable)
    }

    /// An argument by its place, or by its name if there are not as many.
    ///
    /// # Errors
    /// It is missing, or of another type.
    pub fn arg<T: DeserializeOwned>(&self, place: usize, name: &str) -> Result<T, HandlerError> {
        let value = self.args.get(place).or_else(|| self.kwargs.get(name)).unwrap_or(&Value::Null);
        T::deserialize(value)
            .map_err(|error| HandlerError::new("TypeError", format!("argument {name} (number {}): {error}", place + 1)))
    }
}

/// Why a handler failed. Every error converts into it, so `?` works in handlers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerError {
    pub(super) kind: String,
    pub(super) message: String,
}

impl HandlerError {
    /// An error with a type, such as `"ValueError"`, for programs, and a message for people.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into() }
    }
}

// Not an `Error` itself: then it could not be made from all of them.
impl<E: std::error::Error> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let name = std::any::type_name::<E>();
        let kind = name.split('<').next().unwrap_or(name).rsplit("::").next().unwrap_or(name);
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Self::new(kind, message)
    }
}

/// What a handler returns.
pub type HandlerResult<T> = Result<T, HandlerError>;
