"""The file system store of the draft is LocalStore: keys to paths and back, files of others, and what erasing keeps."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import frazil
from frazil.errors import StoreError
from frazil.stores import LocalStore
from frazil.testing.checks import refusal, run_threads

names = st.text(st.sampled_from("abAB09.-_"), min_size=1, max_size=6).filter(lambda name: set(name) != {"."})
keys = st.lists(names, min_size=1, max_size=4).map("/".join)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "base")


def files(store: LocalStore) -> dict[str, bytes]:
    base = Path(store.path)
    return {path.relative_to(base).as_posix(): path.read_bytes() for path in base.rglob("*") if path.is_file()}


@pytest.mark.rule("D106")
def test_keys_are_paths_below_the_folder(store: LocalStore) -> None:
    store.set("foo/bar", b"1")
    assert Path(store.path, "foo", "bar").read_bytes() == b"1"
    Path(store.path, "foo", "baz").mkdir()
    Path(store.path, "foo", "baz", "c0.1").write_bytes(b"2")
    assert store.get("foo/baz/c0.1") == b"2"
    assert store.list() == ["foo/bar", "foo/baz/c0.1"]


@pytest.mark.rule("D106", "D107")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(st.dictionaries(keys, st.binary(max_size=9), max_size=8))
def test_files_and_keys_are_the_same(tmp_path: Path, content: dict[str, bytes]) -> None:
    content = {
        key: value for key, value in content.items() if not any(other.startswith(key + "/") for other in content)
    }
    base = tmp_path / os.urandom(8).hex()
    store = LocalStore(base)
    for key, value in content.items():
        store.set(key, value)
    assert files(store) == content if content else not base.exists()
    by_hand = tmp_path / os.urandom(8).hex()
    for key, value in content.items():
        path = by_hand.joinpath(*key.split("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)
    other = LocalStore(by_hand)
    assert {key: other.get(key) for key in other.list()} == content


@pytest.mark.rule("D107")
def test_a_tree_that_was_made_by_hand(store: LocalStore) -> None:
    base = Path(store.path)
    for name, text in {"zarr.json": "{}", "meta/a.array.json": "[]", "data/a/c0/0": "x", "data/a/c0/1": "y"}.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert store.get("zarr.json") == b"{}"
    assert store.get_partial_values([("data/a/c0/1", (0, 1)), ("data/a/c0/2", (0, 1))]) == [b"y", None]
    assert store.list() == ["data/a/c0/0", "data/a/c0/1", "meta/a.array.json", "zarr.json"]
    assert store.list_prefix("data/") == ["data/a/c0/0", "data/a/c0/1"]
    assert store.list_dir("") == (["zarr.json"], ["data/", "meta/"])
    assert store.get("data/a") is None, "a folder is not a key"
    assert store.list_prefix("zarr.json/") == [], "and a file no prefix"
    assert store.list_dir("zarr.json/") == ([], [])
    store.erase("data/a/c0/0")
    store.erase_values(["data/a/c0/1", "data/a/c0/2"])
    assert files(store).keys() == {"meta/a.array.json", "zarr.json"}


@pytest.mark.rule("X16")
def test_erasing_removes_files_and_no_folders(store: LocalStore) -> None:
    store.set("a/b/c", b"1")
    for name in ("a", "a/b"):
        store.erase(name)
        store.erase_values([name])
    assert files(store) == {"a/b/c": b"1"}
    store.erase("a/b/c")
    for erase in (store.erase, lambda name: store.erase_values([name]), lambda name: store.erase_many([name], [None])):
        erase("a/b")
        assert Path(store.path, "a", "b").is_dir(), "an empty folder is not a key"
    store.set("a/d", b"2")
    store.erase_prefix("a/b/")
    assert not Path(store.path, "a", "b").exists(), "a prefix that is erased leaves nothing"
    assert files(store) == {"a/d": b"2"}


@pytest.mark.rule("X17", "D107")
def test_prefixes_end_with_a_slash_and_have_keys(store: LocalStore) -> None:
    store.set("a/b/c", b"")
    store.set("a/d/e/f", b"")
    assert store.list_dir("a/") == ([], ["a/b/", "a/d/"])
    store.erase("a/d/e/f")
    assert Path(store.path, "a", "d", "e").is_dir()
    assert store.list_dir("a/") == ([], ["a/b/"]), "a folder that is left empty is no prefix"
    assert store.is_empty("a/d/")


@pytest.mark.rule("D108")
def test_set_makes_folders_and_replaces_files_whole(store: LocalStore) -> None:
    store.set("a/b/c/d", bytes(100_000))

    def write(n: int) -> None:
        for _ in range(20):
            store.set("a/b/c/d", bytes([n]) * 100_000)

    def read() -> None:
        for _ in range(60):
            value = Path(store.path, "a/b/c/d").read_bytes()
            assert len(value) == 100_000
            assert value.count(value[0]) == 100_000

    run_threads([lambda: write(1), lambda: write(2), read, read])
    assert {name for name in files(store) if not name.endswith(".__lock")} == {"a/b/c/d"}


@pytest.mark.rule("D10", "D106")
def test_a_file_and_a_folder_of_one_name(store: LocalStore) -> None:
    store.set("meta/foo.array.json", b"{}")
    error = refusal(StoreError, lambda: store.set("meta/foo.array.json/x.array.json", b"{}"))
    assert error.key == "meta/foo.array.json/x.array.json"
    assert error.hint is not None
    assert store.get("meta/foo.array.json/x.array.json") is None
    store.set("meta/bar.group.json/x.array.json", b"{}")
    error = refusal(StoreError, lambda: store.set("meta/bar.group.json", b"{}"))
    assert error.key == "meta/bar.group.json"
    assert store.list() == ["meta/bar.group.json/x.array.json", "meta/foo.array.json"]


@pytest.mark.rule("D10")
def test_nodes_that_would_be_a_file_and_a_folder(tmp_path: Path) -> None:
    group = frazil.create_group(tmp_path / "base", zarr_format="draft")
    group["foo"] = np.arange(3)
    before = files(LocalStore(tmp_path / "base"))
    error = refusal(StoreError, lambda: group.create_array("foo.array.json/x", shape=3, dtype="u1"))
    assert error.hint is not None
    assert files(LocalStore(tmp_path / "base")) == before
    assert list(group) == ["foo"]
    group.create_array("bar.array.json/x", shape=3, dtype="u1")
    refusal(StoreError, lambda: group.create_array("bar", shape=3, dtype="u1"))
    assert sorted(group) == ["bar.array.json", "foo"]
    memory = frazil.create_group(frazil.stores.MemoryStore(), zarr_format="draft")
    memory["foo"] = np.arange(3)
    memory["foo.array.json/x"] = np.arange(3)
    assert sorted(memory) == ["foo", "foo.array.json"], "where keys are no paths, both can be"
