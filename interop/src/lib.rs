//! Harness for foreign peers; the tests live in `interop/tests`.
