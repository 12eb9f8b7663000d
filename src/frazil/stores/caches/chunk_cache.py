"""A store over one whose values never change, that remembers ranges of them in the memory of the opened location: encoded chunks of a repository.

The memory itself is byte_cache.py. What may change is not read through this; what is kept on disk is disk_cache.py's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.stores.array_storage.chunk_storage import fetch_spans
from frazil.stores.caches.byte_cache import ENTRY, ByteCache, CacheSection
from frazil.stores.store import Store
from frazil.stores.values import FOUND, MISSING, Capabilities, Columns, Fetched, Sources, Version, flat_buffer
from frazil.stores.wrappers import WrappedStore

if TYPE_CHECKING:
    from frazil.stores.values import SourceBuffer

__all__ = ["RememberingStore"]

Name = tuple[str, int, int]  # key, start, length


class RememberingStore(WrappedStore):
    """Answers ranges that were asked for before without a request; others are fetched merged, as few requests as may be. Values beneath must never change.

    Ranges are remembered as they are asked for: inner chunks, mostly. A fetch of more than an eighth of the memory is taken for a pass over everything, of which
    nothing is remembered. Safe to use from many threads."""

    __slots__ = ("_ranges", "memory")

    def __init__(self, inner: Store, memory: ByteCache) -> None:
        super().__init__(inner)
        self.memory: Final = memory
        self._ranges: Final[CacheSection[bytes]] = CacheSection(memory, "chunk", chunks=True)

    def __reduce__(self) -> tuple[object, ...]:
        return RememberingStore, (self.inner, self.memory)

    @property
    def identity(self) -> str | None:
        return self.inner.identity

    @property
    def capabilities(self) -> Capabilities:
        """Those of the store beneath; but ranges need not be merged before they are asked for here."""
        return self.inner.capabilities._replace(direct=True)

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        """As the port says. What is held needs not be: a value that never changes is the same when it is asked for anew."""
        if expect is not None and any(version is not None for version in expect):
            return self.inner.fetch(names, spans, expect=expect)
        wanted: list[Name] = [(names[row], start, length) for row, start, length in spans.tolist()]
        get = self._ranges.get
        found = [get(name) for name in wanted] if self._ranges else [None] * len(wanted)
        missing = [i for i, value in enumerate(found) if value is None]
        asked, place = self._to_ask(names, spans, missing, continue_from)
        if len(missing) == len(wanted) and len(asked) == len(names):
            fetched = fetch_spans(self.inner, names, spans, single_read=single_read)
            self._remember(wanted, fetched)
            return fetched
        return self._composed(names, spans, found, missing, asked, place, continue_from)

    def _to_ask(
        self, names: Sequence[str], spans: Columns, missing: Sequence[int], continue_from: Fetched | None
    ) -> tuple[list[int], dict[int, int]]:
        """The rows of names to be asked of, and the place of each among them: those of missing ranges, and those to be looked up."""
        rows = set(spans[missing, 0].tolist())
        if continue_from is None:
            rows |= set(range(len(names))).difference(spans[:, 0].tolist())
        asked = sorted(rows)
        return asked, {row: i for i, row in enumerate(asked)}

    def _composed(
        self,
        names: Sequence[str],
        spans: Columns,
        found: Sequence[bytes | None],
        missing: Sequence[int],
        asked: Sequence[int],
        place: dict[int, int],
        continue_from: Fetched | None,
    ) -> Fetched:
        """The answer of what is remembered, and what has to be fetched."""
        buffers: list[SourceBuffer] = [b"" if value is None else value for value in found]
        rows = np.zeros((len(spans), 3), np.int64)
        rows[:, 0] = -1 - np.arange(len(spans))
        rows[:, 2] = [len(buffer) for buffer in buffers]
        status = [FOUND] * len(names) if continue_from is None else list(continue_from.status)
        versions: list[Version | None] = [None] * len(names) if continue_from is None else list(continue_from.versions)
        sizes = np.full(len(names), -1, np.int64) if continue_from is None else continue_from.sizes.copy()
        files = None
        if asked:
            some = spans[missing]
            some[:, 0] = [place[row] for row in some[:, 0].tolist()]
            fetched = fetch_spans(self.inner, [names[row] for row in asked], some)
            self._remember([(names[asked[row]], start, length) for row, start, length in some.tolist()], fetched)
            files, more = fetched.sources
            new = fetched.rows.copy()
            new[(new[:, 0] < 0) & (new[:, 0] != MISSING), 0] -= len(buffers)
            rows[missing] = new
            buffers += more
            sizes[asked] = fetched.sizes
            for row, i in place.items():
                status[row], versions[row] = fetched.status[i], fetched.versions[i]
        return Fetched(Sources(files, buffers), status, versions, sizes, rows)

    def _remember(self, wanted: Sequence[Name], fetched: Fetched) -> None:
        """Copies what was fetched, so that no more is held than is counted."""
        lengths = np.maximum(fetched.rows[:, 2], 0)
        if int(lengths.sum()) + ENTRY * len(wanted) > self.memory.limit // 8:
            return
        buffers = fetched.sources.buffers
        for name, (blob, start, count) in zip(wanted, fetched.rows.tolist(), strict=True):
            if blob >= 0 or blob == MISSING or name[1] < 0 or count <= 0 or count != name[2]:
                continue
            buffer = buffers[-1 - blob]
            whole = start == 0 and len(buffer) == count
            value = buffer if isinstance(buffer, bytes) and whole else bytes(flat_buffer(buffer)[start : start + count])
            if len(value) == count:
                self._ranges.put(name, value, count)
