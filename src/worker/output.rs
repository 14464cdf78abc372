//! [`Output`]: what a process prints, line by line to the log.

use std::io;

use tokio::net::unix::pipe::Receiver;
use tracing::info;

use crate::emqp::MsgId;

/// Longer lines are logged in pieces.
const MAX_LINE: usize = 16 * 1024;
/// So much of the end is kept.
const TAIL: usize = 4 * 1024;
/// What fits into a pipe: all that can have been printed before something else happened.
const PIPE: usize = 64 * 1024;

/// The reading end of a process's standard output and error.
#[derive(Debug)]
pub(crate) struct Output {
    pipe: Option<Receiver>,
    line: Vec<u8>,
    /// The end of what was printed.
    tail: Vec<u8>,
    pid: u32,
    buffer: Box<[u8]>,
}

impl Output {
    pub(crate) fn new(pipe: io::PipeReader, pid: u32) -> io::Result<Self> {
        let pipe = Some(Receiver::from_owned_fd(pipe.into())?);
        Ok(Self { pipe, line: Vec::new(), tail: Vec::new(), pid, buffer: vec![0; 8 * 1024].into() })
    }

    /// Waits until there is something to [`drain`](Self::drain); never if it has ended.
    pub(crate) async fn ready(&self) {
        match &self.pipe {
            // An error shows when it is read from.
            Some(pipe) => drop(pipe.readable().await),
            None => std::future::pending().await,
        }
    }

    /// Logs what is there now, as printed by this job.
    pub(crate) fn drain(&mut self, job: Option<&MsgId>) {
        let mut rest = PIPE;
        while let Some(pipe) = &self.pipe {
            match pipe.try_read(&mut self.buffer) {
                Ok(0) => self.pipe = None,
                Ok(read) => {
                    self.tail.extend_from_slice(&self.buffer[..read]);
                    self.tail.drain(..self.tail.len().saturating_sub(TAIL));
                    take_lines(&mut self.line, &self.buffer[..read], |line| log(line, self.pid, job));
                    rest = rest.saturating_sub(read);
                    if rest == 0 {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }

    /// The last few KiB of what was printed.
    pub(crate) fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// A job has ended: a line without an end is a line all the same.
    pub(crate) fn finish(&mut self, job: Option<&MsgId>) {
        self.drain(job);
        if !self.line.is_empty() {
            log(&std::mem::take(&mut self.line), self.pid, job);
        }
    }
}

/// Cuts bytes into lines; what has no end yet stays in `line`.
fn take_lines(line: &mut Vec<u8>, bytes: &[u8], mut log: impl FnMut(&[u8])) {
    for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
        line.extend_from_slice(piece);
        if line.ends_with(b"\n") {
            line.pop();
            log(line);
            line.clear();
        }
        while line.len() >= MAX_LINE {
            log(&line[..MAX_LINE]);
            line.drain(..MAX_LINE);
        }
    }
}

fn log(line: &[u8], pid: u32, job: Option<&MsgId>) {
    let text = String::from_utf8_lossy(line);
    match job {
        Some(msgid) => info!(%msgid, pid, "job: {text}"),
        None => info!(pid, "worker: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_lines_however_they_arrive() {
        let text = b"one\n\nthree";
        for cut in 0..text.len() {
            let (mut line, mut seen) = (Vec::new(), Vec::new());
            for part in [&text[..cut], &text[cut..]] {
                take_lines(&mut line, part, |line| seen.push(line.to_vec()));
            }
            assert_eq!((seen, line), (vec![b"one".to_vec(), b"".to_vec()], b"three".to_vec()));
        }
        let mut longest = 0;
        let mut line = Vec::new();
        take_lines(&mut line, &vec![b'x'; MAX_LINE * 3 + 5], |piece| longest = longest.max(piece.len()));
        assert_eq!((longest, line.len()), (MAX_LINE, 5));
    }
}
