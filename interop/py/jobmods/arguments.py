def two(a, b):
    return [a, b]


attribute = "not a function"
