"""A Python with few frames, so that recursion fails at a few levels already: trees of thousands of levels are slow, and pytest cannot remove them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

__all__ = ["few_frames"]


@contextmanager
def few_frames(more: int) -> Iterator[None]:
    """During the block, calls may nest `more` frames deeper than here."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(_depth() + more)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _depth() -> int:
    frame = sys._getframe()
    for depth in count(1):
        if frame.f_back is None:
            return depth
        frame = frame.f_back
    raise AssertionError
