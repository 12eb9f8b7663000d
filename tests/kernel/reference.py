"""A slow NumPy reference of the kernel's chunk operations, for the differential tests.

Codecs come from other libraries (Python's gzip and zlib, numcodecs), so these tests check interoperability too."""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numcodecs
import numpy as np
from numpy.typing import NDArray

Codec = tuple[Any, ...]
Run = tuple[int, int, int, int]  # start, count, step, at
Box = Sequence[Sequence[Run]]  # the runs along each dimension


class Recipe(NamedTuple):
    """The arguments of `program`."""

    shape: tuple[int, ...]
    itemsize: int
    order: tuple[int, ...]
    swaps: tuple[tuple[int, int, int], ...]
    codecs: tuple[Codec, ...]
    fill: bytes

    @property
    def dtype(self) -> np.dtype[np.void]:
        return np.dtype(f"V{self.itemsize}")


def crc32c(data: bytes) -> bytes:
    value = 0xFFFFFFFF
    for byte in data:
        value = TABLE[(value ^ byte) & 255] ^ value >> 8
    return (value ^ 0xFFFFFFFF).to_bytes(4, "little")


def _table_entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


TABLE = [_table_entry(value) for value in range(256)]


def encode_with(codec: Codec, data: bytes) -> bytes:
    match codec:
        case ("gzip", level):
            return gzip.compress(data, level)
        case ("zlib", level):
            return zlib.compress(data, level)
        case ("zstd", level, checksum):
            return bytes(numcodecs.Zstd(level, checksum).encode(data))
        case ("lz4", acceleration):
            return bytes(numcodecs.LZ4(acceleration).encode(data))
        case ("blosc", name, level, shuffle, typesize, blocksize):
            return bytes(numcodecs.Blosc(name, level, shuffle, blocksize, typesize=typesize).encode(data))
        case ("crc32c",):
            return data + crc32c(data)
        case ("fletcher32",):
            return bytes(numcodecs.Fletcher32().encode(data))
        case ("shuffle", size):
            whole = len(data) // size * size
            return np.frombuffer(data[:whole], np.uint8).reshape(-1, size).T.tobytes() + data[whole:]
    raise AssertionError(codec)


def decode_with(codec: Codec, data: bytes) -> bytes:
    match codec:
        case ("gzip", _):
            return gzip.decompress(data)
        case ("zlib", _):
            return zlib.decompress(data)
        case ("zstd", *_):
            return bytes(numcodecs.Zstd().decode(data))
        case ("lz4", _):
            return bytes(numcodecs.LZ4().decode(data))
        case ("blosc", *_):
            return bytes(numcodecs.Blosc().decode(data))
        case ("crc32c",):
            assert crc32c(data[:-4]) == data[-4:]
            return data[:-4]
        case ("fletcher32",):
            return bytes(numcodecs.Fletcher32().decode(data))
        case ("shuffle", size):
            whole = len(data) // size * size
            return np.frombuffer(data[:whole], np.uint8).reshape(size, -1).T.tobytes() + data[whole:]
    raise AssertionError(codec)


def swapped(recipe: Recipe, items: NDArray[Any]) -> NDArray[Any]:
    raw = np.frombuffer(items.tobytes(), np.uint8).reshape(-1, recipe.itemsize).copy()
    for offset, width, count in recipe.swaps:
        for at in range(offset, offset + width * count, width):
            raw[:, at : at + width] = raw[:, at : at + width][:, ::-1].copy()
    return raw.reshape(-1).view(recipe.dtype).reshape(items.shape)


def encode_chunk(recipe: Recipe, chunk: NDArray[Any]) -> bytes:
    data = swapped(recipe, chunk.transpose(recipe.order)).tobytes()
    for codec in recipe.codecs:
        data = encode_with(codec, data)
    return data


def decode_chunk(recipe: Recipe, data: bytes) -> NDArray[Any]:
    for codec in reversed(recipe.codecs):
        data = decode_with(codec, data)
    stored = np.frombuffer(data, recipe.dtype).reshape([recipe.shape[i] for i in recipe.order])
    return swapped(recipe, stored.transpose(np.argsort(recipe.order).tolist() if recipe.order else ()))


def filled(recipe: Recipe) -> NDArray[Any]:
    return np.frombuffer(recipe.fill * int(np.prod(recipe.shape)), recipe.dtype).reshape(recipe.shape).copy()


def elements(box: Box) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(place in the chunk, place in the array) of every element, in order: if several have one place, the last wins."""
    along = [[(start + i * step, at + i) for start, count, step, at in runs for i in range(count)] for runs in box]
    return [(tuple(a for a, _ in pairs), tuple(b for _, b in pairs)) for pairs in itertools.product(*along)]


def decode_chunks(recipe: Recipe, encoded: Sequence[bytes | None], boxes: Sequence[Box], out: NDArray[Any]) -> None:
    for data, box in zip(encoded, boxes, strict=True):
        chunk = filled(recipe) if data is None else decode_chunk(recipe, data)
        for place, at in elements(box):
            out[at] = chunk[place]


def gather_chunks(
    recipe: Recipe, source: NDArray[Any], boxes: Sequence[Box], old: Sequence[bytes | None]
) -> list[NDArray[Any]]:
    """The chunks for encode_chunks."""
    chunks = []
    for box, data in zip(boxes, old, strict=True):
        chunk = filled(recipe) if data is None else decode_chunk(recipe, data).copy()
        for place, at in elements(box):
            chunk[place] = source[at]
        chunks.append(chunk)
    return chunks
