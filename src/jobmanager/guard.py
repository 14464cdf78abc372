"""Ends the process groups it was told of when whoever told it is gone: standard input ends then, however it died."""

import os
import signal
import sys

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    group = int(line[1:])
    if line[0] == "+":
        groups.add(group)
    else:
        groups.discard(group)
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
