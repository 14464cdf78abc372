"""ZMTP by hand: a TCP socket and the bytes of the specification."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
import time
from collections.abc import Iterable

from peers import PROTOCOL, Received, new_id
from waits import SOON, host_port, until

MORE, LONG, COMMAND = 1, 2, 4


def greeting(minor: int = 1, major: int = 3, mechanism: bytes = b"NULL", padding: bytes = bytes(8)) -> bytes:
    """The 64 bytes both sides begin with."""
    return b"\xff" + padding + b"\x7f" + bytes([major, minor]) + mechanism.ljust(20, b"\0") + bytes(32)


def frame(body: bytes, flags: int = 0) -> bytes:
    if len(body) > 255:
        return struct.pack(">BQ", flags | LONG, len(body)) + body
    return struct.pack(">BB", flags, len(body)) + body


def message(frames: Iterable[bytes]) -> bytes:
    """Frames of one message: all but the last say that more follow."""
    *first, last = frames
    return b"".join(frame(body, MORE) for body in first) + frame(last)


def command(name: bytes, data: bytes = b"") -> bytes:
    return frame(bytes([len(name)]) + name + data, COMMAND)


def property_(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value


def ready(socket_type: bytes = b"DEALER", identity: bytes = b"") -> bytes:
    return command(b"READY", property_(b"Socket-Type", socket_type) + property_(b"Identity", identity))


def emqp(name: bytes, *body: bytes, msgid: bytes | None = None) -> bytes:
    """An eMQP message as a DEALER puts it on the wire."""
    return message([b"", PROTOCOL, name, new_id() if msgid is None else msgid, *body])


class Raw:
    """A TCP connection to a ZMTP socket."""

    def __init__(self, address: str, receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(SOON)
        self.socket.connect(host_port(address))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peer_greeting = b""
        self.commands: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def write_all_the_peer_takes(self, data: bytes) -> bool:
        """Writes; False if the peer closed before it had everything."""
        try:
            self.socket.sendall(data)
        except (ConnectionError, TimeoutError):
            return False
        return True

    def greet(self, **options) -> bytes:
        """Sends the greeting and reads the peer's."""
        self.write(greeting(**options))
        self.peer_greeting = self.read(64)
        return self.peer_greeting

    def handshake(self, socket_type: bytes = b"DEALER", identity: bytes = b"", **options) -> bytes:
        """Greeting and READY both ways; returns the body of the peer's READY."""
        self.greet(**options)
        self.write(ready(socket_type, identity))
        return self.read_ready()

    def read_ready(self) -> bytes:
        flags, body = self.read_frame()
        assert flags & COMMAND and body.startswith(b"\x05READY"), (flags, body)
        return body

    def read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self.socket.recv(min(count - len(data), 1 << 20))
            if not chunk:
                raise ConnectionError(f"closed after {len(data)} of {count} bytes")
            data += chunk
        return bytes(data)

    def read_frame(self) -> tuple[int, bytes]:
        flags = self.read(1)[0]
        size = struct.unpack(">Q", self.read(8))[0] if flags & LONG else self.read(1)[0]
        return flags, self.read(size)

    def read_message(self) -> list[bytes]:
        """The next message; commands on the way are kept, PINGs answered."""
        frames = []
        while True:
            flags, body = self.read_frame()
            if flags & COMMAND:
                self.commands.append(body)
                if body.startswith(b"\x04PING"):
                    self.write(command(b"PONG", body[7:]))
                continue
            frames.append(body)
            if not flags & MORE:
                return frames

    def receive(self) -> Received:
        return Received.parse(self.read_message())

    def receive_command(self, name: bytes) -> Received:
        """The next message with that eMQP command; HEARTBEATs and others are passed over."""
        while (got := self.receive()).command != name:
            pass
        return got

    def closed_within(self, timeout: float) -> bool:
        """Whether the peer closes in that time; what it sends before is thrown away."""
        deadline = time.monotonic() + timeout
        try:
            while (left := deadline - time.monotonic()) > 0:
                self.socket.settimeout(left)
                if not self.socket.recv(65536):
                    return True
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        finally:
            self.socket.settimeout(SOON)
        return False

    def wait_sent(self) -> None:
        """Waits until the peer's kernel has confirmed every byte."""

        def unsent() -> int:
            return struct.unpack("i", fcntl.ioctl(self.socket, termios.TIOCOUTQ, bytes(4)))[0]

        until(lambda: unsent() == 0, "everything is with the peer")

    def reset(self) -> None:
        """Closes with a RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
