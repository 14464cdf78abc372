"""Cases C: what users of other job queues reported."""

from __future__ import annotations

import json
import time

import pytest

from peers import Crash, FakeWorker, Job, call, hold
from scale import scaled
from waits import stays, until

WANTS = "reply-requested"
MIB = 1 << 20


# -- C01 (the fleet of real job managers is in test_losses.py) ----------------------------------------------------------


def test_c01_the_process_of_one_job_is_killed(new_router, client, jobmanager, marks, admin):
    """A SIGKILL to the worker process only, as the kernel's out-of-memory killer does: the job manager stays and says
    nothing about that job, so the broker fails it when its time is over: retries are used, else it is reported once."""
    router = new_router(timeout_grace=1, retry_backoff="0.1")
    jobmanager(router, jobs=2)
    asking = client(router)
    lost = asking.run("vanish", "lost", headers=WANTS + ",timeout:1")
    again = asking.run("vanish", "again", headers=WANTS + ",timeout:1,retry-count:1")
    for msgid in (lost, again):
        assert "error" in asking.result(msgid, 30)
    assert marks.count() == {"lost": 1, "again": 2}
    asking.run("mark", "fine")
    marks.wait("fine", 10)
    boss = admin(router)
    until(lambda: boss.in_flight() == 0, "nothing in flight")


def test_c01_the_process_of_a_guaranteed_job_is_killed_beside_an_idle_one(new_router, client, jobmanager, marks, admin):
    """Nothing on the wire tells whether the process that was replaced had the job, but a job that was to be guaranteed and
    is not heard of in its time is given out again, up to the limit of deliveries."""
    router = new_router(timeout_grace=1)
    jobmanager(router, jobs=2)
    asking = client(router)
    assert "error" in asking.result(asking.run("vanish", "kept", headers=WANTS + ",guarantee,timeout:1"), 30)
    assert marks.count() == {"kept": 3}
    boss = admin(router)
    assert boss.status()["dead"] == 1
    asking.run("mark", "fine")
    marks.wait("fine", 10)


# -- C02 --------------------------------------------------------------------------------------------------------------


def crash_on_poison(worker: FakeWorker, job: Job) -> None:
    """Dies of one message, works otherwise."""
    if job.message == b"poison":
        raise Crash
    worker.socket_reply(job, {"value": "done"})
    worker.socket_ready()


def test_c02_a_job_that_kills_its_workers_stops_at_the_limit(new_router, client, worker, admin):
    router = new_router(heartbeat_timeout=1, delivery_limit=3, retry_backoff="0.1")
    fleet = [worker(router, handler=crash_on_poison) for _ in range(5)]
    asking = client(router)
    poison = asking.request(b"poison", headers=WANTS + ",guarantee")
    others = []
    deadline = time.monotonic() + 25
    while not asking.results[poison] and time.monotonic() < deadline:
        others.append(asking.request(b"good", headers=WANTS + ",guarantee"))
        asking.read(0.05)
    assert "error" in asking.result(poison, 1)
    deliveries = [job for member in fleet for job in member.jobs if job.msgid == poison]
    assert len(deliveries) == 3
    for msgid in others:
        assert asking.result(msgid) == {"value": "done"}
    boss = admin(router)
    assert boss.status()["dead"] == 1
    assert poison.decode() in json.dumps(boss.ask("ROUTER_SHOW_DEAD"))
    assert boss.slots() == 2, "two of five workers are left"


def test_c02_a_dead_job_can_be_run_again(new_router, client, worker, admin):
    router = new_router(heartbeat_timeout=1, delivery_limit=1, retry_backoff="0.1")
    worker(router, handler=crash_on_poison)
    asking = client(router)
    poison = asking.request(b"poison", headers=WANTS + ",guarantee")
    assert "error" in asking.result(poison, 15)
    healed = worker(router)
    boss = admin(router)
    boss.ask("ROUTER_RETRY_DEAD", poison)
    assert healed.wait_jobs(1)[0].msgid == poison
    until(lambda: poison.decode() not in json.dumps(boss.ask("ROUTER_SHOW_DEAD")), "no longer listed")


