"""Locks and versions of keys, for stores that have none of their own: they keep the writers of one process from losing each other's data.

Writers in other processes are not included. Nothing is read or written here."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from frazil.base.fork_safety import ForkSafeLock, renew_after_fork
from frazil.base.weak_references import WeakValues
from frazil.stores.values import ABSENT, Version

_STRIPES: Final = 64  # there are many keys, but few locks; two keys may share one
_REMEMBERED: Final = 65536  # keys; when there are more, all of them count as written once

GuardState = tuple[bytes, int, int, dict[str, int]]


class Guard:
    """The keys of one object. A version is a number that is new with every write, and old ones never come back. A key that is being written is busy."""

    __slots__ = ("__weakref__", "_all_busy", "_busy", "_count", "_floor", "_lock", "_mark", "_stripes", "_written")

    def __init__(self, state: GuardState | None = None) -> None:
        self._mark, self._count, self._floor, self._written = state or (os.urandom(8), 0, 0, {})
        self._busy: set[str] = set()
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child: replaces locks that other threads of the parent held."""
        self._lock = threading.Lock()
        self._stripes = [threading.Lock() for _ in range(_STRIPES)]
        self._busy.clear()
        self._all_busy = False

    def state(self) -> GuardState:
        """The state for a pickle, so that versions stay valid."""
        with self._lock:
            return self._mark, self._count, self._floor, dict(self._written)

    def version(self, key: str) -> Version:
        """The version of an existing key."""
        return self._mark + self._written.get(key, self._floor).to_bytes(8, "little")

    def versions(self, keys: Collection[str]) -> list[Version] | None:
        """The versions of keys; None if one of them is busy."""
        # checked first: a key that is no longer busy has a new version
        if self._all_busy or not self._busy.isdisjoint(keys):
            return None
        return [self.version(key) for key in keys]

    @contextmanager
    def reading(self, keys: Iterable[str]) -> Iterator[None]:
        """While no other thread writes these keys."""
        with _held(self._stripes_of(keys)):
            yield

    @contextmanager
    def writing(self, keys: Collection[str]) -> Iterator[dict[str, Version]]:
        """While only this thread writes keys. Yields a table that has their new versions at the end; remove the keys that were not written."""
        fresh: dict[str, Version] = dict.fromkeys(keys, ABSENT)
        with _held(self._stripes_of(keys)):
            self._busy.update(keys)
            try:
                yield fresh
            finally:
                try:
                    self._renew(fresh)
                finally:
                    self._busy.difference_update(keys)

    @contextmanager
    def writing_all(self) -> Iterator[None]:
        """While keys are written that are not known in advance."""
        with _held(self._stripes):
            self._all_busy = True
            try:
                yield
            finally:
                try:
                    with self._lock:
                        self._count += 1
                        self._forget()
                finally:
                    self._all_busy = False

    def _renew(self, fresh: dict[str, Version]) -> None:
        """Gives the keys of a table new versions, and puts them into the table."""
        with self._lock:
            for key in fresh:
                self._count += 1
                self._written[key] = self._count
                fresh[key] = self.version(key)
            if len(self._written) > _REMEMBERED:
                self._forget()

    def _forget(self) -> None:
        """Gives all keys one new version, which no key had before."""
        self._floor = self._count
        self._written = {}

    def _stripes_of(self, keys: Iterable[str]) -> list[threading.Lock]:
        return [self._stripes[stripe] for stripe in sorted({hash(key) % _STRIPES for key in keys})]


@contextmanager
def _held(locks: Sequence[threading.Lock]) -> Iterator[None]:
    """While all locks are held. Each is taken by its own `with`: an interrupt within an ExitStack, which is written in Python, would leave it locked."""
    if locks:
        with locks[0], _held(locks[1:]):
            yield
    else:
        yield


# A guard belongs to an object as long as a store over that object exists: stores hold both.
_guards: Final[WeakValues[int | str, Guard]] = WeakValues()
_choosing: Final = ForkSafeLock()


def guard_of(inner: object, state: GuardState | None = None) -> Guard:
    """The guard of an object, or of its name: all callers get the same one. A new one begins with `state`."""
    key = inner if isinstance(inner, str) else id(inner)
    with _choosing.lock:
        guard = _guards.get(key)
        if guard is None:
            guard = Guard(state)
            _guards.put(key, guard)
        return guard
