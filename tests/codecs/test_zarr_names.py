"""The names of zarr.codecs: all of them exist here, take its arguments, and write the same documents."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import frazil
from frazil import codecs

VALUES = np.arange(64, dtype="i4").reshape(8, 8)
CODECS: list[dict[str, Any]] = [
    {"compressors": "BloscCodec(cname='lz4', clevel=3, shuffle='bitshuffle')"},
    {"compressors": "BloscCodec(cname='zstd', clevel=1, shuffle='shuffle')"},
    {"compressors": "GzipCodec(level=1)"},
    {"compressors": "ZstdCodec(level=3, checksum=True)"},
    {"compressors": "Crc32cCodec()"},
    {"serializer": "BytesCodec(endian='big')"},
    {"serializer": "BytesCodec(endian='little')"},
    {"filters": "TransposeCodec(order=(1, 0))"},
    {
        "serializer": "ShardingCodec(chunk_shape=(2, 2), codecs=[zarr.codecs.BytesCodec(), zarr.codecs.GzipCodec(level=1)], index_codecs=[zarr.codecs.BytesCodec(), "
        "zarr.codecs.Crc32cCodec()], index_location='start')",
    },
    {"filters": "numcodecs.Delta(dtype='int32')"},
    {"compressors": "numcodecs.LZMA(preset=1)"},
    {"compressors": "numcodecs.Zlib(level=1)"},
    {"compressors": "numcodecs.Blosc(cname='zstd', clevel=3)"},
]


def codec_arguments(library: Any, given: dict[str, str]) -> Any:
    names = {"zarr": library, "numcodecs": __import__(f"{library.__name__}.codecs.numcodecs", fromlist=["Delta"])}
    return {
        kind: eval(text if text == "None" or text.startswith("numcodecs") else f"zarr.codecs.{text}", names)
        for kind, text in given.items()
    }


@pytest.mark.parametrize("given", CODECS, ids=lambda given: " ".join(given.values())[:30])
def test_documents_are_those_of_zarr_python(given: dict[str, str]) -> None:
    held: dict[str, bytes] = {}
    others: dict[str, Any] = {} if "compressors" in given else {"compressors": None}
    array = frazil.create_array(held, data=VALUES, chunks=(4, 4), **codec_arguments(frazil, given), **others)
    assert np.array_equal(array[...], VALUES)
    zarr = pytest.importorskip("zarr")
    store = zarr.storage.MemoryStore()
    zarr.create_array(store, data=VALUES, chunks=(4, 4), **codec_arguments(zarr, given), **others)
    ours, theirs = (
        json.loads(held["zarr.json"])["codecs"],
        json.loads(store._store_dict["zarr.json"].to_bytes())["codecs"],
    )
    for entry in (*ours, *theirs):  # a default of zarr-python that changes nothing
        entry.setdefault("configuration", {}).pop("id", None)
    if "numcodecs." not in str(given):  # members that numcodecs leaves out are written here
        assert ours == theirs


def test_all_codec_names_of_zarr_python_exist() -> None:
    zarr = pytest.importorskip("zarr")
    assert {name for name in zarr.codecs.__all__ if name[0].isupper() and not hasattr(codecs, name)} <= {
        "CastValue",  # newer than the names here
        "ScaleOffset",
        "SubchunkWriteOrder",  # a type, of annotations
    }
    theirs = pytest.importorskip("zarr.codecs.numcodecs")
    assert {name for name in dir(theirs) if name[0].isupper() and name[0] != "_"} - set(codecs.numcodecs.__all__) <= {
        "Final",
        "Self",
    }


@pytest.mark.parametrize("name", ["gzip", "zstd", "blosc", "crc32c", "numcodecs.zlib", "numcodecs.blosc"])
def test_a_codec_without_configuration(name: str) -> None:
    """As other implementations write it: its members have defaults, and reading needs none of them."""
    held: dict[str, bytes] = {}
    frazil.create_array(held, data=VALUES, codecs=["bytes", name])
    document = json.loads(held["zarr.json"])
    document["codecs"][1] = {"name": name}
    held["zarr.json"] = json.dumps(document).encode()
    array = frazil.open_array(held, "r+")
    assert np.array_equal(array[...], VALUES)
    array[0] = 1
    assert array[0].tolist() == [1] * 8
