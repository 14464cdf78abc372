//! Sets of known clients that can be changed while sockets use them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{Accepted, Authenticator, Credentials, Refusal, Request};
use crate::mechanism::CredentialsError;
use crate::mechanism::curve::PublicKey;
use crate::mechanism::plain::MAX_FIELD;

/// A map behind a lock that is held for one look-up, and never while anything else runs.
#[derive(Debug)]
struct Shared<K, V>(Arc<RwLock<HashMap<K, V>>>);

impl<K, V> Shared<K, V> {
    fn read(&self) -> RwLockReadGuard<'_, HashMap<K, V>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<K, V>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> Clone for Shared<K, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K, V> Default for Shared<K, V> {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(HashMap::new())))
    }
}

/// The clients whose public keys are known; others, and other mechanisms, are denied.
///
/// A clone is another handle to the same set. Changes count from the next handshake on; connections that stand are
/// left alone.
///
/// ```
/// use zmtp::auth::CurveKeys;
/// use zmtp::{KeyPair, Router, Security};
///
/// let (server, worker) = (KeyPair::generate()?, KeyPair::generate()?);
/// let keys = CurveKeys::new();
/// let router = Router::builder().security(Security::curve_server(server, keys.clone())).build();
/// // Later, say when a file of keys has changed:
/// keys.replace([(worker.public(), "worker-1")]);
/// # Ok::<(), zmtp::EntropyError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct CurveKeys(Shared<PublicKey, Arc<Accepted>>);

impl CurveKeys {
    /// Nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets a client in, under a user id.
    pub fn insert(&self, key: PublicKey, user_id: impl Into<String>) {
        self.insert_with(key, Accepted::user(user_id));
    }

    /// Lets a client in, with all that is known of it.
    pub fn insert_with(&self, key: PublicKey, client: Accepted) {
        self.0.write().insert(key, Arc::new(client));
    }

    /// Lets a client in no more; whether it was known.
    pub fn remove(&self, key: &PublicKey) -> bool {
        self.0.write().remove(key).is_some()
    }

    /// Exchanges the whole set at once: no handshake sees half of it.
    pub fn replace<U: Into<String>>(&self, clients: impl IntoIterator<Item = (PublicKey, U)>) {
        let clients = clients.into_iter().map(|(key, user_id)| (key, Arc::new(Accepted::user(user_id)))).collect();
        let old = std::mem::replace(&mut *self.0.write(), clients);
        drop(old);
    }

