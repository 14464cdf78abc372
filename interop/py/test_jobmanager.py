"""Our job manager: the same jobs as under the original one, and what the original one gets wrong."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from managers import FAST, ExecWorker, OurJobManager, gone
from peers import PROTOCOL, Client, call, new_id
from programs import PyRouter, Router
from waits import SOON, until

NOTHING = object()


@pytest.fixture
def ours(tmp_path, marks) -> Iterator[Callable[..., OurJobManager]]:
    """Starts our job managers: ours(router or address, jobs=2, ...)."""
    made: list[OurJobManager] = []

    def make(where: Router | str, jobs: int = 2, **settings: Any) -> OurJobManager:
        made.append(OurJobManager(tmp_path, marks, where, jobs, **settings))
        return made[-1]

    yield make
    for manager in made:
        manager.finish()


def ask(asking: Client, module: str, name: str, *args: Any, headers: str = "", **kwargs: Any) -> bytes:
    """Asks for a function of a module in jobmods."""
    headers = ",".join(filter(None, ["reply-requested", headers]))
    return asking.request(call(name, *args, path=f"jobmods.{module}", **kwargs), headers=headers)


def answer(asking: Client, module: str, name: str, *args: Any, timeout: float = 20, **options: Any) -> dict[str, Any]:
    return asking.result(ask(asking, module, name, *args, **options), timeout)


# -- the same modules under both ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A job, what both job managers make of it, and if they differ why."""

    module: str
    name: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    value: Any = None
    #: A value that is not to be compared: what it must contain.
    contains: str = ""
    headers: str = ""
    klass: str = ""
    class_args: tuple[Any, ...] = ()
    class_kwargs: tuple[tuple[str, Any], ...] = ()
    #: Type of our error; empty for a job that succeeds.
    error: str = ""
    #: What the original does instead of the same, and why ours does not.
    python: Any = ""
    why: str = ""

    @property
    def id(self) -> str:
        return f"{self.module}.{self.name}{list(self.args)!r:.40}{list(self.class_args)!r}"

    def message(self) -> bytes:
        path = f"jobmods.{self.module}" + (f":{self.klass}" if self.klass else "")
        what = {
            "path": path, "callable": self.name, "args": list(self.args), "kwargs": dict(self.kwargs),
            "class_args": list(self.class_args), "class_kwargs": dict(self.class_kwargs),
        }
        return json.dumps(["run", what]).encode()


NEVER = "no result"
TIMEOUT = "TimeoutError"
EXIT_WHY = "the original's thread ends without a word and only the timeout tells; ours fails the job at once"
DEATH_WHY = "the original does not notice that a job's process died; ours fails the job with its status or signal"
RELOAD_WHY = "the original reloads the module of each function a setting names, and so forgets what the setup did there"

