"""The ids of new chunk files: random, and in repositories with digests ending in the CRC-32C of the bytes of the file (docs/design/077-digests.md)."""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Octets
from frazil.formats.ids import CRC_BYTES, ID_BYTES
from frazil.stores.transfer.content import read_error
from frazil.stores.values import Pieces

_PART: Final = 2**24  # bytes that are read at once


def new_chunk_ids(pieces: Pieces, *, digests: bool) -> Octets:
    """uint8[n, 12]: an id for each of n values. digests: whether ids end in digests of the values. Raises StoreError for a piece that cannot be read."""
    count = len(pieces.offsets) - 1
    ids = np.frombuffer(os.urandom(ID_BYTES * count), np.uint8).reshape(count, ID_BYTES)
    if digests:
        ids = ids.copy()
        sums = np.array([_crc_of(pieces, number) for number in range(count)], ">u4")
        ids[:, ID_BYTES - CRC_BYTES :] = sums.view(np.uint8).reshape(count, CRC_BYTES)
    return ids


def _crc_of(pieces: Pieces, number: int) -> int:
    """The CRC-32C of one value, which is read in parts."""
    files, buffers = pieces.sources
    total = 0
    for source, start, length in pieces.rows[pieces.offsets[number] : pieces.offsets[number + 1]].tolist():
        for at in range(0, length, _PART):
            part = np.empty(min(_PART, length - at), np.uint8)
            row = np.array([[source, start + at, part.size]], np.int64)
            for _, code, text in _kernel.read_rows(files, buffers, row, part, np.array([0, part.size]), 1):
                raise read_error(code, text, None)
            total = _kernel.crc32c(part, total)
    return total
