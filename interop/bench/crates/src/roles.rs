//! What every contestant written in Rust does in a run, over a few lines for each library;
//! `interop/bench/c/roles.c` does the same with libzmq. The server's roles bind and run until they are killed; the
//! client's connect, measure, and print one line of JSON:
//!
//! - `router ENDPOINT` sends every message back.
//!   `dealer ENDPOINT COUNT SIZES IN_FLIGHT SECONDS`: COUNT sockets keep IN_FLIGHT messages of frames of SIZES (a,b,c)
//!   under way, each, for SECONDS, then wait for the rest. With one socket and one message in flight, round-trip times
//!   are taken as well.
//! - `push ENDPOINT CONTROL SIZE SECONDS [PUBLIC SECRET]` sends messages of SIZE bytes for SECONDS, under CURVE if
//!   there are keys. `pull ENDPOINT CONTROL SIZE [SERVER_KEY PUBLIC SECRET]` receives them.
//! - `pub ENDPOINT CONTROL SIZE SECONDS` and `sub ENDPOINT CONTROL SIZE COUNT`: the same to COUNT sockets, each of which
//!   gets everything.
//! - `features` prints what the library can do beyond that: `curve` or nothing.
//!
//! Everything is verified: messages carry a sequence number and must arrive once, in order and of the right shape.
//! CONTROL is a plain TCP connection from the receiving process to the sending one. Over it receivers say how far they
//! are, and the sender stays within a window: then a message that is missing was lost by the library, not refused for
//! want of room, and libraries without a real high-water mark do not fill the memory.

use std::collections::VecDeque;
use std::env;
use std::error::Error;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// High-water marks, where the library has them: twice what a DEALER keeps under way.
pub const HWM: usize = 2000;
/// Those of PUB and SUB: far above what a PUB may be ahead, because libraries learn late how far the other end is.
#[allow(dead_code, reason = "zmq.rs cannot be told")]
pub const PUB_HWM: usize = 8 * PUB_WINDOW as usize;
/// What every connection asks the kernel for, both ways, where the library lets us; zmq.rs has it built in.
#[allow(dead_code, reason = "zmq.rs cannot be told")]
pub const SOCKET_BUFFER: usize = 4 << 20;

/// How long anything may take that should happen at once.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a client may run. One clock for all of it: one for each message would be part of what is measured.
const LONGEST: Duration = Duration::from_secs(90);
/// A PUB is at most this many messages ahead of its slowest SUB...
const PUB_WINDOW: u64 = 4096;
/// ... and a PUSH so many bytes ahead of its PULL, in at most so many messages. It is rather the high-water mark that
/// stops it. All windows are powers of two.
const PUSH_WINDOW_BYTES: u64 = 128 << 20;
const PUSH_WINDOW: u64 = 65_536;
/// The sequence number of what a PUB says until everybody listens.
const HELLO: u64 = u64::MAX;

pub type Failure = Box<dyn Error + Send + Sync>;
pub type Result<T = ()> = std::result::Result<T, Failure>;

/// One library. Sockets come bound or connecting, with [`HWM`] or [`PUB_HWM`], and [`SOCKET_BUFFER`].
pub trait Library: Send + Sync + 'static {
    const NAME: &'static str;
    const CURVE: bool;
    type Message: Send;

    fn message<'a>(frames: impl ExactSizeIterator<Item = &'a [u8]>) -> Self::Message;
    fn frames(message: &Self::Message) -> impl Iterator<Item = &[u8]>;

    fn router(endpoint: &str) -> impl Future<Output = Result<impl Echo + Send>> + Send;
    fn dealer(endpoint: &str) -> impl Future<Output = Result<impl Sends<Self> + Receives<Self>>> + Send;
    fn push(endpoint: &str, curve: Option<CurveServer>) -> impl Future<Output = Result<impl Sends<Self>>> + Send;
    fn pull(endpoint: &str, curve: Option<CurveClient>) -> impl Future<Output = Result<impl Receives<Self>>> + Send;
    fn publish(endpoint: &str) -> impl Future<Output = Result<impl Sends<Self>>> + Send;
    /// Subscribed to everything.
    fn subscribe(endpoint: &str) -> impl Future<Output = Result<impl Receives<Self>>> + Send;
}

