import os


def child_comes_back():
    """Forks, and lets the child run into whatever ran this."""
    pid = os.fork()
    if pid == 0:
        return "the child"
    os.waitpid(pid, 0)
    return "the parent"


def child_leaves():
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    return os.waitpid(pid, 0)[1] >> 8
