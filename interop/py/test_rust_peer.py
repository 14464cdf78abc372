"""A second opinion: the Rust crate `zeromq` 0.7 (zmq.rs) as peer, in the patterns that it has, whoever binds.

Where it falls short itself: of its sockets only SUB and XSUB connect again when the bound side has restarted; it speaks
ZMTP 3.0 and so has no heartbeats; and a SUB's subscriptions are UTF-8 text."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from sides import Foreign, Ours, Peer, passes, subscribe_to_all, ways
from test_matrix import MIB, SHAPES, SIZES, bodies
from waits import SOON, Ports, until
from zmtp_peer import PeerError, ZeromqPeer, ZmtpPeer

PAIRS = [
    ("DEALER", "ROUTER"),
    ("ROUTER", "DEALER"),
    ("DEALER", "DEALER"),
    ("REQ", "REP"),
    ("REP", "REQ"),
    ("REQ", "ROUTER"),
    ("REP", "DEALER"),
    ("PUSH", "PULL"),
    ("PULL", "PUSH"),
    ("PUB", "SUB"),
    ("XPUB", "SUB"),
    ("SUB", "PUB"),
    ("XSUB", "PUB"),
]


@pytest.fixture
def zeromq(stack: ExitStack) -> Peer:
    def make(kind: str, **options: bytes) -> ZeromqPeer:
        made = ZeromqPeer(kind, **options)
        stack.callback(made.close)
        return made

    return make


@pytest.mark.parametrize("who_binds", ["we-bind", "they-bind"])
@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=[f"{ours}-{theirs}" for ours, theirs in PAIRS])
def test_pairs_with_zmq_rs(peer: Peer, zeromq: Callable[..., ZeromqPeer], ours: str, theirs: str, who_binds: str) -> None:
    us, them = Ours(ours, peer, {}), Foreign(theirs, zeromq, {})
    if who_binds == "we-bind":
        them.socket.connect(us.socket.bind())
    else:
        us.socket.connect(them.socket.bind())
    us.socket.command("until-peers", 1, int(SOON * 1000))
    if us.kind in ("PUB", "XPUB", "SUB", "XSUB"):
        subscribe_to_all(us, them)
    for shape in SHAPES:
        for size in SIZES:
            if size > MIB:
                continue
            for body in bodies(shape, size):
                for sender, receiver in ways(us, them):
                    passes(sender, receiver, body)
    assert "disconnected" not in us.socket.events()


def bound(peer: ZmtpPeer, address: str) -> bool:
    """Whether the address is free again."""
    try:
        return bool(peer.bind(address))
    except PeerError:
        return False


@pytest.mark.parametrize(("ours", "theirs"), [("DEALER", "ROUTER"), ("REQ", "REP"), ("PUSH", "PULL"), ("SUB", "PUB")])
def test_we_find_a_zmq_rs_that_restarts(
    peer: Peer, zeromq: Callable[..., ZeromqPeer], ports: Ports, ours: str, theirs: str
) -> None:
    address = ports.address()
    us = Ours(ours, peer, {"reconnect": "10", "reconnect_max": "50"})
    us.socket.connect(address)
    for handshakes in range(1, 4):
        them = Foreign(theirs, zeromq, {})
        until(lambda: bound(them.socket, address), "the address is free")
        us.socket.command("until-peers", handshakes, int(SOON * 1000))
        if ours == "SUB":
            subscribe_to_all(us, them)
        for sender, receiver in ways(us, them):
            passes(sender, receiver, [b"message %d" % handshakes])
        them.socket.kill()


def test_a_sub_of_zmq_rs_finds_us_again(peer: Peer, zeromq: Callable[..., ZeromqPeer], ports: Ports) -> None:
    """And its subscriptions with it."""
    address = ports.address()
    them = Foreign("SUB", zeromq, {})
    us = peer("xpub")
    us.bind(address)
    them.socket.connect(address)
    them.subscribe(b"A")
    for number in range(4):
        # It looks after its connection only while its application receives.
        them.socket.start("receive", int(SOON * 1000))
        if number:
            us.kill()
            us = peer("xpub")
            until(lambda: bound(us, address), "the address is free")
        assert us.receive() == [b"\x01A".hex()]
        us.send(b"A %d" % number)
        assert them.socket.finish() == (b"A %d" % number).hex()
