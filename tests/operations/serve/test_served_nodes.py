"""Files with names like chunks are served only below a node, and finding the node does not cost a request per chunk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.operations.served import Client

import frazil
from frazil.operations.serve.served_nodes import ServedNodes
from frazil.operations.serve.server import serve
from frazil.stores import LocalStore, MemoryStore
from frazil.testing import CountingStore

FOREIGN = ("reports/2024", "9", "backup/1.2", "c/0", "a.d/0/0", "data/7", "group/3", "broken/0")


@pytest.mark.parametrize("kind", ["local", "memory", "remote"])
def test_files_of_others_that_look_like_chunks(kind: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path) if kind == "local" else MemoryStore()
    for key in FOREIGN:
        store.set(key, b"secret")
    frazil.create_array(store, path="sea", data=np.ones((4, 4), "i2"), chunks=(2, 2))
    frazil.create_group(store, path="group")
    store.set("broken/zarr.json", b"[")
    store.set("old/.zarray", b"{}")
    store.set("old/1/1", b"chunk")
    with serve(store if kind != "remote" else CountingStore(store)) as server:
        client = Client(server)
        for key in FOREIGN:
            assert client.request(f"/{key}").status == client.request(f"/{key}", "HEAD").status == 404, key
        assert client.request("/sea/c/0/1").status == client.request("/old/1/1").status == 200
        for folder in ("reports", "backup", "c"):
            assert client.request(f"/{folder}/", Accept="text/html").status == 404, folder


KEYS = ("c/1/1.tif", "c.1.1.tif", "c/1/1.7z", "c/1/1_x", "c/1/1", "c.1.1", "1/1", "1.1", "c1/1", "c1.1", "c", "c/1", "c/1/1/1", "1", "c0", "0")  # fmt: skip


def final(encoding: object) -> bytes:
    return json.dumps({"node_type": "array", "shape": [4, 4], "chunk_key_encoding": encoding}).encode()


def suffixed(suffix: str, **members: str) -> bytes:
    return final({"name": "zarrs.default_suffix", "configuration": {"suffix": suffix, **members}})


def other(**members: object) -> bytes:
    return json.dumps({"shape": [4, 4], **members}).encode()


@pytest.mark.parametrize(
    ("document", "value", "prefix", "served"),
    [
        ("a/zarr.json", final("default"), "a/", {"c/1/1"}),
        ("a/zarr.json", final({"name": "default", "configuration": {"separator": "."}}), "a/", {"c.1.1"}),
        ("a/zarr.json", final({"name": "v2"}), "a/", {"1.1"}),
        ("a/zarr.json", final({"name": "v2", "configuration": {"separator": "/"}}), "a/", {"1/1"}),
        ("a/zarr.json", final({"name": "of.others"}), "a/", set(KEYS[4:])),
        ("a/zarr.json", suffixed(".tif"), "a/", {"c/1/1.tif"}),
        ("a/zarr.json", suffixed(".tif", separator="."), "a/", {"c.1.1.tif"}),
        ("a/zarr.json", suffixed(".tiff"), "a/", set()),
        ("a/zarr.json", suffixed(".7z"), "a/", {"c/1/1.7z"}),
        ("a/zarr.json", suffixed("_x"), "a/", {"c/1/1_x"}),
        ("a/zarr.json", suffixed("/"), "a/", set(KEYS[4:])),
        ("a/.zarray", other(dimension_separator="."), "a/", {"1.1"}),
        ("a/.zarray", other(), "a/", {"1.1", "1/1"}),
        ("meta/a.array.json", other(chunk_grid={"separator": "/"}), "data/a/", {"c1/1"}),
        ("meta/root/a.array.json", other(chunk_grid={"separator": "."}), "data/root/a/", {"c1.1"}),
        ("meta/root/a.array.json", other(chunk_grid={}), "data/root/a/", {"c1.1", "c1/1", "1/1", "1.1"}),
    ],
)
@pytest.mark.parametrize("remote", [False, True])
def test_keys_of_the_form_that_the_array_has(
    document: str, value: bytes, prefix: str, served: set[str], remote: bool
) -> None:
    memory = MemoryStore()
    memory.set(document, value)
    store, nodes = CountingStore(memory) if remote else memory, ServedNodes()
    for _ in range(2):
        assert {key for key in KEYS if nodes.serves(store, prefix + key)} == served


def test_a_page_lists_keys_of_that_form_alone(tmp_path: Path) -> None:
    frazil.create_array(
        tmp_path,
        data=np.ones((2, 2), "i2"),
        chunks=(1, 1),
        chunk_key_encoding={"name": "v2", "configuration": {"separator": "/"}},
    )
    (tmp_path / "1" / "2.5").write_bytes(b"secret")
    with serve(tmp_path) as server:
        page = Client(server).request("/1/", Accept="text/html").body
        assert b"2.5" not in page
        assert Client(server).request("/1/2.5").status == 404
        assert Client(server).request("/1/1").status == 200


@pytest.mark.parametrize("suffix", [".json", ".txt"])
def test_nodes_of_the_draft(suffix: str) -> None:
    store = MemoryStore()
    store.set("x/zarr.json", json.dumps({"metadata_key_suffix": suffix}).encode())
    store.set(f"x/meta/root/a.array{suffix}", b"{}")
    assert ServedNodes().serves(store, "x/data/root/a/c0/1")
    assert not ServedNodes().serves(store, "x/data/root/b/c0/1")
    assert not ServedNodes().serves(store, "y/data/root/a/c0/1")


def test_a_document_is_looked_up_once_where_that_is_a_request() -> None:
    memory = MemoryStore()
    frazil.create_array(memory, path="sea", data=np.ones((8, 8), "i2"), chunks=(2, 2))
    store, nodes = CountingStore(memory), ServedNodes()
    assert all(nodes.serves(store, f"sea/c/{i}/{j}") for i in range(4) for j in range(4))
    assert store.count() <= 6, "of the first chunk alone"
    other = CountingStore(memory)
    assert nodes.serves(other, "sea/c/0/0")
    assert other.count() > 0, "another store, as of the next snapshot, may have other nodes"
    assert not nodes.serves(MemoryStore(), "sea/c/0/0")
