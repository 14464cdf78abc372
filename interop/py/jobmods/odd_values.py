import collections
import decimal


class Loop(list):
    pass


def value(kind):
    return {
        "bytes": b"\xff\x00",
        "set": {1, 2},
        "decimal": decimal.Decimal("1.5"),
        "nan": float("nan"),
        "infinity": float("-inf"),
        "tuple": (1, (2, 3)),
        "integer keys": {1: "a", None: "b", True: "c"},
        "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
        "large": 2**80,
        "float": 1e22,
        "false": False,
    }[kind]


def endless():
    value = Loop()
    value.append(value)
    return value


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value
