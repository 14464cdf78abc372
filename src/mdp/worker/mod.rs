//! [`Worker`]: serves one service of an MDP broker.

mod driver;
mod request;
mod session;

use std::fmt::Display;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zmtp::{ConnectError, Endpoint, Message, Security};

pub use request::{ReplyError, Request};

use self::driver::{Driver, Link};
use self::request::Mail;
use self::session::{Event, Session, SessionConfig};
use super::wire::{ServiceName, ServiceNameError, Version};

/// Why a worker could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The service's name cannot be one.
    #[error(transparent)]
    Service(#[from] ServiceNameError),
    /// The broker's address can never be connected to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// Settings of a worker to be, by [`Worker::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct WorkerBuilder {
    broker: Endpoint,
    version: Version,
    heartbeat: Duration,
    liveness: u32,
    reconnect: Duration,
    security: Security,
}

impl WorkerBuilder {
    /// The protocol's version. Default: MDP/0.1, which every broker speaks; MDP/0.2 allows partial replies.
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// Pause between our HEARTBEATs; the broker's must be set alike, or nearly so. Default 2.5 s.
    pub fn heartbeat(mut self, interval: Duration) -> Self {
        self.heartbeat = interval;
        self
    }

    /// Silent intervals after which the broker counts as dead: 3 to 5 are reasonable. Default 3.
    pub fn liveness(mut self, intervals: u32) -> Self {
        self.liveness = intervals;
        self
    }

    /// Pause before a broker that counts as dead is tried again. Default 2.5 s.
    pub fn reconnect(mut self, pause: Duration) -> Self {
        self.reconnect = pause;
        self
    }

    /// The security mechanism and our part in it. Default: NULL, no security at all.
    pub fn security(mut self, security: Security) -> Self {
        self.security = security;
        self
    }

    /// Registers for a service, now and whenever that becomes necessary. Needs a tokio runtime.
    ///
    /// # Errors
    /// The service's name is empty or too long, or the broker's address can never be connected to. A broker that is not
    /// there is waited for.
    pub fn connect<S>(self, service: S) -> Result<Worker, WorkerError>
    where
        S: TryInto<ServiceName>,
        WorkerError: From<S::Error>,
    {
        let service: ServiceName = service.try_into()?;
        let Self { broker, version, heartbeat, liveness, reconnect, security } = self;
        let config = SessionConfig { service: service.clone(), version, heartbeat, liveness, reconnect };
        let mut actions = Vec::new();
        let session = Session::start(config, Instant::now(), &mut actions);
        let link = Link::new(broker, security);
        let (driver, requests, mail) = Driver::new(session, link, version, actions)?;
        let task = tokio::spawn(driver.run());
        Ok(Worker { service, requests, mail, task: Some(task) })
    }
}

impl From<std::convert::Infallible> for WorkerError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// A worker: takes one request after another for its service.
///
/// A task of its own keeps the connection: heartbeats go on while a request is worked on, and whenever the broker is lost,
/// restarted, or asks for it, the worker registers anew. Work that blocks the thread stops that on a current-thread
/// runtime: use [`spawn_blocking`](tokio::task::spawn_blocking) for it.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use eventmq::mdp::Worker;
///
/// let mut worker = Worker::connect(&"tcp://127.0.0.1:5555".parse()?, "upper")?;
/// worker
///     .serve(async |body| {
///         let text = std::str::from_utf8(body.frame(0).unwrap_or_default())?;
///         Ok::<_, std::str::Utf8Error>(text.to_uppercase())
///     })
///     .await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Worker {
    service: ServiceName,
    requests: mpsc::Receiver<Request>,
    mail: Mail,
    task: Option<JoinHandle<()>>,
}

/// Changes or ends a [`Worker`] from elsewhere; cheap to clone.
#[derive(Debug, Clone)]
pub struct WorkerHandle(Mail);

impl WorkerHandle {
    /// Another pause between heartbeats, in force from the next one on.
    pub fn set_heartbeat(&self, interval: Duration) {
        self.0.tell(Event::Heartbeat(interval));
    }

    /// Another pause before a dead broker is tried again.
    pub fn set_reconnect(&self, pause: Duration) {
        self.0.tell(Event::Reconnect(pause));
    }

    /// Ends the worker: it finishes the request it has, takes no other, and says DISCONNECT. Then
    /// [`recv`](Worker::recv) returns `None`.
    pub fn close(&self) {
        self.0.tell(Event::Close);
    }
}

impl Worker {
    /// Settings of a worker of that broker.
    pub fn builder(broker: Endpoint) -> WorkerBuilder {
        let pause = Duration::from_millis(2500);
        let (version, security) = (Version::default(), Security::null());
        WorkerBuilder { broker, version, heartbeat: pause, liveness: 3, reconnect: pause, security }
    }

    /// A worker of that broker with the usual settings.
    ///
    /// # Errors
    /// As [`WorkerBuilder::connect`].
    pub fn connect(broker: &Endpoint, service: &str) -> Result<Self, WorkerError> {
        Self::builder(broker.clone()).connect(service)
    }

    /// The service it serves.
    pub fn service(&self) -> &ServiceName {
        &self.service
    }

    /// Something to change or end it with from elsewhere.
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle(self.mail.clone())
    }

    /// The next request; `None` once the worker is closed. There is no further one before the
    /// [reply](Request::reply) to the last.
    ///
    /// Cancel-safe: no request is taken out before it is returned.
    pub async fn recv(&mut self) -> Option<Request> {
        self.requests.recv().await
    }

    /// Answers requests with what `handler` makes of their bodies, until the worker is closed.
    ///
    /// A request whose handler fails is given back: the broker gives it to another worker, a limited number of times. MDP
    /// has no error replies; one that callers are to see is a reply like any other.
    pub async fn serve<B, E>(&mut self, mut handler: impl AsyncFnMut(Message) -> Result<B, E>)
    where
        B: Into<Message>,
        E: Display,
    {
        while let Some(request) = self.recv().await {
            match handler(request.body().clone()).await {
                Ok(reply) => {
                    if let Err(error) = request.reply(reply).await {
                        tracing::warn!(service = %self.service, %error, "reply dropped");
                    }
                }
                Err(error) => tracing::warn!(service = %self.service, %error, "request given back"),
            }
        }
    }

    /// As [`WorkerHandle::close`], and waits until the broker was told.
    pub async fn close(mut self) {
        self.mail.tell(Event::Close);
        self.requests.close();
        if let Some(task) = self.task.take() {
            // It fails only by a panic, and then there is nothing to wait for.
            let _ = task.await;
        }
    }
}

impl Drop for Worker {
    /// Tells the broker in the background, once a request that is still held was answered.
    fn drop(&mut self) {
        self.mail.tell(Event::Close);
    }
}
