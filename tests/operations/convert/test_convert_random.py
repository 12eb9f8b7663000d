"""Random hierarchies, converted through the dialects in any order, in place and elsewhere: the result equals the source, or the source was refused and left
unchanged."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from tests.operations.archives import assert_same
from tests.operations.hierarchies import content, copy_of

import frazil
from frazil.codecs import Blosc, Bytes, Crc32c, Gzip, ShardingIndexed, Transpose, Zlib, Zstd
from frazil.errors import ConversionError
from frazil.stores import MemoryStore, Store

TYPES = [
    *("u1", "<i2", ">i4", "<u8", "f2", ">f4", "<f8", "c8", ">c16", "bool", "S5", "<U3", ">U2", "M8[ns]", "m8[D]", "V3"),
    [("a", "<i4"), ("b", "S3")],
    [("a", "<f8"), ("b", ">i2")],
]
TAILS = [[], [], [Gzip(1)], [Zstd(1)], [Blosc("lz4", 5, "shuffle")], [Zlib(2)], [Gzip(1), Crc32c()]]
INDEXES = [None, [Bytes("little")], [Bytes("big"), Crc32c()]]


def values_of(rng: random.Random, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> np.ndarray:
    count = math.prod(shape)
    if dtype.kind in "USb":
        words = {"U": ["a", "üb", ""], "S": [b"a", b"xyz", b""], "b": [True, False]}[dtype.kind]
        return np.array([rng.choice(words) for _ in range(count)], dtype).reshape(shape)
    if dtype.names:
        found = np.zeros(shape, dtype)
        found["a"] = rng.randrange(1000)
        return found
    return np.frombuffer(bytearray(rng.randbytes(count * dtype.itemsize)), dtype).reshape(shape)


def add_array(rng: random.Random, root: frazil.Group, name: str) -> None:
    ndim = rng.randint(0, 3)
    shape = tuple(rng.randint(0, 9) for _ in range(ndim))
    chunks = tuple(rng.randint(1, 4) for _ in range(ndim))
    codecs: list[object] = [Bytes(rng.choice(["little", "big"])), *rng.choice(TAILS)]
    if ndim > 1 and rng.random() < 0.3:
        order = rng.sample(range(ndim), ndim) if rng.random() < 0.4 else list(reversed(range(ndim)))
        codecs.insert(0, Transpose(order))
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        index, location = rng.choice(INDEXES), rng.choice(["start", "end"])
        codecs = [ShardingIndexed(chunks, codecs, index, location)]  # type: ignore[arg-type]
        chunks = tuple(length * rng.randint(1, 3) for length in chunks)
    keys = {"name": rng.choice(["default", "v2"]), "configuration": {"separator": rng.choice("/.")}}
    dtype = np.dtype(rng.choice(TYPES))  # type: ignore[call-overload]
    path = rng.choice(["", "x/", "y/z/"]) + name
    array = root.create_array(path, shape=shape, dtype=dtype, chunks=chunks, codecs=codecs, chunk_key_encoding=keys)
    box = tuple(slice(rng.randint(0, length // 2), None) for length in shape)
    if rng.random() < 0.8:
        array[box] = values_of(rng, dtype, shape)[box]


def convert(rng: random.Random, store: Store, zarr_format: int | str) -> Store | None:
    """None if it was refused."""
    before, in_place = content(store), rng.random() < 0.5
    source, to = (copy_of(store), None) if in_place else (store, MemoryStore())
    try:
        frazil.convert(source, to, zarr_format=zarr_format, recode=rng.random() < 0.5)
    except ConversionError:
        assert content(source) == before
        assert to is None or content(to) == {}
        return None
    assert in_place or content(store) == before
    return source if to is None else to


@pytest.mark.parametrize("seed", range(20))
def test_random_chains_of_conversions_keep_values(seed: int) -> None:
    rng = random.Random(seed)
    store: Store = MemoryStore()
    root = frazil.create_group(store, attributes={"seed": seed})
    for i in range(rng.randint(1, 4)):
        add_array(rng, root, f"a{i}")
    original, arrived = copy_of(store), 0
    for _ in range(5):
        zarr_format = rng.choice([3, "draft", "draft-2021"])
        found = convert(rng, store, zarr_format)
        if found is not None:
            assert frazil.open(found).metadata.zarr_format == zarr_format
            assert_same(original, found)
            store, arrived = found, arrived + 1
    assert arrived > 0
