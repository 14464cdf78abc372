//! [`ExecWorker`]: runs a program for each job, so that any language serves a queue.

use std::collections::HashMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::Arc;

use rustix::process::Signal;
use serde::Serialize;
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::debug;
use zmtp::Endpoint;

use super::call::Call;
use super::common::{Common, common_settings};
use super::events::{Input, Order, RunnerId};
use super::guard::{Guard, GuardProgram, signal_group};
use super::job::{Exit, Job, JobEnd};
use super::native::WorkerHandle;
use super::output::Output;
use super::serve::{Executor, Serve};

/// Largest output of a program, in bytes.
const MAX_OUTPUT: u64 = 64 << 20;

/// A name of jobs and the program that runs them: `NAME=PROGRAM`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// Path and callable, joined by a dot; `*` for all that have no program of their own.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// Why a text is not `NAME=PROGRAM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExecError {
    /// No `=`, no name or no program.
    #[error("expected NAME=PROGRAM, for example images.resize=./resize")]
    Shape,
    /// A quote that does not end.
    #[error("the program has a quote that does not end")]
    Quote,
}

impl FromStr for Exec {
    type Err = ExecError;

    fn from_str(text: &str) -> Result<Self, ExecError> {
        let (name, program) = text.split_once('=').ok_or(ExecError::Shape)?;
        let command = shlex::split(program).ok_or(ExecError::Quote)?;
        if name.trim().is_empty() || command.is_empty() {
            return Err(ExecError::Shape);
        }
        Ok(Self { name: name.trim().to_owned(), command })
    }
}

/// Why a worker could not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The process that ends ours when we are killed.
    #[error("cannot start the process that guards against orphans: {0}")]
    Guard(#[source] io::Error),
}

/// A worker that runs a program for each job.
#[derive(Debug)]
pub struct ExecWorker(Serve<Programs>);

/// Settings of a new [`ExecWorker`].
#[derive(Debug, Clone)]
pub struct ExecWorkerBuilder {
    common: Common,
    programs: HashMap<String, Vec<String>>,
}

impl ExecWorkerBuilder {
    common_settings!();

    /// Runs a program for jobs of a name; may be repeated.
    pub fn program(mut self, exec: Exec) -> Self {
        self.programs.insert(exec.name, exec.command);
        self
    }

    /// The worker; needs a tokio runtime.
    ///
    /// # Errors
    /// There is no shell for the process that ends programs if we are killed.
    pub fn build(self) -> Result<ExecWorker, WorkerError> {
        let guard = Guard::start(GuardProgram::shell()).map_err(WorkerError::Guard)?;
        let (reports, receiver) = mpsc::unbounded_channel();
        let (running, tasks) = (HashMap::new(), JoinSet::new());
        let programs = Programs { programs: Arc::new(self.programs), guard, reports, running, tasks };
        Ok(ExecWorker(self.common.serve(programs, receiver)))
    }
}

impl ExecWorker {
    /// Settings of a worker for the broker whose backend listens at `address`.
    pub fn builder(address: Endpoint) -> ExecWorkerBuilder {
        ExecWorkerBuilder { common: Common::new(address), programs: HashMap::new() }
    }

    /// Something to end it with while it runs.
    pub fn handle(&self) -> WorkerHandle {
        self.0.handle()
    }

    /// Runs until it is shut down.
    pub async fn run(self) {
        self.0.run().await;
    }
}

/// The executor: a process, and a task that keeps it, for each job.
#[derive(Debug)]
struct Programs {
    programs: Arc<HashMap<String, Vec<String>>>,
    guard: Guard,
    reports: mpsc::UnboundedSender<Input>,
    running: HashMap<RunnerId, mpsc::UnboundedSender<Signal>>,
    tasks: JoinSet<()>,
}

