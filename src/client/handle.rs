//! [`Client`]: the handle applications hold.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, oneshot};
use zmtp::{Endpoint, Message};

use super::builder::ClientBuilder;
use super::core::{Answer, OnLoss, Report, Submission, WhenFull, later};
use super::driver::{Order, Waiter};
use super::{CallError, ClientError, Job, Schedule, SubmitError, outcome};
use crate::emqp::{CommandName, MsgId, MsgIds, Request};

/// A client of a broker; cheap to clone, all clones share one connection.
///
/// The connection is made in the background and made anew whenever it is lost. Jobs wait for it, and for room, as long
/// as their deadline allows. All futures are cancel-safe in this sense: a job whose future is dropped while it waits for
/// [room](ClientBuilder::max_unaccepted) is not submitted; later than that it is submitted, and its answer dropped.
///
/// When the last clone is dropped, what was handed over is still settled in the background; [`close`](Self::close) waits
/// for that.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use eventmq::client::{Client, Job};
///
/// let client = Client::connect(&"tcp://127.0.0.1:47291".parse()?)?;
/// let root: f64 = client.call(Job::new("math", "sqrt").arg(2)).await?;
/// let msgid = client.submit(Job::new("shop.mail", "send_receipt").arg(4711).queue("email").guarantee()).await?;
/// println!("{root}; {msgid} is accepted");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub endpoint: Endpoint,
    pub acceptance_timeout: Duration,
    pub confirmation_timeout: Duration,
    pub full_queues: FullQueues,
    pub orders: mpsc::UnboundedSender<Order>,
    pub room: Arc<Semaphore>,
    pub ids: Mutex<MsgIds>,
}

/// What a client does about a job that the broker refuses because its queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FullQueues {
    /// Tells the caller at once: [`SubmitError::Refused`].
    #[default]
    Report,
    /// Offers it again after a pause, of 0.1 s at first and 1 s at most, until the job's [`deadline`](Job::deadline) if
    /// it has one. Jobs held back count as unaccepted, so submitting slows down to what the workers do.
    Wait,
}

/// Whether somebody said that a schedule is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// Broker or scheduler acknowledged it.
    Confirmed,
    /// It was sent, and nobody objected in time. Python's router and scheduler never say more.
    Unconfirmed,
}

/// A job that is accepted; a future of its result. Dropping it drops the result, not the job.
#[derive(Debug)]
#[must_use = "a future of the job's result; to have none, use Client::submit"]
pub struct JobHandle {
    msgid: MsgId,
    deadline: Option<Duration>,
    result: oneshot::Receiver<Report>,
    orders: mpsc::UnboundedSender<Order>,
}

/// What was handed over and is not answered.
struct HandedOver {
    msgid: MsgId,
    after: Duration,
    acceptance: oneshot::Receiver<Report>,
    result: Option<oneshot::Receiver<Report>>,
}

/// A message that is to be handed over.
struct Outgoing {
    msgid: MsgId,
    message: Message,
    answer: Answer,
    on_loss: OnLoss,
    /// How long acceptance is awaited.
    after: Duration,
    deadline: Option<Duration>,
}

impl Client {
    /// A client with the default settings. Needs a tokio runtime. See [`builder`](Self::builder) for others.
    ///
    /// # Errors
    /// Only for an address that can never be connected to; a broker that is not there shows in what is submitted.
    pub fn connect(endpoint: &Endpoint) -> Result<Self, ClientError> {
        Self::builder().connect(endpoint)
    }

    /// Settings of a client to be.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(super) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// Submits a job; ready once the broker has accepted it. Its result is not asked for.
    ///
    /// # Errors
    /// It was not accepted; [`SubmitError::may_run`] tells whether it may run all the same.
    pub async fn submit(&self, job: Job) -> Result<MsgId, SubmitError> {
        self.hand_over(self.request(&job, Answer::Acceptance)?).await?.accepted(self).await
    }

    /// Sends a job without waiting for its acceptance, like `delay()` in Python; ready once it is on its way.
    ///
    /// For brokers that acknowledge only some jobs, as Python's emq-router does. A refusal is only logged.
    ///
    /// # Errors
    /// It was not sent.
    pub async fn post(&self, job: Job) -> Result<MsgId, SubmitError> {
        self.hand_over(self.request(&job, Answer::Nothing)?).await?.accepted(self).await
    }

