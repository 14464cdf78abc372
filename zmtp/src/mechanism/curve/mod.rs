//! CURVE (RFC 25, RFC 26): authenticated and encrypted by Curve25519, XSalsa20 and Poly1305.
//!
//! The handshake is one state machine each for [`client`] and [`server`]; afterwards every frame travels inside a
//! MESSAGE command ([`sealed`]). Where RFC and libzmq differ, we do what interoperates.
//!
//! # The crates below
//! Everything cryptographic goes through two doors, so that a crate can be exchanged:
//! * `SharedKey::agree`: X25519 by `x25519-dalek`. The long-term keys only ever meet this crate, the most read and
//!   most used implementation in Rust, constant-time by construction.
//! * `seal` and `open` below: XSalsa20-Poly1305 by `dryoc`, because encryption is all of the cost once a connection
//!   stands: it keeps up with libsodium, while RustCrypto's `crypto_box`, the audited alternative, has no vectorised
//!   Salsa20 and is several times slower. The price is `unsafe` vector code without an audit. We pay it for a cipher
//!   that has no secret-dependent branches or look-ups to get wrong: what remains to be shown is that it computes the
//!   right bytes, and the tests compare it with `crypto_box` and recorded libsodium output.

pub(crate) mod client;
mod keys;
pub(crate) mod sealed;
pub(crate) mod server;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use dryoc::classic::crypto_box::{crypto_box_detached_afternm_inplace, crypto_box_open_detached_afternm_inplace};

use self::keys::SharedKey;
pub use self::keys::{KEY_LEN, KeyError, KeyPair, PublicKey, SecretKey};
use super::{Entropy, SecurityFault};

/// What a box is longer than what it holds, in bytes.
const TAG: usize = 16;
/// Length of a counter on the wire, in bytes.
const COUNTER: usize = 8;
/// Length of the random part of a nonce, in bytes.
const RANDOM: usize = 16;
/// A cookie as it travels: nonce and box of C' and s'.
const COOKIE: usize = RANDOM + TAG + 2 * KEY_LEN;
/// A vouch as it travels: nonce and box of C' and S.
const VOUCH: usize = RANDOM + TAG + 2 * KEY_LEN;

const HELLO: &[u8] = b"\x05HELLO";
const WELCOME: &[u8] = b"\x07WELCOME";
const INITIATE: &[u8] = b"\x08INITIATE";
const READY: &[u8] = b"\x05READY";
/// What every HELLO seals.
const HELLO_PROOF: usize = 64;
const HELLO_LEN: usize = 200;
const WELCOME_LEN: usize = 168;
/// The first INITIATE byte behind the cookie: the counter, then the box.
const INITIATE_COUNTER: usize = INITIATE.len() + COOKIE;
const INITIATE_MIN: usize = INITIATE_COUNTER + COUNTER + TAG + KEY_LEN + VOUCH;
const READY_MIN: usize = READY.len() + COUNTER + TAG;

/// What a client knows beforehand.
#[derive(Debug)]
pub(crate) struct ClientKeys {
    pub(crate) server: PublicKey,
    pub(crate) pair: KeyPair,
    pub(crate) entropy: Arc<dyn Entropy>,
}

/// What a server knows beforehand.
#[derive(Debug)]
pub(crate) struct ServerKeys {
    pub(crate) pair: KeyPair,
    pub(crate) entropy: Arc<dyn Entropy>,
}

type Nonce = [u8; 24];

/// A nonce of 16 fixed characters and a counter.
fn counted(prefix: &[u8; 16], counter: u64) -> Nonce {
    let mut nonce = [0; 24];
    nonce[..16].copy_from_slice(prefix);
    nonce[16..].copy_from_slice(&counter.to_be_bytes());
    nonce
}

/// A nonce of 8 fixed characters and 16 random bytes.
fn random(prefix: &[u8; 8], random: &[u8; RANDOM]) -> Nonce {
    let mut nonce = [0; 24];
    nonce[..8].copy_from_slice(prefix);
    nonce[8..].copy_from_slice(random);
    nonce
}

/// Encrypts in place; gives the tag, which goes before the data on the wire.
fn seal(key: &SharedKey, nonce: &Nonce, data: &mut [u8]) -> [u8; TAG] {
    let mut tag = [0; TAG];
    crypto_box_detached_afternm_inplace(data, &mut tag, nonce, key.as_bytes());
    tag
}

/// Decrypts in place, if the tag is right.
fn open(key: &SharedKey, nonce: &Nonce, tag: &[u8; TAG], data: &mut [u8]) -> Result<(), SecurityFault> {
    crypto_box_open_detached_afternm_inplace(data, tag, nonce, key.as_bytes()).map_err(|_| SecurityFault::Box)
}

/// Opens a box as it travels, the tag in front; gives what it held.
fn open_box<'a>(key: &SharedKey, nonce: &Nonce, sealed: &'a mut [u8]) -> Result<&'a mut [u8], SecurityFault> {
    let (tag, data) = sealed.split_first_chunk_mut::<TAG>().ok_or(SecurityFault::Length)?;
    open(key, nonce, tag, data)?;
    Ok(data)
}

/// Appends a box as it travels.
fn put_box(out: &mut Vec<u8>, key: &SharedKey, nonce: &Nonce, data: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&[0; TAG]);
    out.extend_from_slice(data);
    let tag = seal(key, nonce, &mut out[start + TAG..]);
    out[start..start + TAG].copy_from_slice(&tag);
}

/// The next fixed-length field of a command.
fn take<'a, const N: usize>(bytes: &mut &'a mut [u8]) -> Result<&'a mut [u8; N], SecurityFault> {
    let (field, rest) = std::mem::take(bytes).split_first_chunk_mut::<N>().ok_or(SecurityFault::Length)?;
    *bytes = rest;
    Ok(field)
}