impl Programs {
    fn run(&mut self, runner: RunnerId, job: Job) {
        while self.tasks.try_join_next().is_some() {}
        match self.spawn(&job) {
            Ok(program) => {
                let (sender, signals) = mpsc::unbounded_channel();
                self.running.insert(runner, sender);
                let (guard, reports) = (self.guard.clone(), self.reports.clone());
                self.tasks.spawn(async move {
                    let pid = program.pid;
                    // It gets its job only once somebody knows of it.
                    guard.add(pid).await;
                    let report = program.keep(runner, job, signals).await;
                    guard.remove(pid);
                    let _ = reports.send(report);
                });
            }
            Err(end) => drop(self.reports.send(Input::Done { runner, end })),
        }
    }

    fn spawn(&self, job: &Job) -> Result<Program, JobEnd> {
        let malformed = |error| JobEnd::failure("Malformed", &format!("the message cannot be read: {error}"));
        let name = Call::read(job).map_err(malformed)?.name();
        // Passed on as it was written: a program may know of numbers that we do not.
        let (_, what): (&RawValue, &RawValue) = serde_json::from_slice(&job.payload).map_err(malformed)?;
        let unknown = || JobEnd::failure("UnknownCallable", &format!("there is no program for {name}"));
        let command = self.programs.get(&name).or_else(|| self.programs.get("*")).ok_or_else(unknown)?;
        let (program, arguments) = command.split_first().ok_or_else(unknown)?;
        let cannot = |error| JobEnd::failure("ProgramFailed", &format!("cannot run {program}: {error}"));
        Program::spawn(program, arguments, job, what.get().as_bytes().to_vec()).map_err(cannot)
    }
}

/// A program that runs.
#[derive(Debug)]
struct Program {
    child: Child,
    pid: u32,
    input: Vec<u8>,
    errors: Output,
}

impl Program {
    fn spawn(program: &str, arguments: &[String], job: &Job, input: Vec<u8>) -> io::Result<Self> {
        let (printed, printing) = io::pipe()?;
        let child = Command::new(program)
            .args(arguments)
            .env("EMQ_MSGID", job.msgid.to_string())
            .env("EMQ_QUEUE", String::from_utf8_lossy(&job.queue).into_owned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(printing)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { child, pid, input, errors: Output::new(printed, pid)? })
    }

    /// Feeds it and waits for its end, and for that of whatever it started.
    async fn keep(mut self, runner: RunnerId, job: Job, mut signals: mpsc::UnboundedReceiver<Signal>) -> Input {
        let (stdin, stdout) = (self.child.stdin.take(), self.child.stdout.take());
        let input = std::mem::take(&mut self.input);
        let feeding = tokio::spawn(async move {
            if let Some(mut stdin) = stdin {
                // A program need not read what it is given.
                let _ = stdin.write_all(&input).await;
            }
        });
        let reading = tokio::spawn(read(stdout));
        let mut told = false;
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status,
                Some(signal) = signals.recv() => {
                    told = true;
                    signal_group(self.pid, signal);
                }
                () = self.errors.ready() => self.errors.drain(Some(&job.msgid)),
            }
        };
        // Whatever it has started goes with it, and lets go of its output.
        signal_group(self.pid, Signal::KILL);
        feeding.abort();
        let output = reading.await.unwrap_or_default();
        self.errors.finish(Some(&job.msgid));
        match status {
            _ if told => Input::Gone { runner, exit: Exit::Signal(Signal::KILL.as_raw()) },
            Ok(status) => Input::Done { runner, end: end(status, &output, self.errors.tail()) },
            Err(error) => Input::Done { runner, end: JobEnd::failure("ProgramFailed", &error.to_string()) },
        }
    }
}

