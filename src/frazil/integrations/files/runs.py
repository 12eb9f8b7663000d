"""Arrays whose elements are one run of bytes in a file, in C or Fortran order, as scanned arrays. Pure, except that chunks that the array's end cuts are
read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import BinaryIO

import numpy as np

from frazil.errors import InvalidInputError, MetadataError, UnknownExtensionError
from frazil.integrations.files.contiguous import Layout, contiguous_chunks, padded_tails, split_contiguous
from frazil.integrations.files.scanned import ScannedArray, bytes_codec, check_shape
from frazil.metadata.json_text import Json
from frazil.metadata.registry import CORE_EXTENSIONS

_KINDS = "biufcSUmMV"


def check_dtype(dtype: np.dtype[np.generic]) -> None:
    """Raises InvalidInputError for a data type that no scanned array has: its elements must be stored as those of an array here, in one byte order."""
    try:
        if dtype.kind in _KINDS and dtype.itemsize and dtype in (dtype.newbyteorder("<"), dtype.newbyteorder(">")):
            CORE_EXTENSIONS.data_type_from_user(dtype).extension()
            return
    except (MetadataError, UnknownExtensionError):
        pass
    raise InvalidInputError(f"its data type is {dtype}, which has no counterpart in arrays here")


def unwritten(dtype: np.dtype[np.generic]) -> np.generic:
    """The fill value of an array of a format that has none: the same as that of a new array."""
    found: np.generic = (np.full(1, "NaT", dtype) if dtype.kind in "mM" else np.zeros(1, dtype))[0]
    return found


def scan_run(
    file: BinaryIO,
    size: int,
    path: str,
    dtype: np.dtype[np.generic],
    shape: tuple[int, ...],
    begin: int,
    *,
    fortran: bool = False,
    attributes: dict[str, Json] | None = None,
    dimension_names: tuple[str | None, ...] | None = None,
) -> ScannedArray:
    """The array whose elements begin at a byte of a file of this size. Raises InvalidInputError if it cannot be an array here, or the file ends before it."""
    check_dtype(dtype)
    check_shape(shape)
    axis_order = slice(None, None, -1 if fortran else 1)
    layout = Layout(shape[axis_order], dtype.itemsize, begin)
    if layout.end > size:
        raise InvalidInputError(
            f"the file is cut short: its data ends at byte {layout.end}, and the file has {size} bytes"
        )
    cut = split_contiguous(layout.shape, dtype.itemsize)
    chunks, tails = contiguous_chunks(layout, cut)

    def read(offset: int, length: int) -> bytes:
        file.seek(offset)
        return file.read(length)

    fill = unwritten(dtype)
    inline_chunks = padded_tails(tails, math.prod(cut) * dtype.itemsize, np.array([fill], dtype).tobytes(), read)
    codecs: tuple[Mapping[str, Json], ...] = (bytes_codec(dtype),)
    if fortran and len(shape) > 1:
        order: list[Json] = list(reversed(range(len(shape))))
        codecs = ({"name": "transpose", "configuration": {"order": order}}, *codecs)
    return ScannedArray(
        path,
        shape,
        dtype,
        cut[axis_order],
        codecs,
        fill,
        attributes or {},
        dimension_names,
        chunks._replace(coordinates=np.ascontiguousarray(chunks.coordinates[:, axis_order])),
        tuple([(coordinates[axis_order], value) for coordinates, value in inline_chunks]),
    )
