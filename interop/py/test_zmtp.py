"""Our ROUTER and DEALER against libzmq: every legal pair in both directions, sizes, identities, reconnects."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from raw import COMMAND, Raw, command, frame, greeting, message, ready
from waits import SOON, host_port, until
from zmtp_peer import Pattern, PeerError, ZmtpPeer, link, send_when_known, shown

MIB = 1 << 20
SIZES = [0, 1, 254, 255, 256, 8191, 8192, MIB]
OURS, THEIRS = b"our-peer", b"libzmq-peer"


def payloads(largest: int = 64 * MIB) -> Iterator[list[bytes]]:
    """Messages where encodings change, and then one frame of `largest` bytes."""
    for size in SIZES:
        yield [Pattern.of(size, size % 251)]
    yield [b"", b"", b""]
    yield [b"", b"one", b"", b"two", b""]
    yield [b"%d" % number for number in range(300)]
    yield [bytes([number]) * number for number in range(256)]
    yield [Pattern.of(MIB), b"", Pattern.of(8192), b"end"]
    yield [Pattern.of(largest, 7)]


class Libzmq:
    """One side of an exchange in libzmq, whatever its type."""

    def __init__(self, kind: str, handle: zmq.Socket) -> None:
        self.kind = kind
        self.handle = handle

    def ask(self, frames: list[bytes]) -> None:
        if self.kind == "ROUTER":
            send_when_known(self.handle, [OURS, *frames])
        else:
            self.handle.send_multipart(frames)

    def answer(self) -> list[bytes]:
        frames = self.handle.recv_multipart()
        if self.kind == "ROUTER":
            assert frames.pop(0) == OURS
        return frames


PAIRS = [
    ("router", "DEALER"),
    ("router", "REQ"),
    ("router", "ROUTER"),
    ("dealer", "DEALER"),
    ("dealer", "ROUTER"),
    ("dealer", "REP"),
]


@pytest.mark.parametrize("who_binds", ["we-bind", "libzmq-binds"])
@pytest.mark.parametrize(("ours", "theirs"), [pair for pair in PAIRS if pair[1] != "REP"])
def test_matrix_what_libzmq_sends_comes_back(peer, libzmq, ours, theirs, who_binds):
    us = peer(ours, id=OURS)
    them = Libzmq(theirs, libzmq(theirs, routing_id=THEIRS))
    link(us, them.handle, who_binds)
    for frames in payloads():
        us.start("echo", 1, 20_000)
        them.ask(frames)
        assert them.answer() == frames
        us.finish(30)


@pytest.mark.parametrize("who_binds", ["we-bind", "libzmq-binds"])
@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_matrix_what_we_send_comes_back(peer, libzmq, ours, theirs, who_binds):
    us = peer(ours, id=OURS)
    them = libzmq(theirs, routing_id=THEIRS)
    link(us, them, who_binds)
    delimiter = [b""] if theirs in ("REQ", "REP") else []
    if theirs == "REQ":
        them.send(b"first")
        assert us.receive() == [THEIRS.hex(), "-", b"first".hex()]
    elif ours == "router":
        us.command("until-known", THEIRS.hex(), 5000)
    for frames in payloads():
        us.send(*([THEIRS] if ours == "router" else []), *delimiter, *frames)
        got = them.recv_multipart()
        assert got == ([OURS, *frames] if theirs == "ROUTER" else frames)
        them.send_multipart(got)
        expected = [THEIRS.hex()] if ours == "router" else []
        assert us.receive(20) == expected + [shown(part) for part in [*delimiter, *frames]]


# -- Identities -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "identity", [b"\x01", b"plain", b"\xff\xfe", b"i" * 255], ids=["one-byte", "text", "not-text", "255-bytes"]
)
def test_identity_of_a_peer_is_seen_by_router(peer, libzmq, identity):
    us = peer("router")
    address = us.bind()
    them = libzmq("DEALER", routing_id=identity)
    them.connect(address)
    them.send(b"x")
    assert us.receive() == [identity.hex(), b"x".hex()]
    ours = peer("dealer", id=identity)
    router = libzmq("ROUTER")
    router.bind("tcp://127.0.0.1:*")
    ours.connect(router.last_endpoint.decode())
    ours.send(b"x")
    assert router.recv_multipart() == [identity, b"x"]


def test_identity_made_up_for_peers_without_one(peer, libzmq):
    us = peer("router")
    address = us.bind()
    seen = set()
    for number in range(50):
        them = libzmq("DEALER")
        them.connect(address)
        them.send(b"%d" % number)
        identity, body = us.receive()
        assert bytes.fromhex(identity)[0] == 0 and len(bytes.fromhex(identity)) == 5
        assert bytes.fromhex(body) == b"%d" % number
        seen.add(identity)
        us.send(bytes.fromhex(identity), b"to you")
        assert them.recv() == b"to you"
    assert len(seen) == 50


@pytest.mark.parametrize("bad", [b"", b"\0reserved", b"x" * 256], ids=["empty", "reserved", "256-bytes"])
def test_identity_that_no_peer_may_have_is_refused(peer, bad):
    with pytest.raises(PeerError):
        peer("dealer", id=bad)


def test_b07_a_newcomer_of_the_same_name_is_closed_until_the_name_is_free(peer, libzmq):
    """Without handover: the newcomer is refused so that it tries again, and gets in once the first has left. What it
    sent over a connection that was refused is lost with that, as always in libzmq."""
    us = peer("router")
    address = us.bind()
    first = libzmq("DEALER", routing_id=b"w")
    first.connect(address)
    first.send(b"one")
    assert us.receive() == [b"w".hex(), b"one".hex()]
    second = libzmq("DEALER", routing_id=b"w")
    second.connect(address)
    second.send(b"two")
    first.send(b"one again")
    assert us.receive() == [b"w".hex(), b"one again".hex()]
    first.close(linger=0)

    def second_is_heard() -> bool:
        second.send(b"three")
        return us.receive(0.2) == [b"w".hex(), b"three".hex()]

    until(second_is_heard, "the second is let in", 5)
    us.send(b"w", b"welcome")
    assert second.recv() == b"welcome"


def test_b07_with_handover_the_newcomer_takes_the_name(peer, libzmq, proxy):
    us = peer("router", handover=1)
    held = proxy(us.bind())
    first = libzmq("DEALER", routing_id=b"w")
    first.connect(held.address)
    first.send(b"one")
    assert us.receive() == [b"w".hex(), b"one".hex()]
    held.hold()
    second = libzmq("DEALER", routing_id=b"w")
    second.connect(us.command("endpoint"))
    second.send(b"two")
    assert us.receive(3) == [b"w".hex(), b"two".hex()]
    us.send(b"w", b"welcome")
    assert second.recv() == b"welcome"


# -- Reconnecting (B13) -------------------------------------------------------------------------------------------------


def test_b13_a_bound_libzmq_that_restarts_twenty_times(peer, libzmq, ports):
    address = ports.address()
    us = peer("dealer", id=OURS, reconnect=20, reconnect_max=200)
    us.connect(address)
    for number in range(20):
        them = libzmq("ROUTER")
        until(lambda them=them: bound(them, address), "the address is free again")
        us.send(b"%d" % number)
        assert them.recv_multipart() == [OURS, b"%d" % number]
        them.send_multipart([OURS, b"back"])
        assert us.receive() == [b"back".hex()]
        them.close(linger=0)
        until(lambda: "disconnected" in us.events(), "the loss is noticed")


def bound(them: zmq.Socket, address: str) -> bool:
    try:
        them.bind(address)
    except zmq.ZMQError:
        return False
    return True


def test_b13_what_was_sent_while_nobody_was_there_arrives_once_and_in_order(peer, libzmq, ports):
    address = ports.address()
    us = peer("dealer", id=OURS, reconnect=50, reconnect_max=300)
    us.connect(address)
    for number in range(500):
        us.send(b"%d" % number)
    time.sleep(1)
    them = libzmq("ROUTER")
    them.bind(address)
    assert [them.recv_multipart()[1] for _ in range(500)] == [b"%d" % number for number in range(500)]
    assert them.poll(300) == 0


def test_b13_we_restart_under_a_connected_libzmq(stack, libzmq, ports):
    address = ports.address()
    them = libzmq("DEALER", routing_id=THEIRS, reconnect_ivl=20)
    them.connect(address)
    for number in range(8):
        us = ZmtpPeer("router")
        us.bind(address)
        them.send(b"%d" % number)
        assert us.receive() == [THEIRS.hex(), (b"%d" % number).hex()]
        us.send(THEIRS, b"back")
        assert them.recv() == b"back"
        us.kill() if number % 2 else us.close()
        time.sleep(0.1)


def test_b13_a_refusing_or_closing_peer_is_not_dialled_in_a_hot_loop(peer):
    """A listener that accepts and closes: what counts as success is a handshake, so the waits keep growing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        us = peer("dealer", reconnect=50, reconnect_max=1000)
        us.connect(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        attempts = 0
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            try:
                listener.accept()[0].close()
                attempts += 1
            except TimeoutError:
                continue
    assert 2 <= attempts <= 25, "3 s with waits from 50 ms up to 1 s"


def test_b13_a_drop_in_the_middle_of_a_message(peer, libzmq, proxy):
    """What was half sent does not surface; what follows is whole."""
    them = libzmq("ROUTER")
    them.bind("tcp://127.0.0.1:*")
    middle = proxy(them.last_endpoint.decode())
    us = peer("dealer", id=OURS, reconnect=20, reconnect_max=100)
    us.connect(middle.address)
    us.send(b"first")
    assert them.recv_multipart() == [OURS, b"first"]
    middle.hold()
    us.send(b"head", Pattern.of(8 * MIB), b"tail")
    time.sleep(0.3)
    middle.cut()
    middle.mend()
    us.send(b"after")
    got = them.recv_multipart()
    assert got[-1] in (b"tail", b"after")
    assert len(got) == (4 if got[-1] == b"tail" else 2)


# -- Order of the handshake (B01), versions (B06), heartbeats -----------------------------------------------------------


def test_b01_a_thousand_connects_with_a_message_each(peer, libzmq):
    them = libzmq("ROUTER")
    them.bind("tcp://127.0.0.1:*")
    monitor = them.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_SUCCEEDED)
    us = peer("dealer")
    us.start("churn", 1000, them.last_endpoint.decode())
    got = {them.recv_multipart()[1] for _ in range(1000)}
    us.finish(60)
    assert got == {b"%d" % number for number in range(1000)}
    failed = 0
    while monitor.poll(0):
        failed += recv_monitor_message(monitor)["event"] == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    them.disable_monitor()
    assert failed == 0


