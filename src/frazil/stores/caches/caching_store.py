"""Stores over a store that keep encoded values: the base of all, and the one that keeps them in memory, which the draft names as an example of a storage
transformer added at run time.

The memory itself is cached_ranges.py; the store that keeps files on disk is disk_cache.py. Decoded chunks are not kept, nor what is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import index
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.errors import InvalidInputError
from frazil.record import Record
from frazil.stores.caches.cached_ranges import Filling, MemoryRanges, Part, RangeCache
from frazil.stores.operations.partial_access import Writes, write_parts
from frazil.stores.port import StorePort
from frazil.stores.retry import READS, attempts, replaced
from frazil.stores.store import Store
from frazil.stores.transfer.content import read_values
from frazil.stores.transfer.fetch_pages import fetch_in_pages, pages_of
from frazil.stores.values import (
    ABSENT,
    FOUND,
    MISSING,
    STALE,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Pieces,
    Sources,
    Version,
    clip_span,
    resolve_span,
    stale_unasked,
)
from frazil.stores.wrappers import WrappedStore

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.stores.values import SourceBuffer

__all__ = ["CachingStore", "KeepingStore"]

Span = tuple[int, int, int]  # row of a name, start, length
_EMPTY: Final = np.zeros((0, 3), np.int64)


class _Asked(Record):
    """What the store below was asked, and answered. filling: begun before, since what is read of it later is as old."""

    names: Sequence[str]
    fetched: Fetched
    filling: Filling


class _Resumable(list["SourceBuffer"]):
    """The buffers of an answer, with what holding it needs. asked: of the store below, if it was; rows: for each name its row there, -1 where it was
    not asked."""

    __slots__ = ("asked", "rows")

    def __init__(self, values: Sequence[SourceBuffer], asked: _Asked | None, rows: Sequence[int]) -> None:
        super().__init__(values)
        self.asked, self.rows = asked, rows


class _Answer:
    """An answer that is being put together. parts: for each span what is known of its bytes; None: they have to be fetched, or are not there."""

    __slots__ = ("parts", "sizes", "spans", "status", "version_may_repeat", "versions")

    def __init__(self, count: int, spans: Columns) -> None:
        self.spans: list[Span] = [tuple(span) for span in spans.tolist()]
        self.parts: list[Part | None] = [None] * len(self.spans)
        self.status = [FOUND] * count
        self.versions: list[Version | None] = [None] * count
        self.sizes = np.full(count, -1, np.int64)
        self.version_may_repeat = [False] * count

    def fetched(self, asked: _Asked | None, rows: Sequence[int]) -> Fetched:
        out = np.full((len(self.spans), 3), (MISSING, 0, 0), np.int64)
        buffers: list[SourceBuffer] = []
        sizes = self.sizes.tolist()
        for i, ((name, start, length), part) in enumerate(zip(self.spans, self.parts, strict=True)):
            if part is not None and self.status[name] == FOUND:
                first, count = resolve_span(start, length, sizes[name])
                buffers.append(part.value)
                out[i] = -len(buffers), first - part.start, count
        version_may_repeat = self.version_may_repeat if True in self.version_may_repeat else None
        sources = Sources(None, _Resumable(buffers, asked, rows))
        return Fetched(sources, self.status, self.versions, self.sizes, out, version_may_repeat)


class KeepingStore(WrappedStore):
    """Keeps what is read of `inner`, whole values and ranges as they are stored. What is kept of a value that has to be compared is handed out when `inner`, asked for
    its version, names the one that was kept."""

    __slots__ = ("_kept",)

    def __init__(self, inner: Store, kept: RangeCache) -> None:
        super().__init__(inner)
        self._kept: RangeCache = kept

    @property
    def uncached(self) -> Store:
        return self.inner.uncached

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(
            direct=False
        )  # few large ranges are kept more cheaply than many small ones

    def _keeps(self, name: str, nbytes: int = -1) -> bool:
        """Whether something is kept of this key; a range of so many bytes, where they are given."""
        return True

    def _validates(self, name: str) -> bool:
        """Whether what is kept of this key has to be compared with what is there."""
        return True

    # --- reading ---------------------------------------------------------------------------------------------------------------------

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        """As the port says. What was answered from memory, and is not there any more when it is held, is read of that version or STALE."""
        if continue_from is not None:
            return self._fetch_continued(names, spans, expect, continue_from)
        if single_read:
            return fetch_in_pages(self._fetch, names, spans, expect, pages_of(len(names)))
        return self._fetch(names, spans, expect)

    def _fetch(self, names: Sequence[str], spans: Columns, expect: Sequence[Version | None] | None) -> Fetched:
        for _ in attempts(READS):
            fetched = self._fetch_now(names, spans, expect)
            if not stale_unasked(fetched, expect):
                return fetched
        raise replaced("the value was", names[0])

    def _fetch_now(self, names: Sequence[str], spans: Columns, expect: Sequence[Version | None] | None) -> Fetched:
        kept = self._kept
        answer = _Answer(len(names), spans)
        known = [kept.version(name) if self._keeps(name) else None for name in names]
        trusted = [found is not None and not self._validates(name) for name, found in zip(names, known, strict=True)]
        for row, found in enumerate(known):
            if found is not None:
                answer.versions[row], answer.sizes[row] = found
                wanted = None if expect is None else expect[row]
                trusted[row] &= wanted is None or wanted == found[0]
        looked_up = set(range(len(names)))
        for i, (row, start, length) in enumerate(answer.spans):
            looked_up.discard(row)
            if known[row] is not None:
                answer.parts[i] = kept.find(names[row], answer.versions[row], start, length)
            trusted[row] &= answer.parts[i] is not None
        rows = [row for row in range(len(names)) if not trusted[row] or row in looked_up]
        if not rows:
            kept.count(len(answer.spans), 0)
            return answer.fetched(None, [-1] * len(names))
        return self._completed(names, rows, expect, answer)

    def _completed(
        self, names: Sequence[str], rows: Sequence[int], expect: Sequence[Version | None] | None, answer: _Answer
    ) -> Fetched:
        """The rest of an answer, from the store below: of names[rows]."""
        place = dict(zip(rows, range(len(rows)), strict=True))
        missed = [i for i, part in enumerate(answer.parts) if part is None]
        asked = self._ask(
            [names[row] for row in rows], _spans(answer, missed, place), expect and [expect[row] for row in rows]
        )
        changed = set()
        inner = asked.fetched
        for row, at in place.items():
            version = inner.versions[at]
            if answer.versions[row] != version or version is None:
                changed.add(row)
            answer.status[row], answer.versions[row], answer.sizes[row] = inner.status[at], version, inner.sizes[at]
            answer.version_may_repeat[row] = bool(inner.version_may_repeat and inner.version_may_repeat[at])
        late = [i for i, (row, _, _) in enumerate(answer.spans) if row in changed and answer.parts[i] is not None]
        self._take(answer, names, missed, asked, place)
        self._take_continued(answer, names, late, asked, place)
        self._kept.count(len(answer.spans) - len(missed) - len(late), len(missed) + len(late))
        return answer.fetched(asked, [place.get(row, -1) for row in range(len(names))])

    def _ask(self, names: Sequence[str], spans: Columns, expect: Sequence[Version | None] | None) -> _Asked:
        filling = self._kept.begin()
        return _Asked(names, self.inner.fetch(names, spans, expect=expect), filling)

    def _fetch_continued(
        self, names: Sequence[str], spans: Columns, expect: Sequence[Version | None] | None, continue_from: Fetched
    ) -> Fetched:
        before = continue_from.sources.buffers
        if not isinstance(before, _Resumable):
            raise InvalidInputError("the answer to hold came from another store")
        answer = _Answer(len(names), spans)
        answer.status, answer.versions, answer.sizes = (
            list(continue_from.status),
            list(continue_from.versions),
            continue_from.sizes,
        )
        answer.version_may_repeat = list(continue_from.version_may_repeat or answer.version_may_repeat)
        missed: tuple[list[int], list[int]] = ([], [])  # of names that the store below holds, and of others
        for i, (row, start, length) in enumerate(answer.spans):
            if answer.status[row] == FOUND:
                if self._keeps(names[row]) and (continue_from.versions[row] is not None or before.rows[row] < 0):
                    answer.parts[i] = self._kept.find(names[row], continue_from.versions[row], start, length)
                if answer.parts[i] is None:
                    missed[before.rows[row] < 0].append(i)
        if before.asked is not None:
            self._take_continued(answer, names, missed[0], before.asked, dict(enumerate(before.rows)))
        if missed[1]:
            rows = sorted({answer.spans[i][0] for i in missed[1]})
            place = dict(zip(rows, range(len(rows)), strict=True))
            spans = _spans(answer, missed[1], place)
            asked = self._ask([names[row] for row in rows], spans, [continue_from.versions[row] for row in rows])
            self._take(answer, names, missed[1], asked, place)
        self._kept.count(len(answer.spans) - len(missed[0]) - len(missed[1]), len(missed[0]) + len(missed[1]))
        for row, wanted in enumerate(() if expect is None else expect):
            if wanted is not None and wanted != (answer.versions[row] or ABSENT):
                answer.status[row] = STALE
        return answer.fetched(before.asked, before.rows)

    def _take_continued(
        self, answer: _Answer, names: Sequence[str], which: Sequence[int], asked: _Asked, place: Mapping[int, int]
    ) -> None:
        """_take, of spans that are yet to be fetched of what is held."""
        if which:
            fetched = self.inner.fetch(asked.names, _spans(answer, which, place), continue_from=asked.fetched)
            self._take(answer, names, which, asked._replace(fetched=fetched), place)

    def _take(
        self, answer: _Answer, names: Sequence[str], which: Sequence[int], asked: _Asked, place: Mapping[int, int]
    ) -> None:
        """Puts what the store below answered to some spans into the answer, and keeps it."""
        sizes = answer.sizes.tolist()
        spans = _spans(answer, which, place)
        values = read_values(asked.fetched, asked.names, spans)
        for i, value, at in zip(which, values, spans[:, 0].tolist(), strict=True):
            row, start, length = answer.spans[i]
            if answer.status[row] == FOUND != asked.fetched.status[at]:
                answer.status[row] = (
                    STALE  # also where it is gone: what was found before is none to be read as fill values
                )
            name, keeps = names[row], self._keeps(names[row], -1 if value is None else len(value))
            if value is None:
                if keeps and self._kept.version(name) is not None:
                    self._kept.drop([name])
                continue
            part = answer.parts[i] = Part(clip_span(start, length, sizes[row])[0], value)
            version = answer.versions[row]
            if keeps and (not self._validates(name) or (version is not None and not answer.version_may_repeat[row])):
                self._kept.add(asked.filling, name, version, sizes[row], part)

    # --- writing ---------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _dropped(self, names: Sequence[str]) -> Iterator[None]:
        """What a write may have changed is dropped, also where it says that it failed, or found another version."""
        try:
            yield
        finally:
            self._kept.drop([name for name in names if name and name[-1] != "/"])
            for prefix in names:
                if prefix == "" or prefix[-1] == "/":
                    self._kept.drop_below(prefix)

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        with self._dropped(names):
            return self.inner.put_many(names, pieces, expect)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        with self._dropped(names):
            return self.inner.erase_many(names, expect)

    def update_many(
        self, keys: Sequence[str], change: Callable[[str, bytes | None], Buffer | None]
    ) -> list[Version | None]:
        """As in Store; the old values are read of the store below, not from memory."""
        with self._dropped(keys):
            return self.inner.update_many(keys, change)

    def write_parts(self, writes: Writes) -> None:
        """As the class says; the old values are read of the store below, not from memory."""
        with self._dropped(list(writes)):
            write_parts(self.inner, writes)

    def copy_in(
        self,
        names: Sequence[str],
        source: StorePort,
        sources: Sequence[str],
        *,
        limit: int = 2**26,
        shares: bool = False,
    ) -> list[int]:
        with self._dropped(names):
            below = self.inner if source is self else source
            return self.inner.copy_in(names, below, sources, limit=limit, shares=shares)


class CachingStore(KeepingStore):
    """Keeps what is read of `inner`, whole values and ranges as they are stored, in at most `nbytes` bytes of memory; the least recently used go first.

    validate  True: before a value is answered from memory, `inner` is asked for its version, so nothing is ever stale; that costs a look-up, no bytes.
              False: it is not asked. Then what others write to a key of which something is kept is not seen until this store drops it: because it is
              written, erased or found changed through this store, because room is needed, or by `clear`.
              None (the default): as True where asking is no request (files and memory), as False elsewhere

    Writes and erases go through and drop what they change; a stale value makes none of them lose what others wrote, where `inner` is conditional, as they name the version
    that they replace. A value whose version is not fit to be remembered (Fetched.version_may_repeat: a file in its first 50 ms) is not kept where it would have to be compared.
    What is not there is not kept. Safe to use from many threads; a fork and a pickle begin with an empty memory.
    Raises InvalidInputError for a limit below 0."""

    __slots__ = ("_values", "validate")

    def __init__(self, inner: Store, nbytes: int, *, validate: bool | None = None) -> None:
        try:
            limit = index(nbytes)
        except TypeError:
            limit = -1
        if limit < 0:
            raise InvalidInputError(f"the limit of a cache is {nbytes!r}; it is a number of bytes, 0 or more")
        self._values: Final = MemoryRanges(limit)
        super().__init__(inner, self._values)
        self.validate: Final = validate

    def __repr__(self) -> str:
        return f"CachingStore({self.inner!r}, {self.nbytes})"

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.inner, self.nbytes, self.validate)

    def _validates(self, name: str) -> bool:
        return self.inner.capabilities.direct if self.validate is None else self.validate

    @property
    def nbytes(self) -> int:
        """The most bytes that are kept, those of keys included."""
        return self._values.cache.limit

    @property
    def nbytes_kept(self) -> int:
        """The bytes that are kept now."""
        return self._values.cache.nbytes

    @property
    def hits(self) -> int:
        """Ranges (a whole value is one) that were answered from memory."""
        return self._values.hits

    @property
    def misses(self) -> int:
        """Ranges that were not, those of what is not there among them."""
        return self._values.misses

    def clear(self) -> None:
        """Forgets all that is kept."""
        self._kept.drop_below("")


def _spans(answer: _Answer, which: Sequence[int], place: Mapping[int, int]) -> Columns:
    """Some spans of an answer, of names that are numbered otherwise."""
    found = [(place[row], start, length) for row, start, length in (answer.spans[i] for i in which)]
    return np.array(found, np.int64) if found else _EMPTY


def _again(inner: Store, nbytes: int, validate: bool | None) -> CachingStore:
    return CachingStore(inner, nbytes, validate=validate)
