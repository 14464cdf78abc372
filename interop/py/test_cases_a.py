"""Cases A: what went wrong in EventMQ itself."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import psutil
import pytest

from peers import FakeRouter, FakeWorker, call, hold, new_id
from programs import HERE
from waits import host_port, stays, until

NOT_TEXT = b"\xff\xfe\x80"
WANTS = "reply-requested"


def healthy(router, client, worker) -> None:
    """A worker and a client that did nothing wrong are served."""
    serving = worker(router, queues=[(10, "healthy")])
    asking = client(router)
    msgid = asking.request(b"fine", "healthy", WANTS)
    assert asking.result(msgid, 5) == {"value": "done"}
    serving.close()


# -- A01 --------------------------------------------------------------------------------------------------------------


def test_a01_payload_that_is_not_text_arrives_unchanged(router, client, worker, admin):
    able = worker(router)
    asking = client(router)
    msgid = asking.request(NOT_TEXT, headers=WANTS)
    assert able.wait_jobs(1)[0].message == NOT_TEXT
    asking.accepted(msgid)
    assert asking.result(msgid) == {"value": "done"}
    assert admin(router).status()["completed"] == 1


@pytest.mark.parametrize(
    "identity", [b"", NOT_TEXT, b"\x01", b"x" * 255], ids=["none", "not-text", "one-byte", "255-bytes"]
)
def test_a01_any_identity_works_everywhere(router, client, worker, admin, identity):
    able = worker(router, identity=identity)
    asking = client(router, identity=identity)
    msgid = asking.request(b"x", headers=WANTS)
    asking.accepted(msgid)
    assert asking.result(msgid) == {"value": "done"}
    boss = admin(router, identity=identity)
    assert len(boss.workers()) == 1
    assert boss.queues()["default"][0][0] == 10
    able.close()


def test_a01_bytes_that_are_not_text_in_every_frame_of_every_socket(router, client, worker, admin):
    able = worker(router)
    asking = client(router)
    boss = admin(router)
    for peer in (asking, boss):
        peer.send("STATUS", NOT_TEXT, msgid=NOT_TEXT)
        peer.socket.send_multipart([b"", b"eMQP/1.0", NOT_TEXT, NOT_TEXT, NOT_TEXT])
        peer.socket.send_multipart([NOT_TEXT])
        peer.socket.send_multipart([NOT_TEXT] * 12)
    able.send("REPLY", NOT_TEXT, NOT_TEXT)
    able.send("INFORM", NOT_TEXT, NOT_TEXT)
    able.send("HEARTBEAT", NOT_TEXT)
    asking.request(NOT_TEXT, "default", "guarantee," + NOT_TEXT.decode("latin-1"), msgid=NOT_TEXT)
    asking.send("REQUEST", NOT_TEXT, NOT_TEXT, NOT_TEXT)
    healthy(router, client, worker)
    assert admin(router).status()["malformed"] > 0


# -- A03 --------------------------------------------------------------------------------------------------------------

POISONS = {
    "not-json": ("", b"{not json"),
    "no-list": ("", b"5"),
    "timeout-abc": ("timeout:abc", call("mark", "bad")),
    "endless-list": (WANTS, call("endless", "endless")),
    "queue-only": None,
}


@pytest.mark.parametrize("poison", POISONS)
def test_a03_a_bad_job_does_not_take_the_next_one_with_it(router, client, jobmanager, marks, admin, poison):
    jobmanager(router)
    boss = admin(router)
    until(lambda: boss.slots() == 2, "two slots", 15)
    asking = client(router)
    if POISONS[poison] is None:
        asking.send("REQUEST", "default")
    else:
        headers, message = POISONS[poison]
        asking.request(message, headers=headers)
    time.sleep(1)
    asking.run("mark", "good")
    marks.wait("good", 5)
    assert "bad" not in marks.tags()
    until(lambda: len(boss.workers()) == 1, "one worker is listed", 15)
    until(lambda: boss.in_flight() == 0, "nothing is in flight any more", 15)
    counters = boss.status()
    assert counters["accepted"] == counters["completed"] + counters["failed"] + counters["lost"] + counters["dead"]
    assert marks.count()["good"] == 1


# -- A04 --------------------------------------------------------------------------------------------------------------


def connections_to(address: str, processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those of the processes that hold an established connection to the address."""
    port = host_port(address)[1]

    def connected(process: psutil.Process) -> bool:
        return any(
            c.raddr and c.raddr.port == port and c.status == "ESTABLISHED" for c in process.net_connections("tcp")
        )

    return [process for process in processes if connected(process)]


