"""Jobs that the suite has real job managers run. Effects go to the file named by EMQ_MARKS, a line each."""

import ctypes
import os
import sys
import time

from eventmq import job


def _mark(text):
    line = "{}\t{}\t{:.6f}\n".format(text, os.getpid(), time.time()).encode()
    handle = os.open(os.environ["EMQ_MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


@job
def mark(tag):
    _mark(tag)
    return tag


@job
def slow(tag, seconds):
    _mark("{}:start".format(tag))
    time.sleep(seconds)
    _mark("{}:end".format(tag))
    return tag


def busy(tag, seconds):
    """Holds the interpreter's lock in one C call: no byte code of this process runs meanwhile."""
    _mark("{}:start".format(tag))
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    _mark("{}:end".format(tag))
    return tag


def boom(tag):
    _mark(tag)
    raise ValueError("boom {}".format(tag))


def leave(tag):
    _mark(tag)
    sys.exit(3)


def vanish(tag):
    """Ends its process without a word."""
    _mark(tag)
    os._exit(3)


def for_ever(tag):
    _mark(tag)
    while True:
        pass


def endless(tag):
    """A value that no JSON can hold: a list in itself."""
    _mark(tag)
    value = [tag]
    value.append(value)
    return value


def odd(kind):
    """Return values that are not plain JSON, or look like something else."""
    return {
        "bytes": b"\xff\x00",
        "set": {1, 2},
        "object": object(),
        "nan": float("nan"),
        "none": None,
        "text": "TimeoutErrors are not this",
        "unicode": "h\u00e9\u4e16\U0001f600",
        "dict": {"value": {"value": 1}},
    }[kind]


class Greeter(object):
    """A class whose method is a job."""

    def __init__(self, greeting, mark_of="!"):
        self.greeting = greeting
        self.mark_of = mark_of

    def greet(self, name, times=1):
        return " ".join([self.greeting, name + self.mark_of] * times)