/// What a program wrote.
#[derive(Debug, Default)]
struct Written {
    bytes: Vec<u8>,
    too_much: bool,
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> Written {
    let mut written = Written::default();
    let Some(stream) = stream else { return written };
    let mut limited = stream.take(MAX_OUTPUT + 1);
    if let Err(error) = limited.read_to_end(&mut written.bytes).await {
        debug!("the output of a program cannot be read: {error}");
    }
    written.too_much = limited.limit() == 0;
    written
}

/// The end of a job whose program has ended.
fn end(status: ExitStatus, output: &Written, errors: &[u8]) -> JobEnd {
    if output.too_much {
        return JobEnd::failure("ResultTooLarge", &format!("the program wrote more than {MAX_OUTPUT} bytes"));
    }
    match (status.code(), status.signal()) {
        (Some(0), _) => success(&output.bytes),
        (Some(code), _) => failure(&Exit::Status(code), errors),
        (None, signal) => failure(&Exit::Signal(signal.unwrap_or_default()), errors),
    }
}

fn success(output: &[u8]) -> JobEnd {
    #[derive(Serialize)]
    struct Success<T> {
        value: T,
    }
    let text = match std::str::from_utf8(output) {
        Ok(text) => text,
        Err(_) => return JobEnd::failure("TypeError", "the program's output is neither JSON nor UTF-8 text"),
    };
    let result = match serde_json::from_str::<&RawValue>(text) {
        Ok(value) => serde_json::to_vec(&Success { value }),
        Err(_) if text.trim().is_empty() => serde_json::to_vec(&Success { value: () }),
        Err(_) => serde_json::to_vec(&Success { value: text.strip_suffix('\n').unwrap_or(text) }),
    };
    match result {
        Ok(result) => JobEnd::success(result.into()),
        Err(error) => JobEnd::failure("TypeError", &error.to_string()),
    }
}

fn failure(exit: &Exit, errors: &[u8]) -> JobEnd {
    let text = String::from_utf8_lossy(errors);
    let message = match text.trim() {
        "" => format!("the program {exit}"),
        text => format!("the program {exit}: {text}"),
    };
    JobEnd::failure("ProgramFailed", &message)
}

impl Executor for Programs {
    type Settings = ();

    fn perform(&mut self, runner: RunnerId, order: Order) {
        let signal = match order {
            Order::Start => return drop(self.reports.send(Input::Up(runner))),
            Order::Run(job) => return self.run(runner, job),
            Order::Terminate => Signal::TERM,
            Order::Kill | Order::Retire => Signal::KILL,
        };
        if self.running.get(&runner).is_none_or(|running| running.send(signal).is_err()) {
            // Nothing runs there.
            let _ = self.reports.send(Input::Gone { runner, exit: Exit::Status(0) });
        }
    }

    fn reconfigure(&mut self, (): ()) {}

    async fn close(mut self) {
        for running in self.running.values() {
            let _ = running.send(Signal::KILL);
        }
        while self.tasks.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_program() {
        let exec: Exec = "images.resize=./resize --to 'a b'".parse().unwrap();
        assert_eq!(
            exec,
            Exec { name: "images.resize".into(), command: ["./resize", "--to", "a b"].map(Into::into).into() }
        );
        for text in ["", "x", "=y", "x=", "x=  "] {
            assert_eq!(text.parse::<Exec>(), Err(ExecError::Shape), "{text}");
        }
        assert_eq!("x='y".parse::<Exec>(), Err(ExecError::Quote));
    }

    #[test]
    fn output_is_json_or_text() {
        for (output, value) in [
            (&b"{\"a\": 1}\n"[..], r#"{"value":{"a": 1}}"#),
            (b"123456789012345678901234567890", r#"{"value":123456789012345678901234567890}"#),
            (b"done\n", r#"{"value":"done"}"#),
            (b"\n", r#"{"value":null}"#),
        ] {
            assert_eq!(success(output).result, value);
        }
        assert!(success(b"\xff").error.is_some());
        let end = failure(&Exit::Status(2), b"no such file\n");
        assert_eq!(end.error.unwrap(), "ProgramFailed: the program ended with exit status 2: no such file");
    }
}
