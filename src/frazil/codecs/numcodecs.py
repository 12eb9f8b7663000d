"""The names of zarr.codecs.numcodecs: codecs with names "numcodecs.*" in documents, with the arguments of numcodecs. Nothing is defined here."""

from frazil.codecs.array_to_array.bitround import NumcodecsBitRound as BitRound
from frazil.codecs.array_to_array.filters import AsType, Delta, FixedScaleOffset, Quantize
from frazil.codecs.array_to_array.packbits import NumcodecsPackBits as PackBits
from frazil.codecs.array_to_bytes.pcodec import Pcodec as PCodec
from frazil.codecs.array_to_bytes.zfp import NumcodecsZfpy as ZFPY  # noqa: N814
from frazil.codecs.bytes_to_bytes.blosc import NumcodecsBlosc as Blosc
from frazil.codecs.bytes_to_bytes.checksums import Adler32, Fletcher32, JenkinsLookup3
from frazil.codecs.bytes_to_bytes.checksums import Crc32 as CRC32  # noqa: N814
from frazil.codecs.bytes_to_bytes.checksums import NumcodecsCrc32c as CRC32C  # noqa: N814
from frazil.codecs.bytes_to_bytes.compressors import Bz2 as BZ2  # noqa: N814
from frazil.codecs.bytes_to_bytes.compressors import Lz4 as LZ4  # noqa: N814
from frazil.codecs.bytes_to_bytes.compressors import Lzma as LZMA  # noqa: N814
from frazil.codecs.bytes_to_bytes.compressors import Zlib
from frazil.codecs.bytes_to_bytes.gzip import NumcodecsGzip as GZip
from frazil.codecs.bytes_to_bytes.shuffle import Shuffle
from frazil.codecs.bytes_to_bytes.zstd import NumcodecsZstd as Zstd

__all__ = [
    "Adler32",
    "AsType",
    "BZ2",
    "BitRound",
    "Blosc",
    "CRC32",
    "CRC32C",
    "Delta",
    "FixedScaleOffset",
    "Fletcher32",
    "GZip",
    "JenkinsLookup3",
    "LZ4",
    "LZMA",
    "PCodec",
    "PackBits",
    "Quantize",
    "Shuffle",
    "ZFPY",
    "Zlib",
    "Zstd",
]
