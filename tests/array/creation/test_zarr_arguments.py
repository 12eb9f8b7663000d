"""Arguments and codec objects of zarr-python and numcodecs in create_array."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import frazil
from frazil.codecs import Blosc, Bytes, Codec, Crc32c, Delta, Gzip, Transpose, Zlib, Zstd
from frazil.errors import FrazilError, InvalidInputError, MetadataError


def new_array(**arguments: object) -> frazil.Array:
    return frazil.create(**{"shape": (6, 8), "dtype": "i4", "chunks": (2, 4), **arguments})


class OfZarr:
    """As codecs and other objects of zarr-python describe themselves."""

    def __init__(self, name: str, **configuration: object) -> None:
        self.document = {"name": name, "configuration": configuration}

    def to_dict(self) -> dict[str, object]:
        return self.document


class OfNumcodecs:
    """As codecs of numcodecs describe themselves."""

    def __init__(self, name: str, **configuration: object) -> None:
        self.configuration = {"id": name, **configuration}

    def get_config(self) -> dict[str, object]:
        return self.configuration


DEFAULT = frazil.create(1, dtype="i4").codecs
CHAINS = [
    ({}, DEFAULT),
    ({"compressors": "auto"}, DEFAULT),
    ({"compressors": None}, (Bytes("little"),)),
    ({"compressors": ()}, (Bytes("little"),)),
    ({"compressors": Zstd(level=3)}, (Bytes("little"), Zstd(level=3))),
    (
        {"compressors": ["crc32c", {"name": "gzip", "configuration": {"level": 1}}]},
        (Bytes("little"), Crc32c(), Gzip(1)),
    ),
    ({"filters": Transpose((1, 0)), "serializer": Bytes("big")}, (Transpose((1, 0)), Bytes("big"), *DEFAULT[1:])),
    ({"filters": [Delta("<i4")], "compressors": None}, (Delta("<i4"), Bytes("little"))),
    ({"compressors": OfZarr("zstd", level=3, checksum=False)}, (Bytes("little"), Zstd(level=3))),
    ({"filters": OfZarr("transpose", order=(1, 0)), "compressors": None}, (Transpose((1, 0)), Bytes("little"))),
    ({"compressors": OfNumcodecs("zlib", level=2)}, (Bytes("little"), Zlib(level=2))),
    ({"compressors": {"id": "zlib", "level": 2}}, (Bytes("little"), Zlib(level=2))),
    (
        {"compressors": OfNumcodecs("blosc", cname="lz4", clevel=5, shuffle=1, blocksize=0)},
        (Bytes("little"), Blosc("lz4", 5, "shuffle", 4)),
    ),
    (
        {"filters": OfNumcodecs("delta", dtype="<i4", astype="<i4"), "compressors": None},
        (Delta("<i4"), Bytes("little")),
    ),
    ({"codecs": [OfZarr("bytes", endian="big"), OfNumcodecs("gzip", level=1)]}, (Bytes("big"), Gzip(1))),
]


@pytest.mark.parametrize(("arguments", "chain"), CHAINS)
@pytest.mark.parametrize("shards", [None, (4, 8)])
def test_codecs_by_kind_and_by_objects(
    arguments: dict[str, object], chain: tuple[Codec, ...], shards: tuple[int, ...] | None
) -> None:
    array = new_array(**arguments, shards=shards)
    assert [codec.extension() for codec in array.codecs] == [codec.extension() for codec in chain]
    array[...] = np.arange(48).reshape(6, 8)
    assert array[3, 5] == 29


def test_blosc_of_zarr_python_follows_the_data_type() -> None:
    blosc = OfZarr("blosc", typesize=1, cname="zstd", clevel=5, shuffle="bitshuffle", blocksize=0)
    assert new_array(compressors=blosc).compressors == (Blosc("zstd", 5, "bitshuffle", 1),)
    blosc._tunable_attrs = {"typesize", "shuffle"}  # type: ignore[attr-defined] # which it has where the user gave neither
    assert new_array(compressors=blosc).compressors == (Blosc("zstd", 5, "shuffle", 4),)


def test_an_entry_of_blosc_may_leave_typesize_to_the_data_type() -> None:
    """As in zarr-python. Documents must have it."""
    entry = {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 2, "shuffle": "shuffle"}}
    for arguments in ({"compressors": entry}, {"codecs": [entry]}):
        assert new_array(**arguments).compressors == (Blosc("lz4", 2, "shuffle", 4),)
    index_codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    sharding: dict[str, object] = {"name": "sharding_indexed"}
    sharding["configuration"] = {
        "chunk_shape": [1, 2],
        "codecs": [{"name": "bytes"}, entry],
        "index_codecs": index_codecs,
    }
    assert new_array(dtype="u1", codecs=[sharding]).compressors == (Blosc("lz4", 2, "shuffle", 1),)
    text = frazil.create_array({}, shape=(2,), dtype=str, compressors=entry)
    text[:] = ["a", "b"]
    assert text[1] == "b"


def test_settings_are_checked_and_change_nothing() -> None:
    for settings in (
        {"order": "C"},
        {"order": "F", "write_empty_chunks": True},
        {"config": {"order": "F", "write_empty_chunks": False}},
        {"config": SimpleNamespace(order="C", write_empty_chunks=True)},
        {"config": {"read_missing_chunks": True, "sharding_coalesce_max_bytes": 5}},
    ):
        assert new_array(**settings).metadata == new_array().metadata
    for wrong in (
        {"order": "K"},
        {"write_empty_chunks": 2},
        {"config": {"colour": 1}},
        {"config": {"order": 1}},
        {"config": {"read_missing_chunks": False}},
    ):
        with pytest.raises(InvalidInputError):
            new_array(**wrong)


def test_codecs_are_given_once() -> None:
    with pytest.raises(InvalidInputError, match="both given"):
        new_array(codecs=[], compressors=None)


@pytest.mark.parametrize(
    "wrong",
    [{"compressors": 5}, {"compressors": "none"}, {"compressors": {"id": "none"}}, {"filters": [OfZarr("none")]}, {"serializer": Zstd()},
     {"filters": Zstd()}, {"compressors": "transpose"}, {"serializer": [Bytes()]}, {"colours": 1}],
)  # fmt: skip
def test_codecs_that_are_none_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(FrazilError):
        new_array(**wrong)


@pytest.mark.parametrize(
    ("chunks", "shape"),
    [(5, (5, 5)), (np.int64(3), (3, 3)), (False, (6, 8)), (True, (6, 8)), ((-1, 4), (6, 4)), ((2, None), (2, 8)), ([1, -1], (1, 8))],
)  # fmt: skip
def test_shapes_of_chunks(chunks: object, shape: tuple[int, ...]) -> None:
    assert new_array(chunks=chunks).chunks == shape


@pytest.mark.parametrize(
    ("shards", "shape"),
    [(4, (4, 4)), (False, None), (True, (8, 8)), ((4, -1), (4, 8)), ({"shape": (2, 4), "index_location": "start"}, (2, 4))],
)  # fmt: skip
def test_shapes_of_shards(shards: object, shape: tuple[int, ...] | None) -> None:
    assert new_array(shards=shards).shards == shape


@pytest.mark.parametrize("wrong", [0, -1, (2, -2), (0, 1), "none", (1, 2, 3), 1.5, (True, 2)])
def test_shapes_that_are_none_are_refused(wrong: object) -> None:
    with pytest.raises(MetadataError):
        new_array(chunks=wrong)
    with pytest.raises(MetadataError):
        new_array(shards={"form": wrong})


def test_index_location_of_shards() -> None:
    array = new_array(shards={"shape": (4, 8), "index_location": "start"})
    assert array.metadata.codecs[0].configuration["index_location"] == "start"
    with pytest.raises(FrazilError):
        new_array(shards={"shape": (4, 8), "index_location": "middle"})


@pytest.mark.parametrize("keys", [("v2", "."), {"name": "v2", "separator": "."}, OfZarr("v2", separator="."), "v2"])
def test_forms_of_chunk_key_encodings(keys: object) -> None:
    array = new_array(chunk_key_encoding=keys)
    array[...] = 1
    assert array.store.get("2.1") is not None


def test_the_arguments_are_those_of_groups_too() -> None:
    group = frazil.group()
    assert group.create_array("a", shape=4, dtype="u1", compressors=None).codecs == (Bytes(),)
    made_here = group.create_arrays({"b": {"shape": 4, "dtype": "u1", "compressors": None, "order": "F"}})
    assert made_here["b"].codecs == (Bytes(),)
    assert group.require_array("c", shape=4, dtype="u1", filters=None, compressors=Zstd(1)).compressors == (Zstd(1),)
    opened = frazil.open_array(group.store, "a", path="d", shape=4, dtype="u1", compressors=None)
    assert opened.codecs == (Bytes(),)
    copy = frazil.from_array(group.store, name="e", data=group["c"], compressors=None)
    assert copy.codecs == (Bytes(),)
