class Own(Exception):
    def __str__(self):
        return "own: {}".format(self.args[0])


def value_error(text):
    raise ValueError(text)


def own(text):
    raise Own(text)


def key_error():
    return {}["missing"]


def chained():
    try:
        return 1 / 0
    except ZeroDivisionError as error:
        raise RuntimeError("after h\u00e9") from error


def deep(n=0):
    return deep(n + 1)