CASES = [
    Case("plain", "give_back", (1, "a", None, [2.5], {"k": True}), value=[1, "a", None, [2.5], {"k": True}]),
    Case("plain", "nothing", value=None),
    Case("methods", "greet", ("you",), (("times", 2),), "hi you? hi you?", klass="Greeter", class_args=("hi",),
         class_kwargs=(("mark", "?"),)),
    Case("methods", "name", value="Greeter", klass="Greeter", class_args=("hi",)),
    Case("methods", "fixed", value="static", klass="Greeter", class_args=("hi",)),
    Case("methods", "greet", ("you",), contains="greeting", klass="Greeter", error="TypeError"),
    Case("keywords", "all_kinds", (1,), (("c", 9), ("z", 0), ("y", [])), [1, 2, [], 9, [["y", []], ["z", 0]]]),
    Case("keywords", "all_kinds", (1, 2, 3, 4), value=[1, 2, [3, 4], 3, []]),
    Case("texts", "echo", ("h\u00e9\u4e16\U0001f600",), value=["h\u00e9\u4e16\U0001f600", 4, "h\u00e9\u4e16\U0001f600"]),
    Case("texts", "keys", value={"\u00e9": {"\u4e16": 1}, "\n": "\t\x00"}),
    Case("exceptions", "value_error", ("boom \u4e16",), value="boom \u4e16", error="ValueError"),
    Case("exceptions", "own", ("x",), value="own: x", error="Own"),
    Case("exceptions", "key_error", value="'missing'", error="KeyError"),
    Case("exceptions", "chained", value="after h\u00e9", error="RuntimeError"),
    Case("exceptions", "deep", contains="maximum recursion depth exceeded", error="RecursionError"),
    Case("arguments", "two", (1,), contains="missing 1 required positional argument", error="TypeError"),
    Case("arguments", "attribute", contains="not callable", error="TypeError"),
    Case("arguments", "missing", contains="has no attribute 'missing'", error="AttributeError"),
    Case("nowhere", "at_all", value="No module named 'jobmods.nowhere'", error="ModuleNotFoundError"),
    Case("broken_import", "anything", value="this module does not want to be imported", error="ImportError"),
    Case("nested_package", "value", value=["relative imports work"]),
    Case("state", "directory", value=True),
    Case("threads", "work", value=[0, 1, 2, 3, 4]),
    Case("threads", "left_behind", (2,), value="started"),
    Case("prints", "junk", value="printed"),
    Case("prints", "much", (3000,), value=3000),
    Case("prints", "read_stdin", value=""),
    Case("hooks", "seen", value=[1, 1, True], python=[0, 1, True], why=RELOAD_WHY),
    Case("hooks", "fail", value="not today", error="ValueError"),
    Case("big", "length", ("\u4e16" * 1_000_000,), value=1_000_000),
    Case("big", "text", (5_000_000,), value="x" * 5_000_000),
    Case("big", "echo", ([list(range(1000))] * 100,), value=[list(range(1000))] * 100),
    Case("odd_values", "value", ("tuple",), value=[1, [2, 3]]),
    Case("odd_values", "value", ("integer keys",), value={"1": "c", "null": "b"}),
    Case("odd_values", "value", ("ordered",), value={"b": 1, "a": 2}),
    Case("odd_values", "value", ("large",), value=2**80),
    Case("odd_values", "value", ("float",), value=1e22),
    Case("odd_values", "value", ("nan",), value=math.nan),
    Case("odd_values", "value", ("infinity",), value=-math.inf),
    Case("odd_values", "value", ("bytes",), value="Object of type bytes is not JSON serializable", error="TypeError"),
    Case("odd_values", "value", ("set",), value="Object of type set is not JSON serializable", error="TypeError"),
    Case("odd_values", "value", ("decimal",), value="Object of type Decimal is not JSON serializable",
         error="TypeError"),
    Case("sleeps", "sleep", (0.01,), value=0.01),
    Case("sleeps", "sleep", (30,), headers="timeout:1", value=TIMEOUT, error=TIMEOUT),
    Case("loops", "for_ever", headers="timeout:1", value=TIMEOUT, error=TIMEOUT),
    Case("deaf", "ignore_signals", (30,), headers="timeout:1", value=TIMEOUT, error=TIMEOUT),
    Case("processes", "pid", contains=""),
    Case("base_exceptions", "leave", (3,), headers="timeout:2", value="3", error="SystemExit", python=TIMEOUT,
         why=EXIT_WHY),
    Case("base_exceptions", "interrupt", headers="timeout:2", value="by hand", error="KeyboardInterrupt",
         python=TIMEOUT, why=EXIT_WHY),
    Case("endings", "vanish", (3,), headers="timeout:3", contains="ended with exit status 3", error="ProcessDied",
         python=NEVER, why=DEATH_WHY),
    Case("endings", "kill_self", (int(signal.SIGKILL),), headers="timeout:3", contains="signal 9 (SIGKILL)",
         error="ProcessDied", python=NEVER, why=DEATH_WHY),
    Case("endings", "abort", headers="timeout:3", contains="signal 6 (SIGABRT)", error="ProcessDied", python=NEVER,
         why=DEATH_WHY),
]

HOOKS = {
    "subprocess_setup_func": "jobmods.hooks.setup",
    "job_entry_func": "jobmods.hooks.entry",
    "job_exit_func": "jobmods.hooks.leave",
}


