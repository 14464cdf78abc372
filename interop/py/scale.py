"""How large the cases are that describe something too long for every run."""

from __future__ import annotations

import os

FULL = os.environ.get("EMQ_FULL_SIZE") == "1"


def scaled(full: int, everyday: int) -> int:
    """`full` with `EMQ_FULL_SIZE=1`, else `everyday`."""
    return full if FULL else everyday
