"""Chains: which orders are refused, and the place in the error; what valid ones compile to."""

from __future__ import annotations

import json
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.user_codecs import REGISTRY, Delta, Hexadecimal, Invert, Runs, Widen
from tests.strategies import Layout, layouts

import frazil
from frazil.codecs import Blosc, Bytes, BytesToBytes, Codec, Crc32c, Gzip, Lz4, ShardingIndexed, Transpose, Zstd
from frazil.codecs.chain.compilation import compile_chain
from frazil.codecs.codec import resolve
from frazil.errors import MetadataError
from frazil.stores import MemoryStore
from frazil.testing import chunk_spec

SPEC = chunk_spec("uint16", (4, 6))
LITTLE = Bytes("little")


def sharding(codecs: list[Codec], index: list[Codec] | None = None, shape: tuple[int, ...] = (2, 3)) -> ShardingIndexed:
    return ShardingIndexed(shape, codecs, index)


REFUSED: list[tuple[list[Codec], str, str]] = [
    ([], "codecs", "exactly one array-to-bytes"),
    ([Zstd()], "codecs", "exactly one array-to-bytes"),
    ([Transpose([1, 0])], "codecs", "exactly one array-to-bytes"),
    ([LITTLE, LITTLE], "codecs[1]", "cannot be here"),
    ([LITTLE, sharding([LITTLE])], "codecs[1]", "cannot be here"),
    ([Gzip(1), LITTLE], "codecs[1]", "cannot be here"),
    ([LITTLE, Transpose([1, 0])], "codecs[1]", "cannot be here"),
    ([Crc32c(), Transpose([1, 0]), LITTLE], "codecs[1]", "cannot be here"),
    ([Bytes()], "codecs[0].configuration.endian", "endian"),
    ([Transpose([0]), LITTLE], "codecs[0].configuration.order", "dimensions"),
    ([Transpose([1, 0]), Transpose([2, 0, 1]), LITTLE], "codecs[1].configuration.order", "dimensions"),
    ([sharding([LITTLE], shape=(2,))], "codecs[0].configuration.chunk_shape", "dimensions"),
    ([sharding([LITTLE], shape=(3, 3))], "codecs[0].configuration.chunk_shape", "divide"),
    ([sharding([LITTLE], shape=(8, 6))], "codecs[0].configuration.chunk_shape", "divide"),
    ([Transpose([1, 0]), sharding([LITTLE], shape=(4, 2))], "codecs[1].configuration.chunk_shape", "divide"),
    ([sharding([Zstd(), LITTLE])], "codecs[0].configuration.codecs[1]", "cannot be here"),
    ([sharding([Transpose([1, 0])])], "codecs[0].configuration.codecs", "exactly one"),
    ([sharding([LITTLE], [Crc32c()])], "codecs[0].configuration.index_codecs", "exactly one"),
    ([sharding([LITTLE], [LITTLE, Crc32c(), Gzip(1)])], "codecs[0].configuration.index_codecs[2]", "shard index"),
    ([sharding([LITTLE], [LITTLE, Zstd(1), Crc32c()])], "codecs[0].configuration.index_codecs[1]", "shard index"),
    ([sharding([LITTLE], [Hexadecimal()])], "codecs[0].configuration.index_codecs[0]", "shard index"),
    ([sharding([LITTLE], [Bytes()])], "codecs[0].configuration.index_codecs[0].configuration.endian", "endian"),
    (
        [sharding([LITTLE], [Transpose([1, 0]), LITTLE])],
        "codecs[0].configuration.index_codecs[0].configuration.order",
        "dimensions",
    ),
    (
        [sharding([sharding([LITTLE], shape=(2, 2))])],
        "codecs[0].configuration.codecs[0].configuration.chunk_shape",
        "divide",
    ),
    ([Delta(), sharding([Bytes()])], "codecs[1].configuration.codecs[0].configuration.endian", "endian"),
    ([Delta(), sharding([LITTLE], shape=(3, 1))], "codecs[1].configuration.chunk_shape", "divide"),
    ([Delta(5), LITTLE], "codecs[0]", "dimension 5"),
    ([Widen(), LITTLE], "codecs[0]", "widened"),
]


