//! [`Client`]: asks services of an MDP broker.

use std::num::NonZeroU32;
use std::time::Duration;

use thiserror::Error;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::debug;
use zmtp::{ConnectError, Dealer, DealerReceiver, DealerSender, Endpoint, Message, Reconnect, Security};

use super::wire::{ClientReply, ClientRequest, Delimiter, Part, ServiceName, ServiceNameError, Version};

/// Why a request has no reply.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The service's name cannot be one.
    #[error(transparent)]
    Service(#[from] ServiceNameError),
    /// The broker's address can never be connected to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Nothing came back in any attempt: there is no broker, no worker, or both are too slow.
    #[error("no reply from {service} within {} s, {attempts} times", timeout.as_secs_f64())]
    NoReply {
        /// The service asked.
        service: ServiceName,
        /// How often it was asked.
        attempts: NonZeroU32,
        /// How long each time.
        timeout: Duration,
    },
    /// The reply began and did not end. The request is not sent again: its parts would come twice.
    #[error("the reply from {service} broke off")]
    Interrupted {
        /// The service asked.
        service: ServiceName,
    },
    /// The socket is closed.
    #[error("the socket is closed")]
    Closed,
}

impl From<std::convert::Infallible> for RequestError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// Settings of a client to be, by [`Client::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct ClientBuilder {
    broker: Endpoint,
    version: Version,
    timeout: Duration,
    attempts: NonZeroU32,
    security: Security,
}

impl ClientBuilder {
    /// The protocol's version. Default: MDP/0.1, which every broker speaks; MDP/0.2 has partial replies.
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// How long a reply is awaited, for each attempt. Default 2.5 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How often a request is sent at most. Default 3.
    pub fn attempts(mut self, attempts: NonZeroU32) -> Self {
        self.attempts = attempts;
        self
    }

    /// The security mechanism and our part in it. Default: NULL, no security at all.
    pub fn security(mut self, security: Security) -> Self {
        self.security = security;
        self
    }

    /// Connects. Needs a tokio runtime.
    ///
    /// # Errors
    /// The address can never be connected to. A broker that is not there shows when a reply is awaited.
    pub fn connect(self) -> Result<Client, ConnectError> {
        let socket = Socket::connect(&self)?;
        Ok(Client { settings: self, socket, outstanding: 0, discarded: 0 })
    }
}

#[derive(Debug)]
struct Socket {
    sender: DealerSender,
    receiver: DealerReceiver,
}

impl Socket {
    fn connect(settings: &ClientBuilder) -> Result<Self, ConnectError> {
        let pause = Duration::from_millis(100);
        let dealer = Dealer::builder()
            .security(settings.security.clone())
            .reconnect(Reconnect { first: pause, longest: pause * 10 })
            // Replies to requests in flight are to be read, however many they are.
            .receive_hwm(0)
            // Whoever gives a socket up does not want its requests sent any more.
            .linger(Duration::ZERO)
            .build();
        dealer.connect(&settings.broker)?;
        let (sender, receiver) = dealer.split();
        Ok(Self { sender, receiver })
    }
}

/// A client of an MDP broker.
///
/// [`request`](Self::request) asks, waits, and asks again over a new connection if nothing comes back: so a service may
/// get a request more than once. [`send`](Self::send) and [`recv`](Self::recv) keep any number of requests in flight.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use eventmq::mdp::Client;
///
/// let mut client = Client::connect(&"tcp://127.0.0.1:5555".parse()?)?;
/// let reply = client.request("echo", "hello").await?;
/// println!("{reply:?}");
///
/// for n in 0..1000 {
///     client.send("echo", n.to_string()).await?;
/// }
/// for _ in 0..1000 {
///     println!("{:?}", client.recv().await?.body);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Client {
    settings: ClientBuilder,
    socket: Socket,
    /// Requests sent whose final replies have not come.
    outstanding: usize,
    discarded: u64,
}

/// A reply to one of the requests [sent](Client::send): only the service tells which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The service that was asked.
    pub service: ServiceName,
    /// Whether it is the last one to its request.
    pub part: Part,
    /// What the worker sent: one frame or more.
    pub body: Message,
}

/// Why there is no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResponseError {
    /// Nothing came in time.
    #[error("no response within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The socket is closed.
    #[error("the socket is closed")]
    Closed,
}

impl Client {
    /// Settings of a client of that broker.
    pub fn builder(broker: Endpoint) -> ClientBuilder {
        let timeout = Duration::from_millis(2500);
        let (version, attempts) = (Version::default(), NonZeroU32::MIN.saturating_add(2));
        ClientBuilder { broker, version, timeout, attempts, security: Security::null() }
    }

