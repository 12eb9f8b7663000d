"""NetCDF classic files (CDF-1, CDF-2, CDF-5), scanned: each variable as an array of Zarr, and the positions of its chunks. header.py parses the header."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import BinaryIO, Final

import numpy as np

from frazil.errors import FormatError, FrazilError, InvalidInputError, StoreError
from frazil.integrations.files.contiguous import Layout, contiguous_chunks, padded_tails, split_contiguous
from frazil.integrations.files.missing_values import default_fill, set_missing_values
from frazil.integrations.files.netcdf.header import STREAMING, TYPES, Attribute, Header, Variable, parse_header
from frazil.integrations.files.scanned import (
    ScannedArray,
    ScannedFile,
    Skipped,
    as_attribute,
    bytes_codec,
    check_shape,
)
from frazil.integrations.files.sources.source import state_of
from frazil.metadata.json_text import Json
from frazil.metadata.paths import check_name

_PADDED: Final = 4  # the data of a variable, and of each record of one of several, begins at a multiple of it
_HEADER_BYTES: Final = (2**18, 2**23, 2**28)  # to read at first, and if the header is longer


def scan_netcdf_classic(file: BinaryIO, name: str) -> ScannedFile:
    """All variables of a file that is open for reading; `name` is for messages. Its data is read only if an array cannot be cut into whole chunks.

    Raises FormatError for an invalid header, StoreError when the file cannot be read."""
    state = state_of(file)
    header = _read_header(file, state.size, name)
    skipped: list[Skipped] = []
    arrays: list[ScannedArray] = []
    layouts = layouts_of(header, state.size)
    overlapping = _overlapping(header.end, layouts)
    for number, (variable, layout) in enumerate(zip(header.variables, layouts, strict=True)):
        try:
            _check(variable, layout, state.size)
            if number in overlapping:
                raise InvalidInputError("its data overlaps that of another variable, or the header")
            arrays.append(_scanned(header, variable, layout, file, skipped))
        except InvalidInputError as error:
            skipped.append(Skipped(variable.name, None, error.message))
    root = _attributes(header.attributes, "", skipped)
    kind = f"NetCDF classic (CDF-{header.version})"
    return ScannedFile(kind, state, {"": root}, tuple(arrays), tuple(skipped))


def _read_header(file: BinaryIO, size: int, name: str) -> Header:
    """The header; reads more of the file if the bytes read so far do not contain all of it."""
    for limit in _HEADER_BYTES[:-1]:
        if limit < size:
            with contextlib.suppress(FormatError):
                return parse_header(_read(file, 0, limit, name), name)
    return parse_header(_read(file, 0, min(_HEADER_BYTES[-1], size), name), name)


def _read(file: BinaryIO, offset: int, length: int, name: str) -> bytes:
    try:
        file.seek(offset)
        data = file.read(length)
    except FrazilError:
        raise
    except OSError as error:
        raise StoreError(f"the file cannot be read: {error.strerror}", errno=error.errno, key=name) from error
    if len(data) != length:
        raise StoreError("the file became shorter while it was read", key=name)
    return data


def layouts_of(header: Header, size: int) -> list[Layout]:
    """The position of each variable, in a file of `size` bytes.

    The records of all record variables alternate: a record of one, padded to 4 bytes, then one of the next. A single record variable has no padding."""
    layouts = [_layout(header, variable) for variable in header.variables]
    of_records = [layout for layout in layouts if layout.stride is not None]
    if not of_records:
        return layouts
    stride = of_records[0].row if len(of_records) == 1 else sum(layout.row + -layout.row % 4 for layout in of_records)
    records = header.records
    if records == STREAMING:
        begin = min(layout.begin for layout in of_records)
        records = max(size - begin, 0) // stride if stride else 0
    placed = []
    for layout in layouts:
        if layout.stride is None:
            placed.append(layout)
        else:  # a run, without gaps between the records
            shape = (records, *layout.shape[1:])
            placed.append(Layout(shape, layout.itemsize, layout.begin, None if stride == layout.row else stride))
    return placed


def _layout(header: Header, variable: Variable) -> Layout:
    """The layout without records; stride is 0 for a record variable."""
    lengths = [header.dimensions[number].length for number in variable.dimensions]
    records = bool(lengths) and lengths[0] == 0
    return Layout(tuple(lengths), np.dtype(TYPES[variable.type]).itemsize, variable.begin, 0 if records else None)


def _overlapping(header_end: int, layouts: Sequence[Layout]) -> set[int]:
    """The numbers of variables whose data has bytes in common with the header or with another variable. One of two is damaged, and nothing says which."""
    data: list[tuple[int, int, int]] = [(0, header_end, -1)]  # first byte, end, number of the variable
    of_records = [layout for layout in layouts if layout.stride is not None and layout.size]
    if of_records:  # one record is like the next
        begin = min(layout.begin for layout in of_records)
        data.append((begin + (of_records[0].stride or 0), max(layout.end for layout in of_records), -1))
    for number, layout in enumerate(layouts):
        size = layout.size if layout.stride is None else layout.row
        if layout.size:
            data.append((layout.begin, layout.begin + size + -size % _PADDED, number))
    found: set[int] = set()
    last, owner = 0, -1
    for first, end, number in sorted(data):
        if first < last:
            found |= {number, owner}
        if end > last:
            last, owner = end, number
    return found


def _check(variable: Variable, layout: Layout, size: int) -> None:
    """Raises InvalidInputError for a variable that cannot be an array of Zarr, and for one that is not whole in a file of `size` bytes."""
    check_name(variable.name)
    check_shape(layout.shape)
    if layout.size and layout.end > size:
        raise InvalidInputError(
            f"the file is cut short: its data ends at byte {layout.end}, and the file has {size} bytes"
        )


def _scanned(
    header: Header, variable: Variable, layout: Layout, file: BinaryIO, skipped: list[Skipped]
) -> ScannedArray:
    dtype = np.dtype(TYPES[variable.type])
    inner_shape = layout.shape if layout.stride is None else layout.shape[1:]
    chunk_shape = split_contiguous(inner_shape, layout.itemsize, uneven=layout.stride is None)
    if layout.stride is not None:
        chunk_shape = (1, *chunk_shape)
    chunks, tails = contiguous_chunks(layout, chunk_shape)
    declared_fill = next((values for name, _, values in variable.attributes if name == "_FillValue"), None)
    others = [attribute for attribute in variable.attributes if attribute.name != "_FillValue"]
    attributes = _attributes(others, variable.name, skipped)
    fill = set_missing_values(attributes, declared_fill, dtype, variable.name, skipped)
    if fill is None:
        fill = default_fill(dtype)
    inline_chunks = padded_tails(
        tails,
        math.prod(chunk_shape) * layout.itemsize,
        np.array([fill], dtype).tobytes(),
        lambda offset, length: _read(file, offset, length, variable.name),
    )
    names = tuple([header.dimensions[number].name for number in variable.dimensions])
    return ScannedArray(
        variable.name,
        layout.shape,
        dtype,
        chunk_shape,
        (bytes_codec(dtype),),
        fill,
        attributes,
        names,
        chunks,
        inline_chunks,
    )


def _attributes(attributes: Sequence[Attribute], path: str, skipped: list[Skipped]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name, _, values in attributes:
        try:
            found[name] = as_attribute(values)
        except InvalidInputError as error:
            skipped.append(Skipped(path, name, error.message))
    return found
