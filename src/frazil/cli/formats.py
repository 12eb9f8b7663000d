"""Elements as text: abbreviated as NumPy does, CSV, JSON, and .npy. All but JSON and full text are written piece by piece."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from math import prod
from typing import IO, Final

from frazil.cli.elements import as_text, cells, columns, encoded, json_values
from frazil.errors import InvalidInputError
from frazil.operations.npy_file import write_npy
from frazil.operations.window import Window

Report = Callable[[int], None]

LINE_WIDTH: Final = 120
MOST_TEXT: Final = 10**7  # elements that are turned into one text
PIECE_BYTES: Final = 2**25
_SHOWN_WHOLE: Final = 1000  # elements; NumPy's own limits
_EDGE: Final = 3
_CELLS: Final = 2**15  # elements that are turned into text at once


def abbreviated(window: Window) -> str:
    """The text that NumPy prints. Of many elements only those in the text are read."""
    if prod(window.shape) > _SHOWN_WHOLE:
        for axis, length in enumerate(window.shape):
            if length > 2 * _EDGE + 1:  # one more than is shown, so that NumPy prints its dots there
                ends = (*range(_EDGE + 1), *range(length - _EDGE, length))
                window = window.pick(axis, ends)
        return as_text(window.read(), threshold=0, edgeitems=_EDGE, max_line_width=LINE_WIDTH)
    return as_text(window.read(), max_line_width=LINE_WIDTH, threshold=_SHOWN_WHOLE)


def write_text(window: Window, stream: IO[bytes], report: Report) -> None:
    """All elements as NumPy prints them. Raises InvalidInputError for more than MOST_TEXT."""
    _refuse_many(window, "as one text")
    text = as_text(window.read(), threshold=MOST_TEXT + 1, max_line_width=LINE_WIDTH)
    report(window.nbytes)
    stream.write(f"{text}\n".encode())


def write_csv(window: Window, stream: IO[bytes], report: Report) -> None:
    """A line for each element of one dimension, for each row of two. Structs have a column for each field, and their names in the first line.
    Raises InvalidInputError for more dimensions, or structs in more than one."""
    names = [] if window.dtype.names is None else columns(window.dtype)
    if len(window.shape) > (1 if names else 2):
        raise InvalidInputError(
            f"CSV has at most {'one dimension of structs' if names else 'two dimensions'}, the selection has shape {window.shape}",
            path=window.array.path or "/",
            hint="give integers for the others, or choose --format npy",
        )
    width = len(names) or (window.shape[1] if len(window.shape) == 2 else 1)
    column = 0
    if names:
        stream.write(encoded(",".join(names) + "\n"))
    for piece in window.pieces(PIECE_BYTES):
        values = piece.read().reshape(-1)
        for start in range(0, len(values), _CELLS):
            part = cells(values[start : start + _CELLS])
            stream.write(encoded("".join(_lines(part, column, width))))
            column = (column + len(part)) % width
        report(piece.nbytes)


def _lines(cells: list[str], column: int, width: int) -> Iterator[str]:
    """Cells with their separators; the first one is in this column."""
    if width == 1:
        yield "\n".join(cells) + "\n"
        return
    start = 0
    while start < len(cells):
        stop = min(len(cells), start + width - column)
        column += stop - start
        yield ",".join(cells[start:stop])
        yield "\n" if column == width else ","
        column, start = column % width, stop


def write_json(window: Window, stream: IO[bytes], report: Report) -> None:
    """{"shape", "data_type", "values"}: nested lists, as json_values gives them. Numbers that JSON lacks are the strings of Zarr's fill values ("NaN",
    "Infinity"), complex ones [real, imaginary], raw bytes a list of them. Raises InvalidInputError for more than MOST_TEXT."""
    _refuse_many(window, "as JSON")
    document = {
        "shape": list(window.shape),
        "data_type": window.array.metadata.data_type.label if window.source is None else str(window.dtype),
        "values": json_values(window.read()),
    }
    report(window.nbytes)
    stream.write(json.dumps(document, allow_nan=False).encode() + b"\n")


WRITERS: Final[dict[str, Callable[[Window, IO[bytes], Report], None]]] = {
    "text": write_text,
    "csv": write_csv,
    "json": write_json,
    "npy": write_npy,
}


def _refuse_many(window: Window, form: str) -> None:
    if prod(window.shape) > MOST_TEXT:
        raise InvalidInputError(
            f"{prod(window.shape):,} elements are too many {form}",
            path=window.array.path or "/",
            hint=f"at most {MOST_TEXT}; choose --format csv or npy, or select fewer",
        )
