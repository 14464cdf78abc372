//! The arrows of the architecture: who may use whom, and where tokio may be named.

#![allow(clippy::unwrap_used, reason = "a test of the source tree: a file that cannot be read fails it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each top-level module of `src` and the ones it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("dispatch", &[]),
    ("emqp", &["clock"]),
    ("store", &["emqp"]),
    ("admin", &["emqp"]),
    ("session", &["clock", "emqp"]),
    ("broker", &["clock", "dispatch", "emqp", "store"]),
    ("scheduler", &["clock", "emqp", "session"]),
    ("pubsub", &["dispatch", "emqp"]),
    ("serve", &["broker", "emqp", "pubsub", "scheduler"]),
    ("worker", &["clock", "emqp", "session"]),
    ("jobmanager", &["emqp", "session", "worker"]),
    ("client", &["emqp"]),
    ("mdp", &["clock", "dispatch", "emqp"]),
    ("conf", &["broker", "emqp", "jobmanager", "pubsub", "scheduler", "session", "worker"]),
    (
        "cli",
        &[
            "admin",
            "broker",
            "client",
            "clock",
            "conf",
            "emqp",
            "jobmanager",
            "mdp",
            "pubsub",
            "scheduler",
            "serve",
            "session",
            "worker",
        ],
    ),
];

/// Shells: the only places of `src` and `zmtp/src` that may name tokio or read a clock.
const SHELLS: &[&str] = &[
    "src/admin.rs",
    "src/broker/server",
    "src/cli",
    "src/client/builder.rs",
    "src/client/driver.rs",
    "src/client/handle.rs",
    "src/client/pubsub.rs",
    "src/clock.rs",
    "src/jobmanager",
    "src/pubsub/device.rs",
    "src/scheduler/server.rs",
    "src/serve.rs",
    "src/session/wire.rs",
    "src/worker/common.rs",
    "src/worker/exec.rs",
    "src/worker/guard.rs",
    "src/worker/native.rs",
    "src/worker/output.rs",
    "src/worker/serve.rs",
    "src/mdp/broker",
    "src/mdp/client.rs",
    "src/mdp/worker/driver.rs",
    "src/mdp/worker/mod.rs",
    "src/mdp/worker/request.rs",
    "zmtp/src/engine",
    "zmtp/src/socket",
    "zmtp/src/monitor.rs",
    "zmtp/src/proxy.rs",
];

fn sources(folder: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    walk(&root.join(folder), &mut paths);
    paths.sort();
    let name = |path: &Path| path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), code(&fs::read_to_string(path).unwrap()))).collect()
}

/// The text without comments and without what follows `#[cfg(test)]`: tests may use what they like.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    text.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

/// What follows each `crate::` in a text: names of top-level modules, also in braces.
fn used(text: &str) -> BTreeSet<String> {
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut names = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(list) => names.extend(list.split('}').next().unwrap_or_default().split(',').map(|n| name(n.trim()))),
            None => {
                names.insert(name(rest));
            }
        }
    }
    names
}

#[test]
fn modules_use_only_what_is_below_them() {
    let allowed: BTreeMap<_, BTreeSet<_>> =
        ALLOWED.iter().map(|(module, below)| (*module, below.iter().copied().collect())).collect();
    let mut seen = BTreeSet::new();
    for (path, text) in sources("src") {
        let module = path.trim_start_matches("src/").split(['/', '.']).next().unwrap().to_owned();
        if module == "lib" || module == "bin" {
            continue;
        }
        let below = allowed.get(module.as_str()).unwrap_or_else(|| panic!("{path}: module {module} is not in ALLOWED"));
        for name in used(&text) {
            let fine = name == module || below.contains(name.as_str()) || !allowed.contains_key(name.as_str());
            assert!(fine, "{path} uses crate::{name}, which {module} may not");
        }
        seen.insert(module);
    }
    assert_eq!(seen.len(), ALLOWED.len(), "modules there are: {seen:?}");
}

#[test]
fn cores_know_no_tokio_and_no_clock() {
    for (path, text) in sources("src").into_iter().chain(sources("zmtp/src")) {
        if SHELLS.iter().any(|shell| path.starts_with(shell)) || path.contains("/tests/") || path.ends_with("/tests.rs")
        {
            continue;
        }
        for word in ["tokio", "Instant::now", "SystemTime::now"] {
            assert!(!text.contains(word), "{path} names {word}: only {SHELLS:?} may");
        }
    }
}

#[test]
fn zmtp_knows_nothing_of_emqp() {
    for (path, text) in sources("zmtp/src") {
        let text = text.to_ascii_lowercase();
        assert!(!text.contains("emqp") && !text.contains("eventmq"), "{path} knows of eMQP");
    }
}

/// Pitfall 10 of the Majordomo programs: timers that follow a clock people set. Nothing of ours there could even read one.
#[test]
fn mdp_pitfall_10_every_time_is_monotonic() {
    for (path, text) in sources("src/mdp") {
        for word in ["SystemTime", "UNIX_EPOCH", "wall"] {
            assert!(!text.contains(word), "{path} names {word}, which jumps when the clock is set");
        }
    }
}
