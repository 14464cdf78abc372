//! A progress bar on standard error, if that is a terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Severity;
use super::lines::Line;
use crate::cli::CliError;

/// Of a file: how much of it is read. Of a pipe: that something happens.
const BAR: &str = "{bar:30} {percent:>3}%  {msg}  {elapsed}";
const SPINNER: &str = "{spinner} {msg}  {elapsed}";

#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    count: Count,
}

/// What the message says.
#[derive(Debug, Default)]
struct Count {
    read: u64,
    done: u64,
    bad: u64,
}

impl Progress {
    pub(super) fn new(total_bytes: Option<u64>) -> Self {
        let bar = if io::stderr().is_terminal() {
            ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr_with_hz(10))
        } else {
            ProgressBar::hidden()
        };
        let template = if total_bytes.is_some() { BAR } else { SPINNER };
        // The templates are constants; one that could not be read would only look different.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, count: Count::default() }
    }

    pub(super) fn read(&mut self, line: &Line) {
        self.count.read += 1;
        self.bar.set_position(line.end);
    }

    pub(super) fn answered(&mut self, severity: Severity) {
        self.count.done += 1;
        self.count.bad += u64::from(severity != Severity::Done);
        if !self.bar.is_hidden() {
            let rate = self.count.done as f64 / self.bar.elapsed().as_secs_f64().max(0.001);
            self.bar.set_message(self.count.message(rate));
        }
    }

    /// Prints something without mixing it with the bar.
    pub(super) fn aside(&self, print: &mut dyn FnMut() -> Result<(), CliError>) -> Result<(), CliError> {
        if io::stdout().is_terminal() { self.bar.suspend(print) } else { print() }
    }

    pub(super) fn finish(&self) {
        self.bar.finish();
    }
}

impl Count {
    fn message(&self, rate: f64) -> String {
        let Self { read, done, bad } = self;
        let bad = if *bad > 0 { format!(", {bad} not fine") } else { String::new() };
        format!("{done} jobs done of {read} read{bad}, {rate:.0} jobs/s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_counts() {
        let count = Count { read: 12, done: 10, bad: 0 };
        assert_eq!(count.message(2345.6), "10 jobs done of 12 read, 2346 jobs/s");
        assert_eq!(Count { bad: 3, ..count }.message(1.0), "10 jobs done of 12 read, 3 not fine, 1 jobs/s");
    }
}
