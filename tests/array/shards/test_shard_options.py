"""Options of writing shards: given for one array, or for all arrays of a group."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import InvalidInputError
from frazil.stores import MemoryStore

SHARDED = {
    "shape": (4096,),
    "chunks": (256,),
    "shards": (4096,),
    "dtype": "int16",
    "codecs": [],
    "data": np.arange(4096),
}


def inode_stays(array: frazil.Array, folder: Path) -> bool:
    """Whether a write of a part of a shard changes the file in place."""
    shard = folder / "c/0"
    before = shard.stat().st_ino
    array[0] = 9
    assert array[:].tolist() == [9, *range(1, 4096)]
    return shard.stat().st_ino == before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    group = frazil.create_group(tmp_path)
    group.create_array("inner/a", **SHARDED)  # type: ignore[arg-type]
    group.create_array("plain", shape=(4,), dtype="int16")
    return tmp_path


@pytest.mark.parametrize("opened", [frazil.open_group, frazil.open])
def test_arrays_inherit_the_options_of_a_group(folder: Path, opened: type[object]) -> None:
    group = opened(folder, "r+", shard_writes="append", inner_order="morton")  # type: ignore[call-arg]
    assert isinstance(group, frazil.Group)
    assert inode_stays(pickle.loads(pickle.dumps(group))["inner/a"], folder / "inner/a")
    assert inode_stays(group["inner"].create_array("b", **SHARDED), folder / "inner/b")  # type: ignore[union-attr, arg-type]
    assert not inode_stays(group.open_array("inner/a", shard_writes="rewrite"), folder / "inner/a")
    group["plain"][...] = 1  # an array without shards


def test_options_apply_to_one_array_of_a_group(folder: Path) -> None:
    group = frazil.open_group(folder, "r+")
    assert inode_stays(group.open_array("inner/a", shard_writes="append"), folder / "inner/a")
    again = group.require_array("inner/a", shape=(4096,), dtype="int16", shard_writes="append")
    assert inode_stays(again, folder / "inner/a")
    assert not inode_stays(group["inner/a"], folder / "inner/a")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="a group is there"):
        group.open_array("inner")


def test_options_are_refused_at_once(folder: Path) -> None:
    group = frazil.open_group(folder, "r+")
    group.create_array("packed", **{**SHARDED, "codecs": "auto"})  # type: ignore[arg-type]
    for name in ("plain", "packed"):
        with pytest.raises(InvalidInputError, match="needs"):
            group.open_array(name, shard_writes="in_place")
    with pytest.raises(InvalidInputError, match="needs"):
        frazil.open(folder, "r+", path="plain", shard_writes="append")
    with pytest.raises(InvalidInputError, match="inner_order"):
        group.open_array("inner/a", inner_order="random")
    with pytest.raises(InvalidInputError, match="shard_writes"):
        frazil.open_group(folder, "r+", shard_writes="sometimes")


@pytest.mark.parametrize("opened", [frazil.open_group, frazil.open])
def test_stores_that_replace_shards_refuse(tmp_path: Path, opened: type[object]) -> None:
    store = MemoryStore()
    frazil.create_group(store)
    repo = frazil.Repository.create(tmp_path / "sea.repo")
    with repo.transaction("main", message="new") as root:
        group = root.create_group("g")
        group.create_array("a", **SHARDED)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="local disk"):
            group.open_array("a", shard_writes="append")
    for location in (store, f"{tmp_path}/sea.repo@main"):
        with pytest.raises(InvalidInputError, match="local disk"):
            opened(location, shard_writes="append")  # type: ignore[call-arg]
        opened(location, inner_order="C")  # type: ignore[call-arg]