/// A ROUTER.
pub trait Echo {
    /// Sends one message back to where it came from.
    fn echo(&mut self) -> impl Future<Output = Result> + Send;
}

pub trait Sends<L: Library + ?Sized>: Send + 'static {
    fn send(&mut self, message: L::Message) -> impl Future<Output = Result> + Send;
}

pub trait Receives<L: Library + ?Sized>: Send + 'static {
    fn receive(&mut self) -> impl Future<Output = Result<L::Message>> + Send;
}

/// Keys are in Z85.
#[allow(dead_code, reason = "not every library has CURVE, or needs to be told the public key")]
pub struct CurveServer {
    pub public: String,
    pub secret: String,
}

#[allow(dead_code, reason = "as above")]
pub struct CurveClient {
    pub server: String,
    pub public: String,
    pub secret: String,
}

/// Does what the command line says, on one thread.
pub fn main<L: Library>() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::from)
        // A task like any other: the future that `block_on` polls itself costs one more look at the kernel per message.
        .and_then(|runtime| runtime.block_on(runtime.spawn(limited::<L>(arguments)))?);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", L::NAME);
            ExitCode::FAILURE
        }
    }
}

async fn limited<L: Library>(arguments: Vec<String>) -> Result {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let role = run::<L>(&arguments);
    match arguments[..] {
        ["dealer" | "pull" | "sub", ..] => timeout(LONGEST, role).await.map_err(|_| "messages are missing")?,
        _ => role.await,
    }
}

async fn run<L: Library>(arguments: &[&str]) -> Result {
    match arguments {
        ["features"] => {
            println!("{}", if L::CURVE { "curve" } else { "" });
            Ok(())
        }
        ["router", endpoint] => {
            let mut router = L::router(endpoint).await?;
            loop {
                // A DEALER that has ended is an error in some libraries. One that lost messages notices.
                if router.echo().await.is_err() {
                    sleep(Duration::from_millis(1)).await;
                }
            }
        }
        ["dealer", endpoint, count, sizes, in_flight, seconds] => {
            dealers::<L>(endpoint, count.parse()?, sizes, in_flight.parse()?, time(seconds)?).await
        }
        ["push", endpoint, control, size, seconds, keys @ ..] => {
            let keys = match *keys {
                [] => None,
                [public, secret] => Some(CurveServer { public: public.into(), secret: secret.into() }),
                _ => return Err("push takes no keys or two".into()),
            };
            let size = size.parse()?;
            let window = Window::listen(control, push_window(size)).await?;
            let stream = Stream::<L>::new(size)?;
            stream.send_all(L::push(endpoint, keys).await?, window, time(seconds)?).await
        }
        ["pull", endpoint, control, size, keys @ ..] => {
            let keys = match *keys {
                [] => None,
                [server, public, secret] => {
                    Some(CurveClient { server: server.into(), public: public.into(), secret: secret.into() })
                }
                _ => return Err("pull takes no keys or three".into()),
            };
            let size = size.parse()?;
            let progress = Progress::connect(control, push_window(size), 1).await?;
            report(receive_all::<L, _>(L::pull(endpoint, keys).await?, size, progress).await?, Vec::new());
            Ok(())
        }
        ["pub", endpoint, control, size, seconds] => {
            let mut window = Window::listen(control, PUB_WINDOW).await?;
            let mut publisher = L::publish(endpoint).await?;
            let mut stream = Stream::<L>::new(size.parse()?)?;
            // From here on all the SUBs get everything.
            while !window.opened().await? {
                publisher.send(stream.message(HELLO, false)).await?;
                sleep(Duration::from_millis(2)).await;
            }
            stream.send_all(publisher, window, time(seconds)?).await
        }
        ["sub", endpoint, control, size, count] => {
            subscribers::<L>(endpoint, control, size.parse()?, count.parse()?).await
        }
        _ => Err("the roles are features, router, dealer, push, pull, pub, sub; see roles.rs".into()),
    }
}

