"""Commits as the document defines them, seen from their store: what is written in which order, what readers see meanwhile, and what remains after a lost
race."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import AlreadyExistsError, ConflictError, FrazilError
from frazil.formats.alpha.snapshots import decode_snapshot
from frazil.formats.ids import encode_id
from frazil.stores import Changed, LocalStore, MemoryStore, Pieces, Store, Version, WrappedStore
from frazil.testing import CountingStore
from frazil.testing.checks import run_threads
from tests.conformance.alpha.repositories import contents, filled


class ObservedStore(WrappedStore):
    """Reports each put before it is carried out."""

    __slots__ = ("before",)

    def __init__(self, inner: Store, before: Callable[[Sequence[str]], object]) -> None:
        super().__init__(inner)
        self.before = before

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        self.before(names)
        return self.inner.put_many(names, pieces, expect)


@pytest.mark.rule("I70", "I334", "I335", "I336", "I337")
@pytest.mark.parametrize("options", [{}, {"compatible": "alpha-library"}, {"durable": True}])
def test_a_commit_writes_chunks_then_manifests_and_snapshot_then_the_branch_file(
    tmp_path: Path, options: dict[str, object]
) -> None:
    """Manifests and the snapshot are one call of the store, in any order; every file of a call is stored before the next call begins."""
    inner = LocalStore(tmp_path, sync=bool(options.get("durable")))
    filled(inner, **options)
    calls: list[list[str]] = []
    complete: list[bool] = []

    def before(names: Sequence[str]) -> None:
        complete.append(all(inner.exists(name) for call in calls for name in call))
        calls.append(list(names))

    repo = frazil.Repository.open(ObservedStore(inner, before))
    session = repo.writable_session()
    session.root["a"][...] = 9
    session.root.create_array("c", data=np.arange(5000.0), chunks=(1000,), codecs=["bytes"])
    identity = session.commit("second")
    folders = [{name.partition("/")[0] for name in call} for call in calls]
    chunks = [call for call in folders if call == {"chunks"}]
    assert folders == [*chunks, {"manifests", "snapshots"}, {"refs"}]
    assert chunks
    assert all(complete)
    assert calls[-1] == ["refs/branch.main/ZZZZZZZX.json"]
    snapshot = decode_snapshot(inner.get(f"snapshots/{identity}") or b"")
    assert snapshot.nodes is not None
    assert {f"snapshots/{identity}"} == {name for name in calls[-2] if name.startswith("snapshots/")}


@pytest.mark.rule("I70", "I335", "I336")
def test_an_incomplete_commit_harms_no_one() -> None:
    """Whichever part of them exists when a writer dies, readers and writers continue from the last commit."""
    inner = MemoryStore()
    filled(inner)
    before = contents(inner)
    written: list[str] = []
    session = frazil.Repository.open(ObservedStore(inner, written.extend)).writable_session()
    session.root["a"][0, 0] = 9
    session.commit("second")
    after = contents(inner)
    own = [name for name in written if not name.startswith("refs/")]
    assert {name.partition("/")[0] for name in own} == {"chunks", "manifests", "snapshots"}
    for left in own:
        store = MemoryStore()
        for key, value in {**before, **{name: after[name] for name in own if name != left}}.items():
            store.set(key, value)
        repo = frazil.Repository.open(store)
        assert repo.readonly_session().root["a"][0, 0] == 1
        with repo.transaction(message="other") as root:
            root["a"][0, 0] = 5
        assert repo.readonly_session().root["a"][0, 0] == 5


@pytest.mark.rule("I45", "I47", "I72", "I170", "I171")
def test_files_of_a_lost_race_are_removed() -> None:
    """Another commit comes between the last read of the branch and the creation of its file: by then chunks, manifests and snapshot are written."""
    inner = MemoryStore()
    filled(inner)
    other = frazil.Repository.open(inner).writable_session()
    other.root["b"][0] = 6
    written: list[str] = []

    def before(names: Sequence[str]) -> None:
        written.extend(names)
        if names[0].startswith("refs/") and other.branch is not None and not theirs:
            theirs.append(other.commit("theirs"))

    theirs: list[str] = []
    session = frazil.Repository.open(ObservedStore(inner, before)).writable_session()
    session.root["a"][...] = 5
    before_commit = contents(inner)
    with pytest.raises(ConflictError):
        session.commit("ours")
    assert {name.partition("/")[0] for name in written} == {"chunks", "manifests", "snapshots", "refs"}
    left = {name for name in written if inner.exists(name)}
    assert {name.partition("/")[0] for name in left} <= {"chunks", "refs"}, "the session keeps its chunks"
    session.discard()
    assert contents(inner).keys() >= before_commit.keys() - set(written)
    assert [name for name in written if inner.exists(name) and not name.startswith("refs/")] == []
    assert frazil.Repository.open(inner).lookup("main") == theirs[0]


@pytest.mark.rule("I45", "I209")
@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_exactly_one_creator_of_a_reference_file_succeeds(tmp_path: Path, kind: str) -> None:
    store = MemoryStore() if kind == "memory" else LocalStore(tmp_path)
    repo = filled(store)  # type: ignore[arg-type]
    ids = [commit.id for commit in repo.history()][:2]
    made: list[str] = []

    def create(target: str) -> None:
        try:
            frazil.Repository.open(store).create_tag("v1", target)
        except AlreadyExistsError:
            return
        made.append(target)

    run_threads([lambda n=n: create(ids[n % 2]) for n in range(12)])  # type: ignore[misc]
    assert made == [repo.lookup_tag("v1")]


@pytest.mark.rule("I258")
@pytest.mark.parametrize("options", [{}, {"compatible": "alpha-library"}])
def test_chunks_of_one_array_lie_in_several_manifests(options: dict[str, object]) -> None:
    """In any case all of them are read."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, **options)  # type: ignore[arg-type]
    with repo.transaction(message="first") as root:
        root.create_array("x", shape=(200, 200), dtype="u1", chunks=(1, 1), codecs=["bytes"])[...] = 3
    if not options:
        with repo.transaction(message="second") as root:
            root["x"][0, 0] = 4
    node = decode_snapshot(store.get(f"snapshots/{repo.lookup('main')}") or b"").nodes.get("/x")
    assert node is not None
    assert node.array is not None
    assert len(node.array.manifests) > 1
    values = frazil.Repository.open(store).readonly_session().root["x"][...]
    assert values[0, 0] == (3 if options else 4)
    assert (values.reshape(-1)[1:] == 3).all()
    for reference in node.array.manifests:
        key = f"manifests/{encode_id(reference.id)}"
        damaged = MemoryStore()
        for name, value in contents(store).items():
            if name != key:
                damaged.set(name, value)
        with pytest.raises(FrazilError):
            frazil.Repository.open(damaged).readonly_session().root["x"][...]


