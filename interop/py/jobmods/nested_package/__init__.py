from .inner import value

__all__ = ["value"]
