"""The names of zarr.codecs for the codecs of this package, with the same arguments: frazil.codecs.BloscCodec is Blosc.

Not here: objects of zarr-python's own classes, which array/creation/zarr_arguments.py reads."""

from __future__ import annotations

from enum import StrEnum

from frazil.codecs.array_to_array.transpose import Transpose
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.array_to_bytes.sharding_indexed import ShardingIndexed
from frazil.codecs.array_to_bytes.vlen import VlenBytes, VlenUtf8
from frazil.codecs.bytes_to_bytes.blosc import Blosc
from frazil.codecs.bytes_to_bytes.crc32c import Crc32c
from frazil.codecs.bytes_to_bytes.gzip import Gzip
from frazil.codecs.bytes_to_bytes.zstd import Zstd

BloscCodec = Blosc
BytesCodec = Bytes
Crc32cCodec = Crc32c
GzipCodec = Gzip
ShardingCodec = ShardingIndexed
TransposeCodec = Transpose
VLenBytesCodec = VlenBytes
VLenUTF8Codec = VlenUtf8
ZstdCodec = Zstd


class BloscCname(StrEnum):
    """Compressors inside of Blosc."""

    lz4 = "lz4"
    lz4hc = "lz4hc"
    blosclz = "blosclz"
    zstd = "zstd"
    snappy = "snappy"
    zlib = "zlib"


class BloscShuffle(StrEnum):
    """The shuffle that Blosc applies to elements before it compresses them."""

    noshuffle = "noshuffle"
    shuffle = "shuffle"
    bitshuffle = "bitshuffle"


class Endian(StrEnum):
    """Order of the bytes of an element."""

    big = "big"
    little = "little"


class ShardingCodecIndexLocation(StrEnum):
    """The position of the index in a shard."""

    start = "start"
    end = "end"