class Listener:
    """A hand-made peer that waits for our connection."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(SOON)
        self.address = f"tcp://127.0.0.1:{self.server.getsockname()[1]}"

    def accept(self) -> Raw:
        accepted = Raw.__new__(Raw)
        accepted.socket = self.server.accept()[0]
        accepted.socket.settimeout(SOON)
        accepted.peer_greeting, accepted.commands = b"", []
        return accepted

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()


@pytest.mark.parametrize("minor", [0, 1])
def test_b01_nothing_but_handshake_before_the_peers_ready(peer, minor):
    with Listener() as listener:
        us = peer("dealer", id=OURS, heartbeat=200)
        us.connect(listener.address)
        us.send(b"", b"waits")
        with listener.accept() as raw:
            raw.write(greeting(minor=minor))
            assert raw.read(64)[10:12] == b"\x03\x01"
            body = raw.read_ready()
            assert b"Socket-Type\0\0\0\x06DEALER" in body and b"Identity\0\0\0\x08" + OURS in body
            raw.socket.settimeout(1)
            with pytest.raises(TimeoutError):
                raw.socket.recv(1)
            raw.socket.settimeout(SOON)
            raw.write(ready(b"ROUTER"))
            assert raw.read_message() == [b"", b"waits"]


def test_b06_a_peer_of_3_0_gets_no_ping_and_a_peer_of_3_1_does(peer):
    for minor, expected in ((0, 0), (1, 3)):
        with Listener() as listener:
            us = peer("dealer", heartbeat=200)
            us.connect(listener.address)
            with listener.accept() as raw:
                raw.write(greeting(minor=minor) + ready(b"ROUTER"))
                raw.read(64)
                raw.read_ready()
                until_time = time.monotonic() + 1.5
                raw.socket.settimeout(0.1)
                while time.monotonic() < until_time:
                    try:
                        flags, body = raw.read_frame()
                    except TimeoutError:
                        continue
                    assert flags & COMMAND
                    raw.commands.append(body)
                    raw.write(command(b"PONG", body[7:]))
                assert len(raw.commands) >= expected
                assert all(body.startswith(b"\x04PING") for body in raw.commands)
                if minor == 0:
                    assert raw.commands == []


def test_b06_large_messages_right_behind_the_handshake(peer):
    """Two messages over 8 KiB on a fresh connection, for each minor version."""
    us = peer("router")
    address = us.bind()
    for minor in (0, 1):
        with Raw(address) as raw:
            both = message([Pattern.of(9000)]) + message([Pattern.of(9000, 1)])
            raw.write(greeting(minor=minor) + ready(b"DEALER", b"raw") + both)
            assert us.receive() == [b"raw".hex(), shown(Pattern.of(9000))]
            assert us.receive() == [b"raw".hex(), shown(Pattern.of(9000, 1))]
        until(lambda: "disconnected" in us.events(), "it has left")


def test_heartbeats_between_us_and_libzmq(peer, libzmq):
    """Both sides ping each other; neither gives the other up; then libzmq's silence behind a held link is noticed."""
    us = peer("router", heartbeat=100)
    them = libzmq("DEALER", routing_id=THEIRS, heartbeat_ivl=100, heartbeat_timeout=1000, heartbeat_ttl=1000)
    them.connect(us.bind())
    them.send(b"x")
    assert us.receive() == [THEIRS.hex(), b"x".hex()]
    us.events()
    time.sleep(1.5)
    assert "disconnected" not in us.events()
    us.send(THEIRS, b"y")
    assert them.recv() == b"y"


