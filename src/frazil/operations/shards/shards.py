"""frazil.shards: the positions of the inner chunks of stored shards, and unused bytes. shard_index.py reads indexes, picture.py has pictures."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from frazil.array.array import Array
from frazil.base.record import Record
from frazil.base.reports import counted, human
from frazil.codecs.sharding.inner_order import Order, grid_coordinates, order_of
from frazil.errors import InvalidInputError, NotFoundError, one_line
from frazil.metadata.json_text import Json, known_members
from frazil.operations.array_source import open_source
from frazil.operations.shards.shard_index import ShardTable, chunk_keys, levels_of, read_tables
from frazil.runtime import Runtime
from frazil.stores.location_overlap import shown
from frazil.stores.locations import Location
from frazil.stores.values import Columns


class Piece(Record):
    """Bytes of a shard that belong together. kind: "chunk", "index" or "unused"; chunk: coordinates in the grid of inner chunks of the array, for a chunk"""

    kind: str
    start: int
    nbytes: int
    chunk: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Json]:
        """Members that are not None."""
        return known_members(self._asdict())


class Shard(Record):
    """One stored shard.

    coords   in the array's grid of shards;  nbytes: of the stored object
    chunks   inner chunks that are stored, of `total`;  chunk_nbytes: their bytes, index_nbytes: those of the index
    unused   bytes without a reference, which earlier writes may have left: of the decoded shard, if it is inside codecs;  gaps: the number of their ranges
    order    of the inner chunks: "C", "F", "morton", or "written" for none of these; None for fewer than two
    pieces   all parts of the shard in the order of their bytes, if one shard was requested; else ()
    error    why the index cannot be read"""

    coords: tuple[int, ...]
    key: str
    nbytes: int
    chunks: int = 0
    total: int = 0
    chunk_nbytes: int = 0
    index_nbytes: int = 0
    unused: int = 0
    gaps: int = 0
    order: Order | None = None
    pieces: tuple[Piece, ...] = ()
    error: str | None = None

    def to_json(self) -> dict[str, Json]:
        """The same as JSON, without members that do not apply."""
        fields = {name: value for name, value in self._asdict().items() if name != "pieces" and value is not None}
        fields["coords"] = list(self.coords)
        if self.pieces:
            fields["pieces"] = [piece.to_json() for piece in self.pieces]
        return fields


class Shards(Record):
    """The stored shards of an array, sorted by their coordinates."""

    location: str
    shards: tuple[Shard, ...]

    def to_json(self) -> dict[str, Json]:
        """The same as JSON."""
        return {"location": self.location, "shards": [shard.to_json() for shard in self.shards]}

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, most: int | None = None) -> list[str]:
        """A table of the first shards, with a line of totals."""
        first = self.shards[:most]
        rows = [("shard", "inner chunks", "stored", "index", "unused", "gaps", "order"), *map(_cells, first)]
        widths = [max(len(row[column]) for row in rows) for column in range(7)]
        lines = []
        for row in rows:
            cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
            lines.append("  ".join((row[0].ljust(widths[0]), *cells[1:6], row[6])))
        if len(self.shards) > len(first):
            lines.append(f"and {len(self.shards) - len(first):,} more")
        stored, unused = sum(shard.nbytes for shard in self.shards), sum(shard.unused for shard in self.shards)
        part = f" ({unused / stored:.1%})" if stored else ""
        lines.append(
            f"{counted(len(self.shards), 'shard')} of {one_line(self.location)}:"
            f" {human(stored)} stored, {human(unused)} unused{part}"
        )
        return lines


def shards(
    source: Location | Array,
    *,
    path: str = "",
    shard: Sequence[int] | None = None,
    runtime: Runtime | None = None,
) -> Shards:
    """The layout of the stored shards of an array: inner chunks, unused bytes, order. Only indexes are read; in nested shards the outermost.

    source  an Array, or the location of one;  path: of the node there
    shard   coordinates of one shard: returns only this one, with all its pieces; None: all stored shards
    Raises NotFoundError (also for a missing shard), InvalidInputError for an array without shards, DataError, StoreError."""
    array = open_source(source, path, runtime)
    if not levels_of(array):
        raise InvalidInputError(
            "the array has no shards"
            if array.shards is None
            else "its shards are encoded by other codecs, so their indexes cannot be read",
            path=array.path or "/",
            hint="`frazil ls --long` shows how many chunks are stored",
        )
    if shard is not None:
        coords = _checked(array, shard)
    else:
        coords = array._storage.stored(array.metadata.grid_shape)
    keys, found = chunk_keys(array, coords), list[Shard]()
    limit = array._location.runtime.checked().bytes_in_flight // 2
    for at, key, table in zip(coords.tolist(), keys, read_tables(array, keys, limit), strict=True):
        if table.table is None and table.error is None:
            if shard is not None:
                raise NotFoundError(
                    "the shard is not stored: all its elements are the fill value", key=key, path=array.path or "/"
                )
            continue  # removed meanwhile
        found.append(_described(array, tuple(at), key, table, pieces=shard is not None))
    return Shards(shown(array.store, array.path and f"{array.path}/"), tuple(found))


def _checked(array: Array, shard: Sequence[int]) -> Columns:
    grid = array.metadata.grid_shape
    try:
        coords = np.array([list(map(operator.index, shard))], np.int64).reshape(1, len(grid))
    except (TypeError, ValueError, OverflowError):
        coords = np.full((1, max(1, len(grid))), -1, np.int64)
    if (coords < 0).any() or (coords >= np.array(grid, np.int64)).any():
        raise InvalidInputError(
            f"shard is {shard!r}; it must be {len(grid)} coordinates in a grid of {' x '.join(map(str, grid))} shards",
            path=array.path or "/",
        )
    return coords


def _described(array: Array, coords: tuple[int, ...], key: str, found: ShardTable, *, pieces: bool) -> Shard:
    level = levels_of(array)[0]
    nbytes = max(found.size, 0)
    if found.table is None or found.blob is None:
        return Shard(coords, key, nbytes, total=level.total, error=str(found.error))
    index = (found.blob.size - level.index_codecs.nbytes if level.at_end else 0), level.index_codecs.nbytes
    numbers = np.flatnonzero(found.table[:, 0] >= 0)
    numbers = numbers[np.lexsort((found.table[numbers, 1], found.table[numbers, 0]))]
    spans = np.concatenate((found.table[numbers], np.array([index], np.int64)))
    gaps = _gaps(spans, found.blob.size)
    positions = grid_coordinates(numbers, level.strides, level.counts)
    all_pieces: tuple[Piece, ...] = ()
    if pieces:
        corner = np.array(coords, np.int64) * np.array(level.counts, np.int64)
        chunks = (positions + corner).tolist()
        placed = zip(spans[:-1].tolist(), chunks, strict=True)
        named = [Piece("chunk", start, length, tuple(chunk)) for (start, length), chunk in placed]
        unused = [Piece("unused", start, length) for start, length in gaps.tolist()]
        all_pieces = tuple(
            sorted([*named, *unused, Piece("index", *index)], key=lambda piece: (piece.start, piece.nbytes))
        )
    return Shard(
        coords,
        key,
        nbytes,
        len(numbers),
        level.total,
        int(found.table[numbers, 1].sum()),
        level.index_codecs.nbytes,
        int(gaps[:, 1].sum()),
        len(gaps),
        order_of(positions[found.table[numbers, 1] > 0], level.counts),
        all_pieces,
    )


def _gaps(spans: Columns, size: int) -> Columns:
    """int64[g, 2], start and length: the ranges of `size` bytes that no span covers."""
    order = np.argsort(spans[:, 0], kind="stable")
    starts, ends = spans[order, 0], np.maximum.accumulate(spans[order].sum(axis=1))
    before, after = np.concatenate(([0], ends)), np.concatenate((starts, [size]))
    free = np.flatnonzero(after > before)
    return np.stack((before[free], after[free] - before[free]), axis=1)


def _cells(shard: Shard) -> tuple[str, ...]:
    location = ", ".join(map(str, shard.coords))
    if shard.error is not None:
        return location, "-", human(shard.nbytes), "-", "-", "-", one_line(shard.error)
    counts = f"{shard.chunks} of {shard.total}", human(shard.nbytes), human(shard.index_nbytes), human(shard.unused)
    return (location, *counts, str(shard.gaps), "as written" if shard.order == "written" else shard.order or "-")
