"""The port between arrays and the storage of their encoded chunks, in columns; and its plain implementation, one object for each chunk under keys.

A chunk here is one stored object: a shard, if there are shards. The array decides which of its bytes are read, and what they mean.
Chunks that share objects or are inline are fetched by shared_objects.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from errno import ENOENT
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, Unpack

import numpy as np

from frazil import _kernel
from frazil.base.record import Record
from frazil.errors import StoreError
from frazil.metadata.grids.chunk_keys import SeparatedKeys, decode_each
from frazil.stores.keys.names import check_prefix
from frazil.stores.store import Store
from frazil.stores.transfer import merged_spans
from frazil.stores.values import (
    ANY,
    NO_SPANS,
    Changed,
    Columns,
    Fetched,
    Pieces,
    Version,
    Versions,
    up_to,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.stores.port import FetchOptions, KernelRoot
    from frazil.stores.values import SourceBuffer

NOWHERE: Final = 0  # known not to be stored: the fill value
STORED: Final = 1  # in the object names[object], which may be missing
INLINE: Final = 2  # in the buffer inline[object], so it exists

NO_VALUE: Final = np.full(1, None)
_NOTHING: Final = nullcontext()


class ObjectList(list[str]):
    """Names of objects about which a storage knows more than the names; a subclass preserves that in `take`."""

    __slots__ = ()

    def take(self, rows: Columns) -> Sequence[str]:
        """These names alone; int64[k], ascending."""
        return [self[i] for i in rows.tolist()]


class Located(Record):
    """The places of chunks, a row for each chunk.

    names       the objects, each once: a row's object is names[object[row]]
    kind        uint8[n]: NOWHERE, STORED, INLINE, or a higher number that the storage defines: then the object cannot be read by fetch_located
    object      int64[n], a row of names (of inline for INLINE)
    base        int64[n], the chunk's first byte in its object or buffer
    length      int64[n], the chunk's bytes; -1: it is the whole object, and base is 0
    inline      buffers in memory; one may hold many chunks
    versions    of the chunks, a row each, if they are known without a request: then no version is expected of objects, which never change. They may be
                computed on demand
    must_exist  whether a missing object is an error, as something refers to it; otherwise its chunks are the fill value
    plain       whether each row is STORED, and the whole of the object of the same number
    """

    names: Sequence[str]
    kind: NDArray[np.uint8]
    object: Columns
    base: Columns
    length: Columns
    inline: Sequence[SourceBuffer] = ()
    versions: Versions | None = None
    must_exist: bool = False
    plain: bool = False

    def key(self, row: int) -> str | None:
        """The key of a chunk's object, for errors; None if it has none."""
        return None if self.kind[row] in (NOWHERE, INLINE) else self.names[int(self.object[row])]

    def labels(self) -> Sequence[str]:
        """For each chunk, the name under which to remember things of it, together with its version: a different one for each chunk of an object; "" if nothing
        is to be remembered, as the chunk is in memory or nowhere."""
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
        """Only these chunks, int64[k], with their objects."""
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
        """bool[n]: which chunks are in objects."""
        return np.asarray((self.kind != NOWHERE) & (self.kind != INLINE), np.bool_)

    def expected_objects(self, expect: Versions) -> Versions | None:
        """For each object one of the versions that its chunks expect (a row each), None for any; None instead of a list if nothing is expected of objects."""
        if self.plain or self.versions is not None:
            return expect if self.plain else None
        expected, column = np.full(len(self.names), None), as_objects(expect)
        rows = np.flatnonzero((self.kind == STORED) & np.not_equal(column, NO_VALUE))[::-1]  # of several, the first
        expected[self.object[rows]] = column[rows]
        found: list[Version | None] = expected.tolist()
        return found


class KernelFiles(Record):
    """Chunks in files that the kernel opens itself; arguments of its read_shards.

    root     the folder, held open
    names    its descriptor, the text before the first coordinate in a key, and the text between two: then the file of a chunk follows from its coordinates
    files, buffers, objects  else: the files, buffers in memory, and int64[n, 3] for each chunk that was located: (blob, first byte, length; -1: up to the end)
    located  the places of the chunks; None if `names` defines them"""

    root: KernelRoot
    names: tuple[int, str, str] | None = None
    files: _kernel.Files | None = None
    buffers: Sequence[SourceBuffer] = ()
    objects: Columns = NO_SPANS
    located: Located | None = None