    /// How many clients are known.
    pub fn len(&self) -> usize {
        self.0.read().len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Authenticator for CurveKeys {
    fn authenticate(&self, request: &Request<'_>) -> Result<Accepted, Refusal> {
        let Credentials::Curve(key) = request.credentials else { return Err(Refusal::Denied) };
        let client = self.0.read().get(&key).cloned();
        client.map(|client| (*client).clone()).ok_or(Refusal::Denied)
    }
}

/// The clients with a user name and password under PLAIN; others, and other mechanisms, are denied.
///
/// A clone is another handle to the same set. How long an answer takes tells nothing of a password.
#[derive(Clone, Default)]
pub struct Passwords(Shared<Box<[u8]>, Padded>);

/// A password at a fixed length, so that comparing it takes the same time whatever it is compared with.
/// Boxed, so that it is never moved and leaves no copy behind.
struct Padded(Box<Zeroizing<[u8; MAX_FIELD + 1]>>);

impl Padded {
    fn new(password: &[u8]) -> Result<Self, CredentialsError> {
        let mut padded = Box::new(Zeroizing::new([0; MAX_FIELD + 1]));
        padded[0] = u8::try_from(password.len()).map_err(|_| CredentialsError(password.len()))?;
        padded[1..][..password.len()].copy_from_slice(password);
        Ok(Self(padded))
    }
}

impl Passwords {
    /// Nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets a user in by this password, and by no earlier one. The name is the user id.
    ///
    /// # Errors
    /// Name or password is longer than 255 bytes.
    pub fn insert(&self, user: impl AsRef<[u8]>, password: impl AsRef<[u8]>) -> Result<(), CredentialsError> {
        let user = user.as_ref();
        if user.len() > MAX_FIELD {
            return Err(CredentialsError(user.len()));
        }
        let padded = Padded::new(password.as_ref())?;
        self.0.write().insert(user.into(), padded);
        Ok(())
    }

    /// Lets a user in no more; whether it was known.
    pub fn remove(&self, user: impl AsRef<[u8]>) -> bool {
        self.0.write().remove(user.as_ref()).is_some()
    }
}

impl Authenticator for Passwords {
    fn authenticate(&self, request: &Request<'_>) -> Result<Accepted, Refusal> {
        let Credentials::Plain { user, password } = request.credentials else { return Err(Refusal::Denied) };
        let given = Padded::new(password).map_err(|_| Refusal::Denied)?;
        let users = self.0.read();
        // An unknown user is compared too, with what no password equals: its length would be 255 and its end missing.
        let nobody = Padded(Box::new(Zeroizing::new([0xff; MAX_FIELD + 1])));
        let (known, expected) = users.get(user).map_or((0u8, &nobody), |password| (1, password));
        if bool::from(known.ct_eq(&1) & expected.0.ct_eq(&given.0[..])) {
            Ok(Accepted::user(String::from_utf8_lossy(user)))
        } else {
            Err(Refusal::Denied)
        }
    }
}

impl fmt::Debug for Passwords {
    /// How many there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Passwords({} users)", self.0.read().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain<'a>(user: &'a str, password: &'a str) -> Request<'a> {
        let credentials = Credentials::Plain { user: user.as_bytes(), password: password.as_bytes() };
        Request::new("", None, credentials)
    }

    #[test]
    fn passwords_are_compared_whole() {
        let passwords = Passwords::new();
        passwords.insert("admin", "secret").unwrap();
        passwords.insert("empty", "").unwrap();
        let long = "x".repeat(255);
        passwords.insert(&long, &long).unwrap();
        assert_eq!(passwords.authenticate(&plain("admin", "secret")), Ok(Accepted::user("admin")));
        assert_eq!(passwords.authenticate(&plain("empty", "")), Ok(Accepted::user("empty")));
        assert_eq!(passwords.authenticate(&plain(&long, &long)), Ok(Accepted::user(long.clone())));
        for (user, password) in [
            ("admin", ""),
            ("admin", "secre"),
            ("admin", "secret\0"),
            ("admin", "secret1"),
            ("Admin", "secret"),
            ("", ""),
            ("nobody", &"\u{ff}".repeat(127)),
            (&long, &long[1..]),
        ] {
            assert_eq!(passwords.authenticate(&plain(user, password)), Err(Refusal::Denied), "{user} {password}");
        }
        // The filler of unknown users is no password either.
        let filler = Credentials::Plain { user: b"nobody", password: &[0xff; 255] };
        assert_eq!(passwords.authenticate(&Request::new("", None, filler)), Err(Refusal::Denied));
        assert_eq!(passwords.authenticate(&Request::new("", None, Credentials::Null)), Err(Refusal::Denied));
    }

    #[test]
    fn passwords_change_for_all_handles() {
        let passwords = Passwords::new();
        let other = passwords.clone();
        other.insert("admin", "old").unwrap();
        other.insert("admin", "new").unwrap();
        assert_eq!(passwords.authenticate(&plain("admin", "old")), Err(Refusal::Denied));
        assert!(passwords.authenticate(&plain("admin", "new")).is_ok());
        assert!(other.remove("admin"));
        assert!(!other.remove("admin"));
        assert_eq!(passwords.authenticate(&plain("admin", "new")), Err(Refusal::Denied));
        let too_long = "x".repeat(256);
        assert_eq!(passwords.insert(&too_long, ""), Err(CredentialsError(256)));
        assert_eq!(passwords.insert("", &too_long), Err(CredentialsError(256)));
    }

    #[test]
    fn secrets_are_not_shown() {
        let passwords = Passwords::new();
        passwords.insert("admin", "secret").unwrap();
        assert_eq!(format!("{passwords:?}"), "Passwords(1 users)");
        assert_eq!(format!("{:?}", plain("admin", "secret").credentials), "Plain(\"admin\", ..)");
    }

    #[test]
    fn keys_change_for_all_handles() {
        let [a, b] = [PublicKey::from([1; 32]), PublicKey::from([2; 32])];
        let ask = |keys: &CurveKeys, key| keys.authenticate(&Request::new("", None, Credentials::Curve(key)));
        let keys = CurveKeys::new();
        let other = keys.clone();
        assert_eq!(ask(&keys, a), Err(Refusal::Denied));
        other.insert(a, "a");
        assert_eq!(ask(&keys, a), Ok(Accepted::user("a")));
        other.replace([(b, "b")]);
        assert_eq!((ask(&keys, a), ask(&keys, b)), (Err(Refusal::Denied), Ok(Accepted::user("b"))));
        assert_eq!((keys.len(), keys.remove(&a), keys.remove(&b)), (1, false, true));
        assert!(other.is_empty());
        other.insert_with(a, Accepted::user("a").with("Role", "admin"));
        assert_eq!(ask(&keys, a).unwrap().metadata[0].value, "admin");
        assert_eq!(keys.authenticate(&plain("a", "")), Err(Refusal::Denied));
    }
}
