import os

COUNT = 0


def next_number():
    global COUNT
    COUNT += 1
    return COUNT


def directory():
    return os.path.isdir(os.getcwd())
