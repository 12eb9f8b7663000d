"""Shards and documents put together by hand, from the text of the specification alone, without any code under test."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence

from frazil.stores import MemoryStore

EMPTY = (2**64 - 1, 2**64 - 1)
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
CRC32C = {"name": "crc32c"}
CHECKED = (LITTLE, CRC32C)
Entries = Iterable[tuple[int, int]]
Codec = Mapping[str, object]


def crc32c(data: bytes) -> bytes:
    """The checksum (Castagnoli, reflected), little-endian."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return struct.pack("<I", value ^ 0xFFFFFFFF)


def index(entries: Entries, *, endian: str = "<", checksum: bool = True) -> bytes:
    """A shard index: (offset, nbytes) of each inner chunk, in C order."""
    data = b"".join(struct.pack(f"{endian}QQ", *entry) for entry in entries)
    return data + crc32c(data) if checksum else data


def sharding(
    inner: Sequence[int],
    codecs: Sequence[Codec] = (LITTLE,),
    index_codecs: Sequence[Codec] = CHECKED,
    location: str | None = "end",
) -> dict[str, object]:
    """The entry of the sharding codec; location None leaves index_location out."""
    configuration: dict[str, object] = {
        "chunk_shape": list(inner),
        "codecs": list(codecs),
        "index_codecs": list(index_codecs),
    }
    if location is not None:
        configuration["index_location"] = location
    return {"name": "sharding_indexed", "configuration": configuration}


def document(
    shape: Sequence[int], chunk: Sequence[int], codecs: Sequence[object], dtype: str = "uint8", fill: object = 0
) -> dict[str, object]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": list(codecs),
        "attributes": {},
    }


def stored(metadata: Mapping[str, object], **chunks: bytes) -> MemoryStore:
    """A store with an array; chunks by their keys, `_` for "/" ("c_0_1")."""
    store = MemoryStore()
    store.set("zarr.json", json.dumps(metadata).encode())
    for key, value in chunks.items():
        store.set(key.replace("_", "/"), value)
    return store
