"""Codecs: one file for each, in the package of its kind; chains of codecs (chain/), the registry that maps names to codecs, and the sharding codec (sharding/).

To add one, derive from ArrayToArray, ArrayToBytes or BytesToBytes (codec.py) and pass the result of Registry.with_codec to the function that opens or creates.
zarr_names.py and numcodecs.py have the names of the same codecs in zarr.codecs.
Not here: which chunks are read or written (array/io/)."""

from typing import TYPE_CHECKING

from frazil.base.late import late_names
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.array_to_bytes.sharding_indexed import ShardingIndexed
from frazil.codecs.builtin_codecs import LATE, PICKLE
from frazil.codecs.bytes_to_bytes.crc32c import Crc32c
from frazil.codecs.bytes_to_bytes.zstd import Zstd
from frazil.codecs.codec import ArrayToArray, ArrayToBytes, BytesToBytes, ChunkSpec, Codec
from frazil.codecs.registry import DEFAULT_REGISTRY, Registry

if TYPE_CHECKING:
    from frazil.codecs import numcodecs
    from frazil.codecs.array_to_array.bitround import BitRound, NumcodecsBitRound
    from frazil.codecs.array_to_array.cast_value import CastValue
    from frazil.codecs.array_to_array.categorize import Categorize
    from frazil.codecs.array_to_array.filters import AsType, Delta, FixedScaleOffset, Quantize
    from frazil.codecs.array_to_array.packbits import NumcodecsPackBits
    from frazil.codecs.array_to_array.reshape import Reshape, Squeeze
    from frazil.codecs.array_to_array.scale_offset import ScaleOffset
    from frazil.codecs.array_to_array.transpose import Transpose
    from frazil.codecs.array_to_bytes.n5_default import N5Default
    from frazil.codecs.array_to_bytes.objects import Json2, MsgPack2, Pickle
    from frazil.codecs.array_to_bytes.packbits import PackBits
    from frazil.codecs.array_to_bytes.pcodec import Pcodec
    from frazil.codecs.array_to_bytes.zfp import Zfp
    from frazil.codecs.bytes_to_bytes.base64 import Base64
    from frazil.codecs.bytes_to_bytes.blosc import Blosc
    from frazil.codecs.bytes_to_bytes.checksums import Adler32, Crc32, Fletcher32
    from frazil.codecs.bytes_to_bytes.compressors import Bz2, Lz4, Lzma, Zlib
    from frazil.codecs.bytes_to_bytes.conditional import Conditional
    from frazil.codecs.bytes_to_bytes.gdeflate import Gdeflate
    from frazil.codecs.bytes_to_bytes.gzip import Gzip
    from frazil.codecs.bytes_to_bytes.on_bytes import OnBytes
    from frazil.codecs.bytes_to_bytes.shuffle import Shuffle
    from frazil.codecs.zarr_names import (
        BloscCname,
        BloscCodec,
        BloscShuffle,
        BytesCodec,
        Crc32cCodec,
        Endian,
        GzipCodec,
        ShardingCodec,
        ShardingCodecIndexLocation,
        TransposeCodec,
        VLenBytesCodec,
        VLenUTF8Codec,
        ZstdCodec,
    )

__all__ = [
    "DEFAULT_REGISTRY",
    "Adler32",
    "ArrayToArray",
    "ArrayToBytes",
    "AsType",
    "Base64",
    "BitRound",
    "Blosc",
    "BloscCname",
    "BloscCodec",
    "BloscShuffle",
    "Bytes",
    "BytesCodec",
    "BytesToBytes",
    "Bz2",
    "CastValue",
    "Categorize",
    "ChunkSpec",
    "Codec",
    "Conditional",
    "Crc32",
    "Crc32c",
    "Crc32cCodec",
    "Delta",
    "Endian",
    "FixedScaleOffset",
    "Fletcher32",
    "Gdeflate",
    "Gzip",
    "GzipCodec",
    "Json2",
    "Lz4",
    "Lzma",
    "MsgPack2",
    "N5Default",
    "NumcodecsBitRound",
    "NumcodecsPackBits",
    "OnBytes",
    "PackBits",
    "Pcodec",
    "Pickle",
    "Quantize",
    "Registry",
    "Reshape",
    "ScaleOffset",
    "ShardingCodec",
    "ShardingCodecIndexLocation",
    "ShardingIndexed",
    "Shuffle",
    "Squeeze",
    "Transpose",
    "TransposeCodec",
    "VLenBytesCodec",
    "VLenUTF8Codec",
    "Zfp",
    "Zlib",
    "Zstd",
    "ZstdCodec",
    "numcodecs",
]
if not TYPE_CHECKING:
    _late = {late.name: late.module for late in (*LATE.values(), PICKLE) if late.name in __all__}
    _others = [name for name in __all__ if name not in _late and name not in globals()]
    __getattr__, __dir__ = late_names(
        __name__,
        {**_late, **dict.fromkeys(_others, "frazil.codecs.zarr_names"), "numcodecs": "frazil.codecs.numcodecs"},
    )
