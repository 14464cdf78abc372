"""PLAIN and CURVE against libzmq in both roles: messages, heartbeats, refusals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest
import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

from mechanisms import CLIENT, OTHER, SIDES, THEIR_SERVER, Zap, curve_client, curve_server, their_client
from raw import Raw
from test_zmtp import MIB, payloads
from waits import SOON, until
from zmtp_peer import link, send_when_known, shown

OURS, THEIRS = b"our-peer", b"libzmq-peer"
MS = 1000
PAIRS = [("router", "DEALER"), ("router", "ROUTER"), ("dealer", "DEALER"), ("dealer", "ROUTER")]


@pytest.fixture
def context(stack: ExitStack) -> zmq.Context:
    """A context of its own, for a ZAP handler that others are not to meet."""
    made = zmq.Context()
    stack.callback(made.term)
    return made


@pytest.fixture
def libzmq(context: zmq.Context, stack: ExitStack) -> Callable[..., zmq.Socket]:
    def make(kind: str, **options: object) -> zmq.Socket:
        made = context.socket(getattr(zmq, kind))
        stack.callback(made.close, linger=0)
        made.sndtimeo = made.rcvtimeo = int(SOON * MS)
        for name, value in options.items():
            setattr(made, name, value)
        return made

    return make


class Events:
    """What the monitor of a libzmq socket tells."""

    def __init__(self, handle: zmq.Socket) -> None:
        self._handle = handle
        self._monitor = handle.get_monitor_socket()
        self._monitor.rcvtimeo = int(SOON * MS)

    def until(self, *wanted: int) -> dict:
        while (event := recv_monitor_message(self._monitor))["event"] not in wanted:
            pass
        return event

    def close(self) -> None:
        self._handle.disable_monitor()
        self._monitor.close(linger=0)


@pytest.mark.parametrize("who_binds", ["we-bind", "libzmq-binds"])
@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize("side", SIDES)
def test_b17_messages_of_every_size_both_ways(peer, context, libzmq, stack, side, ours, theirs, who_binds):
    our_options, their_options = SIDES[side]
    zap = Zap(context, stack, b"200") if side == "plain-client" else None
    us = peer(ours, id=OURS, **our_options)
    them = libzmq(theirs, routing_id=THEIRS, **their_options)
    link(us, them, who_binds)
    if ours == "router":
        us.command("until-known", THEIRS.hex(), 5000)
    to_them = [THEIRS] if ours == "router" else []
    for frames in payloads(2 * MIB):
        us.send(*to_them, *frames)
        got = them.recv_multipart()
        assert got == ([OURS, *frames] if theirs == "ROUTER" else frames)
        if theirs == "ROUTER":
            send_when_known(them, got)
        else:
            them.send_multipart(got)
        assert us.receive(20) == [part.hex() for part in to_them] + [shown(part) for part in frames]
    if zap is not None:
        assert zap.requests[0][5:] == [b"PLAIN", b"admin", b"secret"]


@pytest.mark.parametrize("who", ["we", "libzmq"])
@pytest.mark.parametrize("side", ["plain-server", "curve-client", "curve-server"])
def test_b17_heartbeats_under_a_mechanism(peer, libzmq, side, who):
    our_options, their_options = SIDES[side]
    us = peer("router", **our_options, **({"heartbeat": 50, "heartbeat_timeout": 600} if who == "we" else {}))
    them = libzmq("DEALER", routing_id=THEIRS, **their_options)
    if who == "libzmq":
        them.heartbeat_ivl, them.heartbeat_timeout, them.heartbeat_ttl = 50, 600, 600
    link(us, them, "we-bind")
    us.command("until-known", THEIRS.hex(), 5000)
    # Idle for several timeouts: whoever missed an answer would have hung up.
    assert us.receive(2) is None
    us.send(THEIRS, b"still there")
    assert them.recv_multipart() == [b"still there"]
    assert "disconnected" not in us.events()


def test_b17_reconnecting_makes_fresh_keys(peer, libzmq):
    us = peer("dealer", reconnect=20, reconnect_max=50, **curve_client())
    them = libzmq("ROUTER", **THEIR_SERVER)
    them.bind("tcp://127.0.0.1:*")
    address = them.last_endpoint.decode()
    us.connect(address)
    for number in range(3):
        us.send(b"%d" % number)
        assert them.recv_multipart()[1:] == [b"%d" % number]
        them.close(linger=0)
        until(lambda: "disconnected" in us.events(), "the loss is noticed")
        them = libzmq("ROUTER", **THEIR_SERVER)
        until(lambda: bound(them, address), "the port is free again")


def bound(handle: zmq.Socket, address: str) -> bool:
    try:
        handle.bind(address)
    except zmq.ZMQError:
        return False
    return True


# -- Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["plain-client", "curve-client"])
@pytest.mark.parametrize("status", [b"400", b"500"])
def test_what_libzmq_says_when_it_refuses_us(peer, context, libzmq, stack, side, status):
    zap = Zap(context, stack, status)
    us = peer("dealer", **SIDES[side][0])
    them = libzmq("ROUTER", **SIDES[side][1])
    link(us, them, "libzmq-binds")
    until(lambda: "gave-up" in us.events(), "the dealer gives up")
    assert us.command("failures") == f'the peer refused the connection: "{status.decode()}"'
    shown_credentials = {"plain-client": [b"PLAIN", b"admin", b"secret"], "curve-client": [b"CURVE", z85.decode(CLIENT[0])]}
    assert zap.requests[0][5:] == shown_credentials[side]


@pytest.mark.parametrize("side", ["plain-client", "curve-client"])
def test_after_a_temporary_refusal_we_try_again(peer, context, libzmq, stack, side):
    zap = Zap(context, stack, b"300")
    # libzmq says nothing and does not even close; its handshake timer does.
    us = peer("dealer", reconnect=20, reconnect_max=50, **SIDES[side][0])
    them = libzmq("ROUTER", handshake_ivl=200, **SIDES[side][1])
    link(us, them, "libzmq-binds")
    until(lambda: len(zap.requests) >= 3, "the dealer comes back")
    assert "gave-up" not in us.events()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"plain_accept": "61646d696e:736563726574"}, {"plain_username": b"admin", "plain_password": b"wrong"}),
        (curve_server(OTHER[0]), their_client()),
    ],
    ids=["plain", "curve"],
)
def test_libzmq_understands_our_refusal(peer, libzmq, stack, ours, theirs):
    us = peer("router", **ours)
    them = libzmq("DEALER", reconnect_ivl=20, **theirs)
    events = Events(them)
    stack.callback(events.close)
    link(us, them, "we-bind")
    failed = events.until(zmq.EVENT_HANDSHAKE_FAILED_AUTH, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
    if "curve_secret" in ours:
        assert (failed["event"], failed["value"]) == (zmq.EVENT_HANDSHAKE_FAILED_AUTH, 400)
    until(lambda: "denied (400)" in us.command("failures"), "we say why")
    assert us.receive(0.5) is None
    assert us.events().count("accepted") == 1, "libzmq does not come back"


def test_a_wrong_server_key_towards_libzmq(peer, libzmq):
    us = peer("dealer", reconnect=20, reconnect_max=50, **curve_client(server=OTHER[0]))
    them = libzmq("ROUTER", **THEIR_SERVER)
    link(us, them, "libzmq-binds")
    for attempt in ("first", "second"):
        until(lambda: "retrying" in us.events(), f"the {attempt} retry")
    assert "instead of a WELCOME" in us.command("failures")


def test_a_wrong_server_key_towards_us(peer, libzmq):
    us = peer("router", **curve_server())
    them = libzmq("DEALER", reconnect_ivl=20, **their_client(server=OTHER[0]))
    link(us, them, "we-bind")
    for attempt in ("first", "second"):
        until(lambda: "HELLO: the box does not open" in us.command("failures"), f"the {attempt} attempt")
    right = libzmq("DEALER", **their_client())
    right.connect(us.command("endpoint"))
    right.send(b"hello")
    assert us.receive()[1:] == [b"hello".hex()]


@pytest.mark.parametrize("theirs", [{}, {"plain_username": b"a", "plain_password": b"b"}], ids=["null", "plain"])
def test_b17_another_mechanism_is_refused_and_others_are_served(peer, libzmq, theirs):
    us = peer("router", **curve_server())
    address = us.bind()
    silent = [Raw(address) for _ in range(20)]
    stranger = libzmq("DEALER", **theirs)
    stranger.connect(address)
    stranger.send(b"evil")
    them = libzmq("DEALER", **their_client())
    them.connect(address)
    them.send(b"hello")
    assert us.receive()[1:] == [b"hello".hex()]
    # libzmq reads our greeting before it has sent all of its own, and hangs up.
    refusals = ("we want CURVE", "instead of a greeting")
    until(lambda: us.command("failures").endswith(refusals), "the stranger is gone")
    assert us.receive(0.2) is None
    for raw in silent:
        raw.close()


@pytest.mark.parametrize("side", ["plain-server", "curve-client", "curve-server"])
@pytest.mark.parametrize("length", [0, 1, 245, 246, 256])
def test_b17_subscriptions_under_a_mechanism(peer, libzmq, side, length):
    """Pitfall 13: a subscription is a command inside the box, whoever publishes."""
    our_options, their_options = SIDES[side]
    topic = b"t" * length
    us, them = peer("pub", **our_options), libzmq("SUB", **their_options)
    them.subscribe(topic)
    link(us, them, "we-bind")

    def arrives() -> bool:
        us.send(topic + b"news", b"two")
        return bool(them.poll(50))

    until(arrives, "our message reaches libzmq's SUB")
    assert them.recv_multipart() == [topic + b"news", b"two"]

    us, them = peer("sub", **our_options), libzmq("XPUB", **their_options)
    us.command("subscribe", topic.hex() or "-")
    link(us, them, "we-bind")
    assert them.recv() == b"\x01" + topic
    them.send_multipart([topic + b"news", b"two"])
    assert us.receive() == [(topic + b"news").hex(), b"two".hex()]
