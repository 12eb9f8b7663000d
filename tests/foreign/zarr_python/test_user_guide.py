"""The topics of zarr-python's user guide, over our stores and through our pipeline: each script gives the same results as over zarr-python's own store and
pipeline.

The scripts are our own. Impossible ones are listed, with the reason, and must fail."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zarr", minversion="3.0")

import numcodecs
import zarr
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.storage import MemoryStore

import frazil
import frazil.zarr

pytestmark = pytest.mark.filterwarnings("default")

PIPELINES = {"theirs": "zarr.core.codec_pipeline.BatchedCodecPipeline", "ours": "frazil.zarr.CodecPipeline"}
SCRIPTS: dict[str, Callable[[Any], Any]] = {}
IMPOSSIBLE = {
    ("consolidated", "session"): "a repository keeps no consolidated metadata, as all its metadata is in one file",
    ("version_2", "session"): "the format of repositories has no Zarr v2",
}


def script(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    SCRIPTS[function.__name__] = function
    return function


# --- quick start and arrays --------------------------------------------------------------------------------------------------------------


@script
def first_array(store: Any) -> Any:
    z = zarr.create_array(store=store, shape=(30, 40), chunks=(7, 9), dtype="f4", fill_value=0)
    z[:] = np.arange(1200).reshape(30, 40)
    z[3, :10] = 42
    z[:, 0] = np.arange(30)
    return z[:], z[3], z[5:9, ::3], z[-1, -1], z.shape, z.chunks, str(z.dtype), z.nchunks


@script
def open_again(store: Any) -> Any:
    zarr.create_array(store=store, name="a/b", shape=(10,), chunks=(3,), dtype="i8", attributes={"unit": "m"})[:] = (
        range(10)
    )
    z = zarr.open_array(store, path="a/b", mode="r")
    with pytest.raises((ValueError, PermissionError, OSError)):
        z[0] = 1
    zarr.open(store, path="a/b", mode="r+")[4] = -4
    return z[:], dict(z.attrs), sorted(zarr.open_group(store, mode="r").group_keys())


@script
def resize_and_append(store: Any) -> Any:
    z = zarr.create_array(store=store, data=np.arange(60, dtype="i4").reshape(6, 10), chunks=(4, 4))
    z.resize((8, 7))
    first = z[:]
    z.append(np.ones((3, 7), "i4"))
    z.append(np.full((11, 2), 9, "i4"), axis=1)
    return first, z[:], z.shape


@script
def compression(store: Any) -> Any:
    data = np.arange(500, dtype="i4").reshape(20, 25)
    found = []
    for i, codecs in enumerate(
        (
            {"compressors": BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle")},
            {"compressors": [GzipCodec(level=1)], "filters": [TransposeCodec(order=(1, 0))]},
            {"compressors": ZstdCodec(level=1), "serializer": BytesCodec(endian="big")},
            {"compressors": None},
        )
    ):
        z = zarr.create_array(store=store, name=f"c{i}", data=data, chunks=(6, 6), **codecs)
        z[1] = 5
        found += [z[:], type(z.serializer).__name__, [type(codec).__name__ for codec in z.compressors]]
    return found


@script
def sharding(store: Any) -> Any:
    z = zarr.create_array(store=store, shape=(64, 64), shards=(32, 32), chunks=(8, 8), dtype="u2", fill_value=7)
    z[10:50, 10:50] = np.arange(1600).reshape(40, 40)
    z[33] = 1
    return z[:], z[::5, 60], z.shards, z.chunks


@script
def indexing(store: Any) -> Any:
    z = zarr.create_array(store=store, data=np.arange(100).reshape(10, 10), chunks=(3, 4))
    z.set_coordinate_selection(([0, 9], [2, 5]), [-1, -2])
    z.oindex[[1, 4], [True, False] * 5] = 0
    z.vindex[[3, 3], [3, 4]] = [7, 8]
    z.blocks[1, 1] = 11
    z.set_mask_selection(z[:] == 99, 1)
    return (
        *(z[:], z.get_coordinate_selection(([0, 2], [2, 3])), z.vindex[[9, 0], [5, 2]], z.oindex[[5, 1], :]),
        *(z.get_orthogonal_selection((slice(2, 8, 3), [0, 9])), z.blocks[0], z.get_mask_selection(z[:] > 90)),
        *(z.get_basic_selection((slice(None), 3)), z.get_block_selection((2, slice(0, 2))), z[[1, 2], [3, 4]]),
    )


@script
def fill_values_and_empty_chunks(store: Any) -> Any:
    z = zarr.create_array(
        store=store, shape=(20,), chunks=(5,), dtype="f8", fill_value=np.nan, config={"write_empty_chunks": False}
    )
    z[:5] = np.nan
    z[6] = 1
    return z[:], z.nchunks_initialized


@script
def kinds_of_arrays(store: Any) -> Any:
    made = [
        zarr.zeros(store=store, path="zeros", shape=(3, 4), dtype="i2"),
        zarr.ones(store=store, path="ones", shape=(3,), dtype="f4"),
        zarr.full(store=store, path="full", shape=(2, 2), fill_value=6, dtype="u1"),
        zarr.array(np.arange(6), store=store, path="array"),
    ]
    made.append(zarr.zeros_like(made[3], store=store, path="like"))
    return [z[:] for z in made]


# --- data types --------------------------------------------------------------------------------------------------------------------------


@script
def numbers(store: Any) -> Any:
    found = []
    for dtype in ("?", "i1", "i2", "u4", "i8", "f2", "f4", "f8", "c8", "c16"):
        name = dtype.replace("?", "bool")
        z = zarr.create_array(store=store, name=name, shape=(7,), chunks=(3,), dtype=dtype)
        z[2:5] = np.array([0, 1, 1], dtype)
        found.append(z[:])
    return found


@script
def text(store: Any) -> Any:
    z = zarr.create_array(store=store, shape=(5,), chunks=(2,), dtype=str)
    z[:3] = np.array(["a", "", "longer"], dtype=object)
    return [str(value) for value in z[:]]


@script
def structs(store: Any) -> Any:
    if zarr.__version__.startswith("3.0."):
        pytest.skip("zarr-python 3.0 has no structs")
    dtype = np.dtype([("x", "<i4"), ("y", "<f8")])
    z = zarr.create_array(store=store, shape=(4,), chunks=(2,), dtype=dtype)
    z[1:3] = np.array([(1, 2.5), (3, 4.5)], dtype)
    return z[:]


# --- groups and attributes ---------------------------------------------------------------------------------------------------------------


@script
def groups(store: Any) -> Any:
    root = zarr.create_group(store=store)
    foo = root.create_group("foo")
    bar = foo.create_group("bar", attributes={"level": 2})
    z = bar.create_array("baz", shape=(8, 8), chunks=(4, 4), dtype="i4")
    z[:] = 1
    foo.require_group("bar")
    root["foo/bar/baz"][2:4] = 3
    return (
        *(
            sorted(name for name, _ in root.members(max_depth=None)),
            "foo/bar" in root,
            "nothing" in root,
            z.path,
            z.name,
        ),
        *(root["foo/bar"].attrs["level"], root["foo/bar/baz"][:], sorted(foo.array_keys()), sorted(bar.array_keys())),
    )


@script
def removing(store: Any) -> Any:
    root = zarr.group(store=store)
    root.create_array("a", shape=(3,), dtype="i1")[:] = 1
    root.create_group("g").create_array("b", shape=(3,), dtype="i1")
    del root["g"]
    root.create_array("a", shape=(2,), dtype="f4", overwrite=True)
    return sorted(root), root["a"][:]


@script
def attributes(store: Any) -> Any:
    root = zarr.create_group(store=store, attributes={"title": "sea"})
    z = root.create_array("z", shape=(3,), dtype="i4")
    root.attrs["nested"] = {"a": [1, 2.5, None, True]}
    z.attrs.update({"units": "K", "n": 3})
    z.attrs["n"] = 4
    del z.attrs["units"]
    again = zarr.open_group(store, mode="r")
    return dict(again.attrs), dict(again["z"].attrs), "title" in root.attrs


@script
def hierarchies(store: Any) -> Any:
    if not hasattr(zarr, "create_hierarchy"):
        pytest.skip("zarr-python 3.0 has no create_hierarchy")
    source = {"": zarr.group(store={}).metadata, "a/b": zarr.create_array(store={}, shape=(3,), dtype="i2").metadata}
    made = dict(zarr.create_hierarchy(store=store, nodes=source))
    made["a/b"][:] = 2
    return sorted(made), zarr.open_array(store, path="a/b")[:]


@script
def copies(store: Any) -> Any:
    """An array in other chunks, as in the guide's page on performance."""
    z = zarr.create_array(store=store, name="rows", data=np.arange(400).reshape(20, 20), chunks=(1, 20))
    if not hasattr(zarr, "from_array"):
        pytest.skip("zarr-python 3.0.0 has no from_array")
    made = zarr.from_array(store=store, name="columns", data=z, chunks=(20, 1))
    return made[:], made.chunks