def test_c02_a_body_that_resets_real_job_managers(new_router, client, jobmanager, marks, admin):
    router = new_router(heartbeat_timeout=1, delivery_limit=3, retry_backoff="0.1")
    for _ in range(3):
        jobmanager(router, jobs=4)
    boss = admin(router)
    until(lambda: boss.slots() == 12, "twelve slots", 20)
    asking = client(router)
    poison = asking.request(b"{not json", headers=WANTS + ",guarantee")
    goods = 0
    deadline = time.monotonic() + 40
    while not asking.results[poison] and time.monotonic() < deadline:
        asking.run("mark", f"good-{goods}", headers="guarantee")
        goods += 1
        asking.read(0.1)
    assert "error" in asking.result(poison, 1)
    assert poison.decode() in json.dumps(boss.ask("ROUTER_SHOW_DEAD"))
    until(lambda: set(marks.tags()) == {f"good-{n}" for n in range(goods)}, f"all {goods} good jobs", 30)
    until(lambda: len(boss.workers()) == 3, "three job managers are left", 20)


# -- C03 --------------------------------------------------------------------------------------------------------------


def test_c03_a_long_job_that_blocks_its_process_runs_once(new_router, client, jobmanager, marks, admin):
    """10 s in one C call that holds the interpreter's lock, with a heartbeat timeout of 1 s."""
    router = new_router(heartbeat_timeout=1, heartbeat_liveness=3)
    jobmanager(router, jobs=1)
    boss = admin(router)
    until(lambda: boss.slots() == 1, "the slot", 15)
    [identity] = boss.workers()
    asking = client(router)
    msgid = asking.run("busy", "long", 10, headers=WANTS + ",guarantee")
    marks.wait("long:start")
    stays(lambda: list(boss.workers()) == [identity], "its worker is listed", 9, every=0.3)
    assert asking.result(msgid, 15) == {"value": "long"}
    assert marks.count() == {"long:start": 1, "long:end": 1}
    assert boss.status()["lost"] == 0
    until(lambda: boss.slots() == 1, "the slot is back")


# -- C04 --------------------------------------------------------------------------------------------------------------


def presumed_dead(new_router, client, worker, proxy, admin):
    """A guarantee job that its first worker, gone silent, still holds, and that a second one got."""
    router = new_router(heartbeat_timeout=1, heartbeat_liveness=2)
    link = proxy(router.backend)
    first = worker(link.address, handler=hold)
    asking = client(router)
    msgid = asking.request(b"x", headers=WANTS + ",guarantee")
    [job] = first.wait_jobs(1)
    link.hold()
    second = worker(router, handler=hold)
    [again] = second.wait_jobs(1, 15)
    assert again.msgid == msgid
    boss = admin(router)
    until(lambda: len(boss.workers()) == 1, "the silent one is no longer listed")
    return router, link, first, second, asking, msgid, job, boss


def test_c04_a_result_that_comes_after_another_is_dropped(new_router, client, worker, proxy, admin):
    _router, link, first, second, asking, msgid, job, boss = presumed_dead(new_router, client, worker, proxy, admin)
    second.reply(job, "second")
    assert asking.result(msgid) == {"value": "second"}
    first.reply(job, "first")
    first.ready()
    link.release()
    until(lambda: boss.status()["late_replies"] == 1, "the late reply is counted", 15)
    asking.read(1)
    assert len(asking.results[msgid]) == 1
    assert boss.slots() == 0, "no slot for an identity that is not registered"
    until(lambda: first.saw(b"DISCONNECT"), "it is told to register anew")
    assert len(first.saw(b"DISCONNECT")) == 1


def test_c04_a_result_that_comes_before_the_other(new_router, client, worker, proxy, admin):
    _router, link, first, second, asking, msgid, job, boss = presumed_dead(new_router, client, worker, proxy, admin)
    first.reply(job, "first")
    link.release()
    until(lambda: asking.read() or asking.results[msgid] or boss.status()["late_replies"], "the first result", 15)
    second.reply(job, "second")
    assert asking.result(msgid)["value"] in ("first", "second")
    until(lambda: boss.status()["late_replies"] == 1, "the other one is counted as late")
    asking.read(1)
    assert len(asking.results[msgid]) == 1
    assert boss.in_flight() == 0


