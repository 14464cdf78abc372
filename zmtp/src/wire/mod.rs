//! Bytes to types and back: pure functions, no state kept between calls.

pub mod frame;