def run_all(asking: Client) -> dict[str, dict[str, Any]]:
    """Every case at once; their results by id. A broker's own error stands for a result that never came."""
    asked = {case.id: asking.request(case.message(), headers=f"reply-requested,{case.headers}") for case in CASES}
    return {name: asking.result(msgid, 90) for name, msgid in asked.items()}


def same(case: Case, value: Any) -> bool:
    if case.contains or case.name == "pid":
        return case.contains in str(value)
    if isinstance(case.value, float) and math.isnan(case.value):
        return isinstance(value, float) and math.isnan(value)
    return value == case.value


def test_there_are_20_job_modules_and_each_is_used():
    modules = {path.stem for path in Path(__file__).with_name("jobmods").iterdir()} - {"__init__", "__pycache__"}
    assert len(modules) >= 20
    text = Path(__file__).read_text()
    assert not [module for module in modules if f'"{module}"' not in text]


def test_the_same_jobs_under_ours(new_router, ours, client):
    router = new_router(timeout_grace=2)
    manager = ours(router, 4, max_job_count=7, **HOOKS)
    results = run_all(client(router))
    for case in CASES:
        result = results[case.id]
        assert same(case, result["value"]), (case.id, result)
        assert result.get("error", {}).get("type", "") == case.error, (case.id, result)
        if case.error and case.module == "exceptions":
            trace = result["error"]["traceback"]
            assert f"jobmods/{case.module}.py" in trace and "emq-runner" not in trace, trace
    assert manager.logged("job: line one \u4e16") and manager.logged("job: from a child")
    assert not [case for case in CASES if case.python and not case.why], "differences have reasons"


def test_the_same_jobs_under_the_original(new_router, jobmanager, client):
    router = new_router(timeout_grace=2)
    jobmanager(router, 4, max_job_count=7, **HOOKS)
    results = run_all(client(router))
    for case in CASES:
        result = results[case.id]
        if case.python == NEVER:
            assert "value" not in result, (case.id, "the original has learned something", result)
        elif case.python:
            assert result == {"value": case.python}, (case.id, result)
        else:
            assert same(case, result["value"]), (case.id, result)


def test_the_original_router_in_front_of_ours(tmp_path, ports, ours, client, marks, stack):
    router = Router(tmp_path, ports, wal_enabled="false", heartbeat_interval=1)
    router.write_conf()
    stack.callback(PyRouter(router).kill_group)
    manager = ours(router, 2, python=os.sys.executable)
    manager.wait_logged("registered with the broker")
    asking = client(router)
    for number in range(20):
        asking.run("mark", f"job{number}")
    marks.wait_total(20, 30)
    assert sorted(marks.count().values()) == [1] * 20
    manager.signal(signal.SIGTERM)
    assert manager.wait_exit() == 0


def test_modules_of_the_original_package_work_where_it_is_installed(router, ours, client, marks):
    ours(router, python=os.sys.executable)
    asking = client(router)
    assert asking.result(asking.run("mark", "decorated", headers="reply-requested"), 20) == {"value": "decorated"}
    marks.wait("decorated")


# -- odd messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"{not json", ""), (b"5", ""), (b"[]", ""), (b'["run", 7]', ""), (b'["run", {}]', ""), (b"\xff\xfe\x80", ""),
        (b'["walk", {"path": "os", "callable": "getpid"}]', ""), (b"[" * 100_000, ""),
        (call("give_back", path="jobmods.plain"), "timeout:abc"), (call("endless", path="jobmods.odd_values"), ""),
        (call("nested", 100_000, path="jobmods.odd_values"), ""),
    ],
    ids=repr,
)
def test_a03_a_bad_job_fails_and_nothing_else_does(router, ours, client, admin, body, headers):
    ours(router)
    boss = admin(router)
    until(lambda: boss.slots() == 2, "two slots")
    before = list(boss.workers())
    asking = client(router)
    bad = asking.request(body, headers=f"reply-requested,{headers}".strip(","))
    assert "error" in asking.result(bad)
    assert answer(asking, "plain", "give_back", "good") == {"value": ["good"]}
    assert list(boss.workers()) == before, "its session is the same"
    until(lambda: boss.slots() == 2, "both slots are back")


