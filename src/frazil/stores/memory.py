"""The store in memory: a table of immutable values under sorted keys."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from frazil.base.fork_safety import renew_after_fork
from frazil.stores.keys.listing import page_of
from frazil.stores.store import Store
from frazil.stores.transfer.content import join_pieces
from frazil.stores.values import (
    ABSENT,
    ABSENT_KEY,
    FOUND,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Page,
    Pieces,
    Sources,
    Version,
    Versions,
    mark_stale,
    object_rows,
)

_NOTHING: tuple[bytes, Version | None] = (b"", None)
_ALL = Capabilities(direct=True)


class _Table:
    """The content of a store, shared by all stores of one name. Readers take no lock: a value and its version are replaced together."""

    __slots__ = ("__weakref__", "_sorted", "lock", "mark", "objects", "times", "written")

    def __init__(self, objects: dict[str, tuple[bytes, Version | None]], written: int) -> None:
        self.objects = objects
        self.times: dict[str, int] = {}  # when each value was put, ns since 1970
        self.written = written  # values ever put: the next version, never used twice
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """In the child of a fork: replaces what another thread of the parent may have held or left half done."""
        self.lock = threading.Lock()
        self.mark = os.urandom(16).hex()  # unique to this content
        self._sorted: list[str] | None = None

    def sorted_keys(self) -> list[str]:
        with self.lock:
            if self._sorted is None:
                self._sorted = sorted(self.objects)
            return self._sorted

    def put(self, key: str, value: bytes, expect: Version | None) -> Version | Changed:
        present = self.objects.get(key, _NOTHING)[1] or ABSENT
        if expect is not None and expect != present:
            return Changed(present)
        if present == ABSENT:
            self._sorted = None
        self.written += 1
        version = self.written.to_bytes(8, "little")
        self.objects[key] = (value, version)
        self.times[key] = time.time_ns()
        return version

    def erase(self, key: str, expect: Version | None) -> Changed | None:
        present = self.objects.get(key, _NOTHING)[1] or ABSENT
        if expect is not None and expect != present:
            return Changed(present)
        if present != ABSENT:
            self._sorted = None  # first: an interrupt must not leave the key in listings
            del self.objects[key]
        self.times.pop(key, None)
        return None


# The named stores of this process: "memory://name" is the same store everywhere in it. They last as long as the process; erase_prefix("") frees
# their memory. A fork has copies.
_named: dict[str, _Table] = {}


class MemoryStore(Store):
    """A store in memory. With a name, all MemoryStore(name) of the process share one content, and a pickle holds the name alone; without, the store
    has its own content, and a pickle holds a copy of it."""

    __slots__ = ("_table", "name")

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self._table = _Table({}, 0) if name is None else _named.setdefault(name, _Table({}, 0))

    @property
    def mark(self) -> str:
        """Identifies this content, and is never equal to the mark of another one, not even of one at the same address in memory."""
        return self._table.mark

    def __repr__(self) -> str:
        return "MemoryStore()" if self.name is None else f"MemoryStore({self.name!r})"

    def __str__(self) -> str:
        return repr(self) if self.name is None else f"memory://{self.name}"

    def __reduce__(self) -> tuple[object, ...]:
        if self.name is not None:
            return MemoryStore, (self.name,)
        with self._table.lock:
            return _with_content, (dict(self._table.objects), self._table.written)

    @property
    def capabilities(self) -> Capabilities:
        return _ALL

    @property
    def identity(self) -> str | None:
        return f"memory:{self._table.mark}"

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        if continue_from is None:
            objects = self._table.objects
            found = [objects.get(name, _NOTHING) for name in names]
            values, versions = [value for value, _ in found], [version for _, version in found]
            sources = Sources(None, values)
            sizes = np.array([-1 if version is None else len(value) for value, version in found], np.int64)
        else:
            sources, versions, sizes = continue_from.sources, list(continue_from.versions), continue_from.sizes
        status = [ABSENT_KEY if version is None else FOUND for version in versions]
        mark_stale(status, versions, expect)
        return Fetched(sources, status, versions, sizes, object_rows(spans, status, sizes))

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        values = join_pieces(pieces, names)
        with self._table.lock:
            return [self._table.put(*write) for write in zip(names, values, expect, strict=True)]

    def _read_direct(self, keys: Sequence[str]) -> list[bytes | None] | None:
        """As Store says, unless a subclass reads in another way."""
        if type(self).fetch is not MemoryStore.fetch:
            return None
        objects = self._table.objects
        return [None if (found := objects.get(key)) is None else found[0] for key in keys]

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        with self._table.lock:
            return [self._table.erase(name, expected) for name, expected in zip(names, expect, strict=True)]

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        keys = self._table.sorted_keys()
        first = max(bisect_left(keys, prefix), bisect_right(keys, after))
        last = _end(keys, prefix, first)
        if delimited:
            page = page_of(_level(keys, prefix, first, last), after, limit)
        else:
            end = last if limit is None else min(last, first + limit)
            page = Page(keys[first:end], keys[end - 1] if end < last else None)
        if not details:
            return page
        found = [self._table.objects.get(key, _NOTHING) for key in page.keys]
        sizes = np.array([-1 if version is None else len(value) for value, version in found], np.int64)
        return page._replace(
            sizes=sizes,
            versions=[version for _, version in found],
            modified=np.array([self._table.times.get(key, -1) for key in page.keys], np.int64),
        )


def _level(keys: list[str], prefix: str, at: int, last: int) -> Iterator[str]:
    """The rows directly below a prefix, of keys[at:last], which begin with it."""
    while at < last:
        slash = keys[at].find("/", len(prefix))
        if slash < 0:
            yield keys[at]
            at += 1
        else:
            yield (below := keys[at][: slash + 1])
            at = _end(keys, below, at, last)


def _end(keys: list[str], prefix: str, first: int, last: int | None = None) -> int:
    """The index after the last key that begins with prefix. All of them come before the prefix with its last "/" replaced by "0", the next character."""
    last = len(keys) if last is None else last
    return last if prefix == "" else bisect_left(keys, prefix[:-1] + "0", first, max(first, last))


def _with_content(objects: dict[str, tuple[bytes, Version | None]], written: int) -> MemoryStore:
    store = MemoryStore()
    store._table = _Table(objects, written)
    return store
