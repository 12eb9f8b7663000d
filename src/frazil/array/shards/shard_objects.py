"""The objects that hold encoded chunks during a call: of a chunk storage, or shards that were decoded into memory.

Objects convert spans to rows for the kernel. Nothing is decoded here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Columns
from frazil.stores.array_storage.chunk_storage import ChunkStorage, Located
from frazil.stores.transfer.composed_values import joined_sources
from frazil.stores.values import STALE, Fetched, SourceBuffer, Sources, Versions, flat_buffer


class Objects(Protocol):
    """Objects that spans refer to. stale: objects whose version changed since the first fetch."""

    @property
    def stale(self) -> Collection[int]: ...

    def rows(self, spans: Columns) -> tuple[Sources, Columns]:
        """int64[n, 3] of (object, start, length), start < 0 for nothing, as rows for the kernel."""


class StoredObjects:
    """Objects of a chunk storage; every fetch reads the same version of them. fetched: an answer of these versions, which later fetches continue."""

    __slots__ = ("_expect", "_fetched", "_located", "_storage", "stale")

    def __init__(
        self, storage: ChunkStorage, located: Located, expect: Versions | None, fetched: Fetched | None
    ) -> None:
        self._storage, self._located, self._expect, self._fetched = storage, located, expect, fetched
        self.stale: set[int] = set()  # objects whose version has changed

    def rows(self, spans: Columns) -> tuple[Sources, Columns]:
        present = spans[:, 1] >= 0
        if present.all():
            fetched = self._fetch(spans)
            return fetched.sources, fetched.rows
        if self._fetched is not None and not present.any():
            return Sources(None, ()), missing_rows(len(spans))
        # if nothing must be fetched, a remembered index must still be compared with its object
        fetched = self._fetch(np.ascontiguousarray(spans[present]))
        rows = missing_rows(len(spans))
        rows[present] = fetched.rows
        return fetched.sources, rows

    def _fetch(self, spans: Columns) -> Fetched:
        fetched = self._storage.fetch(self._located, spans, expect=self._expect, continue_from=self._fetched)
        self.stale.update(i for i, status in enumerate(fetched.status) if status == STALE)
        return fetched


class MemoryObjects:
    """Objects decoded into memory, one buffer each."""

    __slots__ = ("_sources",)
    stale = ()

    def __init__(self, buffers: Sequence[_kernel.Segment | bytes]) -> None:
        self._sources = Sources(None, buffers)

    def rows(self, spans: Columns) -> tuple[Sources, Columns]:
        rows = spans.copy()
        rows[:, 0] = np.where(spans[:, 1] < 0, _kernel.MISSING, -1 - spans[:, 0])
        rows[spans[:, 1] < 0, 1:] = 0
        return self._sources, rows


class BlobTable:
    """The files and buffers of several fetches with one numbering, so that one table can have rows of all of them."""

    __slots__ = ("buffers", "sources")

    def __init__(self) -> None:
        self.buffers: list[SourceBuffer] = []
        self.sources = Sources(None, self.buffers)

    def add(self, sources: Sources, rows: Columns) -> Columns:
        """Adds the files and buffers. Returns the rows, with the numbers that these have here."""
        (files, self.buffers[:]), rows = joined_sources(self.sources, sources, rows)
        self.sources = Sources(files, self.buffers)
        return rows

    def add_buffer(self, buffer: SourceBuffer) -> int:
        """The blob number of a new buffer."""
        self.buffers.append(buffer)
        return -len(self.buffers)

    @property
    def nbytes(self) -> int:
        return sum(len(flat_buffer(buffer)) for buffer in self.buffers)


def missing_rows(count: int) -> Columns:
    rows = np.zeros((count, 3), np.int64)
    rows[:, 0] = _kernel.MISSING
    return rows