def test_a04_a_reset_job_manager_gets_no_jobs_at_its_old_address(router, client, jobmanager, marks, admin):
    manager = jobmanager(router)
    boss = admin(router)
    until(lambda: boss.slots() == 2, "two slots", 15)
    [old] = boss.workers()
    asking = client(router)
    asking.request(b"{not json")
    until(lambda: any(identity != old for identity in boss.workers()), "the new registration", 15)
    assert connections_to(router.backend, manager.children()), "the children were to hold the old connection"
    time.sleep(5)
    for number in range(10):
        asking.run("mark", f"after-{number}")
    marks.wait_total(10, 15)
    assert old not in boss.workers()
    assert boss.status()["lost"] <= 1
    assert marks.count() == {f"after-{number}": 1 for number in range(10)}


def test_a04_killed_parent_whose_children_hold_the_link(router, client, jobmanager, marks, admin):
    first = jobmanager(router)
    asking = client(router)
    boss = admin(router)
    until(lambda: boss.slots() == 2, "two slots", 15)
    for number in range(2):
        asking.run("slow", f"job-{number}", 8, headers="guarantee")
    for number in range(2):
        marks.wait(f"job-{number}:start")
    first.kill_alone()
    jobmanager(router)
    for number in range(2):
        marks.wait(f"job-{number}:start", 20, count=2)
        marks.wait(f"job-{number}:end", 20)
    until(lambda: boss.in_flight() == 0, "nothing in flight", 15)


# -- A05 --------------------------------------------------------------------------------------------------------------


def test_a05_guarantee_jobs_of_a_killed_job_manager_run_elsewhere(router, client, jobmanager, marks, admin):
    first = jobmanager(router)
    asking = client(router)
    for number in range(4):
        asking.run("slow", f"job-{number}", 2, headers="guarantee")
    until(lambda: len([tag for tag in marks.tags() if tag.endswith(":start")]) >= 2, "two started", 15)
    first.kill_group()
    jobmanager(router)
    for number in range(4):
        marks.wait(f"job-{number}:end", 20)
    boss = admin(router)
    until(lambda: boss.in_flight() == 0, "nothing in flight", 15)


def test_a05_without_guarantee_each_lost_job_is_reported_once(router, client, jobmanager, marks, admin):
    first = jobmanager(router)
    asking = client(router)
    msgids = [asking.run("slow", f"job-{number}", 2, headers=WANTS) for number in range(4)]
    until(lambda: len([tag for tag in marks.tags() if tag.endswith(":start")]) >= 2, "two started", 15)
    first.kill_group()
    started = [number for number in range(4) if f"job-{number}:start" in marks.tags()]
    jobmanager(router)
    for number, msgid in enumerate(msgids):
        result = asking.result(msgid, 20)
        assert ("error" in result) == (number in started), (number, started, result)
    asking.read(2)
    assert all(len(asking.results[msgid]) == 1 for msgid in msgids)
    assert all(count == 1 for count in marks.count().values()), marks.count()
    assert admin(router).status()["lost"] == len(started)
    for number in started:
        assert router.logged(msgids[number].decode()), "a line of the log names the lost job"


def test_a05_guarantee_jobs_of_a_worker_that_left_go_to_the_next(router, client, worker, admin):
    first = worker(router, slots=5, handler=hold)
    asking = client(router)
    msgids = {asking.request(b"x", headers="guarantee") for _ in range(5)}
    first.wait_jobs(5)
    second = worker(router, slots=5)
    first.kbye()
    first.close()
    assert {job.msgid for job in second.wait_jobs(5)} == msgids
    boss = admin(router)
    until(lambda: boss.in_flight() == 0, "nothing in flight")


