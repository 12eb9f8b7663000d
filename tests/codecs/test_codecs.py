"""Every codec of the library, and one of each kind as users write them, passes the suite of all codecs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.codecs.user_codecs import REGISTRY, Delta, Flatten, Hexadecimal, Invert, Runs, Widen

from frazil.codecs import Blosc, Bytes, ChunkSpec, Codec, Crc32c, Gzip, ShardingIndexed, Transpose, Zlib, Zstd
from frazil.codecs.bytes_to_bytes.blosc import CNAMES, SHUFFLES
from frazil.errors import MetadataError
from frazil.testing import CodecTests, chunk_spec
from frazil.testing.checks import refusal

Cases = Iterable[tuple[Codec, ChunkSpec]]
SPEC = chunk_spec("uint16", (4, 3), fill=7)


class TestBytes(CodecTests):
    def make_cases(self) -> Cases:
        for dtype in ("bool", "int8", "r24"):
            yield Bytes(), chunk_spec(dtype, (3, 2))
        for dtype in ("int16", "uint32", "float16", "float64", "complex64", "complex128"):
            for endian in ("little", "big"):
                yield Bytes(endian), chunk_spec(dtype, (2, 5))
        yield Bytes("big"), chunk_spec("int32", ())


class TestTranspose(CodecTests):
    def make_cases(self) -> Cases:
        yield Transpose([1, 0]), SPEC
        yield Transpose([2, 0, 1]), chunk_spec("complex64", (2, 3, 4))
        yield Transpose([]), chunk_spec("int8", ())


class TestGzip(CodecTests):
    def make_cases(self) -> Cases:
        return ((Gzip(level), SPEC) for level in (0, 1, 9))


class TestZlib(CodecTests):
    def make_cases(self) -> Cases:
        return ((Zlib(level), SPEC) for level in (0, 1, 9))


class TestZstd(CodecTests):
    def make_cases(self) -> Cases:
        return ((Zstd(level, checksum), SPEC) for level in (-131072, -5, 0, 22) for checksum in (False, True))


class TestCrc32c(CodecTests):
    def make_cases(self) -> Cases:
        yield Crc32c(), SPEC


class TestBlosc(CodecTests):
    def make_cases(self) -> Cases:
        for cname in CNAMES:
            for shuffle in SHUFFLES:
                yield Blosc(cname, 3, shuffle, typesize=2), SPEC
        yield Blosc("zstd", 0, "bitshuffle", typesize=1, blocksize=64), chunk_spec("bool", (50,))
        yield Blosc("lz4", 9, "shuffle", typesize=300), chunk_spec("r2400", (4,))


class TestSharding(CodecTests):
    def make_cases(self) -> Cases:
        yield ShardingIndexed([2, 3], [Bytes("little")]), SPEC
        yield ShardingIndexed([1, 1], [Bytes("big"), Zstd(1)], [Bytes("big")], "start"), SPEC
        yield ShardingIndexed([], [Bytes("little")]), chunk_spec("int32", ())
        transposed = [Transpose([1, 0]), Bytes("little"), Gzip(1)]
        yield ShardingIndexed([2, 1], transposed, [Transpose([2, 0, 1]), Bytes("little"), Crc32c()]), SPEC
        nested = ShardingIndexed([1, 3], [Bytes("little"), Blosc("lz4", 5, "shuffle", 2)], [Bytes("big")], "start")
        yield ShardingIndexed([2, 3], [nested, Crc32c()]), SPEC
        sideways = ShardingIndexed([3, 1], [Bytes("little")])
        yield ShardingIndexed([2, 3], [Transpose([1, 0]), sideways]), SPEC


class UserTests(CodecTests):
    registry = REGISTRY


class TestDelta(UserTests):
    def make_cases(self) -> Cases:
        yield Delta(), SPEC
        yield Delta(1), SPEC
        yield Delta(), chunk_spec("float32", (6,), fill="NaN")


class TestWiden(UserTests):
    def make_cases(self) -> Cases:
        yield Widen(), chunk_spec("uint8", (3, 3), fill=255)


class TestFlatten(UserTests):
    def make_cases(self) -> Cases:
        yield Flatten(), SPEC
        yield Flatten(), chunk_spec("r24", ())


class TestHexadecimal(UserTests):
    def make_cases(self) -> Cases:
        yield Hexadecimal(), SPEC
        yield Hexadecimal(), chunk_spec("complex128", ())


class TestInvert(UserTests):
    def make_cases(self) -> Cases:
        yield Invert(), SPEC


class TestRuns(UserTests):
    def make_cases(self) -> Cases:
        yield Runs(), SPEC


class TestShardingOfUserCodecs(UserTests):
    def make_cases(self) -> Cases:
        yield ShardingIndexed([2, 3], [Delta(1), Hexadecimal(), Runs(), Invert()]), SPEC
        inner = ShardingIndexed([3, 1], [Delta(), Bytes("little")], [Bytes("little"), Invert()])
        yield ShardingIndexed([4, 3], [Transpose([1, 0]), Delta(), inner, Runs()]), SPEC


@pytest.mark.parametrize("entry", [{"name": "bytes"}, "bytes", Bytes, None])
@pytest.mark.parametrize("member", ["codecs", "index_codecs"])
def test_codecs_in_a_codec_are_codecs(member: str, entry: object) -> None:
    """Entries of documents need a registry, which the constructor has not."""
    lists: list[object] = [[entry], [Bytes(), entry], *([] if entry is None else [entry])]
    for codecs in lists:
        error = refusal(MetadataError, lambda codecs=codecs: ShardingIndexed([2], **{member: codecs}))  # type: ignore[misc]
        assert error.path is not None and error.path.startswith(member)
        assert "must be a" in error.message
    assert ShardingIndexed([2], **{member: iter([Bytes()])}).codecs == (Bytes(),)  # type: ignore[arg-type]
