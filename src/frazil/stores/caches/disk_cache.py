"""A store over a remote one that keeps the values that were read in a folder, which any number of processes share.

The files are in cache_folder.py, the fetch from kept and other values in caching_store.py. The caller that opens the store declares which keys never change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Final

from frazil.errors import InvalidInputError, StoreError
from frazil.stores.caches.cache_folder import LONGEST_VERSION, CacheFolder, Entry, object_id, open_folder
from frazil.stores.caches.caching_store import CachePolicy, KeepingStore
from frazil.stores.caches.memory_ranges import Addition, KeptObject, Part, RangeCache, RunningFetch, Span
from frazil.stores.store import Store
from frazil.stores.values import Versions, clip_span

DEFAULT_LIMIT: Final = 10 * 2**30  # bytes
_SMALL: Final = 2**14  # bytes: a version request takes as long as reading a range of this size or less
_LARGEST: Final = 2**30  # bytes of the largest range that is kept


class DiskCache(KeepingStore):
    """Keeps the values read from `inner` in a folder, in at most `limit` bytes; the least recently used are removed first. It never returns a value older than
    that of `inner`.

    unchanging  beginnings of keys whose values never change once they are written: kept values are returned without a request, and values of other keys are not
                kept. None: every value may change; `inner` is asked for its version each time, which saves bytes but no request, so that small ranges are not
                kept
    Safe to use from many threads and processes; pickles, and then creates the folder where it is opened again.
    Raises InvalidInputError for a folder that is no cache, an invalid limit, and a store without an identity (Store.identity);
    StoreError for a folder that cannot be used."""

    __slots__ = ("_files",)

    def __init__(
        self,
        inner: Store,
        folder: str | os.PathLike[str],
        limit: int = DEFAULT_LIMIT,
        *,
        unchanging: Sequence[str] | None = None,
        small: int = _SMALL,
    ) -> None:
        _check_limit(limit)
        identity = inner.identity
        if identity is None:
            raise InvalidInputError(
                f"{inner!r} cannot be cached in a folder: it has no identity",
                hint="give the store the property `identity`",
            )
        self._files: Final = DiskRanges(open_folder(folder), identity, limit)
        policy = CachePolicy(True, smallest=small + 1) if unchanging is None else CachePolicy(False, tuple(unchanging))
        super().__init__(inner, self._files, policy)

    def __repr__(self) -> str:
        return f"DiskCache({self.inner!r}, {self.folder!r})"

    def __reduce__(self) -> tuple[object, ...]:
        policy = self._policy
        unchanging = None if policy.compares else policy.beginnings
        make = partial(DiskCache, unchanging=unchanging, small=policy.smallest - 1)
        return make, (self.inner, self.folder, self._files.limit)

    @property
    def identity(self) -> str | None:
        return self.inner.identity

    @property
    def folder(self) -> str:
        return self._files.folder.path


class DiskRanges(RangeCache):
    """Parts of values in a CacheFolder (memory_ranges.RangeCache). A key may have several versions, written by other processes; only the requested version is
    returned."""

    def __init__(self, folder: CacheFolder, identity: str, limit: int) -> None:
        self.folder, self.identity, self.limit = folder, identity, limit
        self._measured = -1  # bytes in the folder when it was last measured; below 0: not yet
        self._written = 0  # by this process since then
        self._listed: tuple[str, int, list[Entry]] = ("", 0, [])  # an object, a time, its entries then
        self._measuring = 0  # the id of the process that is measuring; a child of it is not

    def find(
        self, names: Sequence[str], spans: Sequence[Span], versions: Versions | None = None
    ) -> tuple[list[KeptObject | None], list[Part | None]]:
        objects: list[KeptObject | None] = []
        usable: list[list[Entry]] = []
        for row, name in enumerate(names):
            entries = self._entries(name)
            if versions is not None:
                entries = [entry for entry in entries if entry.version == versions[row]]
            newest = self._newest(entries)
            objects.append(newest)
            usable.append([entry for entry in entries if newest and entry.version == newest.version])
        return objects, [self._part(usable[row], start, length) for row, start, length in spans]

    def _newest(self, entries: Sequence[Entry]) -> Entry | None:
        """Of several versions, the one used last."""
        several = len({(entry.version, entry.size) for entry in entries}) > 1
        return max(entries, key=self.folder.used_at) if several else next(iter(entries), None)

    def _part(self, entries: Sequence[Entry], start: int, length: int) -> Part | None:
        for entry in entries:
            first, count = clip_span(start, length, entry.size)
            if not count or not entry.start <= first <= first + count <= entry.end:
                continue
            found = self.folder.read(entry, first, count)
            if found is not None:
                return Part(*found)
            self._forget_listing()
        return None

    def add(self, running: RunningFetch, additions: Sequence[Addition]) -> None:
        """Dropped values cannot come back: values that may change are compared before they are returned."""
        for addition in additions:
            self._add(addition)

    def _add(self, addition: Addition) -> None:
        key, version, size, (start, value) = addition
        if not value or len(value) > min(self.limit // 4, _LARGEST) or (version and len(version) > LONGEST_VERSION):
            return
        new = Entry(object_id(self.identity, key), version, start, start + len(value), size)
        before = self._entries(key)
        if self.folder.write(new, value):
            for old in before:
                same = (old.version, old.size) == (version, size)
                if old != new and (not same or new.start <= old.start <= old.end <= new.end):
                    self.folder.remove(old)
            self._forget_listing()
            self._measure(len(value))

    def drop(self, keys: Sequence[str]) -> None:
        for key in keys:
            for entry in self._entries(key):
                self.folder.remove(entry)
        self._forget_listing()

    def drop_below(self, prefix: str) -> None:
        """Entries of removed keys are not returned any more, and are removed when space is needed."""

    def _entries(self, key: str) -> Sequence[Entry]:
        """The entries of a key. Those of the last key are remembered as long as no file was added or removed; if other processes change the folder between two
        ticks of its clock, that costs a request at most."""
        identity = object_id(self.identity, key)
        changed = self.folder.changed_at(identity)
        last = self._listed
        if last[0] == identity and last[1] == changed:
            return last[2]
        found = self.folder.entries(identity) if changed else []
        self._listed = identity, changed, found
        return found

    def _forget_listing(self) -> None:
        self._listed = "", 0, []

    def _measure(self, nbytes: int) -> None:
        """Trims the folder when it may be full: the bytes written by this process are known, those of others are measured from time to time."""
        self._written += nbytes
        full = self._measured < 0 or self._measured + self._written > self.limit or self._written > self.limit // 16
        if not full or self._measuring == os.getpid():
            return
        self._measuring = os.getpid()
        try:
            self._written = 0
            found = self.folder.usage().nbytes
            self._measured = self.folder.trim(self.limit // 8 * 7).nbytes if found > self.limit else found
        except StoreError:  # the folder was removed or replaced: reading continues without it
            self._measured = 0
        finally:
            self._measuring = 0


def cached(
    store: Store, folder: str | os.PathLike[str] | None, limit: int | None, unchanging: Sequence[str] | None = None
) -> Store:
    """The store itself if no folder is given, or if reading needs no request, as from a local disk; else a DiskCache over it."""
    if folder is None:
        if limit is not None:
            raise InvalidInputError("cache_limit has no meaning without a cache", hint='cache="folder"')
        return store
    bound = DEFAULT_LIMIT if limit is None else limit
    _check_limit(bound)
    return store if store.capabilities.direct else DiskCache(store, folder, bound, unchanging=unchanging)


def _check_limit(limit: object) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InvalidInputError(f"the limit of a cache on disk is {limit!r}; it must be a number of bytes, 1 or more")
