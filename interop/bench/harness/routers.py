"""The router bench: one libzmq load driver against several eMQP routers, a fresh router process for every run."""

import json
import os
import sys

from . import build
from .processes import Failed, Process, free_endpoints, output_of
from .report import Figures, rotated

# Jobs the driver keeps outstanding in bulk runs: enough to fill every slot and leave a queue in the router, and half of
# what our router and the Python one let wait in a queue by default (hwm = 10000), so nothing is ever refused.
WINDOW = 5000

COLUMNS = [("jobs_per_s", "jobs/s", 0), ("router_us", "router CPU us/job", 2), ("driver_us", "driver CPU us/job", 2),
           ("peak_mib", "router peak MiB", 1), ("p50_us", "p50 us", 1), ("p99_us", "p99 us", 1)]
PAIRS = [("ours", "c"), ("ours", "python")]

CONF = """[global]
frontend_addr = {0}
backend_addr = {1}
administrative_addr = {2}
"""


def scenarios():
    """Name -> (workers, slots, payload bytes, window, pinned to one core)."""
    found = {}
    for payload, size in ((100, "100 B"), (10240, "10 KiB")):
        for workers in (1, 4, 16):
            found[f"bulk, {workers} workers x 64 slots, {size}".replace("1 workers", "1 worker")] = (
                workers, 64, payload, WINDOW, False)
    found["one at a time, 100 B, any core"] = (1, 1, 100, 1, False)
    found["one at a time, 100 B, all on one core"] = (1, 1, 100, 1, True)
    return found


def contestants(names, emq, directory):
    """Name -> (function of the endpoints giving the router's command, which jobs it acknowledges)."""
    def configured(command):
        def at(endpoints):
            path = os.path.join(directory, "eventmq.conf")
            with open(path, "w") as conf:
                conf.write(CONF.format(*endpoints))
            return [*command, "-C", path]
        return at

    made = {}
    if "ours" in names:
        made["ours"] = configured([emq or build.rust_program("emq", "eventmq"), "router"]), "every"
    if "c" in names:
        crouter = build.c_programs(["crouter"])["crouter"]
        made["c"] = lambda endpoints: [crouter, *endpoints[:2]], "every"
    if "python" in names:
        # It acknowledges only the jobs that it dispatches at once.
        made["python"] = configured(build.python_router()), "some"
    return made


def one_run(command_at, acks, scenario, seconds, core, directory):
    """One router, one load; the figures."""
    workers, slots, payload, window, pinned = scenario
    core = core if pinned else None
    endpoints = free_endpoints(3)
    driver = os.path.join(build.target_directory(), "bench", "emqload")
    with Process(command_at(endpoints), os.path.join(directory, "router.log"), core) as router:
        load = [driver, *endpoints[:2], *map(str, (workers, slots, payload, window, seconds)), acks, str(router.pid)]
        try:
            text, _ = output_of(load, os.path.join(directory, "driver.log"), core, needs=router)
        except Failed as failure:
            router.check()
            raise Failed(f"{failure}\n{router.tail()}".strip()) from None
        router.check()
        return json.loads(text) | {"peak_mib": router.peak_mib()}


def bench(names, emq, only, rounds, seconds, core, directory):
    """All scenarios, interleaved; the figures and the number of failed runs."""
    build.c_programs(["emqload"])
    routers = contestants(names, emq, directory)
    figures, failures = Figures(COLUMNS), 0
    for number in range(rounds):
        for scenario, shape in scenarios().items():
            if only not in scenario:
                continue
            for name in rotated(routers, number):
                try:
                    measured = one_run(*routers[name], shape, seconds, core, directory)
                except Failed as failure:
                    failures += 1
                    measured = None
                    print(f"FAILED: {name}: {scenario}: {failure}", file=sys.stderr)
                else:
                    print(f"round {number + 1}: {scenario}: {name}: {measured['jobs']} jobs, "
                          f"{measured['jobs_per_s']:,.0f}/s, {measured['router_us']:.2f} us", file=sys.stderr)
                figures.add(scenario, name, measured)
    return figures, failures
