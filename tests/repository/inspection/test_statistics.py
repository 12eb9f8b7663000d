"""Statistics, usage and views of commits and objects, in both formats: against plain models, against the listing, and on damaged repositories."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repository.maintenance.garbage import FORMATS, fill, orphan

import frazil
from frazil.errors import FormatError, FrazilError, InvalidInputError, NotFoundError
from frazil.repository.inspection.report import ShownCommit, ShownObject, Statistics, usage_text
from frazil.stores import MemoryStore
from frazil.stores.store import Store
from frazil.testing import CountingStore
from frazil.testing.memory_format import create_memory_repository, open_memory_repository

formats = pytest.mark.parametrize("create", FORMATS, ids=["alpha", "memory"])
Create = Callable[[Store], frazil.Repository]
PACKED: list[Create] = [frazil.Repository.create, create_memory_repository]


def listed(store: MemoryStore, folder: str = "") -> tuple[int, int]:
    """Keys and bytes of a folder."""
    keys = [key for key in store.list() if key.startswith(folder)]
    return len(keys), int(store.sizes(keys).sum()) if keys else 0


def check_sums(store: MemoryStore, found: Statistics) -> None:
    """Every sum equals that of the listing, and of its parts."""
    assert found.total == listed(store)
    for kind in ("snapshots", "attributes", "manifests", "chunks"):
        assert found.live[kind].plus(found.dead[kind]) == listed(store, f"{kind}/")
    live = sum(kept.nbytes for kept in found.live.values())
    assert sum(commit.added.nbytes for commit in found.commits) == live
    assert sum(commit.added.objects for commit in found.commits) == sum(kept.objects for kept in found.live.values())
    assert sum(array.nbytes for array in found.arrays) == found.packing.used
    assert found.packing.used + found.packing.unused == found.live["chunks"].nbytes
    json.dumps(found.to_json())
    assert str(found)


@formats
def test_live_and_dead_objects(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo, 3)
    orphan(repo)
    found = repo.stats()
    check_sums(store, found)
    assert not found.problems
    assert found.live["chunks"].objects == 12
    assert found.dead["chunks"] == (2, 2 * 256 * 8)
    assert [array[:3] for array in found.arrays] == [("/a", 12, 12 * 256 * 8)]
    assert [commit.message for commit in found.commits][1:] == ["0", "1", "2"]
    assert [commit.added.objects for commit in found.commits] == [1, 6, 6, 6]
    assert found.packing[:4] == (12, 0, 12, 0)


@formats
def test_a_chunk_counts_once_for_the_first_commit_that_has_it(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo, 1)
    repo.create_branch("b", "main")
    with repo.transaction("b", message="on b") as root:
        root.create_array("g/new", data=np.ones((2, 256)), chunks=(1, 256), codecs=[])
    with repo.transaction(message="on main") as root:
        root.move("a", "moved")
    repo.create_tag("t", "b")
    found = repo.stats()
    check_sums(store, found)
    assert {array.path: array.chunks for array in found.arrays} == {"/moved": 4, "/g/new": 2}
    by_message = {commit.message: commit for commit in found.commits}
    assert by_message["0"].added.nbytes > 4 * 256 * 8
    assert by_message["on main"].added.nbytes < 256 * 8
    assert by_message["on b"].ref == "branch b"


@pytest.mark.parametrize("create", PACKED, ids=["alpha", "memory"])
def test_packs(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    with repo.transaction(message="packed") as root:
        root.create_array("a", data=np.arange(1280.0).reshape(10, 128), chunks=(1, 128), codecs=[])
        root.create_array("b", data=np.arange(10.0), chunks=(5,), codecs=[])
    found = repo.stats(largest=1)
    check_sums(store, found)
    assert found.packing == (1, 1, 10, 10, 10 * 1024, 0)
    assert {array.path: (array.nbytes, array.inline_nbytes) for array in found.arrays} == {
        "/a": (10 * 1024, 0),
        "/b": (0, 80),
    }
    assert [one.nbytes for one in found.largest] == [10 * 1024]
    assert found.largest[0].path == "/a"
    assert found.largest[0].live


WRITES = st.lists(st.tuples(st.sampled_from(["a", "b", "g/c"]), st.integers(0, 7), st.integers(1, 8)), max_size=6)


@settings(max_examples=25)
@given(
    commits=st.lists(st.tuples(st.sampled_from(["main", "side"]), WRITES, st.booleans()), max_size=5),
    number=st.integers(0, 1),
    packed=st.booleans(),
)
def test_sums_are_those_of_the_listing(
    commits: list[tuple[str, list[tuple[str, int, int]], bool]], number: int, packed: bool
) -> None:
    store = MemoryStore()
    repo = (PACKED if packed else FORMATS)[number](store)
    with repo.transaction(message="arrays") as root:
        for name in ("a", "b", "g/c"):
            root.create_array(name, shape=(8, 100), chunks=(1, 100), dtype="f8", codecs=[])
    repo.create_branch("side", "main")
    for branch, writes, is_kept in commits:
        session = repo.writable_session(branch)
        for name, first, rows in writes:
            session.root[name][first : first + rows] = first + rows
        if is_kept:
            session.commit("some", allow_empty=True)
        else:
            session._transaction.changes.leave_files()
    found = repo.stats()
    assert not found.problems
    check_sums(store, found)
    for one in repo.usage():
        model = repo.readonly_session().root
        if one.kind == "array":
            chunks = model[one.path]
            assert isinstance(chunks, frazil.Array)
            assert one.chunks == int((chunks[:] != 0).any(axis=1).sum())
            assert one.nbytes == one.chunks * 800


@formats
def test_usage_by_path(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    with repo.transaction(message="two") as root:
        root.create_array("g/a", data=np.ones((4, 256)), chunks=(1, 256), codecs=[])
        root.create_array("g/b", data=np.ones((2, 256)), chunks=(1, 256), codecs=[])
    repo.create_tag("v1", "main")
    with repo.transaction(message="less") as root:
        del root["g/b"]
        root["g/a"][:1] = 2
    found = {one.path: one for one in repo.usage()}
    assert {path: (one.kind, one.chunks, one.nbytes, one.kept_nbytes) for path, one in found.items()} == {
        "/": ("group", 4, 4 * 2048, 7 * 2048),
        "/g": ("group", 4, 4 * 2048, 7 * 2048),
        "/g/a": ("array", 4, 4 * 2048, 5 * 2048),
        "/g/b": ("gone", 0, 0, 2 * 2048),
    }
    assert [one.path for one in repo.usage("v1", "g/b")] == ["/g/b"]
    with pytest.raises(NotFoundError):
        repo.usage(path="no/such")
    assert [(one.path, one.kind) for one in create(MemoryStore()).usage()] == [("/", "group")]
    with repo.transaction(message="a group in the place of an array, and none where one was") as root:
        root.remove("g")
        root.create_array("a/b", data=np.ones((1, 256)), codecs=[])
    with repo.transaction(message="swapped") as root:
        root.remove("a/b")
        root.create_group("a/b")
    assert {one.path: (one.kind, one.nbytes, one.kept_nbytes) for one in repo.usage()} == {
        "/": ("group", 0, 8 * 2048),
        "/a": ("group", 0, 2048),
        "/a/b": ("group", 0, 2048),
        "/g": ("gone", 0, 7 * 2048),
        "/g/a": ("gone", 0, 5 * 2048),
        "/g/b": ("gone", 0, 2 * 2048),
    }


@formats
def test_a_commit_is_shown(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo, 2)
    repo.create_tag("v1", "main")
    with repo.transaction(message="rows\nof it", metadata={"by": "me"}) as root:
        root["a"][:2] = 7
    found = repo.show("main")
    assert isinstance(found, ShownCommit)
    assert (found.snapshot, found.parent) == (repo.lookup("main"), repo.lookup("v1"))
    assert (found.message, dict(found.metadata), found.refs) == ("rows\nof it", {"by": "me"}, ("branch main",))
    assert found.wrote["chunks"] == (2, 2 * 2048)
    assert found.wrote["manifests"].objects == 1
    assert found.changed is not None
    assert len(found.changed.chunks["/a"].written) == 2
    assert "rows" in str(found)
    json.dumps(found.to_json())
    oldest = [commit.id for commit in repo.history()][-1]
    first = repo.show(oldest)
    assert isinstance(first, ShownCommit)
    assert first.parent is None
    assert first.changed is None


@formats
def test_objects_are_shown(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo, 2)
    kinds = []
    for key in store.list():
        kind, _, name = key.partition("/")
        if kind in ("manifests", "chunks"):
            found = repo.show(name)
            assert isinstance(found, ShownObject)
            assert (found.kind, found.id, found.nbytes) == (kind, name, store.sizes([key]).item(0))
            kinds.append((kind, sum(use[2] for use in found.used_by)))
            json.dumps(found.to_json())
            assert str(found)
    assert sorted(kinds) == sorted([("manifests", 4), ("manifests", 0), *[("chunks", 1)] * 4, *[("chunks", 0)] * 4])
    with pytest.raises(NotFoundError, match="is called"):
        repo.show("0" * 20)
    with pytest.raises(NotFoundError):
        repo.show("nothing")
    with pytest.raises(InvalidInputError):
        repo.show(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError):
        repo.stats(largest=-1)


@formats
@pytest.mark.parametrize("folder", ["snapshots/", "manifests/", "chunks/"])
@pytest.mark.parametrize("damage", ["absent", "torn"])
def test_damage_is_reported_and_nothing_is_changed(create: Create, folder: str, damage: str) -> None:
    for number in range(3):
        store = MemoryStore()
        repo = create(store)
        fill(repo, 2)
        key = sorted(key for key in store.list() if key.startswith(folder))[number % 2]
        if damage == "absent":
            store.erase(key)
        else:
            store.set(key, (store.get(key) or b"")[:5])
        before = {name: store.get(name) for name in store.list()}
        try:
            found = repo.stats()
        except FrazilError:
            assert folder == "snapshots/"
            continue
        finally:
            assert {name: store.get(name) for name in store.list()} == before
        assert found.problems or (folder, damage) == ("chunks/", "torn")
        assert found.total == listed(store)


@formats
def test_other_locations_are_refused(create: Create) -> None:
    store = MemoryStore()
    store.set("zarr.json", b"{}")
    opened = open_memory_repository if create is FORMATS[1] else frazil.Repository.open
    for call in (lambda repo: repo.stats(), lambda repo: repo.usage(), lambda repo: repo.show("main")):
        with pytest.raises((NotFoundError, FormatError)):
            call(opened(store))
    assert list(store.list()) == ["zarr.json"]


@formats
def test_statistics_read_no_chunk(create: Create) -> None:
    store = CountingStore(MemoryStore())
    repo = create(store)
    fill(repo, 3)
    store.clear()
    steps: list[str] = []
    repo.stats(progress=lambda what, count: steps.append(what))
    repo.show("main")
    assert {"keys listed", "snapshots read", "manifests read"} <= set(steps)
    assert not [one for one in store.requests if one.operation == "fetch" and one.key.startswith("chunks/")]
    assert not [one for one in store.requests if one.operation in ("put", "erase")]


def test_control_characters_are_escaped() -> None:
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="clear \x1b[2J the screen", metadata={"by\x1b[31m": 1}) as root:
        root.create_array("a\x1b[31m", data=np.arange(1000.0), chunks=(100,), codecs=[])
    shown = repo.show("main")
    assert isinstance(shown, ShownCommit)
    for text in (str(repo.stats()), str(shown), usage_text(repo.usage())):
        assert "\x1b" not in text
        assert "\\x1b" in text
