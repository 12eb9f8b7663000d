"""Terms for the codecs of the draft's documents, and a registry of the codecs that its tests name."""

from __future__ import annotations

import json
from typing import NamedTuple

from frazil.metadata.draft.codec_chain import parse_chain

DEC2022 = "https://purl.org/zarr/spec/codecs/"
OLD = "https://purl.org/zarr/spec/codec/"
MINE = ("https://example.org/array", "https://example.org/serializer", "https://example.org/bytes")
ARRAY_FILTERS = ("delta", "fixedscaleoffset", "quantize", "bitround", "astype", "packbits")
BYTE_FILTERS = ("shuffle", "crc32", "adler32")


class Kinds:
    """A registry of the codecs that these tests name."""

    def codec_kind(self, name: str) -> int | None:
        if name in MINE:
            return MINE.index(name)
        short = name.removeprefix("numcodecs.")
        if short == name:
            return {"bytes": 1, "transpose": 0, "gzip": 2, "zstd": 2, "blosc": 2, "crc32c": 2}.get(name)
        return 0 if short in ARRAY_FILTERS else 2 if short in (*BYTE_FILTERS, "zlib", "bz2", "lz4", "lzma") else None


class Document(NamedTuple):
    """The members of a document that define a chain, and the properties of its data type."""

    codecs: object = None
    compressor: object = None
    attributes: dict[str, object] = {}
    reverse_axes: int = 0
    big: bool = False
    swaps: bool = True
    itemsize: int = 4
    old: bool = False

    def chain(self) -> list[object]:
        """The codecs, in the form of final documents; one without a configuration is its name."""
        members = json.loads(json.dumps(self._asdict()))
        return [(entry["configuration"] and entry) or entry["name"] for entry in self._entries(members)]

    def _entries(self, members: dict[str, object]) -> list[dict[str, object]]:
        made = parse_chain(**members, kinds=Kinds())  # type: ignore[arg-type]
        return [{"configuration": {}, **codec.to_json()} for codec in made.codecs]


def entry(name: str, **configuration: object) -> dict[str, object]:
    return {"type": f"{DEC2022}{name}/1.0", "configuration": configuration}


def compressor(name: str, **configuration: object) -> dict[str, object]:
    return {"codec": f"{OLD}{name}/1.0", "configuration": configuration}


def codec(name: str, **configuration: object) -> dict[str, object]:
    return {"name": name, "configuration": configuration}


LITTLE, BIG = codec("bytes", endian="little"), codec("bytes", endian="big")
GZIP = codec("gzip", level=1)
BLOSC = {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
DELTA = {"id": "delta", "dtype": "<i4", "astype": "<i4"}


def blosc(shuffle: str, typesize: int, cname: str = "lz4") -> dict[str, object]:
    return codec("blosc", cname=cname, clevel=5, shuffle=shuffle, typesize=typesize, blocksize=0)