def test_a05_a_reply_after_kbye_counts(router, client, worker, admin):
    leaving = worker(router, slots=2, handler=hold)
    asking = client(router)
    msgid = asking.request(b"x", headers=WANTS)
    [job] = leaving.wait_jobs(1)
    leaving.kbye()
    boss = admin(router)
    until(lambda: not any(w["available_slots"] for w in boss.workers().values()), "no slot is offered any more")
    late = asking.request(b"y", headers=WANTS)
    leaving.reply(job, "parting")
    assert asking.result(msgid) == {"value": "parting"}
    assert leaving.jobs == [job], "no job goes to a worker that said KBYE"
    worker(router)
    assert asking.result(late) == {"value": "done"}


# -- A06 --------------------------------------------------------------------------------------------------------------


def test_a06_memory_mode_says_what_a_restart_costs(router, client, worker):
    busy = worker(router, handler=hold)
    asking = client(router)
    for _ in range(11):
        asking.accepted(asking.request(b"x"))
    busy.wait_jobs(1)
    router.restart()
    assert router.logged(r"(?i)memory"), "the start says that jobs are kept in memory only"
    again = worker(router, slots=20)
    fresh = client(router)
    fresh.accepted(fresh.request(b"new"))
    assert again.wait_jobs(1)[0].message == b"new"


def test_a06_a_polite_shutdown_reports_the_jobs_it_drops(router, client, worker, admin):
    busy = worker(router, handler=hold)
    asking = client(router)
    for _ in range(11):
        asking.accepted(asking.request(b"x"))
    [job] = busy.wait_jobs(1)
    boss = admin(router)
    router.expected_end = True
    sent = boss.send("DISCONNECT", msgid=b"admin:" + new_id())
    acknowledged = boss.receive()
    assert acknowledged.command == b"ACK" and acknowledged.body == (sent,)
    until(lambda: busy.saw(b"KBYE"), "KBYE at the worker")
    busy.reply(job)
    assert router.wait_exit(15) == 0
    assert router.logged(r"\b10\b"), "the number of dropped jobs is in the log"


# -- A17 --------------------------------------------------------------------------------------------------------------


def test_a17_an_inform_sent_before_the_broker_was_there_is_answered(router, jobmanager, admin, ports):
    router.kill()
    manager = jobmanager(router)
    manager.wait_logged("INFORM")
    router.start()
    boss = admin(router)
    until(lambda: boss.slots() == 2, "the job manager is registered", 15)


def test_a17_an_inform_is_answered_while_draining(router, client, worker):
    busy = worker(router, handler=hold)
    client(router).request(b"x")
    [job] = busy.wait_jobs(1)
    router.expected_end = True
    router.signal(signal.SIGTERM)
    until(lambda: busy.saw(b"KBYE"), "KBYE at the worker")
    busy.inform()
    until(lambda: len(busy.saw(b"ACK")) == 2, "ACK for an INFORM in the grace period", 4)
    busy.reply(job)
    assert router.wait_exit(15) == 0


def test_a17_an_inform_lost_with_another_broker(router, ports, stack):
    """Our broker comes up where one was that took the INFORM and died: what the worker says next is enough."""
    router.kill()
    fake = FakeRouter(router.backend)
    able = FakeWorker(router.backend, back_again=True)
    stack.callback(able.close)
    got = fake.receive()
    assert got is not None and got[1].command == b"INFORM"
    fake.close()
    router.start()
    able.registered(10)


# -- A18 --------------------------------------------------------------------------------------------------------------


def test_a18_a_restarted_broker_has_its_job_managers_back(router, jobmanager, client, marks, admin):
    """With the original's own settings: a HEARTBEAT every 3 s, a broker given up after 15 s."""
    jobmanager(router, heartbeat_interval=3, heartbeat_timeout=5)
    boss = admin(router)
    until(lambda: boss.slots() == 2, "two slots", 15)
    router.restart()
    boss = admin(router)
    until(lambda: boss.slots() == 2, "two slots after the restart", 8)
    client(router).run("mark", "again")
    marks.wait("again", 5)


def test_a18_a_job_manager_that_was_stopped_is_back_at_once(new_router, jobmanager, client, marks, admin):
    router = new_router(heartbeat_timeout=1, heartbeat_liveness=2)
    manager = jobmanager(router, heartbeat_interval=3, heartbeat_timeout=5)
    boss = admin(router)
    until(lambda: boss.slots() == 2, "two slots", 15)
    asking = client(router)
    manager.signal_group(signal.SIGSTOP)
    sent = asking.run("mark", "while stopped", headers="guarantee")
    asking.accepted(sent)
    until(lambda: not boss.workers(), "the silent job manager is given up", 15)
    manager.signal_group(signal.SIGCONT)
    until(lambda: boss.slots() == 2, "two slots again", 6)
    marks.wait("while stopped")
    asking.run("mark", "later")
    marks.wait("later", 5)
    until(lambda: boss.in_flight() == 0, "nothing in flight")


