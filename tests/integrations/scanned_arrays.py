"""Arrays found by a scan, read back through Frazil's codecs: the bytes that the scan points to are copied from the file into a store, as chunks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import frazil
from frazil.integrations.files.scanned import ScannedArray, ScannedFile
from frazil.stores.memory import MemoryStore


def array_of(scanned: ScannedFile, path: str) -> ScannedArray:
    return next(array for array in scanned.arrays if array.path == path)


def values_of(scanned: ScannedArray, file: Path) -> NDArray[np.generic]:
    store = MemoryStore()
    array = frazil.create_array(store, **scanned.arguments())
    data = file.read_bytes()
    assert all(
        at < extent for row in scanned.chunks.coordinates.tolist() for at, extent in zip(row, scanned.grid, strict=True)
    )
    columns = [column.tolist() for column in scanned.chunks]
    assert len({tuple(row) for row in columns[0]} | {row for row, _ in scanned.inline_chunks}) == len(columns[0]) + len(
        scanned.inline_chunks
    )
    for coordinates, offset, length in zip(*columns, strict=True):
        assert offset >= 0 and offset + length <= len(data)
        store.set("/".join(["c", *map(str, coordinates)]), data[offset : offset + length])
    for coordinates, value in scanned.inline_chunks:
        store.set("/".join(["c", *map(str, coordinates)]), value)
    return np.asarray(array[...])
