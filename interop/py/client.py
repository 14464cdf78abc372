"""Uses the original client library as a program: client.py ACTION '[args, kwargs]', a JSON value a line on stdout."""

import gc
import json
import os
import sys
import time

import jobs
import zmq
from eventmq import schedule
from eventmq.client.messages import defer_job
from eventmq.client.messages import schedule as schedule_message
from eventmq.sender import Sender


def say(value):
    print(json.dumps(value), flush=True)


def connected():
    sender = Sender()
    sender.connect(os.environ["EMQ_BROKER_ADDR"])
    return sender


def delay(name, *args, **options):
    """`job.delay()`, as often as asked, as an application does it: nothing waits for an answer."""
    function = getattr(jobs, name)
    for _ in range(options.get("count", 1)):
        say(function.delay(*args))


def burst(name, count, **options):
    """Many jobs over one socket of the library, tagged by their number; the socket stays open until stdin ends. (Closed
    with acceptances unread, it would make the kernel drop what is not sent yet: that is libzmq's loss, not a broker's.)"""
    sender = connected()
    for number in range(count):
        say(defer_job(sender, "jobs." + name, args=[str(number)], **options))
    sys.stdin.read()


def defer(name, *args, **options):
    """defer_job with options, then the frames that come back until `replies` of them are there."""
    replies = options.pop("replies", 0)
    sender = connected()
    say(defer_job(sender, name if "." in name else "jobs." + name, args=args, **options))
    deadline = time.monotonic() + 20
    while replies and time.monotonic() < deadline:
        if sender.zsocket.poll(100):
            say(sender.recv_multipart())
            replies -= 1


def start_schedule(name, *args, **options):
    say(schedule(getattr(jobs, name), args=args, **options))


def stop_schedule(name, *args, **options):
    """What `unschedule` is meant to do; its own code connects twice and raises."""
    say(schedule_message(connected(), getattr(jobs, name), args=args, unschedule=True, **options))


ACTIONS = {f.__name__: f for f in (delay, burst, defer, start_schedule, stop_schedule)}

if __name__ == "__main__":
    arguments, keywords = json.loads(sys.argv[2])
    ACTIONS[sys.argv[1]](*arguments, **keywords)
    # As in an application that lives on: what a dropped socket still holds is sent, however long that takes.
    gc.collect()
    zmq.Context.instance().term()
