"""Shards encoded and decoded whole, against the engine that plans them: each reads what the other writes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.user_codecs import REGISTRY, Delta, Invert
from tests.strategies import DTYPES, Layout, create, layouts, same, values

from frazil.codecs import Bytes, Codec, Crc32c, ShardingIndexed
from frazil.codecs.codec import resolve
from frazil.errors import ChecksumError, ChunkDecodeError, DataError, FormatError
from frazil.stores import MemoryStore
from frazil.testing import chunk_spec, random_chunk


def sharding_of(layout: Layout) -> tuple[ShardingIndexed, tuple[int, ...]] | None:
    """The first sharding codec of a layout and the extent of its shards, if it is the first codec."""
    if layout.shards is not None:
        return ShardingIndexed(layout.chunks, layout.codecs, index_location=layout.index_location), layout.shards
    for codec in layout.codecs:
        if isinstance(codec, ShardingIndexed):
            order = getattr(layout.codecs[0], "order", tuple(range(len(layout.chunks))))
            return codec, tuple(layout.chunks[axis] for axis in order)
    return None


@given(layouts(), st.sampled_from(DTYPES), st.integers(0, 2**32))
def test_the_engine_reads_them_and_they_read_the_engine(layout: Layout, dtype: str, seed: int) -> None:
    found = sharding_of(layout)
    if found is None:
        return
    sharding, extent = found
    spec = chunk_spec("r24" if dtype == "V3" else dtype, extent)
    (codec,) = resolve([sharding], spec)
    assert isinstance(codec, ShardingIndexed)
    expected = values(seed, extent, spec.dtype)
    store, key = MemoryStore(), "/".join(["c", *"0" * len(extent)])
    array = create(store, Layout(extent, extent, None, (codec,), "end"), dtype)
    array[...] = expected
    shard = store.get(key)
    if shard is None:
        assert not expected.tobytes().strip(b"\0")
    else:
        assert same(codec.decode(shard, spec), expected)
    mine = codec.encode(expected, spec)
    assert same(codec.decode(mine, spec), expected)
    store.set(key, mine)
    assert same(array[...], expected)


def test_a_shard_of_fill_values_is_its_index_alone() -> None:
    spec = chunk_spec("int16", (4,), fill=-1)
    codec = ShardingIndexed([2], [Bytes("little")])
    data = codec.encode(np.full(4, -1, "i2"), spec)
    assert len(data) == 36
    assert data[:32] == b"\xff" * 32
    assert same(codec.decode(data, spec), np.full(4, -1, "i2"))


SPEC = chunk_spec("int16", (4,))
CHECKED = ShardingIndexed([2], [Bytes("little"), Crc32c()])
BARE = ShardingIndexed([2], [Bytes("little")], [Bytes("little")])


@pytest.mark.parametrize(
    "codec, data, error",
    [
        (CHECKED, b"", FormatError),
        (CHECKED, bytes(35), FormatError),
        (CHECKED, bytes(36), ChecksumError),
        (BARE, bytes(31), FormatError),
        (BARE, b"\xff" * 8 + bytes(24), FormatError),
        (BARE, np.array([0, 2**63, 0, 4], "<u8").tobytes(), FormatError),
        (BARE, np.array([2**64 - 2, 8, 0, 4], "<u8").tobytes(), FormatError),
        (BARE, np.array([0, 3, 0, 4], "<u8").tobytes(), FormatError),
        (BARE, bytes(4) + np.array([0, 3, 0, 4], "<u8").tobytes(), ChunkDecodeError),
    ],
)
def test_wrong_bytes_are_refused(codec: Codec, data: bytes, error: type[DataError]) -> None:
    assert isinstance(codec, ShardingIndexed)
    with pytest.raises(error):
        codec.decode(data, SPEC)


@pytest.mark.parametrize("change", [-1, 0, 5])
def test_errors_inside_encoded_shards_keep_their_class(change: int) -> None:
    store = MemoryStore()
    array = create(store, Layout((4,), (4,), None, (Delta(), CHECKED, Invert()), "end"), "int16", registry=REGISTRY)
    array[...] = [1, 2, 3, 4]
    data = bytearray(store.get("c/0") or b"")
    data[change] ^= 1
    store.set("c/0", data)
    with pytest.raises(ChecksumError) as caught:
        array[...]
    assert (caught.value.key, caught.value.path) == ("c/0", "/")
    store.set("c/0", b"")
    with pytest.raises(FormatError):
        array[...]


def test_values_in_any_byte_order_and_layout() -> None:
    spec = chunk_spec("complex64", (4, 6))
    codec = ShardingIndexed([2, 2], [Bytes("big")])
    array = random_chunk(spec)
    assert codec.encode(np.asfortranarray(array), spec) == codec.encode(array, spec)
