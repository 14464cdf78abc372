"""Jobs that end their process."""

import os
import signal


def vanish(status):
    os._exit(status)


def kill_self(number):
    os.kill(os.getpid(), number)
    signal.pause()


def abort():
    os.abort()
