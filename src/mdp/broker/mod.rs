//! [`Broker`]: an MDP broker as a running service; the thin shell around the [`Core`](super::core::Core).

mod bridge;
mod builder;
mod hub;

use std::future::Future;

use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use zmtp::{BindError, ConnectError, Endpoint, RoutingIdError};

pub use builder::BrokerBuilder;

use self::hub::Hub;
use super::core::{BrokerConfig, Counters, ServiceView};

/// Why a broker could not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// There is no address to listen on.
    #[error("no endpoint to listen on: bind one, for example tcp://127.0.0.1:5555")]
    NoEndpoint,
    /// The bridge's eMQP broker has an address that cannot be connected to.
    #[error("the bridge's eMQP broker: {0}")]
    Bridge(#[from] ConnectError),
    /// A routing id for the bridge could not be made.
    #[error("the bridge's routing id: {0}")]
    RoutingId(#[from] RoutingIdError),
}

/// What a running broker is told or asked from outside.
#[derive(Debug)]
enum Control {
    Shutdown,
    Purge,
    Reconfigure(Box<BrokerConfig>),
    Status(oneshot::Sender<Status>),
}

/// How a running broker is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// What happened so far.
    pub counters: Counters,
    /// The services that have workers or waiting requests, by name.
    pub services: Vec<ServiceView>,
}

/// An MDP broker that listens, and runs once [`run`](Self::run) is awaited.
///
/// Clients and workers of MDP/0.1 and MDP/0.2 connect to any of its endpoints. Best on a current-thread runtime: its one
/// hub and its links wake each other often.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use eventmq::mdp::{Broker, Client, Worker};
///
/// let broker = Broker::builder().bind("tcp://127.0.0.1:0".parse()?).start().await?;
/// let endpoint = broker.endpoints()[0].clone();
/// let handle = broker.handle();
/// let running = tokio::spawn(broker.run());
///
/// let mut worker = Worker::connect(&endpoint, "echo")?;
/// tokio::spawn(async move {
///     while let Some(request) = worker.recv().await {
///         let body = request.body().clone();
///         request.reply(body).await?;
///     }
///     Ok::<_, eventmq::mdp::ReplyError>(())
/// });
///
/// let mut client = Client::connect(&endpoint)?;
/// let reply = client.request("echo", "hello").await?;
/// assert_eq!(reply.frame(0), Some(&b"hello"[..]));
///
/// handle.shutdown();
/// let counters = running.await?;
/// assert_eq!(counters.replies, 1);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Broker {
    hub: Hub,
    endpoints: Vec<Endpoint>,
    control: mpsc::UnboundedReceiver<Control>,
    handle: BrokerHandle,
}

/// Tells a running [`Broker`] what to do; cheap to clone.
#[derive(Debug, Clone)]
pub struct BrokerHandle(mpsc::UnboundedSender<Control>);

impl BrokerHandle {
    /// Ends the broker: it takes no more requests, those in hand get the shutdown grace, workers are sent away, then
    /// [`Broker::run`] returns.
    pub fn shutdown(&self) {
        // An error says that it has ended.
        let _ = self.0.send(Control::Shutdown);
    }

    /// Forgets workers that are overdue now; timers do so anyway.
    pub fn purge(&self) {
        let _ = self.0.send(Control::Purge);
    }

    /// Changes the settings: they count from now on, for workers that are there as well.
    pub fn reconfigure(&self, config: BrokerConfig) {
        let _ = self.0.send(Control::Reconfigure(Box::new(config)));
    }

    /// How the broker is; `None` once it has ended.
    pub async fn status(&self) -> Option<Status> {
        let (sender, status) = oneshot::channel();
        self.0.send(Control::Status(sender)).ok()?;
        status.await.ok()
    }
}

impl Broker {
    /// Settings of a new broker.
    pub fn builder() -> BrokerBuilder {
        BrokerBuilder::default()
    }

    /// The actual addresses listened on, in the order they were given.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Something to end, change or ask the broker with while it runs.
    pub fn handle(&self) -> BrokerHandle {
        self.handle.clone()
    }

    /// Runs until a [handle](Self::handle) shuts it down; returns what happened meanwhile.
    pub async fn run(self) -> Counters {
        // Our own sender is kept until the end, so that the receiver never reports its closing.
        let Self { hub, control, handle, .. } = self;
        let counters = hub.run(control).await;
        drop(handle);
        counters
    }

    /// As [`run`](Self::run), and shuts down by itself once `signal` is ready.
    pub async fn run_until(self, signal: impl Future<Output = ()>) -> Counters {
        let handle = self.handle();
        let mut running = std::pin::pin!(self.run());
        tokio::select! {
            counters = &mut running => return counters,
            () = signal => handle.shutdown(),
        }
        running.await
    }
}