fn time(seconds: &str) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(seconds.parse()?)?)
}

fn push_window(size: usize) -> u64 {
    (PUSH_WINDOW_BYTES / size.max(1) as u64).clamp(64, PUSH_WINDOW).next_power_of_two()
}

/// What a client measured.
struct Measured {
    messages: u64,
    elapsed: Duration,
}

fn report(measured: Measured, mut latencies: Vec<Duration>) {
    let Measured { messages, elapsed } = measured;
    let mut line = format!(r#"{{"messages": {messages}, "msgs_per_s": {:.1}"#, messages as f64 / elapsed.as_secs_f64());
    latencies.sort_unstable();
    let micros = |hundredth: usize| latencies.get(latencies.len() * hundredth / 100).map(|l| l.as_secs_f64() * 1e6);
    if let (Some(p50), Some(p99)) = (micros(50), micros(99)) {
        line += &format!(r#", "p50_us": {p50:.2}, "p99_us": {p99:.2}"#);
    }
    println!("{line}}}");
}

// ---- DEALER and ROUTER ----

async fn dealers<L: Library>(endpoint: &str, count: usize, sizes: &str, in_flight: u64, time: Duration) -> Result {
    if count == 0 || in_flight == 0 || in_flight > HWM as u64 || time.is_zero() {
        return Err("needs sockets, messages in flight (no more than the high-water mark), and time".into());
    }
    let ready = Arc::new(Barrier::new(count));
    let mut all = JoinSet::new();
    for _ in 0..count {
        let (dealer, shape, ready) = (L::dealer(endpoint).await?, Shape::new(sizes)?, ready.clone());
        let keep_latencies = count == 1 && in_flight == 1;
        all.spawn(async move { one_dealer::<L>(dealer, shape, in_flight, time, &ready, keep_latencies).await });
    }
    let mut total = Measured { messages: 0, elapsed: Duration::ZERO };
    let mut times = Vec::new();
    while let Some(one) = all.join_next().await {
        let (measured, latencies) = one??;
        total.messages += measured.messages;
        total.elapsed = total.elapsed.max(measured.elapsed);
        times.extend(latencies);
    }
    report(total, times);
    Ok(())
}

async fn one_dealer<L: Library>(
    mut dealer: impl Sends<L> + Receives<L>,
    mut shape: Shape,
    in_flight: u64,
    time: Duration,
    ready: &Barrier,
    keep_latencies: bool,
) -> Result<(Measured, Vec<Duration>)> {
    // Once round before the clock starts.
    dealer.send(shape.message::<L>(0)).await?;
    shape.check::<L>(&dealer.receive().await?, 0)?;
    ready.wait().await;

    let start = Instant::now();
    let mut latencies = Vec::new();
    let (mut sent, mut received) = (0, 0);
    if keep_latencies {
        let mut before = start;
        while before - start < time {
            dealer.send(shape.message::<L>(received)).await?;
            shape.check::<L>(&dealer.receive().await?, received)?;
            let now = Instant::now();
            latencies.push(now - before);
            before = now;
            received += 1;
        }
    } else {
        let mut sending = true;
        while sent < in_flight {
            dealer.send(shape.message::<L>(sent)).await?;
            sent += 1;
        }
        while received < sent {
            shape.check::<L>(&dealer.receive().await?, received)?;
            received += 1;
            if sending {
                dealer.send(shape.message::<L>(sent)).await?;
                sent += 1;
            }
            if received % 256 == 0 {
                sending = start.elapsed() < time;
            }
        }
    }
    Ok((Measured { messages: received, elapsed: start.elapsed() }, latencies))
}

/// What all messages of a DEALER look like. The first frame of 8 bytes or more has the sequence number.
struct Shape {
    sizes: Vec<usize>,
    numbered: usize,
    bodies: Vec<Vec<u8>>,
}

impl Shape {
    fn new(sizes: &str) -> Result<Self> {
        let sizes = sizes.split(',').map(str::parse).collect::<std::result::Result<Vec<usize>, _>>()?;
        let numbered = sizes.iter().position(|&size| size >= 8).ok_or("one frame must have 8 bytes or more")?;
        let bodies = sizes.iter().map(|&size| vec![0; size]).collect();
        Ok(Self { sizes, numbered, bodies })
    }

    fn message<L: Library>(&mut self, number: u64) -> L::Message {
        self.bodies[self.numbered][..8].copy_from_slice(&number.to_le_bytes());
        L::message(self.bodies.iter().map(Vec::as_slice))
    }

    fn check<L: Library>(&self, message: &L::Message, expected: u64) -> Result {
        let mut index = 0;
        for frame in L::frames(message) {
            if self.sizes.get(index) != Some(&frame.len()) {
                return Err("a message changed shape".into());
            }
            if index == self.numbered && frame[..8] != expected.to_le_bytes() {
                return Err(format!("message {expected} is missing").into());
            }
            index += 1;
        }
        if index == self.sizes.len() { Ok(()) } else { Err("a message changed shape".into()) }
    }
}

// ---- PUSH and PULL, PUB and SUB ----

/// Messages in one direction: 8 bytes sequence number, one byte that says whether it is the last, and padding.
struct Stream<L> {
    body: Vec<u8>,
    library: std::marker::PhantomData<L>,
}

impl<L: Library> Stream<L> {
    fn new(size: usize) -> Result<Self> {
        if size < 9 {
            return Err("messages have 9 bytes or more".into());
        }
        Ok(Self { body: vec![0; size], library: std::marker::PhantomData })
    }

    fn message(&mut self, number: u64, last: bool) -> L::Message {
        self.body[..8].copy_from_slice(&number.to_le_bytes());
        self.body[8] = last.into();
        L::message(std::iter::once(self.body.as_slice()))
    }

    /// Sends for that time, then waits to be killed: how to know that all is out differs from library to library.
    async fn send_all(mut self, mut socket: impl Sends<L>, mut window: Window, time: Duration) -> Result {
        // A library may refuse to send while nobody is there.
        while socket.send(self.message(0, false)).await.is_err() {
            sleep(Duration::from_millis(2)).await;
        }
        let start = Instant::now();
        let mut number = 0;
        let mut last = false;
        while !last {
            number += 1;
            if number >= window.end {
                window.wait(number).await?;
            }
            last = number % 256 == 0 && start.elapsed() >= time;
            socket.send(self.message(number, last)).await?;
        }
        pending().await
    }
}

/// Receives what a [`Stream`] sends, greetings aside.
async fn receive_all<L: Library, R: Receives<L>>(
    mut socket: R,
    size: usize,
    progress: Arc<Progress>,
) -> Result<Measured> {
    let mut greeted = false;
    let mut start = None;
    let mut received = 0;
    loop {
        let message = socket.receive().await?;
        let mut frames = L::frames(&message);
        let (Some(frame), None) = (frames.next(), frames.next()) else { return Err("a message changed shape".into()) };
        let Some((number, rest)) = frame.split_first_chunk().filter(|_| frame.len() == size) else {
            return Err("a message changed shape".into());
        };
        match u64::from_le_bytes(*number) {
            HELLO => {
                if !std::mem::replace(&mut greeted, true) {
                    progress.hello()?;
                }
                continue;
            }
            number if number != received => {
                return Err(format!("{} message(s) missing before {number}", number.wrapping_sub(received)).into());
            }
            _ => received += 1,
        }
        let start = *start.get_or_insert_with(Instant::now);
        if received & (progress.step - 1) == 0 {
            progress.made(received / progress.step)?;
        }
        if rest[0] == 1 {
            return Ok(Measured { messages: received, elapsed: start.elapsed() });
        }
    }
}

async fn subscribers<L: Library>(endpoint: &str, control: &str, size: usize, count: usize) -> Result {
    let progress = Progress::connect(control, PUB_WINDOW, count).await?;
    let mut all = JoinSet::new();
    for _ in 0..count {
        let socket = L::subscribe(endpoint).await?;
        all.spawn(receive_all::<L, _>(socket, size, progress.clone()));
    }
    let mut total = Measured { messages: 0, elapsed: Duration::ZERO };
    while let Some(one) = all.join_next().await {
        let one = one??;
        total.messages += one.messages;
        total.elapsed = total.elapsed.max(one.elapsed);
    }
    report(total, Vec::new());
    Ok(())
}

/// The sender's end of the control connection: how far ahead of its receivers it may be.
struct Window {
    control: Control,
    /// Receivers tell of every so many messages.
    step: u64,
    /// The first sequence number that is too far ahead.
    end: u64,
}

enum Control {
    Listening(TcpListener),
    Connected(TcpStream),
}

impl Window {
    async fn listen(control: &str, window: u64) -> Result<Self> {
        let address: SocketAddr = control.parse()?;
        Ok(Self { control: Control::Listening(TcpListener::bind(address).await?), step: window / 4, end: window })
    }

    /// Whether all receivers have said that they hear us.
    async fn opened(&mut self) -> Result<bool> {
        let before = self.end;
        self.read(false).await?;
        let opened = self.end > before;
        self.end = before;
        Ok(opened)
    }

    /// Waits until a message of this number is within the window.
    async fn wait(&mut self, number: u64) -> Result {
        while number >= self.end {
            timeout(PATIENCE, self.read(true)).await.map_err(|_| "the receivers got stuck, or lost messages")??;
        }
        Ok(())
    }

    async fn read(&mut self, wait: bool) -> Result {
        if let Control::Listening(listener) = &self.control {
            self.control = Control::Connected(listener.accept().await?.0);
        }
        let Control::Connected(stream) = &self.control else { return Ok(()) };
        if wait {
            stream.readable().await?;
        }
        let mut credits = [0; 64];
        match stream.try_read(&mut credits) {
            Ok(0) => Err("the receivers went away".into()),
            Ok(credits) => {
                self.end += credits as u64 * self.step;
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The receivers' end of the control connection, which they share. A byte goes over it when all have heard the sender,
/// and for every step that all have made.
struct Progress {
    control: TcpStream,
    step: u64,
    receivers: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    greeted: usize,
    /// Steps that all have made.
    all_made: u64,
    /// How many have made the step after those, the one after that, ...
    made: VecDeque<usize>,
}

impl Progress {
    async fn connect(control: &str, window: u64, receivers: usize) -> Result<Arc<Self>> {
        let address: SocketAddr = control.parse()?;
        let start = Instant::now();
        let control = loop {
            match TcpStream::connect(address).await {
                Ok(control) => break control,
                Err(error) if start.elapsed() > PATIENCE => return Err(error.into()),
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        };
        control.set_nodelay(true)?;
        Ok(Arc::new(Self { control, step: window / 4, receivers, state: Mutex::default() }))
    }

    /// Says that one more receiver hears the sender.
    fn hello(&self) -> Result {
        let mut state = self.state();
        state.greeted += 1;
        if state.greeted == self.receivers { self.say() } else { Ok(()) }
    }

    /// Says that one more receiver has made this step; they count from 1.
    fn made(&self, step: u64) -> Result {
        let mut state = self.state();
        let ahead = usize::try_from(step - 1 - state.all_made)?;
        if state.made.len() <= ahead {
            state.made.resize(ahead + 1, 0);
        }
        state.made[ahead] += 1;
        while state.made.front() == Some(&self.receivers) {
            state.made.pop_front();
            state.all_made += 1;
            self.say()?;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self) -> Result {
        self.control.try_write(&[1])?;
        Ok(())
    }
}
