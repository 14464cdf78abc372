def for_ever():
    while True:
        pass
