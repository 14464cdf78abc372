//! CURVE against peers by hand. Tests are named by the section of curve.md that they are about, and by case B17.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod changed;
mod handshake;
mod limits;
mod properties;
mod steps;
mod traffic;
