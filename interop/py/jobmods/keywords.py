def all_kinds(a, b=2, *args, c=3, **others):
    return [a, b, list(args), c, sorted(others.items())]
