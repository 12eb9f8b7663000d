"""The port by which a caching store keeps encoded values and ranges, and its backend in memory, within the limit of a ByteCache. No I/O.

caching_store.py decides what is kept, and when it is compared; the backend on disk is in disk_cache.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import count, groupby
from operator import attrgetter
from typing import Final, Protocol

from frazil.base.record import Record
from frazil.base.weak_references import WeakValues
from frazil.stores.caches.byte_cache import ByteCache, CacheSection
from frazil.stores.values import Version, Versions, clip_span

# row of a name, start, length; as in Store.fetch, start < 0 counts from the end, length < 0 means up to it
Span = tuple[int, int, int]


class Part(Record):
    """Bytes of a value from `start`."""

    start: int
    value: bytes | memoryview


class Addition(Record):
    """A part to be kept of a value of `size` bytes."""

    key: str
    version: Version | None
    size: int
    part: Part


class KeptObject(Protocol):
    """A value whose parts are kept."""

    @property
    def version(self) -> Version | None: ...
    @property
    def size(self) -> int: ...


class RunningFetch:
    """A fetch in progress. It must not bring back values that are dropped meanwhile."""

    __slots__ = ("__weakref__", "everything", "keys")

    def __init__(self) -> None:
        self.everything = False
        self.keys: set[str] = set()


class RangeCache(ABC):
    """A store for parts of values by key; the least recently used are removed first. Safe to use from many threads, and after a fork."""

    __slots__ = ()

    @abstractmethod
    def find(
        self, names: Sequence[str], spans: Sequence[Span], versions: Versions | None = None
    ) -> tuple[list[KeptObject | None], list[Part | None]]:
        """For each name the known value, for each span a part that holds its existing bytes.

        versions  for each name the only valid version; None: the version that is kept"""

    def takes(self, nbytes: int, count: int) -> bool:
        """Whether this many bytes in this many parts from one fetch are kept: one pass over much data must not remove values that are used again."""
        return True

    def begin(self) -> RunningFetch:
        """Called before a fetch whose parts will be added."""
        return RunningFetch()

    @abstractmethod
    def add(self, running: RunningFetch, additions: Sequence[Addition]) -> None:
        """Keeps parts, unless their keys were dropped since the fetch began; parts of another version are forgotten."""

    @abstractmethod
    def drop(self, keys: Sequence[str]) -> None:
        """Forgets keys whose values were changed, or may have been."""

    @abstractmethod
    def drop_below(self, prefix: str) -> None:
        """Forgets the keys that begin with prefix."""


class _Object:
    """The value of a key whose parts are kept. The names of the parts begin with this object: parts of another version have other names.

    starts  of the parts, sorted; no part is inside another one, so their ends are sorted too. Some parts may be removed"""

    __slots__ = ("key", "size", "starts", "version")

    def __init__(self, key: str, version: Version | None, size: int) -> None:
        self.key, self.version, self.size = key, version, size
        self.starts: list[int] = []


class MemoryRanges(RangeCache):
    """Parts of values by key in a ByteCache, for each key of one version. Safe to use from many threads, and after a fork, which starts empty.

    largest  most bytes of a fetch that is kept
    chunks   whether all of it is removed before everything else in the ByteCache"""

    __slots__ = ("_running", "_numbers", "_objects", "_parts", "largest", "memory")

    def __init__(self, memory: ByteCache, largest: int, *, chunks: bool = False) -> None:
        self.memory: Final = memory
        self.largest: Final = largest
        self._objects: Final[CacheSection[_Object]] = CacheSection(memory, "object", chunks=chunks)
        self._parts: Final[CacheSection[Part]] = CacheSection(memory, "part", chunks=chunks)
        self._running: Final[WeakValues[int, RunningFetch]] = WeakValues()
        self._numbers: Final = count()

    def find(
        self, names: Sequence[str], spans: Sequence[Span], versions: Versions | None = None
    ) -> tuple[list[KeptObject | None], list[Part | None]]:
        if not self._objects:
            return [None] * len(names), [None] * len(spans)
        with self.memory.lock:
            found = self._objects.get_many(names)
            if versions is not None:
                pairs = zip(found, versions, strict=True)
                found = [cached if cached and cached.version == version else None for cached, version in pairs]
            parts = self._parts.get_many([(found[row], start) for row, start, _ in spans])
            for i, (row, start, length) in enumerate(spans):
                cached, part = found[row], parts[i]
                if cached is not None and (part is None or not 0 <= length <= len(part.value)):
                    parts[i] = self._covering(cached, start, length)
        return [*found], parts

    def _covering(self, cached: _Object, start: int, length: int) -> Part | None:
        first, count = clip_span(start, length, cached.size)
        part = self._part_at(cached, first)
        return part if part is not None and first + count <= part.start + len(part.value) else None

    def _part_at(self, cached: _Object, first: int) -> Part | None:
        """The last part that begins at or before a byte. Parts that were removed are forgotten here."""
        while position := bisect_right(cached.starts, first):
            part = self._parts.get((cached, cached.starts[position - 1]))
            if part is not None:
                return part
            del cached.starts[position - 1]
        return None

    def takes(self, nbytes: int, count: int) -> bool:
        return nbytes + self.memory.entry * count <= self.largest

    def begin(self) -> RunningFetch:
        running = RunningFetch()
        with self.memory.lock:
            self._running.put(next(self._numbers), running)
        return running

    def add(self, running: RunningFetch, additions: Sequence[Addition]) -> None:
        with self.memory.lock:
            for key, own in groupby(additions, attrgetter("key")):
                if not running.everything and key not in running.keys:
                    self._add(key, own)

    def _add(self, key: str, additions: Iterable[Addition]) -> None:
        cached = self._objects.get(key)
        last: Part | None = None  # the part added last: most come in order
        for _, version, size, given in additions:
            nbytes = len(given.value)
            if nbytes + len(key) > self.memory.limit:
                continue
            part = Part(given.start, bytes(given.value))  # a copy, so that no more bytes are held than are counted
            if cached is None or cached.version != version or cached.size != size:
                self._forget(key)
                cached, last = _Object(key, version, size), None
            if last is not None and cached.starts[-1] == last.start < last.start + len(last.value) <= part.start:
                last = part  # after all others
                cached.starts.append(part.start)
                self._parts.put((cached, part.start), part, nbytes)
            else:
                last = self._insert(cached, part)

    def _insert(self, cached: _Object, part: Part) -> Part:
        """Keeps a part, instead of those inside it. Returns the part that is kept, which may be an older one that contains it."""
        (start, value), starts = part, cached.starts
        end = start + len(value)
        before = self._part_at(cached, start) if starts else None
        if before is not None and before.start + len(before.value) >= end:
            return before  # from another thread
        low = bisect_left(starts, start)
        inside = [at for at in starts[low : bisect_right(starts, end)] if not self._ends_behind(cached, at, end)]
        if inside:
            self._parts.drop([(cached, at) for at in inside])
            cached.starts = starts = [at for at in starts if at not in inside]
        starts.insert(low, start)
        # used later than its other parts, and earlier than this one
        self._objects.put(cached.key, cached, len(cached.key))
        self._parts.put((cached, start), part, len(value))
        return part

    def _ends_behind(self, cached: _Object, start: int, end: int) -> bool:
        part = self._parts.get((cached, start))
        return part is not None and start + len(part.value) > end

    def drop(self, keys: Sequence[str]) -> None:
        with self.memory.lock:
            for running in self._running.values():
                running.keys.update(keys)
            for key in keys:
                self._forget(key)

    def drop_below(self, prefix: str) -> None:
        with self.memory.lock:
            for running in self._running.values():
                running.everything = True
            self._objects.drop([key for key in self._objects.names() if f"{key}".startswith(prefix)])
            parts = [name for name in self._parts.names() if isinstance(name, tuple)]
            self._parts.drop([name for name in parts if name[0].key.startswith(prefix)])

    def _forget(self, key: str) -> None:
        cached = self._objects.get(key)
        if cached is not None:
            self._parts.drop([(cached, start) for start in cached.starts])
            self._objects.drop([key])
