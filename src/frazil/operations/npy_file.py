"""Writes elements as a file of NumPy's format .npy, piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import IO

import numpy as np

from frazil.errors import InvalidInputError
from frazil.operations.window import Window


def write_npy(window: Window, stream: IO[bytes], report: Callable[[int], object], piece_bytes: int = 2**25) -> None:
    """Writes NumPy's format, in C order: version 1.0, or a later one if the names of fields need it.

    report: called with the bytes of elements written since the last call;  piece_bytes: read at once
    Raises InvalidInputError for a data type that the format does not have."""
    stream.write(npy_header(window.dtype, window.shape, window.array.path))
    for piece in window.pieces(piece_bytes):
        values = np.ascontiguousarray(piece.read())
        stream.write(values.reshape(-1).view(np.uint8).data)
        report(piece.nbytes)


def npy_header(dtype: np.dtype[np.generic], shape: tuple[int, ...], path: str) -> bytes:
    """The bytes before the elements. path: of the array, for the error. Raises InvalidInputError for a data type that the format does not have."""
    if not _is_numpys(dtype):
        raise InvalidInputError(
            f"a .npy file cannot hold the data type {dtype}",
            path=path or "/",
            hint="leave it out, or choose another format",
        )
    header: dict[str, object] = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    return _emitted(header)


def _is_numpys(dtype: np.dtype[np.generic]) -> bool:
    """Whether readers need neither pickles nor a package for these elements, or for the fields of a struct."""
    fields = [field[0] for field in (dtype.fields or {}).values()]
    return dtype.kind not in "OT" and dtype.isbuiltin != 2 and all(map(_is_numpys, fields))


def _emitted(header: dict[str, object]) -> bytes:
    buffer = BytesIO()
    for write in (np.lib.format.write_array_header_1_0, np.lib.format.write_array_header_2_0):
        try:
            write(buffer, header)
        except ValueError:  # too long, or names outside Latin-1
            buffer = BytesIO()
        else:
            return buffer.getvalue()
    text = repr(header).encode()
    text += b" " * (-(len(text) + 13) % 64) + b"\n"
    return np.lib.format.magic(3, 0) + len(text).to_bytes(4, "little") + text
