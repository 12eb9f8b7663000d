"""Converts manifest files and columns (Icechunk alpha, Chunk Manifest Files). The kernel reads and writes the bytes (rust/src/repository/manifest.rs).

The columns, and the look-up in them, are in formats/manifests.py. No files are fetched here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from frazil import _kernel
from frazil.errors import FormatError, InvalidInputError
from frazil.formats.alpha.manifest_flags import read_flags, write_flags
from frazil.formats.alpha.snapshots import check_format
from frazil.formats.ids import ID_BYTES
from frazil.formats.manifests import Manifest, columns_of, order_manifest

if TYPE_CHECKING:
    from frazil._kernel import Buffer

    FileBytes = bytes | bytearray | memoryview | _kernel.Segment

_START: Final = 64  # bytes, more than needed to recognise the format of a file


def decode_manifest(data: FileBytes, key: str | None = None) -> Manifest:
    """The manifest in a file, in read-only columns. Structs may be maps by name, numbers wider than necessary, references in any order; of duplicate keys the
    last is used.

    Raises FormatError, with `key` and the position, for anything else that violates the format, and for another version of the format."""
    check_format(bytes(memoryview(data)[:_START]), key)
    columns, failures = _kernel.decode_manifest(data)
    for position, _, text in failures:
        raise FormatError(f"{text}, at byte {position}", key=key)
    flags, *columns_left = [memoryview(column) for column in columns]
    arrays = {
        name: np.frombuffer(column, dtype) for (name, dtype), column in zip(_TYPES.items(), columns_left, strict=True)
    }
    arrays["ids"] = arrays["ids"].reshape(-1, ID_BYTES)
    flags_read, checks = read_flags(bytes(flags), key)
    return Manifest._make((flags_read, *arrays.values(), checks))


def frozen_copy(manifest: Manifest) -> Manifest | None:
    """A read-only copy, as from decode_manifest; None if rows are not sorted."""
    if order_manifest(manifest) is not manifest:
        return None
    copies = [column.copy() for column in columns_of(manifest)]
    for column in copies:
        column.flags.writeable = False
    return Manifest._make((manifest.flags, *copies, manifest.checks))


def encode_manifest(manifest: Manifest) -> _kernel.Segment:
    """The file of a manifest: shortest forms, sorted by node and coordinates; of rows with one key only the last.

    Raises InvalidInputError for inconsistent columns, and for those that the format cannot hold (node ids and coordinates are below 2**32)."""
    columns: list[Buffer] = [write_flags(manifest.flags, manifest.checks)]
    for (name, dtype), column in zip(_TYPES.items(), columns_of(manifest), strict=True):
        if column.dtype != dtype or column.ndim != (2 if name == "ids" else 1):
            raise InvalidInputError(f"a manifest's {name} are {dtype.name}, not {column.dtype} of shape {column.shape}")
        columns.append(np.ascontiguousarray(column))
    try:
        return _kernel.encode_manifest(columns)
    except ValueError as error:
        raise InvalidInputError(f"a manifest cannot be written: {error}") from error


_TYPES: Final[dict[str, np.dtype[np.generic]]] = {
    "nodes": np.dtype(np.uint32),
    "starts": np.dtype(np.int64),
    "coordinates": np.dtype(np.int64),
    "kinds": np.dtype(np.uint8),
    "ids": np.dtype(np.uint8),
    "offsets": np.dtype(np.int64),
    "lengths": np.dtype(np.int64),
    "inline": np.dtype(np.uint8),
    "locations": np.dtype(np.int32),
    "location_text": np.dtype(np.uint8),
    "location_starts": np.dtype(np.int64),
}
