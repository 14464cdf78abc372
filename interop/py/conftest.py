"""Fixtures: a broker of its own for every test, and the peers that talk to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq

from managers import OurJobManager
from peers import Admin, Client, FakeWorker
from programs import (
    Emq,
    Marks,
    Publisher,
    PyCli,
    PyClient,
    PyJobManager,
    PyPublisher,
    PyRouter,
    PyScheduler,
    Redis,
    Router,
    Scheduler,
)
from proxy import Proxy
from waits import SOON, Ports, until
from zmtp_peer import ZmtpPeer

PORTS = Ports()


def pytest_report_header() -> list[str]:
    return [f"broker: {os.environ.get('EMQ_BIN')}", f"zmtp peer: {os.environ.get('ZMTP_PEER_BIN')}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How much of the matrix against libzmq was run and passed."""
    from test_matrix import ALL, PASSED

    if passed := config.stash.get(PASSED, None):
        terminalreporter.write_line(f"matrix against libzmq: {len(passed)} of {ALL} cases passed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[pytest.TestReport]:
    """Shows the end of every program's output beside a failure."""
    report = yield
    directory = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and directory is not None:
        for log in sorted(Path(directory).glob("*.log")):
            report.sections.append((log.name, log.read_text(errors="replace")[-5000:]))
    return report


@pytest.fixture
def ports() -> Ports:
    return PORTS


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What a test opened is closed in reverse order at its end."""
    with ExitStack() as exits:
        yield exits


@pytest.fixture
def new_router(tmp_path: Path, ports: Ports) -> Iterator[Callable[..., Router]]:
    """Makes a router with settings; at most one a test."""
    made: list[Router] = []

    def make(**settings: object) -> Router:
        router = Router(tmp_path, ports, **settings)
        made.append(router)
        router.start()
        return router

    yield make
    for router in made:
        router.finish()


@pytest.fixture
def router(new_router: Callable[..., Router]) -> Router:
    return new_router()


@pytest.fixture
def py_router(tmp_path, ports, stack) -> Router:
    """The original router; what is returned is one of ours that was never started, for its addresses."""
    ours = Router(tmp_path, ports, heartbeat_interval=1)
    ours.write_conf()
    made = PyRouter(ours)
    stack.callback(made.kill_group)

    def answers() -> bool:
        assert made.alive(), made.output()[-4000:]
        with Admin(ours.admin_address) as admin:
            admin.send("STATUS")
            return admin.receive(0.5) is not None

    until(answers, "the original router answers", 20)
    return ours


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return Marks(tmp_path / "marks")


@pytest.fixture
def client(stack: ExitStack) -> Callable[..., Client]:
    """Makes clients: client(router)."""

    def make(router: Router, identity: bytes | None = None, **options: int) -> Client:
        made = Client(router.frontend, identity, **options)
        stack.callback(made.close)
        return made

    return make


@pytest.fixture
def admin(stack: ExitStack) -> Callable[..., Admin]:
    def make(router: Router, identity: bytes | None = None) -> Admin:
        made = Admin(router.admin_address, identity)
        stack.callback(made.close)
        return made

    return make


@pytest.fixture
def worker(stack: ExitStack) -> Callable[..., FakeWorker]:
    """Makes registered workers: worker(router or address, ...)."""

    def make(where: Router | str, **options: object) -> FakeWorker:
        made = FakeWorker(where if isinstance(where, str) else where.backend, **options)
        stack.callback(made.close)
        return made.registered() if options.get("inform", True) else made

    return make


@pytest.fixture
def jobmanager(stack: ExitStack, tmp_path: Path, marks: Marks) -> Callable[..., PyJobManager]:
    """Starts original job managers: jobmanager(router or address, jobs=2, ...)."""

    def make(where: Router | str, jobs: int = 2, **settings: object) -> PyJobManager:
        backend = where if isinstance(where, str) else where.backend
        made = PyJobManager(tmp_path, marks, backend, jobs, **settings)
        stack.callback(made.kill_group)
        return made

    return make


@pytest.fixture
def scheduler(stack: ExitStack, tmp_path: Path, marks: Marks, ports: Ports) -> Callable[..., PyScheduler]:
    def make(router: Router, **settings: object) -> PyScheduler:
        made = PyScheduler(tmp_path, marks, router.frontend, ports.free(), **settings)
        stack.callback(made.kill_group)
        return made

    return make


@pytest.fixture
def our_scheduler(stack: ExitStack, tmp_path: Path) -> Callable[..., Scheduler]:
    """Starts schedulers of ours: our_scheduler(router or address, ...)."""
    made: list[Scheduler] = []

    def make(where: Router | str, **settings: object) -> Scheduler:
        frontend = where if isinstance(where, str) else where.frontend
        made.append(Scheduler(tmp_path, frontend, len(made) + 1, **settings))
        stack.callback(made[-1].finish)
        made[-1].start()
        return made[-1]

    return make


@pytest.fixture
def publisher(stack: ExitStack, tmp_path: Path, ports: Ports) -> Publisher:
    made = Publisher(tmp_path, ports)
    stack.callback(made.finish)
    made.start()
    return made


@pytest.fixture
def redis_server(stack: ExitStack, tmp_path: Path, ports: Ports) -> Redis:
    made = Redis(tmp_path, ports)
    stack.callback(made.kill_group)
    made.start()
    return made


@pytest.fixture
def py_client(marks: Marks) -> Callable[[Router], PyClient]:
    return lambda router: PyClient(router.frontend, marks)


@pytest.fixture
def py_cli(stack: ExitStack) -> Callable[[str], PyCli]:
    def make(address: str) -> PyCli:
        made = PyCli(address)
        stack.callback(made.close)
        return made

    return make


@pytest.fixture
def peer(stack: ExitStack) -> Callable[..., ZmtpPeer]:
    def make(kind: str, **options: int | bytes) -> ZmtpPeer:
        made = ZmtpPeer(kind, **options)
        stack.callback(made.close)
        return made

    return make


@pytest.fixture
def libzmq(stack: ExitStack) -> Callable[..., zmq.Socket]:
    """Makes libzmq sockets with timeouts; options are pyzmq's attributes."""

    def make(kind: str, **options: object) -> zmq.Socket:
        made = zmq.Context.instance().socket(getattr(zmq, kind))
        stack.callback(made.close, linger=0)
        made.sndtimeo = made.rcvtimeo = int(SOON * 1000)
        for name, value in options.items():
            setattr(made, name, value)
        return made

    return make


@pytest.fixture
def proxy(stack: ExitStack) -> Callable[[str], Proxy]:
    """Puts a proxy before an address: proxy(router.backend).address."""

    def make(target: str) -> Proxy:
        made = Proxy(target, PORTS.address())
        stack.callback(made.close)
        return made

    return make
