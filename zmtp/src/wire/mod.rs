//! Bytes to types and back: pure functions, no state kept between calls.

pub mod command;
pub mod frame;
pub mod greeting;
pub mod properties;
pub mod z85;
