"""The codecs of the default registry. Those of new arrays are imported at once; the others when a document names one."""

from __future__ import annotations

from typing import Final, cast

from frazil.base.late import imported
from frazil.base.record import Record
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.array_to_bytes.sharding_indexed import ShardingIndexed
from frazil.codecs.bytes_to_bytes.crc32c import Crc32c
from frazil.codecs.bytes_to_bytes.zstd import NumcodecsZstd, Zstd
from frazil.codecs.codec import Codec


class LateCodec(Record):
    """A codec by the name of its class, and the module that has it."""

    module: str
    name: str

    def load(self) -> type[Codec]:
        return cast("type[Codec]", getattr(imported(self.module), self.name))


LOADED: Final[tuple[type[Codec], ...]] = (Bytes, Zstd, Crc32c, ShardingIndexed, NumcodecsZstd)
LATE: Final[dict[str, LateCodec]] = {
    "transpose": LateCodec("frazil.codecs.array_to_array.transpose", "Transpose"),
    "gzip": LateCodec("frazil.codecs.bytes_to_bytes.gzip", "Gzip"),
    "blosc": LateCodec("frazil.codecs.bytes_to_bytes.blosc", "Blosc"),
    "numcodecs.gzip": LateCodec("frazil.codecs.bytes_to_bytes.gzip", "NumcodecsGzip"),
    "numcodecs.blosc": LateCodec("frazil.codecs.bytes_to_bytes.blosc", "NumcodecsBlosc"),
    "reshape": LateCodec("frazil.codecs.array_to_array.reshape", "Reshape"),
    "zarrs.squeeze": LateCodec("frazil.codecs.array_to_array.reshape", "Squeeze"),
    "zarrs.morton": LateCodec("frazil.codecs.array_to_array.morton", "Morton"),
    "zarrs.delta": LateCodec("frazil.codecs.array_to_array.filters", "ZarrsDelta"),
    "bitround": LateCodec("frazil.codecs.array_to_array.bitround", "BitRound"),
    "scale_offset": LateCodec("frazil.codecs.array_to_array.scale_offset", "ScaleOffset"),
    "cast_value": LateCodec("frazil.codecs.array_to_array.cast_value", "CastValue"),
    "n5_default": LateCodec("frazil.codecs.array_to_bytes.n5_default", "N5Default"),
    "numcodecs.jenkins_lookup3": LateCodec("frazil.codecs.bytes_to_bytes.checksums", "JenkinsLookup3"),
    "packbits": LateCodec("frazil.codecs.array_to_bytes.packbits", "PackBits"),
    "zfp": LateCodec("frazil.codecs.array_to_bytes.zfp", "Zfp"),
    "numcodecs.zfpy": LateCodec("frazil.codecs.array_to_bytes.zfp", "NumcodecsZfpy"),
    "numcodecs.pcodec": LateCodec("frazil.codecs.array_to_bytes.pcodec", "Pcodec"),
    "zarrs.gdeflate": LateCodec("frazil.codecs.bytes_to_bytes.gdeflate", "Gdeflate"),
    "conditional": LateCodec("frazil.codecs.bytes_to_bytes.conditional", "Conditional"),
    "numcodecs.zlib": LateCodec("frazil.codecs.bytes_to_bytes.compressors", "Zlib"),
    "numcodecs.bz2": LateCodec("frazil.codecs.bytes_to_bytes.compressors", "Bz2"),
    "numcodecs.base64": LateCodec("frazil.codecs.bytes_to_bytes.base64", "Base64"),
    "numcodecs.lz4": LateCodec("frazil.codecs.bytes_to_bytes.compressors", "Lz4"),
    "numcodecs.lzma": LateCodec("frazil.codecs.bytes_to_bytes.compressors", "Lzma"),
    "numcodecs.shuffle": LateCodec("frazil.codecs.bytes_to_bytes.shuffle", "Shuffle"),
    "numcodecs.crc32": LateCodec("frazil.codecs.bytes_to_bytes.checksums", "Crc32"),
    "numcodecs.adler32": LateCodec("frazil.codecs.bytes_to_bytes.checksums", "Adler32"),
    "numcodecs.fletcher32": LateCodec("frazil.codecs.bytes_to_bytes.checksums", "Fletcher32"),
    "numcodecs.crc32c": LateCodec("frazil.codecs.bytes_to_bytes.checksums", "NumcodecsCrc32c"),
    "numcodecs.delta": LateCodec("frazil.codecs.array_to_array.filters", "Delta"),
    "numcodecs.fixedscaleoffset": LateCodec("frazil.codecs.array_to_array.filters", "FixedScaleOffset"),
    "numcodecs.quantize": LateCodec("frazil.codecs.array_to_array.filters", "Quantize"),
    "numcodecs.bitround": LateCodec("frazil.codecs.array_to_array.bitround", "NumcodecsBitRound"),
    "numcodecs.astype": LateCodec("frazil.codecs.array_to_array.filters", "AsType"),
    "numcodecs.packbits": LateCodec("frazil.codecs.array_to_array.packbits", "NumcodecsPackBits"),
    "numcodecs.categorize": LateCodec("frazil.codecs.array_to_array.categorize", "Categorize"),
    "numcodecs.json2": LateCodec("frazil.codecs.array_to_bytes.objects", "Json2"),
    "numcodecs.msgpack2": LateCodec("frazil.codecs.array_to_bytes.objects", "MsgPack2"),
    "vlen-utf8": LateCodec("frazil.codecs.array_to_bytes.vlen", "VlenUtf8"),
    "vlen-bytes": LateCodec("frazil.codecs.array_to_bytes.vlen", "VlenBytes"),
    "vlen-array": LateCodec("frazil.codecs.array_to_bytes.vlen", "VlenArray"),
    "zarrs.vlen": LateCodec("frazil.codecs.array_to_bytes.zarrs_vlen", "ZarrsVlen"),
    "zarrs.vlen_v2": LateCodec("frazil.codecs.array_to_bytes.zarrs_vlen", "ZarrsVlenV2"),
    "zarrs.optional": LateCodec("frazil.codecs.array_to_bytes.zarrs_optional", "ZarrsOptional"),
    "frazil.on_bytes": LateCodec("frazil.codecs.bytes_to_bytes.on_bytes", "OnBytes"),
}
# is in no registry: loading a pickle runs code
PICKLE: Final = LateCodec("frazil.codecs.array_to_bytes.objects", "Pickle")
# other names that zarrs has written or reads
ALIASES: Final[dict[str, type[Codec] | LateCodec]] = {
    "endian": Bytes,
    "zarrs.bitround": LATE["bitround"],
    "zarrs.zfp": LATE["zfp"],
    "zfpy": LATE["numcodecs.zfpy"],
    "optional": LATE["zarrs.optional"],
    **{f"numcodecs.{name}": LATE[name] for name in ("vlen-utf8", "vlen-bytes", "vlen-array")},
    **{
        f"https://codec.zarrs.dev/{kind}/{name.rpartition('.')[2].replace('-', '_')}": LATE[name]
        for kind, names in (
            (
                "array_to_bytes",
                (
                    *("bitround", "zfp", "numcodecs.pcodec", "numcodecs.zfpy", "zarrs.vlen", "zarrs.vlen_v2"),
                    *("vlen-utf8", "vlen-bytes", "vlen-array", "packbits", "zarrs.optional"),
                ),
            ),
            ("array_to_array", ("bitround", "zarrs.squeeze", "zarrs.morton", "zarrs.delta")),
            ("bytes_to_bytes", ("zarrs.gdeflate", "numcodecs.fletcher32", "numcodecs.bz2")),
        )
        for name in names
    },
}
BUILTIN_CODECS: Final[tuple[tuple[str, type[Codec] | LateCodec], ...]] = (
    *((codec.name, codec) for codec in LOADED),
    *LATE.items(),
    *ALIASES.items(),
)
