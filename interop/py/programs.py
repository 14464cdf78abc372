"""Programs under test and the original programs, each in a process group of its own."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import redis

from peers import Admin
from waits import SOON, Ports, until

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent


def emq_binary() -> str:
    """The broker under test: the harness says where it is."""
    binary = os.environ.get("EMQ_BIN")
    if not binary:
        raise RuntimeError("EMQ_BIN is not set; run the suite with: cargo test -p interop --test python")
    return binary


def write_conf(path: Path, **sections: Mapping[str, object]) -> Path:
    """Writes an INI file as EventMQ reads it."""
    lines: list[str] = []
    for section, settings in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {value}" for key, value in settings.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


class Program:
    """A process with its output in a file, ended by its own pid or its own group and nothing wider."""

    def __init__(self, name: str, argv: list[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.argv = argv
        self.log = log
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("EVENTMQ_", "EMQ_BROKER"))},
            **(env or {}),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.env, start_new_session=True
            )

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} was not started"
        return self.process.pid

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def logged(self, pattern: str) -> list[str]:
        """Lines of the output in which the pattern is found."""
        return [line for line in self.output().splitlines() if re.search(pattern, line)]

    def wait_logged(self, pattern: str, timeout: float = SOON) -> str:
        return until(lambda: self.logged(pattern), f"{pattern!r} in the output of {self.name}", timeout)[0]

    def signal(self, number: int) -> None:
        """To the process alone."""
        os.kill(self.pid, number)

    def signal_group(self, number: int) -> None:
        """To the process and everything it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def wait_exit(self, timeout: float = SOON) -> int:
        assert self.process is not None
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {timeout:g} s") from None

    def kill_group(self) -> None:
        self.signal_group(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(SOON)

    def kill_alone(self) -> None:
        """SIGKILL to the process; what it forked lives on."""
        self.signal(signal.SIGKILL)
        self.wait_exit()


class Router(Program):
    """`emq router` with a conf file, on ports of its own."""

    #: Short, so that losses show soon; every peer of the suite talks more often than this.
    FAST = {"heartbeat_interval": "0.5", "heartbeat_timeout": 2, "heartbeat_liveness": 3, "shutdown_grace": 5}

    def __init__(self, directory: Path, ports: Ports, **settings: object) -> None:
        self.frontend, self.backend, self.admin_address = ports.address(), ports.address(), ports.address()
        self.settings: dict[str, object] = {
            **self.FAST,
            "frontend_addr": self.frontend,
            "backend_addr": self.backend,
            "administrative_addr": self.admin_address,
            "wal": directory / "wal.log",
            **settings,
        }
        self.conf = directory / "router.conf"
        binary = emq_binary()
        argv = [binary] if os.path.basename(binary) == "emq-router" else [binary, "router"]
        # The schedules it keeps without a scheduler are this test's own.
        env = {"EVENTMQ_SCHEDULE_FILE": str(directory / "schedules.redb")}
        super().__init__("router", [*argv, "-C", str(self.conf)], directory / "router.log", env)
        self.expected_end = False

    def write_conf(self) -> None:
        write_conf(self.conf, **{"global": self.settings, "router": {}})

    def start(self) -> None:
        self.write_conf()
        self.expected_end = False
        super().start()
        until(self._answers, "the router answers STATUS (see router.log)", 20.0)

    def _answers(self) -> bool:
        assert self.alive(), f"the router ended at its start:\n{self.output()[-4000:]}"
        with Admin(self.admin_address) as admin:
            admin.send("STATUS")
            return admin.receive(0.5) is not None

    def kill(self) -> None:
        self.expected_end = True
        self.kill_alone()

    def terminate(self, timeout: float = 20.0) -> int:
        self.expected_end = True
        if self.alive():
            self.signal(signal.SIGTERM)
        return self.wait_exit(timeout)

    def restart(self) -> None:
        """SIGKILL and a new process at the same addresses."""
        self.kill()
        self.start()

    def rss(self) -> int:
        """Resident bytes."""
        return psutil.Process(self.pid).memory_info().rss

    def peak(self) -> int:
        """Most resident bytes so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))) << 10

    def open_files(self) -> int:
        return psutil.Process(self.pid).num_fds()

    def finish(self) -> None:
        """Ends it, and fails if it panicked or had ended by itself."""
        if self.process is None:
            return
        ended_by_itself = not self.alive() and not self.expected_end
        self.kill_group()
        output = self.output()
        assert "panicked at" not in output, f"the router panicked:\n{output[-6000:]}"
        assert not ended_by_itself, f"the router ended by itself:\n{output[-6000:]}"


class Ours(Program):
    """One of our programs besides the router, with a conf file of its own."""

    COMMAND = ""
    SECTION = ""
    READY = ""

    def __init__(self, directory: Path, settings: Mapping[str, object], number: int = 1) -> None:
        name = f"{self.COMMAND}-{number}"
        self.conf = directory / f"{name}.conf"
        self.settings = dict(settings)
        argv = [emq_binary(), self.COMMAND, "-C", str(self.conf)]
        super().__init__(name, argv, directory / f"{name}.log")

    def start(self) -> None:
        write_conf(self.conf, **{"global": {**Router.FAST, "reconnect_timeout": 0.5}, self.SECTION: self.settings})
        ready = len(self.logged(self.READY))
        super().start()
        until(lambda: len(self.logged(self.READY)) > ready, f"{self.name} is ready (see its log)", 20.0)

    def terminate(self, timeout: float = 20.0) -> int:
        if self.alive():
            self.signal(signal.SIGTERM)
        return self.wait_exit(timeout)

    def finish(self) -> None:
        if self.process is not None:
            self.kill_group()
        assert "panicked at" not in self.output(), f"{self.name} panicked:\n{self.output()[-6000:]}"


class Scheduler(Ours):
    """`emq scheduler`."""

    COMMAND = "scheduler"
    SECTION = "scheduler"
    READY = "scheduler ready"

    def __init__(self, directory: Path, frontend: str, number: int = 1, **settings: object) -> None:
        store = {"schedule_file": directory / f"schedules-{number}.redb"}
        super().__init__(directory, {"scheduler_addr": frontend, **store, **settings}, number)

    def registered(self, times: int = 1) -> Scheduler:
        what = f"{self.name} is registered"
        until(lambda: len(self.logged("registered with the broker")) >= times, what, 20.0)
        return self

    def listing(self) -> list[dict[str, Any]]:
        """What `emq schedules --json` says."""
        argv = [emq_binary(), "schedules", "-C", str(self.conf), "--json"]
        done = subprocess.run(argv, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=True)
        return json.loads(done.stdout)[0]["schedules"]


class Publisher(Ours):
    """`emq pubsub`."""

    COMMAND = "pubsub"
    SECTION = "publisher"
    READY = "publisher ready"

    def __init__(self, directory: Path, ports: Ports, **settings: object) -> None:
        self.incoming, self.outgoing = ports.address(), ports.address()
        addresses = {"publisher_incoming_addr": self.incoming, "publisher_outgoing_addr": self.outgoing}
        super().__init__(directory, {**addresses, **settings})


class Serve(Program):
    """`emq serve`: everything in one process, at the addresses of a router that is not started."""

    def __init__(self, router: Router, ports: Ports) -> None:
        self.incoming, self.outgoing = ports.address(), ports.address()
        self.frontend, self.backend, self.admin_address = router.frontend, router.backend, router.admin_address
        conf = router.conf.with_name("serve.conf")
        write_conf(
            conf,
            **{
                "global": router.settings,
                "scheduler": {"schedule_file": conf.with_name("served.redb")},
                "publisher": {"publisher_incoming_addr": self.incoming, "publisher_outgoing_addr": self.outgoing},
            },
        )
        super().__init__("serve", [emq_binary(), "serve", "-C", str(conf)], conf.with_name("serve.log"))

    def start(self) -> None:
        ready = len(self.logged("publisher ready"))
        super().start()
        until(lambda: len(self.logged("publisher ready")) > ready, "it is ready (see serve.log)", 20.0)


class Redis(Program):
    """A redis-server of this test alone; without the program the test fails and says so."""

    def __init__(self, directory: Path, ports: Ports) -> None:
        binary = shutil.which("redis-server")
        assert binary, "redis-server is not installed: apt-get install redis-server (Debian, Ubuntu)"
        self.port = ports.free()
        argv = [binary, "--port", str(self.port), "--bind", "127.0.0.1", "--appendonly", "yes", "--dir", str(directory)]
        super().__init__("redis", argv, directory / "redis.log")

    def start(self) -> None:
        super().start()
        until(self._answers, "redis-server answers (see redis.log)")

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, decode_responses=True)

    def _answers(self) -> bool:
        with suppress(redis.ConnectionError):
            return bool(self.client().ping())
        return False


class Marks:
    """The file in which jobs leave their marks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def lines(self) -> list[list[str]]:
        return [line.split("\t") for line in self.path.read_text().splitlines()]

    def tags(self) -> list[str]:
        return [line[0] for line in self.lines()]

    def count(self) -> Counter[str]:
        return Counter(self.tags())

    def times(self, tag: str) -> list[float]:
        return [float(line[2]) for line in self.lines() if line[0] == tag]

    def wait(self, tag: str, timeout: float = SOON, count: int = 1) -> None:
        until(lambda: self.tags().count(tag) >= count, f"{count} x mark {tag!r}", timeout)

    def wait_total(self, total: int, timeout: float = SOON) -> None:
        until(lambda: len(self.tags()) >= total, f"{total} marks", timeout, every=0.1)


class PyProgram(Program):
    """One of the original programs, with a conf file of its own."""

    PROGRAM = ""
    SECTION = ""
    #: Whole seconds only: the original reads integers.
    FAST = {"heartbeat_interval": 1, "heartbeat_timeout": 2, "heartbeat_liveness": 3, "reconnect_timeout": 1}

    def __init__(
        self, directory: Path, marks: Marks, settings: Mapping[str, object], options: Iterable[str] = ()
    ) -> None:
        number = len(list(directory.glob(f"{self.PROGRAM}*.conf"))) + 1
        name = f"{self.PROGRAM}-{number}"
        # The original publisher reads its own section alone.
        own = settings if self.SECTION == "publisher" else {}
        conf = write_conf(directory / f"{name}.conf", **{"global": {**self.FAST, **settings}, self.SECTION: own})
        argv = [sys.executable, "-u", "-B", str(BIN / self.PROGRAM), "-C", str(conf), *options]
        # The original publisher takes no options either.
        env = {"PYTHONPATH": str(HERE), "EMQ_MARKS": str(marks.path), "EVENTMQ_CONFIG_FILE": str(conf)}
        super().__init__(name, argv, directory / f"{name}.log", env)
        self.start()


class PyJobManager(PyProgram):
    """The original emq-jobmanager (PYJM)."""

    PROGRAM = "emq-jobmanager"
    SECTION = "jobmanager"

    def __init__(self, directory: Path, marks: Marks, backend: str, jobs: int = 2, **settings: object) -> None:
        addresses = dict.fromkeys(("worker_addr", "worker_addr_default", "worker_addr_failover"), backend)
        self.slots = jobs
        super().__init__(directory, marks, {**addresses, "concurrent_jobs": jobs, **settings})

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children()


class PyScheduler(PyProgram):
    """The original emq-scheduler (PYSCH), with no Redis to be found."""

    PROGRAM = "emq-scheduler"
    SECTION = "scheduler"

    def __init__(self, directory: Path, marks: Marks, frontend: str, no_redis_port: int, **settings: object) -> None:
        super().__init__(
            directory, marks, {"scheduler_addr": frontend, "rq_host": "127.0.0.1", "rq_port": no_redis_port, **settings}
        )


class PyPublisher(PyProgram):
    """The original emq-pubsub (PYPUB)."""

    PROGRAM = "emq-pubsub"
    SECTION = "publisher"

    def __init__(self, directory: Path, marks: Marks, ports: Ports) -> None:
        self.incoming, self.outgoing = ports.address(), ports.address()
        addresses = {"publisher_incoming_addr": self.incoming, "publisher_outgoing_addr": self.outgoing}
        super().__init__(directory, marks, addresses)


class PyRouter(Program):
    """The original emq-router, on the conf file and the addresses of one of ours."""

    def __init__(self, ours: Router) -> None:
        argv = [sys.executable, "-u", "-B", str(BIN / "emq-router"), "-C", str(ours.conf)]
        super().__init__("emq-router", argv, ours.conf.with_name("emq-router.log"))
        self.start()


class PyClient:
    """The original client library, in a process that does one thing and ends (see client.py)."""

    def __init__(self, frontend: str, marks: Marks) -> None:
        self.env = {**os.environ, "EMQ_BROKER_ADDR": frontend, "EMQ_MARKS": str(marks.path), "PYTHONPATH": str(HERE)}

    def __call__(self, action: str, *args: Any, timeout: float = 60.0, **kwargs: Any) -> list[Any]:
        """Runs an action of client.py and returns what it printed, a JSON value a line."""
        done = subprocess.run(
            [sys.executable, "-B", str(HERE / "client.py"), action, json.dumps([args, kwargs])],
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"client.py {action}: {done.stderr.decode(errors='replace')}"
        return [json.loads(line) for line in done.stdout.splitlines()]


class Emq:
    """The program under test as a client of one broker."""

    def __init__(self, router: Router | None = None, **env: str) -> None:
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("EVENTMQ_", "EMQ_"))}
        if router is not None:
            self.env |= {"EMQ_BROKER_ADDR": router.frontend, "EVENTMQ_ADMINISTRATIVE_ADDR": router.admin_address}
        self.env |= env

    def __call__(self, *arguments: str, stdin: str = "", timeout: float = 60.0) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        done = subprocess.run(
            [emq_binary(), *arguments], env=self.env, input=stdin.encode(), capture_output=True, timeout=timeout, check=False
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def json(self, *arguments: str, stdin: str = "") -> tuple[int, list[dict]]:
        """Exit code, and the lines of --json."""
        code, out, err = self(*arguments, "--json", stdin=stdin)
        assert err == "", err
        return code, [json.loads(line) for line in out.splitlines()]

    def start(self, *arguments: str, stdin: str = "") -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [emq_binary(), *arguments], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdin is not None
        process.stdin.write(stdin.encode())
        process.stdin.close()
        process.stdin = None
        return process


PUBLISH = """
import gc, json, os, sys
import zmq
from eventmq.client.messages import send_publish_request
from eventmq.sender import Sender
sender = Sender()
sender.connect(os.environ["ADDRESS"])
for body in json.loads(sys.argv[2]):
    send_publish_request(sender, sys.argv[1], body)
del sender
gc.collect()
zmq.Context.instance().term()
"""


def py_publish(address: str, topic: str, *bodies: object) -> None:
    """Publishes with the original client library."""
    argv = [sys.executable, "-c", PUBLISH, topic, json.dumps(bodies)]
    subprocess.run(argv, env={**os.environ, "ADDRESS": address}, timeout=60, check=True)


class PyCli:
    """The original emq-cli (PYCLI) on a terminal."""

    PROMPT = "> "

    def __init__(self, address: str) -> None:
        master, slave = pty.openpty()
        self.terminal = master
        env = {**os.environ, "TERM": "dumb", "COLUMNS": "200"}
        argv = [sys.executable, "-u", "-B", str(BIN / "emq-cli"), "--addr", address]
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True, close_fds=True
        )
        os.close(slave)
        self.transcript = ""
        self._read_prompt()

    def command(self, line: str, timeout: float = SOON) -> str:
        """Types a line and returns what is shown before the next prompt."""
        os.write(self.terminal, line.encode() + b"\n")
        return self._read_prompt(timeout).removeprefix(line).strip()

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(SOON)
        os.close(self.terminal)

    def _read_prompt(self, timeout: float = SOON) -> str:
        text = ""
        deadline = time.monotonic() + timeout
        while not re.search(r"(^|\n)> $", text):
            ready, _, _ = select.select([self.terminal], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"emq-cli showed no prompt within {timeout:g} s but: {text!r}"
            text += os.read(self.terminal, 65536).decode(errors="replace").replace("\r\n", "\n")
        self.transcript += text
        return text.removesuffix(self.PROMPT)