# -- A20 --------------------------------------------------------------------------------------------------------------


def test_a20_every_job_is_accepted_and_answered(router, client, jobmanager):
    jobmanager(router, jobs=1)
    asking = client(router)
    msgids = [asking.run("slow", f"job-{number}", 0.3, headers=WANTS) for number in range(2)]
    for msgid in msgids:
        asking.accepted(msgid)
    for number, msgid in enumerate(msgids):
        assert asking.result(msgid, 15) == {"value": f"job-{number}"}
    asking.read(0.5)
    assert all(len(asking.acceptances[m]) == len(asking.results[m]) == 1 for m in msgids)


def fail(failing: FakeWorker, job) -> None:
    failing.socket_reply(job, {"value": "boom", "error": {"type": "ValueError", "message": "boom", "traceback": ""}})
    failing.socket_ready()


def test_a20_retry_count_is_kept_and_a_failure_is_told_from_a_value(new_router, client, worker, admin):
    router = new_router(retry_backoff="0.1")
    failing = worker(router, handler=fail)
    asking = client(router)
    once = asking.request(b"once", headers=WANTS)
    assert "error" in asking.result(once)
    msgid = asking.request(b"x", headers=WANTS + ",retry-count:3")
    assert "error" in asking.result(msgid, 20)
    assert [job.msgid for job in failing.jobs] == [once] + [msgid] * 4
    stays(lambda: len(failing.jobs) == 5, "four attempts", 1.5)
    boss = admin(router)
    status = boss.status()
    assert (status["retried"], status["dead"]) == (3, 1)
    assert msgid.decode() in json.dumps(boss.ask("ROUTER_SHOW_DEAD"))


def test_a20_a_timeout_of_a_real_worker_uses_a_retry(new_router, client, jobmanager, marks):
    router = new_router(retry_backoff="0.1")
    jobmanager(router, jobs=2)
    asking = client(router)
    msgid = asking.run("slow", "late", 4, headers=WANTS + ",timeout:1,retry-count:1")
    result = asking.result(msgid, 25)
    assert result["value"] == "TimeoutError" or "error" in result
    assert marks.tags().count("late:start") == 2
    plain = asking.run("boom", "boom", headers=WANTS)
    assert asking.result(plain, 15)["value"] == "boom boom"


# -- A21 --------------------------------------------------------------------------------------------------------------


def test_a21_past_the_limit_jobs_are_refused_visibly(new_router, client, worker, admin):
    router = new_router(hwm=5)
    full = worker(router, slots=0, queues=[(10, "email")])
    asking = client(router)
    msgids = [asking.request(str(number).encode(), "email") for number in range(8)]
    for msgid in msgids[:5]:
        asking.accepted(msgid)
    for msgid in msgids[5:]:
        assert "error" in asking.result(msgid)
    assert not any(asking.acceptances[msgid] for msgid in msgids[5:])
    assert not any(asking.results[msgid] for msgid in msgids[:5])
    assert admin(router).status()["refused"] == 3
    full.ready(10)
    assert [job.message for job in full.wait_jobs(5)] == [str(number).encode() for number in range(5)]
    asking.accepted(asking.request(b"room again", "email"))


