"""The mdp bench: our MDP broker beside the fastest one that libzmq allows, a fresh broker process for every run."""

import json
import os
import sys
import time
from contextlib import ExitStack

from . import build
from .processes import Failed, Process, free_endpoints, output_of
from .report import Figures, rotated

COLUMNS = [("requests_per_s", "requests/s", 0), ("broker_us", "broker CPU us/request", 2), ("p50_us", "p50 us", 1),
           ("p99_us", "p99 us", 1)]
PAIRS = [("ours", "c")]

# Name -> (peers, workers, requests in flight, requests).
SCENARIOS = {
    "pipelined, 4 workers, our peers": ("emq", 4, 1000, 100_000),
    "pipelined, 4 workers, libzmq peers": ("libzmq", 4, 1000, 100_000),
    "one at a time, 1 worker, our peers": ("emq", 1, 1, 10_000),
    "one at a time, 1 worker, libzmq peers": ("libzmq", 1, 1, 10_000),
}
PAYLOAD = 100


def with_libzmq(endpoint, broker, workers, window, count, directory):
    """One client and all workers in one thread of one process."""
    driver = os.path.join(build.target_directory(), "bench", "mdpload")
    load = [driver, endpoint, *map(str, (workers, PAYLOAD, window, count, broker.pid))]
    return json.loads(output_of(load, os.path.join(directory, "driver.log"), needs=broker)[0])


def with_emq(emq, endpoint, broker, workers, window, count, directory):
    """`emq mdp client` and as many `emq mdp worker`, a process each."""
    with ExitStack() as running:
        for number in range(workers):
            command = [emq, "mdp", "worker", "echo", "--addr", endpoint, "--heartbeat", "30"]
            running.enter_context(Process(command, os.path.join(directory, f"worker-{number}.log")))
        time.sleep(0.5)  # every worker is registered
        client = [emq, "mdp", "client", "echo", "--addr", endpoint, "--size", str(PAYLOAD), "--count", str(count),
                  "--timeout", "20", "--json", *(["--pipeline", str(window)] if window > 1 else [])]
        before = broker.cpu_seconds()
        measured = json.loads(output_of(client, os.path.join(directory, "client.log"), needs=broker)[0])
        used = broker.cpu_seconds() - before
    return {"requests_per_s": measured["requests_per_second"], "broker_us": used / count * 1e6,
            "p50_us": measured["p50_us"], "p99_us": measured["p99_us"]}


def bench(emq, only, rounds, directory):
    """All scenarios, interleaved; the figures and the number of failed runs."""
    programs = build.c_programs(["mdpbroker", "mdpload"])
    emq = emq or build.rust_program("emq", "eventmq")
    # The C broker sends no heartbeats, so ours sends none during a run either.
    brokers = {"ours": lambda endpoint: [emq, "mdp", "broker", "--bind", endpoint, "--heartbeat", "30"],
               "c": lambda endpoint: [programs["mdpbroker"], endpoint]}
    figures, failures = Figures(COLUMNS), 0
    for number in range(rounds):
        for scenario, (peers, *shape) in SCENARIOS.items():
            if only not in scenario:
                continue
            for name in rotated(brokers, number):
                endpoint = free_endpoints(1)[0]
                try:
                    with Process(brokers[name](endpoint), os.path.join(directory, "broker.log")) as broker:
                        if peers == "emq":
                            measured = with_emq(emq, endpoint, broker, *shape, directory)
                        else:
                            measured = with_libzmq(endpoint, broker, *shape, directory)
                except Failed as failure:
                    failures += 1
                    measured = None
                    print(f"FAILED: {name}: {scenario}: {failure}", file=sys.stderr)
                else:
                    print(f"round {number + 1}: {scenario}: {name}: {measured['requests_per_s']:,.0f}/s, "
                          f"{measured['broker_us']:.2f} us", file=sys.stderr)
                figures.add(scenario, name, measured)
    return figures, failures
