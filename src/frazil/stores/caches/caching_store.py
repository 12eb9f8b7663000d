"""Stores over a store that keep encoded values: their common policy and fetch, the store that keeps in memory what users choose (the draft names it as an
example of a storage transformer added at run time), and the one that keeps chunks of a repository.

The parts are kept by a backend: memory_ranges.py, or the store over a folder, disk_cache.py. Decoded chunks and missing keys are not kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.base.record import Record
from frazil.base.retry import READS, attempts, replaced
from frazil.errors import InvalidInputError
from frazil.stores.array_storage.chunk_storage import fetch_spans
from frazil.stores.caches.byte_cache import ByteCache
from frazil.stores.caches.memory_ranges import Addition, MemoryRanges, Part, RangeCache, RunningFetch, Span
from frazil.stores.port import StorePort
from frazil.stores.store import Store
from frazil.stores.transfer.content import read_views
from frazil.stores.transfer.fetch_pages import fetch_in_pages, pages_of
from frazil.stores.values import (
    FOUND,
    MISSING,
    NO_SPANS,
    STALE,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Pieces,
    Sources,
    Version,
    Versions,
    clip_span,
    continued,
    mark_stale,
    replaced_between_requests,
    resolve_span,
)
from frazil.stores.wrappers import WrappedStore

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.stores.operations.partial_values import Writes
    from frazil.stores.values import SourceBuffer


class CachePolicy(Record):
    """Which values are kept, and whether they are compared.

    compares    kept values are returned only if the store below reports the version that was kept; else without asking it
    beginnings  of the keys whose values are kept
    smallest    bytes of the smallest range that is kept"""

    compares: bool
    beginnings: tuple[str, ...] = ("",)
    smallest: int = 0

    def trusts(self, name: str) -> bool:
        """Whether kept values of this key are returned without asking the store below."""
        return not self.compares and name.startswith(self.beginnings)

    def keeps(self, name: str, nbytes: int) -> bool:
        """Whether a range of this many bytes of this key is kept."""
        return nbytes >= self.smallest and name.startswith(self.beginnings)


class _InnerFetch(Record):
    """A request to the store below, and its answer; `resume` of the answer that it completed.

    row_of   for each name that was requested, by its row in the answer, its row in the request
    running  the fetch, which begins before the request: values that it reads later are as old"""

    row_of: Mapping[int, int]
    fetched: Fetched
    running: RunningFetch


_NOT_ASKED: Final = _InnerFetch({}, Fetched(Sources(None, ()), (), (), np.zeros(0, np.int64), NO_SPANS), RunningFetch())


class _Answer:
    """An answer in progress. parts: for each span the known bytes; None: to be fetched, or missing."""

    __slots__ = ("names", "parts", "sizes", "spans", "status", "version_may_repeat", "versions")

    def __init__(self, names: Sequence[str], spans: Columns) -> None:
        count = len(names)
        self.names = names
        self.spans: list[Span] = spans.tolist()
        self.parts: list[Part | None] = []
        self.status = [FOUND] * count
        self.versions: list[Version | None] = [None] * count
        self.sizes = [-1] * count
        self.version_may_repeat = [False] * count

    def spans_of(self, which: Sequence[int], row_of: Mapping[int, int]) -> Columns:
        """Some of the spans, with renumbered names."""
        found = [(row_of[row], start, length) for row, start, length in (self.spans[i] for i in which)]
        return np.array(found, np.int64) if found else NO_SPANS

    def fetched(self, request: _InnerFetch) -> Fetched:
        rows: list[Span] = []
        buffers: list[SourceBuffer] = []
        for (name, start, length), part in zip(self.spans, self.parts, strict=True):
            if part is None or self.status[name] != FOUND:
                rows.append((MISSING, 0, 0))
                continue
            if start < 0 or length < 0:
                start, length = resolve_span(start, length, self.sizes[name])
            buffers.append(part[1])
            rows.append((-len(buffers), start - part[0], length))
        return Fetched(
            Sources(None, buffers),
            self.status,
            self.versions,
            np.array(self.sizes, np.int64),
            np.array(rows, np.int64) if rows else NO_SPANS,
            self.version_may_repeat if True in self.version_may_repeat else None,
            request,
            request.fetched.stream if len(self.names) == 1 else None,
        )


class KeepingStore(WrappedStore):
    """Keeps the values read from `inner`, whole or in ranges, as they are stored, by a policy, in one of two backends.

    hits, misses  ranges (a whole value is one) that the cache had, and that it did not have, including missing keys. Many threads may lose some counts"""

    __slots__ = ("_kept", "_policy", "hits", "misses")

    def __init__(self, inner: Store, cache: RangeCache, policy: CachePolicy) -> None:
        super().__init__(inner)
        self._kept: RangeCache = cache
        self._policy = policy
        self.hits = self.misses = 0

    @property
    def uncached(self) -> Store:
        return self.inner.uncached

    @property
    def capabilities(self) -> Capabilities:
        # keeping a few large ranges is cheaper than many small ones
        return self.inner.capabilities._replace(direct=False)

    # --- reading ---------------------------------------------------------------------------------------------------------------------

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        """As the port says. Values from the cache that are removed before the answer is continued are read again in that version, or are STALE."""
        if continue_from is not None:
            return self._fetch_continued(names, spans, expect, continue_from)
        if single_read:
            return fetch_in_pages(self._fetch, names, spans, expect, pages_of(len(names)))
        return self._fetch(names, spans, expect)

    def _fetch(self, names: Sequence[str], spans: Columns, expect: Versions | None) -> Fetched:
        for _ in attempts(READS):
            fetched = self._fetch_now(names, spans, expect)
            if not replaced_between_requests(fetched, expect):
                return fetched
        raise replaced("the value was", names[0])

    def _fetch_now(self, names: Sequence[str], spans: Columns, expect: Versions | None) -> Fetched:
        answer, trusts = _Answer(names, spans), self._policy.trusts
        objects, answer.parts = self._kept.find(names, answer.spans)
        missing = [i for i, part in enumerate(answer.parts) if part is None] if None in answer.parts else []
        unsure = {answer.spans[i][0] for i in missing}
        if len(spans) < len(names) or len(names) > 1:
            unsure.update(set(range(len(names))).difference([span[0] for span in answer.spans]))  # to be looked up
        for row, found in enumerate(objects):
            if found is None:
                unsure.add(row)
                continue
            answer.versions[row], answer.sizes[row] = found.version, found.size
            if not trusts(names[row]) or (expect is not None and expect[row] not in (None, found.version)):
                unsure.add(row)
        if unsure:
            return self._completed(answer, sorted(unsure), missing, expect)
        self.hits += len(answer.spans)
        return answer.fetched(_NOT_ASKED)

    def _completed(
        self, answer: _Answer, rows: Sequence[int], missing: Sequence[int], expect: Versions | None
    ) -> Fetched:
        """The rest of an answer, from the store below: for the names of some rows."""
        new = len(missing) == len(answer.spans) and len(rows) == len(answer.names) and max(answer.sizes, default=-1) < 0
        request = self._fetch_inner(answer, rows, missing, expect)
        inner, changed = request.fetched, set()
        if new and inner.sources.files is None and not self._kept.takes(int(inner.rows[:, 2].sum()), len(missing)):
            self.misses += len(missing)
            # a pass over much data, returned unchanged
            return inner._replace(resume=request)
        repeats = inner.version_may_repeat or [False] * len(rows)
        for row, version, status, size, repeat in zip(
            rows, inner.versions, inner.status, inner.sizes.tolist(), repeats, strict=True
        ):
            if answer.versions[row] != version or version is None:
                changed.add(row)
            answer.status[row], answer.versions[row], answer.sizes[row] = status, version, size
            answer.version_may_repeat[row] = repeat
        late = [i for i, span in enumerate(answer.spans) if span[0] in changed and answer.parts[i] is not None]
        self._take(answer, missing, request)
        self._take_continued(answer, late, request)
        self.hits += len(answer.spans) - len(missing) - len(late)
        self.misses += len(missing) + len(late)
        return answer.fetched(request)

    def _fetch_inner(
        self, answer: _Answer, rows: Sequence[int], which: Sequence[int], expect: Versions | None
    ) -> _InnerFetch:
        """Requests the names of some rows, and some of their spans, from the store below; neighbours in one request."""
        names, running = [answer.names[row] for row in rows], self._kept.begin()
        row_of = {row: at for at, row in enumerate(rows)}
        expected = None if expect is None else [expect[row] for row in rows]
        fetched = fetch_spans(self.inner, names, answer.spans_of(which, row_of), expect=expected)
        return _InnerFetch(row_of, fetched, running)

    def _fetch_continued(
        self, names: Sequence[str], spans: Columns, expect: Versions | None, continue_from: Fetched
    ) -> Fetched:
        before = continued(continue_from, _InnerFetch)
        answer, versions = _Answer(names, spans), continue_from.versions
        answer.status, answer.versions = list(continue_from.status), list(versions)
        answer.sizes = continue_from.sizes.tolist()
        answer.version_may_repeat = list(continue_from.version_may_repeat or answer.version_may_repeat)
        answer.parts = self._kept.find(names, answer.spans, versions)[1]
        missing: tuple[list[int], list[int]] = ([], [])  # of names requested from the store below, and others
        for i, (row, _, _) in enumerate(answer.spans):
            if row in before.row_of and versions[row] is None:
                answer.parts[i] = None
            if answer.parts[i] is None and answer.status[row] == FOUND:
                missing[row not in before.row_of].append(i)
        self._take_continued(answer, missing[0], before)
        if missing[1]:
            rows = sorted({answer.spans[i][0] for i in missing[1]})
            self._take(answer, missing[1], self._fetch_inner(answer, rows, missing[1], versions))
        self.hits += len(answer.spans) - len(missing[0]) - len(missing[1])
        self.misses += len(missing[0]) + len(missing[1])
        mark_stale(answer.status, answer.versions, expect)
        return answer.fetched(before)

    def _take_continued(self, answer: _Answer, which: Sequence[int], request: _InnerFetch) -> None:
        """_take, for spans that are still to be fetched, of the objects that were requested."""
        if which:
            names, spans = [answer.names[row] for row in request.row_of], answer.spans_of(which, request.row_of)
            fetched = fetch_spans(self.inner, names, spans, continue_from=request.fetched)
            self._take(answer, which, request._replace(fetched=fetched))

    def _take(self, answer: _Answer, which: Sequence[int], request: _InnerFetch) -> None:
        """Puts the answer of the store below to some spans into the answer, and keeps it."""
        policy = self._policy
        row_of = request.row_of
        names = [answer.names[row] for row in row_of]
        values = read_views(request.fetched, names, answer.spans_of(which, row_of))
        takes = self._kept.takes(sum([len(value) for value in values if value is not None]), len(values))
        additions, missing = [], []
        for i, value in zip(which, values, strict=True):
            row, start, length = answer.spans[i]
            name, version, size = answer.names[row], answer.versions[row], answer.sizes[row]
            if answer.status[row] == FOUND != request.fetched.status[row_of[row]]:
                # also if it is missing: an object found before must not be read as fill values
                answer.status[row] = STALE
            if value is None:
                missing.append(name)
                continue
            # a web server may not tell the size (-1) with a range from the start
            first = start if start >= 0 and not 0 <= size < start else clip_span(start, length, size)[0]
            answer.parts[i] = Part(first, value)
            fit = not policy.compares or (version is not None and not answer.version_may_repeat[row])
            if takes and fit and size >= 0 and policy.keeps(name, len(value)):
                additions.append(Addition(name, version, size, Part(first, value)))
        if missing:
            self._kept.drop(missing)
        if additions:
            self._kept.add(request.running, additions)

    # --- writing ---------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _dropped(self, names: Sequence[str]) -> Iterator[None]:
        """Drops the values that a write may have changed, also if it fails or finds another version."""
        try:
            yield
        finally:
            self._kept.drop([name for name in names if name and name[-1] != "/"])
            for prefix in names:
                if prefix == "" or prefix[-1] == "/":
                    self._kept.drop_below(prefix)

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        with self._dropped(names):
            return self.inner.put_many(names, pieces, expect)

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        with self._dropped(names):
            return self.inner.erase_many(names, expect)

    def update_many(
        self, keys: Sequence[str], change: Callable[[str, bytes | None], Buffer | None]
    ) -> list[Version | None]:
        """As in Store; the old values are read from the store below, not from memory."""
        with self._dropped(keys):
            return self.inner.update_many(keys, change)

    def write_parts(self, writes: Writes) -> None:
        """As the class says; the old values are read from the store below, not from memory."""
        with self._dropped(list(writes)):
            self.inner.write_parts(writes)

    def _copy_from(self, names: Sequence[str], source: StorePort, sources: Sequence[str], limit: int) -> list[int]:
        with self._dropped(names):
            return self.inner.copy_in(names, self.inner if source is self else source, sources, limit=limit)

    def _share(self, names: Sequence[str], sources: Sequence[str]) -> list[int]:
        with self._dropped(names):
            return self.inner.copy_in(names, self.inner, sources, shares=True)


class CachingStore(KeepingStore):
    """Keeps the values read from `inner`, whole or in ranges, as they are stored, in at most `nbytes` bytes of memory; the least recently used are removed
    first.

    validate  True: `inner` is asked for the version before a value is returned from memory, so no value is ever stale; that costs a look-up, but no bytes.
              False: it is not asked. Then changes by others to a kept key are not seen until this store drops it: because it is
              written, erased or found changed through this store, because space is needed, or by `clear`.
              None (the default): True where asking is no request (files and memory), False elsewhere

    Writes and erases are passed on and drop the values that they change. A stale value never makes them lose writes of others if `inner` is conditional, as
    they name the version that they replace. A value whose version must not be remembered (Fetched.version_may_repeat: a file in its first 50 ms) is not kept if
    it would have to be compared. Missing keys are not kept, nor are values that one fetch reads beyond `nbytes`. Safe to use from many threads; a fork and a
    pickle begin with an empty memory.
    Raises InvalidInputError for a limit below 0."""

    __slots__ = ("_values", "validate")

    def __init__(self, inner: Store, nbytes: int, *, validate: bool | None = None) -> None:
        try:
            limit = index(nbytes)
        except TypeError:
            limit = -1
        if limit < 0:
            raise InvalidInputError(f"the limit of a cache is {nbytes!r}; it must be a number of bytes, 0 or more")
        self._values: Final = MemoryRanges(ByteCache(limit, entry=0), limit)
        compares = inner.capabilities.direct if validate is None else validate
        super().__init__(inner, self._values, CachePolicy(compares))
        self.validate: Final = validate

    def __repr__(self) -> str:
        return f"CachingStore({self.inner!r}, {self.nbytes})"

    def __reduce__(self) -> tuple[object, ...]:
        return partial(CachingStore, validate=self.validate), (self.inner, self.nbytes)

    @property
    def nbytes(self) -> int:
        """The most bytes that are kept, including keys."""
        return self._values.memory.limit

    @property
    def nbytes_kept(self) -> int:
        """The bytes that are kept now."""
        return self._values.memory.nbytes

    def clear(self) -> None:
        """Forgets all kept values."""
        self._kept.drop_below("")


class ChunkCache(KeepingStore):
    """Keeps encoded chunks of a repository, whose values never change, in the memory of its location, which counts them. Ranges are kept as they are requested,
    mostly inner chunks, so that another selection of the same chunks finds them. A fetch of more than an eighth of the memory counts as a pass over everything,
    and is not kept."""

    __slots__ = ("memory",)

    def __init__(self, inner: Store, memory: ByteCache) -> None:
        self.memory: Final = memory
        super().__init__(inner, MemoryRanges(memory, memory.limit // 8, chunks=True), CachePolicy(compares=False))

    def __reduce__(self) -> tuple[object, ...]:
        return ChunkCache, (self.inner, self.memory)

    @property
    def identity(self) -> str | None:
        return self.inner.identity

    @property
    def capabilities(self) -> Capabilities:
        """Those of the store beneath, but ranges need not be merged before they are requested here."""
        return self.inner.capabilities._replace(direct=True)
