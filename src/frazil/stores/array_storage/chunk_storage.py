"""The port between arrays and the places where their encoded chunks lie, in columns; and its plain form, one object a chunk under keys.

A chunk here is what the array stores as one: a shard, where there are shards. Which bytes of it are wanted, and what they mean, is the array's part.
fetch_located, object_spans and what they use serve storages in which chunks share objects or lie inline; PlainChunks is none."""

from __future__ import annotations

from collections.abc import Sequence
from errno import ENOENT
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from frazil.errors import InvalidInputError, StoreError
from frazil.record import Record
from frazil.stores.fetched.content import HeldBuffers
from frazil.stores.fetched.merged_spans import merge_spans
from frazil.stores.keys import check_prefix
from frazil.stores.store import Store
from frazil.stores.values import (
    ABSENT,
    ABSENT_KEY,
    ANY,
    FOLDER,
    FOUND,
    MISSING,
    STALE,
    Changed,
    Columns,
    Fetched,
    Pieces,
    Sources,
    Version,
    clip_spans,
    up_to,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.stores.values import SourceBuffer

__all__ = [
    "INLINE",
    "NOWHERE",
    "STORED",
    "UNASKED",
    "AnsweredBuffers",
    "ChunkKeys",
    "ChunkStorage",
    "Located",
    "ObjectList",
    "PlainChunks",
    "fetch_located",
    "fetch_spans",
    "object_spans",
]

NOWHERE: Final = 0  # known not to be stored: the fill value
STORED: Final = 1  # in the object names[object], which may turn out not to be there
INLINE: Final = 2  # in the buffer inline[object], so there

_PAGE = 65536  # keys listed at a time
_NO_OBJECT: Final = (NOWHERE, INLINE)
_NONE: Final = np.full(1, None)


class ObjectList(list[str]):
    """Names of objects of which a storage knows more than that; what it derives from this keeps that in `take`."""

    __slots__ = ()

    def take(self, rows: Columns) -> Sequence[str]:
        """These names alone; int64[k], ascending."""
        return [self[i] for i in rows.tolist()]


class Located(Record):
    """Where chunks lie, a row a chunk.

    names       the objects, each once: a row's object is names[object[row]]
    kind        uint8[n]: NOWHERE, STORED, INLINE, or a storage's own, above those: then in an object that fetch_located cannot read
    object      int64[n], a row of names (of inline, where kind says so)
    base        int64[n], the chunk's first byte in its object or buffer
    length      int64[n], the chunk's bytes; -1: it is the whole object, and base is 0
    inline      buffers at hand; one may hold many chunks
    versions    of the chunks, a row each, where they are known without asking: then nothing is expected of objects, which never change. It may make
                them as they are asked for
    must_exist  whether an object that is not there is an error, as something refers to it; otherwise its chunks are the fill value
    plain       whether each row is STORED, and the whole of the object of the same number
    """

    names: Sequence[str]
    kind: NDArray[np.uint8]
    object: Columns
    base: Columns
    length: Columns
    inline: Sequence[SourceBuffer] = ()
    versions: Sequence[Version | None] | None = None
    must_exist: bool = False
    plain: bool = False

    def key(self, row: int) -> str | None:
        """The key of a chunk's object, for errors; None where it has none."""
        return None if self.kind[row] in _NO_OBJECT else self.names[int(self.object[row])]

    def labels(self) -> Sequence[str]:
        """Of each chunk, what to remember things of it under together with its version: another one for each chunk of an object; "" where nothing is to be
        remembered, as the chunk is at hand or nowhere."""
        if self.plain:
            return self.names
        columns = (column.tolist() for column in (self.kind, self.object, self.base, self.length))
        return [
            "" if kind != STORED else self.names[place] if length < 0 else f"{self.names[place]}\0{base}\0{length}"
            for kind, place, base, length in zip(*columns, strict=True)
        ]

    def take(self, rows: Columns) -> Located:
        """These chunks alone, int64[k], with their objects alone."""
        kind, place = self.kind[rows], self.object[rows]
        if self.plain:
            names, count = [self.names[i] for i in rows.tolist()], len(rows)
            return Located(names, kind, np.arange(count), self.base[:count], self.length[:count], plain=True)
        named = self._named()[rows]
        used, place[named] = np.unique(place[named], return_inverse=True)
        own = self.names if isinstance(self.names, ObjectList) else None
        return self._replace(
            names=[self.names[i] for i in used.tolist()] if own is None else own.take(used),
            kind=kind,
            object=place,
            base=self.base[rows],
            length=self.length[rows],
            versions=None if self.versions is None else [self.versions[i] for i in rows.tolist()],
        )

    def parts(self, most: int) -> list[Columns]:
        """All rows, ascending, in parts of at most `most` objects."""
        number = np.where(self._named(), self.object // most, 0)
        return [np.flatnonzero(number == part) for part in range(max(-(-len(self.names) // most), 1))]

    def _named(self) -> NDArray[np.bool_]:
        """bool[n]: which chunks lie in objects."""
        return np.asarray((self.kind != NOWHERE) & (self.kind != INLINE), np.bool_)

    def expected_objects(self, expect: Sequence[Version | None]) -> Sequence[Version | None] | None:
        """For each object one of the versions that its chunks expect (a row each), None for any; and None alone where nothing is expected of objects."""
        if self.plain or self.versions is not None:
            return expect if self.plain else None
        wanted, column = np.full(len(self.names), None), _objects(expect)
        rows = np.flatnonzero((self.kind == STORED) & np.not_equal(column, _NONE))[::-1]  # of several the first
        wanted[self.object[rows]] = column[rows]
        found: list[Version | None] = wanted.tolist()
        return found


class ChunkStorage(Protocol):
    """Chunk coordinates to bytes. coords is int64[n, d], rows inside the chunk grid; those of publish and erase are distinct. Safe to use from many threads; pickles.

    All raise StoreError when the store fails; a chunk that is not there is no error."""

    @property
    def conditional_erase(self) -> bool:
        """Whether `erase` honours what is expected. Where it does not, a chunk is emptied by publishing one that holds nothing."""

    @property
    def erasable(self) -> bool:
        """Whether `erase` can remove chunks at all. Where it cannot, a chunk that becomes all fill value is published like any other, and a shard as one without
        inner chunks."""

    @property
    def direct(self) -> bool:
        """Whether chunks are at hand (Capabilities.direct), or for this thread alone. If not, requests take their time: several fetches are made at once, by several threads."""

    def locate(self, coords: Columns) -> Located:
        """Where chunks lie; a row a coordinate."""

    def locate_one(self, coordinates: tuple[int, ...]) -> Located:
        """As locate, for one chunk: for reads that are over in some microseconds."""

    def fetch(
        self,
        located: Located,
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        held: Fetched | None = None,
        once: bool = False,
    ) -> Fetched:
        """Byte ranges of chunks, as Store.fetch with the rows of `located` in place of names: spans are int64[n, 3], (row of located, start and length
        in the chunk); expect, and the answer's status, versions, sizes and young, are a row of `located` each; sizes are the chunks'. The files of the answer are
        the objects, in the order of located.names."""

    def publish(self, coords: Columns, pieces: Pieces, expect: Sequence[Version | None]) -> list[Version | Changed]:
        """Replaces each chunk whole if it has the version expected (ANY, ABSENT, a version). The only way to replace a chunk."""

    def erase(self, coords: Columns, expect: Sequence[Version | None]) -> list[Changed | None]:
        """Removes chunks, which then are the fill value; with ANY one that is not there is no error."""

    def extend(self, axis: int, old: int, new: int) -> None:
        """Says, before it writes there, that values are appended along `axis`: the array has grown from `old` to `new` elements. So a transaction can tell an
        append from an overwrite behind a resize."""

    def stored(self, grid_shape: Sequence[int]) -> Columns:
        """The coordinates of all chunks that are there inside a grid, int64[n, d], sorted."""

    def sizes(self, coords: Columns) -> Columns:
        """Encoded bytes of each chunk, int64[n]; -1 where it is not there."""

    def coordinates(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """Of the chunk whose object has this key; None where that is no chunk's, or not one chunk's alone. For errors."""


class ChunkKeys(Protocol):
    """What is asked of a chunk key encoding (Zarr v3.1 core, Chunk key encodings)."""

    def encode_one(self, coordinates: tuple[int, ...], prefix: str = "") -> str: ...

    def encode_all(self, coordinates: Columns, prefix: str = "") -> list[str]: ...

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """The coordinates whose key, without prefix, is exactly this; None where there are none."""


_ONE = Located(
    (), np.ones(1, np.uint8), np.zeros(1, np.int64), np.zeros(1, np.int64), np.full(1, -1, np.int64), plain=True
)  # the columns of a single chunk in an object of its own, made once
for _column in _ONE[1:5]:
    _column.flags.writeable = False
_ONE_WITHOUT_NAME = _ONE[1:]


class PlainChunks:
    """Chunks of a plain Zarr hierarchy: each an object of its own, under the array's prefix and its encoded coordinates."""

    __slots__ = ("keys", "largest", "prefix", "store")

    def __init__(self, store: Store, prefix: str, keys: ChunkKeys, largest: int | None = None) -> None:
        """prefix: "" or ending in "/"; raises InvalidInputError for another. largest: the most bytes of a chunk, which a store that downloads them does not exceed."""
        check_prefix(prefix)
        self.store, self.prefix, self.keys, self.largest = store, prefix, keys, largest

    def __repr__(self) -> str:
        return f"PlainChunks({self.store!r}, {self.prefix!r}, {self.keys!r})"

    @property
    def conditional_erase(self) -> bool:
        can = self.store.capabilities
        return can.erasable and (can.conditional_erase or not can.expects)

    @property
    def erasable(self) -> bool:
        return self.store.capabilities.erasable

    @property
    def direct(self) -> bool:
        return self.store.capabilities.direct

    def locate(self, coords: Columns) -> Located:
        count = len(coords)
        return Located(
            self._names(coords),
            np.ones(count, np.uint8),
            np.arange(count),
            np.zeros(count, np.int64),
            np.full(count, -1, np.int64),
            plain=True,
        )

    def locate_one(self, coordinates: tuple[int, ...]) -> Located:
        return Located((self.keys.encode_one(coordinates, self.prefix),), *_ONE_WITHOUT_NAME)

    def fetch(
        self,
        located: Located,
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        held: Fetched | None = None,
        once: bool = False,
    ) -> Fetched:
        if self.largest is not None and not self.store.capabilities.direct:
            spans = _bounded(spans, self.largest)
        # a row of `located` is the name of the same number, and spans in the chunk are spans in the object
        return fetch_spans(self.store, located.names, spans, expect=expect, held=held, once=once)

    def publish(self, coords: Columns, pieces: Pieces, expect: Sequence[Version | None]) -> list[Version | Changed]:
        return self.store.put_many(self._names(coords), pieces, self._honoured(expect))

    def erase(self, coords: Columns, expect: Sequence[Version | None]) -> list[Changed | None]:
        return self.store.erase_many(self._names(coords), self._honoured(expect))

    def _honoured(self, expect: Sequence[Version | None]) -> Sequence[Version | None]:
        """A store that knows no conditions is given none: there writers of one chunk can lose each other's data."""
        return expect if self.store.capabilities.expects else [ANY] * len(expect)

    def extend(self, axis: int, old: int, new: int) -> None:
        """Nothing to do: a plain store has no transaction that would have to tell an append from an overwrite."""

    def stored(self, grid_shape: Sequence[int]) -> Columns:
        found: list[tuple[int, ...]] = []
        ndim, skip, decode = len(grid_shape), len(self.prefix), self.keys.decode
        last, page = "", _PAGE
        while page == _PAGE:
            keys = self.store.list_keys(self.prefix, last, _PAGE)
            found += [at for key in keys if (at := decode(key[skip:], ndim)) is not None]
            last, page = keys[-1] if keys else "", len(keys)
        coords = np.array(found, np.int64).reshape(len(found), ndim)
        coords = coords[(coords < np.asarray(grid_shape, np.int64)).all(axis=1)]
        return coords[np.lexsort(coords.T[::-1])] if ndim else coords

    def sizes(self, coords: Columns) -> Columns:
        return self.store.sizes(self._names(coords))

    def coordinates(self, key: str, ndim: int) -> tuple[int, ...] | None:
        return self.keys.decode(key[len(self.prefix) :], ndim) if key.startswith(self.prefix) else None

    def _names(self, coords: Columns) -> list[str]:
        if len(coords) == 1:
            return [self.keys.encode_one(tuple(coords[0].tolist()), self.prefix)]
        return self.keys.encode_all(coords, self.prefix)


def _bounded(spans: Columns, largest: int) -> Columns:
    """The spans, with those up to the end of their object limited (values.up_to)."""
    bounded = spans.copy()
    bounded[spans[:, 2] == -1, 2] = up_to(largest)
    return bounded


def fetch_spans(
    store: Store,
    names: Sequence[str],
    spans: Columns,
    *,
    expect: Sequence[Version | None] | None = None,
    held: Fetched | None = None,
    once: bool = False,
) -> Fetched:
    """Store.fetch, with spans that lie near each other asked for as one where each would be a request of its own."""
    merged = None if len(spans) < 2 or store.capabilities.direct else merge_spans(spans)
    if merged is None:
        return store.fetch(names, spans, expect=expect, held=held, once=once)
    fetched = store.fetch(names, merged.spans, expect=expect, held=held, once=once)
    return fetched._replace(rows=merged.cut(fetched.rows))


def object_spans(located: Located, spans: Columns) -> Columns:
    """Spans in chunks, int64[n, 3] (row of `located`, start, length), as spans in objects (row of its names, start, length).

    What is asked of a chunk that is a part of its object is cut to the chunk: it never reads on into its neighbour. All rows must be STORED."""
    row = spans[:, 0]
    length = located.length[row]
    start, count = clip_spans(spans[:, 1], spans[:, 2], np.maximum(length, 0))
    moved = np.empty_like(spans)
    moved[:, 0] = located.object[row]
    moved[:, 1] = np.where(length < 0, spans[:, 1], located.base[row] + start)
    moved[:, 2] = np.where(length < 0, spans[:, 2], count)
    return moved


class AnsweredBuffers(HeldBuffers):
    """The buffers of an answer, with the store's answer for the objects, which is UNASKED where nothing had to be asked."""

    __slots__ = ()


UNASKED: Final = Fetched(Sources(None, ()), (), (), np.zeros(0, np.int64), np.zeros((0, 3), np.int64))


def fetch_located(
    store: Store,
    located: Located,
    spans: Columns,
    *,
    expect: Sequence[Version | None] | None = None,
    held: Fetched | None = None,
    once: bool = False,
) -> Fetched:
    """ChunkStorage.fetch for any Located: chunks nowhere, inline, and in objects of `store` that may be shared by many. Every object is open as long as the answer
    is kept, but with `once`: what lies in very many is to be asked for part by part.

    Raises StoreError where an object is not there that must exist."""
    kind = located.kind[spans[:, 0]]
    asked = np.flatnonzero(kind == STORED)
    fetched = _fetch_objects(store, located, object_spans(located, spans[asked]), expect, held, once)
    status, versions, sizes, young = _by_chunk(located, fetched)
    if expect is not None:
        status[_stale(status, versions, expect)] = STALE
    rows = np.full((len(spans), 3), (MISSING, 0, 0), np.int64)
    rows[asked] = fetched.rows
    files, buffers = fetched.sources
    inline = np.flatnonzero(kind == INLINE)
    if len(inline):
        of_chunk = spans[inline, 0]
        start, rows[inline, 2] = clip_spans(spans[inline, 1], spans[inline, 2], located.length[of_chunk])
        rows[inline, 0] = -1 - len(buffers) - located.object[of_chunk]
        rows[inline, 1] = located.base[of_chunk] + start
    rows[status[spans[:, 0]] == STALE] = (MISSING, 0, 0)
    sources = Sources(files, AnsweredBuffers([*buffers, *located.inline], fetched))
    return Fetched(sources, status.tolist(), versions, sizes, rows, young)


def _fetch_objects(
    store: Store,
    located: Located,
    spans: Columns,
    expect: Sequence[Version | None] | None,
    held: Fetched | None,
    once: bool,
) -> Fetched:
    """What the store has of the objects; UNASKED where it need not be asked."""
    inner = UNASKED
    if held is not None:
        if not isinstance(held.sources.buffers, AnsweredBuffers):
            raise InvalidInputError("the answer to hold came from another storage")
        inner = held.sources.buffers.inner
    if not located.names or (inner is UNASKED and not len(spans) and located.versions is not None):
        return UNASKED
    fetched = fetch_spans(
        store,
        located.names,
        spans,
        expect=None if expect is None else located.expected_objects(expect),
        held=None if inner is UNASKED else inner,
        once=once and not located.must_exist and len(spans) <= len(located.names),  # each object is read once
    )
    if located.must_exist:
        for name, status in zip(located.names, fetched.status, strict=True):
            if status in (ABSENT_KEY, FOLDER):
                raise StoreError(
                    "the object of a chunk reference is missing",
                    errno=ENOENT,
                    key=name,
                    hint="bring it back from a copy, or write the chunk anew",
                )
    return fetched


def _by_chunk(
    located: Located, fetched: Fetched
) -> tuple[NDArray[np.uint8], Sequence[Version | None], Columns, Sequence[bool] | None]:
    """Status, version, size and `young` of each chunk from those of the objects."""
    stored = located.kind == STORED
    status = np.where(located.kind == NOWHERE, np.uint8(ABSENT_KEY), np.uint8(FOUND))
    sizes = np.where(located.kind == NOWHERE, -1, located.length)
    versions = located.versions
    if fetched is UNASKED:
        return status, [None] * len(stored) if versions is None else versions, sizes, None
    place = located.object[stored]
    status[stored] = np.array(fetched.status, np.uint8)[place]
    whole = stored & ((located.length < 0) | (status == ABSENT_KEY) | (status == FOLDER))
    sizes[whole] = fetched.sizes[located.object[whole]]
    if versions is None:
        column = np.full(len(stored), None)
        column[stored] = _objects(fetched.versions)[place]
        versions = column.tolist()
    if fetched.young is None or located.versions is not None:
        return status, versions, sizes, None
    young = np.zeros(len(stored), np.bool_)
    young[stored] = np.array(fetched.young, np.bool_)[place]
    return status, versions, sizes, young.tolist()


def _stale(
    status: NDArray[np.uint8], versions: Sequence[Version | None], expect: Sequence[Version | None]
) -> NDArray[np.bool_]:
    """Which chunks are there in another version than expected, or are not there, or are against expectation."""
    if expect is versions:
        return np.zeros(len(status), np.bool_)
    wanted, present = _objects(expect), _objects(versions)
    present[(status == ABSENT_KEY) | (status == FOLDER)] = ABSENT
    return np.asarray(np.not_equal(wanted, _NONE) & np.not_equal(wanted, present), np.bool_)


def _objects(values: Sequence[Version | None]) -> NDArray[np.object_]:
    column = np.empty(len(values), np.object_)
    column[:] = list(values)
    return column
