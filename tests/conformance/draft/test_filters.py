"""Filters and rare compressors in arrays of the draft: exchanged with zarr-python 2.18, and next to attributes of the same name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.codecs import (
    Adler32,
    AsType,
    Blosc,
    Bytes,
    Bz2,
    Codec,
    Crc32,
    Crc32c,
    Delta,
    FixedScaleOffset,
    Fletcher32,
    Gzip,
    Lz4,
    Lzma,
    NumcodecsBitRound,
    NumcodecsPackBits,
    OnBytes,
    Quantize,
    Shuffle,
    Transpose,
    Zlib,
    Zstd,
)
from frazil.errors import MetadataError, UnknownExtensionError
from frazil.stores import MemoryStore
from tests.conformance.draft.zarr2 import Zarr2
from tests.strategies import same

LZMA_FILTERS = [{"id": 3, "dist": 4}, {"id": 0x21, "preset": 1}]
REVERSED = Transpose([1, 0])
CHAINS: list[tuple[str, Sequence[Codec]]] = [
    ("i4", [Bytes("little"), Bz2(1)]),
    ("i4", [Bytes("big"), Bz2(9)]),
    ("i4", [Bytes("little"), Lz4(1)]),
    ("i4", [Bytes("little"), Lzma()]),
    ("i4", [Bytes("little"), Lzma(2, preset=0)]),
    ("i4", [Bytes("little"), Lzma(3, filters=LZMA_FILTERS)]),
    ("i4", [Bytes("little"), Zlib(1), Lz4(5)]),
    ("i4", [Bytes("little"), Shuffle(4), Zstd(1)]),
    ("i4", [Bytes("big"), Crc32(), Adler32("end"), Fletcher32(), Gzip(1)]),
    ("i4", [Bytes("little"), Shuffle(4), OnBytes(Delta("u1")), Bz2(1)]),
    ("i4", [Delta("<i4"), Bytes("little"), Blosc("lz4", 5, "shuffle")]),
    ("i4", [Delta(">i4"), Bytes("big"), Zlib(3)]),
    ("i4", [Delta("<i4"), Bytes("big")]),
    ("i4", [REVERSED, Delta("<i4", "<i8"), Bytes("little"), Gzip(1)]),
    ("i4", [Delta("<u4"), Delta("<i4"), Bytes("little")]),
    ("f8", [FixedScaleOffset(0, 8, "<f8", "<i2"), Bytes("little"), Zstd(3)]),
    ("f8", [FixedScaleOffset(0, 8, "<f8", "<i2"), Delta("<i2"), Bytes("little"), Blosc("zstd", 1, "bitshuffle")]),
    ("f8", [AsType("<f4", "<f8"), Bytes("big")]),
    ("f8", [Quantize(3, "<f8", "<f4"), Bytes("little"), Zlib(1)]),
    ("f4", [NumcodecsBitRound(10), Bytes("little"), Gzip(5)]),
    ("bool", [NumcodecsPackBits(), Bytes(), Gzip(1)]),
]


def numbers(dtype: str, shape: tuple[int, ...] = (11, 7)) -> np.ndarray:
    """Numbers that all of the codecs preserve."""
    whole = np.random.default_rng(0).integers(-500, 500, shape)
    return whole > 0 if dtype == "bool" else (whole / 8 if dtype[0] == "f" else whole).astype(dtype)


@pytest.mark.rule("Z5", "Z6", "Z16")
@pytest.mark.parametrize("shards", [None, (8, 4)], ids=["plain", "sharded"])
@pytest.mark.parametrize(("dtype", "codecs"), CHAINS, ids=str)
def test_chains_are_read_by_zarr_python(
    zarr2: Zarr2, dtype: str, codecs: Sequence[Codec], shards: tuple[int, ...] | None, tmp_path: Path
) -> None:
    values, attributes = numbers(dtype), {"units": "m"}
    made = frazil.create_array(
        tmp_path / "h",
        path="a",
        data=values,
        chunks=(4, 2),
        shards=shards,
        codecs=codecs,
        attributes=attributes,
        zarr_format="draft-2021",
    )
    assert (zarr2.read(tmp_path / "h", "a") == values).all()
    array = frazil.open_array(tmp_path / "h", path="a", mode="r+")
    assert same(array[...], values)
    assert array.codecs == made.codecs or dtype != "i4", (
        "only what the byte order says of elements may be told otherwise"
    )
    zarr2.write(tmp_path / "h", "a", values[::-1].copy())
    assert same(array[...], values[::-1])
    array.attrs["more"] = 1
    array.resize((12, 7))
    array[2:5] = values[2:5]
    expected = np.zeros((12, 7), values.dtype)
    expected[:11] = values[::-1]
    expected[2:5] = values[2:5]
    assert (zarr2.read(tmp_path / "h", "a") == expected).all()
    again = frazil.open_array(tmp_path / "h", path="a")
    assert same(again[...], expected)
    assert again.attrs.asdict() == {**attributes, "more": 1}


@pytest.mark.rule("Z6")
@pytest.mark.parametrize("value", [[], "delta", [1], [{"name": "delta"}], [{"id": 3}]])
def test_attributes_of_the_users_named_filters(value: object) -> None:
    store = MemoryStore()
    array = frazil.create_array(store, data=np.arange(4), attributes={"filters": value}, zarr_format="draft-2021")
    array.attrs["more"] = 1
    array.resize((5,))
    again = frazil.open_array(store)
    assert again.attrs.asdict() == {"filters": value, "more": 1}
    assert again[...].tolist() == [0, 1, 2, 3, 0]


FILTERS = [{"id": "delta", "dtype": "<i8", "astype": "<i8"}]


@pytest.mark.rule("Z6")
def test_attributes_that_would_become_filters_are_refused() -> None:
    store = MemoryStore()
    with pytest.raises(MetadataError, match="filters of the array have that name"):
        frazil.create_array(store, data=np.arange(4), attributes={"filters": FILTERS}, zarr_format="draft-2021")
    assert list(store.list()) == []
    for codecs in ([], [Delta("<i8"), Bytes("little")]):
        array = frazil.create_array(MemoryStore(), data=np.arange(4), codecs=codecs, zarr_format="draft-2021")
        for value in (FILTERS, 1) if codecs else (FILTERS,):
            with pytest.raises(MetadataError) as caught:
                array.attrs["filters"] = value
            assert caught.value.path == "attributes.filters"
        array.attrs["other"] = 1
        assert array[...].tolist() == [0, 1, 2, 3]


@pytest.mark.rule("Z6")
def test_in_the_strict_dialect_they_are_attributes() -> None:
    store = MemoryStore()
    array = frazil.create_array(store, data=np.arange(4), attributes={"filters": FILTERS}, zarr_format="draft")
    array.attrs["more"] = [1]
    again = frazil.open_array(store)
    assert again.attrs.asdict() == {"filters": FILTERS, "more": [1]}
    assert again[...].tolist() == [0, 1, 2, 3]


@pytest.mark.rule("Z5", "D33")
@pytest.mark.parametrize(
    "codecs", [[Zstd(1)], [Zlib(1)], [Bz2(1)], [Delta("<i8"), Bytes("little")], [Crc32c()], [Gzip(1), Crc32()]], ids=str
)
def test_filters_that_the_strict_dialect_lacks_are_refused_first(codecs: list[Codec]) -> None:
    store = MemoryStore()
    with pytest.raises(MetadataError, match="cannot be expressed in the draft of December 2022") as caught:
        frazil.create_array(store, data=np.arange(4), codecs=codecs, zarr_format="draft")
    assert str(caught.value.path).startswith("codecs[")
    assert list(store.list()) == []


@pytest.mark.rule("Z6")
@pytest.mark.parametrize("name", ["json2", "msgpack2", "pickle", "vlen-utf8", "vlen-bytes", "vlen-array"])
def test_filters_of_objects_are_refused_by_name(name: str) -> None:
    store = MemoryStore()
    frazil.create_array(store, path="a", data=np.arange(4), zarr_format="draft-2021")
    (key,) = (key for key in store.list() if key.endswith("a.array.json"))
    document = json.loads(bytes(store.get(key)))
    store.set(key, json.dumps({**document, "attributes": {"filters": [{"id": name}]}}).encode())
    known = name.startswith("vlen")  # for data types that the draft does not have
    error, text = (MetadataError, f"codec {name} encodes the data types") if known else (UnknownExtensionError, name)
    with pytest.raises(error, match=text) as caught:
        frazil.open_array(store, path="a")
    assert (caught.value.path, caught.value.key) == ("codecs[0]", key) if known else caught.value.hint is not None
