"""eMQP peers made of bare libzmq sockets."""

from __future__ import annotations

import json
import queue
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import zmq

from waits import SOON, is_free, until

PROTOCOL = b"eMQP/1.0"
DEFAULT_QUEUES = ((10, "default"),)


def new_id() -> bytes:
    """Text of a UUID, as Python EventMQ uses for identities and message ids."""
    return str(uuid.uuid4()).encode()


def call(name: str, *args: Any, path: str = "jobs", **kwargs: Any) -> bytes:
    """Message of a REQUEST that runs `path.name`."""
    what = {"path": path, "callable": name, "args": list(args), "kwargs": kwargs, "class_args": [], "class_kwargs": {}}
    return json.dumps(["run", what]).encode()


@dataclass(frozen=True)
class Received:
    """A message from the broker, its body as bytes."""

    command: bytes
    msgid: bytes
    body: tuple[bytes, ...]
    at: float = field(default_factory=time.monotonic, compare=False)

    @classmethod
    def parse(cls, frames: list[bytes]) -> Received:
        assert len(frames) >= 4 and frames[0] == b"" and frames[1] == PROTOCOL, f"not eMQP: {frames!r}"
        return cls(frames[2], frames[3], tuple(frames[4:]))


class Dealer:
    """A libzmq DEALER that speaks eMQP. `identity=None` makes a UUID, `b""` leaves libzmq's default: none."""

    def __init__(self, address: str, identity: bytes | None = None, **options: int) -> None:
        self.identity = new_id() if identity is None else identity
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.sndhwm = self.socket.rcvhwm = 0
        if self.identity:
            self.socket.routing_id = self.identity
        for option, value in options.items():
            setattr(self.socket, option, value)
        self.socket.connect(address)

    def send(self, command: str, *body: bytes | str, msgid: bytes | None = None) -> bytes:
        """Sends a command and returns its message id."""
        msgid = new_id() if msgid is None else msgid
        frames = [frame.encode() if isinstance(frame, str) else frame for frame in body]
        self.socket.send_multipart([b"", PROTOCOL, command.encode(), msgid, *frames])
        return msgid

    def receive(self, timeout: float = SOON) -> Received | None:
        """The next message, or None when the time is over."""
        if not self.socket.poll(max(0, int(timeout * 1000))):
            return None
        return Received.parse(self.socket.recv_multipart())

    def close(self, linger: int = 0) -> None:
        self.socket.close(linger=linger)

    def __enter__(self) -> Dealer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Client(Dealer):
    """A client (CLI): sends REQUESTs and sorts the REPLYs by the request they answer."""

    def __init__(self, address: str, identity: bytes | None = None, **options: int) -> None:
        super().__init__(address, identity, **options)
        self.acceptances: dict[bytes, list[Received]] = defaultdict(list)
        self.results: dict[bytes, list[bytes]] = defaultdict(list)
        self.others: list[Received] = []

    def request(self, message: bytes, queue: str = "default", headers: str = "", msgid: bytes | None = None) -> bytes:
        return self.send("REQUEST", queue, headers, message, msgid=msgid)

    def run(self, name: str, *args: Any, queue: str = "default", headers: str = "", **kwargs: Any) -> bytes:
        """Asks for a function of the module `jobs`."""
        return self.request(call(name, *args, **kwargs), queue, headers)

    def read(self, seconds: float = 0.0) -> None:
        """Sorts in what has arrived and, for that long, what still does."""
        deadline = time.monotonic() + seconds
        while (message := self.receive(deadline - time.monotonic())) is not None:
            self._sort(message)

    def _sort(self, message: Received) -> None:
        if message.command == b"REPLY" and len(message.body) == 1:
            self.acceptances[message.body[0]].append(message)
        elif message.command == b"REPLY" and len(message.body) == 2:
            self.results[message.body[1]].append(message.body[0])
        else:
            self.others.append(message)

    def accepted(self, msgid: bytes, timeout: float = SOON) -> Received:
        """Waits for the acceptance of a request: a REPLY of one body frame."""
        self._await(lambda: self.acceptances.get(msgid), f"acceptance of {msgid!r}", timeout)
        return self.acceptances[msgid][0]

    def result(self, msgid: bytes, timeout: float = SOON) -> dict[str, Any]:
        """Waits for the result of a request: a REPLY of two body frames."""
        self._await(lambda: self.results.get(msgid), f"result of {msgid!r}", timeout)
        return json.loads(self.results[msgid][0])

    def _await(self, probe: Callable[[], object], what: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not probe():
            message = self.receive(deadline - time.monotonic())
            assert message is not None, f"not within {timeout:g} s: {what}"
            self._sort(message)


class Admin(Dealer):
    """An administrator: one command, one JSON answer."""

    def ask(self, command: str, *body: bytes | str, timeout: float = SOON) -> Any:
        msgid = self.send(command, *body, msgid=b"admin:" + new_id())
        answer = self.receive(timeout)
        assert answer is not None, f"no answer to {command} ({msgid!r}) within {timeout:g} s"
        assert answer.command == b"REPLY", answer
        return json.loads(answer.body[0])

    def status(self, timeout: float = SOON) -> dict[str, Any]:
        return self.ask("STATUS", timeout=timeout)

    def workers(self) -> dict[str, Any]:
        return self.ask("ROUTER_SHOW_WORKERS")["connected_workers"]

    def queues(self) -> dict[str, Any]:
        return self.ask("ROUTER_SHOW_WORKERS")["connected_queues"]

    def schedulers(self) -> dict[str, Any]:
        return self.ask("ROUTER_SHOW_SCHEDULERS")["connected_schedulers"]

    def in_flight(self) -> int:
        return sum(self.status()["inflight_messages_by_queue"].values())

    def waiting(self) -> int:
        return sum(self.status()["waiting_messages_by_queue"].values())

    def slots(self) -> int:
        return sum(worker["available_slots"] for worker in self.workers().values())


@dataclass(frozen=True)
class Job:
    """A REQUEST as a worker got it."""

    msgid: bytes
    queue: bytes
    headers: bytes
    message: bytes
    at: float

    @property
    def wants_reply(self) -> bool:
        return b"reply-requested" in self.headers.split(b",")


def answer(worker: FakeWorker, job: Job) -> None:
    """What an able worker does: the job is done at once, its slot is free again."""
    worker.socket_reply(job, {"value": "done"})
    worker.socket_ready()


def hold(_worker: FakeWorker, _job: Job) -> None:
    """Takes the job and does nothing with it."""


class Crash(Exception):
    """Raised by a handler: the worker's connection ends there and then, without a word."""


class FakeWorker:
    """A worker (FW) in a thread of its own: INFORM, READYs, HEARTBEATs, and a handler for every REQUEST.

    Methods called `socket_*` belong to the thread, for handlers; the others may be called from the test."""

    def __init__(
        self,
        address: str,
        slots: int = 1,
        queues: Iterable[tuple[int, str]] | None = DEFAULT_QUEUES,
        handler: Callable[[FakeWorker, Job], None] = answer,
        identity: bytes | None = None,
        heartbeat: float | None = 0.3,
        inform: bool = True,
        back_again: bool = False,
        receive_limit: int = 0,
    ) -> None:
        self.identity = new_id() if identity is None else identity
        self.handler = handler
        self.queues = "" if queues is None else json.dumps([list(pair) for pair in queues])
        self.jobs: list[Job] = []
        self.commands: list[Received] = []
        self.informs: list[bytes] = []
        self._address = address
        self._slots = slots
        self._heartbeat = heartbeat
        self._inform = inform
        self._back_again = back_again
        self._receive_limit = receive_limit
        self._orders: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._reading = True
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="fake worker", daemon=True)
        self._thread.start()

    # -- from the test ------------------------------------------------------------------------------------------------

    def registered(self, timeout: float = SOON) -> FakeWorker:
        """Waits for the ACK of the INFORM."""
        until(lambda: self.saw(b"ACK"), f"ACK for worker {self.identity!r}", timeout)
        return self

    def saw(self, command: bytes) -> list[Received]:
        """What came of one command."""
        return [message for message in list(self.commands) if message.command == command]

    def wait_jobs(self, count: int, timeout: float = SOON) -> list[Job]:
        try:
            until(lambda: len(self.jobs) >= count, f"{count} jobs at worker {self.identity!r}", timeout)
        except AssertionError as late:
            raise AssertionError(f"{late}; it has {len(self.jobs)}") from None
        return list(self.jobs)

    def ready(self, count: int = 1) -> None:
        self._do(lambda: [self.socket_ready() for _ in range(count)])

    def reply(self, job: Job, value: Any = "done") -> None:
        self._do(lambda: self.socket_reply(job, {"value": value}))

    def send(self, command: str, *body: bytes | str, msgid: bytes | None = None) -> None:
        self._do(lambda: self._dealer.send(command, *body, msgid=msgid))

    def inform(self, queues: Iterable[tuple[int, str]] | None = None) -> None:
        if queues is not None:
            self.queues = json.dumps([list(pair) for pair in queues])
        self._do(self._send_inform)

    def silence(self) -> None:
        """No more HEARTBEATs; what comes is still read."""
        self._heartbeat = None

    def deaf(self) -> None:
        """Reads no more."""
        self._do(lambda: setattr(self, "_reading", False))

    def kbye(self) -> None:
        """Says that it leaves, and sends nothing by itself after that."""
        self.silence()
        self.send("KBYE")

    def close(self) -> None:
        """Closes the connection without a word."""
        self._stop.set()
        self._thread.join(SOON)
        assert not self._thread.is_alive(), "worker thread did not end"
        if self._failure is not None:
            raise AssertionError("fake worker failed") from self._failure

    def __enter__(self) -> FakeWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, order: Callable[[], object]) -> None:
        self._orders.put(order)

    # -- in the thread ------------------------------------------------------------------------------------------------

    def socket_ready(self) -> None:
        self._dealer.send("READY")

    def socket_reply(self, job: Job, result: dict[str, Any]) -> None:
        self._dealer.send("REPLY", json.dumps(result), job.msgid)

    def _send_inform(self) -> None:
        self.informs.append(self._dealer.send("INFORM", self.queues, "worker"))

    def _main(self) -> None:
        try:
            options = {"rcvhwm": self._receive_limit} if self._receive_limit else {}
            self._dealer = Dealer(self._address, self.identity, **options)
            try:
                self._introduce()
                self._loop()
            finally:
                self._dealer.close()
        except Crash:
            pass
        except BaseException as failure:  # shown by close()
            self._failure = failure

    def _introduce(self) -> None:
        if self._inform:
            self._send_inform()
        for _ in range(self._slots):
            self.socket_ready()

    def _loop(self) -> None:
        next_heartbeat = time.monotonic()
        while not self._stop.is_set():
            if self._heartbeat is not None and time.monotonic() >= next_heartbeat:
                self._dealer.send("HEARTBEAT", str(time.time()))
                next_heartbeat = time.monotonic() + self._heartbeat
            while not self._orders.empty():
                self._orders.get()()
            if not self._reading:
                time.sleep(0.01)
                continue
            if self._dealer.socket.poll(10):
                self._receive_all()

    def _receive_all(self) -> None:
        while self._reading and self._dealer.socket.poll(0):
            self._on_message(Received.parse(self._dealer.socket.recv_multipart()))

    def _on_message(self, message: Received) -> None:
        self.commands.append(message)
        if message.command == b"REQUEST":
            job = Job(message.msgid, *message.body, at=message.at)
            self.jobs.append(job)
            self.handler(self, job)
        elif message.command == b"DISCONNECT" and self._back_again:
            self._introduce()


class FakeRouter:
    """A bare ROUTER (FR) that stands in for a broker."""

    def __init__(self, address: str) -> None:
        self.socket = zmq.Context.instance().socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.bind(address)

    def receive(self, timeout: float = SOON) -> tuple[bytes, Received] | None:
        if not self.socket.poll(int(timeout * 1000)):
            return None
        identity, *frames = self.socket.recv_multipart()
        return identity, Received.parse(frames)

    def close(self) -> None:
        """libzmq closes in the background: a broker that takes the place must find it free."""
        if self.socket.closed:
            return
        address = self.socket.last_endpoint.decode()
        self.socket.close(linger=0)
        until(lambda: is_free(address), f"{address} is free")