def test_a_silent_peer_is_noticed_by_heartbeats(peer, libzmq, proxy):
    us = peer("router", heartbeat=200)
    held = proxy(us.bind())
    them = libzmq("DEALER", routing_id=THEIRS)
    them.connect(held.address)
    them.send(b"x")
    assert us.receive() == [THEIRS.hex(), b"x".hex()]
    us.events()
    held.hold()
    until(lambda: "disconnected" in us.events(), "the silent peer is given up", 5)
    held.release()
    them.send(b"again")
    assert us.receive() == [THEIRS.hex(), b"again".hex()]


# -- Full and gone (B09), mixed and broken (B10), lost and stuck (B14) ---------------------------------------------------


def stays_full(full: Callable[[], bool]) -> bool:
    for _ in range(5):
        if not full():
            return False
        time.sleep(0.1)
    return True


def fill(us: ZmtpPeer, name: bytes) -> None:
    """Sends until the peer's queue is full and stays so: nothing moves into the kernel's buffers any more."""

    def full() -> bool:
        try:
            us.command("try-send", name.hex(), f"@{MIB}:0")
        except PeerError as error:
            assert str(error) == "full"
            return True
        return False

    sent = 0
    while not stays_full(full):
        sent += 1
        assert sent < 300, "never full"


def test_b09_full_is_not_gone_and_others_are_served(peer, libzmq):
    us = peer("router", send_hwm=10)
    address = us.bind()
    deaf = libzmq("DEALER", routing_id=b"deaf", rcvhwm=1, rcvbuf=4096)
    deaf.connect(address)
    able = libzmq("DEALER", routing_id=b"able")
    able.connect(address)
    for name in (b"deaf", b"able"):
        us.command("until-known", name.hex(), 5000)
    fill(us, b"deaf")
    for number in range(100):
        us.command("try-send", b"able".hex(), (b"%d" % number).hex())
        assert able.recv() == b"%d" % number
    with pytest.raises(PeerError, match="gone"):
        us.command("try-send", b"nobody".hex(), "00")
    deaf.close(linger=0)

    def gone() -> bool:
        try:
            us.command("try-send", b"deaf".hex(), "00")
        except PeerError as error:
            return "gone" in str(error)
        return False

    until(gone, "the deaf one is gone")


