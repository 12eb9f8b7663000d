"""Remembers shard indexes: stacked tables with the versions of their shards, by the names of the shards. All handles of an opened location share them; its
memory (stores/caches/byte_cache.py) counts their bytes.

shard_lookup.py and the kernel read and check indexes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import numpy as np

from frazil.array.hierarchy.nodes import NodeLocation
from frazil.base.arrays import Columns
from frazil.base.record import Record
from frazil.codecs.chain.compiled_chain import Chain
from frazil.metadata.model import ArrayMetadata
from frazil.stores.caches.byte_cache import ENTRY, ByteCache, CacheSection
from frazil.stores.values import Version, Versions

_NAME: Final = 128  # bytes counted for the name of a shard


class IndexTables(Record):
    """The indexes of g shards that were read together. It never changes.

    tables    int64[g, total, 2]
    versions  of the shards: int64[g, 3] (inode, size, time of change in ns) of files on a local disk; bytes of any other; None: they are always the same"""

    tables: Columns
    versions: Columns | Versions | None

    @property
    def file_versions(self) -> Columns | None:
        """The versions of files on a local disk."""
        assert self.versions is None or isinstance(self.versions, np.ndarray), "versions of files are columns"
        return self.versions

    def version(self, row: int) -> Version | None:
        """The version in the form of a store."""
        if isinstance(self.versions, np.ndarray):
            version: Version = self.versions[row].astype("<i8", copy=False).tobytes()
            return version
        return None if self.versions is None else self.versions[row]


Slot = tuple[IndexTables, int]  # tables, and a row of them
FILE_VERSION: Final = 24  # bytes of the version of a file on a local disk


def file_versions(versions: Versions) -> Columns | None:
    """The versions of files on a local disk as int64[n, 3]; None where one is of another kind."""
    known = [version for version in versions if version is not None and len(version) == FILE_VERSION]
    if len(known) < len(versions):
        return None
    columns: Columns = np.frombuffer(b"".join(known), "<i8").astype(np.int64).reshape(-1, 3)
    return columns


_NOTHING: Final[tuple[IndexTables | None, Sequence[Hashable], int]] = (None, (), 0)


class _Kept:
    """The remembered indexes of one kind. blocks: by identity, each with its names; the oldest first."""

    __slots__ = ("blocks", "nbytes", "slots")

    def __init__(self) -> None:
        self.slots: dict[Hashable, Slot] = {}
        self.blocks: dict[int, tuple[IndexTables, Sequence[Hashable], int]] = {}
        self.nbytes = 0

    def add(self, names: Sequence[Hashable], tables: IndexTables) -> None:
        nbytes = tables.tables.nbytes + _NAME * len(names) + ENTRY
        self.blocks[id(tables)] = tables, names, nbytes
        self.nbytes += nbytes
        for row, name in enumerate(names):
            before, _ = self.slots.get(name, (tables, row))
            if before is not tables and len(before.tables) == 1:
                self.remove(id(before))
            self.slots[name] = tables, row

    def remove(self, block: int) -> None:
        tables, names, nbytes = self.blocks.pop(block, _NOTHING)
        self.nbytes -= nbytes
        for name in names:
            if self.slots.get(name, (None,))[0] is tables:
                del self.slots[name]


class RememberedIndexes:
    """The indexes of one array, or of all arrays whose shards have names of their own. If there are too many, the oldest are dropped first. Safe to use from
    many threads, and after a fork, where it begins empty.

    by_coordinates  the name of a shard is its coordinates; else its label (Located.labels)"""

    __slots__ = ("_section", "by_coordinates", "memory")

    def __init__(self, memory: ByteCache, label: Hashable, *, by_coordinates: bool) -> None:
        self._section: Final[CacheSection[_Kept]] = CacheSection(memory, label)
        self.memory: Final = memory
        self.by_coordinates: Final = by_coordinates

    def find(self, names: Sequence[Hashable]) -> list[Slot | None] | None:
        """For each shard its index, None where it is not remembered; a single None if there is none at all."""
        remembered = self._section.get("")
        if remembered is None or not remembered.slots:
            return None
        found = list(map(remembered.slots.get, names))
        return found if any(found) else None

    def put(self, names: Sequence[Hashable], tables: IndexTables) -> None:
        """Remembers the indexes of shards, if they fit, in place of those before."""
        memory = self.memory
        if tables.tables.nbytes + ENTRY * 2 + _NAME * len(names) > memory.limit:
            self.drop(names)
            return
        tables.tables.flags.writeable = False
        remembered = self._section.get("") or _Kept()
        with memory.lock:
            remembered.add(names, tables)
            while remembered.nbytes + ENTRY > memory.limit:
                remembered.remove(next(iter(remembered.blocks)))
        self._section.put("", remembered, remembered.nbytes)

    def drop(self, names: Iterable[Hashable]) -> None:
        """Drops the indexes of these names; the bytes of indexes that were put together are released together."""
        remembered = self._section.get("")
        if remembered is None:
            return
        before = remembered.nbytes
        for name in names:
            slot = remembered.slots.pop(name, None)
            if slot is not None and len(slot[0].tables) == 1:
                with self.memory.lock:
                    remembered.remove(id(slot[0]))
        if remembered.nbytes != before:
            self._section.put("", remembered, remembered.nbytes)


def remembered_indexes(location: NodeLocation, metadata: ArrayMetadata, chain: Chain) -> RememberedIndexes | None:
    """The memory of an array for shard indexes; None if they cannot be remembered: they are inside shards, or inside codecs around these. Handles of the opened
    location share indexes that are read from the same bytes in the same way; with transformers, or codecs that users define, they are not shared."""
    if len(chain.levels) != 1 or not chain.levels[0].addressable:
        return None
    memory = ByteCache(location.runtime.cache_bytes) if location.memory is None else location.memory
    level, plain = chain.levels[0], location.nodes is None
    if location.transformers or metadata.storage_transformers or not level.index_codecs.plain:
        return RememberedIndexes(memory, object(), by_coordinates=plain)
    endian = getattr(level.index_codecs.serializer, "endian", None)
    label = "shard index", level.counts, level.at_end, endian, len(level.index_codecs.after)
    if not plain:
        return RememberedIndexes(memory, label, by_coordinates=False)
    return RememberedIndexes(memory, (*label, location.layout.data_prefix(location.path)), by_coordinates=True)
