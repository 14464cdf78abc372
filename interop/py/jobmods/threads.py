import threading


def work():
    seen = []
    threads = [threading.Thread(target=seen.append, args=(n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(seen)


def left_behind(seconds):
    """A thread that is still at work when the job has ended."""
    import time

    thread = threading.Thread(target=time.sleep, args=(seconds,))
    thread.daemon = True
    thread.start()
    return "started"
