"""Metadata that snapshots cannot hold is refused by name before anything is written, with a suggestion, in every operation. Unknown data that others wrote into
files of the format survives our commits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import frazil
from frazil.errors import FrazilError, InvalidInputError
from frazil.formats.alpha.manifests import decode_manifest, encode_manifest
from frazil.formats.alpha.snapshots import SnapshotFile, decode_snapshot
from frazil.formats.ids import decode_id
from frazil.formats.msgpack import pack
from frazil.formats.nodes import ArrayData, NodeSnapshot
from frazil.stores import MemoryStore
from tests.formats.documents import encoded_snapshot

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
# members of the document, a word in the error, and whether it suggests a solution
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


# only refused in repositories for the alpha library
ONLY_COMPATIBLE = {"raw bits", "datetimes", "points in keys", "text of fixed length", "fields"}


def repository(compatible: str | None = None) -> tuple[MemoryStore, frazil.Repository, dict[str, bytes]]:
    store = MemoryStore()
    repo = frazil.Repository.create(store, compatible=compatible)
    with repo.transaction(message="first") as root:
        root.create_array("there", shape=(4,), dtype="i4", chunks=(2,), attributes={"n": 1})[...] = 3
    return store, repo, contents(store)


def contents(store: MemoryStore) -> dict[str, bytes]:
    return {key: store.get(key) or b"" for key in store.list()}


def refused(error: FrazilError, word: str) -> None:
    assert word in f"{error.path} {error}"
    assert error.hint


@pytest.mark.parametrize("name", ARGUMENTS)
def test_impossible_arrays_are_refused(name: str) -> None:
    store, repo, before = repository("alpha-library")
    arguments, word = ARGUMENTS[name]
    session = repo.writable_session()
    with pytest.raises(InvalidInputError) as caught:
        session.root.create_array("new", **{"shape": (4,), "dtype": "i4", "chunks": (2,), **arguments})  # type: ignore[arg-type]
    refused(caught.value, word)
    assert "alpha format of Icechunk" in str(caught.value) or name == "a large number"
    assert not session.has_changes
    assert list(session.root) == ["there"]
    assert contents(store) == before
    if name not in ONLY_COMPATIBLE:
        with pytest.raises(InvalidInputError):
            repository()[1].writable_session().root.create_array(
                "new",
                **{"shape": (4,), "dtype": "i4", "chunks": (2,), **arguments},  # type: ignore[arg-type]
            )


@pytest.mark.parametrize("path", ["new", "there"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_impossible_documents_are_refused(name: str, path: str) -> None:
    store, repo, before = repository("alpha-library")
    members, word = DOCUMENTS[name]
    session = repo.writable_session()
    old = session.store.get("there/zarr.json")
    with pytest.raises(FrazilError) as caught:
        session.store.set(f"{path}/zarr.json", json.dumps({**DOCUMENT, **members}).encode())
    refused(caught.value, word)
    assert "alpha format of Icechunk" in str(caught.value) or name == "a large number"
    assert caught.value.key == f"{path}/zarr.json"
    assert not session.has_changes
    assert session.store.get("there/zarr.json") == old
    assert session.store.get("new/zarr.json") is None
    assert contents(store) == before
    if name not in ONLY_COMPATIBLE:
        with pytest.raises(FrazilError):
            repository()[1].writable_session().store.set(
                f"{path}/zarr.json", json.dumps({**DOCUMENT, **members}).encode()
            )


VALUES = {
    "r16": np.array([b"ab", b"\0\0", b"\xff\0", b"cd"], "V2"),
    "M8[s]": np.array(["2020-01-01", "NaT", "1960-05-05", "2021-01-01"], "M8[s]"),
    "U3": np.array(["a", "äöü", "", "xyz"]),
    "S2": np.array([b"a", b"bc", b"", b"xy"]),
    "struct": np.array([(1, 2.5), (0, 0.0), (-1, np.inf), (7, 0.5)], [("a", "<i4"), ("b", "<f8")]),
}


@pytest.mark.parametrize("name", VALUES)
def test_other_data_types_are_held(name: str) -> None:
    """The same as in a plain store: values, document, and encoded chunks."""
    values = VALUES[name]
    dtype = name if name == "r16" else values.dtype
    store, plain = MemoryStore(), MemoryStore()
    repo = frazil.Repository.create(store)
    made = {"shape": (4,), "dtype": dtype, "chunks": (2,), "codecs": "auto"}
    frazil.create_array(plain, path="a", **made)[...] = values  # type: ignore[arg-type]
    with repo.transaction(message="x") as root:
        root.create_array("a", **made)[...] = values
    session = frazil.Repository.open(store).readonly_session()
    assert session.root["a"][...].tobytes() == values.tobytes()
    assert session.root["a"].dtype == frazil.open_array(plain, path="a").dtype
    for key in ("a/zarr.json", "a/c/0", "a/c/1"):
        assert session.store.get(key) == plain.get(key)
    with repo.transaction(message="x") as root:
        root["a"].attrs["n"] = 1
        root["a"].resize((6,))
    assert frazil.Repository.open(store).readonly_session().root["a"][:4].tobytes() == values.tobytes()


def test_keys_with_points_are_shown_and_read() -> None:
    repo = frazil.Repository.create(MemoryStore())
    points = {"name": "default", "configuration": {"separator": "."}}
    session = repo.writable_session()
    root = session.root
    for path in ("a", "g/b"):
        root.create_array(path, shape=(3, 4), dtype="i2", chunks=(2, 2), codecs=["bytes"], chunk_key_encoding=points)[
            :
        ] = 5
    root.create_array("zero", shape=(), dtype="i2", codecs=["bytes"], chunk_key_encoding=points)[...] = 7
    session.commit("points")
    store = repo.readonly_session().store
    grid = ["c.0.0", "c.0.1", "c.1.0", "c.1.1"]
    assert store.list() == [
        *[f"a/{key}" for key in grid], "a/zarr.json", *[f"g/b/{key}" for key in grid], "g/b/zarr.json", "g/zarr.json",
        "zarr.json", "zero/c", "zero/zarr.json",
    ]  # fmt: skip
    assert store.list_dir("a/") == ([f"a/{key}" for key in [*grid, "zarr.json"]], [])
    assert store.list_prefix("a/c/") == []
    assert len(store.get("a/c.1.1") or b"") == len(store.get("g/b/c.0.1") or b"") == 8
    assert store.get("a/c/1/1") is store.get("a/c.2.0") is store.get("a/c.0") is None
    assert json.loads(store.get("a/zarr.json") or b"")["chunk_key_encoding"] == points
    copy = MemoryStore()
    frazil.copy(store, copy)
    assert (frazil.open_array(copy, path="g/b")[:] == 5).all()
    writable = repo.writable_session().store
    with pytest.raises(InvalidInputError, match="no such chunk") as caught:
        writable.set("a/c/0/0", bytes(8))
    assert "a/c.0.0" in str(caught.value.hint)
    writable.set("a/c.0.0", bytes(8))
    writable.erase("a/c.1.0")
    writable.erase("a/c/1/1")
    assert writable.list_prefix("a/") == ["a/c.0.0", "a/c.0.1", "a/c.1.1", "a/zarr.json"]
    writable.erase_prefix("a/")
    assert writable.list_prefix("a/") == []


@pytest.mark.parametrize("compatible", [None, "alpha-library"])
@pytest.mark.parametrize(("name", "fill", "codec"), [("string", "ü", "vlen-utf8"), ("bytes", "AP8=", "vlen-bytes")])
def test_strings_and_bytes_are_there_as_keys(name: str, fill: str, codec: str, compatible: str | None) -> None:
    repo = frazil.Repository.create(MemoryStore(), compatible=compatible)
    document = {**DOCUMENT, "data_type": name, "fill_value": fill, "codecs": [{"name": codec}]}
    session = repo.writable_session()
    session.store.set("t/zarr.json", json.dumps(document).encode())
    session.store.set("t/c/1", b"encoded by somebody else")
    session.commit("text")
    session = repo.writable_session()
    store = session.store
    assert store.list() == ["t/c/1", "t/zarr.json", "zarr.json"]
    assert json.loads(store.get("t/zarr.json") or b"") == document
    assert (store.get("t/c/1"), store.get("t/c/0")) == (b"encoded by somebody else", None)
    fill = session.root["t"].fill_value
    assert fill == ("ü" if name == "string" else b"\0\xff")
    assert session.root["t"][0] == fill
    store.set("t/zarr.json", json.dumps({**document, "attributes": {"n": 1}}).encode())
    store.erase("t/c/1")
    assert store.list() == ["t/zarr.json", "zarr.json"]
    session.commit("attributes")
    assert json.loads(repo.readonly_session().store.get("t/zarr.json") or b"")["attributes"] == {"n": 1}


def test_impossible_attributes_are_refused() -> None:
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


def written_by_others(store: MemoryStore, repo: frazil.Repository) -> tuple[SnapshotFile, str]:
    """Gives the tip flags, an attribute file, manifest flags and other extents. Returns the new state of the tip and the key of the manifest."""
    key = f"snapshots/{repo.lookup('main')}"
    snapshot = decode_snapshot(store.get(key) or b"")
    (manifest,) = store.list_prefix("manifests/")
    found = decode_manifest(store.get(manifest) or b"")
    store.set(manifest, bytes(memoryview(encode_manifest(found._replace(flags={pack("theirs"): pack([1, "x"])})))))
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
    store.set(key, encoded_snapshot(changed))
    return changed, manifest


@pytest.mark.rule("I225", "I227", "I236", "I266")
@pytest.mark.parametrize("compatible", [None, "alpha-library"])
def test_metadata_of_other_writers_is_kept(compatible: str | None) -> None:
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
    assert all(flags == {pack("theirs"): pack([1, "x"])} for flags in kept if flags)
    assert manifest in store.list(), "an older snapshot needs it"