@pytest.mark.parametrize("codecs, path, text", REFUSED, ids=[f"{path} {text}" for _, path, text in REFUSED])
def test_refusals_name_the_place(codecs: list[Codec], path: str, text: str) -> None:
    with pytest.raises(MetadataError, match=text) as caught:
        compile_chain(codecs, SPEC)
    assert caught.value.path == path


@given(layouts())
def test_levels_and_leaf_cover_a_chunk(layout: Layout) -> None:
    codecs: tuple[Codec, ...] = layout.codecs
    extent = layout.chunks
    if layout.shards is not None:
        codecs, extent = (ShardingIndexed(layout.chunks, codecs, index_location=layout.index_location),), layout.shards
    spec = chunk_spec("uint16", extent)
    chain = compile_chain(resolve(codecs, spec), spec)
    counts = chain.inner_chunk_counts
    assert tuple(n * c for n, c in zip(counts, chain.inner_chunk.shape, strict=True)) == extent
    for level in chain.levels:
        assert level.total >= 1
        assert level.index_codecs.nbytes >= 16 * level.total
        assert level.addressable == (not level.after)
    assert chain.inner_chunk.stage is None, "all of it is the kernel's"
    assert chain.inner_chunk.nbytes == spec._replace(shape=chain.inner_chunk.shape).nbytes


def test_transpositions_before_shards_are_seen_through() -> None:
    inner = ShardingIndexed([2, 1], [Transpose([1, 0]), LITTLE])
    outer = ShardingIndexed([3, 2], [Transpose([1, 0]), inner])
    chain = compile_chain([Transpose([1, 0]), outer], SPEC)  # the shard is (4, 6), seen as (6, 4)
    assert [level.inner for level in chain.levels] == [(2, 3), (2, 1)]
    assert [level.counts for level in chain.levels] == [(2, 2), (1, 3)]
    assert [level.strides for level in chain.levels] == [(1, 2), (3, 1)]
    assert chain.inner_chunk.shape == (2, 1)


def test_levels_that_are_not_addressable() -> None:
    inner = sharding([LITTLE])
    assert compile_chain([inner], SPEC).levels[0].addressable
    assert not compile_chain([inner, Gzip(1)], SPEC).levels[0].addressable
    chain = compile_chain([Delta(), inner], SPEC)
    assert chain.levels == ()
    assert chain.inner_chunk.stage is not None
    assert chain.inner_chunk.shape == SPEC.shape, "what a codec of the user's stands before is decoded whole"


def test_kernel_parts_of_chains_with_a_python_codec() -> None:
    stage = compile_chain([Transpose([1, 0]), LITTLE, Runs(), Invert(), Zstd(1), Crc32c()], SPEC).inner_chunk.stage
    assert stage is not None
    assert [form[0] for form in stage.native] == ["zstd", "crc32c"]
    assert stage.chain.after == (Runs(), Invert())
    assert compile_chain([LITTLE, Gzip(1), Zstd(1)], SPEC).inner_chunk.stage is None


@pytest.mark.rule("trap 28")
def test_codecs_are_settled_by_what_comes_before_them() -> None:
    bytes_of_four = chunk_spec("uint8", (4, 6))
    assert resolve([Bytes()], bytes_of_four) == (Bytes(),)
    assert resolve([Widen(), Bytes(), Blosc()], bytes_of_four) == (
        Widen(),
        LITTLE,
        Blosc(shuffle="shuffle", typesize=4),
    )
    (outer,) = resolve([ShardingIndexed([2, 3], [Widen(), Bytes()], [Bytes()])], bytes_of_four)
    assert isinstance(outer, ShardingIndexed)
    assert outer.codecs == (Widen(), LITTLE)
    assert outer.index_codecs == (LITTLE,)
    assert resolve([Transpose([0]), Bytes()], SPEC) == (Transpose([0]), Bytes()), "what cannot be is refused elsewhere"


@given(st.integers(1, 40), st.integers(1, 40))
def test_a_shard_of_many_small_chunks_is_within_its_bound(counts: int, inner: int) -> None:
    """The index alone may be longer than the data."""
    spec = chunk_spec("uint8", (counts * inner,))
    codec = ShardingIndexed([inner], [Bytes(), Crc32c()])
    data = codec.encode(np.ones(spec.shape, "u1"), spec)
    assert len(data) == counts * (inner + 4 + 16) + 4
    assert len(data) <= codec.bound(spec) == compile_chain([codec], spec).levels[0].bound


