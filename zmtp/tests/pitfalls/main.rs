//! What other implementations fell into (zmtp.md, section 14), each a test by its number wherever it lives: here, in the
//! file of its socket type, or beside the code. [`index`] sees to it that none is forgotten.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod handshake;
mod index;
mod names;
