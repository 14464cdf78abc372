"""Cases B against the broker: hand-made ZMTP, hostile and broken peers, and those beside them who are served."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from contextlib import contextmanager

import pytest

from peers import FakeWorker, answer, hold
from raw import COMMAND, MORE, Raw, command, emqp, frame, greeting, message, property_, ready
from scale import scaled
from waits import host_port, stays, until

WANTS = "reply-requested"
MIB = 1 << 20
SMALL_LIMITS = {"max_frame_size": MIB, "max_message_size": 4 * MIB, "handshake_timeout": 2}


@contextmanager
def others_served(router, client, worker, growth: int = 64 * MIB):
    """Whatever happens inside: another peer is served after it, memory and open files are back where they were."""
    serving = worker(router, queues=[(10, "healthy")])
    asking = client(router)

    def serve() -> None:
        msgid = asking.request(b"fine", "healthy", WANTS)
        assert asking.result(msgid, 5) == {"value": "done"}

    serve()
    memory, files = router.rss(), router.open_files()
    yield serve
    serve()
    assert router.rss() - memory < growth, "memory grows with what was received only"
    until(lambda: router.open_files() <= files, f"open files are back at {files}", 15)
    serving.close()


def ask_by_hand(peer: Raw) -> None:
    """A REQUEST and its acceptance over a connection that is through its handshake."""
    peer.write(emqp(b"REQUEST", b"default", b"", b"by hand", msgid=b"hand"))
    assert peer.receive_command(b"REPLY").body == (b"hand",)


# -- B01 --------------------------------------------------------------------------------------------------------------


def test_b01_a_message_right_behind_ready_is_taken(router, worker):
    able = worker(router, slots=20)
    for number in range(20):
        with Raw(router.frontend) as peer:
            msgid = b"m%d" % number
            peer.write(greeting() + ready() + emqp(b"REQUEST", b"default", b"", str(number).encode(), msgid=msgid))
            peer.read(64)
            peer.read_ready()
            assert peer.receive().body == (msgid,)
    assert [job.message for job in able.wait_jobs(20)] == [str(number).encode() for number in range(20)]


def test_b01_a_ping_right_behind_ready_is_answered(router):
    with Raw(router.frontend) as peer:
        peer.write(greeting() + ready() + command(b"PING", b"\0\0abcd"))
        peer.read(64)
        peer.read_ready()
        assert peer.read_frame() == (COMMAND, b"\x04PONGabcd")


# -- B02 --------------------------------------------------------------------------------------------------------------


def lying(value_length: int) -> bytes:
    return b"\x0bSocket-Type" + struct.pack(">I", value_length) + b"abc"


LYING_READIES = {
    "value-200-of-3": command(b"READY", lying(200)),
    "value-4-gib-of-3": command(b"READY", lying(0xFFFF_FFFF)),
    "value-2-gib-of-3": command(b"READY", lying(0x7FFF_FFFF)),
    "name-255-of-3": command(b"READY", b"\xffabc"),
    "empty-command": frame(b"", COMMAND),
    "name-longer-than-body": frame(b"\x09READY", COMMAND),
    "stray-trailing-byte": command(b"READY", property_(b"Socket-Type", b"DEALER") + b"\x01"),
    "identity-of-300": ready(identity=b"x" * 300),
    "identity-reserved": ready(identity=b"\0abc"),
    "wrong-socket-type": ready(b"PUB"),
    "announced-2-to-40": struct.pack(">BQ", 6, 1 << 40),
    "announced-2-to-64": struct.pack(">BQ", 6, (1 << 64) - 1),
    "a-message-before-ready": emqp(b"REQUEST", b"default", b"", b"early"),
    "reserved-flag": b"\x0c\x05READY",
    "command-with-more": b"\x05\x06\x05READY",
}


@pytest.mark.parametrize("case", LYING_READIES)
def test_b02_a_ready_that_lies_is_refused(router, client, worker, case):
    with others_served(router, client, worker), Raw(router.frontend) as peer:
        peer.greet()
        peer.write(LYING_READIES[case])
        assert peer.closed_within(5)


def test_b02_ten_thousand_properties_are_bounded(router, client, worker):
    with others_served(router, client, worker), Raw(router.frontend) as peer:
        peer.greet()
        many = b"".join(property_(b"X-%d" % number, b"v" * 20) for number in range(10_000))
        assert peer.write_all_the_peer_takes(command(b"READY", many)) in (True, False)
        assert peer.closed_within(5), "a handshake has a limit of its own"


# -- B03 --------------------------------------------------------------------------------------------------------------

HOSTILE_LENGTHS = {"2-to-63": 1 << 63, "2-to-64": (1 << 64) - 1, "2-to-40": 1 << 40, "limit-plus-1": MIB + 1}


@pytest.mark.parametrize("case", HOSTILE_LENGTHS)
@pytest.mark.parametrize("flags", [2, 3], ids=["last", "more"])
def test_b03_a_hostile_length_is_refused_before_it_is_believed(new_router, client, worker, case, flags):
    router = new_router(**SMALL_LIMITS)
    with others_served(router, client, worker, growth=16 * MIB), Raw(router.frontend) as peer:
        peer.handshake()
        peer.write(struct.pack(">BQ", flags, HOSTILE_LENGTHS[case]))
        assert peer.closed_within(5)


def test_b03_a_frame_at_the_limit_passes(new_router, client, worker):
    router = new_router(**SMALL_LIMITS)
    able = worker(router)
    asking = client(router)
    asking.accepted(asking.request(bytes(MIB)))
    assert len(able.wait_jobs(1)[0].message) == MIB


def test_b03_a_length_announced_and_never_sent_costs_nothing(new_router, client, worker):
    """Fifty connections that each announce a frame of the limit and send three bytes of it."""
    router = new_router(max_frame_size=64 * MIB, max_message_size=64 * MIB)
    with others_served(router, client, worker, growth=32 * MIB) as serve:
        peers = [Raw(router.frontend) for _ in range(50)]
        for peer in peers:
            peer.handshake()
            peer.write(struct.pack(">BQ", 2, 64 * MIB) + b"abc")
        before = router.rss()
        serve()
        assert router.rss() - before < 32 * MIB
        for peer in peers:
            peer.close()


def test_b03_many_frames_of_one_message_are_bounded(new_router, client, worker):
    """Frames just under the limit, MORE set on each, 64 MiB in all."""
    router = new_router(**SMALL_LIMITS)
    with others_served(router, client, worker), Raw(router.frontend) as peer:
        peer.handshake()
        part = frame(bytes(MIB - 1), MORE)
        taken = sum(peer.write_all_the_peer_takes(part) for _ in range(64))
        assert peer.closed_within(5)
        assert taken < 64, "refused long before the end"


def test_b03_a_million_empty_frames_of_one_message_are_bounded(new_router, client, worker):
    router = new_router(max_frame_size=MIB, max_message_size=MIB)
    with others_served(router, client, worker), Raw(router.frontend) as peer:
        peer.handshake()
        before = router.rss()
        peer.write_all_the_peer_takes(b"\x01\x00" * 1_000_000)
        assert peer.closed_within(5), "2 MB of frame headers are more than a message may have"
        assert router.rss() - before < 64 * MIB


# -- B05 --------------------------------------------------------------------------------------------------------------

TLS_HELLO = bytes.fromhex("16030100c8010000c403036b5e0f3c") + bytes(190)
STRANGERS = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "zeros": bytes(64),
    "tls": TLS_HELLO,
    "random": random.Random(5).randbytes(64).replace(b"\xff", b"\xfe"),
    "ff-then-silence": b"\xff",
    "ten-bytes-then-silence": greeting()[:10],
    "nothing": b"",
    "greeting-only": greeting(),
    "plain-mechanism": greeting(mechanism=b"PLAIN"),
    "null-with-a-space": greeting(mechanism=b"NULL "),
}


@pytest.mark.parametrize("where", ["frontend", "backend", "admin_address"])
@pytest.mark.parametrize("case", STRANGERS)
def test_b05_a_stranger_is_closed(new_router, client, worker, case, where):
    router = new_router(**SMALL_LIMITS)
    with others_served(router, client, worker), Raw(getattr(router, where)) as peer:
        peer.write(STRANGERS[case])
        assert peer.closed_within(6), "at once, or at the handshake limit of 2 s"


def test_b05_a_thousand_handshakes_that_never_end(new_router, client, worker):
    router = new_router(handshake_timeout=8)
    with others_served(router, client, worker) as serve:
        memory = router.rss()
        halves = [Raw(router.frontend) for _ in range(1000)]
        for half in halves:
            half.write_all_the_peer_takes(greeting()[:10])
        for _ in range(20):
            serve()
        with Raw(router.frontend) as newcomer:
            newcomer.socket.settimeout(20)
            newcomer.handshake()
            ask_by_hand(newcomer)
        assert router.rss() - memory < 64 * MIB
        assert len(router.logged("127.0.0.1")) < 200, "not a line of the log for each"
        for half in halves:
            half.close()


def test_b05_connect_and_close_many_times(router, client, worker):
    """10,000 connections (every day 3,000), every third reset, while jobs flow and none is lost."""
    able = worker(router, slots=10)
    asking = client(router)
    with others_served(router, client, worker):
        msgids = []
        for number in range(scaled(10_000, 3_000)):
            peer = Raw(router.frontend)
            if number % 3 == 1:
                peer.write(greeting())
            peer.reset() if number % 3 == 0 else peer.close()
            if number % 10 == 0:
                msgids.append(asking.request(b"x", headers=WANTS))
        for msgid in msgids:
            assert asking.result(msgid) == {"value": "done"}
    assert len(able.jobs) == len(msgids)
    assert len(router.output().splitlines()) < scaled(5_000, 1_500), "not a line of the log for each connection"


def test_garbage_behind_a_handshake(router, client, worker, admin):
    """Two hundred peers that greet properly and then send noise: frames of noise, and eMQP with pieces missing."""
    chance = random.Random(6)
    whole = [b"", b"eMQP/1.0", b"REQUEST", b"m", b"default", b"guarantee", b"x"]
    with others_served(router, client, worker) as serve:
        for number in range(200):
            with Raw(getattr(router, chance.choice(["frontend", "backend", "admin_address"]))) as peer:
                peer.handshake(identity=b"noise-%d" % number)
                if number % 2:
                    peer.write_all_the_peer_takes(chance.randbytes(chance.randrange(1, 2000)))
                    continue
                for _ in range(20):
                    parts = [chance.choice([part, chance.randbytes(chance.randrange(40))]) for part in whole]
                    peer.write_all_the_peer_takes(message(parts[: chance.randrange(1, len(parts) + 1)]))
            if number % 20 == 0:
                serve()
    assert admin(router).status()["malformed"] >= 200, "each bad message is counted"


# -- B06 --------------------------------------------------------------------------------------------------------------

GREETINGS = {
    "minor-0": greeting(minor=0),
    "libzmq-padding": greeting(padding=struct.pack(">Q", 9)),
    "any-padding": greeting(padding=b"\xaa" * 8),
    "minor-2": greeting(minor=2),
    "major-4": greeting(major=4, minor=0),
    "filler": greeting()[:33] + b"\x55" * 31,
    "as-server": greeting()[:32] + b"\x01" + bytes(31),
}


@pytest.mark.parametrize("pieces", ["whole", "bytes"])
@pytest.mark.parametrize("case", GREETINGS)
def test_b06_older_and_newer_peers_and_padding(router, worker, case, pieces):
    able = worker(router)
    with Raw(router.frontend) as peer:
        if pieces == "whole":
            peer.write(GREETINGS[case] + ready())
        else:
            for byte in GREETINGS[case] + ready():
                peer.write(bytes([byte]))
        ours = peer.read(64)
        assert (
            ours[0] == 0xFF and ours[9] & 1 and ours[10:12] == b"\x03\x01" and ours[12:32] == b"NULL".ljust(20, b"\0")
        )
        peer.read_ready()
        ask_by_hand(peer)
    assert able.wait_jobs(1)[0].message == b"by hand"


@pytest.mark.parametrize("revision", [1, 2])
def test_b06_a_zmtp_2_peer_is_served(router, worker, revision):
    """As libzmq 3.2: signature, revision, socket type and identity, then messages; each side in steps."""
    able = worker(router)
    with Raw(router.frontend) as peer:
        peer.write(greeting()[:10])
        ours = peer.read(11)
        assert ours[0] == 0xFF and ours[9] & 1 and ours[10] == 3
        peer.write(bytes([revision, 5]) + frame(b"old"))
        assert peer.read(3) == b"\x06\x00\x00", "a ROUTER without an identity"
        ask_by_hand(peer)
        assert not peer.commands
    assert able.wait_jobs(1)[0].message == b"by hand"


@pytest.mark.parametrize(
    "bytes_",
    [greeting()[:10] + b"\x00\x05\x00\x00", b"\x0a\x00" + bytes(9)],
    ids=["zmtp-1.0-versioned", "zmtp-1.0"],
)
def test_b06_versions_before_2_are_refused(new_router, client, worker, bytes_):
    router = new_router(**SMALL_LIMITS)
    with others_served(router, client, worker), Raw(router.frontend) as peer:
        peer.write(bytes_)
        assert peer.closed_within(5)


def test_b06_a_peer_of_minor_0_gets_no_ping(new_router):
    """4.0 hands a PING to its application as data, so none is sent to a 3.0 peer; one that asks is answered."""
    router = new_router(heartbeat_timeout=1, zmtp_heartbeat_interval="0.3")
    with Raw(router.backend) as peer:
        peer.handshake(identity=b"old", minor=0)
        peer.write(emqp(b"INFORM", b'[[10, "default"]]', b"worker"))
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            peer.receive()
            peer.write(emqp(b"HEARTBEAT", b"1.0"))
        assert not [body for body in peer.commands if body.startswith(b"\x04PING")]
        peer.write(command(b"PING", b"\0\0"))
        peer.write(emqp(b"INFORM", b'[[10, "default"]]', b"worker"))
        peer.receive_command(b"ACK")
        assert b"\x04PONG" in peer.commands


def test_b06_long_frames_and_commands_in_between(router, worker):
    """LONG with a short body, a PING between the frames of one message, an unknown command: all are legal."""
    able = worker(router)
    with Raw(router.frontend) as peer:
        peer.handshake()
        peer.write(struct.pack(">BQ", 3, 0) + command(b"PING", b"\0\0") + frame(b"eMQP/1.0", MORE))
        peer.write(
            frame(b"REQUEST", MORE) + command(b"WHATEVER", b"data") + message([b"m", b"default", b"", b"x" * 9000])
        )
        assert peer.receive().body == (b"m",)
        assert peer.commands == [b"\x04PONG"]
    assert able.wait_jobs(1)[0].message == b"x" * 9000


# -- B07 --------------------------------------------------------------------------------------------------------------


def test_b07_a_worker_that_froze_is_replaced_by_one_of_its_name(router, client, worker, proxy, admin):
    link = proxy(router.backend)
    worker(link.address, identity=b"w", handler=hold)
    link.hold()
    again = worker(router, identity=b"w", slots=2)
    asking = client(router)
    msgid = asking.request(b"x", headers=WANTS)
    assert asking.result(msgid, 5) == {"value": "done"}
    assert len(again.jobs) == 1
    assert len(admin(router).workers()) == 1
    link.release()
    msgid = asking.request(b"y", headers=WANTS)
    assert asking.result(msgid, 5) == {"value": "done"}


def test_b07_of_two_peers_of_one_name_none_is_open_and_deaf(router, client, worker):
    """Both clients are called `w`: whichever of them the broker keeps is served, also after the other left."""
    worker(router, slots=10)
    first = client(router, identity=b"w")
    first.accepted(first.request(b"one"))
    second = client(router, identity=b"w")
    msgid = second.request(b"two")
    first.close()
    second.accepted(msgid, 5)
    second.accepted(second.request(b"three"), 5)


# -- B09 --------------------------------------------------------------------------------------------------------------


def test_b09_a_worker_that_does_not_read_holds_up_nobody(new_router, client, worker, admin):
    """Scaled: eight workers, one deaf with 60 slots, 150 jobs of 512 KiB; then the deaf one closes while it is full."""
    router = new_router(heartbeat_timeout=3)
    deaf = worker(router, slots=60, handler=hold, receive_limit=1)
    deaf.deaf()
    able = [worker(router, slots=2) for _ in range(7)]
    asking = client(router)
    msgids = {asking.request(bytes(512 * 1024), headers="guarantee") for _ in range(150)}
    boss = admin(router)

    def done() -> set[bytes]:
        return {job.msgid for member in able for job in list(member.jobs)}

    until(lambda: len(done()) >= 150 - 60, "all but what the deaf one holds", 30)
    small = asking.request(b"small", headers=WANTS)
    assert asking.result(small) == {"value": "done"}
    deaf.close()
    until(lambda: done() >= msgids, "what it held is run by others", 30)
    until(lambda: boss.in_flight() == 0, "nothing in flight")


# -- B10 --------------------------------------------------------------------------------------------------------------


def test_b10_half_a_message_never_surfaces(router, client, worker, admin):
    able = worker(router)
    with others_served(router, client, worker):
        for how in (Raw.close, Raw.reset):
            peer = Raw(router.frontend)
            peer.handshake()
            peer.write(emqp(b"REQUEST", b"default", b"", b"whole"))
            peer.receive()
            peer.write(frame(b"", MORE) + frame(b"eMQP/1.0", MORE) + frame(b"REQUEST", MORE) + frame(b"half", MORE))
            peer.write(b"\x01\x07defa")
            how(peer)
    able.wait_jobs(2)
    stays(lambda: len(able.jobs) == 2, "only whole messages", 0.5)
    assert admin(router).status()["malformed"] == 0


def test_b10_a_reset_behind_the_last_message_takes_none_with_it(router, worker):
    """How a libzmq client ends that closes with answers unread: all it sent has arrived, and then comes a RST, on which
    our writes fail before we have read everything."""
    able = worker(router, slots=100)
    total = 0
    for number in range(20):
        peer = Raw(router.frontend)
        peer.handshake()
        peer.write(b"".join(emqp(b"REQUEST", b"default", b"", b"%d-%d" % (number, n)) for n in range(500)))
        peer.wait_sent()
        peer.reset()
        total += 500
    assert {job.message for job in able.wait_jobs(total, 20)} == {b"%d-%d" % divmod(n, 500) for n in range(total)}


def test_b10_clients_that_come_and_go_do_not_touch_others(router, worker):
    """Three clients exchange jobs with an echo while others connect, ask and break off."""
    worker(router, slots=8, handler=answer)
    answers: list[int] = []

    def steady(name: int, rounds: int) -> None:
        with Raw(router.frontend) as peer:
            peer.handshake()
            for number in range(rounds):
                msgid = b"%d-%d" % (name, number)
                peer.write(emqp(b"REQUEST", b"default", WANTS.encode(), b"x", msgid=msgid))
                bodies = {peer.receive().body, peer.receive().body}
                assert bodies == {(msgid,), (b'{"value": "done"}', msgid)}
        answers.append(rounds)

    threads = [threading.Thread(target=steady, args=(name, 700), daemon=True) for name in range(3)]
    for thread in threads:
        thread.start()
    for number in range(150):
        peer = Raw(router.frontend)
        peer.handshake()
        peer.write(emqp(b"REQUEST", b"default", WANTS.encode(), b"y") + frame(b"", MORE))
        peer.reset() if number % 2 else peer.close()
        time.sleep(0.01)
    for thread in threads:
        thread.join(60)
    assert answers == [700] * 3


# -- B14 --------------------------------------------------------------------------------------------------------------


def test_b14_a_flood_from_one_does_not_starve_the_others(new_router, client, worker, stack):
    """One client sends at full speed for 5 s; 20 others ask twice a second and are accepted meanwhile."""
    router = new_router(hwm=1000)
    flood_done = threading.Event()
    stack.callback(flood_done.set)

    def flood() -> None:
        with socket.create_connection(host_port(router.frontend)) as link:
            link.sendall(greeting() + ready())
            burst = emqp(b"REQUEST", b"flood", b"", b"x" * 50) * 200
            link.settimeout(0.5)
            while not flood_done.is_set():
                try:
                    link.sendall(burst)
                    link.recv(1 << 20)
                except TimeoutError:
                    continue
                except ConnectionError:
                    return

    worker(router, slots=0, queues=[(10, "flood")])
    heartbeats = worker(router, slots=0, queues=[(10, "quiet")])
    flooding = threading.Thread(target=flood, daemon=True)
    flooding.start()
    others = [client(router) for _ in range(20)]
    slowest = 0.0
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        begun = time.monotonic()
        for other in others:
            other.accepted(other.request(b"x", "other"), 5)
            slowest = max(slowest, time.monotonic() - begun)
        time.sleep(0.3)
    flood_done.set()
    flooding.join(5)
    assert slowest < 3, "twenty requests in turn beside a flood"
    assert len(heartbeats.saw(b"HEARTBEAT")) >= 3, "heartbeats leave on time"


# -- Bounds of what an unfinished handshake or a silent half costs -----------------------------------------------------


def test_half_open_connections_are_given_up(new_router, client, worker, proxy):
    """Workers behind a link that lets nothing through any more: no FIN, no RST. They are given up by what they say."""
    router = new_router(heartbeat_timeout=1, heartbeat_liveness=2)
    with others_served(router, client, worker):
        link = proxy(router.backend)
        silent = [FakeWorker(link.address, queues=[(10, "silent")], handler=hold).registered() for _ in range(5)]
        link.hold()
        asking = client(router)
        msgids = [asking.request(b"x", "silent", WANTS) for _ in range(5)]
        for msgid in msgids:
            assert "error" in asking.result(msgid, 15)
        asking.close()
        for one in silent:
            one.close()
        link.cut()
