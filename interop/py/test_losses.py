"""Fleets of real job managers with deaths among them, brokers that come back, links that break (C01 and more)."""

from __future__ import annotations

import signal
import time

import pytest

from peers import hold
from programs import PyRouter
from raw import Raw
from waits import stays, until

JOBS = 2000
SLOTS = 16


@pytest.fixture
def fleet(new_router, jobmanager, admin):
    """A broker with three job managers of 16 slots. The broker's HEARTBEAT wakes a Python job manager that else looks
    for finished jobs once a second, so a short interval is what makes 2,000 jobs quick."""
    router = new_router(heartbeat_interval="0.2", retry_backoff="0.1", delivery_limit=5)
    managers = [jobmanager(router, jobs=SLOTS) for _ in range(3)]
    boss = admin(router)
    until(lambda: boss.slots() == 3 * SLOTS, "all slots", 40)
    return router, managers, boss


def send_all(asking, headers: str) -> dict[bytes, str]:
    return {asking.run("slow", str(number), 0.05, headers=headers): str(number) for number in range(JOBS)}


def kill_two(managers, marks, parent_only: bool) -> None:
    """One is killed when a quarter is done, one is asked to leave when half is done."""
    until(lambda: len(marks.tags()) > JOBS // 2, "a quarter of the jobs", 60, every=0.1)
    managers[0].kill_alone() if parent_only else managers[0].kill_group()
    until(lambda: len(marks.tags()) > JOBS, "half of the jobs", 60, every=0.1)
    managers[1].signal(signal.SIGTERM)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("parent_only", [False, True], ids=["whole-group", "parent-only"])
def test_c01_with_guarantee_no_job_is_lost(fleet, client, marks, parent_only):
    router, managers, boss = fleet
    asking = client(router)
    sent = send_all(asking, "guarantee")
    kill_two(managers, marks, parent_only)
    ends = {f"{number}:end" for number in sent.values()}
    until(lambda: ends <= set(marks.tags()), "every job is finished", 120, every=0.2)
    until(lambda: boss.in_flight() == 0 and boss.waiting() == 0, "the broker is idle", 20)
    assert boss.status()["dead"] == 0


@pytest.mark.timeout(240)
@pytest.mark.parametrize("parent_only", [False, True], ids=["whole-group", "parent-only"])
def test_c01_without_guarantee_each_job_is_finished_or_reported_once(fleet, client, marks, parent_only):
    router, managers, boss = fleet
    asking = client(router)
    sent = send_all(asking, "reply-requested")
    kill_two(managers, marks, parent_only)
    until(lambda: asking.read(0.1) or len(asking.results) == JOBS, "every job has its result", 120)
    asking.read(1)
    assert set(asking.results) == set(sent)
    assert all(len(results) == 1 for results in asking.results.values()), "one result each"
    counts = marks.count()
    assert max(counts.values()) == 1, "no job was started twice"
    lost = {sent[msgid] for msgid, [result] in asking.results.items() if b'"error"' in result}
    finished = {sent[msgid] for msgid, [result] in asking.results.items() if b'"error"' not in result}
    assert all(counts[f"{number}:end"] == 1 for number in finished)
    assert 0 < len(lost) <= 2 * SLOTS, "the killed one had jobs"
    status = boss.status()
    assert (status["lost"], status["completed"]) == (len(lost), len(finished))


@pytest.mark.parametrize("headers", ["guarantee", "reply-requested"])
def test_c01_the_network_of_one_job_manager_is_cut_for_ten_seconds(
    new_router, client, jobmanager, proxy, marks, admin, headers
):
    """Longer than the grace: what it held is lost to the broker, although the job manager goes on and comes back."""
    router = new_router(heartbeat_interval="0.2", heartbeat_timeout=2)
    link = proxy(router.backend)
    jobmanager(link.address, jobs=8)
    jobmanager(router, jobs=8)
    boss = admin(router)
    until(lambda: boss.slots() == 16, "all slots", 30)
    asking = client(router)
    sent = {asking.run("slow", str(number), 1, headers=headers): str(number) for number in range(150)}
    until(lambda: len(marks.tags()) > 40, "some jobs have begun", 30)
    link.cut()
    time.sleep(10)
    link.mend()
    until(lambda: boss.in_flight() == 0 and boss.waiting() == 0, "the broker is idle", 60, every=0.2)
    asking.read(1)
    until(lambda: len(boss.workers()) == 2, "both job managers are listed", 15)
    counts = marks.count()
    if headers == "guarantee":
        assert {f"{number}:end" for number in sent.values()} <= set(counts)
        return
    assert set(asking.results) == set(sent)
    assert all(len(results) == 1 for results in asking.results.values()), "one result each"
    assert max(counts.values()) == 1, "none was started twice"
    lost = [msgid for msgid, [result] in asking.results.items() if b'"error"' in result]
    assert 0 < len(lost) <= 8
    assert boss.status()["lost"] == len(lost)


def test_a_job_manager_that_leaves_finishes_what_it_runs(router, client, jobmanager, marks, admin):
    manager = jobmanager(router, jobs=3)
    asking = client(router)
    boss = admin(router)
    until(lambda: boss.slots() == 3, "three slots", 15)
    msgids = [asking.run("slow", str(number), 2, headers="reply-requested") for number in range(3)]
    for number in range(3):
        marks.wait(f"{number}:start")
    manager.signal(signal.SIGTERM)
    for number, msgid in enumerate(msgids):
        assert asking.result(msgid, 15) == {"value": str(number)}
    assert manager.wait_exit(15) == 0
    until(lambda: not boss.workers(), "it is no longer listed")
    assert boss.status()["lost"] == 0


def test_a_killed_broker_has_job_managers_and_scheduler_back(
    router, client, jobmanager, scheduler, py_client, marks, admin
):
    """The scheduler's own settings decide when it gives a silent broker up: here 2 s x 3."""
    for _ in range(2):
        jobmanager(router)
    scheduler(router)
    boss = admin(router)
    until(lambda: boss.slots() == 4 and boss.schedulers(), "everybody is there", 20)
    router.restart()
    boss = admin(router)
    until(lambda: boss.slots() == 4, "both job managers are back", 8)
    client(router).run("mark", "again")
    marks.wait("again", 5)
    until(boss.schedulers, "the scheduler is back", 30)
    py_client(router)("start_schedule", "mark", "tick", interval_secs=1)
    marks.wait("tick", 10, count=3)


def test_a_killed_broker_has_a_busy_scheduler_back(router, jobmanager, scheduler, py_client, marks, admin):
    """One whose jobs are due so often that the broker's REPLYs never let it think the broker is gone: it will not INFORM
    again, but its HEARTBEATs say what it is, and it must get the UNSCHEDULE that ends the jobs."""
    jobmanager(router)
    scheduler(router)
    boss = admin(router)
    until(lambda: boss.slots() == 2 and boss.schedulers(), "everybody is there", 20)
    py_client(router)("start_schedule", "mark", "tick", interval_secs=1)
    marks.wait("tick")
    router.restart()
    ticks = marks.tags().count("tick")
    marks.wait("tick", 15, count=ticks + 3)
    boss = admin(router)
    until(boss.schedulers, "the scheduler is listed again", 15)
    py_client(router)("stop_schedule", "mark", "tick")
    until(lambda: boss.in_flight() == boss.waiting() == 0, "nothing runs")
    time.sleep(2)
    ticks = marks.tags().count("tick")
    stays(lambda: marks.tags().count("tick") == ticks, "no more runs", 2.5)


def test_a_link_cut_for_two_seconds_keeps_the_registration(new_router, client, jobmanager, proxy, marks, admin):
    router = new_router(heartbeat_timeout=5)
    link = proxy(router.backend)
    manager = jobmanager(link.address, heartbeat_timeout=5, heartbeat_interval=3)
    boss = admin(router)
    until(lambda: boss.slots() == 2, "two slots", 15)
    [identity] = boss.workers()
    asking = client(router)
    running = asking.run("slow", "across", 4, headers="reply-requested")
    marks.wait("across:start")
    link.cut()
    meanwhile = asking.run("mark", "meanwhile")
    asking.accepted(meanwhile)
    time.sleep(2)
    link.mend()
    assert asking.result(running, 15) == {"value": "across"}
    marks.wait("meanwhile")
    asking.run("mark", "after")
    marks.wait("after")
    assert list(boss.workers()) == [identity]
    assert len(manager.logged("Sending message.*INFORM")) == 1, "it did not have to register again"
    until(lambda: boss.slots() == 2, "both slots are free again")
    assert boss.status()["lost"] == 0
    assert set(marks.count().values()) == {1}


def test_a_ready_lost_with_the_link_costs_no_slot(new_router, client, worker, proxy, admin):
    """The REPLY arrived, the READY behind it went down with the connection: nothing on the wire ever says so."""
    router = new_router(heartbeat_timeout=1)
    link = proxy(router.backend)
    able = worker(link.address, slots=1, handler=lambda able, job: able.socket_reply(job, {"value": "done"}))
    asking = client(router)
    assert asking.result(asking.request(b"first", headers="reply-requested")) == {"value": "done"}
    link.cut()
    link.mend()
    boss = admin(router)
    until(lambda: [one["state"] for one in boss.workers().values()] == ["attentive"], "it is back")
    waits = asking.request(b"second", headers="reply-requested")
    assert asking.result(waits, 10) == {"value": "done"}, "its slot is used again"
    assert [job.message for job in able.jobs] == [b"first", b"second"]
    assert len(able.saw(b"ACK")) == 1, "without a new registration"
    assert router.logged("READYs were lost")


def test_a_link_that_stays_cut_is_a_lost_worker(new_router, client, worker, proxy, admin):
    router = new_router(heartbeat_timeout=1)
    link = proxy(router.backend)
    first = worker(link.address, handler=hold)
    asking = client(router)
    kept = asking.request(b"x", headers="guarantee")
    lost = asking.request(b"y", headers="reply-requested")
    first.ready()
    first.wait_jobs(2)
    second = worker(router, slots=0)
    second.ready()
    link.cut()
    assert second.wait_jobs(1, 10)[0].msgid == kept
    assert "error" in asking.result(lost)
    assert len(admin(router).workers()) == 1
    stays(lambda: len(second.jobs) == 1, "the other job is not run again", 1)


def test_the_original_router_is_replaced_and_put_back(new_router, jobmanager, scheduler, py_client, marks, admin):
    """One conf file and one set of ports for both brokers: everybody carries on, and can go back."""
    router = new_router(heartbeat_interval=1, heartbeat_timeout=3)
    router.terminate()
    submit = py_client(router)
    original = PyRouter(router)
    try:
        jobmanager(router)
        scheduler(router)
        submit("delay", "mark", "by the original")
        marks.wait("by the original", 20)
    finally:
        original.kill_group()
    router.start()
    submit("delay", "mark", "by ours")
    marks.wait("by ours", 20)
    boss = admin(router)
    until(lambda: boss.slots() == 2 and boss.schedulers(), "job manager and scheduler are registered", 20)
    submit("start_schedule", "mark", "tick", interval_secs=1)
    marks.wait("tick", 10, count=2)
    assert router.terminate() == 0
    original = PyRouter(router)
    try:
        ticks = marks.tags().count("tick")
        submit("delay", "mark", "by the original again")
        marks.wait("by the original again", 30)
        marks.wait("tick", 30, count=ticks + 2)
    finally:
        original.kill_group()


def test_sighup_rebinds_what_changed_and_keeps_the_rest(router, client, worker, admin, ports):
    able = worker(router, slots=5)
    before = client(router)
    before.accepted(before.request(b"before"))
    old, new = router.frontend, ports.address()
    router.frontend = router.settings["frontend_addr"] = new
    router.write_conf()
    router.signal(signal.SIGHUP)
    after = client(router)
    msgid = after.request(b"after", headers="reply-requested")
    assert after.result(msgid) == {"value": "done"}
    assert len(able.saw(b"ACK")) == 1, "the worker stayed registered"
    assert len(admin(router).workers()) == 1
    with pytest.raises(ConnectionError):
        Raw(old)


def test_a_client_that_left_is_no_trouble(router, client, worker, admin):
    """`job.delay()` closes its socket before anything can be answered."""
    able = worker(router, slots=5)
    for number in range(300):
        leaving = client(router)
        leaving.request(str(number).encode(), headers="reply-requested")
        leaving.close(linger=-1)
    assert {job.message for job in able.wait_jobs(300)} == {str(number).encode() for number in range(300)}
    boss = admin(router)
    until(lambda: boss.status()["completed"] == 300, "300 jobs are completed")
