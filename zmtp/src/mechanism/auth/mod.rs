//! Who may connect: the question an application answers, and ready-made answers (what ZAP, RFC 27, is in libzmq).
//!
//! * [`AllowAny`]: everybody; for CURVE that only encrypts.
//! * [`CurveKeys`]: clients with a known public key.
//! * [`Passwords`]: clients with a user name and password.
//! * [`AddressFilter`]: by IP network; under any mechanism.
//! * [`Authenticator::and`]: two of them that both have to agree.
//!
//! Sets can be changed while sockets use them: cloning one gives another handle to the same set.

mod addresses;
mod known;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

pub use self::addresses::{AddressFilter, IpNetwork, IpNetworkError};
pub use self::known::{CurveKeys, Passwords};
use super::curve::PublicKey;
use crate::PeerAddress;
use crate::wire::properties::Property;

/// Decides which peers may connect.
///
/// Asked by the connection's own task, once a peer has shown that its credentials are its own, and before it can send
/// anything. So an answer must not wait for anything: look it up in memory, and change what is there from elsewhere.
///
/// ```
/// use zmtp::auth::{Accepted, Authenticator, Credentials, Refusal, Request};
///
/// /// Clients may use any key, but only in working hours.
/// #[derive(Debug)]
/// struct Office {
///     open: std::sync::atomic::AtomicBool,
/// }
///
/// impl Authenticator for Office {
///     fn authenticate(&self, request: &Request<'_>) -> Result<Accepted, Refusal> {
///         let Credentials::Curve(key) = request.credentials else { return Err(Refusal::Denied) };
///         if !self.open.load(std::sync::atomic::Ordering::Relaxed) {
///             return Err(Refusal::Temporary);
///         }
///         Ok(Accepted::user(key.to_string()).with("Office", "open"))
///     }
/// }
/// ```
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// Accepts a peer or refuses it.
    ///
    /// # Errors
    /// How it is refused.
    fn authenticate(&self, request: &Request<'_>) -> Result<Accepted, Refusal>;

    /// Both have to accept a peer; this one is asked first.
    ///
    /// The user id is the second's if that gives one, else the first's; the metadata of both is kept.
    ///
    /// ```
    /// use zmtp::auth::{AddressFilter, Authenticator, CurveKeys};
    ///
    /// let keys = CurveKeys::new();
    /// let both = AddressFilter::new().allow("10.0.0.0/8".parse()?).and(keys);
    /// # Ok::<(), zmtp::auth::IpNetworkError>(())
    /// ```
    fn and<A: Authenticator>(self, other: A) -> Both<Self, A>
    where
        Self: Sized,
    {
        Both(self, other)
    }
}

/// A peer that wants to connect.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Request<'a> {
    /// The name of what is guarded, from [`Security::domain`](crate::Security::domain).
    pub domain: &'a str,
    /// Where the peer is, if that is known.
    pub address: Option<PeerAddress>,
    /// What it proves itself by; tells the mechanism too.
    pub credentials: Credentials<'a>,
}

impl<'a> Request<'a> {
    /// A request as a connection makes it, to try an authenticator with.
    pub fn new(domain: &'a str, address: Option<PeerAddress>, credentials: Credentials<'a>) -> Self {
        Self { domain, address, credentials }
    }
}

/// What a peer proves itself by under its mechanism.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credentials<'a> {
    /// Nothing.
    Null,
    /// User name and password, each 0 to 255 bytes.
    Plain {
        /// The user name.
        user: &'a [u8],
        /// The password.
        password: &'a [u8],
    },
    /// The public key whose secret the peer has shown to have.
    Curve(PublicKey),
}

impl fmt::Debug for Credentials<'_> {
    /// All but the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Plain { user, .. } => write!(f, "Plain(\"{}\", ..)", user.escape_ascii()),
            Self::Curve(key) => write!(f, "Curve({key})"),
        }
    }
}

/// What an authenticator tells of a peer it accepts; the socket finds it in [`PeerInfo`](crate::PeerInfo).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Who the peer is; may be empty.
    pub user_id: String,
    /// Whatever else is known of it.
    pub metadata: Vec<Property>,
}

impl Accepted {
    /// Accepted without a name.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Accepted as a user.
    pub fn user(id: impl Into<String>) -> Self {
        Self { user_id: id.into(), metadata: Vec::new() }
    }

    /// With one more piece of metadata.
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let name = Bytes::copy_from_slice(name.as_bytes());
        self.metadata.push(Property { name, value: Bytes::copy_from_slice(value.as_ref()) });
        self
    }
}

/// How a peer is refused (RFC 27, "Status codes").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum Refusal {
    /// 300: not now. The connection is closed without a word, so the peer comes back.
    #[error("not now (300)")]
    Temporary,
    /// 400: not this peer. It is told so, and most do not come back.
    #[error("denied (400)")]
    Denied,
    /// 500: we cannot tell. The peer is told so.
    #[error("internal error (500)")]
    Internal,
}

impl Refusal {
    /// The status code that goes over the wire.
    pub fn code(self) -> u16 {
        match self {
            Self::Temporary => 300,
            Self::Denied => 400,
            Self::Internal => 500,
        }
    }
}

/// Accepts everybody.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAny;

impl Authenticator for AllowAny {
    fn authenticate(&self, _: &Request<'_>) -> Result<Accepted, Refusal> {
        Ok(Accepted::anonymous())
    }
}

/// Two authenticators that both have to accept; made by [`Authenticator::and`].
#[derive(Debug, Clone)]
pub struct Both<A, B>(A, B);

impl<A: Authenticator, B: Authenticator> Authenticator for Both<A, B> {
    fn authenticate(&self, request: &Request<'_>) -> Result<Accepted, Refusal> {
        let first = self.0.authenticate(request)?;
        let second = self.1.authenticate(request)?;
        let user_id = if second.user_id.is_empty() { first.user_id } else { second.user_id };
        Ok(Accepted { user_id, metadata: [first.metadata, second.metadata].concat() })
    }
}

impl<A: Authenticator + ?Sized> Authenticator for Arc<A> {
    fn authenticate(&self, request: &Request<'_>) -> Result<Accepted, Refusal> {
        (**self).authenticate(request)
    }
}

/// An authenticator and what it guards.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    authenticator: Arc<dyn Authenticator>,
    pub(super) domain: Arc<str>,
}

impl Gate {
    pub(super) fn new(authenticator: impl Authenticator + 'static) -> Self {
        Self { authenticator: Arc::new(authenticator), domain: "".into() }
    }

    pub(super) fn ask(&self, credentials: Credentials<'_>, address: Option<PeerAddress>) -> Result<Accepted, Refusal> {
        self.authenticator.authenticate(&Request { domain: &self.domain, address, credentials })
    }
}
