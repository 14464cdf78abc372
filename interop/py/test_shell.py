"""The original scheduler and the original emq-cli."""

from __future__ import annotations

import ast
import json

from peers import Dealer
from programs import emq_binary
from waits import stays, until


def test_a_schedule_runs_until_it_is_unscheduled(router, jobmanager, scheduler, py_client, marks, admin):
    jobmanager(router)
    scheduler(router)
    boss = admin(router)
    until(boss.schedulers, "the scheduler is listed", 15)
    py_client(router)("start_schedule", "mark", "tick", interval_secs=1)
    marks.wait("tick", 15, count=3)
    py_client(router)("stop_schedule", "mark", "tick")
    boss_sees_no_more(boss, marks)


def boss_sees_no_more(boss, marks) -> None:
    """What was sent before UNSCHEDULE may still run; after that, silence."""
    until(lambda: boss.in_flight() == boss.waiting() == 0, "nothing runs")
    marks_before = [0]

    def quiet() -> bool:
        before, marks_before[0] = marks_before[0], len(marks.tags())
        return before == marks_before[0]

    until(quiet, "two seconds without a run", 15, every=2)
    stays(lambda: len(marks.tags()) == marks_before[0], "no more runs", 2.5)


def test_schedule_goes_to_one_scheduler_and_unschedule_to_all(router, client, stack):
    pair = [Dealer(router.frontend) for _ in range(2)]
    for fake in pair:
        stack.callback(fake.close)
        inform = fake.send("INFORM", "", "scheduler")
        acknowledged = fake.receive()
        assert acknowledged.command == b"ACK" and acknowledged.body == (inform,)
    asking = client(router)
    body = ("email", "guarantee", "-1", json.dumps(["run", {"path": "m", "callable": "f"}]), "* * * * *")
    asking.send("SCHEDULE", *body, msgid=b"schedule")
    asking.send("UNSCHEDULE", *body, msgid=b"unschedule")

    def commands(fake) -> list:
        seen = []
        while message := fake.receive(1.0):
            if message.command == b"UNSCHEDULE":
                return [*seen, message]
            if message.command != b"HEARTBEAT":
                seen.append(message)
        return seen

    seen = [commands(fake) for fake in pair]
    scheduled = [message for messages in seen for message in messages if message.command == b"SCHEDULE"]
    assert [message.msgid for message in scheduled] == [b"schedule"]
    assert scheduled[0].body == tuple(part.encode() for part in body)
    assert [messages[-1].msgid for messages in seen] == [b"unschedule"] * 2


def test_the_original_shell_shows_and_shuts_down(router, jobmanager, scheduler, py_cli, marks, client, admin):
    jobmanager(router)
    scheduler(router)
    boss = admin(router)
    until(lambda: boss.slots() == 2 and boss.schedulers(), "everybody is there", 20)
    asking = client(router)
    asking.result(asking.run("mark", "one", headers="reply-requested"))
    shell = py_cli(router.admin_address)
    status = ast.literal_eval(shell.command("status"))
    assert status["processed_messages_by_queue"] == {"default": 1}
    assert list(status["processed_messages_by_worker"].values()) == [1]
    for key in ("inflight_messages_by_queue", "latency_messages_by_queue", "max_latency_messages_by_queue"):
        assert key in status
    workers = ast.literal_eval(shell.command("show_workers"))
    [[identity, worker]] = workers["connected_workers"].items()
    assert worker["queues"] == [[10, "default"]] and worker["hb"] > 0
    assert workers["connected_queues"]["default"] == [[10, identity]]
    schedulers = ast.literal_eval(shell.command("show_schedulers"))["connected_schedulers"]
    assert [set(entry) >= {"hb"} for entry in schedulers.values()] == [True]
    router.expected_end = True
    assert "'ACK'" in shell.command("shutdown")
    assert router.wait_exit(15) == 0


def test_the_original_shell_on_a_broker_with_nobody(router, py_cli):
    shell = py_cli(router.admin_address)
    workers = ast.literal_eval(shell.command("show_workers"))
    assert (workers["connected_workers"], workers["connected_queues"]) == ({}, {})
    assert ast.literal_eval(shell.command("show_schedulers"))["connected_schedulers"] == {}
    assert ast.literal_eval(shell.command("status"))["waiting_messages_by_queue"] in ({}, {"default": 0})


def test_the_binary_under_the_name_of_the_original(new_router, tmp_path, monkeypatch, admin):
    link = tmp_path / "emq-router"
    link.symlink_to(emq_binary())
    monkeypatch.setenv("EMQ_BIN", str(link))
    router = new_router()
    assert router.argv[0] == str(link) and "router" not in router.argv[1:]
    assert admin(router).status()
    assert router.terminate() == 0


def test_hello_is_answered_by_nothing(router, admin):
    boss = admin(router)
    boss.send("HELLO")
    assert boss.receive(0.5) is None
    assert boss.status()
