"""Systems put together of our pieces and the original's, in every mixture: what jobs, schedules and messages come to."""

from __future__ import annotations

import ast
import json
import select
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product

import pytest

from managers import OurJobManager
from peers import Admin
from programs import Emq, PyPublisher, py_publish
from waits import stays, until

SIDES = ("ours", "original")


class OurClient:
    """Our shell, asked for what the original client library is asked for."""

    def __init__(self, emq: Emq) -> None:
        self.emq = emq

    def submit(self, name: str, tag: str) -> None:
        self._done("submit", f"jobs.{name}", "--args", json.dumps([tag]), "--no-confirm")

    def result(self, name: str, tag: str) -> object:
        code, [answer] = self.emq.json("submit", f"jobs.{name}", "--args", json.dumps([tag]), "--wait")
        assert (code, answer["outcome"]) == (0, "returned"), answer
        return answer["value"]

    def schedule(self, name: str, tag: str) -> None:
        self._done("schedule", f"jobs.{name}", "--args", json.dumps([tag]), "--every", "1", "--no-confirm")

    def unschedule(self, name: str, tag: str) -> None:
        self._done("unschedule", f"jobs.{name}", "--args", json.dumps([tag]), "--no-confirm")

    def _done(self, *arguments: str) -> None:
        # Who confirms nothing has half a second for it.
        code, _, err = self.emq(*arguments, "--timeout", "0.5")
        assert (code, err) == (0, "")


class OriginalClient:
    """The original client library."""

    def __init__(self, run: Callable[..., list]) -> None:
        self.run = run

    def submit(self, name: str, tag: str) -> None:
        self.run("delay", name, tag)

    def result(self, name: str, tag: str) -> object:
        msgid, _, result = self.run("defer", name, tag, reply_requested=True, replies=2)
        assert result[5:] == [msgid], result
        return json.loads(result[4])["value"]

    def schedule(self, name: str, tag: str) -> None:
        self.run("start_schedule", name, tag, interval_secs=1)

    def unschedule(self, name: str, tag: str) -> None:
        self.run("stop_schedule", name, tag)


def our_shell_shows(emq: Emq) -> tuple[int, int]:
    """How many workers and schedulers our shell sees."""
    code, workers, _ = emq("cli", "--json", "show_workers")
    assert code == 0 and emq("cli", "status")[0] == 0
    code, schedulers, _ = emq("cli", "--json", "show_schedulers")
    assert code == 0
    return len(json.loads(workers)["connected_workers"]), len(json.loads(schedulers)["connected_schedulers"])


def original_shell_shows(shell) -> tuple[int, int]:
    """How many workers and schedulers the original shell sees."""
    assert ast.literal_eval(shell.command("status"))["processed_messages_by_queue"]
    workers = ast.literal_eval(shell.command("show_workers"))["connected_workers"]
    return len(workers), len(ast.literal_eval(shell.command("show_schedulers"))["connected_schedulers"])


@pytest.mark.parametrize(
    "router_of, manager_of, scheduler_of, client_of", list(product(SIDES, repeat=4)), ids=lambda side: side
)
def test_jobs_and_schedules(
    request, tmp_path, stack, marks, jobmanager, scheduler, our_scheduler, py_client, py_cli,
    router_of, manager_of, scheduler_of, client_of,
):  # fmt: skip
    if router_of == "ours":
        router = request.getfixturevalue("new_router")(heartbeat_interval=1, builtin_scheduler="false")
    else:
        router = request.getfixturevalue("py_router")
    if manager_of == "ours":
        # The jobs import the original package, as those of its users do.
        manager = OurJobManager(tmp_path, marks, router, python=sys.executable)
        stack.callback(manager.finish)
    else:
        jobmanager(router)
    (our_scheduler if scheduler_of == "ours" else scheduler)(router)
    boss = stack.enter_context(Admin(router.admin_address))
    until(lambda: boss.slots() == 2 and len(boss.schedulers()) == 1, "everybody is there", 30)

    emq = Emq(router)
    client = OurClient(emq) if client_of == "ours" else OriginalClient(py_client(router))
    client.submit("mark", "once")
    marks.wait("once", 20)
    if router_of == "ours":
        assert client.result("mark", "asked") == "asked"
    client.schedule("mark", "tick")
    marks.wait("tick", 20, count=3)
    client.unschedule("mark", "tick")

    # The original router never counts down what it has given out, so only what the jobs do tells that it is over.
    time.sleep(1.5)
    ticks = marks.count()["tick"]
    stays(lambda: marks.count()["tick"] == ticks, "no more runs", 2.5)
    assert marks.count()["once"] == 1

    assert our_shell_shows(emq) == (1, 1)
    shell = py_cli(router.admin_address)
    assert original_shell_shows(shell) == (1, 1)
    router.expected_end = True
    if client_of == "ours":
        assert emq("cli", "shutdown")[:2] == (0, "the broker is stopping\n")
    else:
        assert "'ACK'" in shell.command("shutdown")
    if router_of == "ours":
        assert router.wait_exit(15) == 0


def publish(side: str, device, topic: str, number: int) -> None:
    if side == "ours":
        code, out, err = Emq()("publish", topic, json.dumps({"id": number}), "--addr", device.incoming)
        assert (code, out, err) == (0, "", "")
        return
    py_publish(device.incoming, topic, {"id": number})


@pytest.mark.parametrize("device_of, client_of", list(product(SIDES, repeat=2)), ids=lambda side: side)
def test_publishing(request, tmp_path, stack, marks, ports, libzmq, device_of, client_of):
    """To a libzmq SUB and to ours at once."""
    if device_of == "ours":
        device = request.getfixturevalue("publisher")
    else:
        device = PyPublisher(tmp_path, marks, ports)
        stack.callback(device.kill_group)
    sub = libzmq("SUB", subscribe=b"orders.")
    sub.connect(device.outgoing)
    ours = Emq().start("subscribe", "orders.", "--addr", device.outgoing, "--timeout", "60", "--json")
    stack.callback(ours.kill)
    assert ours.stdout is not None
    heard: list[dict] = []

    def both_hear() -> bool:
        publish("ours", device, "orders.probe", 0)
        return bool(sub.poll(200)) and bool(read_ready(ours))

    until(both_hear, "both subscriptions are there", 30)
    publish(client_of, device, "other", 1)
    publish(client_of, device, "orders.new", 2)
    publish(client_of, device, "orders.new", 3)
    got: list[tuple[bytes, object]] = []
    while not got or got[-1][1] != {"id": 3}:
        topic, body = sub.recv_multipart()
        got.append((topic, json.loads(body)))
    assert [(topic, body) for topic, body in got if topic != b"orders.probe"] == [
        (b"orders.new", {"id": 2}), (b"orders.new", {"id": 3}),
    ]  # fmt: skip
    while not heard or json.loads(heard[-1]["message"]) != {"id": 3}:
        line = ours.stdout.readline()
        assert line, "emq subscribe has ended"
        heard.append(json.loads(line))
    news = [(line["topic"], json.loads(line["message"])) for line in heard if line["topic"] != "orders.probe"]
    assert news == [("orders.new", {"id": 2}), ("orders.new", {"id": 3})]


def read_ready(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has printed something that is not read yet."""
    return bool(select.select([process.stdout], [], [], 0.2)[0])
