"""Shards within shards: the number of kernel calls, and errors from codecs around shards and from codecs of their indexes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import frazil
from frazil import _kernel
from frazil.codecs import DEFAULT_REGISTRY, Bytes, BytesToBytes, Codec, Crc32c, Gzip, ShardingIndexed
from frazil.errors import ChecksumError, ChunkDecodeError, DataError, FormatError, FrazilError, InvalidInputError
from frazil.stores import LocalStore, MemoryStore


class Refuses(BytesToBytes):
    """Adds a byte in front. If the bytes to encode or decode contain 77, it raises RuntimeError instead. A byte 88 is dropped."""

    __slots__ = ()
    name: ClassVar[str] = "test.refuses"

    def configuration(self) -> dict[str, object] | None:
        return None

    def encode(self, data: bytes) -> bytes:
        if 77 in data:
            raise RuntimeError("I do not like 77")
        return b"\0" + data.replace(b"\x58", b"")

    def decode(self, data: bytes, limit: int) -> bytes:
        if 77 in data:
            raise RuntimeError("I do not like 77")
        return data[1:]

    def encoded_size(self, nbytes: int) -> int | None:
        return nbytes + 1


REGISTRY = DEFAULT_REGISTRY.with_codec(Refuses)


@contextmanager
def kernel_calls() -> Iterator[Counter[str]]:
    """Calls of the kernel by this thread, except for checksums, which cost one call per index."""
    counted: Counter[str] = Counter()
    names = {id(getattr(_kernel, name)): name for name in dir(_kernel) if name != "crc32c"}

    def count(frame: object, event: str, called: object) -> None:
        if event == "c_call" and id(called) in names:
            counted[names[id(called)]] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield counted
    finally:
        sys.setprofile(before)


def nested(
    store: MemoryStore, side: int, inside: list[Codec] | None = None, index: list[Codec] | None = None, **more: object
) -> frazil.Array:
    """One shard of side^2 elements, of shards of 4^2, of chunks of 2^2. inside: codecs around the middle shards; index: codecs of their index."""
    middle = ShardingIndexed([2, 2], [Bytes()], index)
    codecs: list[Codec] = [ShardingIndexed([4, 4], [middle, *(inside or [])])]
    return frazil.create_array(
        store, shape=(side, side), dtype="uint8", chunks=(side, side), codecs=codecs, registry=REGISTRY, **more
    )


@pytest.mark.parametrize("inside", [[], [Gzip(1)]])
def test_many_inner_shards_are_as_many_calls_as_few(inside: list[Codec]) -> None:
    def calls(side: int) -> list[Counter[str]]:
        array = nested(MemoryStore(), side, inside)
        expected = np.arange(1, side * side + 1, dtype="u8").astype("u1").reshape(side, side)
        counts = []
        for act in (
            lambda: array.__setitem__(..., expected),
            lambda: array.__setitem__((slice(1, -1), slice(1, -1)), expected[1:-1, 1:-1]),
            lambda: array[...],
        ):
            with kernel_calls() as counted:
                act()
            counts.append(counted)
        assert (array[...] == expected).all()
        return counts

    few, many = calls(8), calls(64)  # 4 and 256 shards in the outer one
    assert few == many
    assert all(count["read_indexes"] for count in few)


def refused(kind: type[FrazilError], chunk: tuple[int, ...] | None, act: Callable[[], object]) -> FrazilError:
    with pytest.raises(kind) as caught:
        act()
    assert (caught.value.key, caught.value.path, caught.value.chunk) == ("c/0/0", "/", chunk)
    return caught.value


@pytest.mark.parametrize("codecs", [[Refuses()], [Refuses(), Gzip(0)], [Crc32c(), Refuses()]])
def test_a_codec_around_inner_shards_that_raises(codecs: list[Codec]) -> None:
    store = MemoryStore()
    array = nested(store, 8, codecs)
    array[...] = 1
    before = store.get("c/0/0")

    def write() -> None:
        array[4:, 4:] = 77

    error = refused(InvalidInputError, (2, 2), write)
    assert "codec test.refuses: RuntimeError: I do not like 77" in str(error)
    assert isinstance(error.__cause__, RuntimeError)
    assert store.get("c/0/0") == before
    if len(codecs) == 1:
        assert before is not None
        store.set("c/0/0", before.replace(b"\1" * 4, b"\x4d" * 4))
        error = refused(ChunkDecodeError, (0, 0), lambda: array[...])
        assert "RuntimeError: I do not like 77" in str(error)


def test_a_codec_around_the_outermost_shards_that_raises() -> None:
    store = MemoryStore()
    array = frazil.create_array(
        store,
        shape=(8,),
        dtype="u1",
        chunks=(4,),
        codecs=[ShardingIndexed([2], [Bytes()]), Refuses()],
        registry=REGISTRY,
    )
    array[...] = 1

    def write() -> None:
        array[5] = 77

    with pytest.raises(InvalidInputError, match="RuntimeError") as caught:
        write()
    assert (caught.value.key, caught.value.path, caught.value.chunk) == ("c/1", "/", (1,))
    store.set("c/1", b"\x4d" * 60)
    with pytest.raises(ChunkDecodeError, match="RuntimeError") as read:
        array[...]
    assert (read.value.key, read.value.path, read.value.chunk) == ("c/1", "/", (1,))


@pytest.mark.parametrize("level", ["inner", "outer"])
def test_a_codec_of_an_index_that_raises(level: str) -> None:
    """The index contains the byte 77 if a chunk has 77 elements."""
    index: list[Codec] = [Bytes("little"), Refuses()]
    sharding = ShardingIndexed([77], [Bytes()], index)
    extent = 154
    if level == "inner":
        sharding = ShardingIndexed([154], [sharding])
        extent = 308
    store = MemoryStore()
    array = frazil.create_array(
        store, shape=(2 * extent,), dtype="u1", chunks=(extent,), codecs=[sharding], registry=REGISTRY
    )

    def write() -> None:
        array[extent:] = 1

    with pytest.raises(InvalidInputError, match="refuses: RuntimeError") as caught:
        write()
    assert (caught.value.key, caught.value.path) == ("c/1", "/")
    assert caught.value.chunk == ((4,) if level == "inner" else (1,))
    assert store.list() == ["zarr.json"]
    if level == "outer":
        store.set("c/1", b"\x4d" * 200)
        with pytest.raises(ChunkDecodeError, match="refuses: RuntimeError") as read:
            array[...]
        assert (read.value.key, read.value.path, read.value.chunk) == ("c/1", "/", (1,))


def test_an_index_codec_that_makes_another_size_than_it_said() -> None:
    codec = ShardingIndexed([88], [Bytes()], [Bytes("little"), Refuses()])
    store = MemoryStore()
    array = frazil.create_array(store, shape=(88,), dtype="u1", chunks=(88,), codecs=[codec], registry=REGISTRY)
    with pytest.raises(InvalidInputError, match="shard index of 16 bytes instead of the 17"):
        array[...] = 1
    assert store.get("c/0") is None


@pytest.mark.parametrize(
    "at, new, error",
    [(-1, b"\1", ChecksumError), (-68, b"\xff" * 8 + b"\0" * 8, ChecksumError)],
)
def test_an_inner_index_that_is_damaged_is_named(at: int, new: bytes, error: type[DataError]) -> None:
    store = MemoryStore()
    array = nested(store, 8)
    array[...] = 1
    data = bytearray(store.get("c/0/0") or b"")
    size = 16 + 68  # of each of four inner shards, one after another
    data[2 * size + size + at : 2 * size + size + at + len(new)] = new
    store.set("c/0/0", data)
    refused(error, (2, 0), lambda: array[...])
    assert array[0, 0] == 1


def test_an_inner_index_without_checksum_that_makes_no_sense_is_named() -> None:
    store = MemoryStore()
    array = nested(store, 8, index=[Bytes("big")])
    array[...] = 1
    data = bytearray(store.get("c/0/0") or b"")
    size = 16 + 64
    data[3 * size + 16 : 3 * size + 24] = b"\xff" * 8
    store.set("c/0/0", data)
    assert "half empty" in str(refused(FormatError, (2, 2), lambda: array[...]))
    data[3 * size + 16 : 3 * size + 24] = b"\x7f" * 8
    store.set("c/0/0", data)
    assert "outside" in str(refused(FormatError, (2, 2), lambda: array[...]))


@pytest.mark.parametrize("on_disk", [True, False])
def test_an_inner_shard_that_is_too_short_costs_no_memory(tmp_path: Path, on_disk: bool) -> None:
    """The document declares 2^31 inner chunks in each inner shard, whose index takes 32 GiB."""
    count = 2**31
    codecs = [ShardingIndexed((count,), [ShardingIndexed((1,), [Bytes()])], [Bytes("little")])]
    store = LocalStore(tmp_path) if on_disk else MemoryStore()
    array = frazil.create_array(store, shape=(2 * count,), dtype="u1", chunks=(2 * count,), codecs=codecs)
    store.set("c/0", bytes(10) + np.array([0, 10, 2**64 - 1, 2**64 - 1], "<u8").tobytes())
    for read in (lambda: array[5], lambda: array[5:7], lambda: array.vindex[[5, 6]]):
        with pytest.raises(FormatError, match="too short") as caught:
            read()
        assert (caught.value.key, caught.value.chunk) == ("c/0", (5,))