    /// Submits a job whose result is wanted; ready once the broker has accepted it.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub async fn start(&self, job: Job) -> Result<JobHandle, SubmitError> {
        let deadline = job.own_deadline();
        let mut handed_over = self.hand_over(self.request(&job, Answer::Result)?).await?;
        let result = handed_over.result.take().ok_or(SubmitError::Closed)?;
        let msgid = handed_over.accepted(self).await?;
        Ok(JobHandle { msgid, deadline, result, orders: self.shared.orders.clone() })
    }

    /// Submits a job and waits for what it returns.
    ///
    /// A Python worker's exception looks like a value, its text; a worker of this crate tells them apart. A Python
    /// router never passes a result on: give the job a [`deadline`](Job::deadline) there.
    ///
    /// # Errors
    /// It was not accepted, it failed, or no result came in time.
    pub async fn call<T: DeserializeOwned>(&self, job: Job) -> Result<T, CallError> {
        self.start(job).await?.value().await
    }

    /// Submits jobs, many of them under way at a time; the answers are in the order of the jobs.
    pub async fn submit_all(&self, jobs: impl IntoIterator<Item = Job>) -> Vec<Result<MsgId, SubmitError>> {
        let mut handed_over = Vec::new();
        for job in jobs {
            handed_over.push(match self.request(&job, Answer::Acceptance) {
                Ok(outgoing) => self.hand_over(outgoing).await,
                Err(error) => Err(error),
            });
        }
        let mut accepted = Vec::with_capacity(handed_over.len());
        for one in handed_over {
            accepted.push(match one {
                Ok(one) => one.accepted(self).await,
                Err(error) => Err(error),
            });
        }
        accepted
    }

    /// Submits jobs and waits for all results; they are in the order of the jobs.
    pub async fn call_all(&self, jobs: impl IntoIterator<Item = Job>) -> Vec<Result<Value, CallError>> {
        let mut handed_over = Vec::new();
        for job in jobs {
            let deadline = job.own_deadline();
            let one = match self.request(&job, Answer::Result) {
                Ok(outgoing) => self.hand_over(outgoing).await,
                Err(error) => Err(error),
            };
            handed_over.push((one, deadline));
        }
        let mut results = Vec::with_capacity(handed_over.len());
        for (one, deadline) in handed_over {
            results.push(self.result_of(one, deadline).await);
        }
        results
    }

    async fn result_of(
        &self,
        one: Result<HandedOver, SubmitError>,
        deadline: Option<Duration>,
    ) -> Result<Value, CallError> {
        let mut one = one?;
        let result = one.result.take().ok_or(SubmitError::Closed)?;
        let msgid = one.accepted(self).await?;
        JobHandle { msgid, deadline, result, orders: self.shared.orders.clone() }.await
    }

    /// Has a job run again and again. The same call scheduled again replaces the former schedule.
    ///
    /// # Errors
    /// Refused (no scheduler, a bad cron expression), or not sent.
    pub async fn schedule(&self, schedule: Schedule) -> Result<Confirmation, SubmitError> {
        let (message, msgid) = schedule.message(CommandName::Schedule, &self.next_id())?;
        self.confirmed(message, msgid).await
    }

    /// Ends the schedule of a call: interval and cron. Queue and conditions of the job do not matter.
    ///
    /// # Errors
    /// Not sent.
    pub async fn unschedule(&self, job: &Job) -> Result<Confirmation, SubmitError> {
        let (message, msgid) = Schedule::end_of(job, &self.next_id())?;
        self.confirmed(message, msgid).await
    }

    /// Sends a (UN)SCHEDULE, which may be sent twice without harm.
    async fn confirmed(&self, message: Message, msgid: MsgId) -> Result<Confirmation, SubmitError> {
        let after = self.shared.confirmation_timeout;
        let (answer, on_loss) = (Answer::Acceptance, OnLoss::SendAgain);
        let outgoing = Outgoing { msgid, message, answer, on_loss, after, deadline: None };
        match self.hand_over(outgoing).await?.accepted(self).await {
            Ok(_) => Ok(Confirmation::Confirmed),
            Err(SubmitError::Unconfirmed { .. }) => Ok(Confirmation::Unconfirmed),
            Err(error) => Err(error),
        }
    }

    /// Waits until everything handed over is accepted, refused or given up, and ends the connection. Results that are
    /// still awaited then, through other clones, never come.
    pub async fn close(self) {
        let (done, closed) = oneshot::channel();
        if self.shared.orders.send(Order::Close(done)).is_ok() {
            // An error says that the task has ended.
            let _ = closed.await;
        }
    }

    fn next_id(&self) -> MsgId {
        self.shared.ids.lock().unwrap_or_else(PoisonError::into_inner).next_id()
    }

    fn request(&self, job: &Job, answer: Answer) -> Result<Outgoing, SubmitError> {
        let msgid = job.given_id().cloned().unwrap_or_else(|| self.next_id());
        let headers = job.headers((answer == Answer::Result).then_some("reply-requested"));
        let message = Request::build(&msgid, job.queue_name().as_bytes(), headers.as_bytes(), &job.payload()?);
        let on_loss = if job.may_run_twice() { OnLoss::SendAgain } else { OnLoss::Report };
        let deadline = job.own_deadline();
        let after = deadline.unwrap_or(Duration::MAX).min(self.shared.acceptance_timeout);
        Ok(Outgoing { msgid, message, answer, on_loss, after, deadline })
    }

    /// Gives a message to the task, once there is room for it.
    async fn hand_over(&self, outgoing: Outgoing) -> Result<HandedOver, SubmitError> {
        let Outgoing { msgid, message, answer, on_loss, after, deadline } = outgoing;
        let now = Instant::now();
        let end = deadline.map(|deadline| later(now, deadline));
        let when_full = match self.shared.full_queues {
            FullQueues::Report => WhenFull::Report,
            FullQueues::Wait => WhenFull::Retry(end),
        };
        // Where full queues are waited for, so is the room that they take.
        let patience = match when_full {
            WhenFull::Retry(end) => end,
            WhenFull::Report => Some(later(now, after)),
        };
        let room = self.shared.room.clone().acquire_owned();
        let permit = match patience {
            Some(end) => tokio::time::timeout_at(end.into(), room).await.map_err(|_| SubmitError::Busy { after })?,
            None => room.await,
        };
        let permit = permit.map_err(|_| SubmitError::Closed)?;
        let (id, patience) = (msgid.clone(), later(now, after).saturating_duration_since(now));
        let submission = Submission { msgid: id, message, answer, on_loss, when_full, patience, result_by: end };
        let (acceptance_sender, acceptance) = oneshot::channel();
        let (result_sender, result) = match answer {
            Answer::Result => {
                let (sender, receiver) = oneshot::channel();
                (Some(sender), Some(receiver))
            }
            Answer::Acceptance | Answer::Nothing => (None, None),
        };
        let waiter = Waiter { acceptance: acceptance_sender, result: result_sender, permit };
        self.shared.orders.send(Order::Submit(submission, waiter)).map_err(|_| SubmitError::Closed)?;
        Ok(HandedOver { msgid, after, acceptance, result })
    }
}

