"""The meaning of `"auto"`: chunk shapes and codecs if the user gives none. Chosen by measurements, see docs/design/004-defaults.md."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from frazil.base.arrays import Dtype
from frazil.codecs.bytes_to_bytes.blosc import Blosc
from frazil.codecs.bytes_to_bytes.zstd import Zstd
from frazil.codecs.codec import Codec

CHUNK_BYTES = 2**20  # about 1 ms to decode
SHARD_BYTES = 2**26
_INTEGERS = "iuMm"  # NumPy's kinds of integers, with datetimes and timedeltas


def default_codecs(dtype: Dtype) -> tuple[Codec, ...]:
    """The compressor for elements of this type."""
    if dtype.itemsize == 1:
        return (Zstd(level=3),)
    if dtype.kind in _INTEGERS:
        return (Blosc("lz4", 5, "shuffle"),)
    return (Zstd(level=2),)


def draft_codecs(dtype: Dtype) -> tuple[Codec, ...]:
    """The same from the codecs of the 2022 draft, which has zstd only inside blosc."""
    integers = dtype.kind in _INTEGERS
    return (Blosc("lz4" if integers and dtype.itemsize > 1 else "zstd", 5 if integers else 2, None),)


def default_chunks(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """A chunk of at most about CHUNK_BYTES, as near to a cube as the array allows."""
    chunks = [max(extent, 1) for extent in shape]
    limit = max(CHUNK_BYTES // max(itemsize, 1), 1)
    while prod(chunks) > limit:
        axis = max(range(len(chunks)), key=chunks.__getitem__)
        chunks[axis] = -(-chunks[axis] // 2)
    return tuple(chunks)


def default_shards(shape: Sequence[int], chunks: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """A shard of at most about SHARD_BYTES: doubled along its shortest dimension while the array is longer."""
    shards = list(chunks)
    limit = max(SHARD_BYTES // max(itemsize, 1), 1)
    while True:
        axes = [axis for axis, extent in enumerate(shards) if extent < shape[axis]]
        if not axes or prod(shards) * 2 > limit:
            return tuple(shards)
        shards[min(axes, key=shards.__getitem__)] *= 2
