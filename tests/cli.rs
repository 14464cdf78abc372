//! The built binary: help, exit codes, signals, output.

// A test that cannot go on has failed.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use zmtp::{Dealer, Endpoint, Message};

const BINARY: &str = env!("CARGO_BIN_EXE_emq");

/// The binary without any setting of the machine it runs on.
fn emq(arguments: &[&str]) -> Command {
    let mut command = without_settings(Command::new(BINARY));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn without_settings(mut command: Command) -> Command {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("EVENTMQ_") || name.starts_with("EMQ_")) {
            command.env_remove(name);
        }
    }
    command.env("EVENTMQ_CONFIG_FILE", "");
    command
}

fn run(arguments: &[&str]) -> Output {
    emq(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Exit code, standard output and standard error.
fn outcome(output: Output) -> (i32, String, String) {
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A directory of one test, removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("eventmq-cli-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running broker; killed if the test fails.
struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
    /// The lines about its three addresses.
    listening: Vec<String>,
}

impl Running {
    const PORTS: [&'static str; 6] =
        ["--frontend", "tcp://127.0.0.1:0", "--backend", "tcp://127.0.0.1:0", "--admin", "tcp://127.0.0.1:0"];

    fn start(arguments: &[&str]) -> Self {
        let mut command = emq(&["router"]);
        let mut child = command.args(Self::PORTS).args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut running = Self { child, log, listening: Vec::new() };
        for _ in 0..3 {
            let line = running.wait_for("listening");
            running.listening.push(line);
        }
        running
    }

    /// The next line of the log with this in it.
    fn wait_for(&mut self, part: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "no {part:?} in:\n{seen}");
            if line.contains(part) {
                return line;
            }
            seen.push_str(&line);
        }
    }

    /// The address whose line in the log has this in it.
    fn address(&self, purpose: &str) -> Endpoint {
        let line = self.listening.iter().find(|line| line.contains(purpose)).unwrap();
        line.split_once("endpoint=").unwrap().1.split_whitespace().next().unwrap().parse().unwrap()
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    fn end(mut self) -> i32 {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn version_and_help_are_answers() {
    for arguments in [&["--version"][..], &["router", "--version"]] {
        let (code, out, err) = outcome(run(arguments));
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.trim_end().ends_with(env!("CARGO_PKG_VERSION")), "{out}");
    }
    for arguments in [
        &["--help"][..],
        &["router", "-h"],
        &["router", "--help"],
        &["config", "--help"],
        &["scheduler", "--help"],
        &["schedules", "--help"],
        &["pubsub", "--help"],
        &["serve", "--help"],
        &["jobmanager", "--help"],
        &["worker", "--help"],
    ] {
        let (code, out, err) = outcome(run(arguments));
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
        assert!(out.contains("Examples:"), "{out}");
        for line in out.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
    let help = text(&run(&["router", "--help"]).stdout);
    for needed in ["Exit codes:", "SIGHUP", "  hwm <jobs> [default: 10000]", "unknown_queue <default|hold>"] {
        assert!(help.contains(needed), "{needed} is not in:\n{help}");
    }
    assert!(!help.contains("concurrent_jobs"), "settings of other programs are none of the router's");
}

#[test]
fn every_example_of_the_help_works() {
    let directory = Directory::new();
    directory.file("eventmq.conf", "[global]\nhwm = 5\n");
    directory.file("jobs.jsonl", "{\"job\": \"shop.index.update\", \"args\": [1]}\n");
    let binaries = Path::new(BINARY).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), env::var("PATH").unwrap());
    let broker = Running::start(&[]);
    let ask_it = format!("emq cli --addr {}", broker.address("admin"));
    work_for(broker.address("workers"));
    let mut tried = 0;
    // The last example of the last of them ends the broker.
    let commands = [
        "",
        "router",
        "scheduler",
        "schedules",
        "pubsub",
        "serve",
        "jobmanager",
        "worker",
        "config",
        "submit",
        "schedule",
        "unschedule",
        "publish",
        "subscribe",
        "top",
        "cli",
    ];
    for command in commands {
        let arguments: Vec<_> = [command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        let arguments = &arguments[..];
        let help = text(&run(arguments).stdout);
        let (_, examples) = help.split_once("Examples:\n").unwrap();
        for line in examples.lines().take_while(|line| !line.is_empty()) {
            // Behind two blanks stands what the example is for.
            let example = line.trim().split("  ").next().unwrap();
            let services = ["router", "scheduler", "pubsub", "serve", "jobmanager", "worker"];
            let runs = |name: &&str| example.contains(&format!("emq {name}")) && !example.contains("--help");
            let runs_on = services.iter().any(runs) && !example.contains("emq schedules");
            let check = if runs_on && !example.contains("--check") { " --check" } else { "" };
            if example.starts_with("emq schedules") && example.contains("redis.local") {
                // There is no such server here.
                continue;
            }
            let example = example.replace(" --addr tcp://10.0.0.5:47293", "").replace("emq cli", &ask_it);
            // What needs more than a broker and a worker is at least understood.
            let last = example.rsplit("| ").next().unwrap();
            let needs_more = ["schedule", "unschedule", "publish", "subscribe", "top", "mdp"];
            let understood = needs_more.iter().any(|word| last.starts_with(&format!("emq {word}")));
            let example = if understood { format!("{last} --help") } else { example };
            let example = if example.starts_with("emq demo") { "emq demo --seconds 0.01".to_owned() } else { example };
            let mut command = without_settings(Command::new("sh"));
            command.args(["-fc", &format!("{example}{check}")]).current_dir(&directory.0);
            command.env("EVENTMQ_SCHEDULE_FILE", directory.0.join("schedules.redb"));
            command.env("EMQ_BROKER_ADDR", broker.address("clients").to_string());
            let output = command.env("PATH", &path).output().unwrap();
            assert!(output.status.success(), "{example}: {}", text(&output.stderr));
            tried += 1;
        }
    }
    assert!(tried >= 60, "{tried} examples found");
    assert_eq!(broker.end(), 0, "the last example stops the broker");
}

/// A worker that returns null for every job, until the broker says goodbye.
fn work_for(broker: Endpoint) {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut worker = Dealer::builder().build();
            worker.connect(&broker).unwrap();
            let send = |frames: &[&[u8]]| Message::from_frames([b"", &b"eMQP/1.0"[..]].iter().chain(frames));
            worker.send(send(&[b"INFORM", b"1", b"[[10, \"default\"], [10, \"email\"]]", b"worker"])).await.unwrap();
            worker.send(send(&[b"READY", b"2"])).await.unwrap();
            loop {
                let message = worker.recv().await.unwrap();
                let frame = |index| message.frame(index).unwrap_or_default();
                match frame(2) {
                    b"REQUEST" => {
                        worker.send(send(&[b"REPLY", b"3", b"{\"value\": null}", frame(3)])).await.unwrap();
                        worker.send(send(&[b"READY", b"4"])).await.unwrap();
                    }
                    b"HEARTBEAT" => worker.send(send(&[b"HEARTBEAT", b"5", b"1"])).await.unwrap(),
                    b"KBYE" => return,
                    _ => {}
                }
            }
        });
    });
}

