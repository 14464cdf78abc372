"""The socket bench: DEALER against ROUTER, both ends of the same library, ours and libzmq."""

import json
import os
import sys
import time

from . import build
from .processes import Failed, Process, free_endpoints, output_of
from .report import Figures, rotated

COLUMNS = [("msgs_per_s", "msgs/s", 0), ("dealer_us", "DEALER CPU us/msg", 2), ("router_us", "ROUTER CPU us/msg", 2),
           ("p50_us", "p50 us", 1), ("p99_us", "p99 us", 1)]
PAIRS = [("ours", "libzmq")]

# Name -> (frame sizes, in flight, pinned to one core)
SCENARIOS = {
    "1,000 in flight, 4 frames (0, 8, 8, 128 B), any core": ("0,8,8,128", 1000, False),
    "1,000 in flight, 4 frames (0, 8, 8, 128 B), one core": ("0,8,8,128", 1000, True),
    "one at a time, 64 B, any core": ("64", 1, False),
    "one at a time, 64 B, one core": ("64", 1, True),
}


def one_run(program, scenario, seconds, core, directory):
    """A ROUTER process, a DEALER process; the figures."""
    sizes, in_flight, pinned = scenario
    core = core if pinned else None
    endpoint, = free_endpoints(1)
    with Process([program, "router", endpoint], os.path.join(directory, "router.log"), core) as router:
        time.sleep(0.1)  # its start is not part of the measurement
        router.check()
        before = router.cpu_seconds()
        dealer = [program, "dealer", endpoint, sizes, str(in_flight), str(seconds)]
        text, dealer_cpu = output_of(dealer, os.path.join(directory, "dealer.log"), core, needs=router)
        router.check()
        router_cpu = router.cpu_seconds() - before
    measured = json.loads(text)
    per_message = 1e6 / measured["messages"]
    return measured | {"dealer_us": dealer_cpu * per_message, "router_us": router_cpu * per_message}


def bench(only, rounds, seconds, core, directory):
    """All scenarios, interleaved; the figures and the number of failed runs."""
    programs = {"ours": build.rust_program("zmtp-bench", "interop"), "libzmq": build.c_programs(["echo"])["echo"]}
    figures, failures = Figures(COLUMNS), 0
    for number in range(rounds):
        for scenario, shape in SCENARIOS.items():
            if only not in scenario:
                continue
            for name in rotated(programs, number):
                try:
                    measured = one_run(programs[name], shape, seconds, core, directory)
                except Failed as failure:
                    failures += 1
                    measured = None
                    print(f"FAILED: {name}: {scenario}: {failure}", file=sys.stderr)
                else:
                    print(f"round {number + 1}: {scenario}: {name}: {measured['msgs_per_s']:,.0f}/s", file=sys.stderr)
                figures.add(scenario, name, measured)
    return figures, failures
