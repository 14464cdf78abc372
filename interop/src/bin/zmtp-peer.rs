//! Drives a ZMTP socket of this workspace from a line protocol.
fn main() {}
