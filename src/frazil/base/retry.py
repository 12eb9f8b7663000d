"""Repeating operations that may succeed later: how often, and after which pauses. The caller decides which failures are repeated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from errno import EMFILE, ENFILE
from math import inf
from typing import Final, TypeVar

from frazil.base.record import Record
from frazil.errors import StoreError

T = TypeVar("T")


class Backoff(Record):
    """attempts     how often an operation is tried, 1 or more
    first, last  seconds: the pause after the first attempt, which doubles with each further one, and the longest pause. At least half of a pause is waited; the
                 other half is random for each thread and process
    within       seconds from the end of the first attempt, after which no other begins"""

    attempts: int
    first: float = 0.0005
    last: float = 0.05
    within: float = inf


READS: Final = Backoff(100)  # of objects that others replace
WRITES: Final = Backoff(1000)  # of objects that others change: each time, one of all writers succeeds
FILES: Final = Backoff(10_000, 0.005, 0.05, 1.0)  # while too many are open, perhaps by the caller itself
# by a caller that holds none; on a busy machine others may need theirs for long
FREE_FILES: Final = FILES._replace(within=10.0)
REQUESTS: Final = Backoff(6, 0.1, 5.0, 180.0)  # to a server that is busy, or whose response was lost


def attempts(backoff: Backoff, requested_delay: Callable[[], float] = lambda: 0.0) -> Iterator[int]:
    """The numbers of the attempts, from 0. Waits before each but the first. requested_delay: called after each attempt, returns how many seconds the other side
    asks to wait; no attempt follows if that is longer than `within`."""
    yield 0
    for attempt, pause in enumerate(_pauses(backoff, requested_delay), 1):
        time.sleep(pause)
        yield attempt


def retry(call: Callable[[], T], backoff: Backoff, again: Callable[[Exception], bool]) -> T:
    """call(), repeated if it raises an error for which `again` is true. Raises the error of the last attempt. While it waits, nothing of an attempt is kept."""
    pauses = _pauses(backoff)
    while True:
        try:
            return call()
        except Exception as error:
            if not again(error) or (pause := next(pauses, None)) is None:
                raise
        time.sleep(pause)


def _pauses(backoff: Backoff, requested_delay: Callable[[], float] = lambda: 0.0) -> Iterator[float]:
    """The pause after each attempt, seconds, as long as another attempt follows."""
    end, longest = time.monotonic() + backoff.within, backoff.first
    for _ in range(backoff.attempts - 1):
        least = requested_delay()
        if time.monotonic() + least > end:
            return
        yield max(least, longest * (1 + time.monotonic_ns() % 997 / 997) / 2)
        longest = min(2 * longest, backoff.last)


def replaced(subject: str, key: str) -> StoreError:
    """The error of a reader after all attempts of READS."""
    return StoreError(
        f"{subject} replaced {READS.attempts} times while it was read",
        key=key,
        hint="read it again when its writer is done",
    )


def outrun(subject: str, key: str, tried: Backoff) -> StoreError:
    """The error of a writer after all attempts."""
    return StoreError(
        f"others changed {subject} before each of {tried.attempts} attempts",
        key=key,
        hint="try again when other writers are done",
    )


def lacks_files(error: BaseException) -> bool:
    """Whether an operation failed because too many files are open."""
    return isinstance(error, OSError) and error.errno in {EMFILE, ENFILE}


def when_files_are_free(call: Callable[[], T], backoff: Backoff = FILES) -> T:
    """call(), repeated while files are lacking, until others have closed theirs. It needs few files. backoff: FREE_FILES if the caller holds none, so that
    others never wait for it"""
    try:  # every access to a store comes here
        return call()
    except OSError as error:
        if not lacks_files(error):
            raise
    return retry(call, backoff, lacks_files)
