"""Files whose names look like chunks are served only where a node is above them, and looking for it costs no request for each chunk."""

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
            assert client.ask(f"/{key}").status == client.ask(f"/{key}", "HEAD").status == 404, key
        assert client.ask("/sea/c/0/1").status == client.ask("/old/1/1").status == 200
        for folder in ("reports", "backup", "c"):
            assert client.ask(f"/{folder}/", Accept="text/html").status == 404, folder


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
