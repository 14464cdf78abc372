"""Our Majordomo broker and libzmq peers written from the RFCs: services, MMI, bad input, losses."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest
import zmq

from mdp_peers import VERSIONS, V1, V2, Client, EchoWorker, MdpBroker, Peer, Worker
from waits import SOON, stays, until


@pytest.fixture
def new_broker(tmp_path, ports):
    made = []

    def make(*arguments: str, address: str | None = None, **options) -> MdpBroker:
        broker = MdpBroker(tmp_path, address or ports.address(), *arguments, **options)
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.finish()


@pytest.fixture
def broker(new_broker) -> MdpBroker:
    return new_broker()


@pytest.fixture
def peers(stack):
    """Makes peers that are closed at the end: peers(Client, broker.address, ...)."""

    def make(kind, *arguments, **options):
        made = kind(*arguments, **options)
        stack.callback(made.stop if isinstance(made, EchoWorker) else made.close)
        return made

    return make


@pytest.mark.parametrize("serving", VERSIONS, ids=lambda v: f"worker {v.name}")
@pytest.mark.parametrize("asking", VERSIONS, ids=lambda v: f"client {v.name}")
def test_every_version_is_served_by_every_version(broker, peers, asking, serving):
    worker = peers(Worker, broker.address, b"echo", serving)
    client = peers(Client, broker.address, asking)
    client.ask(b"echo", b"a", b"", b"b" * 100_000)
    who, body = worker.job()
    assert body == [b"a", b"", b"b" * 100_000]
    worker.reply(who, b"r", b"")
    assert client.receive() == asking.answer(b"echo", b"r", b"")


def test_a_req_socket_is_a_client(broker, peers, libzmq):
    peers(EchoWorker, broker.address, b"echo")
    asking = libzmq("REQ")
    asking.connect(broker.address)
    for number in range(20):
        asking.send_multipart([b"MDPC01", b"echo", b"%d" % number])
        assert asking.recv_multipart() == [b"MDPC01", b"echo", b"%d" % number]
    # An 02 header from a REQ, which adds the empty frame by itself.
    asking.send_multipart([b"MDPC02", b"\x01", b"echo", b"x"])
    assert asking.recv_multipart() == [b"MDPC02", b"\x03", b"echo", b"x"]


def test_partial_replies_come_before_the_final_one(broker, peers):
    worker = peers(Worker, broker.address, b"s", V2)
    new, old = peers(Client, broker.address, V2), peers(Client, broker.address, V1)
    for client in (new, old):
        client.ask(b"s", b"x")
        who, _ = worker.job()
        for part in (b"1", b"2"):
            worker.say(V2.partial, who, b"", part)
        worker.reply(who, b"3")
    assert [new.receive() for _ in range(3)] == [
        V2.answer(b"s", b"1", last=False),
        V2.answer(b"s", b"2", last=False),
        V2.answer(b"s", b"3"),
    ]
    assert old.receive() == V1.answer(b"s", b"3"), "0.1 cannot say a part"


def test_any_number_of_endpoints(new_broker, ports, peers):
    second = ports.address()
    broker = new_broker("--bind", second)
    peers(EchoWorker, second, b"echo")
    assert peers(Client, broker.address).request(b"echo", b"x") == [b"x"]


def test_mmi(broker, peers):
    client, client2 = peers(Client, broker.address), peers(Client, broker.address, V2)
    assert client.request(b"mmi.service", b"echo") == [b"404"]
    client.ask(b"echo", b"a mention is no worker")
    assert client.request(b"mmi.service", b"echo") == [b"404"]
    worker = peers(Worker, broker.address, b"echo")
    worker.job()
    assert client2.request(b"mmi.service", b"echo") == [b"200"], "a busy one counts"
    assert client.request(b"mmi.foo", b"a", b"b") == [b"a", b"501"]
    assert client.request(b"mmi.filter", b"x") == [b"501"]
    peers(Worker, broker.address, b"mmi.x").wait_disconnect()
    odd = peers(Worker, broker.address, b"plain", routing_id=b"mmi.worker").registered()
    odd.heartbeat()
    assert client.request(b"mmi.service", b"plain") == [b"200"]


def test_requests_wait_in_order_until_a_worker_comes(broker, peers):
    clients = [peers(Client, broker.address) for _ in range(5)]
    for number, client in enumerate(clients):
        client.ask(b"s", b"%d" % number)
        # Over one connection each: a question of its own shows that it has arrived.
        client.request(b"mmi.service", b"s")
    worker = peers(Worker, broker.address, b"s")
    for number in range(5):
        who, body = worker.job()
        assert body == [b"%d" % number]
        worker.reply(who, b"r")
    assert all(client.receive() == V1.answer(b"s", b"r") for client in clients)


def test_a_request_nobody_serves_expires(new_broker, peers):
    broker = new_broker("--expiry", "0.5")
    client = peers(Client, broker.address)
    client.ask(b"s", b"old")
    client.request(b"mmi.service", b"s")
    time.sleep(0.7)
    worker = peers(Worker, broker.address, b"s")
    client.ask(b"s", b"new")
    assert worker.job()[1] == [b"new"]


def test_a_client_that_floods_before_it_reads_gets_every_reply(broker, peers):
    peers(EchoWorker, broker.address, b"echo")
    client = peers(Client, broker.address)
    for number in range(20_000):
        client.ask(b"echo", b"%d" % number)
    got = [client.receive(30)[-1] for _ in range(20_000)]
    assert got == [b"%d" % number for number in range(20_000)]


# -- heartbeats -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: v.name)
def test_heartbeats_come_and_silence_ends_a_registration(broker, peers, version):
    worker = peers(Worker, broker.address, b"s", version)
    client = peers(Client, broker.address)
    until(lambda: client.request(b"mmi.service", b"s") == [b"200"], "it is registered")
    for _ in range(4):
        assert worker.command() == (version.heartbeat, [])
        worker.heartbeat()
    until(lambda: client.request(b"mmi.service", b"s") == [b"404"], "it is forgotten")
    worker.heartbeat()
    worker.wait_disconnect()


@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: v.name)
def test_heartbeats_lost_towards_the_broker_and_back_again(broker, peers, proxy, version):
    link = proxy(broker.address)
    worker = peers(EchoWorker, link.address, b"echo", version)
    client = peers(Client, broker.address)
    assert client.request(b"echo", b"1") == [b"1"]
    link.hold()
    until(lambda: client.request(b"mmi.service", b"echo") == [b"404"], "the broker forgets it")
    before = worker.registrations
    link.release()
    until(lambda: client.request(b"mmi.service", b"echo") == [b"200"], "it is back")
    assert client.request(b"echo", b"2") == [b"2"]
    assert worker.registrations >= before


def test_e01_pitfall_1_a_dead_worker_behind_a_live_one(broker, peers):
    peers(EchoWorker, broker.address, b"a")
    client = peers(Client, broker.address)
    until(lambda: client.request(b"mmi.service", b"a") == [b"200"], "a is served")
    peers(Worker, broker.address, b"b").registered()
    until(lambda: client.request(b"mmi.service", b"b") == [b"404"], "the dead one is gone at its own expiry")
    client.ask(b"b", b"x")
    peers(EchoWorker, broker.address, b"b")
    assert client.receive() == V1.answer(b"b", b"x")


def test_e07_heartbeats_leave_on_time_under_load_and_a_busy_worker_is_kept(broker, peers):
    idle, busy = peers(Worker, broker.address, b"idle"), peers(Worker, broker.address, b"busy")
    for service in (b"echo", b"echo"):
        peers(EchoWorker, broker.address, service)
    client, waiting = peers(Client, broker.address), peers(Client, broker.address)
    waiting.ask(b"busy", b"long")
    who, _ = busy.job()
    end, beats = time.monotonic() + 3, []
    in_flight = 0
    while time.monotonic() < end:
        while in_flight < 200:
            client.ask(b"echo", b"x")
            in_flight += 1
        while client.receive(0.001) is not None:
            in_flight -= 1
        while (got := idle.command(0)) is not None:
            assert got == (V1.heartbeat, [])
            beats.append(time.monotonic())
            idle.heartbeat()
    assert len(beats) >= 8, f"{len(beats)} heartbeats in 3 s at an interval of 0.25 s"
    busy.reply(who, b"done")
    assert waiting.receive() == V1.answer(b"busy", b"done"), "12 intervals without a word, at work"


# -- losses -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["killed", "leaves", "cut off"])
def test_e04_a_request_survives_its_worker(broker, peers, proxy, way):
    link = proxy(broker.address)
    first = peers(Worker, link.address, b"s")
    client = peers(Client, broker.address)
    client.ask(b"s", b"x")
    first.job()
    second = peers(EchoWorker, broker.address, b"s")
    if way == "killed":
        first.close()
    elif way == "leaves":
        first.say(V1.disconnect)
    else:
        link.hold()
    # ZMTP's PINGs find a link that is cut off; 5 s are their limit.
    assert client.receive(15) == V1.answer(b"s", b"x")
    assert second.done == [b"x"]
    if way == "cut off":
        link.release()
    stays(lambda: client.receive(0) is None, "one answer", 0.5)


def test_e04_nothing_is_sent_again_after_a_part(broker, peers):
    first = peers(Worker, broker.address, b"s", V2)
    client = peers(Client, broker.address, V2)
    client.ask(b"s", b"x")
    who, _ = first.job()
    first.say(V2.partial, who, b"", b"part")
    assert client.receive() == V2.answer(b"s", b"part", last=False)
    second = peers(EchoWorker, broker.address, b"s", V2)
    first.close()
    until(lambda: client.request(b"s", b"next") == [b"next"], "the second serves")
    assert second.done == [b"next"]


def test_broker_restart_under_load_each_request_answered_none_twice(new_broker, peers):
    """Retrying clients as RFC 7 has them, a REQ each, while the broker is killed and comes back twice."""
    broker = new_broker()
    for _ in range(3):
        peers(EchoWorker, broker.address, b"echo", delay=0.001)
    answers: Counter[bytes] = Counter()
    lock, count, clients = threading.Lock(), 150, 6
    failures: list[str] = []

    def ask_all(number: int) -> None:
        for n in range(count):
            body = b"%d-%d" % (number, n)
            for _ in range(30):
                socket = zmq.Context.instance().socket(zmq.REQ)
                socket.linger = 0
                socket.connect(broker.address)
                socket.send_multipart([b"MDPC01", b"echo", body])
                got = socket.recv_multipart() if socket.poll(1000) else None
                extra = got and socket.poll(0)
                socket.close()
                if got:
                    with lock:
                        answers[body] += 1
                        if got != [b"MDPC01", b"echo", body] or extra:
                            failures.append(f"{body!r} got {got!r}, more: {extra!r}")
                    break

    threads = [threading.Thread(target=ask_all, args=(n,)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for part in (1, 2):
        until(lambda part=part: sum(answers.values()) >= part * count * clients // 3, f"{part}/3 answered", 60)
        broker.kill_alone()
        broker = new_broker(address=broker.address)
    for thread in threads:
        thread.join(90)
    assert not failures
    assert len(answers) == count * clients and set(answers.values()) == {1}


# -- bad input --------------------------------------------------------------------------------------------------------

BAD = [
    [b"", b"MDPC01", b"s"],
    [b"x", b"MDPC01", b"s", b"x"],
    [b"x"],
    [b""],
    [b"", b"MDPW01", b"\x01"],
    [b"", b"MDPW01", b"\x01", b""],
    [b"", b"MDPC01", b"", b"x"],
    [b"", b"MDPC01", b"s" * 256, b"x"],
    [b"", b"MDPC03", b"s", b"x"],
    [b"MDPC01", b"s", b"x"],
    [b"", b"MDPW01", b"\x09"],
    [b"", b"MDPW01", b""],
    [b"", b"MDPW01", b"\x03", b"c"],
    [b"MDPW02", b"\x04", b"c", b"x", b"y"],
    [b"MDPC02", b"\x03", b"s", b"x"],
]


def test_e03_bad_messages_concern_their_sender_alone(broker, peers):
    peers(EchoWorker, broker.address, b"echo")
    client = peers(Client, broker.address)
    bad = [peers(Peer, broker.address, routing_id=b"bad-%d" % n) for n in range(10)]
    for number in range(1000):
        bad[number % 10].send(*BAD[number % len(BAD)])
        if number % 20 == 0:
            assert client.request(b"echo", b"%d" % number, timeout=1.0) == [b"%d" % number]
    for peer in bad:
        # An answer shows that what was sent before it has been read.
        peer.send(*V1.ask(b"mmi.service", b"echo"))
        assert peer.receive() == V1.answer(b"mmi.service", b"200")
    warned = broker.logged("malformed message dropped")
    assert Counter(line.split("from=bad-")[1][0] for line in warned) == Counter("0123456789"), "once per peer"


def test_e06_strangers_and_second_readys_are_told_to_register(broker, peers):
    stranger = peers(Worker, broker.address, b"s", ready=False)
    stranger.heartbeat()
    stranger.wait_disconnect()
    stranger.reply(b"c", b"x")
    stranger.wait_disconnect()
    stranger.say(V1.disconnect)
    stranger.ready()
    stranger.registered()
    stranger.ready()
    stranger.wait_disconnect()
    final = peers(Worker, broker.address, b"s", V2, ready=False)
    final.reply(b"c", b"x")
    final.wait_disconnect()
    client = peers(Client, broker.address)
    assert client.request(b"mmi.service", b"s") == [b"404"]


def test_e06_a_reply_to_another_client_reaches_nobody(broker, peers):
    victim, client = peers(Client, broker.address, routing_id=b"victim"), peers(Client, broker.address)
    assert victim.request(b"mmi.service", b"s") == [b"404"]
    worker = peers(Worker, broker.address, b"s")
    client.ask(b"s", b"x")
    worker.job()
    worker.reply(b"victim", b"not yours")
    worker.wait_disconnect()
    peers(EchoWorker, broker.address, b"s")
    assert client.receive() == V1.answer(b"s", b"x")
    assert victim.receive(0.2) is None


def test_e06_pitfall_4_interleaved_services(broker, peers):
    workers = {name: peers(Worker, broker.address, name) for name in (b"a", b"b")}
    clients = [peers(Client, broker.address) for _ in range(4)]
    order = [b"a", b"b", b"b", b"a"]
    for client, service in zip(clients, order):
        client.ask(service, b"for " + service)
        client.request(b"mmi.service", service)
    for service in (b"b", b"a", b"b", b"a"):
        who, body = workers[service].job()
        assert body == [b"for " + service]
        workers[service].reply(who, b"by " + service)
    for client, service in zip(clients, order):
        assert client.receive() == V1.answer(service, b"by " + service)


def test_pitfall_2_a_shutdown_ends_what_is_in_hand_and_sends_workers_away(broker, peers):
    worker = peers(Worker, broker.address, b"s")
    client = peers(Client, broker.address)
    client.ask(b"s", b"x")
    who, _ = worker.job()
    broker.signal(15)
    broker.wait_logged("shutting down")
    worker.reply(who, b"y")
    assert client.receive() == V1.answer(b"s", b"y")
    worker.wait_disconnect()
    assert broker.wait_exit(SOON) == 0
