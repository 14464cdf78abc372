"""Majordomo peers made of bare libzmq sockets, written from the RFC texts (7 and 18), and our programs of `emq mdp`."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import zmq

from programs import Program, emq_binary
from waits import SOON, until

READY, REQUEST = b"\x01", b"\x02"


class V1:
    """MDP/0.1: an empty frame first, one reply."""

    name = "0.1"
    client, worker = b"MDPC01", b"MDPW01"
    front = [b""]
    final, heartbeat, disconnect = b"\x03", b"\x04", b"\x05"

    @classmethod
    def ask(cls, service: bytes, *body: bytes) -> list[bytes]:
        return [b"", cls.client, service, *body]

    @classmethod
    def answer(cls, service: bytes, *body: bytes) -> list[bytes]:
        return [b"", cls.client, service, *body]


class V2:
    """MDP/0.2: no empty frame, partial replies and a final one."""

    name = "0.2"
    client, worker = b"MDPC02", b"MDPW02"
    front: list[bytes] = []
    partial, final, heartbeat, disconnect = b"\x03", b"\x04", b"\x05", b"\x06"

    @classmethod
    def ask(cls, service: bytes, *body: bytes) -> list[bytes]:
        return [cls.client, b"\x01", service, *body]

    @classmethod
    def answer(cls, service: bytes, *body: bytes, last: bool = True) -> list[bytes]:
        return [cls.client, b"\x03" if last else b"\x02", service, *body]


VERSIONS = [V1, V2]


class Peer:
    """A libzmq DEALER."""

    def __init__(self, address: str, **options: object) -> None:
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.sndhwm = self.socket.rcvhwm = 0
        for option, value in options.items():
            setattr(self.socket, option, value)
        self.socket.connect(address)

    def send(self, *frames: bytes) -> None:
        self.socket.send_multipart(frames)

    def receive(self, timeout: float = SOON) -> list[bytes] | None:
        if not self.socket.poll(max(0, int(timeout * 1000))):
            return None
        return self.socket.recv_multipart()

    def close(self) -> None:
        self.socket.close(linger=0)


class Client(Peer):
    """A client of one version."""

    def __init__(self, address: str, version=V1, **options: object) -> None:
        super().__init__(address, **options)
        self.version = version

    def ask(self, service: bytes, *body: bytes) -> None:
        self.send(*self.version.ask(service, *body))

    def request(self, service: bytes, *body: bytes, timeout: float = SOON) -> list[bytes]:
        """Asks and returns the frames of the final reply's body."""
        self.ask(service, *body)
        got = self.receive(timeout)
        head = self.version.answer(service)
        assert got is not None, f"no reply from {service!r} within {timeout:g} s"
        assert got[: len(head)] == head, got
        return got[len(head) :]


class Worker(Peer):
    """A worker of one version, driven by hand."""

    def __init__(self, address: str, service: bytes, version=V1, ready: bool = True, **options: object) -> None:
        super().__init__(address, **options)
        self.version, self.service = version, service
        if ready:
            self.ready()

    def say(self, command: bytes, *frames: bytes) -> None:
        self.send(*self.version.front, self.version.worker, command, *frames)

    def ready(self) -> None:
        self.say(READY, self.service)

    def heartbeat(self) -> None:
        self.say(self.version.heartbeat)

    def command(self, timeout: float = SOON) -> tuple[bytes, list[bytes]] | None:
        """The next command and its frames."""
        got = self.receive(timeout)
        if got is None:
            return None
        start = len(self.version.front) + 1
        assert got[:start] == [*self.version.front, self.version.worker], got
        return got[start], got[start + 1 :]

    def job(self, timeout: float = SOON) -> tuple[bytes, list[bytes]]:
        """The next request: the client's address and the body; heartbeats are passed over."""
        deadline = time.monotonic() + timeout
        while (got := self.command(deadline - time.monotonic())) is not None:
            command, frames = got
            if command == self.version.heartbeat:
                continue
            assert command == REQUEST and frames[1] == b"", got
            return frames[0], frames[2:]
        raise AssertionError(f"no request within {timeout:g} s")

    def reply(self, client: bytes, *body: bytes) -> None:
        self.say(self.version.final, client, b"", *body)

    def wait_disconnect(self, timeout: float = SOON) -> None:
        deadline = time.monotonic() + timeout
        while (got := self.command(deadline - time.monotonic())) is not None:
            if got == (self.version.disconnect, []):
                return
        raise AssertionError(f"no DISCONNECT within {timeout:g} s")

    def registered(self) -> Worker:
        """Waits until the broker has taken its READY."""
        asking = Client(self.socket.last_endpoint.decode())
        until(lambda: asking.request(b"mmi.service", self.service) == [b"200"], f"{self.service!r} is served")
        asking.close()
        return self


class EchoWorker(threading.Thread):
    """A worker as the RFC asks for one: heartbeats, and a new socket after DISCONNECT or silence. Echoes."""

    def __init__(self, address: str, service: bytes, version=V1, interval: float = 0.25, delay: float = 0.0) -> None:
        super().__init__(daemon=True)
        self.address, self.service, self.version = address, service, version
        self.interval, self.delay = interval, delay
        self.done: list[bytes] = []
        self.registrations = 0
        self.stopping = threading.Event()
        self.start()

    def connect(self) -> Worker:
        self.registrations += 1
        self.heard = time.monotonic()
        return Worker(self.address, self.service, self.version)

    def run(self) -> None:
        worker, beat = self.connect(), time.monotonic() + self.interval
        while not self.stopping.is_set():
            got = worker.command(self.interval / 5)
            if got is not None:
                self.heard = time.monotonic()
                command, frames = got
                if command == REQUEST:
                    time.sleep(self.delay)
                    self.done.append(frames[-1])
                    worker.reply(frames[0], *frames[2:])
                elif command == self.version.disconnect:
                    worker.close()
                    worker = self.connect()
            if time.monotonic() - self.heard > 3 * self.interval:
                worker.close()
                worker = self.connect()
            if time.monotonic() >= beat:
                beat = time.monotonic() + self.interval
                worker.heartbeat()
        worker.say(self.version.disconnect)
        worker.socket.close(linger=1000)

    def stop(self) -> None:
        self.stopping.set()
        self.join(SOON)