# -- C08 --------------------------------------------------------------------------------------------------------------


def test_c08_short_jobs_pass_a_long_one(router, client, worker):
    def take_long_ones(able: FakeWorker, job: Job) -> None:
        if job.message != b"long":
            able.socket_reply(job, {"value": "done"})
            able.socket_ready()

    pair = [worker(router, handler=take_long_ones) for _ in range(2)]
    asking = client(router)
    asking.accepted(asking.request(b"long", headers=WANTS))
    shorts = [asking.request(b"short", headers=WANTS) for _ in range(20)]
    for msgid in shorts:
        assert asking.result(msgid) == {"value": "done"}
    assert sorted(len(able.jobs) for able in pair) == [1, 20]


def test_c08_light_load_is_spread_and_slots_are_kept(router, client, worker):
    fleet = [worker(router, slots=4, handler=hold) for _ in range(3)]
    asking = client(router)
    for _ in range(9):
        asking.accepted(asking.request(b"x"))
    until(lambda: sum(len(able.jobs) for able in fleet) == 9, "nine jobs at workers")
    assert [len(able.jobs) for able in fleet] == [3, 3, 3]
    for _ in range(9):
        asking.accepted(asking.request(b"x"))
    until(lambda: sum(len(able.jobs) for able in fleet) == 12, "all slots are taken")
    stays(lambda: all(len(able.jobs) == 4 for able in fleet), "no worker holds more than its slots", 0.5)


def test_c08_short_jobs_pass_a_long_one_in_a_real_job_manager(router, client, jobmanager, marks):
    jobmanager(router, jobs=4)
    asking = client(router)
    asking.run("slow", "long", 12)
    marks.wait("long:start", 15)
    for number in range(12):
        asking.run("mark", f"short-{number}")
    marks.wait_total(13, 20)
    assert "long:end" not in marks.tags()


# -- C10 --------------------------------------------------------------------------------------------------------------


def test_c10_weight_is_strict_and_a_reserved_worker_never_starves(new_router, client, worker):
    """2,000 jobs of weight 30 and 10 of weight 10 for one worker on both: strictly by weight."""
    router = new_router(hwm=10000)
    both = worker(router, slots=0, queues=[(10, "low"), (30, "high")])
    asking = client(router)
    for number in range(10):
        asking.request(f"low-{number}".encode(), "low")
    for number in range(2000):
        last = asking.request(f"high-{number}".encode(), "high")
    asking.accepted(last, 20)
    both.ready()
    order = [job.message for job in both.wait_jobs(2010, 40)]
    assert order == [f"high-{n}".encode() for n in range(2000)] + [f"low-{n}".encode() for n in range(10)]


def test_c10_a_worker_of_the_light_queue_alone_serves_it_meanwhile(new_router, client, worker):
    router = new_router(hwm=10000)
    both = worker(router, slots=0, queues=[(10, "low"), (30, "high")], handler=hold)
    asking = client(router)
    for _ in range(2000):
        asking.request(b"high", "high")
    lows = [asking.request(b"low", "low", WANTS) for _ in range(10)]
    asking.accepted(lows[-1], 20)
    worker(router, queues=[(1, "low")])
    for msgid in lows:
        assert asking.result(msgid) == {"value": "done"}
    both.ready(5)
    assert {job.queue for job in both.wait_jobs(5)} == {b"high"}


# -- C11 --------------------------------------------------------------------------------------------------------------

WAITING = scaled(1_000_000, 200_000)
HUGE = scaled(100, 6)