#[test]
fn wrong_usage_is_exit_code_2_with_a_suggestion() {
    for (arguments, part) in [
        (&["rotuer"][..], "'router'"),
        (&["router", "--chekc"], "'--check'"),
        (&["config", "roter"], "router"),
        (&["router", "--set", "hwm"], "--set hwm: expected KEY=VALUE, for example --set hwm=20000"),
        (&["router", "--set", "hwn=1"], "(did you mean hwm?)"),
        (&["router", "--check", "--log-level", "loud"], "flag --log-level: log_level = \"loud\" is not one of"),
        (&["router", "--frontend", "127.0.0.1:1"], "flag --frontend: frontend_addr = \"127.0.0.1:1\" is not a usable"),
        (&["router", "--frontend", "tcp://a:1", "--set", "frontend_addr=tcp://a:1"], "give one of them"),
        (&["router", "-C", "/nonexistent/eventmq.conf"], "cannot read /nonexistent/eventmq.conf, named by -C/--config"),
        (&["submit", "mark"], "\"mark\" names no callable: expected package.module.callable"),
        (&["submit", "m.f", "--args", "{}"], "expected a JSON array such as '[1, \"two\"]'"),
        (&["submit", "m.f", "--wait", "--no-confirm"], "cannot be used with '--no-confirm'"),
        (&["submit", "-", "--id", "x"], "--id is for a single job; a line of input has a key id"),
        (&["schedule", "m.f"], "<--every <SECONDS>|--cron <EXPRESSION>>"),
        (&["schedule", "m.f", "--every", "0"], "'--every <SECONDS>'"),
        (&["cli", "--addr", "localhost:1", "status"], "'--addr [<ADDRESS>]'"),
        (&["top"], "emq top needs a terminal"),
        (&["top", "--interval", "0.01"], "expected at least 0.1"),
        (&[], "Usage: emq <COMMAND>"),
    ] {
        let (code, out, err) = outcome(run(arguments));
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(err.contains(part), "{arguments:?}: {err}");
    }
    let output = emq(&["router", "--check"]).env("EVENTMQ_HWM", "many").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let output = emq(&["router"]).env("EMQ_LOG", "zmtp=loud").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("emq: environment variable EMQ_LOG"));
}

