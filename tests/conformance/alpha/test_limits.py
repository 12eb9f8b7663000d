"""What snapshots cannot hold is refused by name before anything is written, with what to do instead, whichever way it comes; and what others wrote into files of the
format, though we do not know it, is there after our commits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

import frazil
from frazil.errors import FrazilError, InvalidInputError
from frazil.formats.alpha.manifests import decode_manifest, encode_manifest
from frazil.formats.alpha.nodes import ArrayData, NodeSnapshot
from frazil.formats.alpha.snapshots import Snapshot, decode_snapshot, encode_snapshot
from frazil.formats.ids import decode_id
from frazil.formats.msgpack import pack, unpack
from frazil.stores import MemoryStore

DOCUMENT: Mapping[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4],
    "data_type": "int32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    "attributes": {},
}
# members of the document, the word that the error has, and whether it says what to do instead
DOCUMENTS = {
    "raw bits": ({"data_type": "r24", "fill_value": [0, 0, 0]}, "data_type"),
    "datetimes": (
        {"data_type": {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}, "fill_value": 0},
        "data_type",
    ),
    "v2 keys": ({"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}}, "chunk_key_encoding"),
    "points in keys": (
        {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}},
        "chunk_key_encoding",
    ),
    "a member": ({"my_member": {"must_understand": False, "a": 1}}, "my_member"),
    "too many chunks": (
        {"shape": [2**40], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}},
        "chunk_shape",
    ),
    "a large number": ({"attributes": {"deep": [{"n": 2**70}]}}, "attributes"),
}
ARGUMENTS: Mapping[str, tuple[Mapping[str, object], str]] = {
    "raw bits": ({"dtype": "r24"}, "data_type"),
    "datetimes": ({"dtype": "M8[s]"}, "data_type"),
    "text of fixed length": ({"dtype": "U5"}, "data_type"),
    "fields": ({"dtype": [("a", "i4"), ("b", "f8")]}, "data_type"),
    "v2 keys": ({"chunk_key_encoding": "v2"}, "chunk_key_encoding"),
    "too many chunks": ({"shape": 2**40, "chunks": 1}, "chunk_shape"),
    "a large number": ({"attributes": {"n": 2**70}}, "attributes"),
}


def repository() -> tuple[MemoryStore, frazil.Repository, dict[str, bytes]]:
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    with repo.transaction(message="first") as root:
        root.create_array("there", shape=(4,), dtype="i4", chunks=(2,), attributes={"n": 1})[...] = 3
    return store, repo, contents(store)


def contents(store: MemoryStore) -> dict[str, bytes]:
    return {key: store.get(key) or b"" for key in store.list()}


def refused(error: FrazilError, word: str) -> None:
    assert word in f"{error.path} {error}"
    assert error.hint


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arrays_that_cannot_be(name: str) -> None:
    store, repo, before = repository()
    arguments, word = ARGUMENTS[name]
    session = repo.writable_session()
    with pytest.raises(InvalidInputError) as caught:
        session.root.create_array("new", **{"shape": (4,), "dtype": "i4", "chunks": (2,), **arguments})  # type: ignore[arg-type]
    refused(caught.value, word)
    assert not session.has_changes
    assert list(session.root) == ["there"]
    assert contents(store) == before


@pytest.mark.parametrize("path", ["new", "there"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_that_cannot_be(name: str, path: str) -> None:
    store, repo, before = repository()
    members, word = DOCUMENTS[name]
    session = repo.writable_session()
    old = session.store.get("there/zarr.json")
    with pytest.raises(FrazilError) as caught:
        session.store.set(f"{path}/zarr.json", json.dumps({**DOCUMENT, **members}).encode())
    refused(caught.value, word)
    assert caught.value.key == f"{path}/zarr.json"
    assert not session.has_changes
    assert session.store.get("there/zarr.json") == old
    assert session.store.get("new/zarr.json") is None
    assert contents(store) == before


def test_attributes_that_cannot_be() -> None:
    _, repo, _ = repository()
    session = repo.writable_session()
    for node in (session.root, session.root["there"]):
        before = dict(node.attrs)
        with pytest.raises(InvalidInputError) as caught:
            node.attrs["list"] = [1, {"n": -(2**64)}]
        refused(caught.value, "attributes.list[1].n")
        assert dict(node.attrs) == before
    with pytest.raises(InvalidInputError):
        session.root.create_group("g", attributes={"n": 2**64})
    assert not session.has_changes


# --- what others wrote ---------------------------------------------------------------------------------------------------------------------


FLAGS = {"theirs": pack({"deep": [1, {"a": None}]}), "odd": b"\xc7\x02\x05ab"}  # the second is an extension type


def written_by_others(store: MemoryStore, repo: frazil.Repository) -> tuple[Snapshot, str]:
    """Gives the tip flags, an attribute file, and its manifest flags and other extents; and what it says then, and the key of the manifest."""
    key = f"snapshots/{repo.lookup('main')}"
    snapshot = decode_snapshot(store.get(key) or b"")
    (manifest,) = store.list_prefix("manifests/")
    found = decode_manifest(store.get(manifest) or b"")
    store.set(manifest, bytes(memoryview(encode_manifest(found._replace(flags=pack({"theirs": [1, "x"]}))))))
    node = snapshot.nodes.get("/there")
    assert isinstance(node, NodeSnapshot)
    assert isinstance(node.array, ArrayData)
    references = tuple(one._replace(extents=((7, 7, 7), (1,))) for one in node.array.manifests)
    node = node._replace(array=node.array._replace(manifests=references))
    files = (snapshot.manifest_files[0]._replace(id=decode_id("PGFG33J5SJNP38N7NFV0")), *snapshot.manifest_files)
    changed = snapshot._replace(
        flags={**snapshot.flags, **FLAGS},
        properties={"theirs": {"z": 1, "a": [None]}},
        manifest_files=files,
        nodes=snapshot.nodes.changed({"/there": node}),
    )
    store.set(key, encode_snapshot(changed))
    return changed, manifest


@pytest.mark.rule("I225", "I227", "I236", "I266")
@pytest.mark.parametrize("compatible", [None, "alpha-library"])
def test_what_others_wrote_is_kept(compatible: str | None) -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store, compatible=compatible)
    with repo.transaction(message="first") as root:
        root.create_array("there", shape=(8,), dtype="i4", chunks=(2,), codecs=["bytes"])[...] = 3
    theirs, manifest = written_by_others(store, repo)
    repo = frazil.Repository.open(store)
    with repo.transaction(message="elsewhere") as root:
        root.create_group("new")
    after = decode_snapshot(store.get(f"snapshots/{repo.lookup('main')}") or b"")
    assert {name: after.flags[name] for name in FLAGS} == FLAGS
    assert after.manifest_files == theirs.manifest_files
    assert after.nodes.get("/there") == theirs.nodes.get("/there"), "extents too"
    assert [commit.metadata for commit in repo.history()][1] == theirs.properties
    with repo.transaction(message="there") as root:
        root["there"][0] = 4
    after = decode_snapshot(store.get(f"snapshots/{repo.lookup('main')}") or b"")
    assert {name: after.flags[name] for name in FLAGS} == FLAGS
    assert repo.readonly_session().root["there"][...].tolist() == [4, *[3] * 7]
    kept = [decode_manifest(store.get(key) or b"").flags for key in store.list_prefix("manifests/")]
    assert all(unpack(flags) == {"theirs": [1, "x"]} for flags in kept if flags != b"\x80")
    assert manifest in store.list(), "an older snapshot needs it"
