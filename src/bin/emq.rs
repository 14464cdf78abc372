//! The `emq` binary: everything it does is in [`eventmq::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    eventmq::cli::main(std::env::args_os())
}
