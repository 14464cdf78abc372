//! [`Process`]: one Python process, from its start to its end.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tracing::debug;

use super::PoolConf;
use crate::emqp::MsgId;
use crate::worker::guard::{Guard, signal_group};
use crate::worker::output::Output;
use crate::worker::{Exit, Input, Job, JobEnd, RunnerId};

/// What every process runs, sent to it at its start.
const RUNNER: &str = include_str!("runner.py");
/// Reads that from standard input: eight digits of length, then the text.
const BOOTSTRAP: &str = "\
import os
n=int(os.read(0,8))
b=b''
while len(b)<n:b+=os.read(0,n-len(b)) or os._exit(1)
exec(compile(b,'emq-runner','exec'),{'__name__':'emq_runner','__file__':'emq-runner'})";
/// Length and letter, or flags.
const HEAD: usize = 5;
/// Flag of a job: the result is wanted.
const WANTS_RESULT: u8 = 1;

/// What the pool tells a process.
#[derive(Debug)]
pub(super) enum Told {
    Run(Job),
    Terminate,
    Kill,
    Retire,
}

/// A process and what is known of it.
#[derive(Debug)]
pub(super) struct Process {
    runner: RunnerId,
    pid: u32,
    child: Child,
    reader: OwnedReadHalf,
    /// `None` once it gets no more jobs: then its input has ended.
    writer: Option<OwnedWriteHalf>,
    input: BytesMut,
    pending: BytesMut,
    output: Output,
    job: Option<MsgId>,
    /// Why it gave up, in its own words.
    failed: Option<String>,
    guard: Guard,
    told: mpsc::UnboundedReceiver<Told>,
    reports: mpsc::UnboundedSender<Input>,
}

impl Process {
    pub(super) fn spawn(
        conf: &PoolConf,
        runner: RunnerId,
        guard: Guard,
        reports: mpsc::UnboundedSender<Input>,
    ) -> io::Result<(Self, mpsc::UnboundedSender<Told>)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let (printed, printing) = io::pipe()?;
        let child = Command::new(&conf.python)
            .args(["-c", BOOTSTRAP, "emq-worker"])
            .stdin(OwnedFd::from(theirs))
            .stdout(printing.try_clone()?)
            .stderr(printing)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().ok_or(io::ErrorKind::NotFound)?;
        // Not waited for: until its first job a runner ends by itself when we do.
        drop(guard.add(pid));
        ours.set_nonblocking(true)?;
        let (reader, writer) = UnixStream::from_std(ours)?.into_split();
        let (sender, told) = mpsc::unbounded_channel();
        let mut pending = BytesMut::from(format!("{:8}{RUNNER}", RUNNER.len()).as_bytes());
        put_frame(&mut pending, 0, &serde_json::to_vec(conf)?);
        let process = Self {
            runner,
            pid,
            child,
            reader,
            writer: Some(writer),
            input: BytesMut::new(),
            pending,
            output: Output::new(printed, pid)?,
            job: None,
            failed: None,
            guard,
            told,
            reports,
        };
        Ok((process, sender))
    }

    /// Keeps the process until it has ended, with all it has started.
    pub(super) async fn keep(mut self) {
        let mut listening = true;
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status,
                Some(told) = self.told.recv() => self.obey(told),
                read = self.reader.read_buf(&mut self.input), if listening => {
                    listening = matches!(read, Ok(1..));
                    self.on_input();
                }
                written = write(&mut self.writer, &mut self.pending) => {
                    if let Err(error) = written {
                        debug!(pid = self.pid, "the worker does not listen: {error}");
                        self.writer = None;
                    }
                }
                () = self.output.ready() => self.output.drain(self.job.as_ref()),
            }
        };
        // What it has started goes with it. Its number cannot have been given to another yet.
        signal_group(self.pid, Signal::KILL);
        self.guard.remove(self.pid);
        // A result may have come in its last moment.
        while listening && matches!(self.reader.try_read_buf(&mut self.input), Ok(1..)) {}
        self.on_input();
        self.output.finish(self.job.as_ref());
        let exit = self.failed.map_or_else(|| exit(status), Exit::Failed);
        let _ = self.reports.send(Input::Gone { runner: self.runner, exit });
    }

    fn obey(&mut self, told: Told) {
        match told {
            Told::Run(job) => {
                let flags = if job.reply { WANTS_RESULT } else { 0 };
                put_frame(&mut self.pending, flags, &job.payload);
                self.job = Some(job.msgid);
            }
            Told::Terminate => signal_group(self.pid, Signal::TERM),
            Told::Kill => signal_group(self.pid, Signal::KILL),
            Told::Retire => self.writer = None,
        }
    }

    /// Reads the frames that have arrived whole.
    fn on_input(&mut self) {
        while let Some((letter, body)) = take_frame(&mut self.input) {
            match letter {
                b'R' => self.report(Input::Up(self.runner)),
                b'V' => self.on_end(JobEnd::success(body)),
                b'E' => self.on_end(failed(body, false)),
                b'X' => self.on_end(failed(body, true)),
                b'F' => self.failed = Some(String::from_utf8_lossy(&body).into_owned()),
                _ => signal_group(self.pid, Signal::KILL),
            }
        }
    }

    fn on_end(&mut self, end: JobEnd) {
        let job = self.job.take();
        self.output.finish(job.as_ref());
        self.report(Input::Done { runner: self.runner, end });
    }

    fn report(&self, input: Input) {
        let _ = self.reports.send(input);
    }
}

