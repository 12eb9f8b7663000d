"""Arrays as files of NumPy (.npy, .npz) and TIFF, written piece by piece.

HDF5 and NetCDF4 files are written in hdf5_file.py."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from math import prod
from typing import IO, Final

import numpy as np

from frazil.array.array import Array, with_limit
from frazil.base.arrays import Values
from frazil.errors import InvalidInputError
from frazil.integrations.files.exports.source import Exported
from frazil.integrations.files.tiff.series import load_tifffile
from frazil.operations.npy_file import npy_header, write_npy
from frazil.operations.slabs import Slab, plan_slabs, read_slabs
from frazil.operations.window import window

_AXES: Final = {
    "x": "X",
    "y": "Y",
    "z": "Z",
    "time": "T",
    "t": "T",
    "channel": "C",
    "c": "C",
    "lon": "X",
    "lat": "Y",
    "longitude": "X",
    "latitude": "Y",
    "level": "Z",
    "depth": "Z",
}
_CLASSIC: Final = 2**32 - 2**25  # largest TIFF file that is not BigTIFF, in bytes

_SHORT_ROW: Final = 1 << 14  # bytes; a part of a longer one is written alone
_ROWS_BYTES: Final = 1 << 18  # of rows that are read and written again at once

Report = Callable[[int], object]


def only_array(source: Exported, kind: str) -> Array:
    """The one array of a file that holds one. Raises InvalidInputError if there are several."""
    if len(source.arrays) > 1:
        raise InvalidInputError(
            f"a {kind} file holds one array, and there are {len(source.arrays)}",
            hint="name one array, or choose another format",
        )
    (array,) = source.arrays.values()
    return array


def write_npy_file(source: Exported, file: IO[bytes], budget: int, report: Report) -> None:
    """Writes a .npy file. Raises InvalidInputError for several arrays, StoreError, DataError."""
    array = only_array(source, ".npy")
    file.write(npy_header(array.dtype, array.shape, array.path))
    begin = file.tell()
    # slabs of whole chunks, each at its place in the file: in C order of the elements a chunk would be read again for each piece that has some of its rows
    plan = plan_slabs(array.shape, array.dtype.itemsize, array.chunks, array.chunks, budget // 2, array.shards)
    for slab in read_slabs(with_limit(array, budget // 4), plan):
        _write_box(file, begin, array, slab)
        report(slab.values.nbytes)


def _write_box(file: IO[bytes], begin: int, array: Array, slab: Slab) -> None:
    """Writes the elements of a slab where they belong in C order, in runs as long as possible. begin: the position of the first element of the array"""
    values, starts = slab.values, [part.start for part in slab.box]
    axis = next(
        (n for n in reversed(range(array.ndim)) if values.shape[n] != array.shape[n]), 0
    )  # that a run begins on
    steps = [array.dtype.itemsize * prod(array.shape[n + 1 :]) for n in range(array.ndim)]
    first = begin + sum(start * step for start, step in zip(starts, steps, strict=True))
    if axis and steps[axis - 1] <= _SHORT_ROW:
        for at in np.ndindex(*values.shape[: axis - 1]):
            place = first + sum(i * step for i, step in zip(at, steps, strict=False))
            _write_columns(file, place, values[(*at, ...)], steps[axis - 1])
        return
    for at in np.ndindex(*values.shape[:axis]):
        file.seek(first + sum(i * step for i, step in zip(at, steps, strict=False)))
        file.write(np.ascontiguousarray(values[(*at, ...)]).reshape(-1).view(np.uint8).data)


def _write_columns(file: IO[bytes], place: int, values: Values, row_bytes: int) -> None:
    """Writes a part of each of several rows, one below the other. Whole rows are read and written again, as a call for each part takes longer."""
    parts = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(len(values), -1)
    many = _ROWS_BYTES // row_bytes
    for low in range(0, len(parts), many):
        rows = parts[low : low + many]
        length = (len(rows) - 1) * row_bytes + rows.shape[1]
        block = np.zeros((len(rows), row_bytes), np.uint8)
        file.seek(place + low * row_bytes)
        before = np.frombuffer(file.read(length), np.uint8)
        block.reshape(-1)[: len(before)] = before
        block[:, : rows.shape[1]] = rows
        file.seek(place + low * row_bytes)
        file.write(block.reshape(-1)[:length].data)


def write_npz(source: Exported, file: IO[bytes], budget: int, report: Report) -> None:
    """Writes a .npz file that is not compressed. Raises StoreError, DataError."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as members:
        for path, array in source.arrays.items():
            with members.open(f"{path}.npy", "w", force_zip64=True) as member:
                write_npy(window(with_limit(array, budget // 4)), member, report, budget // 4)


def write_tiff(source: Exported, file: IO[bytes], budget: int, report: Report) -> None:
    """Writes a TIFF file, compressed with deflate: a page for each element of the first dimensions. Raises InvalidInputError without tifffile, for several
    arrays, and for an array that TIFF cannot hold; StoreError, DataError."""
    tifffile = load_tifffile()
    array = only_array(source, "TIFF")
    numbers = array.dtype.kind in "biuf" and array.dtype.isbuiltin == 1
    if array.ndim < 2 or not prod(array.shape) or not numbers or array.dtype.itemsize > 8:
        raise InvalidInputError(
            f"a TIFF file holds numbers in two dimensions or more, this array has {array.metadata.data_type.label} of shape {array.shape}",
            path=array.path or "/",
            hint="choose another format",
        )
    if array.ndim > 2 and array.shape[-1] == 1:  # tifffile takes it for samples of a pixel
        raise InvalidInputError(
            f"a TIFF file has no last dimension of length 1, as in the shape {array.shape}",
            path=array.path or "/",
            hint="choose another format, or leave this dimension out",
        )
    axes = [_AXES.get(name or "", "Q") for name in array.dimension_names or [None] * array.ndim]
    axes[-2:] = ["Y", "X"]
    axes = [axis if axes.count(axis) == 1 else "Q" for axis in axes]
    tifffile.imwrite(
        file,
        _pages(with_limit(array, budget // 4), budget // 4, report),
        shape=array.shape,
        dtype=array.dtype,
        photometric="minisblack",
        compression="zlib",
        bigtiff=array.nbytes > _CLASSIC,
        metadata={"axes": "".join(axes)},
    )


def _pages(array: Array, nbytes: int, report: Report) -> Iterator[Values]:
    """The pages in C order; as many at once as fit, so that chunks are decoded as few times as possible."""
    page = prod(array.shape[-2:])
    unwritten = np.empty(0, array.dtype)
    for piece in window(array).pieces(max(nbytes, page * array.dtype.itemsize)):
        values = np.concatenate((unwritten, piece.read().reshape(-1)))
        report(piece.nbytes)
        whole = len(values) // page
        for number in range(whole):
            yield np.ascontiguousarray(values[number * page : (number + 1) * page].reshape(array.shape[-2:]))
        unwritten = values[whole * page :]
