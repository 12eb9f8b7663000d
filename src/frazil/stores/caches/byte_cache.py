"""The memory of an opened location: everything that takes requests to get again, of all kinds, under one limit of bytes.

Nothing is requested or read here. Users: shard indexes in array/shards/shard_indexes.py, repository files in repository/alpha/file_cache.py, ranges of values
in memory_ranges.py."""

from __future__ import annotations

from _thread import RLock  # threading's, without the module
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from contextlib import AbstractContextManager
from typing import Final, Generic, TypeAlias, TypeVar

from frazil.base.fork_safety import renew_after_fork

T = TypeVar("T")

ENTRY: Final = 512  # bytes of overhead for each thing that is remembered: its name, and places in tables
_INDEXES, _CHUNKS = 0, 1
_Entries: TypeAlias = "OrderedDict[tuple[Hashable, Hashable], tuple[object, int]]"
_Memory: TypeAlias = "tuple[RLock, tuple[_Entries, _Entries], list[int]]"  # for each kind its entries and their bytes


def _new_memory() -> _Memory:
    return RLock(), (OrderedDict(), OrderedDict()), [0, 0]


class ByteCache:
    """At most `limit` bytes of things by name, including `entry` bytes for each; the least recently used are removed first. 0: nothing is remembered.

    Encoded chunks use at most half of the limit, and are removed before everything else: an index saves a request for every chunk of a shard, and one pass over
    much data must not remove indexes. Safe to use from many threads. A fork and a pickle start empty. Equal to any other one of this limit: the remembered
    things are no part of the identity of a location."""

    __slots__ = ("__weakref__", "_bytes", "_entries", "_lock", "_made", "entry", "limit")

    def __init__(self, limit: int, entry: int = ENTRY) -> None:
        self.limit: Final = limit
        self.entry: Final = entry
        self._made: list[_Memory] = []

    def __getattr__(self, name: str) -> object:
        """Makes the lock and the tables when one of them is first needed: most locations that are opened remember nothing. If several threads do, the first
        ones are used."""
        if name in ("_lock", "_entries", "_bytes"):
            self._made.append(_new_memory())
            renew_after_fork(self)
            self._lock, self._entries, self._bytes = self._made[0]
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        return f"ByteCache({self.limit})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByteCache) and self.limit == other.limit

    def __hash__(self) -> int:
        return hash((ByteCache, self.limit))

    def __reduce__(self) -> tuple[object, ...]:
        return ByteCache, (self.limit, self.entry)

    def __len__(self) -> int:
        return sum(map(len, self._entries))

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held while the remembered things are changed; reentrant. A fork has another lock."""
        return self._lock

    @property
    def nbytes(self) -> int:
        """The bytes that are remembered now, with the overhead."""
        return sum(self._bytes)

    def forget(self) -> None:
        with self._lock:
            self._bytes[:] = 0, 0
            for entries in self._entries:
                entries.clear()

    def after_fork(self) -> None:
        """Forgets everything in the child, as another thread of the parent may have been interrupted half-way."""
        self._made = [_new_memory()]
        self._lock, self._entries, self._bytes = self._made[0]

    def _put(self, kind: int, key: tuple[Hashable, Hashable], value: object, nbytes: int) -> None:
        weight = nbytes + self.entry
        with self._lock:
            entries, used = self._entries[kind], self._bytes
            if key in entries:
                self._remove(kind, key)
            if weight > (self.limit // 2 if kind == _CHUNKS else self.limit):
                return
            entries[key] = value, weight
            used[kind] += weight
            while used[_CHUNKS] > self.limit // 2:
                self._remove(_CHUNKS, next(iter(self._entries[_CHUNKS])))
            while used[_INDEXES] + used[_CHUNKS] > self.limit:
                kind = _CHUNKS if self._entries[_CHUNKS] else _INDEXES
                self._remove(kind, next(iter(self._entries[kind])))

    def _remove(self, kind: int, key: tuple[Hashable, Hashable]) -> None:
        """The count is reduced first: after an interrupt in between, no bytes are counted that are not held."""
        found = self._entries[kind].get(key)
        if found is not None:
            self._bytes[kind] -= found[1]
            self._entries[kind].pop(key, None)


class CacheSection(Generic[T]):
    """Things of one kind in a ByteCache, with names of their own. All sections with one label are the same.

    chunks  whether these are encoded chunks, which are removed before everything else"""

    __slots__ = ("_kind", "_label", "memory")

    def __init__(self, memory: ByteCache, label: Hashable, *, chunks: bool = False) -> None:
        self.memory: Final = memory
        self._label, self._kind = label, _CHUNKS if chunks else _INDEXES

    def __bool__(self) -> bool:
        """False if it can hold nothing, as the limit is 0."""
        return bool(self.memory._entries[self._kind])

    def get(self, name: Hashable) -> T | None:
        """The thing that was put under this name; it is shared, and must not be changed."""
        memory, key = self.memory, (self._label, name)
        entries = memory._entries[self._kind]
        found = entries.get(key)
        if found is None:
            return None
        with memory._lock:
            if key in entries:
                entries.move_to_end(key)
        value: T = found[0]  # type: ignore[assignment] # the type that put took; a cast would cost a call
        return value

    def get_many(self, names: Iterable[Hashable]) -> list[T | None]:
        """get, for each of these."""
        memory, label = self.memory, self._label
        values: list[T | None] = []
        with memory._lock:
            entries = memory._entries[self._kind]
            for name in names:
                key = label, name
                found = entries.get(key)
                if found is not None:
                    entries.move_to_end(key)
                values.append(None if found is None else found[0])  # type: ignore[arg-type] # as in get
        return values

    def put(self, name: Hashable, value: T, nbytes: int) -> None:
        """Remembers a thing of this many bytes, if it fits; the old one of this name is forgotten in any case."""
        self.memory._put(self._kind, (self._label, name), value, nbytes)

    def names(self) -> list[Hashable]:
        """The names of all things in this section."""
        with self.memory._lock:
            return [name for label, name in self.memory._entries[self._kind] if label == self._label]

    def drop(self, names: Iterable[Hashable]) -> None:
        memory = self.memory
        with memory._lock:
            for name in names:
                memory._remove(self._kind, (self._label, name))