/// Writes what is pending; never ends if that is nothing.
async fn write(writer: &mut Option<OwnedWriteHalf>, pending: &mut BytesMut) -> io::Result<()> {
    match writer {
        Some(writer) if !pending.is_empty() => writer.write_buf(pending).await.map(drop),
        _ => std::future::pending().await,
    }
}

fn put_frame(buffer: &mut BytesMut, flags: u8, body: &[u8]) {
    buffer.reserve(HEAD + body.len());
    // A message of 4 GiB would have been refused long before.
    buffer.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
    buffer.put_u8(flags);
    buffer.put_slice(body);
}

fn take_frame(input: &mut BytesMut) -> Option<(u8, Bytes)> {
    let head = input.first_chunk::<HEAD>()?;
    let (len, letter) = (u32::from_be_bytes([head[0], head[1], head[2], head[3]]), head[4]);
    let len = usize::try_from(len).ok()?;
    if input.len() < HEAD + len {
        return None;
    }
    input.advance(HEAD);
    Some((letter, input.split_to(len).freeze()))
}

/// A failure, as the process described it.
fn failed(result: Bytes, spent: bool) -> JobEnd {
    let described: serde_json::Value = serde_json::from_slice(&result).unwrap_or_default();
    let text = |key: &str| described["error"][key].as_str().unwrap_or_default().to_owned();
    let (kind, message, traceback) = (text("type"), text("message"), text("traceback"));
    let error =
        if traceback.is_empty() { format!("{kind}: {message}") } else { format!("{kind}: {message}\n{traceback}") };
    JobEnd { result, error: Some(error), spent }
}

fn exit(status: io::Result<ExitStatus>) -> Exit {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Status(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Failed(status.to_string()),
        },
        Err(error) => Exit::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let mut wire = BytesMut::new();
        for (letter, body) in [(b'V', &b"{}"[..]), (b'R', b""), (b'E', &[7; 300])] {
            put_frame(&mut wire, letter, body);
        }
        for cut in 0..wire.len() {
            let mut input = BytesMut::new();
            let mut seen = Vec::new();
            for part in [&wire[..cut], &wire[cut..]] {
                input.extend_from_slice(part);
                seen.extend(std::iter::from_fn(|| take_frame(&mut input)));
            }
            assert_eq!(seen.len(), 3);
            assert_eq!((seen[0].0, &seen[0].1[..], seen[1].0, seen[2].1.len()), (b'V', &b"{}"[..], b'R', 300));
        }
    }
}
