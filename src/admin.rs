//! [`Admin`]: asks a broker how it is, and tells it to stop.

use std::time::Duration;

use serde_json::Value;
use thiserror::Error;
use zmtp::{ConnectError, Dealer, Endpoint, Message, Reconnect, RecvError, RoutingId, RoutingIdError, SendError};

use crate::emqp::{Command, Envelope, MsgId, MsgIds, PROTOCOL, ParseError, Reply};

/// An admin's connection to a broker's administrative address.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use eventmq::admin::Admin;
///
/// let mut admin = Admin::connect(&"tcp://127.0.0.1:47293".parse()?, Duration::from_secs(2))?;
/// println!("{}", admin.status().await?);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Admin {
    dealer: Dealer,
    ids: MsgIds,
    timeout: Duration,
}

/// Why a broker did not answer as asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The address cannot be connected to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A routing id could not be made.
    #[error(transparent)]
    RoutingId(#[from] RoutingIdError),
    /// Nothing came back in time.
    #[error("no answer within {} s: is a broker's administrative_addr there?", .0.as_secs_f64())]
    Timeout(Duration),
    /// The question could not be sent.
    #[error("the connection is closed: {0}")]
    Send(#[from] SendError),
    /// The connection is closed.
    #[error("the connection is closed: {0}")]
    Receive(#[from] RecvError),
    /// The answer is not an eMQP message.
    #[error("the answer is no eMQP message: {0}")]
    Answer(#[from] ParseError),
    /// The answer does not hold JSON.
    #[error("the answer is no JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Admin {
    /// Connects; an answer is awaited for `timeout`. Needs a tokio runtime.
    ///
    /// # Errors
    /// The address can never be connected to. A broker that is not there shows as [`AdminError::Timeout`] later.
    pub fn connect(endpoint: &Endpoint, timeout: Duration) -> Result<Self, AdminError> {
        let unique = uuid::Uuid::new_v4();
        let retry = Duration::from_millis(50);
        let dealer = Dealer::builder()
            .routing_id(RoutingId::new(unique.to_string())?)
            .reconnect(Reconnect { first: retry, longest: retry * 4 })
            .linger(Duration::ZERO)
            .build();
        dealer.connect(endpoint)?;
        Ok(Self { dealer, ids: MsgIds::new(unique.as_u64_pair().0), timeout })
    }

    /// Counters, and jobs by queue and worker.
    ///
    /// # Errors
    /// No answer, or one that cannot be read.
    pub async fn status(&mut self) -> Result<Value, AdminError> {
        self.ask(&Command::Status).await
    }

    /// The workers and the queues they serve.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn workers(&mut self) -> Result<Value, AdminError> {
        self.ask(&Command::ShowWorkers).await
    }

    /// The schedulers.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn schedulers(&mut self) -> Result<Value, AdminError> {
        self.ask(&Command::ShowSchedulers).await
    }

    /// Jobs that were given up and kept.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn dead(&mut self) -> Result<Value, AdminError> {
        self.ask(&Command::ShowDead).await
    }

    /// Runs a dead job again, or all of them.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn retry_dead(&mut self, job: Option<MsgId>) -> Result<Value, AdminError> {
        self.ask(&Command::RetryDead { job }).await
    }

    /// Ends the broker; returns once it has said that it will.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn shut_down(&mut self) -> Result<(), AdminError> {
        self.ask(&Command::Disconnect).await.map(drop)
    }

    /// Sends any command with any body; the first message that comes back, whatever it is.
    ///
    /// # Errors
    /// Nothing came in time, or the connection is closed.
    pub async fn send_raw(
        &mut self,
        command: &str,
        body: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<Message, AdminError> {
        let id = self.ids.next_id();
        let head = Message::builder().frame("").frame(PROTOCOL).frame(command).frame(&id);
        let message = body.into_iter().fold(head, |message, frame| message.frame(frame)).build();
        let timeout = self.timeout;
        let asking = async {
            self.dealer.send(message).await?;
            Ok(self.dealer.recv().await?)
        };
        tokio::time::timeout(timeout, asking).await.unwrap_or(Err(AdminError::Timeout(timeout)))
    }

    async fn ask(&mut self, command: &Command<'_>) -> Result<Value, AdminError> {
        let id = self.ids.next_id();
        let timeout = self.timeout;
        let asking = async {
            self.dealer.send(command.to_message(&id)).await?;
            loop {
                if let Some(answer) = read(&self.dealer.recv().await?, &id)? {
                    return Ok(answer);
                }
            }
        };
        tokio::time::timeout(timeout, asking).await.unwrap_or(Err(AdminError::Timeout(timeout)))
    }
}

/// The answer in a message, if it is one.
fn read(message: &Message, asked: &MsgId) -> Result<Option<Value>, AdminError> {
    Ok(match Envelope::parse(message)?.command {
        Command::Reply(Reply::Single(json)) => Some(serde_json::from_slice(json)?),
        Command::Ack { acknowledged } if acknowledged == *asked => Some(Value::Null),
        _ => None,
    })
}