def test_a21_everything_the_client_library_really_sent_arrives(router, worker, admin, py_client):
    router.kill()
    sending = subprocess.Popen(
        [sys.executable, "-B", str(HERE / "client.py"), "burst", json.dumps([["mark", 3000], {}])],
        env=py_client(router).env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        for _ in range(3000):
            sending.stdout.readline()
        router.start()
        able = worker(router, slots=50)
        able.wait_jobs(1000, 20)
        boss = admin(router)
        until(lambda: boss.status()["completed"] == 1000, "1,000 jobs: what libzmq kept for the client")
        assert [json.loads(job.message)[1]["args"] for job in able.jobs] == [[str(number)] for number in range(1000)]
        sending.stdin.close()
        assert sending.wait(20) == 0
    finally:
        if sending.poll() is None:
            sending.kill()
            sending.wait()
        sending.stdout.close()


# -- A24 --------------------------------------------------------------------------------------------------------------


def test_a24_jobs_come_by_weight_of_their_queue(router, client, worker):
    able = worker(router, slots=0, queues=[(10, "low"), (30, "high")])
    asking = client(router)
    for queue in ("low", "low", "high", "high"):
        asking.accepted(asking.request(b"x", queue))
    able.ready(4)
    assert [job.queue for job in able.wait_jobs(4)] == [b"high", b"high", b"low", b"low"]


def test_a24_jobs_go_to_the_heaviest_free_worker_then_the_least_recently_used(router, client, worker):
    light = worker(router, slots=3, queues=[(5, "q")], handler=hold)
    heavy = [worker(router, slots=2, queues=[(20, "q")], handler=hold) for _ in range(2)]
    fleet = [light, *heavy]
    asking = client(router)
    takers = []
    for number in range(5):
        asking.accepted(asking.request(b"%d" % number, "q"))
        [taker] = until(lambda n=number: [w for w in fleet if w.jobs and w.jobs[-1].message == b"%d" % n], "a taker")
        takers.append(taker)
    assert takers[0] is not takers[1] and takers[:2] == takers[2:4], "two of one weight take turns"
    assert light not in takers[:4] and takers[4] is light


def test_a24_a_job_for_an_unknown_queue_goes_to_default_unchanged(router, client, worker):
    able = worker(router)
    asking = client(router)
    asking.accepted(asking.request(b"x", "email"))
    assert able.wait_jobs(1)[0].queue == b"email"


def test_a24_a_job_for_an_unknown_queue_is_held_if_so_configured(new_router, client, worker):
    router = new_router(unknown_queue="hold")
    able = worker(router)
    asking = client(router)
    asking.accepted(asking.request(b"x", "email"))
    stays(lambda: not able.jobs, "nobody on default gets it", 1)
    late = worker(router, queues=[(10, "email")])
    assert late.wait_jobs(1)[0].queue == b"email"


def test_a24_jobs_of_a_queue_whose_workers_left_are_not_stranded(router, client, worker):
    able = worker(router)
    gone = worker(router, slots=0, queues=[(10, "email")])
    asking = client(router)
    asking.accepted(asking.request(b"waits", "email"))
    stays(lambda: not able.jobs, "it waits for its own worker", 0.5)
    gone.kbye()
    gone.close()
    assert able.wait_jobs(1)[0].message == b"waits"
    asking.accepted(asking.request(b"after", "email"))
    assert able.wait_jobs(2)[1].queue == b"email"


def test_a24_three_informs_are_one_registration(router, client, worker, admin):
    able = worker(router, slots=0, handler=hold)
    able.inform()
    able.inform()
    until(lambda: len(able.saw(b"ACK")) == 3, "three ACKs")
    assert [message.body[0] for message in able.saw(b"ACK")] == able.informs
    able.ready()
    boss = admin(router)
    until(lambda: boss.slots() == 1, "one slot")
    assert len(boss.queues()["default"]) == 1
    able.kbye()
    until(lambda: not boss.queues().get("default"), "no worker in the queue")
    asking = client(router)
    asking.accepted(asking.request(b"x"))
    stays(lambda: not able.jobs, "no job for one that left", 0.5)


def test_a24_an_inform_without_queues_means_the_configured_ones(new_router, client, worker):
    router = new_router(queues='[[10, "default"], [20, "email"]]')
    able = worker(router, queues=None, slots=2)
    asking = client(router)
    for queue in ("email", "default"):
        asking.accepted(asking.request(b"x", queue))
    assert {job.queue for job in able.wait_jobs(2)} == {b"email", b"default"}


def test_a24_the_early_form_of_inform(router, client, worker):
    """Comma-separated names, no type frame."""
    able = worker(router, inform=False, slots=0)
    able.send("INFORM", "sms,email")
    able.registered()
    able.ready(2)
    asking = client(router)
    for queue in ("email", "sms"):
        asking.accepted(asking.request(b"x", queue))
    assert {job.queue for job in able.wait_jobs(2)} == {b"email", b"sms"}
