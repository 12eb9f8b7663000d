"""The codecs that the default registry knows. Those of the final Zarr v3 are at hand; those of old data are imported when a document names one."""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from frazil.codecs.blosc import Blosc
from frazil.codecs.bytes import Bytes
from frazil.codecs.codec import Codec
from frazil.codecs.crc32c import Crc32c
from frazil.codecs.gzip import Gzip
from frazil.codecs.sharding import ShardingIndexed
from frazil.codecs.transpose import Transpose
from frazil.codecs.zstd import Zstd
from frazil.record import Record


class LateCodec(Record):
    """A codec by the name of its class, and the module that has it."""

    module: str
    name: str

    def load(self) -> type[Codec]:
        return cast("type[Codec]", getattr(import_module(self.module), self.name))


AT_HAND: Final[tuple[type[Codec], ...]] = (Bytes, Transpose, Gzip, Zstd, Blosc, Crc32c, ShardingIndexed)
LATE: Final[dict[str, LateCodec]] = {
    "numcodecs.zlib": LateCodec("frazil.codecs.zlib", "Zlib"),
    "numcodecs.bz2": LateCodec("frazil.codecs.bz2", "Bz2"),
    "numcodecs.lz4": LateCodec("frazil.codecs.lz4", "Lz4"),
    "numcodecs.lzma": LateCodec("frazil.codecs.lzma", "Lzma"),
    "numcodecs.shuffle": LateCodec("frazil.codecs.shuffle", "Shuffle"),
    "numcodecs.crc32": LateCodec("frazil.codecs.checksums", "Crc32"),
    "numcodecs.adler32": LateCodec("frazil.codecs.checksums", "Adler32"),
    "numcodecs.fletcher32": LateCodec("frazil.codecs.checksums", "Fletcher32"),
    "numcodecs.crc32c": LateCodec("frazil.codecs.checksums", "NumcodecsCrc32c"),
    "numcodecs.delta": LateCodec("frazil.codecs.delta", "Delta"),
    "numcodecs.fixedscaleoffset": LateCodec("frazil.codecs.fixed_scale_offset", "FixedScaleOffset"),
    "numcodecs.quantize": LateCodec("frazil.codecs.quantize", "Quantize"),
    "numcodecs.bitround": LateCodec("frazil.codecs.bitround", "BitRound"),
    "numcodecs.astype": LateCodec("frazil.codecs.astype", "AsType"),
    "numcodecs.packbits": LateCodec("frazil.codecs.packbits", "PackBits"),
    "frazil.on_bytes": LateCodec("frazil.codecs.on_bytes", "OnBytes"),
}
KNOWN: Final[tuple[tuple[str, type[Codec] | LateCodec], ...]] = (
    *((codec.name, codec) for codec in AT_HAND),
    *LATE.items(),
    ("endian", Bytes),
)
