"""Codecs: one file each, the chain that they make, and the registry that knows them by name.

To add one, subclass ArrayToArray, ArrayToBytes or BytesToBytes (codec.py) and hand Registry.with_codec's result to what opens or creates."""

from typing import TYPE_CHECKING

from frazil.codecs.blosc import Blosc
from frazil.codecs.bytes import Bytes
from frazil.codecs.codec import ArrayToArray, ArrayToBytes, BytesToBytes, ChunkSpec, Codec
from frazil.codecs.crc32c import Crc32c
from frazil.codecs.gzip import Gzip
from frazil.codecs.known import LATE
from frazil.codecs.registry import DEFAULT_REGISTRY, Registry
from frazil.codecs.sharding import ShardingIndexed
from frazil.codecs.transpose import Transpose
from frazil.codecs.zstd import Zstd
from frazil.late import late_names

if TYPE_CHECKING:
    from frazil.codecs.astype import AsType
    from frazil.codecs.bitround import BitRound
    from frazil.codecs.bz2 import Bz2
    from frazil.codecs.checksums import Adler32, Crc32, Fletcher32
    from frazil.codecs.delta import Delta
    from frazil.codecs.fixed_scale_offset import FixedScaleOffset
    from frazil.codecs.lz4 import Lz4
    from frazil.codecs.lzma import Lzma
    from frazil.codecs.on_bytes import OnBytes
    from frazil.codecs.packbits import PackBits
    from frazil.codecs.quantize import Quantize
    from frazil.codecs.shuffle import Shuffle
    from frazil.codecs.zlib import Zlib

__all__ = [
    "DEFAULT_REGISTRY",
    "Adler32",
    "ArrayToArray",
    "ArrayToBytes",
    "AsType",
    "BitRound",
    "Blosc",
    "Bytes",
    "BytesToBytes",
    "Bz2",
    "ChunkSpec",
    "Codec",
    "Crc32",
    "Crc32c",
    "Delta",
    "FixedScaleOffset",
    "Fletcher32",
    "Gzip",
    "Lz4",
    "Lzma",
    "OnBytes",
    "PackBits",
    "Quantize",
    "Registry",
    "ShardingIndexed",
    "Shuffle",
    "Transpose",
    "Zlib",
    "Zstd",
]
if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(
        __name__, {late.name: late.module for late in LATE.values() if late.name in __all__}
    )
