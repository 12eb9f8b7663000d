"""Waiting for others: for what they hold, such as open files of which there are too many, or for them to get out of the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from errno import EMFILE, ENFILE
from typing import TypeVar

from frazil.errors import StoreError

__all__ = ["lacks_files", "patiently", "pause", "read_again"]

T = TypeVar("T")

_WAITS = 50
_LONGEST_WAIT = 0.05  # seconds
_READS = 100  # of what others keep replacing


def lacks_files(error: BaseException) -> bool:
    """Whether something failed because too many files are open."""
    return isinstance(error, StoreError) and error.errno in {EMFILE, ENFILE}


def patiently(call: Callable[[], T]) -> T:
    """call(), which may be made again, again after a while where it lacks files; it is to need few of them."""
    for _ in range(_WAITS):
        try:
            return call()
        except StoreError as error:
            if not lacks_files(error):
                raise
        pause(_LONGEST_WAIT)
    return call()


def pause(longest: float) -> None:
    """Sleeps for some part of `longest` seconds, another one in each thread and process."""
    time.sleep(longest * (time.monotonic_ns() % 997) / 997)


def read_again(attempt: int, what: str, key: str) -> None:
    """Before another attempt to read what was replaced meanwhile. Raises StoreError when there were enough of them."""
    if attempt == _READS:
        raise StoreError(
            f"{what} replaced {_READS} times while it was read", key=key, hint="read again when its writer is done"
        )
    pause(min(_LONGEST_WAIT, 0.0005 * 2**attempt))
