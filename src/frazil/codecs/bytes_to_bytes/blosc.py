"""The `blosc` codec (Zarr v3.1 core, blosc codec; c-blosc 1 format). The kernel does the work."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.codecs.codec import BytesToBytes, ChunkSpec, NativeCodec, ParseCodecs, choice, integer
from frazil.errors import MetadataError

CNAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")


class Blosc(BytesToBytes):
    """cname: the compressor; clevel: 0 to 9; shuffle: noshuffle, shuffle (bytes) or bitshuffle, None: shuffle, or bitshuffle for elements
    of one byte; typesize: bytes of an element for the shuffle, None: those of the data type; blocksize: bytes, 0 lets blosc choose."""

    name = "blosc"
    # the specification requires the first three, but documents without them can be read
    optional = ("cname", "clevel", "shuffle", "blocksize", "typesize")
    not_null = ("shuffle", "typesize")
    omits_null = True
    most_bytes = 2**31 - 1 - 16  # BLOSC_MAX_BUFFERSIZE

    def __init__(
        self,
        cname: str = "zstd",
        clevel: int = 5,
        shuffle: str | None = None,
        typesize: int | None = None,
        blocksize: int = 0,
    ) -> None:
        self.cname = choice(cname, "cname", CNAMES)
        self.clevel = integer(clevel, "clevel", 0, 9)
        self.shuffle = None if shuffle is None else choice(shuffle, "shuffle", SHUFFLES)
        self.typesize = None if typesize is None else integer(typesize, "typesize", 1, 2**31 - 1)
        self.blocksize = integer(blocksize, "blocksize", 0, 2**31 - 1)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, object], parse: ParseCodecs) -> Blosc:
        codec = super().from_configuration(configuration, parse)
        if codec.typesize is None and codec.shuffle not in (None, "noshuffle"):
            raise MetadataError(f"typesize is required with shuffle {codec.shuffle}, but missing", path="typesize")
        return codec

    def resolved(self, spec: ChunkSpec) -> Blosc:
        itemsize = spec.dtype.itemsize
        shuffle = self.shuffle or ("shuffle" if itemsize > 1 else "bitshuffle")
        return Blosc(self.cname, self.clevel, shuffle, self.typesize or itemsize, self.blocksize)

    def native(self) -> NativeCodec | None:
        shuffle = SHUFFLES.index(self.shuffle or "noshuffle")
        # blosc stores the size of an element in one byte; it shuffles by single bytes if the size does not fit
        typesize = self.typesize or 1
        return (self.name, self.cname, self.clevel, shuffle, typesize if typesize <= 255 else 1, self.blocksize)


class NumcodecsBlosc(BytesToBytes):
    """blosc under the name that zarr-python writes for numcodecs. It shuffles single bytes. shuffle: -1 (bits), 0 (none), 1 (bytes) or 2 (bits)."""

    name = "numcodecs.blosc"
    optional = ("cname", "clevel", "shuffle", "blocksize")
    most_bytes = Blosc.most_bytes

    def __init__(self, cname: str = "lz4", clevel: int = 5, shuffle: int = 1, blocksize: int = 0) -> None:
        self.cname = choice(cname, "cname", CNAMES)
        self.clevel = integer(clevel, "clevel", 0, 9)
        self.shuffle = integer(shuffle, "shuffle", -1, 2)
        self.blocksize = integer(blocksize, "blocksize", 0, 2**31 - 1)

    def native(self) -> NativeCodec | None:
        return ("blosc", self.cname, self.clevel, self.shuffle % 3, 1, self.blocksize)
