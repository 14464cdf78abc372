"""Starting, measuring and ending the processes of a run; every one ends with the run, whatever happens to it."""

import ctypes
import os
import signal
import socket
import subprocess
import time


class Failed(Exception):
    """A run or a preparation failed; the text is for the user."""


class Process:
    """One child with its output in a file, optionally pinned to one core. Use in a `with` statement."""

    def __init__(self, command, log, core=None, output=None):
        self.name, self.log = os.path.basename(command[0]), log
        environment = {k: v for k, v in os.environ.items() if not k.startswith("EVENTMQ_")}
        with open(log, "wb") as errors:
            self.child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output or errors, stderr=errors, env=environment,
                preexec_fn=lambda: _prepare(core))
        self.pid = self.child.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(5)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        if self.child.stdout:
            self.child.stdout.close()

    def check(self):
        """Fails if the process has ended by itself."""
        if self.child.poll() is not None:
            raise Failed(f"{self.name} ended with {self.child.returncode}\n{self.tail()}")

    def tail(self):
        """The last lines the process wrote."""
        with open(self.log, "rb") as log:
            log.seek(max(0, os.path.getsize(self.log) - 2000))
            return log.read().decode(errors="replace")

    def cpu_seconds(self):
        """User and system time used so far, all threads."""
        return time.clock_gettime((~self.pid << 3) | 2)  # the clock clock_getcpuclockid(3) names

    def peak_mib(self):
        """The most memory that was ever resident."""
        with open(f"/proc/{self.pid}/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def _prepare(core):
    """In the child: die with the parent, stay on one core."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if core is not None:
        os.sched_setaffinity(0, {core})


def output_of(command, log, core=None, limit=180, needs=None):
    """Runs a command to its end; its standard output and the processor seconds it used.

    Fails at once when the process it `needs` ends before it.
    """
    with Process(command, log, core, subprocess.PIPE) as process:
        alarm = time.monotonic() + limit
        while True:  # wait4 gives the usage of this very child
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > alarm:
                raise Failed(f"{process.name} did not end within {limit} s\n{process.tail()}")
            if needs:
                needs.check()
            time.sleep(0.01)
        process.child.returncode = os.waitstatus_to_exitcode(status)
        text = process.child.stdout.read().decode()
        if process.child.returncode:
            raise Failed(f"{process.name} failed ({process.child.returncode}): {process.tail().strip()}")
        return text, usage.ru_utime + usage.ru_stime


def free_endpoints(count):
    """So many loopback endpoints nobody uses at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    endpoints = [f"tcp://127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    return endpoints
