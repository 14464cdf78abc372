"""`emq scheduler`, and schedules in general: beside the original programs, over crashes, and in Redis."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict

from peers import FakeRouter, Received, call
from programs import HERE, PyRouter, PyScheduler, Scheduler, Serve
from waits import SOON, stays, until


class Broker:
    """A broker (FR) in a thread: acknowledges, sends HEARTBEATs, accepts REQUESTs, and remembers when each came."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.runs: dict[str, list[float]] = defaultdict(list)
        self.replies: list[Received] = []
        self.scheduler: bytes | None = None
        self.informs = 0
        self._lock = threading.Lock()
        self._orders: list[list[bytes]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def schedule(self, name: str, interval: int = -1, cron: str = "", headers: str = "nohaste", what: str = "SCHEDULE"):
        body = [b"default", headers.encode(), str(interval).encode(), call(name), cron.encode()]
        with self._lock:
            self._orders.append([what.encode(), name.encode(), *body])

    def answered(self, count: int, timeout: float = 30.0) -> None:
        until(lambda: len(self.replies) >= count, f"{count} answers to SCHEDULEs", timeout)

    def total(self) -> int:
        return sum(len(times) for times in list(self.runs.values()))

    def close(self) -> None:
        self._stop.set()
        self._thread.join(SOON)

    def _main(self) -> None:
        router = FakeRouter(self.address)
        router.socket.rcvhwm = router.socket.sndhwm = 0
        beat = 0.0
        while not self._stop.is_set():
            if router.socket.poll(10):
                identity, *frames = router.socket.recv_multipart()
                self._on_message(router, identity, Received.parse(frames))
            if self.scheduler is None:
                continue
            if time.monotonic() > beat:
                beat = time.monotonic() + 0.3
                self._send(router, b"HEARTBEAT", b"h", str(time.time()).encode())
            with self._lock:
                orders, self._orders = self._orders, []
            for order in orders:
                self._send(router, *order)
        router.close()

    def _send(self, router: FakeRouter, command: bytes, msgid: bytes, *body: bytes) -> None:
        router.socket.send_multipart([self.scheduler, b"", b"eMQP/1.0", command, msgid, *body])

    def _on_message(self, router: FakeRouter, identity: bytes, message: Received) -> None:
        if message.command == b"INFORM":
            assert message.body == (b"", b"scheduler"), message
            self.scheduler = identity
            self.informs += 1
            self._send(router, b"ACK", b"a", message.msgid)
        elif message.command == b"REQUEST":
            assert message.body[0] == b"default" and b"reply-requested" in message.body[1], message
            self.runs[json.loads(message.body[2])[1]["callable"]].append(time.time())
        elif message.command == b"REPLY":
            self.replies.append(message)


def schedule(client, name: str, interval: int = -1, cron: str = "", headers: str = "nohaste", queue: str = "default"):
    """A SCHEDULE; gives back its message id."""
    return client.send("SCHEDULE", queue, headers, str(interval), call(name), cron)


def unschedule(client, name: str) -> bytes:
    return client.send("UNSCHEDULE", "default", "", "-1", call(name), "")


def names(worker) -> list[str]:
    return [json.loads(job.message)[1]["callable"] for job in list(worker.jobs)]


# -- beside the original programs -------------------------------------------------------------------------------------


def test_with_our_router_and_the_originals_client_and_job_manager(
    router, jobmanager, our_scheduler, py_client, marks, admin
):
    jobmanager(router)
    ours = our_scheduler(router)
    boss = admin(router)
    until(boss.schedulers, "the scheduler is listed", 15)
    py_client(router)("start_schedule", "mark", "tick", interval_secs=1)
    py_client(router)("start_schedule", "mark", "tock", cron="* * * * * */2")
    marks.wait("tick", 20, count=3)
    marks.wait("tock", 20, count=2)
    listed = {json.dumps([row["callable"], row["interval"], row["cron"]]) for row in ours.listing()}
    assert listed == {'["mark", 1, null]', '["mark", null, "* * * * * */2"]'}
    py_client(router)("stop_schedule", "mark", "tick")
    py_client(router)("stop_schedule", "mark", "tock")
    until(lambda: not ours.listing(), "both are gone")
    assert ours.terminate() == 0
    until(lambda: not boss.schedulers(), "it has taken its leave", 2)


def test_with_the_original_router(new_router, jobmanager, our_scheduler, py_client, marks):
    router = new_router(heartbeat_interval=1, heartbeat_timeout=3)
    router.terminate()
    original = PyRouter(router)
    try:
        jobmanager(router)
        ours = our_scheduler(router).registered()
        py_client(router)("start_schedule", "mark", "tick", interval_secs=1)
        marks.wait("tick", 20, count=3)
        py_client(router)("stop_schedule", "mark", "tick")
        until(lambda: not ours.listing(), "it is unscheduled", 15)
        assert original.alive(), "the answers to SCHEDULE do it no harm"
    finally:
        original.kill_group()


def test_it_registers_again_with_a_router_that_was_killed(router, client, worker, our_scheduler):
    our_scheduler(router).registered()
    asking = client(router)
    asking.accepted(schedule(asking, "tick", 1))
    router.restart()
    able = worker(router, slots=5)
    able.wait_jobs(2, 15)


# -- cases ------------------------------------------------------------------------------------------------------------


def test_a08_unschedule_ends_a_cron_schedule(router, client, worker, our_scheduler):
    ours = our_scheduler(router).registered()
    able, asking = worker(router, slots=3), client(router)
    asking.accepted(schedule(asking, "tick", cron="* * * * * *"))
    able.wait_jobs(2)
    asking.accepted(unschedule(asking, "tick"))
    assert ours.listing() == []
    count = len(able.jobs)
    stays(lambda: len(able.jobs) <= count + 1, "no run after UNSCHEDULE", 3)


def test_a09_a_cron_schedule_runs_in_its_queue(router, client, worker, our_scheduler):
    our_scheduler(router).registered()
    plain, email, asking = worker(router), worker(router, queues=[(10, "email")]), client(router)
    asking.accepted(schedule(asking, "tick", cron="* * * * * *", queue="email"))
    assert email.wait_jobs(2)[0].queue == b"email"
    assert not plain.jobs


def test_a11_bad_schedules_are_refused_and_the_rest_goes_on(router, client, worker, our_scheduler):
    ours = our_scheduler(router).registered()
    asking = client(router)
    no_kwargs = json.dumps(["run", {"path": "m", "callable": "f", "args": [], "class_args": [], "class_kwargs": {}}])
    bad = [
        ("", "-1", call("f"), "61 * * * *"),
        ("", "-1", call("f"), "0 0 31 2 *"),
        ("", "-1", call("f"), ""),
        ("", "abc", call("f"), ""),
        ("", "1.5", call("f"), ""),
        ("", "-5", call("f"), ""),
        ("", "0", call("f"), ""),
        ("run_count:abc", "5", call("f"), ""),
        ("", "5", b"{bad", ""),
        ("", "5", no_kwargs, ""),
    ]
    for headers, interval, message, cron in bad:
        refused = asking.send("SCHEDULE", "default", headers, interval, message, cron)
        assert asking.result(refused)["error"]["type"] == "BadSchedule", (headers, interval, message, cron)
    at = asking.send("SCHEDULE", "default", "", "-1", call("f"), "0 5,61 * * *")
    assert "position 5" in asking.result(at)["error"]["message"]
    assert len(ours.logged("SCHEDULE refused")) == len(bad) + 1
    able = worker(router)
    asking.accepted(schedule(asking, "f", cron="* * * * * *", headers="run_count:3"))
    able.wait_jobs(3)
    stays(lambda: len(able.jobs) == 3, "a valid cron schedule with a run_count runs so often", 2)


def test_a_schedule_of_64_mib_costs_no_more_than_its_bytes(router, client):
    """Read into a tree of values it took 2.5 GB and the broker's time for 7 s."""
    asking = client(router, sndhwm=0)
    before = router.peak()
    asking.accepted(schedule(asking, "small", interval=60))
    long = call("f").replace(b'"args": []', b'"args": [' + b"0," * (32 << 20) + b"0]")
    assert len(long) > 64 << 20
    refused = asking.send("SCHEDULE", "default", "nohaste", "60", long, "")
    error = asking.result(refused, 60)["error"]
    assert error["type"] == "BadSchedule" and "at most 1048576" in error["message"], error
    # Read from the socket, handed to the built-in scheduler, and the copies on the way.
    assert router.peak() - before < 400 << 20, f"{(router.peak() - before) >> 20} MiB"
    asking.accepted(schedule(asking, "after", interval=60))


def test_d05_after_a_stop_it_runs_once_and_says_so(ports, our_scheduler, stack):
    broker = Broker(ports.address())
    stack.callback(broker.close)
    # The broker is patient, and so is the scheduler about the broker.
    ours = our_scheduler(broker.address, heartbeat_timeout=30).registered()
    broker.schedule("tick", 1)
    until(lambda: len(broker.runs["tick"]) >= 2, "it runs")
    ours.signal(signal.SIGSTOP)
    time.sleep(6)
    before = len(broker.runs["tick"])
    ours.signal(signal.SIGCONT)
    ours.wait_logged("runs were missed")
    until(lambda: len(broker.runs["tick"]) >= before + 3, "it goes on")
    after = broker.runs["tick"][before:]
    assert sum(at < after[0] + 0.9 for at in after) <= 2, after


def test_d08_what_came_due_without_a_broker_is_not_fired_later(ports, our_scheduler, stack):
    address = ports.address()
    broker = Broker(address)
    ours = our_scheduler(address).registered()
    for n in range(20):
        broker.schedule(f"s{n}", 1)
    until(lambda: broker.total() >= 40, "they run")
    broker.close()
    time.sleep(5)
    broker = Broker(address)
    stack.callback(broker.close)
    until(lambda: broker.total() >= 20, "they run again", 30)
    first = min(min(times) for times in broker.runs.values())
    until(lambda: time.time() > first + 3, "three seconds later")
    for name, times in broker.runs.items():
        assert len(times) <= 5, (name, times)
    assert ours.logged("runs were missed")


def test_d09_run_counts_over_a_kill(ports, our_scheduler, stack):
    broker = Broker(ports.address())
    stack.callback(broker.close)
    ours = our_scheduler(broker.address).registered()
    broker.schedule("once", 3, headers="run_count:1")
    broker.schedule("three", 1, headers="run_count:3")
    broker.schedule("later", 2, headers="nohaste,run_count:2")
    broker.schedule("none", 1, headers="run_count:0")
    broker.answered(4)
    until(lambda: len(broker.runs["three"]) == 2, "two of three")
    ours.kill_alone()
    ours.start()
    ours.registered(2)
    until(lambda: not ours.listing(), "all have run for the last time", 15)
    stays(lambda: broker.total() == 6, "and no more than that", 2)
    assert {name: len(times) for name, times in broker.runs.items() if times} == {"once": 1, "three": 3, "later": 2}


# -- one scheduler for each schedule ----------------------------------------------------------------------------------


def test_however_many_schedulers_and_however_often_it_is_sent(router, client, worker, our_scheduler):
    first = our_scheduler(router).registered()
    able, asking = worker(router, slots=20), client(router)
    for n in range(10):
        asking.accepted(schedule(asking, f"s{n}", 2))
    # A second one comes, and a deploy script sends everything again and again.
    second = our_scheduler(router).registered()
    for _ in range(3):
        for n in range(10):
            asking.accepted(schedule(asking, f"s{n}", 2))

    def shares() -> list[set[str]]:
        return [{row["callable"] for row in ours.listing()} for ours in (first, second)]

    until(lambda: not set.intersection(*shares()), "none is in both")
    assert set.union(*shares()) == {f"s{n}" for n in range(10)}
    assert all(shares()), "each has some"
    start = len(able.jobs)
    time.sleep(6)
    counts = [names(able)[start:].count(f"s{n}") for n in range(10)]
    assert all(2 <= count <= 4 for count in counts), counts


def test_a_router_without_a_scheduler_keeps_schedules_itself(router, client, worker, our_scheduler, admin):
    able, asking = worker(router, slots=20), client(router)
    asking.accepted(schedule(asking, "tick", 1))
    able.wait_jobs(2)
    assert admin(router).schedulers() == {}
    # It survives the router's death.
    router.restart()
    able, asking = worker(router, slots=20), client(router)
    able.wait_jobs(2)
    # A scheduler comes: it gets what is sent from now on, and the router forgets its own.
    ours = our_scheduler(router).registered()
    asking.accepted(schedule(asking, "tock", 1))
    assert [row["callable"] for row in ours.listing()] == ["tock"]
    asking.accepted(schedule(asking, "tick", 2))
    until(lambda: {row["callable"] for row in ours.listing()} == {"tick", "tock"}, "both are there")
    time.sleep(1)
    start = len(able.jobs)
    time.sleep(4)
    assert 1 <= names(able)[start:].count("tick") <= 3, "every two seconds, and from one scheduler only"


def test_a_router_told_to_keep_none_refuses(new_router, client):
    router = new_router(builtin_scheduler="false")
    asking = client(router)
    assert asking.result(schedule(asking, "tick", 1))["error"]["type"] == "NoScheduler"
    assert asking.result(unschedule(asking, "tick"))["error"]["type"] == "NoScheduler"


def test_everything_in_one_process(new_router, client, worker, libzmq, ports, stack):
    router = new_router()
    router.terminate()
    served = Serve(router, ports)
    stack.callback(served.kill_group)
    served.start()
    able, asking = worker(served.backend, slots=5), client(router)
    asking.accepted(schedule(asking, "tick", 1))
    able.wait_jobs(2)
    subscriber = libzmq("SUB", subscribe=b"news")
    subscriber.connect(served.outgoing)
    publisher = stack.enter_context(type(asking)(served.incoming))

    def published() -> bool:
        publisher.send("PUBLISH", "news", "hello")
        return bool(subscriber.poll(100))

    until(published, "the subscriber receives")
    assert subscriber.recv_multipart() == [b"news", b"hello"]
    served.kill_alone()
    served.start()
    again = worker(served.backend, slots=5)
    again.wait_jobs(2)
    served.signal(signal.SIGTERM)
    assert served.wait_exit(20) == 0
    assert "panicked" not in served.output()


# -- crashes ----------------------------------------------------------------------------------------------------------


def test_two_thousand_schedules_over_a_kill(ports, our_scheduler, stack):
    """1,000 interval and 1,000 cron schedules: none is lost, none doubled, each goes on where it was."""
    period, count = 6, 1000
    broker = Broker(ports.address())
    stack.callback(broker.close)
    ours = our_scheduler(broker.address, heartbeat_timeout=10).registered()
    for n in range(count):
        broker.schedule(f"interval{n}", period)
        broker.schedule(f"cron{n}", cron=f"* * * * * */{period}")
    broker.answered(2 * count, 60)
    assert all(len(reply.body) == 1 for reply in broker.replies), "all are accepted"
    assert len(ours.listing()) == 2 * count

    def everyone_ran(times: int) -> bool:
        return len(broker.runs) == 2 * count and all(len(runs) >= times for runs in list(broker.runs.values()))

    until(lambda: everyone_ran(2), "every schedule has run twice", 60)
    for restart in range(2):
        ours.kill_alone()
        ours.start()
        ours.registered(restart + 2)
        assert len(ours.listing()) == 2 * count
    ran = min(len(runs) for runs in broker.runs.values())
    until(lambda: everyone_ran(ran + 2), "every schedule goes on", 60)
    # Each run belongs to one period, and each period has one run.
    for name, runs in broker.runs.items():
        origin = 0 if name.startswith("cron") else runs[0] - 0.5
        periods = [int((at - origin) // period) for at in runs]
        assert periods == list(range(periods[0], periods[0] + len(periods))), (name, runs)


def test_killed_in_the_middle_of_its_work_nothing_is_doubled(ports, our_scheduler, stack):
    period, count = 4, 500
    broker = Broker(ports.address())
    stack.callback(broker.close)
    ours = our_scheduler(broker.address, heartbeat_timeout=10).registered()
    for n in range(count):
        broker.schedule(f"c{n}", cron=f"* * * * * */{period}")
    broker.answered(count, 60)
    for restart in range(3):
        before = broker.total()
        until(lambda before=before: broker.total() > before, "a burst begins", 30, every=0.001)
        ours.kill_alone()
        ours.start()
        ours.registered(restart + 2)
        assert len(ours.listing()) == count
    for name, runs in broker.runs.items():
        periods = [int(at // period) for at in runs]
        assert len(set(periods)) == len(periods), (name, runs)


# -- Redis ------------------------------------------------------------------------------------------------------------

LOAD = """
import json, sys
import redis
from eventmq.scheduler import Scheduler
scheduler = Scheduler()
scheduler._redis_server = redis.StrictRedis(port=int(sys.argv[1]))
scheduler.load_jobs()
print(json.dumps({
    "interval": {key: value[4] for key, value in scheduler.interval_jobs.items()},
    "cron": sorted(scheduler.cron_jobs),
}))
"""


def loaded_by_the_original(port: int) -> dict:
    """What the original's own code makes of a Redis. (Its process finds nothing at its start: the first use of its Redis
    connection gives none, so the connection is there already.)"""
    done = subprocess.run([sys.executable, "-c", LOAD, str(port)], cwd=HERE, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.splitlines()[-1])


def test_a10_python_writes_ours_goes_on_and_back(
    new_router, client, worker, admin, our_scheduler, redis_server, tmp_path, marks, stack
):
    # None of its own, so that the client sees who answers.
    router = new_router(builtin_scheduler="false")
    asking, boss = client(router), admin(router)
    database = redis_server.client()
    original = PyScheduler(tmp_path, marks, router.frontend, redis_server.port)
    stack.callback(original.kill_group)
    until(boss.schedulers, "the original is registered", 20)
    for name, interval, cron, headers in [
        ("hourly", 3600, "", "nohaste"),
        ("limited", 2, "", "nohaste,run_count:7"),
        ("moved", 500, "", "nohaste"),
        ("minutely", -1, "* * * * * */2", "nohaste"),
    ]:
        schedule(asking, name, interval, cron, headers)
    until(lambda: len(set(database.lrange("interval_jobs", 0, -1))) == 4, "the original has stored four", 20)
    original.kill_group()
    # As its runs leave it: a hash twice, and one without its key.
    hashes = set(database.lrange("interval_jobs", 0, -1))
    headers = [json.loads(database.get(key))[1] for key in hashes]
    count = next(int(text.rsplit(":", 1)[1]) for text in headers if "run_count" in text)
    database.lpush("interval_jobs", min(hashes), "0123456789012345678901234567890123456789")

    ours = our_scheduler(router, rq_host="127.0.0.1", rq_port=redis_server.port)
    left = {row["callable"]: row["runs_left"] for row in ours.listing()}
    assert left == {"hourly": None, "limited": count, "moved": None, "minutely": None}
    assert sorted(database.lrange("interval_jobs", 0, -1)) == sorted(hashes), "each once"
    able = worker(router, slots=20)
    ours.registered()
    until(lambda: names(able).count("limited") >= 2, "they run", 20)
    assert "minutely" in names(able)
    ids = {row["callable"]: row["id"] for row in ours.listing()}
    fallen = f"run_count:{count - 2}"
    until(lambda: fallen in json.loads(database.get(ids["limited"]))[1], "the count falls in Redis")
    asking.accepted(schedule(asking, "moved", 700))
    asking.accepted(schedule(asking, "new", 900))
    ids["new"] = next(row["id"] for row in ours.listing() if row["callable"] == "new")
    ours.kill_alone()
    left = json.loads(database.get(ids["limited"]))[1].rsplit(":", 1)[1]

    found = loaded_by_the_original(redis_server.port)
    assert found["interval"] == {
        ids["hourly"]: -1,
        ids["limited"]: int(left),
        ids["moved"]: -1,
        ids["new"]: -1,
    }
    assert found["cron"] == [ids["minutely"]]
    assert json.loads(database.get(ids["moved"]))[2] == "700", "the last period wins"
    assert len(database.lrange("interval_jobs", 0, -1)) == 5

    # The original is put back, and can end what ours has kept.
    until(lambda: not boss.schedulers(), "ours is gone", 20)
    original = PyScheduler(tmp_path, marks, router.frontend, redis_server.port)
    stack.callback(original.kill_group)
    until(boss.schedulers, "the original is back", 20)
    unschedule(asking, "new")
    until(lambda: ids["new"] not in database.lrange("interval_jobs", 0, -1), "it is off the list", 20)
    until(lambda: database.get(ids["new"]) is None, "and its key is gone")


def test_d10_ours_ends_what_python_has_scheduled(router, client, worker, our_scheduler, redis_server):
    """The same hashes: what stands in Redis under Python's is found by ours."""
    database = redis_server.client()
    frames = ["default", "nohaste", "1", call("f", 1.0, "hé世😀").decode(), ""]
    ours = our_scheduler(router, rq_port=redis_server.port)
    asking = client(router)
    ours.registered()
    asking.accepted(asking.send("SCHEDULE", *frames))
    (identity,) = database.lrange("interval_jobs", 0, -1)
    assert json.loads(database.get(identity)) == frames
    assert list(loaded_by_the_original(redis_server.port)["interval"]) == [identity]
    asking.accepted(asking.send("UNSCHEDULE", *frames))
    assert database.lrange("interval_jobs", 0, -1) == [] and database.get(identity) is None


def test_redis_that_restarts_is_found_again_and_schedules_go_on(ports, our_scheduler, redis_server, stack):
    broker = Broker(ports.address())
    stack.callback(broker.close)
    ours = our_scheduler(broker.address, rq_port=redis_server.port).registered()
    broker.schedule("tick", 1)
    broker.answered(1)
    redis_server.kill_group()
    runs = len(broker.runs["tick"])
    until(lambda: len(broker.runs["tick"]) >= runs + 3, "it runs without Redis", 20)
    broker.schedule("tock", 1)
    broker.answered(2)
    assert b"StoreFailed" in broker.replies[-1].body[0]
    redis_server.start()
    ours.wait_logged("schedules are stored again", 20)
    broker.schedule("tock", 1)
    broker.answered(3)
    assert broker.replies[-1].body == (b"tock",)
    assert redis_server.client().llen("interval_jobs") == 2


def test_redis_that_is_not_there_ends_it_or_is_waited_for(tmp_path, ports, our_scheduler, redis_server):
    redis_server.kill_group()
    address = ports.address()
    strict = Scheduler(tmp_path, address, 8, rq_port=redis_server.port)
    strict.READY = "Redis at"
    strict.start()
    assert strict.wait_exit() == 1
    patient = Scheduler(tmp_path, address, 9, rq_port=redis_server.port, redis_startup_error_hard_kill="false")
    patient.READY = "schedules cannot be loaded"
    try:
        patient.start()
        redis_server.start()
        patient.wait_logged("scheduler ready", 20)
        assert patient.terminate() == 0
    finally:
        patient.kill_group()


# -- as a program -----------------------------------------------------------------------------------------------------


def test_one_file_has_one_scheduler(router, our_scheduler, tmp_path):
    ours = our_scheduler(router)
    other = Scheduler(tmp_path, router.frontend, 7, schedule_file=ours.settings["schedule_file"])
    other.READY = "in use by another process"
    other.start()
    assert other.wait_exit() == 1


def test_a_disconnect_ends_it(ports, our_scheduler):
    router = FakeRouter(ports.address())
    try:
        ours = our_scheduler(router.socket.last_endpoint.decode().rstrip("\0"))
        identity, inform = until(router.receive, "an INFORM")
        head = [identity, b"", b"eMQP/1.0"]
        router.socket.send_multipart([*head, b"ACK", b"1", inform.msgid])
        ours.registered()
        router.socket.send_multipart([*head, b"DISCONNECT", b"2"])
        seen: list[bytes] = []
        while b"KBYE" not in seen:
            received = router.receive()
            assert received, f"no KBYE among {seen}"
            seen.append(received[1].command)
        assert ours.wait_exit() == 0
    finally:
        router.close()
