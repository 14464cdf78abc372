//! A program as a worker: the request on its standard input, the reply on its standard output.

use std::io;
use std::process::{ExitStatus, Stdio};

use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use zmtp::Message;

/// Why a program has no reply.
#[derive(Debug, Error)]
pub(super) enum ExecError {
    #[error("{program} cannot be run: {source}")]
    Start { program: String, source: io::Error },
    #[error("{program} failed: {status}")]
    Status { program: String, status: ExitStatus },
}

/// Runs a program once; `command` is its name and its arguments.
pub(super) async fn run(command: &[String], body: &Message) -> Result<Vec<u8>, ExecError> {
    let program = || command[0].clone();
    let start = |source| ExecError::Start { program: program(), source };
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(start)?;
    let stdin = child.stdin.take();
    let feed = async move {
        let Some(mut stdin) = stdin else { return };
        for frame in body.frames() {
            // It may well end without reading everything.
            if stdin.write_all(frame).await.is_err() {
                return;
            }
        }
    };
    let ((), output) = tokio::join!(feed, child.wait_with_output());
    let output = output.map_err(start)?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(ExecError::Status { program: program(), status: output.status }),
    }
}