def test_a03_a_request_without_its_frames(ours, libzmq, ports):
    """A broker that forwards anything: the job manager answers and goes on."""
    router = libzmq("ROUTER", linger=0)
    address = ports.address()
    router.bind(address)
    ours(address, 1)
    identity, _, _, command, msgid, queues, kind = router.recv_multipart()
    assert (command, json.loads(queues), kind) == (b"INFORM", [[10, "default"]], b"worker")
    router.send_multipart([identity, b"", PROTOCOL, b"ACK", new_id(), msgid])

    def receive(command: bytes) -> list[bytes]:
        while True:
            frames = router.recv_multipart()
            if frames[3] == command:
                return frames

    receive(b"READY")
    router.send_multipart([identity, b"", PROTOCOL, b"REQUEST", b"j1", b"default"])
    assert receive(b"REPLY")[6] == b"j1"
    receive(b"READY")
    good = call("give_back", 1, path="jobmods.plain")
    router.send_multipart([identity, b"", PROTOCOL, b"REQUEST", b"j2", b"default", b"reply-requested", good])
    assert receive(b"REPLY")[5:] == [b'{"value": [1]}', b"j2"]


def test_a_result_that_is_too_large_fails_its_job(router, ours, client):
    ours(router, max_result_size="1 MiB")
    asking = client(router)
    error = answer(asking, "big", "text", 1 << 20)["error"]
    assert error["type"] == "ResultTooLarge" and "max_result_size = 1048576" in error["message"]
    assert len(answer(asking, "big", "text", (1 << 20) - 100)["value"]) == (1 << 20) - 100


def test_the_allowlist(router, ours, client):
    ours(router, allowed_callables="jobmods.plain.give_back, jobmods.methods:Greeter.*")
    asking = client(router)
    assert answer(asking, "plain", "give_back", 1) == {"value": [1]}
    assert answer(asking, "methods:Greeter", "fixed")["error"]["type"] == "TypeError", "allowed, but made wrongly"
    for module, name in [("plain", "nothing"), ("methods", "Greeter"), ("plain", "give_back.x")]:
        assert answer(asking, module, name)["error"]["type"] == "NotAllowed"
    evil = asking.request(call("system", "true", path="os"), headers="reply-requested")
    assert asking.result(evil)["error"]["type"] == "NotAllowed"


def test_a_child_of_a_job_that_comes_back_answers_nothing(router, ours, client):
    ours(router, 1)
    asking = client(router)
    assert answer(asking, "forks", "child_comes_back") == {"value": "the parent"}
    assert answer(asking, "forks", "child_leaves") == {"value": 7}


def test_a_job_runs_in_the_state_that_others_left(router, ours, client):
    ours(router, 1)
    asking = client(router)
    assert [answer(asking, "state", "next_number")["value"] for _ in range(3)] == [1, 2, 3]


def test_what_jobs_print_goes_to_the_log_with_their_id(router, ours, client):
    manager = ours(router, 2)
    asking = client(router)
    msgid = ask(asking, "prints", "junk").decode()
    assert asking.result(msgid.encode()) == {"value": "printed"}
    for text in ("line one", "not a result", "to stderr", "from a child", "and its stderr", "without an end"):
        assert manager.logged(f"{text}.*{msgid}|{msgid}.*{text}"), text


# -- slots, timeouts, recycling ---------------------------------------------------------------------------------------------


def test_a13_ten_jobs_and_recycling_take_no_pauses(router, ours, client, admin):
    """The original needs a second a job and three for a new process; here the successor is up before it is needed."""
    manager = ours(router, 1, max_job_count=1)
    asking = client(router)
    pids = [answer(asking, "processes", "pid")["value"] for _ in range(10)]
    assert len(set(pids)) == 10, "a process each"
    boss = admin(router)
    until(lambda: boss.slots() == 1 and len(manager.workers()) <= 2, "one slot, and no pile of processes")