def test_b09_a_sender_that_waits_for_a_full_peer_wakes_when_it_leaves(peer, libzmq):
    us = peer("router", send_hwm=2)
    deaf = libzmq("DEALER", routing_id=b"deaf", rcvhwm=1, rcvbuf=4096)
    deaf.connect(us.bind())
    us.command("until-known", b"deaf".hex(), 5000)
    fill(us, b"deaf")
    us.start("send", b"deaf".hex(), f"@{MIB}:0")
    time.sleep(0.3)
    deaf.close(linger=0)
    with pytest.raises(PeerError, match="gone"):
        us.finish(5)


def test_b10_every_reply_to_its_asker_while_others_break_off(peer, libzmq):
    """Scaled: 3 x 3,000 rounds of multipart echo while fifty peers connect, send and break off."""
    us = peer("router")
    address = us.bind()
    us.start("serve", 9000)
    failures: list[object] = []

    def steady(name: bytes) -> None:
        handle = zmq.Context.instance().socket(zmq.DEALER)
        handle.routing_id, handle.rcvtimeo, handle.linger = name, 10_000, 0
        handle.connect(address)
        try:
            for number in range(3000):
                frames = [name, b"", b"%d" % number, b"x" * (number % 300)]
                handle.send_multipart(frames)
                if (got := handle.recv_multipart()) != frames:
                    failures.append((frames, got))
        except zmq.ZMQError as error:
            failures.append((name, error))
        finally:
            handle.close(linger=0)

    threads = [threading.Thread(target=steady, args=(b"peer-%d" % n,), daemon=True) for n in range(3)]
    for thread in threads:
        thread.start()
    for number in range(50):
        raw = Raw(address)
        raw.handshake(identity=b"broken-%d" % number)
        raw.write(frame(b"half", 1) + frame(b"a message", 1))
        raw.reset() if number % 2 else raw.close()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert us.finish(10) == "9000"