@pytest.mark.rule("I28")
def test_readers_take_no_locks_and_write_nothing(tmp_path: Path) -> None:
    filled(LocalStore(tmp_path))  # type: ignore[arg-type]
    store = CountingStore(LocalStore(tmp_path))
    before = sorted(path for path in tmp_path.rglob("*"))
    changed = {path: path.stat().st_mtime_ns for path in before}
    repo = frazil.Repository.open(store)
    session = repo.readonly_session()
    assert session.root["a"][...].sum() == 4000
    assert session.root["b"][0] == 2
    assert next(commit.message for commit in repo.history()) == "first"
    assert repo.tags == []
    assert {request.operation for request in store.requests} <= {"fetch", "list"}
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == changed, "nor a lock file, for a moment"


@pytest.mark.rule("I28")
def test_a_commit_is_seen_whole() -> None:
    """Readers that open the branch at any point of a commit see the old values of all nodes, or the new ones of all."""
    inner = MemoryStore()
    filled(inner)
    seen: list[tuple[object, ...]] = []

    def look(names: Sequence[str]) -> None:
        root = frazil.Repository.open(inner).readonly_session().root
        seen.append((root["a"][0, 0], root["a"][1999, 1], root["b"][0], root["b"].attrs.get("n")))

    session = frazil.Repository.open(ObservedStore(inner, look)).writable_session()
    session.root["a"][...] = 7
    session.root["b"][...] = 8
    session.root["b"].attrs["n"] = 9
    session.commit("second")
    assert len(seen) >= 3
    assert set(seen) == {(1, 1, 2, None)}
    look([])
    assert seen[-1] == (7, 7, 8, 9)
