"""Nodes that are read in batches equal those read one by one, and share nothing mutable."""

from __future__ import annotations

from pathlib import Path

import pytest

import frazil
from frazil.errors import InvalidInputError, UnknownExtensionError
from frazil.stores import MemoryStore


@pytest.fixture
def repo() -> frazil.Repository:
    repo = frazil.Repository.create(MemoryStore(), durable=False, attributes_file_bytes=100)
    with repo.transaction("main", message="arrays") as root:
        for group in ("a", "b"):
            root.create_group(group, attributes={"group": group, "list": [1, {"x": 2}]})
            for name in ("t", "u", "v"):
                attributes = {"units": "K", "list": [1, {"x": 2}], "long": "y" * (200 if name == "v" else 0)}
                root.create_array(
                    f"{group}/{name}", shape=(4,), dtype="f4", chunks=(2,), fill_value=3.5, attributes=attributes
                )
    return repo


def test_members_are_what_each_node_is(repo: frazil.Repository) -> None:
    session = repo.readonly_session()
    members = dict(session.root.members(max_depth=None))
    assert list(members) == ["a", "a/t", "a/u", "a/v", "b", "b/t", "b/u", "b/v"]
    fresh = repo.readonly_session()
    for path, node in members.items():
        again = fresh.open(path)
        assert type(again) is type(node)
        assert again.metadata == node.metadata == repo.readonly_session().open(path).metadata
        assert dict(again.attrs) == dict(node.attrs)
    assert members["a/v"].attrs["long"] == "y" * 200


def test_changed_attributes_are_not_shared(repo: frazil.Repository) -> None:
    session = repo.readonly_session()
    members = dict(session.root.members(max_depth=None))
    for path in ("a", "a/t", "a/v"):
        value = members[path].attrs["list"]
        assert isinstance(value, list)
        value[1]["x"] = 9
        value.append(9)
    for root in (session.root, repo.readonly_session().root):
        for path, node in root.members(max_depth=None):
            assert node.attrs["list"] == [1, {"x": 2}], path


def test_changes_show_beside_what_is_remembered(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    before = dict(session.root.members(max_depth=None))
    session.root["a/t"].attrs["units"] = "degC"
    session.root.move("b/t", "c/t")
    session.root.remove("a/u")
    for _ in range(2):
        members = dict(session.root.members(max_depth=None))
        assert list(members) == ["a", "a/t", "a/v", "b", "b/u", "b/v", "c", "c/t"]
        assert members["a/t"].attrs["units"] == "degC"
        assert members["c/t"].metadata == before["b/t"].metadata
        if session.has_changes:
            session.commit("changed")
    assert before["a/t"].attrs["units"] == "K"


def test_an_unknown_codec_is_an_error_at_each_opening(repo: frazil.Repository, tmp_path: Path) -> None:
    other = frazil.Repository.create(tmp_path / "r", durable=False)
    with other.transaction("main", message="odd") as root:
        root.create_array(
            "a", shape=(2,), dtype="f4", codecs=["bytes", {"name": "zstd", "configuration": {"level": 1}}]
        )
    registry = frazil.codecs.Registry(
        [(name, codec) for name, codec in frazil.codecs.DEFAULT_REGISTRY.codecs if name != "zstd"]
    )
    session = frazil.Repository.open(tmp_path / "r", registry=registry).readonly_session()
    for _ in range(2):
        with pytest.raises(UnknownExtensionError, match="zstd"):
            session.root["a"]
        assert list(session.root.members(skip_unreadable=True)) == []


def test_an_array_that_grows_has_the_document_that_its_bytes_have(repo: frazil.Repository) -> None:
    for length in (5, 7):
        with repo.transaction("main", message="grow") as root:
            array = root["a/t"]
            array.append([1.0] * (length - array.shape[0]))
            array.attrs["length"] = length
        opened = frazil.Repository.open(repo._files.store).readonly_session().open("a/t")
        for seen in (array, repo.readonly_session().open("a/t")):
            assert seen.metadata == opened.metadata
            assert seen.shape == (length,) and seen.attrs["length"] == length


def test_a_change_of_lengths_and_attributes_keeps_both(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    changed = session._transaction.change(
        "a/t", lambda stored: stored.with_shape((9,)).with_attributes({"units": "K", "list": [1.0, True]})
    )
    assert changed.shape == (9,)
    session.commit("both")
    found = repo.readonly_session().open("a/t")
    assert found.shape == (9,) and str(dict(found.attrs)) == "{'units': 'K', 'list': [1.0, True]}"


def test_a_grid_that_grows_too_large_for_a_snapshot_is_refused(repo: frazil.Repository) -> None:
    array = repo.writable_session().root["a/t"]
    with pytest.raises(InvalidInputError, match=r"at most 2\^32 chunks") as refused:
        array.resize(2**33 + 1)
    assert refused.value.key == "a/t/zarr.json" and array.shape == (4,)
