from ..plain import give_back


def value():
    return give_back("relative imports work")
