"""Our client as a shell: emq submit, schedule, unschedule, publish, subscribe, cli and top, beside real peers."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

import pytest

from peers import Admin, Dealer, FakeRouter, hold
from programs import BIN, Emq, Program, Router, emq_binary, write_conf
from waits import SOON, stays, until

#: Exit codes of the commands that submit.
DONE, NOT_DONE, USAGE, JOB_FAILED, UNKNOWN = range(5)


@pytest.fixture
def emq(router) -> Emq:
    return Emq(router)


def lines(*jobs: dict) -> str:
    return "".join(json.dumps(job) + "\n" for job in jobs)


# -- submit ------------------------------------------------------------------------------------------------------------


def test_submit_and_results_by_an_original_job_manager(emq, router, jobmanager, marks):
    jobmanager(router)
    code, out, err = emq("submit", "jobs.mark", "--args", '["plain"]')
    assert (code, err, len(out.strip())) == (DONE, "", 36)
    marks.wait("plain", 15)
    assert emq("submit", "jobs.mark", "--args", '["h\u00e9\u4e16"]', "--wait") == (DONE, '"h\u00e9\u4e16"\n', "")
    method = ["jobs:Greeter.greet", "--class-args", '["hi"]', "--class-kwargs", '{"mark_of": "?"}']
    method += ["--args", '["you"]', "--kwargs", '{"times": 2}']
    assert emq("submit", *method, "--wait") == (DONE, '"hi you? hi you?"\n', "")
    code, [answer] = emq.json("submit", "jobs.mark", "--args", '["json"]', "--id", "my-id", "--wait")
    assert (code, answer) == (DONE, {"id": "my-id", "outcome": "returned", "value": "json"})
    code, [answer] = emq.json("submit", "jobs.for_ever", "--args", '["c06"]', "--job-timeout", "1", "--wait")
    assert (code, answer["outcome"], answer["error"]["type"]) == (JOB_FAILED, "failed", "TimeoutError")


def test_headers_and_frames_of_a_request(emq, router, worker):
    busy = worker(router, handler=hold)
    flags = ["--guarantee", "--retry-count", "3", "--job-timeout", "5", "--queue", "email"]
    assert emq("submit", "a.b:C.d", *flags, "--id", "frames")[0] == DONE
    [job] = busy.wait_jobs(1)
    assert (job.msgid, job.queue) == (b"frames", b"email")
    # The broker asks for the end of a guaranteed job itself.
    assert job.headers == b"guarantee,retry-count:3,timeout:5,reply-requested"
    call = {"callable": "d", "path": "a.b:C", "args": [], "kwargs": {}, "class_args": [], "class_kwargs": {}}
    assert json.loads(job.message) == ["run", call]


def test_a20_every_job_is_accepted_and_every_result_comes(emq, router, worker):
    worker(router, slots=1)
    jobs = [{"job": "m.f", "id": f"job-{n}"} for n in range(100)]
    code, answers = emq.json("submit", "-", "--wait", stdin=lines(*jobs))
    assert code == DONE
    assert {answer["outcome"] for answer in answers} == {"returned"}
    assert sorted((answer["line"], answer["id"]) for answer in answers) == [(n + 1, f"job-{n}") for n in range(100)]


def test_a21_what_a_full_queue_refuses_is_told(new_router, worker):
    router = new_router(hwm=5)
    worker(router, slots=0, queues=[(10, "email")])
    jobs = [{"job": "m.f"}] * 8
    code, answers = Emq(router).json("submit", "-", "--queue", "email", "--fail-when-full", stdin=lines(*jobs))
    outcomes = [answer["outcome"] for answer in answers]
    assert (code, outcomes.count("accepted"), outcomes.count("refused")) == (NOT_DONE, 5, 3)
    assert {answer["error"]["type"] for answer in answers if answer["outcome"] == "refused"} == {"QueueFull"}


def test_a_full_queue_is_waited_for(new_router, worker):
    router = new_router(hwm=5)
    fake = worker(router, slots=0, queues=[(10, "email")])
    jobs = [{"job": "m.f", "id": f"job-{n}"} for n in range(50)]
    process = Emq(router).start("submit", "-", "--queue", "email", "--json", stdin=lines(*jobs))
    with Admin(router.admin_address) as boss:
        until(lambda: boss.status()["refused"] > 0, "the queue is full")
        fake.ready()
        out, err = process.communicate(timeout=60)
    answers = [json.loads(line) for line in out.splitlines()]
    assert (process.returncode, err, {answer["outcome"] for answer in answers}) == (DONE, b"", {"accepted"})
    assert {job.msgid.decode() for job in fake.wait_jobs(45)} <= {answer["id"] for answer in answers}
    until(lambda: len({job.msgid for job in fake.jobs}) == len(fake.jobs) == 50, "each job once", 20)


def test_a21_without_a_broker_nothing_is_lost_silently(ports):
    nobody = ports.address()
    code, out, err = Emq()("submit", "m.f", "--broker", nobody, "--timeout", "0.3")
    assert (code, out) == (NOT_DONE, "")
    assert err == f"emq: not sent: no connection to {nobody} within 0.3 s\n"


def test_jobs_wait_for_a_broker_that_comes_later(tmp_path, ports, stack, worker):
    router = Router(tmp_path, ports)
    stack.callback(router.finish)
    process = Emq(router).start("submit", "-", "--timeout", "30", stdin=lines(*[{"job": "m.f"}] * 500))
    router.start()
    fake = worker(router, slots=8)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err, len(set(out.split()))) == (DONE, b"", 500)
    assert {job.msgid for job in fake.wait_jobs(500)} == set(out.split())


@pytest.mark.parametrize("guarantee", [True, False])
def test_a_broker_that_dies_before_it_accepts(tmp_path, ports, stack, worker, guarantee):
    """A job with a guarantee is sent again under its id; any other says that nobody knows."""
    router = Router(tmp_path, ports)
    stack.callback(router.finish)
    mute = FakeRouter(router.frontend)
    flags = ["--guarantee"] if guarantee else []
    process = Emq(router).start("submit", "m.f", "--id", "once", "--json", "--timeout", "30", *flags)
    heard = mute.receive()
    assert heard is not None and (heard[1].command, heard[1].msgid) == (b"REQUEST", b"once")
    mute.close()
    if guarantee:
        router.start()
        fake = worker(router)
    out, _ = process.communicate(timeout=40)
    answer = json.loads(out)
    if guarantee:
        assert (process.returncode, answer) == (DONE, {"id": "once", "outcome": "accepted"})
        assert [job.msgid for job in fake.wait_jobs(1)] == [b"once"]
    else:
        assert (process.returncode, answer["outcome"], answer["error"]["type"]) == (UNKNOWN, "unknown", "ConnectionLost")


def test_a_line_that_is_no_job_stops_no_other(emq, router, jobmanager, marks):
    jobmanager(router)
    stdin = lines({"job": "jobs.mark", "args": ["one"]}) + "\n{oops\n" + lines({"job": "jobs.mark", "args": ["two"]})
    code, out, err = emq("submit", "-", "--wait", stdin=stdin)
    assert (code, sorted(out.split())) == (USAGE, ['"one"', '"two"'])
    assert err.startswith("emq: line 3: no job: ") and err.count("\n") == 1


def test_a_progress_bar_on_a_terminal(router, worker):
    worker(router, slots=4)
    terminal = Terminal([emq_binary(), "submit", "-", "--wait"], Emq(router).env, stdin=lines(*[{"job": "m.f"}] * 50))
    seen = terminal.read_to_end()
    assert terminal.process.wait(SOON) == DONE
    assert "50 jobs done of 50 read" in seen and seen.count('"done"') == 50


# -- with the original router ------------------------------------------------------------------------------------------


def test_submit_to_the_original_router(py_router, jobmanager, marks):
    emq = Emq(py_router)
    jobmanager(py_router, jobs=1)
    with Admin(py_router.admin_address) as boss:
        until(lambda: boss.slots() == 1, "one slot", 20)
    code, out, _ = emq("submit", "jobs.mark", "--args", '["free"]')
    assert (code, len(out.strip())) == (DONE, 36), "it acknowledges what a worker is free for"
    marks.wait("free")
    # It never passes a result on, and what it keeps waiting it does not acknowledge.
    code, [answer] = emq.json("submit", "jobs.mark", "--args", '["no result"]', "--wait", "--timeout", "4")
    assert (code, answer["outcome"]) == (UNKNOWN, "unknown")
    marks.wait("no result")
    posted = lines(*[{"job": "jobs.mark", "args": [f"posted {n}"]} for n in range(3)])
    code, answers = emq.json("submit", "-", "--no-confirm", stdin=posted)
    assert (code, [answer["outcome"] for answer in answers]) == (DONE, ["sent"] * 3)
    marks.wait("posted 2", 20)


def test_the_original_router_without_a_worker(py_router):
    code, [answer] = Emq(py_router).json("submit", "m.f", "--timeout", "0.5")
    assert (code, answer["error"]["type"]) == (UNKNOWN, "Unconfirmed")


def test_cli_asks_the_original_router(py_router, jobmanager):
    emq = Emq(py_router)
    jobmanager(py_router)
    with Admin(py_router.admin_address) as boss:
        until(lambda: boss.slots() == 2, "two slots", 20)
    code, out, err = emq("cli", "show_workers")
    assert (code, err) == (0, "") and out.splitlines()[1].endswith("default:10"), out
    assert out.splitlines()[0].split() == ["WORKER", "STATE", "FREE", "RUNNING", "SENT", "HEARD", "QUEUES"]
    code, out, _ = emq("cli", "--json", "show_workers")
    assert [worker["available_slots"] for worker in json.loads(out)["connected_workers"].values()] == [2]
    assert emq("cli", "status")[1].startswith("QUEUE ")
    assert emq("cli", "shutdown")[:2] == (0, "the broker is stopping\n")


# -- schedules ---------------------------------------------------------------------------------------------------------


def test_schedules_of_an_original_scheduler(emq, router, jobmanager, scheduler, marks, admin):
    jobmanager(router)
    scheduler(router)
    boss = admin(router)
    until(boss.schedulers, "the scheduler is listed", 15)
    # It confirms nothing: that is success only where silence was said to be.
    tick = ["jobs.mark", "--args", '["tick"]', "--timeout", "0.5"]
    code, [answer] = emq.json("schedule", *tick, "--every", "1")
    assert (code, answer["outcome"], answer["error"]["type"]) == (UNKNOWN, "unknown", "Unconfirmed")
    marks.wait("tick", 15, count=3)
    # Our broker keeps a scheduler of its own for the time when no other is there, and that one does confirm.
    assert emq.json("unschedule", *tick) == (DONE, [{"outcome": "accepted"}])
    time.sleep(1.5)
    until(lambda: boss.in_flight() == boss.waiting() == 0, "nothing runs")
    count = len(marks.tags())
    stays(lambda: len(marks.tags()) == count, "no more runs", 2.5)


def test_a23_d09_d10_frames_of_a_schedule(emq, router, stack):
    fake = Dealer(router.frontend)
    stack.callback(fake.close)
    fake.send("INFORM", "", "scheduler")
    until(lambda: (answer := fake.receive(0.5)) and answer.command == b"ACK", "ACK")

    def scheduled(*arguments: str) -> tuple[bytes, ...]:
        assert emq(*arguments, "--no-confirm", "--timeout", "0.3")[0] == DONE
        while (message := fake.receive()) is not None and message.command == b"HEARTBEAT":
            fake.send("HEARTBEAT", "1")
        assert message is not None and message.command.decode() == arguments[0].upper()
        return message.body

    queue, headers, interval, message, cron = scheduled("schedule", "m.f", "--cron", "0 6 * * *", "--queue", "email")
    assert (queue, headers, interval, cron) == (b"email", b"", b"-1", b"0 6 * * *")
    call = json.loads(message)[1]
    identity = {key: call[key] for key in ("args", "callable", "class_args", "class_kwargs", "kwargs", "path")}
    digest = hashlib.sha1(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    assert digest == "234b586af79d27ef18e00cabd07abd5425e595ff"
    body = scheduled("schedule", "m.f", "--every", "60", "--run-count", "3", "--later", "--guarantee")
    assert body == (b"default", b"nohaste,run_count:3,guarantee", b"60", message, b"")
    assert scheduled("unschedule", "m.f")[3] == message


def test_a_schedule_nobody_takes_is_refused(new_router):
    emq = Emq(new_router(builtin_scheduler="false"))
    code, [answer] = emq.json("schedule", "m.f", "--every", "60")
    assert (code, answer["outcome"], answer["error"]["type"]) == (NOT_DONE, "refused", "NoScheduler")


# -- publish and subscribe ---------------------------------------------------------------------------------------------


@pytest.fixture
def py_pubsub(tmp_path, ports, stack) -> Emq:
    """The original device, and our program set to its addresses."""
    incoming, outgoing = ports.address(), ports.address()
    settings = {"publisher_incoming_addr": incoming, "publisher_outgoing_addr": outgoing}
    conf = write_conf(tmp_path / "pubsub.conf", **{"global": settings, "publisher": {}})
    argv = [sys.executable, "-u", "-B", str(BIN / "emq-pubsub")]
    device = Program("emq-pubsub", argv, tmp_path / "pubsub.log", {"EVENTMQ_CONFIG_FILE": str(conf)})
    device.start()
    stack.callback(device.kill_group)
    names = {"EVENTMQ_PUBLISHER_INCOMING_ADDR": incoming, "EVENTMQ_PUBLISHER_OUTGOING_ADDR": outgoing}
    return Emq(**names)


def test_a25_publish_through_the_original_device(py_pubsub, libzmq, stack):
    sub = libzmq("SUB", subscribe=b"orders.")
    sub.connect(py_pubsub.env["EVENTMQ_PUBLISHER_OUTGOING_ADDR"])
    ours = py_pubsub.start("subscribe", "orders.", "sync", "--count", "4", "--timeout", "40", "--json")
    stack.callback(ours.kill)
    # A subscription is there once something comes through.
    sync = libzmq("SUB", subscribe=b"sync")
    sync.connect(py_pubsub.env["EVENTMQ_PUBLISHER_OUTGOING_ADDR"])
    time.sleep(1)
    assert py_pubsub("publish", "sync", "0")[0] == 0
    assert py_pubsub("publish", "orders.new", '{"id": 1}') == (0, "", "")
    assert py_pubsub("publish", "other", "not for us")[0] == 0
    assert py_pubsub("publish", "orders.lines", stdin="h\u00e9\nlast\n")[0] == 0
    seen = [sub.recv_multipart() for _ in range(3)]
    assert seen == [[b"orders.new", b'{"id": 1}'], [b"orders.lines", "h\u00e9".encode()], [b"orders.lines", b"last"]]
    out, _ = ours.communicate(timeout=50)
    expected = [("sync", "0"), ("orders.new", '{"id": 1}'), ("orders.lines", "h\u00e9"), ("orders.lines", "last")]
    assert [tuple(json.loads(line).values()) for line in out.decode().splitlines()] == expected
    assert ours.returncode == 0


def test_subscribe_to_a_plain_publisher(libzmq, ports):
    address = ports.address()
    publisher = libzmq("XPUB")
    publisher.bind(address)
    process = Emq().start("subscribe", "--addr", address, "--count", "2")
    assert publisher.recv() == b"\x01"
    publisher.send_multipart([b"a", b"\xff\x00"])
    publisher.send_multipart([b"b", b"text"])
    assert process.communicate(timeout=20)[0] == b"a\t\xff\x00\nb\ttext\n"
    assert Emq()("subscribe", "--addr", address, "--count", "1", "--timeout", "0.2")[0] == UNKNOWN


def test_publish_says_that_no_device_is_there(ports):
    nobody = ports.address()
    code, _, err = Emq()("publish", "t", "m", "--addr", nobody, "--timeout", "0.3")
    assert (code, err) == (1, f"emq: no pub/sub device at {nobody} within 0.3 s\n")


# -- the shell ---------------------------------------------------------------------------------------------------------


class Terminal:
    """A program on a terminal of 80 columns; its standard input may be something else."""

    def __init__(self, argv: list[str], env: dict[str, str], stdin: str | None = None, columns: int = 80) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        env = {**env, "TERM": "xterm", "NO_COLOR": "1"}
        source = slave if stdin is None else subprocess.PIPE
        self.process = subprocess.Popen(
            argv, stdin=source, stdout=slave, stderr=slave, env=env, start_new_session=True, close_fds=True
        )
        os.close(slave)
        if self.process.stdin is not None:
            self.process.stdin.write((stdin or "").encode())
            self.process.stdin.close()
        self.seen = ""

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def wait(self, text: str, timeout: float = SOON) -> str:
        """Reads until this was shown, and returns what was shown up to then."""
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} was not shown within {timeout:g} s but {self.seen!r}"
            self.seen += os.read(self.master, 65536).decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def read_to_end(self, timeout: float = SOON) -> str:
        deadline = time.monotonic() + timeout
        while select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                piece = os.read(self.master, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            self.seen += piece.decode(errors="replace")
        return self.seen

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(SOON)
        os.close(self.master)


def test_a23_a_shell_of_lines(router, tmp_path):
    """The same words as in the original; connecting twice and connecting again work as the help says."""
    link = tmp_path / "emq-cli"
    link.symlink_to(emq_binary())
    script = f"""status