#[test]
fn check_shows_settings_with_their_origins() {
    let directory = Directory::new();
    let file = directory.file("a.conf", "[global]\nhwm = 5\nhwmm = 6\n[router]\nqueues = [[1,\"a\"]]\n");
    let output = emq(&["router", "-C", &file, "--check", "--set", "dead_limit=7"])
        .env("EVENTMQ_SHUTDOWN_GRACE", "2.50")
        .output()
        .unwrap();
    let (code, out, err) = outcome(output);
    assert_eq!(code, 0);
    let has = |key: &str, value: &str, origin: &str| {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let wanted = words(&format!("{key} {value} {origin}"));
        assert!(out.lines().any(|line| words(line) == wanted), "{wanted:?} is not in:\n{out}");
    };
    has("hwm", "5", &format!("{file}, line 2, section [global]"));
    has("queues", "[[1, \"a\"]]", &format!("{file}, line 5, section [router]"));
    has("shutdown_grace", "2.5", "environment variable EVENTMQ_SHUTDOWN_GRACE");
    has("dead_limit", "7", "flag --set dead_limit");
    has("delivery_limit", "3", "default");
    let expected = format!(
        "warning: {file}, line 3, section [global]: there is no setting hwmm (did you mean hwm?); it is ignored\n"
    );
    assert_eq!(err, expected);
    assert_eq!(text(&emq(&["config", "router", "-C", &file]).output().unwrap().stderr), expected);
}

#[test]
fn json_output_is_as_documented() {
    let output = emq(&["config", "router", "--json", "-C", "tests/conf/json.conf", "--set", "dead_limit=7"])
        .env("EVENTMQ_SHUTDOWN_GRACE", "2.5")
        .output()
        .unwrap();
    let (code, out, err) = outcome(output);
    assert_eq!((code, err.as_str()), (0, ""));
    let expected = fs::read_to_string("tests/conf/json.json").unwrap();
    assert_eq!(out, expected, "{out}");
}

