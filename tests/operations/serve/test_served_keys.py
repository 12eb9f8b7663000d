"""Which names are keys of a hierarchy, and which are other files."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import frazil
from frazil.operations.serve.served_keys import chunk_documents, draft_nodes, is_served
from frazil.operations.serve.served_nodes import ServedNodes
from frazil.stores import MemoryStore


@pytest.mark.parametrize("zarr_format", [3, "draft", "draft-2021"])
@pytest.mark.parametrize("shape", [(), (5,), (4, 4)])
def test_every_key_that_is_written_is_served(zarr_format: object, shape: tuple[int, ...]) -> None:
    store = MemoryStore()
    root = frazil.create_group(store, zarr_format=zarr_format)  # type: ignore[arg-type]
    root.create_group("inner_group").attrs["a"] = 1
    shards = {} if not shape else {"shards": shape}
    root.create_array("inner_group/a.b", data=np.ones(shape, "i2"), chunks=tuple(1 for _ in shape), **shards)
    root.create_array("plain", data=np.ones(shape, "i2"))
    keys = store.list()
    assert len(keys) >= 4
    assert [key for key in keys if not is_served(key)] == []
    assert [key for key in keys if not ServedNodes().serves(store, key)] == []


@pytest.mark.parametrize("name", ["default", "v2", "zarrs.default_suffix"])
@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("shape", [(), (12,), (2, 2)])
def test_every_chunk_key_encoding(name: str, separator: str, shape: tuple[int, ...]) -> None:
    store = MemoryStore()
    encoding: dict[str, Any] = {"name": name, "configuration": {"separator": separator}}
    if name == "zarrs.default_suffix":
        encoding["configuration"]["suffix"] = ".ome.tiff"
    frazil.create_array(store, data=np.ones(shape, "i2"), chunks=tuple(1 for _ in shape), chunk_key_encoding=encoding)
    assert [key for key in store.list() if not is_served(key)] == []
    assert [key for key in store.list() if not ServedNodes().serves(store, key)] == []


@pytest.mark.parametrize(
    "key",
    [
        ".zarray",
        ".zgroup",
        "a/.zattrs",
        ".zmetadata",
        "a/0.0",
        "a/10/7",
        "data/root/a/c0",
        "meta/a.array.txt",
        "meta/root.group.json",
    ],
)
def test_keys_of_other_writers(key: str) -> None:
    assert is_served(key)


@pytest.mark.parametrize(
    "key",
    [
        ".env", ".git/config", ".git/0", ".ssh/c/0", "a/.hidden/c/0/1", "a/.hidden/zarr.json", "id_rsa", "notes.txt", "zarr.json.bak", "a/zarr.json/b",
        "secret.json", "c/secret", "c/-1", "c/01", "c0x", "1e5", "0.0.bak", "backup.zip", ".zarray/x", "array", "group.txt", "a.array.txt", "0x10", "٣", "c/٣",
        "c/" + "9" * 30, ".DS_Store", "c/0\n", "zarr.json\n",
    ],
)  # fmt: skip
def test_files_that_are_no_keys_are_not_served(key: str) -> None:
    assert not is_served(key)


def test_names_around_a_key_change_it() -> None:
    for key, other in itertools.product(["zarr.json", "c/0/1", ".zarray"], ["x", ".", "-", " "]):
        assert not is_served(key + other)


def test_documents_that_the_node_of_a_chunk_may_have() -> None:
    assert chunk_documents("a/c/0/1") == tuple(
        f"{node}{name}" for node in ("a/c/0/", "a/c/", "a/") for name in ("zarr.json", ".zarray")
    )
    assert chunk_documents("0.1") == ("zarr.json", ".zarray")
    assert chunk_documents("a/zarr.json") == chunk_documents("meta/root/a.array.json") == ()
    assert [node.documents(".json") for node in draft_nodes("x/data/root/a/c0")] == [
        ["x/meta/root/a.array.json", "x/meta/root/root/a.array.json"]
    ]
