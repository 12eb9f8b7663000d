"""Python codecs that raise any exception or return invalid results, in every place of a chain: the user gets an error of ours that names array and chunk, and
nothing is stored."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import frazil
from frazil.codecs import Bytes, Codec, Gzip, ShardingIndexed, Zstd
from frazil.codecs.codec import ArrayToArray, ArrayToBytes, BytesToBytes, ChunkSpec
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import DataError, InvalidInputError
from frazil.stores import MemoryStore

MOOD: list[str] = [""]  # the faults of the codecs below


class Moody(BytesToBytes):
    name: ClassVar[str] = "moody"

    def configuration(self) -> None:
        return None

    def encoded_size(self, nbytes: int) -> int:
        return nbytes

    def encode(self, data: bytes) -> bytes:
        return misbehave("encode", data)

    def decode(self, data: bytes, limit: int) -> bytes:
        return misbehave("decode", data, limit)


class MoodyArray(ArrayToArray):
    name: ClassVar[str] = "moody_array"

    def configuration(self) -> None:
        return None

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        return spec

    def encode(self, array: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        return misbehave("encode", array)

    def decode(self, array: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        return misbehave("decode", array)


class MoodyBytes(ArrayToBytes):
    name: ClassVar[str] = "moody_bytes"

    def configuration(self) -> None:
        return None

    def encoded_size(self, spec: ChunkSpec) -> int:
        return spec.nbytes

    def encode(self, array: np.ndarray, spec: ChunkSpec) -> bytes:
        return misbehave("encode", np.ascontiguousarray(array).tobytes())

    def decode(self, data: bytes, spec: ChunkSpec) -> np.ndarray:
        return misbehave("decode", np.frombuffer(data, spec.dtype).reshape(spec.shape))


def misbehave(step: str, value, limit: int = 0):
    requested, _, what = MOOD[0].partition(" ")
    if requested != step:
        return value
    if what == "raise":
        raise RuntimeError("no mood")
    if what == "exit":
        raise KeyError("nothing")
    if what == "text":
        return "text"
    if what == "nothing":
        return None
    if what == "array":
        return np.zeros(3)
    assert what == "more"
    return value + bytes(limit + 1) if isinstance(value, bytes) else np.zeros((99, 99))


REGISTRY = DEFAULT_REGISTRY.with_codec(Moody).with_codec(MoodyArray).with_codec(MoodyBytes)
LITTLE = Bytes("little")
PLACES: dict[str, list[Codec]] = {
    "chunk": [LITTLE, Moody()],
    "chunk, between": [LITTLE, Zstd(1), Moody(), Gzip(1)],
    "array of a chunk": [MoodyArray(), LITTLE],
    "bytes of a chunk": [MoodyBytes(), Gzip(1)],
    "inner chunk": [ShardingIndexed((2, 2), [LITTLE, Moody()])],
    "around shards": [ShardingIndexed((2, 2), [LITTLE]), Moody()],
    "between, around shards": [ShardingIndexed((2, 2), [LITTLE]), Gzip(1), Moody(), Zstd(1)],
    "around inner shards": [ShardingIndexed((4, 4), [ShardingIndexed((2, 2), [LITTLE]), Moody()])],
    "before shards": [MoodyArray(), ShardingIndexed((2, 2), [LITTLE, Gzip(1)])],
    "index": [ShardingIndexed((2, 2), [LITTLE], [LITTLE, Moody()])],
    "array of an index": [ShardingIndexed((2, 2), [LITTLE], [MoodyArray(), LITTLE])],
    "bytes of an index": [ShardingIndexed((2, 2), [LITTLE], [MoodyBytes()])],
    "inner index": [ShardingIndexed((4, 4), [ShardingIndexed((2, 2), [LITTLE], [LITTLE, Moody()], "start")])],
}
VALUES = np.arange(1, 65, dtype="u2").reshape(8, 8)


@pytest.fixture(autouse=True)
def good_mood() -> None:
    MOOD[0] = ""


def make(codecs: list[Codec]) -> tuple[MemoryStore, frazil.Array]:
    MOOD[0] = ""
    store = MemoryStore()
    array = frazil.create_array(
        store, path="sea", shape=(8, 8), dtype="u2", chunks=(4, 4), codecs=codecs, registry=REGISTRY
    )
    array[...] = VALUES
    assert (frazil.open_array(store, path="sea", registry=REGISTRY)[...] == VALUES).all()
    return store, frazil.open_array(store, "r+", path="sea", registry=REGISTRY)


@pytest.mark.parametrize("what", ["raise", "exit", "text", "nothing", "array", "more"])
@pytest.mark.parametrize("place", PLACES)
def test_codecs_that_fail_to_decode(place: str, what: str) -> None:
    store, array = make(PLACES[place])
    before = {key: store.get(key) for key in store.list()}
    MOOD[0] = f"decode {what}"
    for call in (
        lambda: array[...],
        lambda: array[5, 5],
        lambda: array.vindex[[5], [5]],
        lambda: array.__setitem__((5, 5), 0),
        lambda: array.vindex.__setitem__(([5], [5]), 0),
    ):
        with pytest.raises(DataError) as caught:
            call()
        assert caught.value.path == "sea"
        assert caught.value.key is not None
        assert caught.value.chunk is not None
    assert {key: store.get(key) for key in store.list()} == before
    array[4:, 4:] = 1
    MOOD[0] = ""
    assert (array[4:, 4:] == 1).all(), "writing the whole chunk needs no decoding"


@pytest.mark.parametrize("what", ["raise", "exit", "text", "nothing", "array"])
@pytest.mark.parametrize("place", PLACES)
def test_codecs_that_fail_to_encode(place: str, what: str) -> None:
    store, array = make(PLACES[place])
    before = {key: store.get(key) for key in store.list()}
    MOOD[0] = f"encode {what}"
    for call in (
        lambda: array.__setitem__(..., 3),
        lambda: array.__setitem__((5, 5), 3),
        lambda: array.vindex.__setitem__(([5], [5]), 3),
        lambda: array.__setitem__((slice(4, 8), slice(4, 8)), 3),
    ):
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert caught.value.path == "sea"
    assert {key: store.get(key) for key in store.list()} == before
    assert (array[...] == VALUES).all()


def test_an_index_of_another_size_than_promised_is_not_stored() -> None:
    for place in ("index", "bytes of an index", "inner index"):
        store, array = make(PLACES[place])
        before = {key: store.get(key) for key in store.list()}
        MOOD[0] = "encode more"
        with pytest.raises(InvalidInputError):
            array[...] = 3
        assert {key: store.get(key) for key in store.list()} == before
