//! Harness for foreign peers; the tests live in `interop/tests`.

pub mod security;
