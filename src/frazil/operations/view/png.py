"""Encodes pixels as a PNG file (PNG specification, third edition): 8 bits per sample, no interlace. picture.py makes the pixels."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from frazil.base.arrays import Octets
from frazil.errors import InvalidInputError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}  # samples per pixel: grey, RGB, RGBA
_STRIP_BYTES = 2**22


def encode_png(pixels: Octets) -> bytes:
    """The bytes of a file. pixels: uint8[height, width, 1 | 3 | 4] (grey, RGB, RGBA), the first row at the top. Raises InvalidInputError for another shape."""
    if pixels.ndim != 3 or pixels.shape[2] not in _COLOUR_TYPES or not pixels.size or pixels.dtype != np.uint8:
        raise InvalidInputError(
            f"a picture is uint8 of shape (height, width, 1, 3 or 4), not {pixels.dtype} {pixels.shape}"
        )
    height, width, samples = pixels.shape
    rows = np.ascontiguousarray(pixels).reshape(height, width * samples)
    packer = zlib.compressobj(9)
    data = bytearray()
    strip = max(1, _STRIP_BYTES // rows.shape[1])
    for top in range(0, height, strip):
        above = rows[top - 1] if top else np.zeros_like(rows[0])
        data += packer.compress(_filtered(rows[top : top + strip], above, samples).tobytes())
    data += packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[samples], 0, 0, 0)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", bytes(data)) + _chunk(b"IEND", b"")


def _filtered(rows: Octets, above: Octets, samples: int) -> Octets:
    """Each row with the filter before it (0 none, 1 left, 2 above) that makes its bytes smallest, as the specification advises."""
    left = rows.copy()
    left[:, samples:] -= rows[:, :-samples]
    up = rows - np.concatenate((above[None], rows[:-1]))
    tried = np.stack((rows, left, up))
    sizes = np.abs(tried.view(np.int8), dtype=np.int16).sum(axis=2, dtype=np.int64)
    best = sizes.argmin(axis=0)
    chosen = tried[best, np.arange(len(rows))]
    return np.concatenate((best.astype(np.uint8)[:, None], chosen), axis=1)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(name)))
