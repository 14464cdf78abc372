//! [`Guard`]: sees to it that no process outlives us, even if we are killed without a chance to act.
//!
//! It is a small process of its own, in a group of its own, that is told of every process group we start. When its
//! standard input ends, because we ended in whatever way, it kills those that are left.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, warn};

/// A guard for systems with a shell.
const SHELL_SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT
groups=' '
while read -r line; do
    group=${line#?}
    case $line in
        +*) groups="$groups$group " ;;
        -*) groups="${groups%% $group *} ${groups#* $group }" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
"#;

/// Pause before a guard that died is replaced.
const PAUSE: Duration = Duration::from_millis(200);

/// A running guard; it ends with this, and takes along whatever is left.
#[derive(Debug, Clone)]
pub(crate) struct Guard(mpsc::UnboundedSender<Change>);

#[derive(Debug)]
enum Change {
    /// With whom to tell once the guard knows.
    Add(u32, oneshot::Sender<()>),
    Remove(u32),
}

/// What a guard process is made of: program and arguments.
#[derive(Debug, Clone)]
pub(crate) struct GuardProgram(pub(crate) Vec<std::ffi::OsString>);

impl GuardProgram {
    pub(crate) fn shell() -> Self {
        Self(["/bin/sh", "-c", SHELL_SCRIPT, "emq-guard"].map(Into::into).to_vec())
    }

    fn spawn(&self) -> io::Result<Child> {
        let (program, arguments) = self.0.split_first().ok_or(io::ErrorKind::NotFound)?;
        // Its own group: a Ctrl-C or a kill of ours does not reach it. It must not be killed with its handle: that it goes
        // on when we end is what it is for.
        Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
    }
}

impl Guard {
    /// Starts one.
    ///
    /// # Errors
    /// The program cannot be run.
    pub(crate) fn start(program: GuardProgram) -> io::Result<Self> {
        let child = program.spawn()?;
        let (sender, changes) = mpsc::unbounded_channel();
        tokio::spawn(keep(program, child, changes));
        Ok(Self(sender))
    }

    /// This group shall not outlive us. Once the future is ready the guard knows; it need not be waited for.
    pub(crate) fn add(&self, group: u32) -> impl Future<Output = ()> + Send + use<> {
        let (known, knows) = oneshot::channel();
        let _ = self.0.send(Change::Add(group, known));
        async move { drop(knows.await) }
    }

    /// This group is no more.
    pub(crate) fn remove(&self, group: u32) {
        let _ = self.0.send(Change::Remove(group));
    }
}

async fn keep(program: GuardProgram, mut child: Child, mut changes: mpsc::UnboundedReceiver<Change>) {
    let mut groups = BTreeSet::new();
    let mut stdin = child.stdin.take();
    loop {
        tokio::select! {
            change = changes.recv() => {
                let Some(change) = change else { break };
                match change {
                    Change::Add(group, known) => {
                        groups.insert(group);
                        tell(&mut stdin, &format!("+{group}\n")).await;
                        let _ = known.send(());
                    }
                    Change::Remove(group) => {
                        groups.remove(&group);
                        tell(&mut stdin, &format!("-{group}\n")).await;
                    }
                }
            }
            _ = child.wait() => {
                warn!("the process that guards against orphans ended, another takes its place");
                tokio::time::sleep(PAUSE).await;
                match program.spawn() {
                    Ok(next) => child = next,
                    Err(error) => {
                        warn!("the process that guards against orphans cannot be started: {error}");
                        continue;
                    }
                }
                stdin = child.stdin.take();
                let all = groups.iter().fold(String::new(), |mut text, group| {
                    let _ = writeln!(text, "+{group}");
                    text
                });
                tell(&mut stdin, &all).await;
            }
        }
    }
    drop(stdin);
    let _ = child.wait().await;
}

async fn tell(stdin: &mut Option<ChildStdin>, lines: &str) {
    if let Some(stdin) = stdin
        && let Err(error) = stdin.write_all(lines.as_bytes()).await
    {
        debug!("the guard does not listen: {error}");
    }
}

/// Signals a process group that we lead.
pub(crate) fn signal_group(group: u32, signal: Signal) {
    let Some(pid) = i32::try_from(group).ok().and_then(Pid::from_raw) else { return };
    // An error says that nobody is left.
    if let Err(error) = kill_process_group(pid, signal) {
        debug!(group, ?signal, "no process to signal: {error}");
    }
}
