"""Jobs from end to end: the original client, job manager, scheduler and shell through the broker."""

from __future__ import annotations

import json
import uuid

import pytest

from waits import until


def test_delay_runs_the_job(router, jobmanager, py_client, marks):
    jobmanager(router)
    [msgid] = py_client(router)("delay", "mark", "hello")
    assert uuid.UUID(msgid)
    marks.wait("hello")
    assert marks.count() == {"hello": 1}


def test_reply_requested_brings_acceptance_then_result(router, jobmanager, py_client, admin):
    jobmanager(router)
    boss = admin(router)
    until(lambda: boss.slots() == 2, "two slots")
    msgid, acceptance, result = py_client(router)("defer", "mark", "asked", reply_requested=True, replies=2)
    assert acceptance[:3] == ["", "eMQP/1.0", "REPLY"] and acceptance[4:] == [msgid]
    assert result[:3] == ["", "eMQP/1.0", "REPLY"] and result[5:] == [msgid]
    assert json.loads(result[4]) == {"value": "asked"}


def test_a_job_sent_before_any_worker_waits_for_one(router, jobmanager, py_client, client, marks):
    asking = client(router)
    msgid = asking.run("mark", "early", headers="reply-requested")
    asking.accepted(msgid)
    py_client(router)("delay", "mark", "early too")
    jobmanager(router)
    assert asking.result(msgid, 15) == {"value": "early"}
    marks.wait("early too")


def test_a_method_of_a_class(router, jobmanager, client):
    jobmanager(router)
    asking = client(router)
    what = {"path": "jobs:Greeter", "callable": "greet", "args": ["you"], "kwargs": {"times": 2}}
    what |= {"class_args": ["hi"], "class_kwargs": {"mark_of": "?"}}
    msgid = asking.request(json.dumps(["run", what]).encode(), headers="reply-requested")
    assert asking.result(msgid, 15) == {"value": "hi you? hi you?"}


@pytest.mark.parametrize(
    ("kind", "value"),
    [("none", None), ("unicode", "h\u00e9\u4e16\U0001f600"), ("dict", {"value": {"value": 1}}), ("bytes", "not JSON")],
)
def test_odd_return_values(router, jobmanager, client, kind, value):
    jobmanager(router)
    asking = client(router)
    result = asking.result(asking.run("odd", kind, headers="reply-requested"), 15)
    if kind == "bytes":
        assert "not JSON serializable" in result["value"]
    else:
        assert result == {"value": value}


@pytest.mark.parametrize("job", ["leave", "for_ever"])
def test_a_job_that_never_answers_fails_at_its_timeout(router, jobmanager, client, marks, job):
    """sys.exit ends the thread that runs jobs, an endless loop keeps it: either way only the timeout tells."""
    jobmanager(router)
    asking = client(router)
    stuck = asking.run(job, "stuck", headers="reply-requested,timeout:1")
    result = asking.result(stuck, 20)
    assert result["value"] == "TimeoutError" or "error" in result
    fine = asking.run("mark", "fine", headers="reply-requested")
    assert asking.result(fine, 10) == {"value": "fine"}
    assert marks.count() == {"stuck": 1, "fine": 1}
