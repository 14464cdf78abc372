//! [`Worker`]: runs async functions, by name.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use zmtp::Endpoint;

use super::call::{Call, HandlerError, HandlerResult};
use super::common::{Common, common_settings};
use super::events::{Input, Order, RunnerId};
use super::job::{Exit, Job, JobEnd};
use super::serve::{Executor, Serve, ServeHandle};

type Handling = Pin<Box<dyn Future<Output = JobEnd> + Send>>;
type Handler = Arc<dyn Fn(Call) -> Handling + Send + Sync>;

/// A worker that runs async functions for the jobs of a broker.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use eventmq::worker::{Call, HandlerResult, Worker};
///
/// async fn resize(call: Call) -> HandlerResult<String> {
///     let file: String = call.arg(0, "file")?;
///     let width: u32 = call.arg(1, "width")?;
///     Ok(format!("{file} at {width}"))
/// }
///
/// let worker = Worker::builder("tcp://127.0.0.1:47290".parse()?)
///     .queue(20, "images")
///     .concurrency(8)
///     .handler("images.resize", resize)
///     .build();
/// let handle = worker.handle();
/// let running = tokio::spawn(worker.run());
/// // until there is reason to stop:
/// handle.shutdown();
/// running.await?;
/// # Ok(()) }
/// ```
///
/// A handler that panics fails its job and nothing else. One that runs past the job's timeout is dropped at its next
/// `.await`; work that blocks belongs into `tokio::task::spawn_blocking`.
#[derive(Debug)]
pub struct Worker(Serve<Handlers>);

/// Ends a running [`Worker`] or [`ExecWorker`](super::ExecWorker); cheap to clone.
pub type WorkerHandle = ServeHandle<()>;

/// Settings of a new [`Worker`].
#[derive(Clone)]
pub struct WorkerBuilder {
    common: Common,
    handlers: HashMap<String, Handler>,
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.handlers.keys().collect();
        f.debug_struct("WorkerBuilder").field("common", &self.common).field("handlers", &names).finish()
    }
}

impl WorkerBuilder {
    common_settings!();

    /// Runs `handler` for jobs of this name: path and callable joined by a dot, such as `images.resize`. A second one of
    /// the same name replaces the first.
    pub fn handler<F, Fut, T, E>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize,
        E: Into<HandlerError>,
    {
        let boxed = move |call| -> Handling {
            let handling = handler(call);
            Box::pin(async move { end(handling.await.map_err(Into::into)) })
        };
        self.handlers.insert(name.into(), Arc::new(boxed));
        self
    }

    /// The worker. Running it needs a tokio runtime; this does not.
    pub fn build(self) -> Worker {
        let (reports, receiver) = mpsc::unbounded_channel();
        let handlers =
            Handlers { handlers: Arc::new(self.handlers), reports, running: HashMap::new(), tasks: JoinSet::new() };
        Worker(self.common.serve(handlers, receiver))
    }
}

impl Worker {
    /// Settings of a worker for the broker whose backend listens at `address`.
    pub fn builder(address: Endpoint) -> WorkerBuilder {
        WorkerBuilder { common: Common::new(address), handlers: HashMap::new() }
    }

    /// Something to end it with while it runs.
    pub fn handle(&self) -> WorkerHandle {
        self.0.handle()
    }

    /// Runs until it is shut down.
    pub async fn run(self) {
        self.0.run().await;
    }
}

/// The executor: a task for each job.
struct Handlers {
    handlers: Arc<HashMap<String, Handler>>,
    reports: mpsc::UnboundedSender<Input>,
    running: HashMap<RunnerId, AbortHandle>,
    tasks: JoinSet<()>,
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").field("running", &self.running.len()).finish_non_exhaustive()
    }
}

impl Handlers {
    fn run(&mut self, runner: RunnerId, job: Job) {
        while self.tasks.try_join_next().is_some() {}
        let handling = match Call::read(&job) {
            Ok(call) => match self.handlers.get(&call.name()) {
                Some(handler) => {
                    let handler = handler.clone();
                    // Made inside of the task: a handler may panic before it is a future.
                    tokio::spawn(async move { handler(call).await })
                }
                None => {
                    let message = format!("there is no handler for {}", call.name());
                    tokio::spawn(async move { JobEnd::failure("UnknownCallable", &message) })
                }
            },
            Err(error) => {
                let message = format!("the message cannot be read: {error}");
                tokio::spawn(async move { JobEnd::failure("Malformed", &message) })
            }
        };
        self.running.insert(runner, handling.abort_handle());
        let reports = self.reports.clone();
        self.tasks.spawn(async move {
            let input = match handling.await {
                Ok(end) => Input::Done { runner, end },
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => Input::Done { runner, end: JobEnd::failure("Panic", &panic_text(&*panic)) },
                    Err(_) => Input::Gone { runner, exit: Exit::Failed("its handler was dropped".to_owned()) },
                },
            };
            let _ = reports.send(input);
        });
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the handler panicked: {}", text.unwrap_or("(not a text)"))
}

/// The end of a job whose handler returned. A value that cannot be written, and even one that panics while it is, is a
/// failure.
fn end<T: Serialize>(returned: HandlerResult<T>) -> JobEnd {
    #[derive(Serialize)]
    struct Success<T> {
        value: T,
    }
    match returned {
        Err(error) => JobEnd::failure(&error.kind, &error.message),
        Ok(value) => match std::panic::catch_unwind(AssertUnwindSafe(|| serde_json::to_vec(&Success { value }))) {
            Ok(Ok(result)) => JobEnd::success(result.into()),
            Ok(Err(error)) => JobEnd::failure("TypeError", &format!("the value cannot be passed on as JSON: {error}")),
            Err(panic) => JobEnd::failure("Panic", &panic_text(&*panic)),
        },
    }
}

impl Executor for Handlers {
    type Settings = ();

    fn perform(&mut self, runner: RunnerId, order: Order) {
        match order {
            Order::Start => drop(self.reports.send(Input::Up(runner))),
            Order::Run(job) => self.run(runner, job),
            Order::Terminate | Order::Kill | Order::Retire => {
                let running = self.running.remove(&runner).filter(|task| !task.is_finished());
                match running {
                    // Its own task says when it is gone.
                    Some(task) => task.abort(),
                    None => {
                        let _ = self.reports.send(Input::Gone { runner, exit: Exit::Status(0) });
                    }
                }
            }
        }
    }

    fn reconfigure(&mut self, (): ()) {}

    async fn close(mut self) {
        for task in self.running.values() {
            task.abort();
        }
        self.tasks.shutdown().await;
    }
}
