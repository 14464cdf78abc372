"""Our Majordomo client and worker and a libzmq broker written from the RFCs; and the bridge to eMQP."""

from __future__ import annotations

import json
import threading
import time

import pytest

from mdp_peers import READY, VERSIONS, V1, Client, EchoWorker, MdpBroker, MdpProgram, RfcBroker, run_client
from waits import stays, until

FAST = ("--heartbeat", "0.25", "--reconnect", "0.25")


@pytest.fixture
def rfc_broker(stack, ports):
    def make(version=V1, address: str | None = None) -> RfcBroker:
        broker = RfcBroker(address or ports.address(), version)
        stack.callback(broker.stop)
        return broker

    return make


@pytest.fixture
def emq_worker(stack, tmp_path):
    def make(address: str, service: str, *arguments: str) -> MdpProgram:
        worker = MdpProgram(tmp_path, "worker", service, "--addr", address, *FAST, *arguments)
        stack.callback(worker.kill_group)
        return worker

    return make


@pytest.fixture
def our_broker(stack, tmp_path, ports):
    def make(*arguments: str) -> MdpBroker:
        broker = MdpBroker(tmp_path, ports.address(), *arguments)
        stack.callback(broker.finish)
        return broker

    return make


@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: v.name)
def test_client_and_worker_through_a_broker_of_the_rfc(rfc_broker, emq_worker, version):
    broker = rfc_broker(version)
    emq_worker(broker.address, "echo", "--mdp", version.name)
    code, out, err = run_client(broker.address, "echo", "hello", "", "world", "--mdp", version.name)
    assert (code, out, err) == (0, b"hello\n\nworld\n", b"")
    code, out, _ = run_client(broker.address, "echo", "--mdp", version.name, "--count", "500", "--pipeline", "50", "--json")
    measured = json.loads(out)
    assert (code, measured["requests"], measured["replies"], measured["pipeline"]) == (0, 500, 500, 50)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: v.name)
def test_a_workers_heartbeats_go_on_while_it_works(rfc_broker, emq_worker, version):
    broker = rfc_broker(version)
    emq_worker(broker.address, "slow", "--mdp", version.name, "--exec", "sh", "-c", "sleep 2; cat")
    code, out, _ = run_client(broker.address, "slow", "x", "--timeout", "10", "--mdp", version.name)
    assert (code, out) == (0, b"x\n")
    assert len(broker.commands(version.heartbeat)) >= 6
    # That broker says nothing to busy workers: 8 intervals of its silence were no reason to give it up.
    assert len(broker.commands(READY)) == 1


def test_heartbeats_lost_on_the_way_to_the_worker(rfc_broker, emq_worker):
    broker = rfc_broker()
    worker = emq_worker(broker.address, "echo")
    until(lambda: broker.commands(READY), "it is registered")
    broker.mute.set()
    until(lambda: len(broker.commands(READY)) >= 3, "it gives the silent broker up and tries again")
    identities = {who for _, who in broker.commands(READY)}
    assert len(identities) == len(broker.commands(READY)), "over a new socket each time"
    broker.mute.clear()
    assert run_client(broker.address, "echo", "x")[:2] == (0, b"x\n")
    worker.wait_logged("broker is silent")


def test_e07_a_worker_sent_away_is_back_at_once_and_no_storm_follows(rfc_broker, emq_worker):
    broker = rfc_broker()
    emq_worker(broker.address, "echo")
    until(lambda: broker.commands(V1.heartbeat), "it is registered")
    first = broker.commands(READY)[0][1]
    broker.send_away(first)
    until(lambda: len(broker.commands(READY)) == 2, "it registers anew")
    assert broker.commands(READY)[1][1] != first, "over a new socket"
    stays(lambda: len(broker.commands(READY)) == 2, "once", 1.5)
    assert run_client(broker.address, "echo", "x")[:2] == (0, b"x\n")


def test_a_worker_finds_a_restarted_broker(rfc_broker, emq_worker):
    broker = rfc_broker()
    emq_worker(broker.address, "echo")
    until(lambda: broker.commands(READY), "it is registered")
    broker.stop()
    again = rfc_broker(address=broker.address)
    until(lambda: again.commands(READY), "it is registered there")
    assert run_client(again.address, "echo", "x")[:2] == (0, b"x\n")


def test_pitfall_2_e04_a_worker_that_ends_finishes_its_request_and_says_so(rfc_broker, emq_worker, stack):
    broker = rfc_broker()
    worker = emq_worker(broker.address, "slow", "--exec", "sh", "-c", "sleep 1; cat")
    client = Client(broker.address)
    stack.callback(client.close)
    client.ask(b"slow", b"x")
    until(lambda: broker.commands(READY) and not broker.waiting and not broker.idle, "it has the request")
    worker.signal(15)
    assert client.receive() == V1.answer(b"slow", b"x")
    until(lambda: broker.commands(V1.disconnect), "it said DISCONNECT")
    assert worker.wait_exit() == 0


