"""Functions that the settings name, and jobs that tell what they did."""

CALLS = {"setup": 0, "entry": 0, "exit": 0}
ENTERED = False


def setup():
    CALLS["setup"] += 1


def entry():
    global ENTERED
    CALLS["entry"] += 1
    ENTERED = True


def leave():
    global ENTERED
    CALLS["exit"] += 1
    ENTERED = False


def seen():
    return [CALLS["setup"], CALLS["entry"] - CALLS["exit"], ENTERED]


def fail():
    raise ValueError("not today")
