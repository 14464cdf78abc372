"""Making what is measured: the C programs, the release builds, the Python environment."""

import ctypes.util
import json
import os
import shutil
import subprocess
import sys

from .processes import Failed

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INTEROP = os.path.dirname(BENCH)
ROOT = os.path.dirname(INTEROP)


def _run(command, what, **options):
    print("building:", what, file=sys.stderr)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    except FileNotFoundError as missing:
        raise Failed(f"{what} needs `{missing.filename}`, which is not on the PATH") from None
    if done.returncode:
        raise Failed(f"{what} failed:\n{done.stdout[-4000:]}")
    return done.stdout


def target_directory():
    """Cargo's target directory; everything the benchmark builds goes there."""
    try:
        text = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT, check=True,
                              stdout=subprocess.PIPE).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        raise Failed("`cargo metadata` does not work here: is Rust installed?") from None
    return json.loads(text)["target_directory"]


def c_programs(names):
    """Compiles the C programs; their paths by name."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler:
        raise Failed("what uses libzmq is written in C and there is no C compiler: apt-get install gcc libc6-dev")
    probe = subprocess.run([compiler, "-E", "-x", "c", "-"], input=b"#include <zmq.h>\n", capture_output=True)
    if probe.returncode:
        raise Failed("libzmq's header is missing: apt-get install libzmq3-dev")
    directory = os.path.join(target_directory(), "bench")
    os.makedirs(directory, exist_ok=True)
    paths = {name: os.path.join(directory, name) for name in names}
    for name, path in paths.items():
        source = os.path.join(BENCH, "c", name + ".c")
        _run([compiler, "-O2", "-Wall", "-pthread", "-o", path, source, "-lzmq"], f"{name}.c")
    return paths


def rust_program(name, package):
    """The release build of one of our binaries."""
    _run(["cargo", "build", "--release", "--package", package, "--bin", name], f"{name} (release)", cwd=ROOT)
    return os.path.join(target_directory(), "release", name)


def foreign_crate(name):
    """The release build of the roles with another Rust crate; these are a package of their own."""
    program = "bench-" + name
    manifest = os.path.join(BENCH, "crates", "Cargo.toml")
    _run(["cargo", "build", "--release", "--locked", "--manifest-path", manifest, "--target-dir", target_directory(),
          "--no-default-features", "--features", name, "--bin", program], f"{program} (release)", cwd=BENCH)
    return os.path.join(target_directory(), "release", program)


def curve_keys():
    """A fresh CURVE key pair in Z85: public, secret."""
    keys = ctypes.create_string_buffer(41), ctypes.create_string_buffer(41)
    if ctypes.CDLL(ctypes.util.find_library("zmq")).zmq_curve_keypair(*keys):
        raise Failed("libzmq makes no CURVE keys here")
    return [key.value.decode() for key in keys]


def python_router():
    """The command of the Python emq-router, in the interop suite's environment, which is made if it is not there."""
    environment = os.path.join(INTEROP, ".venv")
    python, router = (os.path.join(environment, "bin", name) for name in ("python", "emq-router"))
    if not os.path.exists(router):
        lists = [os.path.join(INTEROP, "py", name) for name in ("requirements.txt", "requirements-eventmq.txt")]
        base = os.environ.get("EMQ_PYTHON") or shutil.which("python3.11") or sys.executable  # 3.11 runs it best
        _run([base, "-m", "venv", "--clear", environment], "interop/.venv (needs python3-venv)")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "-r", lists[0]], "interop/.venv: what the Python router needs")
        _run([*pip, "--no-deps", "-r", lists[1]], "interop/.venv: the Python router")
    return [python, router]


def libzmq_version():
    """The version of the libzmq that the C programs are linked with."""
    name = ctypes.util.find_library("zmq")
    if not name:
        return "unknown"
    numbers = [ctypes.c_int() for _ in range(3)]
    ctypes.CDLL(name).zmq_version(*map(ctypes.byref, numbers))
    return ".".join(str(n.value) for n in numbers)
