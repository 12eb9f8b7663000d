"""The clock of the repository, which is faster than the real one: an hour takes two seconds. The time stamps of a store and the ages of sessions are scaled;
clocks of processes differ. `install` replaces the clocks only in the process that calls it, which does nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from frazil.base.record import Record
from frazil.repository.session.session_state import SessionState
from frazil.stores import LocalStore
from frazil.stores.objects.object_store import ObjectStore
from frazil.stores.store import Store
from frazil.stores.values import Page
from tests.soak.plan import SCALE


class Place(Record):
    """The place of the repository of a round. location: for Repository.open;  environment: variables of the client;  files: the folder that finally has its
    objects; notes: the folder for reports of processes"""

    location: str
    environment: dict[str, str]
    files: str
    notes: str


class Clock:
    """The time stamps of a store, in the repository's time. epoch: ns since 1970, when the round began;  jumps: (ns since 1970, ns by which the time jumped
    there)"""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.jumps: list[tuple[int, int]] = []

    def scaled(self, modified: int) -> int:
        return (
            self.epoch
            + (modified - self.epoch) * SCALE
            + sum(duration for instant, duration in self.jumps if instant <= modified)
        )

    def unscaled(self, scaled: int) -> int:
        """The real time from which on files are at most this old."""
        low, high = 0, 2 * self.epoch
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.scaled(middle) >= scaled else (middle + 1, high)
        return low

    def let_pass(self, duration: int) -> None:
        """Lets this many nanoseconds of the repository's time pass between earlier and later writes."""
        time.sleep(0.02)  # more than the resolution of file times
        self.jumps.append((time.time_ns(), duration))
        time.sleep(0.02)


def install(place: Place, clock: Clock, skew: int) -> None:
    """Replaces the clocks of this process."""
    os.environ.update(place.environment)
    real = time.time_ns
    age = SessionState.age
    time.time_ns = lambda: real() + skew
    time.time = lambda: (real() + skew) / 1e9
    SessionState.age = lambda self: age(self) * SCALE  # type: ignore[method-assign]
    for kind in (LocalStore, ObjectStore):
        kind.list_page = _with_times(kind.list_page, Path(place.files), clock)  # type: ignore[method-assign]
    leftovers = LocalStore.erase_leftovers

    def erase_leftovers(self: LocalStore, prefix: str, before: int) -> int:
        return leftovers(self, prefix, clock.unscaled(before))

    LocalStore.erase_leftovers = erase_leftovers  # type: ignore[method-assign]


def _with_times(list_page: Callable[..., Page], folder: Path, clock: Clock) -> Callable[..., Page]:
    """A listing with the times of the files themselves: a server returns whole seconds, which are hours here."""

    def listed(self: Store, prefix: str, after: str = "", **options: object) -> Page:
        page = list_page(self, prefix, after, **options)
        if page.modified is None:
            return page
        times = [
            _modified(folder / key) if known >= 0 else -1
            for key, known in zip(page.keys, page.modified.tolist(), strict=True)
        ]
        return page._replace(modified=np.array([clock.scaled(at) if at >= 0 else -1 for at in times], np.int64))

    return listed


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return -1