def test_recycling_under_load_loses_nothing(router, ours, client):
    ours(router, 3, max_job_count=4)
    asking = client(router)
    asked = [ask(asking, "processes", "pid") for _ in range(60)]
    pids = [asking.result(msgid, 60)["value"] for msgid in asked]
    assert all(pids.count(pid) <= 4 for pid in pids)


def test_c08_short_jobs_do_not_wait_behind_a_long_one(router, ours, client):
    ours(router, 2)
    asking = client(router)
    long = ask(asking, "deaf", "read_fifo", str(Path(router.conf).with_name("fifo")))
    for number in range(20):
        assert answer(asking, "plain", "give_back", number) == {"value": [number]}
    assert not asking.results.get(long), "the long one still runs"


@pytest.mark.parametrize("how", ["ignore_signals", "hold_the_lock", "read_fifo", "with_grandchild"])
def test_c06_the_parent_enforces_the_timeout(router, ours, client, admin, tmp_path, how):
    manager = ours(router, 1)
    asking, boss = client(router), admin(router)
    until(lambda: boss.slots() == 1, "one slot")
    before = manager.workers()
    pid_file = tmp_path / "grandchild"
    args = {"read_fifo": [str(tmp_path / "fifo")], "with_grandchild": [str(pid_file), 600]}.get(how, [600])
    msgid = ask(asking, "deaf", how, *args, headers="timeout:1")
    result = asking.result(msgid, 20)
    assert (result["value"], result["error"]["type"]) == ("TimeoutError", "TimeoutError")
    assert gone(before), "the job fails once it is really over"
    if how == "with_grandchild":
        grandchild = int(pid_file.read_text())
        until(lambda: not psutil.pid_exists(grandchild), "nothing it started is left")
    until(lambda: boss.slots() == 1, "the slot is back")
    assert answer(asking, "plain", "give_back", 1) == {"value": [1]}


def test_a15_what_timed_out_has_no_later_effects(router, ours, client, marks, admin):
    manager = ours(router, 1, python=os.sys.executable)
    asking = client(router)
    for number in range(3):
        late = asking.run("slow", f"late{number}", 3, headers="reply-requested,timeout:1")
        assert asking.result(late, 20)["value"] == "TimeoutError"
    until(lambda: admin(router).slots() == 1, "the slot is back")
    assert len(manager.workers()) == 1
    # Longer than the last would have taken to leave its mark.
    assert asking.result(asking.run("slow", "fine", 4, headers="reply-requested"), 20) == {"value": "fine"}
    assert marks.count() == {"late0:start": 1, "late1:start": 1, "late2:start": 1, "fine:start": 1, "fine:end": 1}


def test_the_global_timeout(router, ours, client):
    ours(router, 1, global_timeout=1)
    assert answer(client(router), "loops", "for_ever")["value"] == "TimeoutError"


def test_a_killed_worker_process_costs_its_job_and_no_slot(router, ours, client, admin):
    manager = ours(router, 2)
    asking, boss = client(router), admin(router)
    until(lambda: boss.slots() == 2, "two slots")
    busy = ask(asking, "processes", "pid", 600)
    until(lambda: boss.slots() == 1, "one is at work")
    for process in manager.workers():
        process.kill()
    error = asking.result(busy)["error"]
    assert error["type"] == "ProcessDied" and "SIGKILL" in error["message"]
    until(lambda: boss.slots() == 2, "both slots are back")
    asked = [ask(asking, "plain", "give_back", number) for number in range(10)]
    assert [asking.result(msgid)["value"] for msgid in asked] == [[number] for number in range(10)]


def test_a_setup_that_fails_is_logged_and_jobs_run(router, ours, client):
    manager = ours(router, 1, subprocess_setup_func="jobmods.hooks.fail")
    assert answer(client(router), "plain", "give_back", 1) == {"value": [1]}
    assert manager.logged("cannot run the setup function jobmods.hooks.fail: not today")


def test_an_entry_function_that_is_not_there_is_an_error_that_repeats_quietly(router, ours, admin):
    manager = ours(router, 4, job_entry_func="jobmods.hooks.nothing_of_that_name")
    manager.wait_logged("job_entry_func = jobmods.hooks.nothing_of_that_name")
    assert manager.alive() and admin(router).slots() == 0, "no job is taken that could not run"


