"""Served documents of groups: created from the current hierarchy, regardless of stored copies."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.operations.served import Client, fill

import frazil
from frazil.errors import NotFoundError
from frazil.operations.serve import consolidated_documents
from frazil.operations.serve.consolidated_documents import ConsolidatedDocuments
from frazil.operations.serve.server import follow, serve
from frazil.stores import MemoryStore
from frazil.testing import CountingStore


def test_groups_are_listed_over_http() -> None:
    store = MemoryStore()
    root = frazil.create_group(store)
    fill(root)
    with serve(store, every=0) as server:
        group = frazil.open_group(server.url)
        assert [path for path, _ in group.members(None)] == ["level1", "level1/plain", "level1/sharded"]
        np.testing.assert_array_equal(group["level1/plain"][...], root["level1/plain"][...])  # type: ignore[index]
        root.create_array("later", shape=2, dtype="u1")
        assert "later" in frazil.open_group(server.url), "what is served is the hierarchy as it is now"
        assert list(frazil.open_group(server.url + "level1")) == ["plain", "sharded"]
        assert list(frazil.open_group(server.url, path="level1")) == ["plain", "sharded"]
        with pytest.raises(NotFoundError):
            group["later"]
    with serve(store, "level1") as server:
        assert list(frazil.open_group(server.url)) == ["plain", "sharded"]


def test_a_branch_that_is_followed(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    with repo.transaction(message="one") as root:
        fill(root)
    with follow(repo, every=0) as server:
        assert list(frazil.open_group(server.url)) == ["level1"]
        with repo.transaction(message="two") as root:
            root.create_group("later")
        assert list(frazil.open_group(server.url)) == ["later", "level1"]


def test_stored_copies_are_created_again() -> None:
    store = MemoryStore()
    root = frazil.create_group(store)
    fill(root)
    frazil.consolidate_metadata(store)
    stale = store.get("zarr.json")
    assert stale is not None
    del root["level1/plain"]
    store.set("zarr.json", stale)
    with serve(store) as server:
        reply = Client(server).request("/zarr.json")
    assert sorted(json.loads(reply.body)["consolidated_metadata"]["metadata"]) == ["level1", "level1/sharded"]


def test_documents_that_are_served_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    fill(frazil.create_group(store))
    documents = ConsolidatedDocuments()
    assert documents.document(store, "zarr.json") is not None
    assert documents.document(store, "level1/plain/zarr.json") is None
    assert documents.document(store, "level1/plain/c/0/0") is None
    assert documents.document(store, "nothing/zarr.json") is None
    monkeypatch.setattr(consolidated_documents, "_MOST", 2)
    assert documents.document(store, "zarr.json") is None, "more nodes than copies are made of"
    monkeypatch.undo()
    store.set("level1/bad/zarr.json", b"{")
    assert documents.document(store, "zarr.json") is None


def test_a_snapshot_is_looked_through_once(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    with repo.transaction(message="one") as root:
        fill(root)
    store, documents = repo.readonly_session().store, ConsolidatedDocuments()
    first = documents.document(store, "zarr.json")
    assert first is not None
    assert documents.document(store, "zarr.json") is first
    session = repo.writable_session("main")
    before = documents.document(session.store, "zarr.json")
    session.root.create_group("later")
    assert documents.document(session.store, "zarr.json") != before


def test_a_large_group_opens_with_one_request() -> None:
    store = MemoryStore()
    root = frazil.create_group(store)
    for i in range(50):
        root.create_array(f"v{i}", shape=1, dtype="u1")
    counting = CountingStore(store)
    with serve(counting) as server:
        reader = Client(server)
        assert len(json.loads(reader.request("/zarr.json").body)["consolidated_metadata"]["metadata"]) == 50


def test_requests_at_once_share_a_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    frazil.create_group(store).create_array("a", shape=(1,), dtype="i1")
    documents, listings, came = ConsolidatedDocuments(), [], []
    listing, all_came = threading.Event(), threading.Event()
    below, find_node = consolidated_documents.documents_below, consolidated_documents.find_node

    def counted(*arguments: Any) -> Any:
        listings.append(arguments)
        listing.set()
        assert all_came.wait(60)
        return below(*arguments)

    def found(*arguments: Any) -> Any:
        came.append(arguments)
        if len(came) == 9:
            all_came.set()
        return find_node(*arguments)

    monkeypatch.setattr(consolidated_documents, "documents_below", counted)
    monkeypatch.setattr(consolidated_documents, "find_node", found)
    with ThreadPoolExecutor(9) as threads:
        first = threads.submit(documents.document, store, "zarr.json")
        assert listing.wait(60)
        others = [threads.submit(documents.document, store, "zarr.json") for _ in range(8)]
        assert len({one.result() for one in (first, *others)}) == 1
    assert len(listings) == 2
    frazil.open_group(store, "r+").create_array("b", shape=(1,), dtype="i1")
    assert b'"b"' in (documents.document(store, "zarr.json") or b"")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_document_is_made_once_in_some_seconds(zarr_format: int) -> None:
    """For any number of requests: a listing needs a read for each node. Changes become visible after these seconds."""
    store, now = CountingStore(MemoryStore()), [100.0]
    root = frazil.create_group(store, zarr_format=zarr_format)
    root.create_group("a")
    key = "zarr.json" if zarr_format == 3 else ".zmetadata"
    documents = ConsolidatedDocuments(5.0, lambda: now[0])
    first = documents.document(store, key)
    root.create_array("b", shape=1, dtype="u1")
    store.clear()
    for now[0] in (100.0, 103.0, 104.9):
        assert documents.document(store, key) is first
    assert store.count() <= 3 * 3, "the document of the group itself is read, and nothing is listed"
    root.attrs["title"] = "The sea"
    assert b"The sea" in (documents.document(store, key) or b"")
    root.create_array("later", shape=1, dtype="u1")
    now[0] = 110.0
    assert b"later" in (documents.document(store, key) or b"")
    other = MemoryStore()
    frazil.create_group(other, zarr_format=zarr_format).create_group("elsewhere")
    assert b"elsewhere" in (documents.document(other, key) or b""), "another store, as of the next snapshot"
    for i in range(40):
        root.create_group(f"g{i}")
        documents.document(store, f"g{i}/{key}")
    assert len(documents._recent) <= 16
