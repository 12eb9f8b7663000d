"""Both repositories of the library, read whole through frazil.Repository: every known array, value, attribute, branch, tag and history."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frazil
from frazil.errors import DataError, InvalidInputError, StoreError
from frazil.stores import MemoryStore, Store
from tests.formats.archives import beside, repository
from tests.servers.buckets import S3

FIRST, VARIED = "icechunk-alpha-repo", "icechunk-alpha-varied"
MAIN = ["set virtual chunk", "fill data", "empty structure", "Repository initialized"]
TIPS = ("5R9PK859P5NHS5JH3NRG", "FKF4TA6J8PRFSHAQG800", "3SW0J0HPRD4A7XNVD420", "F83Z4T4J0DPFSNDHJCNG")
VARIED_IDS = (*TIPS, "EE7YYV6PP2Y6TA8VTV8G")
INDEXED, WRAPPED = (4, 5), ((2, 4), (3, 4))  # inner chunks of a shard; those that are in no shard


def stored(name: str) -> Store:
    store = MemoryStore()
    for key, value in repository(name).items():
        store.set(key, value)
    return store


@pytest.fixture
def first(tmp_path: Path) -> frazil.Repository:
    """The first archive, with its virtual chunk in a folder."""
    (tmp_path / "path/to/python").mkdir(parents=True)
    (tmp_path / "path/to/python/chunk-1").write_bytes(np.full(25, 42, "<f4").tobytes())
    return frazil.Repository.open(stored(FIRST), virtual_prefixes={"s3://testbucket/": tmp_path})


@functools.cache
def expected() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(beside(VARIED, "expected.json"))
    return document


@functools.cache
def varied() -> frazil.Repository:
    """The varied archive, with its virtual file in a store in memory."""
    files = MemoryStore()
    files.set("virtual.bin", beside(VARIED, "virtual.bin"))
    folder = f"file://{expected()['virtual_file'].removesuffix('virtual.bin')}"
    return frazil.Repository.open(stored(VARIED), virtual_prefixes={folder: files})


def array_at(session: frazil.Session, path: str) -> frazil.Array:
    array = session.open(path)
    assert isinstance(array, frazil.Array)
    return array


def values(session: frazil.Session, path: str) -> np.ndarray[Any, Any]:
    return np.asarray(array_at(session, path)[...])


# --- the first ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I134", "I185", "I205", "I311")
def test_branches_and_tags_of_the_first(first: frazil.Repository) -> None:
    assert first.branches == ["main", "my-branch"]
    assert first.tags == ["it also works!", "it works!"]
    assert first.lookup_branch("main") == "RZD9SW6JJZHKA94VY1DG"
    assert first.lookup_branch("my-branch") == "0XEZMR4J7SJ5QBWAYBE0"
    assert first.lookup_tag("it works!") == "QVY2RGJBE9DX8E525CA0"
    assert first.lookup_tag("it also works!") == "0XEZMR4J7SJ5QBWAYBE0"
    assert [commit.message for commit in first.history("main")] == MAIN
    assert [commit.message for commit in first.history("it works!")] == ["delete a chunk", *MAIN]
    for name in ("my-branch", "it also works!"):
        assert [commit.message for commit in first.history(name)] == ["some more structure", "delete a chunk", *MAIN]


def test_hierarchy_of_the_first(first: frazil.Repository) -> None:
    store = first.readonly_session("my-branch").store
    inner = "group2/group3/group4/group5/inner/"
    for folder, files, below in (
        ("", ["zarr.json"], ["group1/", "group2/"]),
        ("group1/", ["group1/zarr.json"], ["group1/big_chunks/", "group1/small_chunks/"]),
        ("group2/", ["group2/zarr.json"], ["group2/group3/"]),
        ("group2/group3/group4/group5/", ["group2/group3/group4/group5/zarr.json"], [inner]),
        (inner, [f"{inner}zarr.json"], []),
    ):
        assert store.list_dir(folder) == (files, below)
    session = first.readonly_session("my-branch")
    assert dict(session.root.attrs) == {}
    for path in ("group1", "group2", "group2/group3", "group2/group3/group4", "group2/group3/group4/group5"):
        assert dict(session.open(path).attrs) == {"this": "is a nice group", "icechunk": 1, "size": 42.0}
    for path in ("group1/big_chunks", "group1/small_chunks", inner[:-1]):
        assert dict(session.open(path).attrs) == {"this": "is a nice array", "icechunk": 1, "size": 42.0}


@pytest.mark.rule("I124", "I257", "I279", "I280", "I281", "I288")
@pytest.mark.parametrize("branch", ["main", "my-branch"])
def test_arrays_of_the_first(first: frazil.Repository, branch: str) -> None:
    session = first.readonly_session(branch)
    big, small = array_at(session, "group1/big_chunks"), array_at(session, "group1/small_chunks")
    assert (big.shape, big.chunks, big.dtype, small.shape, small.chunks, small.dtype) == (
        *((10, 10), (5, 5), np.dtype("<f4"), (5,), (1,), np.dtype("i1")),
    )
    assert np.isnan(big.fill_value)
    assert small.fill_value == 8
    np.testing.assert_array_equal(big[...], np.full((10, 10), 42, "f4"))
    np.testing.assert_array_equal(small[...], [84, 84, 84, 84, 84 if branch == "main" else 8])
    if branch == "my-branch":
        inner = values(session, "group2/group3/group4/group5/inner")
        assert inner.shape == (10, 10)
        assert inner.dtype == np.float32
        assert np.isnan(inner).all()
    document = json.loads(session.store.get("group1/big_chunks/zarr.json") or b"")
    assert document["codecs"] == [{"name": "bytes", "configuration": {"endian": "little"}}]
    assert document["fill_value"] == "NaN"
    assert document["chunk_key_encoding"] == {"name": "default", "configuration": {"separator": "/"}}


def test_before_the_virtual_chunk_there_was_a_native_one(first: frazil.Repository) -> None:
    session = frazil.Repository.open(stored(FIRST)).readonly_session(snapshot="F8R6")
    np.testing.assert_array_equal(values(session, "group1/big_chunks"), np.full((10, 10), 42, "f4"))
    np.testing.assert_array_equal(values(session, "group1/small_chunks"), [84] * 5)
    empty = first.readonly_session(snapshot="J4DQ")
    assert np.isnan(values(empty, "group1/big_chunks")).all()
    assert list(first.readonly_session(snapshot="WT2Z").root) == []


@pytest.mark.rule("trap 54")
def test_references_of_another_rank_are_never_shown(first: frazil.Repository) -> None:
    """Three of its manifests have keys (3, [i]), though node 3 has two dimensions."""
    session = first.readonly_session()
    keys = session.store.list_prefix("group1/big_chunks/c/")
    assert keys == [f"group1/big_chunks/c/{row}/{column}" for row in range(2) for column in range(2)]


def test_a_virtual_chunk_that_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    location = "s3://testbucket/path/to/python/chunk-1"
    for prefixes, error, text in (
        ((), InvalidInputError, "outside of the prefixes that are allowed"),
        ({"s3://testbucket/": tmp_path}, StoreError, "does not exist"),
    ):
        repo = frazil.Repository.open(stored(FIRST), virtual_prefixes=prefixes)
        array = array_at(repo.readonly_session(), "group1/big_chunks")
        with pytest.raises(error, match=text) as caught:
            array[...]
        assert (caught.value.key, caught.value.path) == (location, "group1/big_chunks")
        assert caught.value.hint
        np.testing.assert_array_equal(array[5:, :], np.full((5, 10), 42, "f4"))


def test_virtual_chunks_of_the_first_archive_are_read_from_a_bucket(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """The location in the manifest: with credentials of the environment, and with those of a store."""
    s3._make("testbucket")
    bucket = s3.store("testbucket")
    bucket.set("path/to/python/chunk-1", np.full(25, 42, "<f4").tobytes())
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    for prefixes in (
        ["s3://testbucket/"],
        {"s3://testbucket/": bucket},
        {"s3://testbucket/path/": "s3://testbucket/path"},
    ):
        array = array_at(
            frazil.Repository.open(stored(FIRST), virtual_prefixes=prefixes).readonly_session(), "group1/big_chunks"
        )
        np.testing.assert_array_equal(array[...], np.full((10, 10), 42, "f4"))
    bucket.set("path/to/python/chunk-1", np.full(25, 43, "<f4").tobytes())
    assert (array[:5, :5] == 43).all(), "that library keeps no check"
    for change, error, text in (
        (lambda: bucket.set("path/to/python/chunk-1", bytes(99)), DataError, "it has 99"),
        (lambda: bucket.erase("path/to/python/chunk-1"), StoreError, "does not exist"),
    ):
        change()
        with pytest.raises(error, match=text) as caught:
            array[...]
        assert (caught.value.key, caught.value.chunk) == ("s3://testbucket/path/to/python/chunk-1", (0, 0))


def test_the_first_archive_is_continued_by_new_commits(first: frazil.Repository) -> None:
    with first.transaction("my-branch", message="seventh") as root:
        root["group1/small_chunks"][4] = 1
        root["group1/big_chunks"][9, 9] = 0
    session = first.readonly_session("my-branch")
    np.testing.assert_array_equal(values(session, "group1/small_chunks"), [84, 84, 84, 84, 1])
    big = values(session, "group1/big_chunks")
    assert big[9, 9] == 0
    assert (big.ravel()[:-1] == 42).all()
    assert next(iter(first.history("my-branch"))).parent == "0XEZMR4J7SJ5QBWAYBE0"


# --- the varied one -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I185", "I205", "I120")
def test_branches_and_tags_of_the_varied() -> None:
    repo, refs = varied(), expected()["refs"]
    assert {name: repo.lookup_branch(name) for name in repo.branches} == refs["branches"]
    assert {name: repo.lookup_tag(name) for name in repo.tags} == refs["tags"]
    messages = {commit["id"]: commit["message"] for commit in expected()["commits"]}
    for branch, ids in (("main", TIPS), ("dev-1", (*TIPS[:3], VARIED_IDS[4]))):
        history = list(repo.history(branch))
        assert [commit.id for commit in history[:-1]] == list(reversed(ids))
        assert [commit.message for commit in history] == [
            *(messages[identity] for identity in reversed(ids)),
            "Repository initialized",
        ]


@pytest.mark.rule("I217", "I289")
@pytest.mark.parametrize("snapshot", VARIED_IDS)
def test_every_array_of_the_varied_archive_is_read(snapshot: str) -> None:
    session = varied().readonly_session(snapshot=snapshot)
    arrays = expected()["expected"][snapshot]
    assert len(arrays) > 30
    documents = [key for key in session.store.list() if key.endswith("zarr.json")]
    assert {key for key in documents if b'"array"' in (session.store.get(key) or b"")} == {
        f"{path[1:]}/zarr.json" for path in arrays
    }
    for path, known in arrays.items():
        found = values(session, path)
        shape = [1] if path == "/shape/scalar" else list(found.shape)  # recorded after NumPy had made a row of it
        assert (shape, str(found.dtype)) == (known["shape"], known["dtype"]), path
        if path != "/codecs/shard":
            little = np.ascontiguousarray(found.astype(found.dtype.newbyteorder("<")))
            assert hashlib.sha256(little.tobytes()).hexdigest() == known["sha256"], path


@pytest.mark.rule("trap 55")
@pytest.mark.parametrize("snapshot", VARIED_IDS)
def test_shards_whose_writer_left_inner_chunks_out(snapshot: str) -> None:
    """The writer wrapped its order of inner chunks around at those 2 of 20 in a shard: other chunks are in the file twice, these are missing. The recorded sum
    is that of the values before writing, so no reader can reproduce it."""
    array = array_at(varied().readonly_session(snapshot=snapshot), "codecs/shard")
    found = np.asarray(array[...])
    whole = np.arange(5000, dtype="<i4").reshape(50, 100)
    noted = expected()["expected"][snapshot]["/codecs/shard"]["sha256"]
    assert hashlib.sha256(whole.tobytes()).hexdigest() == noted
    assert (array.shards, array.chunks) == ((20, 50), (5, 10))
    for row in range(10):
        for column in range(10):
            part = np.s_[row * 5 : row * 5 + 5, column * 10 : column * 10 + 10]
            lost = (row % INDEXED[0], column % INDEXED[1]) in WRAPPED
            np.testing.assert_array_equal(found[part], np.zeros((5, 10)) if lost else whole[part])
            np.testing.assert_array_equal(array[part], found[part])


@pytest.mark.rule("I234")
def test_attributes_and_dimensions_of_the_varied() -> None:
    session = varied().readonly_session(snapshot=TIPS[0])
    for key in session.store.list():
        if key.endswith("zarr.json"):
            document = json.loads(session.store.get(key) or b"")
            node = session.open(key.removesuffix("zarr.json").removesuffix("/"))
            assert dict(node.attrs) == document["attributes"]
            if isinstance(node, frazil.Array) and "dimension_names" in document:
                assert list(node.dimension_names or ()) == document["dimension_names"]