def test_an_entry_function_that_fails_fails_the_job(router, ours, client):
    ours(router, 1, job_entry_func="jobmods.hooks.fail")
    result = answer(client(router), "plain", "give_back", 1)
    assert (result["value"], result["error"]["type"]) == ("not today", "ValueError")


def test_an_interpreter_that_is_not_there(router, ours):
    manager = ours(router, python="/nowhere/python3")
    assert manager.wait_exit() == 1
    assert manager.logged("cannot run the Python interpreter /nowhere/python3.*--python")


# -- ends ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["sleep", "hold_the_lock", "with_grandchild", "idle"])
def test_a_killed_job_manager_leaves_no_process(router, ours, client, admin, tmp_path, how):
    manager = ours(router, 2)
    asking, boss = client(router), admin(router)
    until(lambda: boss.slots() == 2, "two slots")
    pid_file = tmp_path / "grandchild"
    if how == "sleep":
        ask(asking, "sleeps", how, 600)
    elif how != "idle":
        args = [str(pid_file), 600] if how == "with_grandchild" else [600]
        ask(asking, "deaf", how, *args)
    if how != "idle":
        until(lambda: boss.slots() == 1, "one is at work")
    if how == "with_grandchild":
        until(pid_file.exists, "there is a grandchild")
    processes = manager.processes()
    assert len(processes) >= 3
    killed = time.monotonic()
    manager.kill_alone()
    # Promised within 2 s; printed, because a busy machine has a right to be late.
    until(lambda: gone(processes), "no process is left", 2 * SOON)
    print(f"no process left {time.monotonic() - killed:.2f} s after SIGKILL")


def test_a_killed_guard_is_replaced(router, ours, admin):
    manager = ours(router, 1)
    until(lambda: admin(router).slots() == 1, "one slot")
    def guards() -> list[psutil.Process]:
        workers = {process.pid for process in manager.workers()}
        return [process for process in manager.processes() if process.pid not in workers]

    [guard] = until(guards, "a guard")
    guard.kill()
    manager.wait_logged("guards against orphans ended")
    until(lambda: [process for process in guards() if process.pid != guard.pid], "another guard")
    processes = manager.processes()
    manager.kill_alone()
    until(lambda: gone(processes), "no process is left")


def test_sigterm_finishes_replies_and_leaves(router, ours, client, admin, marks):
    manager = ours(router, 2)
    asking, boss = client(router), admin(router)
    until(lambda: boss.slots() == 2, "two slots")
    running = ask(asking, "sleeps", "sleep", 2)
    until(lambda: boss.slots() == 1, "one is at work")
    processes = manager.processes()
    manager.signal(signal.SIGTERM)
    manager.wait_logged("stopping")
    waiting = ask(asking, "plain", "give_back", "for another")
    assert asking.result(running) == {"value": 2}
    assert manager.wait_exit() == 0
    until(lambda: gone(processes), "no process is left")
    until(lambda: not boss.workers(), "the broker has let it go")
    ours(router)
    assert asking.result(waiting, 20) == {"value": ["for another"]}


def test_a_second_sigterm_ends_at_once(router, ours, client, admin):
    manager = ours(router, 1)
    boss = admin(router)
    until(lambda: boss.slots() == 1, "one slot")
    ask(client(router), "sleeps", "sleep", 600)
    until(lambda: boss.slots() == 0, "it is at work")
    processes = manager.processes()
    manager.signal(signal.SIGTERM)
    manager.wait_logged("stopping")
    manager.signal(signal.SIGTERM)
    assert manager.wait_exit() == 143
    until(lambda: gone(processes), "no process is left")


def test_the_kill_grace_period_ends_what_does_not_end(router, ours, client, admin):
    manager = ours(router, 1, kill_grace_period=1)
    boss = admin(router)
    until(lambda: boss.slots() == 1, "one slot")
    asking = client(router)
    msgid = ask(asking, "deaf", "ignore_signals", 600, headers="guarantee")
    until(lambda: boss.slots() == 0, "it is at work")
    processes = manager.processes()
    manager.signal(signal.SIGTERM)
    assert manager.wait_exit() == 0
    until(lambda: gone(processes), "no process is left")
    assert not asking.results.get(msgid), "a guaranteed job is the broker's again"
    until(lambda: boss.waiting() == 1, "it waits for another worker")


