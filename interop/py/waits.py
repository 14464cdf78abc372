"""Waiting for events with deadlines, and ports nobody else uses."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Ample for anything that should take milliseconds on a busy machine of two cores.
SOON = 10.0


def until(probe: Callable[[], T], what: str, timeout: float = SOON, every: float = 0.02) -> T:
    """Calls `probe` until it returns something true, and returns that."""
    deadline = time.monotonic() + timeout
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what} (last seen: {found!r})")
        time.sleep(every)


def stays(probe: Callable[[], object], what: str, seconds: float, every: float = 0.05) -> None:
    """Fails as soon as `probe` returns something false within `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert probe(), f"no longer true: {what}"
        time.sleep(every)


class Ports:
    """Ports below the range the kernel gives to outgoing connections, so that a restarted server finds its own free."""

    FIRST, LAST = 20_000, 32_000

    def __init__(self) -> None:
        self._taken: set[int] = set()

    def free(self) -> int:
        """A port on loopback that is free now and was not handed out before."""
        for _ in range(1000):
            port = random.randrange(self.FIRST, self.LAST)
            if port not in self._taken and self._bindable(port):
                self._taken.add(port)
                return port
        raise RuntimeError("no free port on loopback")

    def address(self) -> str:
        """An endpoint of such a port."""
        return f"tcp://127.0.0.1:{self.free()}"

    @staticmethod
    def _bindable(port: int) -> bool:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
        return True


def host_port(address: str) -> tuple[str, int]:
    """Host and port of `tcp://host:port`."""
    host, port = address.removeprefix("tcp://").rsplit(":", 1)
    return host, int(port)


def is_free(address: str) -> bool:
    """Whether nobody listens at an address of this machine any more. What remains of old connections does not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(host_port(address))
            probe.listen()
        except OSError:
            return False
    return True
