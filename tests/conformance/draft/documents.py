"""Hierarchies of the draft put together by hand, from the text of the document alone, without any code under test."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Iterable, Mapping, Sequence

import pytest

import frazil
from frazil.errors import FrazilError, MetadataError, UnknownExtensionError
from frazil.stores import MemoryStore

CORE = "https://purl.org/zarr/spec/core/3.0"
OLD_CORE = "https://purl.org/zarr/spec/protocol/core/3.0"
JSON_ENCODING = {"type": "json", "metadata_key_suffix": ".json"}
ENTRY: Mapping[str, object] = {"zarr_format": CORE, "metadata_encoding": JSON_ENCODING, "extensions": []}
OLD_ENTRY: Mapping[str, object] = {
    "zarr_format": OLD_CORE,
    "metadata_encoding": OLD_CORE,
    "metadata_key_suffix": ".json",
    "extensions": [],
}
SHARDING = "https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0"
OLD_SHARDING = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0"
EXTENSIONS = "https://purl.org/zarr/spec/extensions/data-types"
MISSING = object()  # a member to leave out
EMPTY = (2**64 - 1, 2**64 - 1)

# The example of the document: 64-bit floats in 10 by 10 chunks, gzip.
EXAMPLE = """{
    "shape": [10000, 1000],
    "data_type": "<f8",
    "chunk_grid": {"type": "regular", "chunk_shape": [1000, 100], "separator" : "/"},
    "chunk_memory_layout": "C",
    "codecs": [{"type": "https://purl.org/zarr/spec/codecs/gzip/1.0", "configuration": {"level": 1}}],
    "fill_value": "NaN",
    "extensions": [],
    "attributes": {"foo": 42, "bar": "apples", "baz": [1, 2, 3, 4]}
}"""
DATETIME_EXAMPLE = """{
    "shape": [10000, 1000],
    "data_type": {
        "extension": "https://purl.org/zarr/spec/extensions/data-types/datetime/1.0",
        "type": "<M8[ns]",
        "fallback": "<i8"
    },
    "chunk_grid": {"type": "regular", "chunk_shape": [1000, 100], "separator": "/"},
    "chunk_memory_layout": "C",
    "codecs": [{"type": "https://purl.org/zarr/spec/codecs/gzip/1.0", "configuration": {"level": 1}}],
    "fill_value": null,
    "extensions": [],
    "attributes": {}
}"""


def codec(name: str, **configuration: object) -> dict[str, object]:
    """An entry of `codecs`."""
    return {"type": f"https://purl.org/zarr/spec/codecs/{name}/1.0", "configuration": configuration}


def compressor(name: str, **configuration: object) -> dict[str, object]:
    """The member of the older dialect."""
    return {"codec": f"https://purl.org/zarr/spec/codec/{name}/1.0", "configuration": configuration}


def sharding(per_shard: Sequence[int], uri: str = SHARDING, **change: object) -> dict[str, object]:
    """An entry of `storage_transformers`."""
    return changed(
        {"extension": uri, "type": "indexed", "configuration": {"chunks_per_shard": list(per_shard)}}, change
    )


def extension_type(name: str, of: object, **more: object) -> dict[str, object]:
    return {"extension": f"{EXTENSIONS}/{name}/1.0", "type": of, **more}


def changed(document: Mapping[str, object], change: Mapping[str, object]) -> dict[str, object]:
    """A document with some members replaced, added or left out (MISSING)."""
    return {name: value for name, value in {**copy.deepcopy(dict(document)), **change}.items() if value is not MISSING}


def array(
    shape: Sequence[int] = (4,), chunk: Sequence[int] = (2,), data_type: object = "uint8", **change: object
) -> dict[str, object]:
    """The document of an array, with `change` of its members."""
    grid = {"type": "regular", "chunk_shape": list(chunk), "separator": "/"}
    document = {
        "shape": list(shape),
        "data_type": data_type,
        "chunk_grid": grid,
        "chunk_memory_layout": "C",
        "fill_value": 0,
        "extensions": [],
        "attributes": {},
    }
    return changed(document, change)


def hierarchy(values: Mapping[str, object] = {}, entry: object = ENTRY) -> MemoryStore:
    """A store with zarr.json and these values by key: bytes or text unchanged, documents as JSON."""
    store = MemoryStore()
    for key, value in {"zarr.json": entry, **values}.items():
        if value is not MISSING:
            store.set(key, encoded(value))
    return store


def encoded(value: object) -> bytes:
    return value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()


def one(document: object, chunks: Mapping[str, bytes] = {}, entry: object = ENTRY) -> MemoryStore:
    """A hierarchy with one array, `a`; chunks by their names ("c0/1")."""
    return hierarchy(
        {"meta/a.array.json": document, **{f"data/a/{chunk}": value for chunk, value in chunks.items()}}, entry
    )


def old(document: object, chunks: Mapping[str, bytes] = {}, entry: object = OLD_ENTRY) -> MemoryStore:
    """Like `one`, in the older dialect."""
    return hierarchy(
        {"meta/root/a.array.json": document, **{f"data/root/a/{chunk}": value for chunk, value in chunks.items()}},
        entry,
    )


def opened(store: MemoryStore, **arguments: object) -> frazil.Array:
    """The array `a`."""
    return frazil.open_array(store, path="a", **arguments)


def refusal(store: MemoryStore, path: str = "a", **arguments: object) -> FrazilError:
    """The error that opening the node raises. The store must be unchanged."""
    before = contents(store)
    with pytest.raises((MetadataError, UnknownExtensionError)) as caught:
        frazil.open(store, path=path, **arguments)
    assert contents(store) == before
    return caught.value


def refused(document: object, entry: object = ENTRY) -> str | None:
    """The member that the error names when the array with this document is refused."""
    return refusal(one(document, entry=entry)).path


def refused_old(document: object) -> str | None:
    return refusal(old(document)).path


def contents(store: MemoryStore) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


def document(store: MemoryStore, key: str = "meta/a.array.json") -> dict[str, object]:
    """A document as it is stored."""
    value = store.get(key)
    assert value is not None, (key, store.list())
    return json.loads(value)


def index(entries: Iterable[tuple[int, int]]) -> bytes:
    """A shard index of the transformer: (offset, nbytes) of each chunk, in C order; no checksum."""
    return b"".join(struct.pack("<QQ", *entry) for entry in entries)
