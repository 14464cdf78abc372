import time


def sleep(seconds):
    time.sleep(seconds)
    return seconds
