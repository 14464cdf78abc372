//! The `emq` binary.
fn main() {}
