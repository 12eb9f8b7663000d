"""The keys of a hierarchy of nodes as a Zarr v3 store: which node's document or which chunk a key means, and their order. Pure.

node_store.py reads and writes their values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.metadata.grids.chunk_keys import DefaultKeys
from frazil.metadata.model import ArrayMetadata
from frazil.metadata.v3.documents import DOCUMENT_NAME, data_prefix, document_key
from frazil.stores.values import Columns

_SLASH, _DOT = DefaultKeys("/"), DefaultKeys(".")
_LEAD: Final = "c"  # the first component of every chunk key
_AFTER_SLASH: Final = "0"  # the character that follows "/"


class ChunkNames(Record):
    """The chunk keys of a batch that have the form of one array's: their rows in the batch, their coordinates, and the encoding"""

    rows: list[int]
    coordinates: list[tuple[int, ...]]
    keys: DefaultKeys

    def inside(self, node: object) -> tuple[list[int], Columns]:
        """The rows of the keys that are chunks of the node, and their coordinates, int64[n, d]."""
        if not isinstance(node, ArrayMetadata) or (node.ndim and self.keys != node.chunk_key_encoding):
            return [], np.zeros((0, 0), np.int64)
        grid = node.grid_shape
        found = [
            (row, chunk)
            for row, chunk in zip(self.rows, self.coordinates, strict=True)
            if len(chunk) == len(grid) and all(at < end for at, end in zip(chunk, grid, strict=True))
        ]
        return [row for row, _ in found], np.array([at for _, at in found], np.int64).reshape(len(found), node.ndim)

    def all_inside(self, names: Sequence[str], path: str, node: object) -> Columns:
        """The coordinates of all keys. Raises InvalidInputError, with the first key that is no chunk of the node."""
        rows, coords = self.inside(node)
        if len(rows) < len(self.rows):
            raise _chunk_mistake(names[min({*self.rows}.difference(rows))], path, node)
        return coords


class SortedKeys(Record):
    """A batch of keys, sorted by their meaning; rows are those in the batch. documents: (row, path of the node); chunks: (path that the array would have, its
    chunk keys of one encoding); others: rows of keys without meaning"""

    documents: list[tuple[int, str]]
    chunks: list[tuple[str, ChunkNames]]
    others: list[int]


def grouped(names: Sequence[str]) -> SortedKeys:
    """The meaning of each key of a batch."""
    found = SortedKeys([], [], [])
    arrays: dict[tuple[str, DefaultKeys], ChunkNames] = {}
    for row, name in enumerate(names):
        parent, _, last = name.rpartition("/")
        if last == DOCUMENT_NAME:
            found.documents.append((row, parent))
        elif (chunk := split_chunk_key(name)) is not None:
            path, coordinates, keys = chunk
            chunks = arrays.setdefault((path, keys), ChunkNames([], [], keys))
            chunks.rows.append(row)
            chunks.coordinates.append(coordinates)
        else:
            found.others.append(row)
    found.chunks.extend([(path, chunks) for (path, _), chunks in arrays.items()])
    return found


def split_chunk_key(key: str) -> tuple[str, tuple[int, ...], DefaultKeys] | None:
    """The path of the array to which such a chunk belongs, its coordinates, and the encoding that produces such a key: "c" and numbers, all separated by "/" or
    by ".". None for another key."""
    path, _, last = key.rpartition("/")
    if last.startswith(_LEAD + "."):
        coordinates = _DOT.decode(last, last.count("."))
        return None if coordinates is None else (path, coordinates, _DOT)
    parts = key.split("/")
    first = len(parts)
    while first and parts[first - 1].isdecimal():
        first -= 1
    if not first or parts[first - 1] != _LEAD:
        return None
    coordinates = _SLASH.decode("/".join(parts[first - 1 :]), len(parts) - first)
    return None if coordinates is None else ("/".join(parts[: first - 1]), coordinates, _SLASH)


def _chunk_mistake(key: str, path: str, node: object) -> InvalidInputError:
    """The error for a key with the form of a chunk key that the node at this path cannot have."""
    if not isinstance(node, ArrayMetadata):
        state = "there is nothing" if node is None else "a group is"
        return InvalidInputError(
            f"{state} at {'/' + path}, so it has no chunks",
            key=key,
            hint=f"set {document_key(path)!r} to the document of an array first",
        )
    grid, prefix, keys = node.grid_shape, data_prefix(path), node.chunk_key_encoding
    if not all(grid):
        hint = "it has none, as it has no elements"
    elif not grid:
        hint = f"its only chunk is {keys.encode_one((), prefix)!r}"
    else:
        last = keys.encode_one(tuple(end - 1 for end in grid), prefix)
        hint = f"its chunks are {keys.encode_one((0,) * len(grid), prefix)!r} to {last!r}"
    return InvalidInputError(f"the array at {'/' + path} has no such chunk", key=key, hint=hint)


def ordered(paths: Iterable[str], arrays: Iterable[str]) -> list[tuple[str, str | None]]:
    """All keys of nodes in order: the documents of `paths`, and for all chunks of each of `arrays` one entry at their place: (first possible key, path).
    Only its chunks are below an array, so that no other key comes between them."""
    entries: list[tuple[str, str | None]] = [(document_key(path), None) for path in paths]
    entries += [(data_prefix(path) + _LEAD, path) for path in arrays]
    return sorted(entries, key=lambda entry: entry[0])


def chunk_keys(path: str, node: ArrayMetadata, coords: Columns, start_after: str = "") -> list[str]:
    """The keys of chunks of the array at a path, sorted, after another one."""
    prefix = data_prefix(path)
    if start_after >= prefix + _LEAD + _AFTER_SLASH:
        return []
    keys = node.chunk_key_encoding.encode_all(coords, prefix)
    if start_after >= prefix + _LEAD:
        keys = [key for key in keys if key > start_after]
    return sorted(keys)


def level_of(path: str, node: ArrayMetadata, coords: Columns, leading: int) -> list[str]:
    """The keys or prefixes directly below the one that fixes that many leading coordinates, sorted, of chunks that all have them. Keys are separated by "/"."""
    if not len(coords):
        return []
    if leading + 1 >= coords.shape[1]:
        return chunk_keys(path, node, coords)
    first = coords[np.unique(coords[:, leading], return_index=True)[1], : leading + 1]
    return sorted([f"{key}/" for key in _SLASH.encode_all(first, data_prefix(path))])
