"""Encoded values and ranges of values in memory, under a limit of bytes. No I/O; when it is asked and filled is settled in caching_store.py."""

from __future__ import annotations

import os
from bisect import bisect_right, insort
from collections import OrderedDict
from threading import Lock
from typing import Protocol
from weakref import WeakSet

from frazil.record import Record
from frazil.stores.values import Version, clip_span

__all__ = ["Filling", "Kept", "KeptValues", "Part"]


class Part(Record):
    """Bytes of a value from `start`."""

    start: int
    value: bytes


class _Object:
    """What is known of the value of a key. starts: of the parts that are kept, sorted; none is inside another, so their ends are sorted too."""

    __slots__ = ("size", "starts", "version")

    def __init__(self, version: Version | None, size: int) -> None:
        self.version, self.size = version, size
        self.starts: list[int] = []


class Filling:
    """A fetch that runs. What is dropped meanwhile it must not bring back."""

    __slots__ = ("__weakref__", "everything", "keys")

    def __init__(self) -> None:
        self.everything = False
        self.keys: set[str] = set()


class Kept(Protocol):
    """Where parts of values are kept, by key. Safe to use from many threads, and after a fork."""

    def count(self, hits: int, misses: int) -> None:
        """Adds to what is told of the use."""

    def version(self, key: str) -> tuple[Version | None, int] | None:
        """Version and size of a value of which something is kept."""

    def find(self, key: str, version: Version | None, start: int, length: int) -> Part | None:
        """A part that holds what there is of this range of this version; as in Store.fetch, start < 0 counts from the end, length < 0 means up to it."""

    def begin(self) -> Filling:
        """Before a fetch of what is to be added."""

    def add(self, filling: Filling, key: str, version: Version | None, size: int, part: Part) -> None:
        """Keeps a part, unless the key was dropped since the filling began; parts of another version are forgotten."""

    def drop(self, keys: list[str]) -> None:
        """Forgets keys, whose values were changed or may have been."""

    def drop_below(self, prefix: str) -> None:
        """Forgets the keys that begin with prefix."""


class KeptValues:
    """Parts of values by key, each key's of one version. The least recently used parts go first. Safe to use from many threads, and after a fork."""

    __slots__ = ("__weakref__", "_fillings", "_lock", "_objects", "_parts", "hits", "limit", "misses", "nbytes")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.after_fork()
        _living.add(self)

    def after_fork(self) -> None:
        """Begins anew, as another thread of the parent may have left something half done."""
        self._lock = Lock()
        self._objects: dict[str, _Object] = {}
        self._parts: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._fillings: WeakSet[Filling] = WeakSet()
        self.nbytes = self.hits = self.misses = 0

    def count(self, hits: int, misses: int) -> None:
        """Adds to what is told of the cache's use."""
        with self._lock:
            self.hits += hits
            self.misses += misses

    def version(self, key: str) -> tuple[Version | None, int] | None:
        """Version and size of a value of which something is kept."""
        with self._lock:
            known = self._objects.get(key)
            return None if known is None else (known.version, known.size)

    def find(self, key: str, version: Version | None, start: int, length: int) -> Part | None:
        """A part that holds what there is of this range of this version; as in Store.fetch, start < 0 counts from the end, length < 0 means up to it."""
        with self._lock:
            known = self._objects.get(key)
            if known is None or known.version != version:
                return None
            first, count = clip_span(start, length, known.size)
            place = bisect_right(known.starts, first)
            if not place:
                return None
            begin = known.starts[place - 1]
            value = self._parts[key, begin]
            if first + count > begin + len(value):
                return None
            self._parts.move_to_end((key, begin))
            return Part(begin, value)

    def begin(self) -> Filling:
        """Before a fetch of what is to be added."""
        filling = Filling()
        with self._lock:
            self._fillings.add(filling)
        return filling

    def add(self, filling: Filling, key: str, version: Version | None, size: int, part: Part) -> None:
        """Keeps a part, unless the key was dropped since the filling began; parts of another version are forgotten."""
        start, value = part
        with self._lock:
            if filling.everything or key in filling.keys or len(value) + len(key) > self.limit:
                return
            known = self._objects.get(key)
            if known is not None and (known.version, known.size) != (version, size):
                self._forget(key)
                known = None
            if known is None:
                known = self._objects[key] = _Object(version, size)
                self.nbytes += len(key)
            end = start + len(value)
            for other in [at for at in known.starts if start <= at and at + len(self._parts[key, at]) <= end]:
                self._remove(key, known, other)
            before = bisect_right(known.starts, start)
            if before and known.starts[before - 1] + len(self._parts[key, known.starts[before - 1]]) >= end:
                return  # inside of one that another thread brought
            insort(known.starts, start)
            self._parts[key, start] = value
            self.nbytes += len(value)
            while self.nbytes > self.limit:
                oldest, at = next(iter(self._parts))
                self._remove(oldest, self._objects[oldest], at)
                if not self._objects[oldest].starts:
                    self._forget(oldest)

    def drop(self, keys: list[str]) -> None:
        """Forgets keys, whose values were changed or may have been."""
        with self._lock:
            for filling in self._fillings:
                filling.keys.update(keys)
            for key in keys:
                self._forget(key)

    def drop_below(self, prefix: str) -> None:
        """Forgets the keys that begin with prefix."""
        with self._lock:
            for filling in self._fillings:
                filling.everything = True
            for key in [key for key in self._objects if key.startswith(prefix)]:
                self._forget(key)

    def _forget(self, key: str) -> None:
        known = self._objects.get(key)
        if known is not None:
            for start in list(known.starts):
                self._remove(key, known, start)
            del self._objects[key]
            self.nbytes -= len(key)

    def _remove(self, key: str, known: _Object, start: int) -> None:
        known.starts.remove(start)
        self.nbytes -= len(self._parts.pop((key, start)))


_living: WeakSet[KeptValues] = WeakSet()  # of this process, for its children


def _after_fork() -> None:
    for kept in _living:
        kept.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
