"""The port between arrays and the places where their encoded chunks lie, in columns; and its plain form, one object a chunk under keys.

A chunk here is what the array stores as one: a shard, where there are shards. Which bytes of it are wanted, and what they mean, is the array's part.
fetch_located, object_spans and what they use serve storages in which chunks share objects; PlainChunks is none, so tests alone call them so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from frazil.errors import InvalidInputError
from frazil.record import Record
from frazil.stores.content import HeldBuffers
from frazil.stores.keys import check_prefix
from frazil.stores.merging import merge_spans
from frazil.stores.store import Store
from frazil.stores.values import (
    ABSENT_KEY,
    ANY,
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
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "INLINE",
    "NOWHERE",
    "STORED",
    "ChunkKeys",
    "ChunkStorage",
    "Located",
    "PlainChunks",
    "fetch_located",
    "fetch_spans",
    "object_spans",
]

NOWHERE: Final = 0  # known not to be stored: the fill value
STORED: Final = 1  # in the object names[object], which may turn out not to be there
INLINE: Final = 2  # the bytes inline[object]

_PAGE = 65536  # keys listed at a time


class Located(Record):
    """Where chunks lie, a row a chunk.

    names   the objects, each once: a row's object is names[object[row]]
    kind    uint8[n]: NOWHERE, STORED or INLINE
    object  int64[n], a row of names (of inline, where kind says so)
    base    int64[n], the chunk's first byte in its object
    length  int64[n], the chunk's bytes; -1: it is the whole object, and base is 0
    inline  bytes that are at hand already
    """

    names: Sequence[str]
    kind: NDArray[np.uint8]
    object: Columns
    base: Columns
    length: Columns
    inline: Sequence[bytes] = ()

    def key(self, row: int) -> str:
        """The key of a chunk's object, for errors; "" where it has none."""
        return self.names[int(self.object[row])] if self.kind[row] == STORED else ""


class ChunkStorage(Protocol):
    """Chunk coordinates to bytes. coords is int64[n, d], rows distinct and inside the chunk grid. Safe to use from many threads; pickles.

    All raise StoreError when the store fails; a chunk that is not there is no error."""

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
        in the chunk); expect, and the answer's status, versions, sizes and young, are a row of `located` each; sizes are the chunks'."""

    def publish(self, coords: Columns, pieces: Pieces, expect: Sequence[Version | None]) -> list[Version | Changed]:
        """Replaces each chunk whole if it has the version expected (ANY, ABSENT, a version). The only way to replace a chunk."""

    def erase(self, coords: Columns, expect: Sequence[Version | None]) -> list[Changed | None]:
        """Removes chunks, which then are the fill value; with ANY one that is not there is no error."""

    def extend(self, axis: int, old: int, new: int) -> None:
        """Says, before it writes there, that the array grows along `axis` from `old` to `new` elements, so that a transaction can tell an append from
        an overwrite."""

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
    (), np.ones(1, np.uint8), np.zeros(1, np.int64), np.zeros(1, np.int64), np.full(1, -1, np.int64)
)  # the columns of a single chunk in an object of its own, made once
for _column in _ONE[1:5]:
    _column.flags.writeable = False


class PlainChunks:
    """Chunks of a plain Zarr hierarchy: each an object of its own, under the array's prefix and its encoded coordinates."""

    __slots__ = ("keys", "prefix", "store")

    def __init__(self, store: Store, prefix: str, keys: ChunkKeys) -> None:
        """prefix: "" or ending in "/"; raises InvalidInputError for another."""
        check_prefix(prefix)
        self.store, self.prefix, self.keys = store, prefix, keys

    def __repr__(self) -> str:
        return f"PlainChunks({self.store!r}, {self.prefix!r}, {self.keys!r})"

    def locate(self, coords: Columns) -> Located:
        count = len(coords)
        return Located(
            self._names(coords),
            np.ones(count, np.uint8),
            np.arange(count),
            np.zeros(count, np.int64),
            np.full(count, -1, np.int64),
        )

    def locate_one(self, coordinates: tuple[int, ...]) -> Located:
        return Located((self.keys.encode_one(coordinates, self.prefix),), *_ONE[1:5])

    def fetch(
        self,
        located: Located,
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        held: Fetched | None = None,
        once: bool = False,
    ) -> Fetched:
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


def fetch_located(
    store: Store,
    located: Located,
    spans: Columns,
    *,
    expect: Sequence[Version | None] | None = None,
    held: Fetched | None = None,
    once: bool = False,
) -> Fetched:
    """ChunkStorage.fetch for any Located: chunks nowhere, inline, and in objects of `store` that may be shared by many."""
    kind = located.kind[spans[:, 0]]
    asked = np.flatnonzero(kind == STORED)
    inner = None
    if held is not None:
        if not isinstance(held.sources.buffers, HeldBuffers):
            raise InvalidInputError("the answer to hold came from another storage")
        inner = held.sources.buffers.inner
    stored = [i for i, at in enumerate(located.kind.tolist()) if at == STORED]
    fetched = fetch_spans(
        store,
        located.names,
        object_spans(located, spans[asked]),
        expect=None if expect is None else _expected_objects(located, stored, expect),
        held=inner,
        once=once,
    )
    status, versions, sizes = _by_chunk(located, stored, fetched)
    if expect is not None:
        for i in stored:
            if status[i] == FOUND and expect[i] is not None and expect[i] != versions[i]:
                status[i] = STALE
    rows = np.full((len(spans), 3), (MISSING, 0, 0), np.int64)
    rows[asked] = fetched.rows
    first = len(fetched.sources.buffers)
    inline = np.flatnonzero(kind == INLINE)
    of_chunk = spans[inline, 0]
    rows[inline, 0] = -1 - first - located.object[of_chunk]
    rows[inline, 1], rows[inline, 2] = clip_spans(spans[inline, 1], spans[inline, 2], sizes[of_chunk])
    rows[np.asarray(status)[spans[:, 0]] == STALE] = (MISSING, 0, 0)
    buffers = HeldBuffers([*fetched.sources.buffers, *located.inline], fetched)
    young = fetched.young and [
        at == STORED and fetched.young[place] for at, place in zip(located.kind, located.object, strict=True)
    ]
    return Fetched(Sources(fetched.sources.files, buffers), status, versions, sizes, rows, young)


def _expected_objects(
    located: Located, stored: Sequence[int], expect: Sequence[Version | None]
) -> list[Version | None]:
    """Of the versions that an object's chunks expect, one; fetch_located compares the others with what was found."""
    wanted: list[Version | None] = [None] * len(located.names)
    for i in stored:
        wanted[located.object[i]] = wanted[located.object[i]] or expect[i]
    return wanted


def _by_chunk(
    located: Located, stored: Sequence[int], fetched: Fetched
) -> tuple[list[int], list[Version | None], Columns]:
    """Status, version and size of each chunk from those of the objects."""
    count = len(located.kind)
    status = [ABSENT_KEY] * count
    versions: list[Version | None] = [None] * count
    sizes = np.full(count, -1, np.int64)
    for i in stored:
        place = int(located.object[i])
        status[i], versions[i] = fetched.status[place], fetched.versions[place]
        whole = located.length[i] < 0 or status[i] == ABSENT_KEY
        sizes[i] = fetched.sizes[place] if whole else located.length[i]
    for i in np.flatnonzero(located.kind == INLINE).tolist():
        status[i], sizes[i] = FOUND, len(located.inline[located.object[i]])
    return status, versions, sizes
