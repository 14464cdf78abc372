//! Keys: long-term pairs of 32-byte Curve25519 keys, and what two of them agree on.

use std::fmt;
use std::str::FromStr;

use dryoc::classic::crypto_core::crypto_core_hsalsa20;
use thiserror::Error;
use x25519_dalek::StaticSecret;
use zeroize::{Zeroize, Zeroizing};

use crate::mechanism::{Entropy, EntropyError, SecurityFault, SystemEntropy};
use crate::wire::z85::{self, Z85Error};

/// Length of a key, in bytes.
pub const KEY_LEN: usize = 32;

/// A public key. Shown, parsed and exchanged as 40 characters of Z85 (RFC 32).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey([u8; KEY_LEN]);

/// A secret key. Wiped when dropped, never shown; [`to_z85`](Self::to_z85) is the one way to see it.
#[derive(Clone)]
pub struct SecretKey(Zeroizing<[u8; KEY_LEN]>);

/// A secret key and the public key that belongs to it.
///
/// ```
/// use zmtp::KeyPair;
///
/// let pair = KeyPair::generate()?;
/// let stored = pair.secret().to_z85();
/// assert_eq!(KeyPair::from_secret(stored.parse()?).public(), pair.public());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct KeyPair {
    public: PublicKey,
    secret: SecretKey,
}

/// Why a text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not Z85 at all.
    #[error("not a key: {0}")]
    Z85(#[from] Z85Error),
    /// Z85 of another length.
    #[error("not a key: {0} bytes instead of 32 (a key is 40 characters)")]
    Length(usize),
}

impl PublicKey {
    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    pub(super) fn of(secret: &SecretKey) -> Self {
        Self(x25519_dalek::PublicKey::from(&secret.to_dalek()).to_bytes())
    }
}

impl SecretKey {
    /// The key as 40 characters of Z85, to be stored where nobody else reads it. The text is wiped when dropped.
    pub fn to_z85(&self) -> Zeroizing<String> {
        // 32 bytes are eight groups: there is nothing that could fail.
        Zeroizing::new(z85::encode(&self.0[..]).unwrap_or_default())
    }

    pub(super) fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    pub(super) fn generate(entropy: &dyn Entropy) -> Result<Self, EntropyError> {
        let mut key = Self(Zeroizing::new([0; KEY_LEN]));
        entropy.fill(&mut key.0[..])?;
        Ok(key)
    }

    fn to_dalek(&self) -> StaticSecret {
        StaticSecret::from(*self.0)
    }
}

impl KeyPair {
    /// A new pair from the system's randomness.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub fn generate() -> Result<Self, EntropyError> {
        Self::from_entropy(&SystemEntropy)
    }

    /// The pair of a secret key kept from earlier.
    pub fn from_secret(secret: SecretKey) -> Self {
        Self { public: PublicKey::of(&secret), secret }
    }

    /// The half for everybody.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The half for nobody else.
    pub fn secret(&self) -> &SecretKey {
        &self.secret
    }

    pub(super) fn from_entropy(entropy: &dyn Entropy) -> Result<Self, EntropyError> {
        SecretKey::generate(entropy).map(Self::from_secret)
    }
}

/// What the owners of two key pairs compute, each from its own secret and the other's public key (`crypto_box_beforenm`
/// of NaCl): the key of all boxes between them. Wiped when dropped.
#[derive(Clone)]
pub(crate) struct SharedKey(Zeroizing<[u8; KEY_LEN]>);

/// A public key of low order: with it anybody knows the shared key, so no honest peer has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WeakKey;

impl SharedKey {
    pub(super) fn agree(ours: &SecretKey, theirs: &PublicKey) -> Result<Self, WeakKey> {
        let point = ours.to_dalek().diffie_hellman(&theirs.0.into());
        if !point.was_contributory() {
            return Err(WeakKey);
        }
        let mut key = Self(Zeroizing::new([0; KEY_LEN]));
        crypto_core_hsalsa20(&mut key.0, &[0; 16], point.as_bytes(), None);
        Ok(key)
    }

    /// A key that nobody shares: for what we seal for ourselves.
    pub(super) fn generate(entropy: &dyn Entropy) -> Result<Self, EntropyError> {
        SecretKey::generate(entropy).map(|key| Self(key.0))
    }

    pub(super) fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

impl From<[u8; KEY_LEN]> for PublicKey {
    fn from(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }
}

impl From<[u8; KEY_LEN]> for SecretKey {
    fn from(mut bytes: [u8; KEY_LEN]) -> Self {
        let key = Self(Zeroizing::new(bytes));
        bytes.zeroize();
        key
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    /// From 40 characters of Z85.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        decode(text).map(|bytes| Self(*bytes))
    }
}

impl FromStr for SecretKey {
    type Err = KeyError;

    /// From 40 characters of Z85.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        decode(text).map(Self)
    }
}

fn decode(text: &str) -> Result<Zeroizing<[u8; KEY_LEN]>, KeyError> {
    let bytes = Zeroizing::new(z85::decode(text)?);
    let mut key = Zeroizing::new([0; KEY_LEN]);
    if bytes.len() != KEY_LEN {
        return Err(KeyError::Length(bytes.len()));
    }
    key.copy_from_slice(&bytes);
    Ok(key)
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&z85::encode(&self.0).unwrap_or_default())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.public)
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey(..)")
    }
}

impl From<WeakKey> for SecurityFault {
    fn from(_: WeakKey) -> Self {
        Self::WeakKey
    }
}
