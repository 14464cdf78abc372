"""The socket bench: both ends of the same library, in two processes; ours, libzmq and other Rust crates."""

import json
import os
import subprocess
import sys
import time

from . import build
from .processes import Failed, Process, free_endpoints, output_of
from .report import Figures, rotated

CONTESTANTS = ["ours", "libzmq", "zeromq", "rzmq", "omq"]
COLUMNS = [("msgs_per_s", "msgs/s", 0), ("server_us", "binding end CPU us/msg", 3),
           ("client_us", "connecting end CPU us/msg", 3), ("p50_us", "p50 us", 1), ("p99_us", "p99 us", 1)]
FOUR_FRAMES = "0,8,8,128"


class Echo:
    """DEALERs against a ROUTER."""

    needs = None

    def __init__(self, sizes, in_flight, dealers=1, one_core=False):
        self.sizes, self.in_flight, self.dealers, self.one_core = sizes, in_flight, dealers, one_core

    def commands(self, seconds):
        """The arguments of the binding process and of the connecting one."""
        endpoint, = free_endpoints(1)
        return ["router", endpoint], ["dealer", endpoint, self.dealers, self.sizes, self.in_flight, seconds]


class Stream:
    """PUSH to PULL, or PUB to SUBs; the sender binds."""

    one_core = False

    def __init__(self, size, subscribers=None, curve=False):
        self.size, self.subscribers, self.needs = size, subscribers, "curve" if curve else None

    def commands(self, seconds):
        """The arguments of the binding process and of the connecting one."""
        endpoint, control = free_endpoints(2)
        common = [endpoint, control.removeprefix("tcp://"), self.size]
        if self.subscribers:
            return ["pub", *common, seconds], ["sub", *common, self.subscribers]
        if not self.needs:
            return ["push", *common, seconds], ["pull", *common]
        server, client = build.curve_keys(), build.curve_keys()
        return ["push", *common, seconds, *server], ["pull", *common, server[0], *client]


SCENARIOS = {
    "DEALER/ROUTER, one at a time, 64 B, any core": Echo("64", 1),
    "DEALER/ROUTER, one at a time, 64 B, one core": Echo("64", 1, one_core=True),
    "DEALER/ROUTER, 1,000 in flight, 4 frames (0, 8, 8, 128 B), any core": Echo(FOUR_FRAMES, 1000),
    "DEALER/ROUTER, 1,000 in flight, 4 frames (0, 8, 8, 128 B), one core": Echo(FOUR_FRAMES, 1000, one_core=True),
    "50 DEALERs to one ROUTER, 20 in flight each, 4 frames (0, 8, 8, 128 B)": Echo(FOUR_FRAMES, 20, dealers=50),
    "PUSH/PULL, 16 B": Stream(16),
    "PUSH/PULL, 256 B": Stream(256),
    "PUSH/PULL, 4 KiB": Stream(4 << 10),
    "PUSH/PULL, 64 KiB": Stream(64 << 10),
    "PUB to 1 SUB, 64 B, messages delivered": Stream(64, subscribers=1),
    "PUB to 10 SUBs, 64 B, messages delivered": Stream(64, subscribers=10),
    "PUB to 100 SUBs, 64 B, messages delivered": Stream(64, subscribers=100),
    "PUSH/PULL under CURVE, 256 B": Stream(256, curve=True),
    "PUSH/PULL under CURVE, 64 KiB": Stream(64 << 10, curve=True),
}


def pairs(names):
    """Ratios of ours to everybody else, and of the others to libzmq."""
    others = [name for name in names if name != "ours"]
    return [("ours", name) for name in others] + [(name, "libzmq") for name in others if name != "libzmq"]


def programs(names):
    """Name -> (program, what it can do); or the reason why there is none."""
    def made(name):
        if name == "ours":
            path = build.rust_program("zmtp-bench", "interop")
        elif name == "libzmq":
            path = build.c_programs(["roles"])["roles"]
        else:
            try:
                path = build.foreign_crate(name)
            except Failed as failure:
                print(failure, file=sys.stderr)
                return "does not build here"
        features = subprocess.run([path, "features"], check=True, stdout=subprocess.PIPE, text=True).stdout
        return path, features.split()
    return {name: made(name) for name in names}


def one_run(program, scenario, seconds, core, directory):
    """A process that binds, a process that connects and measures; the figures."""
    core = core if scenario.one_core else None
    server, client = ([program, *map(str, arguments)] for arguments in scenario.commands(seconds))
    with Process(server, os.path.join(directory, "server.log"), core) as process:
        time.sleep(0.1)  # its start is not part of the measurement
        process.check()
        before = process.cpu_seconds()
        try:
            text, client_cpu = output_of(client, os.path.join(directory, "client.log"), core, needs=process)
        except Failed as failure:
            raise Failed(f"{failure}\n{process.tail()}".strip()) from None
        process.check()
        server_cpu = process.cpu_seconds() - before
    measured = json.loads(text)
    per_message = 1e6 / measured["messages"]
    return measured | {"client_us": client_cpu * per_message, "server_us": server_cpu * per_message}


def bench(names, only, rounds, seconds, core, directory):
    """All scenarios, interleaved; the figures and the number of failed runs."""
    contestants = programs(names)
    figures, failures = Figures(COLUMNS), 0
    for number in range(rounds):
        for title, scenario in SCENARIOS.items():
            if only not in title:
                continue
            for name in rotated(contestants, number):
                if isinstance(contestants[name], str):
                    figures.explain(title, name, contestants[name])
                    continue
                program, features = contestants[name]
                if scenario.needs and scenario.needs not in features:
                    figures.explain(title, name, f"has no {scenario.needs.upper()}")
                    continue
                try:
                    measured = one_run(program, scenario, seconds, core, directory)
                except Failed as failure:
                    failures += 1
                    measured = None
                    print(f"FAILED: {name}: {title}: {failure}", file=sys.stderr)
                else:
                    print(f"round {number + 1}: {title}: {name}: {measured['msgs_per_s']:,.0f}/s", file=sys.stderr)
                figures.add(title, name, measured)
    return figures, failures
