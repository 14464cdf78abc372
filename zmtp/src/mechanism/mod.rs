//! Security mechanisms: who may connect, and whether what is said is read by others (RFC 23 and 37).
//!
//! A socket has exactly one, chosen by its [`Security`]; ZMTP does not negotiate. During the handshake a mechanism is a
//! state machine that is given the peer's commands one by one and writes its own; its states are values that are
//! moved. What it leaves for the time afterwards is two transforms, or none.

pub mod auth;
pub(crate) mod curve;
mod fault;
mod null;
pub(crate) mod peer;
mod plain;

use std::fmt;
use std::sync::Arc;

use bytes::BytesMut;
use thiserror::Error;

use self::auth::{Authenticator, Gate};
use self::curve::sealed::{Opener, Sealer};
use self::curve::{ClientKeys, KeyPair, PublicKey, ServerKeys};
pub use self::fault::{SecurityFault, Stage};
pub use self::plain::CredentialsError;
use self::plain::UserPassword;
use crate::PeerAddress;
use crate::connection::{ConnectionConfig, ConnectionError, PeerInfo};
use crate::wire::greeting::{GREETING_LEN, Greeting, MechanismName, Version};

/// Largest READY or INITIATE under PLAIN and CURVE, in bytes: what they carry is a few properties.
const MAX_PROPERTIES: u64 = 8 * 1024;
/// Length of the longest ERROR, in bytes.
const MAX_ERROR: u64 = 6 + 1 + 255;

/// How a socket secures its connections: one mechanism with what it needs.
///
/// Client and server are roles of their own: they have nothing to do with who binds and who connects.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use zmtp::auth::CurveKeys;
/// use zmtp::{Dealer, KeyPair, Message, Router, Security};
///
/// let (server, client) = (KeyPair::generate()?, KeyPair::generate()?);
/// let known = CurveKeys::new();
/// known.insert(client.public(), "worker-1");
///
/// let mut router = Router::builder().security(Security::curve_server(server.clone(), known)).build();
/// let endpoint = router.bind(&"tcp://127.0.0.1:0".parse()?).await?;
///
/// let dealer = Dealer::builder().security(Security::curve_client(server.public(), client)).build();
/// dealer.connect(&endpoint)?;
/// dealer.send(Message::from("nobody else reads this")).await?;
/// assert_eq!(router.recv().await?.1, Message::from("nobody else reads this"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Security(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Null(Option<Gate>),
    PlainClient(Arc<UserPassword>),
    PlainServer(Gate),
    CurveClient(Arc<ClientKeys>),
    CurveServer(Arc<ServerKeys>, Gate),
}

impl Security {
    /// NULL: everybody may connect, everything is in clear. The default.
    pub fn null() -> Self {
        Self(Kind::Null(None))
    }

    /// NULL, but an authenticator decides by the peer's address.
    ///
    /// ```
    /// use zmtp::auth::AddressFilter;
    /// use zmtp::{Router, Security};
    ///
    /// let filter = AddressFilter::new().allow("127.0.0.0/8".parse()?).allow("10.1.0.0/16".parse()?);
    /// let router = Router::builder().security(Security::null_with(filter)).build();
    /// # Ok::<(), zmtp::auth::IpNetworkError>(())
    /// ```
    pub fn null_with(authenticator: impl Authenticator + 'static) -> Self {
        Self(Kind::Null(Some(Gate::new(authenticator))))
    }

    /// PLAIN, proving who we are by user name and password (PLAIN_USERNAME, PLAIN_PASSWORD). They go over the wire in
    /// clear, like everything else: for networks that can be trusted, or through a tunnel.
    ///
    /// # Errors
    /// One of them is longer than 255 bytes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use zmtp::auth::Passwords;
    /// use zmtp::{Dealer, Message, Router, Security};
    ///
    /// let passwords = Passwords::new();
    /// passwords.insert("admin", "secret")?;
    /// let mut router = Router::builder().security(Security::plain_server(passwords)).build();
    /// let endpoint = router.bind(&"tcp://127.0.0.1:0".parse()?).await?;
    ///
    /// let dealer = Dealer::builder().security(Security::plain_client("admin", "secret")?).build();
    /// dealer.connect(&endpoint)?;
    /// dealer.send(Message::from("hello")).await?;
    /// assert_eq!(router.recv().await?.1, Message::from("hello"));
    /// # Ok(()) }
    /// ```
    pub fn plain_client(user: impl AsRef<[u8]>, password: impl AsRef<[u8]>) -> Result<Self, CredentialsError> {
        UserPassword::new(user.as_ref(), password.as_ref()).map(|pair| Self(Kind::PlainClient(Arc::new(pair))))
    }

    /// PLAIN, asking peers for user name and password (PLAIN_SERVER).
    pub fn plain_server(authenticator: impl Authenticator + 'static) -> Self {
        Self(Kind::PlainServer(Gate::new(authenticator)))
    }

    /// CURVE to the one server that has the secret of this public key (CURVE_SERVERKEY, CURVE_SECRETKEY). The pair is
    /// what the server may know us by; a fresh one if it lets everybody in.
    pub fn curve_client(server: PublicKey, ours: KeyPair) -> Self {
        Self::curve_client_from(server, ours, Arc::new(SystemEntropy))
    }

    /// CURVE for clients that know our public key (CURVE_SERVER, CURVE_SECRETKEY). The authenticator decides on theirs;
    /// [`AllowAny`](auth::AllowAny) if it is only for encryption.
    pub fn curve_server(ours: KeyPair, authenticator: impl Authenticator + 'static) -> Self {
        Self::curve_server_from(ours, authenticator, Arc::new(SystemEntropy))
    }

