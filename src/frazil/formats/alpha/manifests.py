"""Converts manifest files and columns (Icechunk alpha, Chunk Manifest Files). The kernel reads and writes the bytes (rust/src/repository/manifest.rs).

The columns, and the look-up in them, are in formats/manifests.py. No files are fetched here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from frazil import _kernel
from frazil.errors import FormatError, InvalidInputError
from frazil.formats.alpha.manifest_flags import read_flags, write_flags
from frazil.formats.alpha.snapshots import check_format
from frazil.formats.manifests import COLUMN_TYPES, Manifest, columns_of, from_kernel
from frazil.formats.msgpack import RESTORE

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
        raise FormatError(f"{text}, at byte {position}", key=key, hint=RESTORE)
    flags, checks = read_flags(bytes(memoryview(columns[0])), key)
    return from_kernel(flags, columns[1:], checks)


def encode_manifest(manifest: Manifest) -> _kernel.Segment:
    """The file of a manifest: shortest forms, sorted by node and coordinates; of rows with one key only the last.

    Raises InvalidInputError for inconsistent columns, and for those that the format cannot hold (node ids and coordinates are below 2**32)."""
    columns: list[Buffer] = [write_flags(manifest.flags, manifest.checks)]
    for (name, dtype), column in zip(COLUMN_TYPES.items(), columns_of(manifest), strict=True):
        if column.dtype != dtype or column.ndim != (2 if name == "ids" else 1):
            raise InvalidInputError(f"a manifest's {name} are {dtype.name}, not {column.dtype} of shape {column.shape}")
        columns.append(np.ascontiguousarray(column))
    try:
        return _kernel.encode_manifest(columns)
    except ValueError as error:
        raise InvalidInputError(f"a manifest cannot be written: {error}") from error
