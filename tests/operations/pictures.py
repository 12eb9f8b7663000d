"""Checks of pictures: a PNG decoder (8 bits a sample, checksums checked; not fast), and the position of a text or another picture in one."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from frazil.operations.view.canvas import Pixels, blank, write
from frazil.operations.view.text import Coverage


def decode_png(data: bytes) -> NDArray[np.uint8]:
    """uint8[height, width, samples]; AssertionError for a file that breaks the rules."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, []
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length) == (zlib.crc32(name + body),)
        chunks.append((name, body))
        at += 12 + length
    assert chunks[0][0] == b"IHDR"
    assert chunks[-1] == (b"IEND", b"")
    width, height, depth, kind, compression, filters, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
    assert (depth, compression, filters, interlace) == (8, 0, 0, 0)
    samples = {0: 1, 2: 3, 6: 4}[kind]
    raw = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    lines = np.frombuffer(raw, np.uint8).reshape(height, 1 + width * samples)
    pixels = np.zeros((height, width, samples), np.uint8)
    above = np.zeros((width, samples), np.uint8)
    for row, line in enumerate(lines):
        above = pixels[row] = _unfiltered(int(line[0]), line[1:].reshape(width, samples), above)
    return pixels


def _unfiltered(kind: int, line: NDArray[np.uint8], above: NDArray[np.uint8]) -> NDArray[np.uint8]:
    assert kind in (0, 1, 2), f"filter {kind} is not decoded here"
    if kind == 1:
        return np.cumsum(line, axis=0, dtype=np.uint8)
    return line + above if kind == 2 else line


def places(canvas: Pixels, part: Pixels) -> list[tuple[int, int]]:
    """The position of the top left corner of a part on a canvas."""
    height, width = part.shape[:2]
    rows, columns = len(canvas) - height + 1, canvas.shape[1] - width + 1
    corner = part[0, 0, :3]
    starts = (canvas[:rows, :columns, :3] == corner).all(axis=2)
    for y, x in np.argwhere((part[..., :3] != corner).any(axis=2))[
        :8
    ].tolist():  # the background alone is found everywhere
        starts &= (canvas[y : y + rows, x : x + columns, :3] == part[y, x, :3]).all(axis=2)
    return [
        (y, x)
        for y, x in np.argwhere(starts).tolist()
        if (canvas[y : y + height, x : x + width, :3] == part[..., :3]).all()
    ]


def written(text: Coverage) -> Pixels:
    canvas = blank(*text.shape, 3)
    write(canvas, text, 0, 0)
    return canvas
