//! Harness for foreign peers; the tests live in `interop/tests`.

pub mod notation;
pub mod security;
