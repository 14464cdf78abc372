"""The program `zmtp-peer`: one socket of our own, driven line by line (see interop/src/bin/zmtp-peer/main.rs)."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
import zlib
from functools import cached_property

import zmq

from waits import SOON, until

#: Longer frames are named by a pattern when sent and by their checksum when received.
IN_FULL = 1024
BLOCK = bytes(range(256))


class Pattern(bytes):
    """A large frame that the peer makes by itself: the bytes 0 to 255 over and over, beginning at `start`."""

    start: int

    @cached_property
    def summary(self) -> str:
        return summary(self)

    @classmethod
    def of(cls, length: int, start: int = 0) -> Pattern:
        made = cls((BLOCK * (length // 256 + 2))[start : start + length])
        made.start = start
        return made


def summary(frame: bytes) -> str:
    return f"#{len(frame)}:{zlib.adler32(frame)}"


def written(frame: bytes) -> str:
    """How a frame is written in a command."""
    if isinstance(frame, Pattern):
        return f"@{len(frame)}:{frame.start}"
    return frame.hex() or "-"


def shown(frame: bytes) -> str:
    """How the peer shows a frame that it received."""
    if isinstance(frame, Pattern) and len(frame) > IN_FULL:
        return frame.summary
    if len(frame) > IN_FULL:
        return summary(frame)
    return frame.hex() or "-"


class PeerError(Exception):
    """The peer answered `error ...`."""


class ZmtpPeer:
    """One socket of the `zmtp` crate in a process of its own."""

    #: The environment variable that names the program.
    PROGRAM = "ZMTP_PEER_BIN"

    def __init__(self, kind: str, **options: int | str | bytes) -> None:
        binary = os.environ.get(self.PROGRAM)
        if not binary:
            raise RuntimeError(f"{self.PROGRAM} is not set; run the suite with: cargo test -p interop --test python")
        self.process = subprocess.Popen(
            [binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        given = [f"{key}={value.hex() if isinstance(value, bytes) else value}" for key, value in options.items()]
        self.command("socket", kind, *given)

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    # -- commands -----------------------------------------------------------------------------------------------------

    def start(self, *words: object) -> None:
        """Gives a command and does not wait for its answer."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def finish(self, timeout: float = SOON) -> str:
        """The answer to the oldest command that has none yet."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"zmtp-peer gave no answer within {timeout:g} s") from None
        assert line, f"zmtp-peer ended ({self.process.wait(SOON)})"
        status, _, rest = line.strip().partition(" ")
        if status == "error":
            raise PeerError(rest)
        assert status == "ok", line
        return rest

    def command(self, *words: object, timeout: float = SOON) -> str:
        self.start(*words)
        return self.finish(timeout)

    def bind(self, address: str = "tcp://127.0.0.1:0") -> str:
        """The endpoint really bound."""
        return self.command("bind", address)

    def connect(self, address: str) -> None:
        self.command("connect", address)

    def send(self, *frames: bytes, timeout: float = SOON) -> None:
        self.command("send", *map(written, frames), timeout=timeout)

    def receive(self, timeout: float = SOON) -> list[str] | None:
        """The next message as `shown`, or None."""
        answer = self.command("receive", int(timeout * 1000), timeout=timeout + SOON)
        return None if answer == "nothing" else answer.split(" ")

    def events(self) -> list[str]:
        """Names of the monitor's events since the last question."""
        return self.command("events").split()

    def rss(self) -> int:
        import psutil

        return psutil.Process(self.process.pid).memory_info().rss

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SOON)

    def close(self) -> None:
        """Ends it; fails if it had ended by itself or with an error."""
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                code = self.process.wait(SOON)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            assert code == 0, f"zmtp-peer ended with {code}"


class ZeromqPeer(ZmtpPeer):
    """One socket of the Rust crate `zeromq` in a process of its own (interop/bench/crates/src/bin/peer-zeromq.rs)."""

    PROGRAM = "ZEROMQ_PEER_BIN"


def link(ours: ZmtpPeer, theirs: zmq.Socket, who_binds: str) -> None:
    if who_binds == "we-bind":
        theirs.connect(ours.bind())
    else:
        theirs.bind("tcp://127.0.0.1:*")
        ours.connect(theirs.last_endpoint.decode())


def send_when_known(router: zmq.Socket, frames: list[bytes]) -> None:
    """A ROUTER can send to a peer only when it knows its name."""
    router.router_mandatory = 1

    def sent() -> bool:
        try:
            router.send_multipart(frames)
        except zmq.ZMQError as error:
            assert error.errno == zmq.EHOSTUNREACH
            return False
        return True

    until(sent, "the peer is known to libzmq's ROUTER")
