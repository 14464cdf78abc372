"""Jobs that a polite request does not end."""

import ctypes
import os
import signal
import subprocess
import sys
import time


def ignore_signals(seconds):
    for number in (signal.SIGTERM, signal.SIGALRM):
        try:
            signal.signal(number, signal.SIG_IGN)
        except ValueError:  # not in the main thread
            pass
    time.sleep(seconds)


def hold_the_lock(seconds):
    """One C call in which no other thread of the process runs."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def with_grandchild(pid_file, seconds):
    """Leaves a process behind that holds everything this one has open."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(%r)" % seconds], close_fds=False)
    with open(pid_file + ".new", "w") as out:
        out.write(str(child.pid))
    os.rename(pid_file + ".new", pid_file)
    time.sleep(seconds)


def read_fifo(path):
    if not os.path.exists(path):
        os.mkfifo(path)
    with open(path) as fifo:
        return fifo.read()
