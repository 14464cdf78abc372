"""Our transports against libzmq's: ipc by path, abstract name and wildcard, IPv6, source addresses."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from raw import Raw, frame, greeting
from test_zmtp import OURS, THEIRS, Libzmq, payloads
from waits import until
from zmtp_peer import Pattern, PeerError, shown

MIB = 1 << 20
PAIRS = [("router", "DEALER"), ("router", "REQ"), ("router", "ROUTER"), ("dealer", "DEALER"), ("dealer", "ROUTER")]
FORMS = ["path", "abstract", "wildcard", "ipv6", "dual-stack"]


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short path: a Unix socket's has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="zt") as path:
        yield Path(path)


class Places:
    """Addresses of one form: what to bind, and what to connect to once that is known."""

    def __init__(self, form: str, directory: Path) -> None:
        self.form = form
        self.to_bind = {
            "path": f"ipc://{directory}/socket",
            "abstract": f"ipc://@zmtp-test-{os.getpid()}-{directory.name}",
            "wildcard": "ipc://*",
            "ipv6": "tcp://[::1]:*",
            "dual-stack": "tcp://*:*",
        }[form]

    def to_connect(self, bound: str) -> str:
        return bound.replace("[::]", "[::1]")


@pytest.fixture(params=FORMS)
def places(request: pytest.FixtureRequest, directory: Path) -> Places:
    if request.param in ("ipv6", "dual-stack"):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("no IPv6 here")
    return Places(request.param, directory)


@pytest.mark.parametrize("who_binds", ["we-bind", "libzmq-binds"])
@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_matrix_what_libzmq_sends_comes_back(peer, libzmq, places, ours, theirs, who_binds):  # noqa: F811
    us = peer(ours, id=OURS, ipv6=1)
    them = libzmq(theirs, routing_id=THEIRS, ipv6=1)
    if who_binds == "we-bind":
        them.connect(places.to_connect(us.bind(places.to_bind)))
    else:
        them.bind(places.to_bind)
        us.connect(places.to_connect(them.last_endpoint.decode()))
    side = Libzmq(theirs, them)
    for frames in payloads(2 * MIB):
        side.ask(frames)
        got = us.receive(timeout=60)
        envelope = [THEIRS.hex()] * (ours == "router") + ["-"] * (theirs == "REQ")
        assert got == envelope + [shown(part) for part in frames]
        answer = [THEIRS] * (ours == "router") + [b""] * (theirs == "REQ") + frames
        us.send(*answer, timeout=60)
        assert side.answer() == frames


def test_ipc_reconnects_both_ways(peer, libzmq, directory):  # noqa: F811
    address = f"ipc://{directory}/socket"
    us = peer("dealer", id=OURS, reconnect=10, reconnect_max=50)
    us.connect(address)
    for round_ in range(5):
        them = libzmq("ROUTER")
        them.bind(address)
        us.send(b"%d" % round_)
        assert them.recv_multipart() == [OURS, b"%d" % round_]
        them.close(linger=0)
        until(lambda: "disconnected" in us.events(), "we noticed")
    them = libzmq("DEALER", routing_id=THEIRS, reconnect_ivl=10)
    them.connect(address)
    for round_ in range(3):
        bound = peer("router")
        bound.bind(address)
        bound.command("until-known", THEIRS.hex(), 10_000)
        them.send(b"%d" % round_)
        assert bound.receive() == [THEIRS.hex(), (b"%d" % round_).hex()]
        bound.close()
        assert not (directory / "socket").exists()


def test_ipc_files_of_libzmq_are_replaced_when_dead_and_kept_when_alive(peer, libzmq, directory):  # noqa: F811
    address = f"ipc://{directory}/socket"
    context = zmq.Context()
    alive = context.socket(zmq.ROUTER)
    alive.bind(address)
    us = peer("router")
    with pytest.raises(PeerError, match="in use"):
        us.bind(address)
    alive.close(linger=0)
    context.term()
    # libzmq leaves its file behind; ours goes at the close.
    assert stat.S_ISSOCK((directory / "socket").stat().st_mode)
    us.bind(address)
    them = libzmq("DEALER", routing_id=THEIRS)
    them.connect(address)
    them.send(b"hello")
    assert us.receive() == [THEIRS.hex(), b"hello".hex()]
    us.close()
    assert not (directory / "socket").exists()


def test_the_source_address_is_what_libzmq_sees(peer, libzmq):  # noqa: F811
    them = libzmq("ROUTER")
    them.bind("tcp://127.0.0.1:*")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    us = peer("dealer", id=OURS)
    us.connect(f"tcp://127.0.0.1:{port};{them.last_endpoint.decode().removeprefix('tcp://')}")
    us.send(b"here")
    identity, part = them.recv_multipart(copy=False)
    assert (identity.bytes, part.bytes) == (OURS, b"here")
    assert part.get("Peer-Address") == "127.0.0.1"
    connections = Path("/proc/net/tcp").read_text()
    assert f"0100007F:{port:04X}" in connections


def test_b06_a_zmtp_2_peer_beside_libzmq(peer, libzmq):  # noqa: F811
    """By hand, in the steps libzmq 3.2 takes."""
    us = peer("router")
    address = us.bind()
    them = libzmq("DEALER", routing_id=THEIRS)
    them.connect(address)
    with Raw(address) as old:
        old.write(greeting()[:10])
        assert old.read(11)[10] == 3
        old.write(b"\x01\x05" + frame(b"old"))
        assert old.read(3) == b"\x06\x00\x00"
        old.write(frame(b"hello"))
        assert us.receive() == [b"old".hex(), b"hello".hex()]
        them.send(b"hi")
        assert us.receive() == [THEIRS.hex(), b"hi".hex()]
        us.send(b"old", Pattern.of(300))
        assert old.read_frame() == (2, bytes(Pattern.of(300)))