def test_a_client_gives_up_after_its_attempts(ports):
    start = time.monotonic()
    code, out, err = run_client(ports.address(), "echo", "x", "--timeout", "0.3", "--attempts", "2")
    assert (code, out) == (1, b"")
    assert b"no reply from echo within 0.3 s, 2 times" in err
    assert time.monotonic() - start >= 0.6


def test_a_client_asks_again_over_a_new_connection(rfc_broker, emq_worker):
    broker = rfc_broker()
    emq_worker(broker.address, "echo")
    until(lambda: broker.commands(READY), "the worker is there")
    broker.mute.set()
    timer = threading.Timer(1.2, broker.mute.clear)
    timer.start()
    code, out, _ = run_client(broker.address, "echo", "x", "--timeout", "0.5", "--attempts", "20")
    timer.join()
    assert (code, out) == (0, b"x\n")
    assert len(broker.clients) >= 3, "one connection for each attempt"


def test_programs_that_serve(our_broker, emq_worker):
    broker = our_broker()
    emq_worker(broker.address, "upper", "--exec", "tr", "a-z", "A-Z")
    big = b"x" * 300_000
    assert run_client(broker.address, "upper", stdin=big)[:2] == (0, big.upper() + b"\n")
    worker = emq_worker(broker.address, "fails", "--exec", "false")
    code, _, err = run_client(broker.address, "fails", "x", "--timeout", "0.5", "--attempts", "1")
    assert code == 1 and b"no reply from fails" in err
    worker.wait_logged("request given back")


def test_json_of_a_reply(our_broker, emq_worker):
    broker = our_broker()
    emq_worker(broker.address, "bytes", "--exec", "printf", r"\377\000")
    code, out, _ = run_client(broker.address, "bytes", "x", "--json", "--mdp", "0.2")
    reply = json.loads(out)
    assert code == 0 and reply.pop("seconds") > 0
    assert reply == {"service": "bytes", "frames": [{"hex": "ff00"}], "parts": 0}


def test_our_client_retries_through_broker_restarts(our_broker, stack, tmp_path):
    """One request at a time, 2,000 of them, while the broker is killed twice: all are answered."""
    broker = our_broker()
    worker = EchoWorker(broker.address, b"echo")
    stack.callback(worker.stop)
    client = MdpProgram(
        tmp_path, "client", "echo", "--addr", broker.address, "--count", "2000", "--timeout", "1", "--attempts", "30", "--json"
    )
    stack.callback(client.kill_group)
    for part in (1, 2):
        until(lambda part=part: len(worker.done) >= part * 600, f"{part * 600} requests are done", 60)
        broker.kill_alone()
        broker = MdpBroker(tmp_path, broker.address)
        stack.callback(broker.finish)
    assert client.wait_exit(60) == 0
    assert json.loads(client.output().splitlines()[-1])["replies"] == 2000


# -- bridge -----------------------------------------------------------------------------------------------------------


def test_bridge_a_request_becomes_a_job_and_its_result_the_reply(router, worker, our_broker, stack):
    broker = our_broker("--bridge", router.frontend)
    serving = worker(router, queues=[(10, "email")])
    for version in VERSIONS:
        client = Client(broker.address, version)
        stack.callback(client.close)
        until(lambda client=client: client.request(b"mmi.service", b"emq.email") == [b"200"], "the bridge is up")
        assert [json.loads(frame) for frame in client.request(b"emq.email", b'["run", {}]')] == [{"value": "done"}]
    assert [job.message for job in serving.wait_jobs(2)] == [b'["run", {}]'] * 2
    code, out, _ = run_client(broker.address, "emq.email", "timeout:5", '["run", {}]')
    assert code == 0 and json.loads(out) == {"value": "done"}


def test_bridge_is_off_unless_asked_for(our_broker, emq_worker):
    broker = our_broker()
    emq_worker(broker.address, "emq.email")
    assert run_client(broker.address, "emq.email", "x")[:2] == (0, b"x\n")


def test_bridge_survives_its_broker(router, worker, our_broker, stack):
    broker = our_broker("--bridge", router.frontend)
    client = Client(broker.address)
    stack.callback(client.close)
    until(lambda: client.request(b"mmi.service", b"emq.q") == [b"200"], "the bridge is up")
    router.kill()
    until(lambda: client.request(b"mmi.service", b"emq.q") == [b"404"], "the bridge is down")
    router.start()
    until(lambda: client.request(b"mmi.service", b"emq.q") == [b"200"], "the bridge is up again")
    worker(router, queues=[(10, "q")])
    assert json.loads(client.request(b"emq.q", b"[]")[0]) == {"value": "done"}
    code, out, _ = run_client(broker.address, "emq.q", "timeout:soon", "[]")
    assert code == 0 and json.loads(out)["error"]["type"] == "Malformed"