    /// Names what the authenticator guards (ZAP_DOMAIN), for one that serves several sockets. Default: empty.
    pub fn domain(mut self, domain: impl Into<Arc<str>>) -> Self {
        if let Kind::Null(Some(gate)) | Kind::PlainServer(gate) | Kind::CurveServer(_, gate) = &mut self.0 {
            gate.domain = domain.into();
        }
        self
    }

    /// The mechanism's name in the greeting.
    pub fn mechanism(&self) -> MechanismName {
        match &self.0 {
            Kind::Null(_) => MechanismName::NULL,
            Kind::PlainClient(_) | Kind::PlainServer(_) => MechanismName::PLAIN,
            Kind::CurveClient(_) | Kind::CurveServer(..) => MechanismName::CURVE,
        }
    }

    /// Whether a peer of a protocol without mechanisms (ZMTP 1.0 and 2.0) may be served: nobody is to get around a
    /// check by speaking an older language.
    pub fn allows_older_protocols(&self) -> bool {
        matches!(self.0, Kind::Null(None))
    }

    pub(crate) fn greeting(&self) -> [u8; GREETING_LEN] {
        match &self.0 {
            Kind::PlainServer(_) | Kind::CurveServer(..) => Greeting::encode_as_server(self.mechanism()),
            _ => Greeting::encode(self.mechanism()),
        }
    }

    fn curve_client_from(server: PublicKey, pair: KeyPair, entropy: Arc<dyn Entropy>) -> Self {
        Self(Kind::CurveClient(Arc::new(ClientKeys { server, pair, entropy })))
    }

    fn curve_server_from(pair: KeyPair, gate: impl Authenticator + 'static, entropy: Arc<dyn Entropy>) -> Self {
        Self(Kind::CurveServer(Arc::new(ServerKeys { pair, entropy }), Gate::new(gate)))
    }
}

impl Default for Security {
    /// NULL.
    fn default() -> Self {
        Self::null()
    }
}

/// One mechanism's handshake, from the peer's greeting on.
#[derive(Debug)]
pub(crate) enum Mechanism {
    Null(null::Null),
    PlainClient(plain::Client),
    PlainServer(plain::Server),
    CurveClient(Box<curve::client::Client>),
    CurveServer(Box<curve::server::Server>),
}

/// What a command of the peer led to.
#[derive(Debug)]
pub(crate) enum Step {
    /// Another one is awaited.
    Next(Mechanism),
    /// The handshake is complete.
    Done(Box<PeerInfo>, Transforms),
}

/// What happens to frames once the handshake is complete.
#[derive(Debug)]
pub(crate) enum Transforms {
    Clear,
    Sealed(Sealer, Opener),
}

/// What the handshake of one connection may see and do.
pub(crate) struct Context<'a> {
    pub(crate) config: &'a ConnectionConfig,
    pub(crate) version: Version,
    pub(crate) address: Option<PeerAddress>,
    pub(crate) out: &'a mut Vec<u8>,
}

impl Mechanism {
    /// Begins the handshake: the peer's greeting is in, and names our mechanism.
    pub(crate) fn start(cx: &mut Context<'_>) -> Result<Self, ConnectionError> {
        Ok(match &cx.config.security.0 {
            Kind::Null(gate) => Self::Null(null::Null::start(gate.as_ref(), cx)?),
            Kind::PlainClient(pair) => Self::PlainClient(plain::Client::start(pair, cx)),
            Kind::PlainServer(gate) => Self::PlainServer(plain::Server::start(gate.clone())),
            Kind::CurveClient(keys) => Self::CurveClient(Box::new(curve::client::Client::start(keys.clone(), cx)?)),
            Kind::CurveServer(keys, gate) => {
                Self::CurveServer(Box::new(curve::server::Server::start(keys.clone(), gate.clone())))
            }
        })
    }

    /// Takes the body of one command.
    pub(crate) fn step(self, body: BytesMut, cx: &mut Context<'_>) -> Result<Step, ConnectionError> {
        match self {
            Self::Null(state) => state.step(&body, cx),
            Self::PlainClient(state) => state.step(&body, cx),
            Self::PlainServer(state) => state.step(body, cx),
            Self::CurveClient(state) => state.step(body, cx),
            Self::CurveServer(state) => state.step(body, cx),
        }
    }

    /// What the peer has to send next.
    pub(crate) fn awaits(&self) -> Stage {
        match self {
            Self::Null(_) => Stage::Ready,
            Self::PlainClient(state) => state.awaits(),
            Self::PlainServer(state) => state.awaits(),
            Self::CurveClient(state) => state.awaits(),
            Self::CurveServer(state) => state.awaits(),
        }
    }

    /// The largest command that may come next, in bytes.
    pub(crate) fn max_command(&self) -> u64 {
        match self {
            // Generous, apart from the limits for messages (zmtp.md pitfall 17).
            Self::Null(_) => 64 * 1024,
            Self::PlainClient(_) | Self::PlainServer(_) => MAX_PROPERTIES,
            Self::CurveClient(state) => state.max_command(),
            Self::CurveServer(state) => state.max_command(),
        }
    }
}

/// Where secrets come from. Only tests have another one than the system.
pub(crate) trait Entropy: fmt::Debug + Send + Sync {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError>;
}

/// The system's randomness.
#[derive(Debug)]
pub(crate) struct SystemEntropy;

/// The system has no randomness to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the system has no randomness to give")]
pub struct EntropyError;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        getrandom::fill(bytes).map_err(|_| EntropyError)
    }
}