connect {router.admin_address}
disconnect
status
connect {router.admin_address}
show_workers
?
quit
status
"""
    done = subprocess.run(
        [str(link), "-a", router.admin_address], input=script.encode(), capture_output=True, timeout=30, check=False
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 1, "a line that failed is told to scripts"
    assert err.splitlines() == [
        f"emq: already connected to {router.admin_address}; disconnect first",
        "emq: not connected; connect ADDRESS first",
    ]
    words = [line.split()[0] for line in out.splitlines() if line]
    order = ["QUEUE", "accepted", "version", "Closing", "Connecting", "WORKER", "connect", "disconnect", "status"]
    assert [word for word in words if word in order] == order, out


def test_a_shell_on_a_terminal(router, tmp_path, stack):
    env = {**Emq(router).env, "XDG_STATE_HOME": str(tmp_path)}
    terminal = Terminal([emq_binary(), "cli"], env)
    stack.callback(terminal.close)
    terminal.wait("> ")
    terminal.type("show_w\t\r")
    terminal.wait("QUEUES")
    terminal.wait("> ")
    terminal.type("stat\x03")  # Ctrl-C throws the line away, not the session
    terminal.wait("stat")
    terminal.wait("> ")
    terminal.type("\x1b[A\r")  # the line before
    terminal.wait("QUEUES")
    terminal.wait("> ")
    terminal.type("\x04")
    terminal.read_to_end()
    assert terminal.process.wait(SOON) == 0
    assert "show_workers" in (tmp_path / "emq" / "cli_history").read_text()


@pytest.mark.parametrize("columns", [80, 200])
def test_top_on_a_terminal(router, worker, stack, columns):
    fake = worker(router, identity=b"worker-of-the-test")
    terminal = Terminal([emq_binary(), "top", "--interval", "0.2"], Emq(router).env, columns=columns)
    stack.callback(terminal.close)
    terminal.wait("QUEUE")
    terminal.wait(fake.identity.decode()[:8] if columns < 120 else fake.identity.decode())
    router.expected_end = True
    router.kill()
    terminal.wait("no answer", 15)
    terminal.type("q")
    terminal.read_to_end()
    assert terminal.process.wait(SOON) == 0


def test_cli_without_a_broker(ports):
    code, out, err = Emq()("cli", "--addr", ports.address(), "--timeout", "0.2", "status")
    assert (code, out) == (1, "") and err.startswith("emq: no answer within 0.2 s")


def test_a_connection_that_is_cut_while_the_job_runs(new_router, proxy, worker):
    """The client comes back as the same peer and sends the job again; the broker still has it and runs it once."""
    router = new_router(log_level="debug")
    fake = worker(router, handler=hold)
    between = proxy(router.frontend)
    process = Emq().start("submit", "m.f", "--guarantee", "--wait", "--broker", between.address, "--timeout", "40")
    [job] = fake.wait_jobs(1)
    between.cut()
    between.mend()
    router.wait_logged("job sent again while it is held", 20)
    fake.reply(job, "late")
    out, err = process.communicate(timeout=50)
    assert (process.returncode, out, err, len(fake.jobs)) == (DONE, b'"late"\n', b"", 1)
