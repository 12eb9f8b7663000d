"""The codecs that the default registry knows. Those of the final Zarr v3 are at hand; those of old data are imported when a document names one."""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from frazil.codecs.array_to_array.transpose import Transpose
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.array_to_bytes.sharding_indexed import ShardingIndexed
from frazil.codecs.bytes_to_bytes.blosc import Blosc
from frazil.codecs.bytes_to_bytes.crc32c import Crc32c
from frazil.codecs.bytes_to_bytes.gzip import Gzip
from frazil.codecs.bytes_to_bytes.zstd import Zstd
from frazil.codecs.codec import Codec
from frazil.record import Record


class LateCodec(Record):
    """A codec by the name of its class, and the module that has it."""

    module: str
    name: str

    def load(self) -> type[Codec]:
        return cast("type[Codec]", getattr(import_module(self.module), self.name))


AT_HAND: Final[tuple[type[Codec], ...]] = (Bytes, Transpose, Gzip, Zstd, Blosc, Crc32c, ShardingIndexed)
LATE: Final[dict[str, LateCodec]] = {
    "numcodecs.zlib": LateCodec("frazil.codecs.bytes_to_bytes.zlib", "Zlib"),
    "numcodecs.bz2": LateCodec("frazil.codecs.bytes_to_bytes.bz2", "Bz2"),
    "numcodecs.lz4": LateCodec("frazil.codecs.bytes_to_bytes.lz4", "Lz4"),
    "numcodecs.lzma": LateCodec("frazil.codecs.bytes_to_bytes.lzma", "Lzma"),
    "numcodecs.shuffle": LateCodec("frazil.codecs.bytes_to_bytes.shuffle", "Shuffle"),
    "numcodecs.crc32": LateCodec("frazil.codecs.bytes_to_bytes.checksums", "Crc32"),
    "numcodecs.adler32": LateCodec("frazil.codecs.bytes_to_bytes.checksums", "Adler32"),
    "numcodecs.fletcher32": LateCodec("frazil.codecs.bytes_to_bytes.checksums", "Fletcher32"),
    "numcodecs.crc32c": LateCodec("frazil.codecs.bytes_to_bytes.checksums", "NumcodecsCrc32c"),
    "numcodecs.delta": LateCodec("frazil.codecs.array_to_array.delta", "Delta"),
    "numcodecs.fixedscaleoffset": LateCodec("frazil.codecs.array_to_array.fixed_scale_offset", "FixedScaleOffset"),
    "numcodecs.quantize": LateCodec("frazil.codecs.array_to_array.quantize", "Quantize"),
    "numcodecs.bitround": LateCodec("frazil.codecs.array_to_array.bitround", "BitRound"),
    "numcodecs.astype": LateCodec("frazil.codecs.array_to_array.astype", "AsType"),
    "numcodecs.packbits": LateCodec("frazil.codecs.array_to_array.packbits", "PackBits"),
    "frazil.on_bytes": LateCodec("frazil.codecs.bytes_to_bytes.on_bytes", "OnBytes"),
}
KNOWN: Final[tuple[tuple[str, type[Codec] | LateCodec], ...]] = (
    *((codec.name, codec) for codec in AT_HAND),
    *LATE.items(),
    ("endian", Bytes),
)