@script
def consolidated(store: Any) -> Any:
    root = zarr.create_group(store=store)
    root.create_array("a/b", shape=(3,), dtype="i4")[:] = 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(store)
    found = zarr.open_consolidated(store)
    return sorted(found.metadata.consolidated_metadata.metadata), found["a/b"][:]


@script
def version_2(store: Any) -> Any:
    z = zarr.create_array(
        store=store, shape=(9, 9), chunks=(4, 4), dtype="<i4", zarr_format=2, compressors=numcodecs.Zlib(1), order="F"
    )
    z[2:5] = 3
    return z[:], z.metadata.zarr_format


@script
def saving(store: Any) -> Any:
    zarr.save_array(store, np.arange(5), path="one")
    zarr.save_group(store, x=np.arange(3), path="many")
    return zarr.load(store, path="one"), zarr.open_array(store, path="many/x")[:]


# --- the comparison ----------------------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return str(np.asarray(value).dtype.newbyteorder("=")), np.asarray(value).tolist()
    return [plain(part) for part in value] if isinstance(value, tuple | list) else value


def new_store(place: str, folder: Path) -> Any:
    if place == "session":
        return frazil.zarr.as_store(frazil.Repository.create(frazil.stores.MemoryStore()).writable_session("main"))
    return MemoryStore() if place == "memory" else frazil.zarr.as_store(folder / "sea.zarr")


@pytest.mark.parametrize("pipeline", ["theirs", "ours"])
@pytest.mark.parametrize("place", ["folder", "session", "memory"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(name: str, place: str, pipeline: str, tmp_path: Path) -> None:
    with zarr.config.set({"codec_pipeline.path": PIPELINES["theirs"]}):
        expected = plain(SCRIPTS[name](MemoryStore()))
    with zarr.config.set({"codec_pipeline.path": PIPELINES[pipeline]}):
        if (name, place) in IMPOSSIBLE:
            with pytest.raises((ValueError, KeyError, TypeError, OSError)):
                SCRIPTS[name](new_store(place, tmp_path))
            return
        assert repr(plain(SCRIPTS[name](new_store(place, tmp_path)))) == repr(expected)


def test_the_list_names_scripts() -> None:
    assert {name for name, _ in IMPOSSIBLE} <= SCRIPTS.keys()