@pytest.mark.timeout(scaled(900, 240))
def test_c11_a_backlog_of_many_jobs(new_router, client, worker, admin):
    """1,000,000 waiting jobs of 100 bytes (every day 200,000), STATUS meanwhile, then the drain."""
    router = new_router(hwm=WAITING + 10)
    able = worker(router, slots=0, queues=[(10, "bulk")])
    boss = admin(router)
    before = router.rss()
    asking = client(router)
    slowest = 0.0
    for number in range(WAITING):
        last = asking.request(b"%0100d" % number, "bulk")
        if number % 20_000 == 0:
            begun = time.monotonic()
            boss.status()
            slowest = max(slowest, time.monotonic() - begun)
    asking.accepted(last, scaled(300, 60))
    assert boss.waiting() == WAITING
    a_job = (router.rss() - before) / WAITING
    print(f"{a_job:.0f} bytes of memory for a waiting job of 100 bytes; slowest STATUS {slowest * 1000:.0f} ms")
    assert a_job < 1500, "bytes of memory for each waiting job of 100 bytes"
    assert slowest < 2, "the administrator is answered meanwhile"
    able.ready(500)
    able.wait_jobs(WAITING, scaled(400, 90))
    every = WAITING // 100
    assert [job.message for job in able.jobs[::every]] == [b"%0100d" % number for number in range(0, WAITING, every)]
    until(lambda: boss.status()["completed"] == WAITING, "all are completed", scaled(100, 20))
    until(lambda: router.rss() - before < 30 * MIB, "the memory is given back after the drain", 20)


@pytest.mark.parametrize(("count", "size", "headers"), [(60_000, 1024, ""), (60_000, 1024, "guarantee"), (15_000, 6000, "")])
def test_c11_a_backlogs_memory_is_given_back(new_router, client, worker, admin, count, size, headers):
    """Whatever the size of the jobs, and though much is allocated and freed while they wait."""
    router = new_router(hwm=count + 10)
    able = worker(router, slots=0, queues=[(10, "bulk")])
    boss = admin(router)
    before = router.rss()
    asking = client(router)
    for number in range(count):
        last = asking.request(b"%0*d" % (size, number), "bulk", headers)
    asking.accepted(last, 60)
    assert router.rss() - before > count * size, "they are in memory"
    able.ready(500)
    able.wait_jobs(count, 90)
    until(lambda: boss.status()["completed"] == count, "all are completed", 20)
    until(lambda: router.rss() - before < 30 * MIB, "the memory is given back after the drain", 20)


@pytest.mark.timeout(scaled(400, 150))
def test_c11_huge_jobs_do_not_hold_up_small_ones(new_router, client, worker, admin):
    """100 jobs of 64 MiB (every day six) one after the other, small jobs on another queue meanwhile."""
    router = new_router()
    huge = worker(router, queues=[(10, "huge")])
    small = worker(router, queues=[(10, "small")])
    before = router.rss()
    sender, asking = client(router), client(router)
    payload = bytes(64 * MIB)
    slowest = 0.0
    for _ in range(HUGE):
        msgid = sender.request(payload, "huge", WANTS)
        while not sender.results[msgid]:
            begun = time.monotonic()
            asking.result(asking.request(b"x", "small", WANTS))
            slowest = max(slowest, time.monotonic() - begun)
            sender.read(0.01)
    assert [len(job.message) for job in huge.jobs] == [64 * MIB] * HUGE
    assert slowest < 3, "a small job waits for a huge one"
    assert len(small.jobs) > HUGE
    until(lambda: router.rss() - before < 192 * MIB, "the memory is given back", 20)


def test_c11_refusal_comes_before_the_memory_is_gone(new_router, client, worker, admin):
    router = new_router(hwm=20)
    worker(router, slots=0, queues=[(10, "huge")])
    before = router.rss()
    asking = client(router)
    msgids = [asking.request(bytes(MIB), "huge") for _ in range(60)]
    for msgid in msgids[:20]:
        asking.accepted(msgid)
    for msgid in msgids[20:]:
        assert "error" in asking.result(msgid, 20)
    assert admin(router).status()["refused"] == 40
    assert router.rss() - before < 100 * MIB


def test_c11_json_of_a_call_is_never_read_by_the_broker(router, client, worker):
    able = worker(router)
    odd = call("mark", "x").replace(b" ", b"  ") + b"\n"
    client(router).request(odd)
    assert able.wait_jobs(1)[0].message == odd
