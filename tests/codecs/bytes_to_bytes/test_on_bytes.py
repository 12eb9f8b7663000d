"""Array codecs that run over byte strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import pytest
from tests.codecs.user_codecs import REGISTRY, Flatten, Hexadecimal, Widen
from tests.codecs.user_codecs import Delta as Differences

import frazil
from frazil.codecs import (
    Bytes,
    ChunkSpec,
    Codec,
    Crc32c,
    Delta,
    Gzip,
    NumcodecsBitRound,
    NumcodecsPackBits,
    OnBytes,
    Registry,
    ShardingIndexed,
    Transpose,
)
from frazil.errors import DataError, MetadataError
from frazil.stores import MemoryStore
from frazil.testing import CodecTests, chunk_spec

SPEC = chunk_spec("uint16", (4, 3), fill=7)


class TestOnBytes(CodecTests):
    registry: ClassVar[Registry] = REGISTRY

    def make_cases(self) -> Iterable[tuple[Codec, ChunkSpec]]:
        for codec in (Delta("u1"), Delta("i1"), Differences(), Transpose([0]), Flatten(), Bytes()):
            yield OnBytes(codec), SPEC


@pytest.mark.rule("D29")
def test_bytes_are_an_array_of_uint8() -> None:
    codec = OnBytes(Delta("u1"))
    assert codec.encode(bytes([1, 3, 2])) == bytes([1, 2, 255])
    assert codec.decode(bytes([1, 2, 255]), 3) == bytes([1, 3, 2])


def test_elements_of_several_bytes() -> None:
    codec = OnBytes(Delta("<i2"))
    assert codec.encode(b"\x01\x00\x03\x00") == b"\x01\x00\x02\x00"
    assert codec.decode(b"\x01\x00\x02\x00", 4) == b"\x01\x00\x03\x00"
    with pytest.raises(DataError):
        codec.decode(b"\x01\x00\x02", 3)


@pytest.mark.rule("D28")
@pytest.mark.parametrize(
    "codec", [NumcodecsPackBits(), Widen(), Hexadecimal(), NumcodecsBitRound(3), Delta("i1", "<i2"), Transpose([1, 0])]
)
def test_codecs_of_other_sizes_or_arrays_are_refused(codec: Codec) -> None:
    with pytest.raises(MetadataError, match="as many bytes as it gets") as caught:
        OnBytes(codec)
    assert caught.value.path == "codec"


@pytest.mark.parametrize("codec", [Gzip(1), Crc32c()])
def test_codecs_of_bytes_are_refused(codec: Codec) -> None:
    with pytest.raises(MetadataError, match="must be a codec of arrays"):
        OnBytes(codec)


def test_refusals_name_their_place() -> None:
    inner = {"name": "frazil.on_bytes", "configuration": {"codec": "numcodecs.packbits"}}
    with pytest.raises(MetadataError) as caught:
        frazil.create_array(MemoryStore(), shape=4, dtype="u2", codecs=["bytes", inner])
    assert caught.value.path == "codecs[1].configuration.codec"


def test_behind_compressors_and_in_shards() -> None:
    chain = [Bytes("big"), Gzip(5), OnBytes(Delta("u1")), Crc32c()]
    values = np.arange(600, dtype="u2").reshape(30, 20)
    for codecs in (chain, [ShardingIndexed([5, 10], chain)], [ShardingIndexed([5, 10]), OnBytes(Delta("u1"))]):
        array = frazil.create_array(MemoryStore(), shape=(30, 20), chunks=(10, 20), dtype="u2", codecs=codecs)
        array[...] = values
        array[3:7, 5:15] += 1
        expected = values.copy()
        expected[3:7, 5:15] += 1
        assert (array[...] == expected).all()