@pytest.mark.parametrize(
    ("codecs", "most"),
    [
        ([LITTLE, Blosc()], 2**31 - 17),
        ([LITTLE, Lz4()], 0x7E000000),
        ([LITTLE, Crc32c(), Blosc()], 2**31 - 21),
        ([Transpose([1, 0]), LITTLE, Lz4(), Zstd()], 0x7E000000),
        ([ShardingIndexed([1, 2**33], [LITTLE, Zstd(), Blosc()]), Zstd()], None),
        ([LITTLE, Zstd()], None),
        ([LITTLE, Gzip(1), Blosc()], None),
    ],
)
def test_a_chunk_that_a_codec_cannot_take_is_refused_when_an_array_is_made(
    codecs: list[Codec], most: int | None
) -> None:
    for nbytes in (2**33,) if most is None else (most, most + 1, 2**33):
        for shards in (None, (4, nbytes)):
            store = MemoryStore()
            if any(isinstance(codec, ShardingIndexed) for codec in codecs) and shards is not None:
                continue
            arguments = {"shape": (4, 2**33), "dtype": "u1", "chunks": (1, nbytes), "shards": shards, "codecs": codecs}
            if most is None or nbytes <= most:
                frazil.create_array(store, **arguments)  # type: ignore[arg-type]
                continue
            with pytest.raises(MetadataError, match="takes at most") as caught:
                frazil.create_array(store, **arguments)  # type: ignore[arg-type]
            assert caught.value.path is not None
            assert "codecs" in caught.value.path
            assert store.list() == []


def test_an_array_with_such_chunks_that_is_there_can_be_opened() -> None:
    """Elements that are not stored can be read, and attributes can be changed."""
    store = MemoryStore()
    frazil.create_array(store, shape=(2**32,), dtype="u1", chunks=(2**20,), codecs=[Blosc()])
    document = json.loads(store.get("zarr.json") or b"")
    document["chunk_grid"]["configuration"]["chunk_shape"] = [2**32]
    store.set("zarr.json", json.dumps(document).encode())
    array = frazil.open_array(store, "r+")
    assert array[5] == 0
    array.attrs["a"] = 1


class NoMemory(BytesToBytes):
    """Has no memory for some bytes."""

    __slots__ = ()
    name: ClassVar[str] = "test.no_memory"

    def configuration(self) -> dict[str, object] | None:
        return None

    def encode(self, data: bytes) -> bytes:
        if bytes((6, 7)) in data:
            raise MemoryError("for this chunk")
        return data

    def decode(self, data: bytes, limit: int) -> bytes:
        if bytes((4, 5)) in data:
            raise MemoryError("for this chunk")
        return data


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("outer", [None, Runs(), NoMemory()], ids=repr)
def test_a_lack_of_memory_in_a_codec_names_the_chunk(threads: int, outer: BytesToBytes | None) -> None:
    """outer: the codec around the shards, which are then decoded whole"""
    data = np.arange(8, dtype="u1")
    inner = ShardingIndexed((2,), codecs=[Bytes(), NoMemory()])
    codecs = [Bytes(), NoMemory()] if outer is None else [inner, outer]
    array = frazil.create_array(
        MemoryStore(),
        path="x",
        shape=8,
        dtype="u1",
        chunks=4 if outer else 2,
        codecs=codecs,
        registry=REGISTRY.with_codec(NoMemory),
        runtime=frazil.Runtime(threads=threads),
    )
    with pytest.raises(MemoryError, match="for this chunk") as caught:
        array[...] = data
    assert [all(text in note for text in ("path 'x'", "chunk (")) for note in caught.value.__notes__] == [True]
    array[:6] = data[:6]
    with pytest.raises(MemoryError, match="for this chunk") as caught:
        array[...]
    assert [all(text in note for text in ("path 'x'", "key 'x/c/", "chunk (")) for note in caught.value.__notes__] == [
        True
    ]