    /// A client of that broker with the usual settings.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub fn connect(broker: &Endpoint) -> Result<Self, ConnectError> {
        Self::builder(broker.clone()).connect()
    }

    /// Another time to wait for replies, from the next on.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.settings.timeout = timeout;
    }

    /// Another number of attempts, from the next request on.
    pub fn set_attempts(&mut self, attempts: NonZeroU32) {
        self.settings.attempts = attempts;
    }

    /// Messages that were no reply, or to no request of ours, so far.
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Asks a service and waits for its reply: one frame or more. Parts before the final reply are dropped; see
    /// [`request_parts`](Self::request_parts).
    ///
    /// A request that is given up, by an error or by dropping the future, leaves nothing behind: the next one has a new
    /// connection. So has one while responses to [`send`](Self::send) are outstanding: these are given up.
    ///
    /// # Errors
    /// `NoReply` after the last attempt; others at once.
    pub async fn request<S>(&mut self, service: S, body: impl Into<Message>) -> Result<Message, RequestError>
    where
        S: TryInto<ServiceName>,
        RequestError: From<S::Error>,
    {
        self.request_parts(service, body, |_| {}).await
    }

    /// As [`request`](Self::request), and hands each part of an MDP/0.2 reply to `on_part` before it returns the last. The
    /// timeout starts again with each.
    ///
    /// # Errors
    /// As [`request`](Self::request), and `Interrupted` if the reply began but did not end.
    pub async fn request_parts<S>(
        &mut self,
        service: S,
        body: impl Into<Message>,
        mut on_part: impl FnMut(Message),
    ) -> Result<Message, RequestError>
    where
        S: TryInto<ServiceName>,
        RequestError: From<S::Error>,
    {
        let service: ServiceName = service.try_into()?;
        let message = self.message(&service, body.into());
        let attempts = self.settings.attempts;
        for _ in 0..attempts.get() {
            if self.outstanding > 0 {
                self.socket = Socket::connect(&self.settings)?;
            }
            self.outstanding = 1;
            match self.attempt(&service, &message, &mut on_part).await? {
                Attempt::Replied(body) => {
                    self.outstanding = 0;
                    return Ok(body);
                }
                Attempt::BrokeOff => return Err(RequestError::Interrupted { service }),
                Attempt::Silence => debug!(%service, "no reply in time"),
            }
        }
        Err(RequestError::NoReply { service, attempts, timeout: self.settings.timeout })
    }

    async fn attempt(
        &mut self,
        service: &ServiceName,
        message: &Message,
        on_part: &mut impl FnMut(Message),
    ) -> Result<Attempt, RequestError> {
        let mut deadline = Instant::now() + self.settings.timeout;
        match timeout_at(deadline, self.socket.sender.send(message.clone())).await {
            Ok(sent) => sent.map_err(|_| RequestError::Closed)?,
            Err(_) => return Ok(Attempt::Silence),
        }
        let mut begun = false;
        loop {
            let received = match self.socket.receiver.try_recv() {
                Some(message) => message,
                None => match timeout_at(deadline, self.socket.receiver.recv()).await {
                    Ok(received) => received.map_err(|_| RequestError::Closed)?,
                    Err(_) if begun => return Ok(Attempt::BrokeOff),
                    Err(_) => return Ok(Attempt::Silence),
                },
            };
            match self.read(&received) {
                Some(reply) if reply.service == *service => match reply.part {
                    Part::Final => return Ok(Attempt::Replied(reply.body)),
                    Part::Partial => {
                        begun = true;
                        deadline = Instant::now() + self.settings.timeout;
                        on_part(reply.body);
                    }
                },
                Some(_) => self.discarded += 1,
                None => {}
            }
        }
    }

    /// Sends a request and does not wait for its reply; only for room to send it.
    ///
    /// Cancel-safe: a request is either sent or not. It is never sent again: when the broker is lost, so are the requests
    /// in flight.
    ///
    /// # Errors
    /// The service's name cannot be one, or the socket is closed.
    pub async fn send<S>(&mut self, service: S, body: impl Into<Message>) -> Result<(), RequestError>
    where
        S: TryInto<ServiceName>,
        RequestError: From<S::Error>,
    {
        let message = self.message(&service.try_into()?, body.into());
        self.socket.sender.send(message).await.map_err(|_| RequestError::Closed)?;
        self.outstanding += 1;
        Ok(())
    }

    /// The next response to any request that was [sent](Self::send). They come in the order in which workers finish.
    ///
    /// Cancel-safe: no response is taken out before it is returned.
    ///
    /// # Errors
    /// `Timeout` if none comes within the [timeout](ClientBuilder::timeout).
    pub async fn recv(&mut self) -> Result<Response, ResponseError> {
        loop {
            if let Some(response) = self.try_recv() {
                return Ok(response);
            }
            let limit = self.settings.timeout;
            let received = timeout(limit, self.socket.receiver.recv()).await;
            let message = received.map_err(|_| ResponseError::Timeout(limit))?.map_err(|_| ResponseError::Closed)?;
            if let Some(response) = self.on_response(&message) {
                return Ok(response);
            }
        }
    }

    /// The next response, if there is one now.
    pub fn try_recv(&mut self) -> Option<Response> {
        loop {
            let message = self.socket.receiver.try_recv()?;
            if let Some(response) = self.on_response(&message) {
                return Some(response);
            }
        }
    }

    /// Closes the connection at once: requests that are not answered are given up. Dropping the client does the same in the
    /// background.
    pub async fn close(self) {
        self.socket.sender.close().await;
    }

    fn on_response(&mut self, message: &Message) -> Option<Response> {
        let response = self.read(message)?;
        if response.part == Part::Final {
            self.outstanding = self.outstanding.saturating_sub(1);
        }
        Some(response)
    }

    /// Reads what may be a reply; what is none is dropped and counted.
    fn read(&mut self, message: &Message) -> Option<Response> {
        let read = ClientReply::parse(message).ok().filter(|reply| reply.version == self.settings.version);
        let response = read.and_then(|reply| {
            Some(Response { service: reply.service_name().ok()?, part: reply.part, body: reply.body })
        });
        if response.is_none() {
            self.discarded += 1;
            debug!(?message, "message from the broker discarded");
        }
        response
    }

    fn message(&self, service: &ServiceName, body: Message) -> Message {
        let version = self.settings.version;
        ClientRequest { version, delimiter: Delimiter::of(version), service: service.as_bytes(), body }.to_message()
    }
}

/// What came of one attempt.
enum Attempt {
    Replied(Message),
    BrokeOff,
    Silence,
}