impl HandedOver {
    async fn accepted(self, client: &Client) -> Result<MsgId, SubmitError> {
        let Self { msgid, after, acceptance, .. } = self;
        match acceptance.await {
            Ok(Report::Accepted | Report::Sent | Report::Result(_)) => Ok(msgid),
            Ok(Report::Refused(failure)) => Err(SubmitError::Refused(failure)),
            Ok(Report::NotSent) => Err(SubmitError::NotConnected { endpoint: client.shared.endpoint.clone(), after }),
            Ok(Report::Unconfirmed | Report::Overdue) => Err(SubmitError::Unconfirmed { msgid, after }),
            Ok(Report::Lost) => Err(SubmitError::ConnectionLost { msgid }),
            Ok(Report::Duplicate) => Err(SubmitError::DuplicateId { msgid }),
            Err(_) => Err(SubmitError::Closed),
        }
    }
}

impl JobHandle {
    /// The job's message id.
    pub fn msgid(&self) -> &MsgId {
        &self.msgid
    }

    /// Waits for the result and reads it as a `T`.
    ///
    /// # Errors
    /// As awaiting the handle itself; [`CallError::Result`] also if the value is no `T`.
    pub async fn value<T: DeserializeOwned>(self) -> Result<T, CallError> {
        let value = self.await?;
        let raw = Bytes::from(value.to_string());
        serde_json::from_value(value).map_err(|source| CallError::Result { source, raw })
    }
}

impl Future for JobHandle {
    type Output = Result<Value, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        Pin::new(&mut this.result).poll(cx).map(|report| match report {
            Ok(Report::Result(raw)) => outcome::read(&raw),
            Ok(Report::Refused(failure)) => Err(SubmitError::Refused(failure).into()),
            Ok(Report::Overdue) => {
                Err(CallError::Timeout { msgid: this.msgid.clone(), after: this.deadline.unwrap_or_default() })
            }
            Ok(_) | Err(_) => Err(CallError::Closed),
        })
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        self.result.close();
        // An error says that there is no task to tell.
        let _ = self.orders.send(Order::Forget(self.msgid.clone()));
    }
}
