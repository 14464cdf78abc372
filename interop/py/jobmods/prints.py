import os
import subprocess
import sys


def junk():
    print("line one", "\u4e16")
    print('{"value": "not a result"}', flush=True)
    sys.stderr.write("to stderr\n")
    os.write(1, b"\x00\x00\x00\x02V{}raw \xff\n")
    subprocess.call(["/bin/sh", "-c", "echo from a child; echo and its stderr >&2"])
    sys.stdout.write("without an end")
    return "printed"


def much(lines):
    for number in range(lines):
        print("line", number, "x" * 100)
    return lines


def read_stdin():
    return sys.stdin.read()
