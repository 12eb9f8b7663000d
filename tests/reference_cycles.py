"""Errors that are freed with their last reference: in a cycle, their tracebacks would keep frames, and the values in these, until the garbage collector
runs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable


def is_freed(kind: type[Exception], call: Callable[[], object]) -> bool:
    """Whether the error that a call must raise is gone when its handler ends. kind: a class of Python, as others have no weak references"""
    gc.disable()
    try:
        try:
            call()
        except kind as error:
            known = weakref.ref(error)
        else:
            raise AssertionError(f"no {kind.__name__}")
        return known() is None
    finally:
        gc.enable()
