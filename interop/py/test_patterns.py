"""Every legal pair of socket types against libzmq beyond the matrix: illegal pairs, subscriptions, reconnects."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import zmq

from sides import LEGAL
from waits import SOON, until
from zmtp_peer import Pattern, ZmtpPeer, link, shown

TOPIC_LENGTHS = [0, 1, 245, 246, 250, 255, 256, 65_536]

Peer = Callable[..., ZmtpPeer]
Libzmq = Callable[..., zmq.Socket]


@pytest.mark.parametrize("who_binds", ["we-bind", "they-bind"])
@pytest.mark.parametrize("ours", LEGAL)
def test_illegal_pairs_are_refused(peer: Peer, libzmq: Libzmq, ours: str, who_binds: str) -> None:
    made = peer(ours.lower(), reconnect_max=60_000)
    endpoint = made.bind() if who_binds == "we-bind" else None
    illegal = [theirs for theirs in LEGAL if theirs not in LEGAL[ours]]
    for kind in illegal:
        theirs = libzmq(kind, reconnect_ivl=-1)
        if endpoint:
            theirs.connect(endpoint)
        else:
            link(made, theirs, who_binds)
    seen: list[str] = []

    def all_refused() -> bool:
        seen.extend(made.events())
        return seen.count("handshake-failed") == len(illegal)

    until(all_refused, "all are refused")
    assert "handshake-succeeded" not in seen


# -- subscriptions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("publisher", ["pub", "xpub"])
def test_b11_topics_of_all_lengths_from_libzmq(peer: Peer, libzmq: Libzmq, publisher: str) -> None:
    ours = peer(publisher)
    endpoint = ours.bind()
    for number, length in enumerate(TOPIC_LENGTHS):
        topic = bytes([number]) * length
        sub = libzmq("SUB")
        # Once: libzmq 4.3.5 that is told twice on and once off before it connects subscribes to everything as well.
        sub.subscribe(topic)
        sub.connect(endpoint)
        poller = zmq.Poller()
        poller.register(sub, zmq.POLLIN)

        def arrives() -> bool:
            ours.send(topic + b"+", b"body")
            if length:
                ours.send(b"\xff not for it", b"body")
            return bool(poller.poll(20))

        until(arrives, f"a topic of {length} bytes")
        assert sub.recv_multipart() == [topic + b"+", b"body"]
        sub.close(linger=0)


@pytest.mark.parametrize("subscriber", ["sub", "xsub"])
def test_b11_topics_of_all_lengths_to_libzmq(peer: Peer, libzmq: Libzmq, subscriber: str) -> None:
    ours, theirs = peer(subscriber), libzmq("XPUB", xpub_verboser=1)
    link(ours, theirs, "they-bind")
    for number, length in enumerate(TOPIC_LENGTHS):
        topic = bytes([number]) * length
        word = f"@{length}:0" if length > 1024 else topic.hex() or "-"
        if length > 1024:
            topic = bytes(Pattern.of(length))
        for _ in range(2):
            ours.command("subscribe", word)
            assert theirs.recv() == b"\x01" + topic
        theirs.send_multipart([topic, b"body"])
        assert ours.receive() == [shown(topic), shown(b"body")]
        ours.command("unsubscribe", word)
        ours.command("unsubscribe", word)
        assert theirs.recv() == b"\x00" + topic


@pytest.mark.parametrize("subscriber", ["sub", "xsub"])
def test_b13_subscriptions_are_all_there_again(peer: Peer, libzmq: Libzmq, subscriber: str) -> None:
    """libzmq itself loses those past the high-water mark."""
    topics = sorted(b"topic %d" % number for number in range(5000))
    ours = peer(subscriber, send_hwm=1000, reconnect=10, reconnect_max=50)
    for topic in topics:
        ours.command("subscribe", topic.hex())
    endpoint = None
    for _ in range(3):
        theirs = libzmq("XPUB", rcvhwm=0, linger=0)
        endpoint = until(lambda: bind(theirs, endpoint), "the port is free")
        ours.connect(endpoint)  # Only the first counts.
        assert [theirs.recv() for _ in topics] == [b"\x01" + topic for topic in topics]
        theirs.send_multipart([topics[-1], b"body"])
        assert ours.receive() == [shown(topics[-1]), shown(b"body")]
        theirs.close()


def bind(socket: zmq.Socket, endpoint: str | None) -> str | None:
    try:
        socket.bind(endpoint or "tcp://127.0.0.1:*")
    except zmq.ZMQError:
        return None
    return socket.last_endpoint.decode()


def test_b13_libzmq_subscribes_again(peer: Peer, libzmq: Libzmq) -> None:
    theirs = libzmq("SUB", reconnect_ivl=10)
    for number in range(500):
        theirs.subscribe(b"topic %d" % number)
    first = peer("xpub")
    endpoint = first.bind()
    theirs.connect(endpoint)
    for ours in (first, None):
        if ours is None:
            first.kill()
            ours = peer("xpub")
            until(lambda: bound(ours, endpoint), "the port is free")
        heard: list[str] = []

        def all_heard() -> bool:
            theirs.poll(1)  # libzmq subscribes again only when its application calls.
            heard.extend(ours.receive(0.05) or [])
            return len(heard) == 500

        until(all_heard, "all subscriptions", every=0)
        assert set(heard) == {(b"\x01topic %d" % number).hex() for number in range(500)}
        ours.send(b"topic 499", b"body")
        assert theirs.recv_multipart() == [b"topic 499", b"body"]


def bound(ours: ZmtpPeer, endpoint: str) -> bool:
    ours.start("bind", endpoint)
    try:
        return bool(ours.finish())
    except Exception:
        return False


def test_an_xpub_hears_libzmqs_subscribers_come_and_go(peer: Peer, libzmq: Libzmq) -> None:
    ours = peer("xpub")
    endpoint = ours.bind()
    subs = [libzmq("SUB"), libzmq("SUB")]
    for sub in subs:
        sub.subscribe(b"A")
        sub.connect(endpoint)
    assert ours.receive() == ["0141"]
    ours.command("until-peers", 2, int(SOON * 1000))
    subs[1].subscribe(b"B")
    assert ours.receive() == ["0142"]
    subs[0].close(linger=0)
    subs[1].unsubscribe(b"B")
    assert ours.receive() == ["0042"]
    subs[1].close(linger=0)
    assert ours.receive() == ["0041"]


# -- the other patterns -----------------------------------------------------------------------------------------------


def test_work_is_dealt_to_libzmqs_pulls_in_turn(peer: Peer, libzmq: Libzmq) -> None:
    ours = peer("push")
    pulls = [libzmq("PULL") for _ in range(3)]
    for pull in pulls:
        pull.bind("tcp://127.0.0.1:*")
        ours.connect(pull.last_endpoint.decode())
    for number in range(9):
        ours.send(b"%d" % number)
    assert [[pull.recv() for _ in range(3)] for pull in pulls] == [
        [b"%d" % (3 * turn + at) for turn in range(3)] for at in range(3)
    ]


def test_requests_correlated_and_relaxed(peer: Peer, libzmq: Libzmq) -> None:
    ours, theirs = peer("req", relaxed=1, correlate=1), libzmq("REP")
    link(ours, theirs, "they-bind")
    ours.send(b"abandoned")
    assert theirs.recv() == b"abandoned"
    ours.send(b"asked instead")
    theirs.send(b"late")
    assert theirs.recv() == b"asked instead"
    theirs.send(b"in time")
    assert ours.receive() == [b"in time".hex()]

    ours, theirs = peer("rep"), libzmq("REQ", req_relaxed=1, req_correlate=1)
    link(ours, theirs, "we-bind")
    for number in range(20):
        theirs.send(b"%d" % number)
        assert ours.receive() == [(b"%d" % number).hex()]
        ours.send(b"to %d" % number)
        assert theirs.recv() == b"to %d" % number


def test_pitfall_7_through_libzmqs_proxy(peer: Peer, libzmq: Libzmq) -> None:
    """REQ, ROUTER and DEALER, ROUTER and DEALER, REP: three ids before the delimiter."""
    ours = peer("rep")
    address = ours.bind()
    for _ in range(2):
        frontend, backend = libzmq("ROUTER"), libzmq("DEALER")
        backend.connect(address)
        frontend.bind("tcp://127.0.0.1:*")
        address = frontend.last_endpoint.decode()
        threading.Thread(target=run_proxy, args=(frontend, backend), daemon=True).start()
    asker = peer("req")
    asker.connect(address)
    for number in range(20):
        asker.send(b"%d" % number)
        assert ours.receive() == [(b"%d" % number).hex()]
        ours.send(b"re: %d" % number)
        assert asker.receive() == [(b"re: %d" % number).hex()]


def run_proxy(frontend: zmq.Socket, backend: zmq.Socket) -> None:
    frontend.rcvtimeo = backend.rcvtimeo = -1
    try:
        zmq.proxy(frontend, backend)
    except zmq.ZMQError:
        pass  # Closed at the end of the test.


@pytest.mark.parametrize("who_beats", ["we-beat", "they-beat"])
def test_pitfall_14_heartbeats_do_not_disturb_turns(peer: Peer, libzmq: Libzmq, who_beats: str) -> None:
    # With time enough for the answer: a busy machine is not a dead peer.
    beat = {"heartbeat": 5, "heartbeat_timeout": 60_000} if who_beats == "we-beat" else {}
    theirs = libzmq("REP", **({} if beat else {"heartbeat_ivl": 5, "heartbeat_timeout": 60_000}))
    ours = peer("req", **beat)
    link(ours, theirs, "they-bind")
    for number in range(10):
        ours.send(b"%d" % number)
        assert theirs.recv() == b"%d" % number
        time.sleep(0.02)
        theirs.send(b"%d" % number)
        assert ours.receive() == [(b"%d" % number).hex()]
    assert "disconnected" not in ours.events()


def test_a_second_pair_is_closed(peer: Peer, libzmq: Libzmq) -> None:
    ours = peer("pair")
    endpoint = ours.bind()
    first, second = libzmq("PAIR"), libzmq("PAIR")
    first.connect(endpoint)
    first.send(b"first")
    assert ours.receive() == [b"first".hex()]
    second.connect(endpoint)
    until(lambda: "handshake-failed" in ours.events(), "the second is refused")
    ours.send(b"still you")
    assert first.recv() == b"still you"
