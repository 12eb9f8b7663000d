"""Where a caching store keeps encoded values and ranges of values: the port, and the memory of one store, whose limit a ByteCache keeps. No I/O.

When it is read and filled is decided in caching_store.py; files on disk are in disk_cache.py."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Final, Protocol
from weakref import WeakSet

from frazil.record import Record
from frazil.stores.caches.byte_cache import ByteCache, CacheSection
from frazil.stores.values import Version, clip_span

__all__ = ["Filling", "MemoryRanges", "Part", "RangeCache"]


class Part(Record):
    """Bytes of a value from `start`."""

    start: int
    value: bytes


class _Object:
    """The value of a key, as far as parts of it are kept. starts: of the parts, sorted; none is inside another, so their ends are sorted too. Some may be gone."""

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


class RangeCache(Protocol):
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


class MemoryRanges:
    """Parts of values by key in memory, each key's of one version. Safe to use from many threads, and after a fork, which begins with nothing.

    limit  bytes of parts and keys; the least recently used parts go first"""

    __slots__ = ("_fillings", "_objects", "_parts", "cache", "hits", "misses")

    def __init__(self, limit: int) -> None:
        self.cache: Final = ByteCache(limit, entry=0)
        self._objects: Final[CacheSection[_Object]] = CacheSection(self.cache, "object")
        self._parts: Final[CacheSection[bytes]] = CacheSection(self.cache, "part")
        self._fillings: WeakSet[Filling] = WeakSet()
        self.hits = self.misses = 0

    def count(self, hits: int, misses: int) -> None:
        with self.cache.lock:
            self.hits += hits
            self.misses += misses

    def version(self, key: str) -> tuple[Version | None, int] | None:
        found = self._objects.get(key)
        return None if found is None else (found.version, found.size)

    def find(self, key: str, version: Version | None, start: int, length: int) -> Part | None:
        with self.cache.lock:
            found = self._objects.get(key)
            if found is None or found.version != version:
                return None
            first, count = clip_span(start, length, found.size)
            part = self._part_at(key, found, first)
            return part if part is not None and first + count <= part.start + len(part.value) else None

    def _part_at(self, key: str, found: _Object, first: int) -> Part | None:
        """The last part that begins at a byte or before it. Parts that had to make room are forgotten here."""
        while place := bisect_right(found.starts, first):
            begin = found.starts[place - 1]
            value = self._parts.get((key, found.version, begin))
            if value is not None:
                return Part(begin, value)
            del found.starts[place - 1]
        return None

    def begin(self) -> Filling:
        filling = Filling()
        with self.cache.lock:
            self._fillings.add(filling)
        return filling

    def add(self, filling: Filling, key: str, version: Version | None, size: int, part: Part) -> None:
        start, value = part
        with self.cache.lock:
            if filling.everything or key in filling.keys or len(value) + len(key) > self.cache.limit:
                return
            found = self._objects.get(key)
            if found is None or (found.version, found.size) != (version, size):
                self._forget(key)
                found = _Object(version, size)
            end = start + len(value)
            before = self._part_at(key, found, start)
            if before is not None and before.start + len(before.value) >= end:
                return  # inside of one that another thread brought
            for at in [at for at in found.starts if start <= at <= end]:
                inside = self._parts.get((key, version, at))
                if inside is None or at + len(inside) <= end:
                    found.starts.remove(at)
                    self._parts.drop([(key, version, at)])
            insort(found.starts, start)
            self._objects.put(key, found, len(key))
            self._parts.put((key, version, start), value, len(value))

    def drop(self, keys: list[str]) -> None:
        with self.cache.lock:
            for filling in self._fillings:
                filling.keys.update(keys)
            for key in keys:
                self._forget(key)

    def drop_below(self, prefix: str) -> None:
        with self.cache.lock:
            for filling in self._fillings:
                filling.everything = True
            self._objects.drop([key for key in self._objects.names() if f"{key}".startswith(prefix)])
            parts = [name for name in self._parts.names() if isinstance(name, tuple)]
            self._parts.drop([name for name in parts if name[0].startswith(prefix)])

    def _forget(self, key: str) -> None:
        found = self._objects.get(key)
        if found is not None:
            self._parts.drop([(key, found.version, start) for start in found.starts])
            self._objects.drop([key])
