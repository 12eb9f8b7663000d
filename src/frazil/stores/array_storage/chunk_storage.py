"""The port between arrays and the places where their encoded chunks lie, in columns; and its plain form, one object a chunk under keys.

A chunk here is what the array stores as one: a shard, where there are shards. Which bytes of it are wanted, and what they mean, is the array's part.
Chunks that share objects or lie inline are fetched by shared_objects.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from frazil import _kernel
from frazil.metadata.grids.chunk_keys import SeparatedKeys, decode_each
from frazil.record import Record
from frazil.stores.keys.names import check_prefix
from frazil.stores.store import KernelRoot, Store
from frazil.stores.transfer.merged_spans import merge_spans
from frazil.stores.values import (
    ANY,
    NO_SPANS,
    Changed,
    Columns,
    Fetched,
    Pieces,
    Version,
    up_to,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.stores.values import SourceBuffer

__all__ = [
    "INLINE",
    "NOWHERE",
    "STORED",
    "ChunkKeys",
    "ChunkStorage",
    "KernelFiles",
    "Located",
    "ObjectList",
    "PlainChunks",
    "as_objects",
    "fetch_spans",
]

NOWHERE: Final = 0  # known not to be stored: the fill value
STORED: Final = 1  # in the object names[object], which may turn out not to be there
INLINE: Final = 2  # in the buffer inline[object], so there

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
            ""
            if kind != STORED
            else self.names[position]
            if length < 0
            else f"{self.names[position]}\0{base}\0{length}"
            for kind, position, base, length in zip(*columns, strict=True)
        ]

    def take(self, rows: Columns) -> Located:
        """These chunks alone, int64[k], with their objects alone."""
        kind, position = self.kind[rows], self.object[rows]
        if self.plain:
            names, count = [self.names[i] for i in rows.tolist()], len(rows)
            return Located(names, kind, np.arange(count), self.base[:count], self.length[:count], plain=True)
        named = self._named()[rows]
        used, position[named] = np.unique(position[named], return_inverse=True)
        own = self.names if isinstance(self.names, ObjectList) else None
        return self._replace(
            names=[self.names[i] for i in used.tolist()] if own is None else own.take(used),
            kind=kind,
            object=position,
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
        wanted, column = np.full(len(self.names), None), as_objects(expect)
        rows = np.flatnonzero((self.kind == STORED) & np.not_equal(column, _NONE))[::-1]  # of several the first
        wanted[self.object[rows]] = column[rows]
        found: list[Version | None] = wanted.tolist()
        return found


class KernelFiles(Record):
    """Chunks in files that the kernel opens by itself; arguments of its read_shards.

    root     the folder, held open
    names    its descriptor, what stands before the first coordinate in a key, and what stands between two: then the file of a chunk follows from its coordinates
    files, buffers, objects  else: the files, buffers at hand, and int64[n, 3] for each chunk that was located: (blob, first byte, length; -1: up to the end)
    located  where these were found; None where names say it"""

    root: KernelRoot
    names: tuple[int, str, str] | None = None
    files: _kernel.Files | None = None
    buffers: Sequence[SourceBuffer] = ()
    objects: Columns = NO_SPANS
    located: Located | None = None


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

    @property
    def answers_files(self) -> bool:
        """Whether the files of an answer are the objects, and their versions those of the files, so that the kernel compares them. An archive is one file of many objects."""

    def locate(self, coords: Columns) -> Located:
        """Where chunks lie; a row a coordinate."""

    def locate_one(self, coordinates: tuple[int, ...]) -> Located:
        """As locate, for one chunk: for reads that are over in some microseconds."""

    def kernel_files(self, coords: Callable[[], Columns]) -> KernelFiles | None:
        """Where the kernel finds the chunks at these coordinates by itself; None where they are to be fetched."""

    def fetch(
        self,
        located: Located,
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        """Byte ranges of chunks, as Store.fetch with the rows of `located` in place of names: spans are int64[n, 3], (row of located, start and length
        in the chunk); expect, and the answer's status, versions, sizes and version_may_repeat, are a row of `located` each; sizes are the chunks'. The files of the answer are
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

    def stored_sizes(self, grid_shape: Sequence[int]) -> tuple[Columns, Columns]:
        """As `stored`, with the encoded bytes of each, int64[n]; -1 of a chunk that has gone meanwhile. Costs no more requests."""

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
        return self.store.direct

    @property
    def answers_files(self) -> bool:
        return self.store.capabilities.local

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

    def kernel_files(self, coords: Callable[[], Columns]) -> KernelFiles | None:
        form: tuple[str, str] | None = getattr(self.keys, "form", None)
        root = None if form is None else self.store.kernel_root()
        return None if root is None or form is None else KernelFiles(root, (root.fd, self.prefix + form[0], form[1]))

    def fetch(
        self,
        located: Located,
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        if self.largest is not None and not self.store.direct:
            spans = _bounded(spans, self.largest)
        # a row of `located` is the name of the same number, and spans in the chunk are spans in the object
        return fetch_spans(
            self.store, located.names, spans, expect=expect, continue_from=continue_from, single_read=single_read
        )

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
        return self._listed(grid_shape, details=False)[0]

    def stored_sizes(self, grid_shape: Sequence[int]) -> tuple[Columns, Columns]:
        return self._listed(grid_shape, details=True)

    def _listed(self, grid_shape: Sequence[int], *, details: bool) -> tuple[Columns, Columns]:
        """Coordinates, sorted, and sizes, where details are wanted."""
        ndim, keys = len(grid_shape), self.keys
        decode = keys.decode_all if isinstance(keys, SeparatedKeys) else partial(decode_each, keys)
        coords, sizes = [np.zeros((0, ndim), np.int64)], [np.zeros(0, np.int64)]
        for page in self.store.list_pages(self.prefix, details=details):
            rows, found = decode(page.keys, ndim, len(self.prefix))
            inside = (found < np.asarray(grid_shape, np.int64)).all(axis=1)
            coords.append(found[inside])
            sizes.append(np.full(len(rows), -1, np.int64)[inside] if page.sizes is None else page.sizes[rows[inside]])
        every, nbytes = np.concatenate(coords), np.concatenate(sizes)
        order = np.lexsort(every.T[::-1]) if ndim else np.arange(len(every))
        return every[order], nbytes[order]

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
    continue_from: Fetched | None = None,
    single_read: bool = False,
) -> Fetched:
    """Store.fetch, with spans that lie near each other asked for as one where each would be a request of its own."""
    merged = None if len(spans) < 2 or store.direct else merge_spans(spans)
    if merged is None:
        return store.fetch(names, spans, expect=expect, continue_from=continue_from, single_read=single_read)
    fetched = store.fetch(names, merged.spans, expect=expect, continue_from=continue_from, single_read=single_read)
    return fetched._replace(rows=merged.cut(fetched.rows))


def as_objects(values: Sequence[Version | None]) -> NDArray[np.object_]:
    column = np.empty(len(values), np.object_)
    column[:] = list(values)
    return column