def test_sighup_takes_new_settings_and_new_code(router, ours, client, admin, tmp_path):
    module = tmp_path / "fresh_code.py"
    module.write_text("def version():\n    return 1\n")
    env = {"PYTHONPATH": f"{Path(__file__).parent}:{tmp_path}"}
    manager = ours(router, 1, env=env)
    asking, boss = client(router), admin(router)

    def version() -> Any:
        msgid = asking.request(call("version", path="fresh_code"), headers="reply-requested")
        return asking.result(msgid, 20)["value"]

    assert version() == 1
    module.write_text("def version():\n    return 22\n")
    manager.settings |= {"concurrent_jobs": 3, "queues": '[[10, "default"], [30, "email"]]'}
    manager.write_conf()
    manager.signal(signal.SIGHUP)
    until(lambda: boss.slots() == 3, "three slots")
    assert version() == 22
    [worker] = [worker for worker in boss.workers().values() if worker["available_slots"]]
    assert sorted(worker["queues"]) == [[10, "default"], [30, "email"]]
    manager.settings["concurrent_jobs"] = "many"
    manager.write_conf()
    manager.signal(signal.SIGHUP)
    manager.wait_logged("the settings stay as they were.*concurrent_jobs")
    assert version() == 22


# -- the session ---------------------------------------------------------------------------------------------------------


def test_a17_the_inform_is_repeated_until_it_is_answered(new_router, ours, libzmq, ports, tmp_path, admin):
    backend = ports.address()
    deaf = libzmq("ROUTER", linger=0)
    deaf.bind(backend)
    ours(backend, 1)
    assert deaf.recv_multipart()[3] == b"INFORM"
    deaf.close(linger=0)
    router = new_router(backend_addr=backend)
    until(lambda: admin(router).slots() == 1, "registered with the real one", 20)


def test_a18_a_restarted_broker_has_our_job_manager_back(router, ours, client, admin):
    ours(router, 2)
    until(lambda: admin(router).slots() == 2, "two slots")
    router.restart()
    assert answer(client(router), "plain", "give_back", 1) == {"value": [1]}
    until(lambda: admin(router).slots() == 2, "two slots again")


def test_a23_queues_of_the_command_line(router, ours, admin):
    ours(router, 1, options=("-Q", "email", "sms", "-J", "3", "-n", "the-name"), default_queue_weight=15)
    boss = admin(router)
    until(lambda: boss.slots() == 3, "three slots")
    [(name, worker)] = boss.workers().items()
    assert (name, worker["queues"]) == ("the-name", [[15, "email"], [15, "sms"]])


def test_failover_to_the_other_broker(new_router, ours, client, ports, admin):
    nobody = ports.address()
    router = new_router()
    ours(nobody, 1, worker_addr_default=nobody, worker_addr_failover=router.backend)
    until(lambda: admin(router).slots() == 1, "registered with the second address", 20)
    assert answer(client(router), "plain", "give_back", 1) == {"value": [1]}


def test_a_result_waits_for_the_broker_to_come_back(router, ours, client, admin, tmp_path):
    """The broker is stopped, so that the job manager gives it up, while a job runs."""
    ours(router, 1, **{"heartbeat_timeout": 1, "heartbeat_liveness": 1})
    asking, boss = client(router), admin(router)
    until(lambda: boss.slots() == 1, "one slot")
    fifo = tmp_path / "fifo"
    msgid = ask(asking, "deaf", "read_fifo", str(fifo))
    until(fifo.exists, "the job runs")
    first = list(boss.workers())
    router.signal(signal.SIGSTOP)
    time.sleep(3)
    fifo.write_text("done")
    router.signal(signal.SIGCONT)
    assert asking.result(msgid, 20) == {"value": "done"}
    until(lambda: list(boss.workers()) != first or boss.slots() == 1, "it is back")


