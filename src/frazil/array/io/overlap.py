"""Several parts of one read or write at once, where requests take their time: while one part is decoded, others are under way.

How many parts there may be, and how large, is settled here; what is done with a part is the caller's. No thread is started for a single part."""

from __future__ import annotations

from _thread import allocate_lock  # threading's Lock, without the module
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from frazil.late import LateModule
from frazil.record import Record

if TYPE_CHECKING:
    import threading

    from frazil.runtime import Runtime
else:
    threading = LateModule("threading")

__all__ = ["LANES", "Lanes", "in_lanes", "lanes_for"]

T = TypeVar("T")

LANES: Final = 4  # that many parts at once keep requests under way while one of them is decoded


class Lanes(Record):
    """number: of parts at once; nbytes: decoded bytes of one; turn: held by the part that the kernel works on, which takes all cores: parts that
    took turns at it do not all wait for requests at the same time. None where there is one lane."""

    number: int
    nbytes: int
    turn: AbstractContextManager[object] | None = None


def lanes_for(runtime: Runtime, direct: bool, least: int) -> Lanes:
    """The lanes of one read or write, which share bytes_in_flight: one where all is at hand (Capabilities.direct). least: decoded bytes of the smallest part
    that there can be."""
    limit = runtime.bytes_in_flight
    count = 1 if direct else min(LANES, runtime.requests_in_flight, limit // max(least, 1))
    return Lanes(1, limit) if count < 2 else Lanes(count, limit // count, allocate_lock())


def in_lanes(parts: Iterator[T], act: Callable[[T], None], count: int) -> None:
    """act(part) for all parts, at most `count` at once; they are begun in order, and `parts` is asked for the next by one thread at a time.

    An interrupt, or else the first error, is raised when all that had begun are done; nothing is begun after it."""
    if count == 1:
        for part in parts:
            act(part)
        return
    first = list(islice(parts, count))
    lanes = _Lanes(chain(first, parts), act)
    others = [threading.Thread(target=lanes.run, name="frazil lane") for _ in first[1:]]
    del first
    try:
        for thread in others:
            try:
                thread.start()
            except RuntimeError:  # no more threads are to be had: those that there are do it all
                break
        lanes.run()
        _join(others)
    except BaseException:  # an interrupt
        lanes.ends = True
        _join(others)
        raise
    if lanes.errors:
        try:
            raise next((error for error in lanes.errors if not isinstance(error, Exception)), lanes.errors[0])
        finally:
            lanes.errors.clear()  # whose traceback has this frame


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        if thread.ident is not None:  # it was started
            thread.join()


class _Lanes(Generic[T]):
    """What all lanes share. ends: nothing more is begun."""

    __slots__ = ("_act", "_lock", "_parts", "ends", "errors")

    def __init__(self, parts: Iterator[T], act: Callable[[T], None]) -> None:
        self._parts, self._act = parts, act
        self._lock = allocate_lock()
        self.errors: list[BaseException] = []
        self.ends = False

    def run(self) -> None:
        """One lane, until there are no more parts."""
        try:
            while True:
                with self._lock:
                    if self.ends:
                        return
                    part = list(islice(self._parts, 1))
                if not part:
                    return
                self._act(part[0])
        except BaseException as error:
            self.ends = True
            self.errors.append(error)
