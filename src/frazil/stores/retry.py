"""Waiting for others: for what they hold, such as open files of which there are too many, or for them to get out of the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from errno import EMFILE, ENFILE
from typing import TypeVar

from frazil.errors import StoreError

__all__ = ["files_deadline", "lacks_files", "patiently", "pause", "read_again"]

T = TypeVar("T")

_WAIT_FOR_FILES = 10.0  # seconds: on a busy machine others may hold their files for long, and an error would end what only has to wait
_LONGEST_WAIT = 0.05  # seconds
_READS = 100  # of what others keep replacing


def lacks_files(error: BaseException) -> bool:
    """Whether something failed because too many files are open."""
    return isinstance(error, StoreError) and error.errno in {EMFILE, ENFILE}


def files_deadline() -> float:
    """Until when, on the monotonic clock, somebody who lacks files from now on waits for them."""
    return time.monotonic() + _WAIT_FOR_FILES


def patiently(call: Callable[[], T]) -> T:
    """call(), again after a while where it lacks files: until others have closed theirs, or ten seconds have passed. It may be made again, and is to need few files."""
    end = 0.0
    while True:
        try:
            return call()
        except StoreError as error:
            if not lacks_files(error):
                raise
            end = end or files_deadline()
            if time.monotonic() >= end:
                raise
        pause(_LONGEST_WAIT)


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
