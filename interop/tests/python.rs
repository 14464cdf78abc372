//! Runs the Python suite in `interop/py`: real EventMQ 0.3.13 programs and raw libzmq sockets against the `emq` binary
//! and against this workspace's ZMTP sockets.
//!
//! Builds what the suite drives, makes `interop/.venv` if it is missing or stale, runs pytest there, passes its output
//! through and ends with its exit code. Arguments after `--` go to pytest (`-k a01`, `-x`, `-v`). `EMQ_PYTHON` names the
//! interpreter; `EMQ_INTEROP=skip` leaves the suite out, visibly.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Program driven by the suite, built by cargo for this test.
const ZMTP_PEER: &str = env!("CARGO_BIN_EXE_zmtp-peer");

/// Minor versions of CPython 3 that run EventMQ 0.3.13: newer ones start processes in a way it does not survive.
const MINORS: std::ops::RangeInclusive<u32> = 9..=13;

fn main() -> ExitCode {
    if env::var_os("EMQ_INTEROP").is_some_and(|value| value == "skip") {
        println!("interop suite left out: EMQ_INTEROP=skip is set");
        println!("0 passed, 0 failed, 1 skipped");
        return ExitCode::SUCCESS;
    }
    let selection = Selection::from_arguments(env::args_os().skip(1));
    if selection.nothing {
        return ExitCode::SUCCESS;
    }
    match run(&selection) {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            eprintln!("interop suite cannot run: {message}");
            eprintln!("(EMQ_INTEROP=skip leaves it out)");
            println!("0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

/// Which tests to run: pytest arguments, made from what came after `--`, where libtest's own may be among them.
struct Selection {
    pytest: Vec<OsString>,
    /// A bare word was given, as libtest takes it: running no test is then not an error.
    filtered: bool,
    /// Only tests this suite does not have were asked for.
    nothing: bool,
}

impl Selection {
    fn from_arguments(arguments: impl Iterator<Item = OsString>) -> Self {
        let mut selection = Self { pytest: Vec::new(), filtered: false, nothing: false };
        let mut value_expected = false;
        for argument in arguments {
            let text = argument.to_string_lossy().into_owned();
            let is_value = std::mem::replace(
                &mut value_expected,
                matches!(text.as_str(), "-k" | "-m" | "-p" | "-n" | "-o" | "-W"),
            );
            match text.as_str() {
                "--nocapture" | "--no-capture" | "--show-output" | "--exact" | "--include-ignored" | "--quiet" => {}
                "--list" | "--ignored" => selection.nothing = true,
                _ if text.starts_with("--test-threads") || text.starts_with("--format") => {}
                _ if is_value || text.starts_with('-') || text.contains(".py") => selection.pytest.push(argument),
                _ => {
                    selection.filtered = true;
                    selection.pytest.extend(["-k".into(), argument]);
                }
            }
        }
        selection
    }
}

fn run(selection: &Selection) -> Result<u8, String> {
    let home = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let emq = match env::var_os("EMQ_BIN") {
        Some(path) => PathBuf::from(path),
        None => build_emq()?,
    };
    let zeromq = match env::var_os("ZEROMQ_PEER_BIN") {
        Some(path) => PathBuf::from(path),
        None => build_zeromq_peer(&home)?,
    };
    let python = environment(&home)?;
    let status = Command::new(&python)
        .current_dir(home.join("py"))
        .args(["-u", "-B", "-m", "pytest"])
        .args(&selection.pytest)
        .env("EMQ_BIN", &emq)
        .env("ZMTP_PEER_BIN", ZMTP_PEER)
        .env("ZEROMQ_PEER_BIN", &zeromq)
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("{}: {error}", python.display()))?;
    match status.code() {
        Some(5) if selection.filtered => Ok(0),
        Some(code) => Ok(u8::try_from(code).unwrap_or(1)),
        None => Err(format!("pytest was ended from outside: {status}")),
    }
}

/// Builds the broker beside this test's own programs and says where it is.
fn build_emq() -> Result<PathBuf, String> {
    build("emq", &["--package", "eventmq"], None)
}

/// Builds the peer made of the crate `zeromq`, which is of a workspace of its own.
fn build_zeromq_peer(home: &Path) -> Result<PathBuf, String> {
    let features = ["--locked", "--no-default-features", "--features", "zeromq"];
    build("peer-zeromq", &features, Some(&home.join("bench/crates/Cargo.toml")))
}

fn build(program: &str, arguments: &[&str], manifest: Option<&Path>) -> Result<PathBuf, String> {
    let profile_dir = Path::new(ZMTP_PEER).parent().ok_or("no directory of programs")?;
    let target_dir = profile_dir.parent().ok_or("no target directory")?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--bin", program]).args(arguments).arg("--target-dir").arg(target_dir);
    if let Some(manifest) = manifest {
        command.arg("--manifest-path").arg(manifest);
    }
    if profile_dir.file_name().is_some_and(|name| name == "release") {
        command.arg("--release");
    }
    checked(&mut command, &format!("cargo build --bin {program}"))?;
    Ok(profile_dir.join(format!("{program}{}", env::consts::EXE_SUFFIX)))
}

/// The suite's own Python, made anew when what it is made from has changed.
fn environment(home: &Path) -> Result<PathBuf, String> {
    let venv = home.join(".venv");
    let python = venv.join("bin/python");
    let stamp = venv.join("made-from");
    let requirements = home.join("py/requirements.txt");
    let peers = home.join("py/requirements-eventmq.txt");
    let recipe = format!("{}{}", read(&requirements)?, read(&peers)?);
    if fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == recipe) && version(python.as_os_str()).is_ok() {
        return Ok(python);
    }
    let base = interpreter()?;
    println!("making {} with {}", venv.display(), base.to_string_lossy());
    checked(Command::new(&base).args(["-m", "venv", "--clear"]).arg(&venv), "python -m venv")
        .map_err(|error| format!("{error}\n(Debian and Ubuntu: the package python3-venv has what it needs)"))?;
    let pip = |what: &str, file: &Path, more: &[&str]| {
        let mut command = Command::new(&python);
        command.args(["-m", "pip", "install", "--quiet"]).args(more).arg("-r").arg(file);
        checked(&mut command, what)
    };
    pip("pip install of the test tools", &requirements, &[])?;
    pip("pip install of eventmq", &peers, &["--no-deps"])?;
    fs::write(&stamp, recipe).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(python)
}

/// The first interpreter that can run EventMQ 0.3.13.
fn interpreter() -> Result<OsString, String> {
    let named = env::var_os("EMQ_PYTHON");
    let candidates: Vec<OsString> = match named {
        Some(name) => vec![name],
        None => {
            ["python3.11", "python3", "python3.12", "python3.13", "python3.10", "python3.9"].map(OsString::from).into()
        }
    };
    let mut tried = String::new();
    for candidate in candidates {
        match version(&candidate) {
            Ok(minor) if MINORS.contains(&minor) => return Ok(candidate),
            Ok(minor) => tried.push_str(&format!("\n  {}: is CPython 3.{minor}", candidate.to_string_lossy())),
            Err(error) => tried.push_str(&format!("\n  {}: {error}", candidate.to_string_lossy())),
        }
    }
    Err(format!(
        "no CPython 3.{} to 3.{} found (best 3.11; EMQ_PYTHON names one):{tried}",
        MINORS.start(),
        MINORS.end()
    ))
}

/// Minor version of a CPython 3.
fn version(python: &std::ffi::OsStr) -> Result<u32, String> {
    let script = "import sys; print(sys.implementation.name, *sys.version_info[:2])";
    let output =
        Command::new(python).args(["-c", script]).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["cpython", "3", minor] => minor.parse().map_err(|_| format!("odd version {text:?}")),
        _ => Err(format!("not a CPython 3: {:?} {}", text.trim(), String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs a command; its output is shown only if it fails.
fn checked(command: &mut Command, what: &str) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{what}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(format!("{what}: {}\n{out}{err}", output.status))
}