#[test]
fn called_as_emq_router_it_is_the_router() {
    let directory = Directory::new();
    let file = directory.file("a.conf", "[global]\nhwm = 5\n");
    for arguments in [&["-C", &file][..], &["--config", &file], &["--conf", &file], &[&format!("-C{file}")]] {
        let output = emq(arguments).arg("--check").arg0("/usr/local/bin/emq-router").output().unwrap();
        let (code, out, err) = outcome(output);
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
        assert!(out.contains(&format!("{file}, line 2")), "{out}");
    }
    // `-C` alone is accepted by the original, too: it means the default file.
    for arguments in [&["-C"][..], &["-C", ""]] {
        let output = emq(&["--check"]).args(arguments).arg0("emq-router").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
fn the_job_managers_flags_are_pythons() {
    let output = emq(&["-B", "tcp://10.0.0.1:5", "-Q", "email", "sms", "-J", "7", "-n", "one", "--check"])
        .arg0("emq-jobmanager")
        .env("EVENTMQ_DEFAULT_QUEUE_WEIGHT", "15")
        .output()
        .unwrap();
    let (code, out, err) = outcome(output);
    assert_eq!((code, err.as_str()), (0, ""));
    for (key, value, origin) in [
        ("worker_addr", "tcp://10.0.0.1:5", "flag --broker-addr"),
        ("queues", r#"[[15, "email"], [15, "sms"]]"#, "flag --queues"),
        ("concurrent_jobs", "7", "flag --jobs"),
    ] {
        let line = out.lines().find(|line| line.starts_with(key)).unwrap();
        assert!(line.contains(value) && line.ends_with(origin), "{line}");
    }
    for arguments in [&["-B"][..], &["-C"], &["-J"]] {
        let output = emq(&["--check"]).args(arguments).arg0("emq-jobmanager").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "without a value: {}", text(&output.stderr));
    }
    for (arguments, part) in [
        (&["jobmanager", "-J", "0"][..], "flag --jobs: concurrent_jobs = \"0\" is out of range: expected 1 to"),
        (&["jobmanager", "-Q", "a", "--set", "queues=[]"], "queues is set by"),
        (&["worker"], "--exec <NAME=PROGRAM>"),
        (&["worker", "--exec", "x"], "expected NAME=PROGRAM"),
        (&["worker", "--exec", "x=y", "-Q", "b:a"], "expected WEIGHT:QUEUE"),
    ] {
        let (code, out, err) = outcome(run(arguments));
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(err.contains(part), "{arguments:?}: {err}");
    }
    let (code, _, err) = outcome(run(&["jobmanager", "--python", "/nowhere/python3"]));
    assert!(code == 1 && err.contains("cannot run the Python interpreter /nowhere/python3"), "{err}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for arguments in ["config router", "router --help", "router --check"] {
        let mut command = emq(&arguments.split(' ').collect::<Vec<_>>());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    }
}

#[test]
fn the_router_runs_until_told_to_stop() {
    for signal in ["TERM", "INT"] {
        let mut running = Running::start(&[]);
        running.signal(signal);
        running.wait_for(&format!("signal=\"SIG{signal}\""));
        assert_eq!(running.end(), 0);
    }
}

/// A broker whose one worker has a job that it never finishes. The sockets must live as long as the job.
async fn with_a_job_running(arguments: &[&str]) -> (Running, [Dealer; 2]) {
    let running = Running::start(arguments);
    let (mut worker, client) = (Dealer::builder().build(), Dealer::builder().build());
    worker.connect(&running.address("workers")).unwrap();
    client.connect(&running.address("clients")).unwrap();
    let send = |frames: &[&str]| Message::from_frames(["", "eMQP/1.0"].iter().chain(frames));
    worker.send(send(&["INFORM", "1", "", "worker"])).await.unwrap();
    worker.send(send(&["READY", "2"])).await.unwrap();
    client.send(send(&["REQUEST", "3", "default", "", "[\"run\", {}]"])).await.unwrap();
    while worker.recv().await.unwrap().frame(2) != Some(b"REQUEST") {}
    (running, [worker, client])
}

#[tokio::test]
async fn a_running_job_gets_the_grace_and_a_second_signal_ends_it() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let (mut running, _peers) = with_a_job_running(&["--set", "shutdown_grace=600"]).await;
        running.signal("TERM");
        running.wait_for("stopping");
        running.signal(signal);
        running.wait_for("ending at once");
        assert_eq!(running.end(), code);
    }
    let (running, _peers) = with_a_job_running(&["--set", "shutdown_grace=0.2"]).await;
    running.signal("TERM");
    assert_eq!(running.end(), 0);
}

#[test]
fn settings_are_read_again_and_bad_ones_are_not_taken() {
    let directory = Directory::new();
    let file = directory.file("a.conf", "[global]\nhwm = 5\n");
    let mut running = Running::start(&["-C", &file]);
    directory.file("a.conf", "[global]\nhwm = many\n");
    running.signal("HUP");
    let line = running.wait_for("ERROR");
    assert!(line.contains("the settings stay as they were") && line.contains("hwm = \"many\""), "{line}");
    directory.file("a.conf", "[global]\nhwm = 6\nhwmm = 7\n");
    running.signal("HUP");
    running.wait_for("did you mean hwm?");
    running.signal("TERM");
    assert_eq!(running.end(), 0);
}

#[test]
fn an_address_in_use_is_exit_code_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", taken.local_addr().unwrap());
    let arguments =
        ["router", "--frontend", "tcp://127.0.0.1:0", "--backend", &address, "--admin", "tcp://127.0.0.1:0"];
    let (code, out, err) = outcome(run(&arguments));
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains(&format!("emq: cannot bind {address}: ")) && err.contains("another broker"), "{err}");
}

#[test]
fn the_log_is_one_line_per_event_and_may_be_json() {
    let mut running = Running::start(&["--set", "log_format=json", "--log-level", "debug"]);
    running.signal("TERM");
    let line = running.wait_for("SIGTERM");
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((event["level"].as_str(), event["signal"].as_str()), (Some("INFO"), Some("SIGTERM")), "{line}");
    assert_eq!(running.end(), 0);
}

#[test]
fn a_closed_log_does_not_stop_the_router() {
    let mut running = Running::start(&[]);
    // Close our end of the pipe: from now on every line of the log fails.
    let child_log = std::mem::replace(&mut running.log, BufReader::new(closed_pipe()));
    drop(child_log);
    running.signal("HUP");
    running.signal("TERM");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
}

fn closed_pipe() -> ChildStderr {
    let mut child = Command::new("true").stderr(Stdio::piped()).spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    child.wait().unwrap();
    stderr
}

