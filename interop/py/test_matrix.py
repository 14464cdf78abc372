"""The matrix: every legal pair of socket types x who binds x NULL, PLAIN, CURVE x tcp, ipc x single, multipart x size.

One connection serves all shapes and sizes of a pair; each is a case, and their number is told at the end of the run.
The server of PLAIN and CURVE is the side that binds; `test_security.py` has it the other way round."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
import zmq

from mechanisms import SIDES, Zap
from sides import PAIRS, Ours, Peer, Theirs, passes, subscribe_to_all, ways
from waits import SOON
from zmtp_peer import Pattern

MIB = 1 << 20
SIZES = [0, 1, 254, 255, 256, 8191, 8192, MIB, 32 * MIB]
SHAPES = ["single", "multipart"]
WHO_BINDS = ["we-bind", "they-bind"]
MECHANISMS = ["null", "plain", "curve"]
TRANSPORTS = ["tcp", "ipc"]
#: What a case is called: our type, theirs, who binds, mechanism, transport, shape, size.
ALL = len(PAIRS) * len(WHO_BINDS) * len(MECHANISMS) * len(TRANSPORTS) * len(SHAPES) * len(SIZES)
PASSED: pytest.StashKey[set[tuple]] = pytest.StashKey()


@pytest.fixture(scope="module")
def context() -> Iterator[zmq.Context]:
    """With an authenticator that lets everybody in: libzmq's PLAIN servers refuse all without one.

    It names nobody. libzmq hands a user's name to the socket as a message of its own, which a REQ takes for a reply
    without delimiter: the connection ends, with libzmq's REP and ROUTER on the other side just the same."""
    with zmq.Context() as made, ExitStack() as stack:
        Zap(made, stack, b"200", user=b"")
        yield made


@pytest.fixture
def theirs_of(context: zmq.Context, stack: ExitStack) -> Callable[..., zmq.Socket]:
    def make(kind: str, **options: object) -> zmq.Socket:
        made = context.socket(getattr(zmq, kind))
        stack.callback(made.close, linger=0)
        made.sndtimeo = made.rcvtimeo = int(3 * SOON * 1000)
        for name, value in options.items():
            setattr(made, name, value)
        return made

    return make


@cache
def pattern(size: int) -> Pattern:
    return Pattern.of(size, size % 251)


def bodies(shape: str, size: int) -> Iterator[list[bytes]]:
    if shape == "single":
        yield [pattern(size)]
        return
    yield [b"topic", b"", pattern(size), b"\x01A"]
    if size <= MIB:
        yield [pattern(size), b"\x00A", b""]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("who_binds", WHO_BINDS)
@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=[f"{ours}-{theirs}" for ours, theirs in PAIRS])
def test_matrix(
    request: pytest.FixtureRequest,
    peer: Peer,
    theirs_of: Callable[..., zmq.Socket],
    ours: str,
    theirs: str,
    who_binds: str,
    mechanism: str,
    transport: str,
) -> None:
    role = "server" if who_binds == "we-bind" else "client"
    our_options, their_options = SIDES[f"{mechanism}-{role}"] if mechanism != "null" else ({}, {})
    us, them = Ours(ours, peer, our_options), Theirs(theirs, theirs_of, their_options)
    with tempfile.TemporaryDirectory(prefix="zt") as directory:
        join(us, them, who_binds, address(transport, Path(directory)))
        for shape in SHAPES:
            for size in SIZES:
                for body in bodies(shape, size):
                    for sender, receiver in ways(us, them):
                        passes(sender, receiver, body)
                case = (ours, theirs, who_binds, mechanism, transport, shape, size)
                request.config.stash.setdefault(PASSED, set()).add(case)
        assert "disconnected" not in us.socket.events()


def address(transport: str, directory: Path) -> str:
    return "tcp://127.0.0.1:*" if transport == "tcp" else f"ipc://{directory}/socket"


def join(us: Ours, them: Theirs, who_binds: str, where: str) -> None:
    """Connects them, and waits until either may send."""
    if who_binds == "we-bind":
        them.socket.connect(us.socket.bind(where))
    else:
        them.socket.bind(where)
        us.socket.connect(them.socket.last_endpoint.decode())
    if us.kind == "ROUTER":
        us.socket.command("until-peers", 1, int(SOON * 1000))
    if us.kind in ("PUB", "XPUB", "SUB", "XSUB"):
        subscribe_to_all(us, them)


def test_the_matrix_is_whole() -> None:
    """As many connections as there are to be, and none twice."""
    assert len(PAIRS) == len(set(PAIRS)) == 21
    assert ALL == 4536
