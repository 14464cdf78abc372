"""Submits jobs to a broker and waits for their results: jobload.py FRONTEND ADMIN bulk|single JOBS LIMIT_SECONDS.

Begins when the broker shows 4 free slots. `bulk` sends all jobs at once, `single` one after the other. Ends when all results
are there or the time is over, and prints what was done in JSON. Every result is checked.
"""

import json
import statistics
import sys
import time
import uuid

import zmq

SLOTS = 4


def dealer(address):
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.routing_id = str(uuid.uuid4()).encode()
    socket.sndhwm = socket.rcvhwm = 0
    socket.linger = 0
    socket.connect(address)
    return socket


def send(socket, command, *body):
    msgid = str(uuid.uuid4()).encode()
    socket.send_multipart([b"", b"eMQP/1.0", command, msgid, *body])
    return msgid


def await_slots(address):
    admin = dealer(address)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        send(admin, b"ROUTER_SHOW_WORKERS")
        if admin.poll(1000):
            workers = json.loads(admin.recv_multipart()[4])["connected_workers"].values()
            if sum(worker["available_slots"] for worker in workers) == SLOTS:
                return
        time.sleep(0.02)
    sys.exit("no job manager with 4 free slots within 30 s")


def submit(socket, number):
    what = {"path": "bench_jobs", "callable": "short", "args": [number], "kwargs": {}, "class_args": [],
            "class_kwargs": {}}
    return send(socket, b"REQUEST", b"default", b"reply-requested", json.dumps(["run", what]).encode())


def result(socket, deadline):
    """The next result: its message id and value. None when the time is over."""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not socket.poll(left * 1000):
            return None
        frames = socket.recv_multipart()
        if len(frames) == 6:
            return frames[5], json.loads(frames[4])


def bulk(socket, jobs, limit):
    begin = time.monotonic()
    numbers = {submit(socket, number): number for number in range(jobs)}
    done, end = 0, begin
    while numbers:
        got = result(socket, begin + limit)
        if got is None:
            break
        msgid, value = got
        if value != {"value": numbers.pop(msgid)}:
            sys.exit(f"a wrong result: {value}")
        done, end = done + 1, time.monotonic()
    return {"jobs": done, "seconds": end - begin, "jobs_per_s": done / max(end - begin, 1e-9)}


def single(socket, jobs, limit):
    begin = time.monotonic()
    times = []
    while len(times) < jobs and time.monotonic() - begin < limit:
        start = time.monotonic()
        msgid = submit(socket, len(times))
        got = result(socket, begin + limit + 10)
        if got is None or got[0] != msgid or got[1] != {"value": len(times)}:
            sys.exit(f"a wrong result or none: {got}")
        times.append((time.monotonic() - start) * 1e3)
    times.sort()
    return {"jobs": len(times), "p50_ms": statistics.median(times), "p99_ms": times[int(len(times) * 0.99)]}


def main():
    frontend, admin, how, jobs, limit = sys.argv[1:]
    await_slots(admin)
    socket = dealer(frontend)
    print(json.dumps({"bulk": bulk, "single": single}[how](socket, int(jobs), float(limit))))


main()