/// No scheduler runs, nothing is kept: every listing says so, and the folder is not made for it.
#[test]
fn schedules_of_nobody_are_an_empty_list() {
    let directory = Directory::new();
    let file = directory.0.join("none").join("schedules.redb");
    let set = format!("schedule_file={}", file.display());
    let (code, out, err) = outcome(run(&["schedules", "--set", &set]));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("0 schedules") && out.contains("not there yet"), "{out}");
    let (code, out, _) = outcome(run(&["schedules", "--json", "--set", &set]));
    let listings: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &listings[0]["schedules"]), (0, &serde_json::json!([])));
    assert!(!file.parent().unwrap().exists());

    let conf = directory.0.join("shared.conf");
    std::fs::write(&conf, "[global]\nfrontend_addr = tcp://127.0.0.1:1\nfrontend_adr = tcp://127.0.0.1:1\n").unwrap();
    let (code, _, err) = outcome(run(&["schedules", "-C", conf.to_str().unwrap(), "--set", &set]));
    let lines: Vec<_> = err.lines().collect();
    assert!(
        code == 0 && matches!(lines[..], [line] if line.contains("frontend_adr;") || line.contains("frontend_adr ")),
        "{err}"
    );
}

#[test]
fn the_other_programs_check_their_settings_and_are_called_by_name() {
    for (name, key, value) in [
        ("emq-scheduler", "schedule_time_zone", "Europe/Berlin"),
        ("emq-pubsub", "publisher_outgoing_addr", "tcp://127.0.0.1:9"),
    ] {
        let set = format!("{key}={value}");
        let output = emq(&["--check", "--set", &set]).arg0(format!("/usr/bin/{name}")).output().unwrap();
        let (code, out, _) = outcome(output);
        assert!(code == 0 && out.contains(key) && out.contains(value), "{name}: {out}");
        let bad = emq(&["--check", "--set", &format!("{key}=nonsense")]).arg0(name).output().unwrap();
        let (code, _, err) = outcome(bad);
        assert!(code == 2 && err.contains(key) && err.contains("nonsense"), "{name}: {err}");
    }
    let (code, out, _) = outcome(run(&["serve", "--check", "--set", "schedule_store=memory"]));
    assert_eq!(code, 0);
    for needed in ["[router]", "[scheduler]", "[publisher]", "hwm", "missed_runs", "publisher_incoming_addr"] {
        assert!(out.contains(needed), "{needed} is not in:\n{out}");
    }
}

#[test]
fn the_reference_has_every_setting() {
    let (code, out, err) = outcome(run(&["config", "--reference"]));
    assert_eq!((code, err.as_str()), (0, ""));
    for setting in eventmq::conf::settings::TABLE {
        assert!(out.contains(&format!("| `{}` |", setting.name)), "{}", setting.name);
    }
    assert_eq!(outcome(run(&["config"])).0, 2);
}

#[test]
fn mdp_help_is_complete_and_wrong_use_is_told() {
    for arguments in
        [&["mdp", "--help"][..], &["mdp", "broker", "--help"], &["mdp", "worker", "-h"], &["mdp", "client", "-h"]]
    {
        let (code, out, err) = outcome(run(arguments));
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
        assert!(out.contains("Examples:"), "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    }
    for (arguments, said) in [
        (&["mdp", "worker", ""][..], "a service name needs at least one byte"),
        (&["mdp", "client", "echo", "x", "--pipeline"], "--count"),
        (&["mdp", "broker", "--heartbeat", "0"], "more than 0 seconds"),
        (&["mdp", "client", "echo", "x", "--mdp", "0.3"], "0.1, 0.2"),
    ] {
        let (code, out, err) = outcome(run(arguments));
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(err.contains(said), "{err}");
    }
}

#[test]
fn an_mdp_request_goes_through_our_own_broker_and_worker() {
    let start = |arguments: &[&str]| emq(arguments).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut broker = start(&["mdp", "broker", "--bind", "tcp://127.0.0.1:0", "--json"]);
    let mut line = String::new();
    BufReader::new(broker.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("endpoint\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let worker = start(&["mdp", "worker", "upper", "--addr", &address, "--json", "--exec", "tr", "a-z", "A-Z"]);
    let (code, out, err) = outcome(run(&["mdp", "client", "upper", "hello", "--addr", &address, "--attempts", "10"]));
    assert_eq!((code, out.as_str(), err.as_str()), (0, "HELLO\n", ""));
    for (child, said) in [(worker, "{\"failed\":0,\"served\":1}\n"), (broker, "\"replies\":1,")] {
        let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(status.success());
        let (code, out, _) = outcome(child.wait_with_output().unwrap());
        assert_eq!(code, 0);
        assert!(out.contains(said), "{out}");
    }
}
