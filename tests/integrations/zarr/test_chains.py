"""Which chains of codecs and data types the pipeline runs itself: all that Frazil opens, except those in LEFT."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zarr", minversion="3.1")

import zarr
from zarr import codecs
from zarr.codecs import ShardingCodec, TransposeCodec

import frazil
import frazil.zarr
from frazil.errors import FallbackWarning, FrazilError

NUMBERS = np.arange(40, dtype="f4").reshape(10, 4)
DATA_TYPES = (
    "bool",
    "i1",
    "i2",
    "i4",
    "i8",
    "u1",
    "u2",
    "u4",
    "u8",
    "f2",
    "f4",
    "f8",
    "c8",
    "c16",
    ">i4",
    ">f8",
    "M8[s]",
    "m8[D]",
    "S5",
    "U4",
    "V6",
)
FIELDS = np.zeros(10, [("a", "i4"), ("b", "f8")])
TEXT = np.array(["a", "bcd", "é", "", "x"] * 2, np.dtypes.StringDType()) if hasattr(np.dtypes, "StringDType") else None


def numcodecs(name: str, **configuration: object) -> dict[str, object]:
    return {"name": f"numcodecs.{name}", "configuration": configuration}


OPTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{f"data type {name}": (np.zeros(10, name), {}) for name in DATA_TYPES},
    "data type of fields": (FIELDS, {}),
    **({} if TEXT is None else {"data type string": (TEXT, {})}),
    **{
        name: (NUMBERS, {"compressors": [made]})
        for name, made in {
            "blosc": codecs.BloscCodec(cname="lz4", shuffle="bitshuffle"),
            "gzip": codecs.GzipCodec(),
            "zstd": codecs.ZstdCodec(),
            "crc32c": codecs.Crc32cCodec(),
            **{name: numcodecs(name) for name in ("lz4", "bz2", "lzma", "zlib", "zstd", "blosc", "gzip")},
            **{name: numcodecs(name) for name in ("crc32", "adler32", "fletcher32", "jenkins_lookup3")},
            "shuffle": numcodecs("shuffle", elementsize=4),
        }.items()
    },
    "no compressor": (NUMBERS, {"compressors": []}),
    "transpose": (NUMBERS, {"filters": [TransposeCodec(order=(1, 0))]}),
    "sharding within zstd": (NUMBERS, {"serializer": ShardingCodec(chunk_shape=(1, 2)), "compressors": codecs.ZstdCodec()}),
    "sharding in sharding": (
        NUMBERS,
        {"serializer": ShardingCodec(chunk_shape=(2, 4), codecs=[ShardingCodec(chunk_shape=(1, 2))]), "compressors": []},
    ),
    "index at the start": (NUMBERS, {"serializer": ShardingCodec(chunk_shape=(1, 2), index_location="start"), "compressors": []}),
    "transposed shards": (
        NUMBERS,
        {"filters": [TransposeCodec(order=(1, 0))], "serializer": ShardingCodec(chunk_shape=(2, 2)), "compressors": []},
    ),
    "delta": (NUMBERS, {"filters": [numcodecs("delta", dtype="<f4")]}),
    "bitround": (NUMBERS, {"filters": [numcodecs("bitround", keepbits=23)]}),
    "fixedscaleoffset": (NUMBERS, {"filters": [numcodecs("fixedscaleoffset", offset=0, scale=1, dtype="<f4", astype="<i4")]}),
    "quantize": (NUMBERS, {"filters": [numcodecs("quantize", digits=5, dtype="<f4")]}),
    "astype": (NUMBERS, {"filters": [numcodecs("astype", encode_dtype="<f8", decode_dtype="<f4")]}),
    "packbits": (np.ones((10, 8), "bool"), {"filters": [numcodecs("packbits")]}),
    "v2": (NUMBERS, {"zarr_format": 2}),
    "keys as in v2": (NUMBERS, {"chunk_key_encoding": {"name": "v2", "separator": "."}}),
}  # fmt: skip
# Chains that Frazil opens but the pipeline leaves to zarr-python's own, and why.
LEFT: dict[str, str] = {
    "v2": "metadata of Zarr v2 has codecs of another kind",
}


@pytest.fixture(autouse=True)
def ours() -> Iterator[None]:
    with zarr.config.set({"codec_pipeline.path": "frazil.zarr.CodecPipeline"}):
        yield


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", OPTIONS)
def test_a_chain(name: str, tmp_path: Path) -> None:
    values, options = OPTIONS[name]
    place = str(tmp_path / "a.zarr")
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        a = zarr.create_array(place, shape=values.shape, dtype=values.dtype, chunks=(2, *values.shape[1:]), **options)
        a[...] = values
        assert np.array_equal(a[...], values)
        assert np.array_equal(a[3:9:2], values[3:9:2])
        a[4] = values[1]
        assert np.array_equal(zarr.open_array(place, mode="r")[4], values[1])
    left = [str(one.message) for one in recorded if one.category is FallbackWarning]
    try:
        opened = np.array_equal(frazil.open_array(place)[5], values[5])
    except FrazilError:
        opened = False
    if name in LEFT:
        assert left
    else:
        assert bool(left) is not opened, left


def test_the_list_names_chains() -> None:
    assert LEFT.keys() <= OPTIONS.keys()
