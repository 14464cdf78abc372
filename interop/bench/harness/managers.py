"""The job manager bench: short Python jobs through our router, under our job manager and under the original one."""

import json
import os
import sys

from . import build
from .processes import Failed, Process, free_endpoints, output_of
from .report import Figures, rotated

HERE = os.path.join(build.BENCH, "py")
COLUMNS = [("jobs_per_s", "jobs/s", 1), ("jobs", "jobs done", 0), ("p50_ms", "p50 ms", 3), ("p99_ms", "p99 ms", 3),
           ("manager_us", "manager CPU us/job", 1)]
PAIRS = [("ours", "python")]
#: name -> (how, jobs, seconds at most). The original is far from done when the time is over; its rate is that
#: of what it did until then.
SCENARIOS = {"10,000 short jobs, 4 slots": ("bulk", 10_000, 30), "one job at a time, 4 slots": ("single", 2_000, 15)}

CONF = """[global]
frontend_addr = {0}
backend_addr = {1}
administrative_addr = {2}
worker_addr = {1}
worker_addr_default = {1}
worker_addr_failover = {1}
hwm = 20000
concurrent_jobs = 4
max_job_count = 100000
"""


def contestants(emq, conf):
    python, router = build.python_router()
    theirs = os.path.join(os.path.dirname(router), "emq-jobmanager")
    return {
        "ours": [emq, "jobmanager", "-C", conf, "--python", python],
        "python": [python, "-u", theirs, "-C", conf],
    }


def one_run(emq, manager, scenario, directory):
    how, jobs, limit = scenario
    endpoints = free_endpoints(3)
    conf = os.path.join(directory, "managers.conf")
    with open(conf, "w") as out:
        out.write(CONF.format(*endpoints))
    python, _ = build.python_router()
    command = contestants(emq, conf)[manager]
    os.environ["PYTHONPATH"] = HERE
    log = os.path.join(directory, "{}.log")
    with Process([emq, "router", "-C", conf], log.format("router")) as router, \
            Process(command, log.format("manager")) as process:
        load = [python, os.path.join(HERE, "jobload.py"), endpoints[0], endpoints[2], how, str(jobs), str(limit)]
        before = process.cpu_seconds()
        try:
            text, _ = output_of(load, log.format("load"), needs=process)
        except Failed as failure:
            raise Failed(f"{failure}\n{process.tail()}\n{router.tail()}") from None
        measured = json.loads(text)
        measured["manager_us"] = (process.cpu_seconds() - before) * 1e6 / max(1, measured["jobs"])
        return measured


def bench(emq, only, rounds, directory, quick):
    """All scenarios, interleaved; the figures and the number of failed runs."""
    emq = emq or build.rust_program("emq", "eventmq")
    figures, failures = Figures(COLUMNS), 0
    for number in range(rounds):
        for name, (how, jobs, limit) in SCENARIOS.items():
            if only not in name:
                continue
            for manager in rotated(["ours", "python"], number):
                try:
                    measured = one_run(emq, manager, (how, jobs, 5 if quick else limit), directory)
                except Failed as failure:
                    failures += 1
                    measured = None
                    print(f"FAILED: {manager}: {name}: {failure}", file=sys.stderr)
                else:
                    print(f"round {number + 1}: {name}: {manager}: {measured}", file=sys.stderr)
                figures.add(name, manager, measured)
    return figures, failures