def test_c03_a_long_call_that_holds_the_lock_is_no_sign_of_death(router, ours, client, admin):
    """Ten heartbeat timeouts of silence in the job's process; liveness is the job manager's."""
    manager = ours(router, 1)
    asking = client(router)
    result = answer(asking, "deaf", "hold_the_lock", 8, timeout=30)
    assert result == {"value": None}
    assert not manager.logged("silent") and not router.logged("silent|worker lost")


def test_c04_a_stopped_job_manager_that_wakes_up_makes_no_second_result(new_router, ours, client, admin, marks):
    router = new_router(heartbeat_timeout=1)
    first = ours(router, 1, python=os.sys.executable)
    asking, boss = client(router), admin(router)
    until(lambda: boss.slots() == 1, "one slot")
    msgid = asking.run("slow", "guaranteed", 2, headers="reply-requested,guarantee")
    marks.wait("guaranteed:start")
    first.signal(signal.SIGSTOP)
    second = ours(router, 1, python=os.sys.executable)
    assert asking.result(msgid, 30) == {"value": "guaranteed"}
    first.signal(signal.SIGCONT)
    until(lambda: boss.slots() == 2, "both have their slot", 20)
    asking.read(0.5)
    assert len(asking.results[msgid]) == 1
    assert second.alive() and first.alive()


# -- emq worker --exec -----------------------------------------------------------------------------------------------------


@pytest.fixture
def exec_worker(tmp_path) -> Iterator[Callable[..., ExecWorker]]:
    made: list[ExecWorker] = []

    def make(where: Router | str, *options: str) -> ExecWorker:
        made.append(ExecWorker(tmp_path, where, *options))
        return made[-1]

    yield make
    for worker in made:
        worker.finish()


def test_a_program_for_each_job(router, exec_worker, client, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text('#!/bin/sh\necho "to the log" >&2\ncat\n')
    script.chmod(0o755)
    failing = "/bin/sh -c 'echo bad luck >&2; exit 4'"
    worker = exec_worker(
        router, "--exec", f"any.echo={script}", "--exec", f"any.fail={failing}", "--exec", "any.slow=sleep 600",
        "--exec", "any.text=/bin/echo hello", "--exec", "any.missing=/nowhere/x",
    )
    asking = client(router)

    def run(name: str, *args: Any, headers: str = "", **kwargs: Any) -> dict[str, Any]:
        headers = f"reply-requested,{headers}".strip(",")
        return asking.result(asking.request(call(name, *args, path="any", **kwargs), headers=headers), 20)

    value = run("echo", 1, "\u4e16", key=[None])["value"]
    assert (value["path"], value["callable"], value["args"], value["kwargs"]) == (
        "any", "echo", [1, "\u4e16"], {"key": [None]}
    )
    assert run("text") == {"value": "hello"}
    assert run("fail")["error"] == {
        "type": "ProgramFailed", "message": "the program ended with exit status 4: bad luck", "traceback": ""
    }
    assert run("unknown")["error"]["type"] == "UnknownCallable"
    assert "cannot run /nowhere/x" in run("missing")["error"]["message"]
    assert run("echo", 2**80)["value"]["args"] == [2**80], "passed on as it was written"
    assert run("slow", headers="timeout:1")["value"] == "TimeoutError"
    assert run("text") == {"value": "hello"}
    assert worker.logged("job: to the log")
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0


def test_a_killed_exec_worker_leaves_no_program(router, exec_worker, client, admin, tmp_path):
    given = tmp_path / "given"
    worker = exec_worker(router, "--exec", f"*=/bin/sh -c 'cat > {given}; sleep 600'", "-J", "2")
    boss = admin(router)
    until(lambda: boss.slots() == 2, "two slots")
    client(router).request(call("anything", path="any"))
    until(lambda: given.exists() and given.stat().st_size, "it has its job")
    processes = psutil.Process(worker.pid).children(recursive=True)
    assert len(processes) >= 2, "the guard and the program"
    worker.kill_alone()
    until(lambda: gone(processes), "no process is left")