class ChunkStorage(Protocol):
    """Chunk coordinates to bytes. coords is int64[n, d], rows inside the chunk grid; those of publish and erase are distinct. Safe to use from many threads;
    pickles.

    All raise StoreError when the store fails; a missing chunk is no error."""

    @property
    def conditional_erase(self) -> bool:
        """Whether `erase` honours expected versions. If not, a chunk is emptied by publishing an empty one."""

    @property
    def erasable(self) -> bool:
        """Whether `erase` can remove chunks at all. If not, a chunk that becomes all fill value is published like any other, and a shard as one without
        inner chunks."""

    @property
    def direct(self) -> bool:
        """Whether chunks can be read without requests (Capabilities.direct), or only by this thread. If not, several fetches are made at once, by several
        threads."""

    def joins(self, nbytes: int) -> bool:
        """Whether `publish` holds a second copy of a value of so many bytes, in one piece of memory."""

    @property
    def answers_files(self) -> bool:
        """Whether the files of an answer are the objects, and their versions those of the files, so that the kernel compares them. (An archive is one file of
        many objects.)"""

    def locate(self, coords: Columns) -> Located:
        """The places of chunks; a row for each coordinate."""

    def locate_one(self, coordinates: tuple[int, ...]) -> Located:
        """As locate, for one chunk: for reads that take some microseconds."""

    def kernel_files(self, coords: Callable[[], Columns]) -> KernelFiles | None:
        """The places of these chunks for the kernel, which reads them itself; None if they must be fetched."""

    def fetch(
        self,
        located: Located,
        spans: Columns,
        *,
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        """Byte ranges of chunks, as Store.fetch with the rows of `located` in place of names: spans are int64[n, 3], (row of located, start and length in the
        chunk). expect, and the answer's status, versions, sizes and version_may_repeat, have a row for each row of `located`; sizes are those of chunks. The
        files of the answer are the objects, in the order of located.names."""

    def publish(self, coords: Columns, pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        """Replaces each chunk whole if it has the version expected (ANY, ABSENT, a version). The only way to replace a chunk."""

    def erase(self, coords: Columns, expect: Versions) -> list[Changed | None]:
        """Removes chunks, which then are the fill value; with ANY a missing chunk is no error."""

    def whole_change(self) -> AbstractContextManager[None]:
        """A block whose changes a transaction has all or none of: another thread that commits or rebases it waits for the end of the block. Blocks may be
        nested."""

    def extend(self, axis: int, old: int, new: int) -> None:
        """Called before values are written that are appended along `axis`: the array has grown from `old` to `new` elements. So a transaction can distinguish
        an append from an overwrite after a resize."""

    def stored(self, grid_shape: Sequence[int]) -> Columns:
        """The coordinates of all existing chunks inside a grid, int64[n, d], sorted."""

    def stored_sizes(self, grid_shape: Sequence[int]) -> tuple[Columns, Columns]:
        """As `stored`, with the encoded bytes of each, int64[n]; -1 for a chunk that was removed meanwhile. Needs no more requests."""

    def sizes(self, coords: Columns) -> Columns:
        """Encoded bytes of each chunk, int64[n]; -1 for a missing one."""

    def coordinates(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """The coordinates of the chunk whose object has this key; None if the object is no chunk, or has several. For errors."""


class ChunkKeys(Protocol):
    """The methods of a chunk key encoding that are used here (Zarr v3.1 core, Chunk key encodings)."""

    def encode_one(self, coordinates: tuple[int, ...], prefix: str = "") -> str: ...

    def encode_all(self, coordinates: Columns, prefix: str = "") -> list[str]: ...

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """The coordinates whose key, without prefix, is exactly this; None if there are none."""


# the columns of a single chunk in an object of its own, created once
_ZERO = np.zeros(1, np.int64)
_ONE_WITHOUT_NAME = Located((), np.ones(1, np.uint8), _ZERO, _ZERO, np.full(1, -1, np.int64), plain=True)[1:]
for _column in _ONE_WITHOUT_NAME[:4]:
    _column.flags.writeable = False


class PlainChunks:
    """Chunks of a plain Zarr hierarchy: each an object of its own, under the array's prefix and its encoded coordinates."""

    __slots__ = ("keys", "largest", "prefix", "store")

    def __init__(self, store: Store, prefix: str, keys: ChunkKeys, largest: int | None = None) -> None:
        """prefix: "" or ending in "/"; raises InvalidInputError for another. largest: the most bytes of a chunk; a store that downloads reads no more."""
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

    def joins(self, nbytes: int) -> bool:
        return not self.store.capabilities.streams

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

    def fetch(self, located: Located, spans: Columns, **options: Unpack[FetchOptions]) -> Fetched:
        # a row of `located` is the name of the same number, and spans in the chunk are spans in the object
        if self.store.direct:
            return self.store.fetch(located.names, spans, **options)
        if self.largest is not None:
            spans = _bounded(spans, self.largest)
        return fetch_spans(self.store, located.names, spans, **options)

    def publish(self, coords: Columns, pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        return self.store.put_many(self._names(coords), pieces, self._honoured(expect))

    def erase(self, coords: Columns, expect: Versions) -> list[Changed | None]:
        return self.store.erase_many(self._names(coords), self._honoured(expect))

    def _honoured(self, expect: Versions) -> Versions:
        """A store without conditions gets none: there, writers of one chunk can lose each other's data."""
        return expect if self.store.capabilities.expects else [ANY] * len(expect)

    def whole_change(self) -> AbstractContextManager[None]:
        """Does nothing, as there is no transaction."""
        return _NOTHING

    def extend(self, axis: int, old: int, new: int) -> None:
        """Does nothing: a plain store has no transaction that must distinguish an append from an overwrite."""

    def stored(self, grid_shape: Sequence[int]) -> Columns:
        return self._listed(grid_shape, details=False)[0]

    def stored_sizes(self, grid_shape: Sequence[int]) -> tuple[Columns, Columns]:
        return self._listed(grid_shape, details=True)

    def _listed(self, grid_shape: Sequence[int], *, details: bool) -> tuple[Columns, Columns]:
        """Coordinates, sorted, and sizes, if details are requested."""
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


class ScalarChunk(PlainChunks):
    """The chunk of an array without dimensions, which may have either of two keys (the draft of 2022 says `c`, zarr-python 2 wrote `c0`): the one that exists,
    or the encoding's own if neither does. also: the other key"""

    __slots__ = ("also",)

    def __init__(self, store: Store, prefix: str, keys: ChunkKeys, also: str, largest: int | None = None) -> None:
        super().__init__(store, prefix, keys, largest)
        self.also = prefix + also

    def locate_one(self, coordinates: tuple[int, ...]) -> Located:
        return super().locate_one(coordinates)._replace(names=(self._name(),))

    def _names(self, coords: Columns) -> list[str]:
        return [self._name()] * len(coords)

    def _name(self) -> str:
        own = self.keys.encode_one((), self.prefix)
        sizes = self.store.sizes([own, self.also])
        return self.also if sizes[0] < 0 <= sizes[1] else own


def plain_chunks(store: Store, prefix: str, keys: ChunkKeys, ndim: int, largest: int | None = None) -> PlainChunks:
    """The chunks of an array in a hierarchy of documents. largest: see PlainChunks."""
    also = None if ndim else getattr(keys, "also", None)
    if also is None:
        return PlainChunks(store, prefix, keys, largest)
    return ScalarChunk(store, prefix, keys, also, largest)


def _bounded(spans: Columns, largest: int) -> Columns:
    """The spans, with those up to the end of their object limited (values.up_to)."""
    bounded = spans.copy()
    bounded[spans[:, 2] == -1, 2] = up_to(largest)
    return bounded


def missing_object(key: str) -> StoreError:
    """The error for a chunk whose object was lost."""
    return StoreError(
        "the object of a chunk reference is missing",
        errno=ENOENT,
        key=key,
        hint="restore it from a copy, or write the chunk again",
    )


def fetch_spans(store: Store, names: Sequence[str], spans: Columns, **options: Unpack[FetchOptions]) -> Fetched:
    """Store.fetch; if each span needs a request, spans that are near each other are merged."""
    merged = None if len(spans) < 2 or store.direct else merged_spans.merge_spans(spans)
    if merged is None:
        return store.fetch(names, spans, **options)
    fetched = store.fetch(names, merged.spans, **options)
    return fetched._replace(rows=merged.cut(fetched.rows))


def as_objects(values: Versions) -> NDArray[np.object_]:
    column = np.empty(len(values), np.object_)
    column[:] = list(values)
    return column
