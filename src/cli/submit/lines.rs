//! Lines of standard input, read beside the event loop.

use std::fs;
use std::io::{self, BufRead};

use tokio::sync::mpsc;

/// Lines read ahead.
const AHEAD: usize = 1000;

/// A line that is not empty.
#[derive(Debug)]
pub(in crate::cli) struct Line {
    /// Counted from 1.
    pub number: u64,
    /// Without its end.
    pub text: Vec<u8>,
    /// Bytes of the input up to its end.
    pub end: u64,
}

#[derive(Debug)]
pub(in crate::cli) struct Lines {
    lines: mpsc::Receiver<io::Result<Line>>,
    total_bytes: Option<u64>,
}

impl Lines {
    pub(in crate::cli) fn of_stdin() -> Self {
        let file = fs::metadata("/dev/stdin").ok().filter(fs::Metadata::is_file);
        let (sender, lines) = mpsc::channel(AHEAD);
        // A thread of its own: a read from a terminal or a pipe cannot be given up.
        std::thread::spawn(move || read(io::stdin().lock(), &sender));
        Self { lines, total_bytes: file.map(|file| file.len()) }
    }

    /// The length of the input, if it is a file.
    pub(super) fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// The next line; `None` at the end. Cancel-safe.
    pub(in crate::cli) async fn next(&mut self) -> Option<io::Result<Line>> {
        self.lines.recv().await
    }
}

fn read(mut input: impl BufRead, lines: &mpsc::Sender<io::Result<Line>>) {
    let (mut number, mut end) = (0, 0);
    loop {
        let mut text = Vec::new();
        let read = match input.read_until(b'\n', &mut text) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) => {
                let _ = lines.blocking_send(Err(error));
                return;
            }
        };
        number += 1;
        end += read as u64;
        while text.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            text.pop();
        }
        if !text.trim_ascii().is_empty() && lines.blocking_send(Ok(Line { number, text, end })).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers() {
        let (sender, mut lines) = mpsc::channel(8);
        read(&b"a\r\n\n  \nb\n\xff"[..], &sender);
        drop(sender);
        let mut seen = Vec::new();
        while let Some(line) = lines.blocking_recv() {
            let line = line.unwrap();
            seen.push((line.number, line.text, line.end));
        }
        assert_eq!(seen, [(1, b"a".to_vec(), 3), (4, b"b".to_vec(), 9), (5, b"\xff".to_vec(), 10)]);
    }
}
