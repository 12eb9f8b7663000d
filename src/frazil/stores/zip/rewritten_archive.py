"""A zip archive without unused parts: its entries in a new file, one after the other, and a new directory."""

from __future__ import annotations

from typing import Final

import numpy as np

from frazil.base.arrays import offsets_of
from frazil.stores.values import Columns
from frazil.stores.zip.archive_file import ArchiveFile
from frazil.stores.zip.directory import Directory, find_end, parse_directory
from frazil.stores.zip.headers import CENTRAL, FIXED, end_records, extra_lengths

_DESCRIPTOR: Final = 0x8  # numbers follow the data: 12 to 24 bytes
_LONGEST: Final = 24


def rewrite_archive(file: ArchiveFile, tail: bytes, start: int) -> None:
    """Replaces an archive that is whole. tail: all bytes from its directory on, which begins at `start`. Raises StoreError; then the archive is unchanged."""
    end = find_end(tail, start + len(tail))
    assert end is not None, "the archive is whole"
    directory = parse_directory(tail[: end.length], end)
    order = np.argsort(directory.header)
    header = directory.header[order]
    heads = np.frombuffer(b"".join(file.heads(header.tolist())), np.uint8).reshape(-1, FIXED)
    last = header + FIXED + (directory.name + directory.stored)[order] + extra_lengths(heads)
    last = np.where(directory.flags[order] & _DESCRIPTOR, np.minimum(last + _LONGEST, directory.bound[order]), last)
    spans = np.stack((header, last - header), axis=1)
    file.rewrite([(a, n) for a, n in spans.tolist()], _moved(directory, order, spans[:, 1]))


def _moved(directory: Directory, order: Columns, lengths: Columns) -> bytes:
    """The directory of the entries, in this order, one after the other."""
    offsets = offsets_of(lengths).tolist()
    records: list[bytes] = []
    for row, offset in zip(order.tolist(), offsets[:-1], strict=True):
        first, last, at = directory.record[row].tolist()
        record, at = bytearray(directory.raw[first:last]), at - first
        width = 4 if at < CENTRAL.size else 8
        record[at : at + width] = offset.to_bytes(width, "little")
        records.append(bytes(record))
    raw = b"".join(records)
    return raw + end_records(offsets[-1], len(raw), len(records))
