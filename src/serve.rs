//! [`Serve`]: broker, scheduler and publisher in one process.
//!
//! The scheduler is attached to the broker as any other would be, over inproc, but on standby: schedules go to it only
//! while no other scheduler is connected.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;
use tokio::task::JoinHandle;
use tracing::{error, warn};
use zmtp::{BindError, Endpoint, EndpointError};

use crate::emqp::{QueueList, STANDBY_SCHEDULER};
use crate::scheduler::ScheduleStore;
use crate::{broker, pubsub, scheduler};

/// Everything one process is to serve.
#[derive(Debug)]
pub struct ServeConf {
    /// The broker.
    pub broker: broker::ServerConf,
    /// The scheduler, if there is one; its session's address is found by itself.
    pub scheduler: Option<BuiltinScheduler>,
    /// The publisher, if there is one.
    pub publisher: Option<pubsub::DeviceConf>,
}

/// A scheduler inside of a broker's process.
#[derive(Debug)]
pub struct BuiltinScheduler {
    /// Its settings.
    pub conf: scheduler::ServerConf,
    /// Where its schedules are kept.
    pub store: Box<dyn ScheduleStore>,
    /// What becomes of the broker if it cannot start.
    pub need: Need,
}

/// How much a part is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Without it nothing starts.
    Required,
    /// Without it the rest does its work.
    Optional,
}

/// Why a process could not start serving, or ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The broker.
    #[error(transparent)]
    Broker(#[from] broker::ServerError),
    /// The scheduler.
    #[error("scheduler: {0}")]
    Scheduler(#[from] scheduler::ServerError),
    /// The publisher.
    #[error("publisher: {0}")]
    Publisher(#[from] pubsub::DeviceError),
    /// The way from the scheduler to the broker.
    #[error("scheduler: {0}")]
    Inproc(#[from] BindError),
    /// The name of that way.
    #[error("scheduler: {0}")]
    InprocName(#[from] EndpointError),
}

/// What is about to serve; [`run`](Self::run) makes it work.
#[derive(Debug)]
pub struct Serve {
    broker: broker::Server,
    scheduler: Option<scheduler::Server>,
    publisher: Option<pubsub::Device>,
}

impl Serve {
    /// Binds all sockets and loads the schedules; needs a tokio runtime.
    ///
    /// # Errors
    /// An address cannot be listened on, or a required scheduler cannot start.
    pub async fn bind(conf: ServeConf) -> Result<Self, ServeError> {
        let broker = broker::Server::bind(conf.broker).await?;
        let scheduler = match conf.scheduler {
            Some(builtin) => attach(&broker, builtin).await?,
            None => None,
        };
        let publisher = match conf.publisher {
            Some(conf) => Some(pubsub::Device::bind(&conf).await?),
            None => None,
        };
        Ok(Self { broker, scheduler, publisher })
    }

    /// The broker, for its addresses and its handle. Its end is the end of everything.
    pub fn broker(&self) -> &broker::Server {
        &self.broker
    }

    /// The scheduler, if there is one.
    pub fn scheduler(&self) -> Option<&scheduler::Server> {
        self.scheduler.as_ref()
    }

    /// The publisher, if there is one.
    pub fn publisher(&self) -> Option<&pubsub::Device> {
        self.publisher.as_ref()
    }

    /// Runs until the broker ends; scheduler and publisher end with it.
    ///
    /// # Errors
    /// The broker failed. A scheduler that fails is logged, and the broker works on without.
    pub async fn run(self) -> Result<(), ServeError> {
        let Self { broker, scheduler, publisher } = self;
        let scheduler = scheduler.map(|server| (server.handle(), begin("scheduler", server.run())));
        let publisher = publisher.map(|device| (device.handle(), begin("publisher", device.run())));
        let done = broker.run().await;
        if let Some((handle, running)) = scheduler {
            handle.shutdown();
            end(running).await;
        }
        if let Some((handle, running)) = publisher {
            handle.shutdown();
            end(running).await;
        }
        Ok(done?)
    }
}

/// Runs a part beside the broker.
fn begin<E: Display>(
    part: &'static str,
    running: impl Future<Output = Result<(), E>> + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Err(error) = running.await {
            error!("the {part} has ended, the broker works on without: {error}");
        }
    })
}

async fn end(running: JoinHandle<()>) {
    if let Err(error) = running.await {
        error!(%error, "a part of this process failed");
    }
}

/// Attaches a scheduler to a broker of this process.
async fn attach(broker: &broker::Server, builtin: BuiltinScheduler) -> Result<Option<scheduler::Server>, ServeError> {
    /// Brokers of this process so far: each has a name of its own.
    static COUNT: AtomicU64 = AtomicU64::new(0);

    let BuiltinScheduler { mut conf, store, need } = builtin;
    let name: Endpoint = format!("inproc://eventmq-scheduler-{}", COUNT.fetch_add(1, Ordering::Relaxed)).parse()?;
    conf.session.address = broker.also_serve(&name).await?;
    conf.session.failover.clear();
    conf.session.queues = QueueList::Named(vec![STANDBY_SCHEDULER.into()]);
    let place = store.place();
    match scheduler::Server::start(conf, store).await {
        Ok(server) => Ok(Some(server)),
        Err(error) if need == Need::Optional => {
            warn!(place, "no scheduler of our own, a SCHEDULE without another is refused: {error}");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
