//! [`Req`]: asks one question at a time.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::SocketBuilder;
use super::connections::connections;
use super::handle::Handle;
use super::receiving::Receiving;
use crate::pattern::{Asking, Rotation};
use crate::random::Random;
use crate::{ConnectError, Endpoint, LockstepError, Message, SendError, SendFailure, SocketType};

/// A REQ socket: a request to one of its peers in turn, then that peer's reply, and so on (RFC 28).
///
/// A reply that is malformed, or not from who was asked, is skipped. A request is not sent again when its connection
/// breaks, and if its peer never comes back, the reply never comes: use a timeout around [`recv`](Self::recv), and
/// [`relaxed`](SocketBuilder::relaxed) together with [`correlate`](SocketBuilder::correlate) to ask again after it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use zmtp::{Message, Rep, Req};
///
/// let mut rep = Rep::builder().build();
/// let endpoint = rep.bind(&"tcp://127.0.0.1:0".parse()?).await?;
/// let mut req = Req::builder().build();
/// req.connect(&endpoint)?;
///
/// req.send(Message::from("how are you?")).await?;
/// assert_eq!(rep.recv().await?, Message::from("how are you?"));
/// rep.send(Message::from("fine"))?;
/// assert_eq!(req.recv().await?, Message::from("fine"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Req {
    handle: Arc<Handle<Rotation>>,
    receiving: Receiving,
    asking: Asking,
}

impl SocketBuilder<Req> {
    /// Lets a new request be sent while the reply to the one before is awaited, which is given up (REQ_RELAXED).
    /// Default: off, that is an error.
    pub fn relaxed(mut self, on: bool) -> Self {
        self.pattern.relaxed = on;
        self
    }

    /// Puts an id in front of each request and takes only replies that carry it (REQ_CORRELATE), so that a late reply is
    /// not taken for the one to a newer request. Default: off.
    pub fn correlate(mut self, on: bool) -> Self {
        self.pattern.correlate = on;
        self
    }

    /// Makes the socket. Binding and connecting need a tokio runtime; this does not.
    pub fn build(self) -> Req {
        let start = self.pattern.correlate.then(|| Random::from_system().next() as u32);
        let asking = Asking::new(self.pattern.relaxed, start);
        let rotation = Rotation::new(self.pattern.immediate);
        let handle = Handle::new(self.connection, self.options, rotation);
        Req { handle, receiving: Receiving::default(), asking }
    }
}

impl Req {
    /// Settings of a new socket.
    pub fn builder() -> SocketBuilder<Self> {
        SocketBuilder::new(SocketType::Req)
    }

    /// Connects to an endpoint, now and whenever the connection is lost. A request may be sent at once: it waits.
    ///
    /// # Errors
    /// Only for an endpoint that can never be connected to; everything else is retried.
    pub fn connect(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        self.handle.connect(endpoint, |rotation, pipe| rotation.add(pipe))
    }

    /// Sends a request to the next peer that has room, waiting while there is none.
    ///
    /// Cancel-safe: a request is either queued whole, and then it is the peer's turn, or not at all.
    ///
    /// # Errors
    /// `OutOfTurn` while a reply is awaited, unless the socket is [relaxed](SocketBuilder::relaxed); `Closed` if it is
    /// closed.
    pub async fn send(&mut self, request: Message) -> Result<(), SendError> {
        let Self { handle, receiving, asking } = self;
        handle.send(request, |request| ask(handle, receiving, asking, request)).await
    }

    /// Queues a request for the next peer that has room, or gives it back at once with the reason.
    ///
    /// # Errors
    /// As [`send`](Self::send), and `Full` if no peer has room or there is none.
    pub fn try_send(&mut self, request: Message) -> Result<(), SendError> {
        let Self { handle, receiving, asking } = self;
        ask(handle, receiving, asking, &request).map_err(|reason| reason.with(request))
    }

    /// The reply to the request sent last.
    ///
    /// Cancel-safe: nothing is taken out before it is returned.
    ///
    /// # Errors
    /// `OutOfTurn` if no reply is awaited; `Closed` if the socket is closed.
    pub async fn recv(&mut self) -> Result<Message, LockstepError> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, LockstepError>> {
        if !self.asking.is_waiting() {
            return Poll::Ready(Err(LockstepError::OutOfTurn));
        }
        loop {
            let next = self.receiving.poll_next(&self.handle.0.inbox, cx, |_, pipe| pipe.clone());
            let Ok((from, message)) = ready!(next) else { return Poll::Ready(Err(LockstepError::Closed)) };
            if let Some(reply) = self.asking.on_message(&from, &message) {
                return Poll::Ready(Ok(reply));
            }
        }
    }
}

connections!(Req, handle);

fn ask(
    handle: &Handle<Rotation>,
    receiving: &mut Receiving,
    asking: &mut Asking,
    request: &Message,
) -> Result<(), SendFailure> {
    if !asking.may_ask() {
        return Err(SendFailure::OutOfTurn);
    }
    // Whatever is here now is no reply to a request that is not out yet.
    while receiving.next_body(&handle.0.inbox).is_some() {}
    let envelope = asking.envelope();
    let asked = handle.0.pattern.lock().deal(|pipe| pipe.push_behind(&envelope, request)).cloned();
    match asked {
        Some(pipe) => {
            asking.on_asked(pipe);
            Ok(())
        }
        None if handle.0.closing.is_cancelled() => Err(SendFailure::Closed),
        None => Err(SendFailure::Full),
    }
}