class RfcBroker(threading.Thread):
    """A broker written from RFC 7 and 18: for our client and worker. Keeps what workers said, with the time."""

    def __init__(self, address: str, version=V1, interval: float = 0.25) -> None:
        super().__init__(daemon=True)
        self.address, self.version, self.interval = address, version, interval
        self.waiting: deque[tuple[bytes, bytes, list[bytes]]] = deque()
        self.idle: deque[bytes] = deque()
        self.known: dict[bytes, bytes] = {}
        self.clients: set[bytes] = set()
        self.said: list[tuple[float, bytes, bytes]] = []
        self.mute = threading.Event()
        self.orders: deque[Callable[[zmq.Socket], None]] = deque()
        self.stopping = threading.Event()
        self.start()

    def commands(self, command: bytes) -> list[tuple[float, bytes]]:
        return [(at, who) for at, who, said in list(self.said) if said == command]

    def to_worker(self, socket: zmq.Socket, who: bytes, command: bytes, *frames: bytes) -> None:
        if not self.mute.is_set():
            socket.send_multipart([who, *self.version.front, self.version.worker, command, *frames])

    def send_away(self, who: bytes) -> None:
        """Tells a worker DISCONNECT and forgets it."""

        def order(socket: zmq.Socket) -> None:
            self.forget(who)
            self.to_worker(socket, who, self.version.disconnect)

        self.orders.append(order)

    def forget(self, who: bytes) -> None:
        self.known.pop(who, None)
        with suppress(ValueError):
            self.idle.remove(who)

    def run(self) -> None:
        socket = zmq.Context.instance().socket(zmq.ROUTER)
        socket.linger = 0
        until(lambda: self.bind(socket), f"{self.address} is free")
        beat = time.monotonic() + self.interval
        while not self.stopping.is_set():
            if socket.poll(20):
                who, *frames = socket.recv_multipart()
                self.on_message(socket, who, frames[len(self.version.front) :])
            while self.orders:
                self.orders.popleft()(socket)
            if time.monotonic() >= beat:
                beat = time.monotonic() + self.interval
                for worker in list(self.idle):
                    self.to_worker(socket, worker, self.version.heartbeat)
            while self.idle and self.waiting and not self.mute.is_set():
                client, _, body = self.waiting.popleft()
                self.to_worker(socket, self.idle.popleft(), REQUEST, client, b"", *body)
        socket.close()

    def bind(self, socket: zmq.Socket) -> bool:
        try:
            socket.bind(self.address)
        except zmq.ZMQError:
            return False
        return True

    def on_message(self, socket: zmq.Socket, who: bytes, frames: list[bytes]) -> None:
        header, *rest = frames
        if header == self.version.client:
            rest = rest[1:] if self.version is V2 else rest
            self.clients.add(who)
            self.waiting.append((who, rest[0], rest[1:]))
            return
        assert header == self.version.worker, frames
        command, *rest = rest
        self.said.append((time.monotonic(), who, command))
        if command == READY:
            assert who not in self.known, "READY twice over one socket"
            self.known[who] = rest[0]
            self.idle.append(who)
        elif who not in self.known:
            if command != self.version.disconnect:
                self.to_worker(socket, who, self.version.disconnect)
        elif command == self.version.final or (self.version is V2 and command == V2.partial):
            last = command == self.version.final
            client, empty, *body = rest
            assert empty == b""
            head = V1.answer(self.known[who]) if self.version is V1 else V2.answer(self.known[who], last=last)
            socket.send_multipart([client, *head, *body])
            if last:
                self.idle.append(who)
        elif command == self.version.disconnect:
            self.forget(who)

    def stop(self) -> None:
        self.stopping.set()
        self.join(SOON)


class MdpProgram(Program):
    """One of `emq mdp`."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        number = len(list(directory.glob("mdp-*.log"))) + 1
        log = directory / f"mdp-{number}-{arguments[0]}.log"
        log.touch()
        super().__init__(f"emq mdp {arguments[0]}", [emq_binary(), "mdp", *arguments], log, {"EMQ_LOG": ""})
        self.start()

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait_exit()


class MdpBroker(MdpProgram):
    """`emq mdp broker`, with heartbeats so fast that losses show soon."""

    def __init__(self, directory: Path, address: str, *arguments: str, interval: float = 0.25) -> None:
        self.address, self.interval = address, interval
        super().__init__(directory, "broker", "--bind", address, "--heartbeat", str(interval), *arguments)
        self.wait_logged("broker ready")

    def finish(self) -> None:
        alive = self.alive()
        self.kill_group()
        assert "panicked at" not in self.output(), self.output()[-4000:]
        assert alive or self.process.returncode in (0, -signal.SIGKILL), self.output()[-4000:]


def run_client(address: str, *arguments: str, timeout: float = 60.0, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    """Runs `emq mdp client`: exit code, standard output and standard error."""
    argv = [emq_binary(), "mdp", "client", *arguments, "--addr", address]
    done = subprocess.run(argv, input=stdin, capture_output=True, timeout=timeout, check=False)
    return done.returncode, done.stdout, done.stderr
