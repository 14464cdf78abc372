//! What the machine allows, for settings that depend on it.

use std::path::PathBuf;
use std::{env, fs};

/// Memory and file limits of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of memory: the machine's, or its container's if that has less.
    pub memory: u64,
    /// Most files the process may have open.
    pub open_files: usize,
}

/// The folder for what a program keeps between two runs, if anything tells where: `$STATE_DIRECTORY` (systemd),
/// `/var/lib/eventmq` for root, `$XDG_STATE_HOME/eventmq`, `~/.local/state/eventmq`.
pub fn state_folder() -> Option<PathBuf> {
    let folder = |variable: &str| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    // Systemd may name several, separated by colons.
    let given = env::var("STATE_DIRECTORY").ok().and_then(|given| Some(PathBuf::from(given.split(':').next()?)));
    if let Some(given) = given.filter(|path| path.is_absolute()) {
        return Some(given);
    }
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/lib/eventmq"));
    }
    let own = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    own.map(|own| own.join("eventmq"))
}

impl Machine {
    /// For machines that do not tell: small enough to be safe on any.
    pub const UNKNOWN: Self = Self { memory: 1 << 30, open_files: 1024 };

    /// Asks the system; what it does not tell is as in [`UNKNOWN`](Self::UNKNOWN).
    pub fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).ok();
        let whole = read("/proc/meminfo").as_deref().and_then(total_memory);
        let group = read("/proc/self/cgroup").as_deref().and_then(control_group).map(str::to_owned);
        let limits = [
            group.map(|group| format!("/sys/fs/cgroup{group}/memory.max")),
            Some("/sys/fs/cgroup/memory.max".to_owned()),
            Some("/sys/fs/cgroup/memory/memory.limit_in_bytes".to_owned()),
        ];
        let limit = |path: String| read(&path)?.trim().parse::<u64>().ok();
        let memory = limits.into_iter().flatten().filter_map(limit).chain(whole).min();
        let open_files = read("/proc/self/limits").as_deref().and_then(open_files);
        Self {
            memory: memory.unwrap_or(Self::UNKNOWN.memory),
            open_files: open_files.unwrap_or(Self::UNKNOWN.open_files),
        }
    }
}

/// `MemTotal:       24542312 kB`.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// `0::/system.slice/eventmq.service`.
fn control_group(cgroup: &str) -> Option<&str> {
    cgroup.lines().find_map(|line| line.strip_prefix("0::"))
}

/// `Max open files            1024                 524288               files`: the first number binds.
fn open_files(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts() {
        assert_eq!(total_memory("MemTotal:       24542312 kB\nMemFree: 1 kB\n"), Some(24_542_312 * 1024));
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
        assert_eq!(control_group("1:name=x:/y\n0::/a/b\n"), Some("/a/b"));
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024     524288     files\n";
        assert_eq!(open_files(limits), Some(1024));
        assert_eq!(open_files("Max open files  unlimited unlimited files\n"), Some(usize::MAX));
    }

    #[test]
    fn any_machine_has_something() {
        let machine = Machine::read();
        assert!(machine.memory > 0 && machine.open_files > 0);
    }
}