def test_b14_recv_that_is_given_up_again_and_again_loses_nothing(peer, libzmq):
    """100,000 messages into a ROUTER whose every recv is dropped after a millisecond at the latest."""
    us = peer("router", receive_hwm=1000)
    them = libzmq("DEALER", routing_id=THEIRS, sndhwm=0)
    them.connect(us.bind())
    us.start("sink", 100_000, 60_000)
    for number in range(100_000):
        them.send(struct.pack(">I", number))
    assert us.finish(60) == "100000 in order"


def test_b14_slow_peers_beside_a_flood(peer, libzmq):
    us = peer("router", receive_hwm=1000)
    address = us.bind()
    us.start("serve", 1_000_000)
    stop = threading.Event()

    def flood() -> None:
        handle = zmq.Context.instance().socket(zmq.DEALER)
        handle.sndtimeo, handle.linger = 100, 0
        handle.connect(address)
        while not stop.is_set():
            try:
                for _ in range(100):
                    handle.send(b"flood")
                while handle.poll(0):
                    handle.recv()
            except zmq.Again:
                continue
        handle.close(linger=0)

    flooding = threading.Thread(target=flood, daemon=True)
    flooding.start()
    try:
        slow = [libzmq("DEALER") for _ in range(20)]
        for handle in slow:
            handle.connect(address)
        for _ in range(5):
            for handle in slow:
                handle.send(b"slow")
            for handle in slow:
                assert handle.recv() == b"slow"
            time.sleep(0.2)
    finally:
        stop.set()
        flooding.join(5)
        us.kill()


def test_a_dealer_takes_turns_between_its_endpoints(peer, libzmq):
    us = peer("dealer")
    them = [libzmq("ROUTER") for _ in range(3)]
    for handle in them:
        handle.bind("tcp://127.0.0.1:*")
        us.connect(handle.last_endpoint.decode())
    us.command("until-peers", 3, 5000)
    for number in range(30):
        us.send(b"%d" % number)
    for handle in them:
        assert len([handle.recv_multipart() for _ in range(10)]) == 10


def test_linger_lets_the_last_message_out(stack, libzmq):
    """A sender that closes at once: nothing it was told is sent may be lost."""
    them = libzmq("ROUTER")
    them.bind("tcp://127.0.0.1:*")
    for number in range(20):
        us = ZmtpPeer("dealer", linger=5000)
        us.connect(them.last_endpoint.decode())
        us.send(b"%d" % number, Pattern.of(200_000))
        us.close()
        assert them.recv_multipart()[1] == b"%d" % number


# -- Hostile bytes against our sockets themselves -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "length", [1 << 63, (1 << 64) - 1, 1 << 40, MIB + 1], ids=["2-to-63", "2-to-64", "2-to-40", "limit-plus-1"]
)
def test_b03_a_hostile_length_in_a_dealer_that_connects(peer, length):
    with Listener() as listener:
        us = peer("dealer", max_frame=MIB, max_message=2 * MIB, reconnect=20, reconnect_max=50)
        us.connect(listener.address)
        before = us.rss()
        with listener.accept() as raw:
            raw.write(greeting() + ready(b"ROUTER"))
            raw.read(64)
            raw.read_ready()
            raw.write(struct.pack(">BQ", 2, length))
            assert raw.closed_within(5)
        with listener.accept() as again:
            again.write(greeting() + ready(b"ROUTER") + message([b"fine"]))
            assert us.receive() == [b"fine".hex()]
        assert us.rss() - before < 16 * MIB


def test_names_and_ports_are_checked(peer):
    us = peer("dealer")
    for bad in ("tcp://127.0.0.1:70000", "tcp://127.0.0.1", "nothing://x:1", "tcp://127.0.0.1:12ab", "127.0.0.1:5"):
        with pytest.raises(PeerError):
            us.connect(bad)
        with pytest.raises(PeerError):
            us.bind(bad)
    assert host_port(us.bind())[1] > 0
