"""Repositories as users use them: commits, readers, conflicts, rebases, appends, forks, time travel. On a store in memory and on disk."""

from __future__ import annotations

import pickle
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frazil
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FrazilError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
)
from frazil.stores import LocalStore, MemoryStore, Store


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "sea.repo")


@pytest.fixture
def repo(store: Store) -> frazil.Repository:
    return frazil.Repository.create(store, durable=False)


def sea(root: frazil.Group, rows: int = 8, chunk: int = 4) -> frazil.Array:
    array = root.create_array("sea/temp", shape=(rows, 4), dtype="i4", chunks=(chunk, 4), fill_value=-1)
    array[...] = 1
    return array


def test_a_commit_is_seen_by_later_sessions_alone(repo: frazil.Repository) -> None:
    before = repo.readonly_session()
    session = repo.writable_session("main")
    assert not session.has_changes
    array = sea(session.root)
    assert session.has_changes
    assert (array[...] == 1).all(), "a session sees what it wrote"
    assert list(before.root) == list(repo.readonly_session().root) == []
    identity = session.commit("first", metadata={"ship": "Polarstern"})
    assert not session.has_changes
    assert session.snapshot_id == identity == repo.lookup("main")
    assert list(before.root) == []
    assert (repo.readonly_session().root["sea/temp"][...] == 1).all()
    newest, oldest = repo.history("main")
    assert (newest.id, newest.parent, newest.message) == (identity, oldest.id, "first")
    assert newest.metadata == {"ship": "Polarstern"}
    assert oldest.parent is None
    array[0, 0] = 9  # the session continues
    session.commit("second")
    assert repo.readonly_session().root["sea/temp"][0, 0] == 9
    assert repo.readonly_session(snapshot=identity[:6]).root["sea/temp"][0, 0] == 1


@pytest.mark.rule("I29")
def test_time_travel(repo: frazil.Repository) -> None:
    ids = []
    for number in range(3):
        with repo.transaction(message=f"number {number}") as root:
            root.attrs["number"] = number
        ids.append(repo.lookup("main"))
    repo.create_tag("v1", ids[1])
    repo.create_branch("old", "v1")
    for name, number in (("v1", 1), ("old", 1), ("main", 2), (ids[0], 0), (ids[0][:8].lower(), 0)):
        assert repo.readonly_session(snapshot=repo.lookup(name)).root.attrs["number"] == number
    assert repo.readonly_session(tag="v1").root.attrs["number"] == 1
    assert repo.readonly_session("old").root.attrs["number"] == 1
    first = next(commit for commit in repo.history() if commit.id == ids[0])
    assert repo.readonly_session(as_of=first.written_at).root.attrs["number"] == 0
    assert repo.readonly_session(as_of=datetime.now(UTC) + timedelta(days=1)).root.attrs["number"] == 2
    with pytest.raises(NotFoundError):
        repo.readonly_session(as_of="1999-01-01T00:00:00Z")
    with pytest.raises(AlreadyExistsError):
        repo.create_tag("v1", ids[2])
    repo.reset_branch("old", ids[2], expect=ids[1])
    with pytest.raises(ConflictError):
        repo.reset_branch("old", ids[0], expect=ids[1])
    assert repo.branches == ["main", "old"]
    assert repo.tags == ["v1"]
    session = repo.writable_session("old")
    repo.delete_branch("old")
    session.root.attrs["number"] = 7
    with pytest.raises(ConflictError):
        session.commit("too late")
    assert repo.branches == ["main"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"message": "\ud800"},
        {"message": 5},
        *[{"message": "a", "metadata": {"a": value}} for value in (object(), 2**70, "\ud800", {"\ud800": 1})],
    ],
)
def test_a_commit_that_would_be_refused_does_not_begin(wrong: dict[str, Any], repo: frazil.Repository) -> None:
    with pytest.raises(FrazilError, match=r"message is|metadata\.a|in MessagePack"), repo.transaction(**wrong):
        pytest.fail("the block was run")
    with pytest.raises(FrazilError, match=r"message is|metadata\.a|in MessagePack"):
        repo.run(lambda root: pytest.fail("the function was called"), **wrong)
    with pytest.raises(FrazilError, match=r"message is|metadata\.a|in MessagePack"):
        repo.merge("no such branch", **wrong)


def test_exceptions_discard_the_transaction(repo: frazil.Repository) -> None:
    with pytest.raises(ZeroDivisionError), repo.transaction(message="never") as root:
        sea(root)
        raise ZeroDivisionError
    assert list(repo.readonly_session().root) == []
    assert len(list(repo.history())) == 1
    with repo.transaction(message="nothing"):
        pass
    assert len(list(repo.history())) == 1


def test_readers_cannot_write_and_nothing_is_no_commit(repo: frazil.Repository) -> None:
    with repo.transaction(message="first") as root:
        sea(root)
    reader = repo.readonly_session()
    for act in (
        lambda: reader.root["sea/temp"].__setitem__(0, 1),
        lambda: reader.root.create_group("x"),
        lambda: reader.root.__delitem__("sea"),
        lambda: reader.root.attrs.update(a=1),
        lambda: reader.commit("x"),
        reader.discard,
        lambda: reader.store.set("zarr.json", b"{}"),
        reader.fork,
    ):
        with pytest.raises(ReadOnlyError):
            act()  # type: ignore[no-untyped-call]
    session = repo.writable_session()
    with pytest.raises(InvalidInputError, match="nothing to commit"):
        session.commit("empty")
    session.commit("empty", allow_empty=True)
    again = pickle.loads(pickle.dumps(reader))
    assert (again.root["sea/temp"][...] == 1).all()
    assert pickle.loads(pickle.dumps(reader.root["sea/temp"]))[0, 0] == 1
    with pytest.raises(InvalidInputError, match="fork"):
        pickle.dumps(session)


def test_discard_restores_the_session_to_its_snapshot(repo: frazil.Repository) -> None:
    with repo.transaction(message="first") as root:
        sea(root)
    session = repo.writable_session()
    array = session.root["sea/temp"]
    array[...] = 5
    session.root.create_group("other")
    del session.root["sea/temp"]
    with pytest.raises(NotFoundError):
        array[...]
    session.discard()
    assert not session.has_changes
    assert session.diff().is_empty
    assert (session.root["sea/temp"][...] == 1).all()
    assert list(session.root) == ["sea"]


def test_removed_and_created_again(repo: frazil.Repository) -> None:
    with repo.transaction(message="first") as root:
        sea(root)
    with repo.transaction(message="second") as root:
        del root["sea/temp"]
        root.create_array("sea/temp", shape=(3,), dtype="f8", chunks=(2,))[:2] = 0.5
    array = repo.readonly_session().root["sea/temp"]
    np.testing.assert_array_equal(array[...], [0.5, 0.5, 0])
    difference = repo.diff(next(iter(list(repo.history())[1:])).id, "main")
    assert difference.added == difference.removed == ("/sea/temp",)


@pytest.mark.parametrize(("rows", "mine", "theirs"), [(8, 4, 8), (6, 3, 4), (6, 1, 1), (5, 11, 3), (0, 3, 5)])
def test_two_appends_both_survive(repo: frazil.Repository, rows: int, mine: int, theirs: int) -> None:
    with repo.transaction(message="first") as root:
        sea(root, rows)
    one, other = repo.writable_session(), repo.writable_session()
    one.root["sea/temp"].append(np.full((theirs, 4), 2))
    other.root["sea/temp"].append(np.full((mine, 4), 3))
    one.commit("theirs")
    with pytest.raises(ConflictError, match="has moved") as caught:
        other.commit("mine")
    assert caught.value.conflicts == []
    other.commit("mine", rebase="disjoint")
    array = repo.readonly_session().root["sea/temp"]
    assert array.shape == (rows + mine + theirs, 4)
    np.testing.assert_array_equal(array[:, 1], [1] * rows + [2] * theirs + [3] * mine)


def test_an_append_keeps_earlier_elements_of_its_chunk(repo: frazil.Repository) -> None:
    with repo.transaction(message="first") as root:
        sea(root, 6)
    one, other = repo.writable_session(), repo.writable_session()
    one.root["sea/temp"].append(np.full((3, 4), 2))
    array = other.root["sea/temp"]
    array.append(np.full((2, 4), 3))
    array[5] = 7
    one.commit("theirs")
    other.commit("mine", rebase="disjoint")
    np.testing.assert_array_equal(repo.readonly_session().root["sea/temp"][:, 0], [1] * 5 + [7] + [2] * 3 + [3] * 2)
    one, other = repo.writable_session(), repo.writable_session()
    for session, value in ((one, 8), (other, 9)):
        session.root["sea/temp"].append(np.full((2, 4), value))
        session.root["sea/temp"][10] = value
    one.commit("theirs")
    with pytest.raises(ConflictError) as caught:
        other.commit("mine", rebase="disjoint")
    assert [conflict.kind for conflict in caught.value.conflicts] == ["chunks"]
    assert other.has_changes
    assert other.root["sea/temp"][10, 0] == 9


def test_conflicts_are_reported_and_solved(repo: frazil.Repository) -> None:
    with repo.transaction(message="first") as root:
        sea(root)
    one, other = repo.writable_session(), repo.writable_session()
    one.root["sea/temp"][0] = 5
    other.root["sea/temp"][1] = 6
    other.root["sea/temp"][4] = 7
    one.commit("theirs")
    for act in (lambda: other.commit("mine"), lambda: other.commit("mine", rebase="disjoint"), other.rebase):
        with pytest.raises(ConflictError) as caught:
            act()
        (conflict,) = caught.value.conflicts
        assert (conflict.kind, conflict.path, conflict.chunks.tolist()) == ("chunks", "/sea/temp", [[0, 0]])
        assert other.root["sea/temp"][:, 0].tolist() == [1, 6, 1, 1, 7, 1, 1, 1], "nothing was changed"
    seen = []

    def solve(conflict: object) -> str:
        seen.append(conflict)
        return "theirs"

    other.rebase(solve)  # type: ignore[arg-type]
    assert seen == [conflict]
    other.commit("mine")
    assert repo.readonly_session().root["sea/temp"][:, 0].tolist() == [5, 1, 1, 1, 7, 1, 1, 1]
    one, other = repo.writable_session(), repo.writable_session()
    one.root["sea/temp"][0] = 8
    other.root["sea/temp"][1] = 9
    one.commit("theirs")
    other.commit("mine", rebase="ours")
    assert repo.readonly_session().root["sea/temp"][:2, 0].tolist() == [5, 9]


@pytest.mark.rule("I28")
def test_serializable_sessions_see_write_skew(repo: frazil.Repository) -> None:
    with repo.transaction(message="first") as root:
        for name in "ab":
            root.create_array(name, shape=(2,), dtype="i4", chunks=(2,))[...] = 1
    for isolation in ("snapshot", "serializable"):
        one, other = (repo.writable_session(isolation=isolation) for _ in range(2))
        for session, source, target in ((one, "a", "b"), (other, "b", "a")):
            session.root[target][0] = session.root[source][0] + 1
        one.commit("theirs")
        if isolation == "snapshot":
            other.commit("mine", rebase="disjoint")
            continue
        with pytest.raises(ConflictError) as caught:
            other.commit("mine", rebase="disjoint")
        assert {conflict.kind for conflict in caught.value.conflicts} == {"read"}


def test_run_counts_right_from_many_threads(repo: frazil.Repository) -> None:
    with repo.transaction(message="first") as root:
        root.create_array("count", shape=(), dtype="i4")[...] = 0

    def count(root: frazil.Group) -> int:
        value = int(root["count"][...]) + 1  # type: ignore[call-overload]
        root["count"][...] = value
        return value

    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.extend(repo.run(count, message="count", retries=1000) for _ in range(5)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 21))
    assert len(list(repo.history())) == 22


def test_forks_write_and_one_commits(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    array = session.root.create_array("big", shape=(50,), dtype="i8", chunks=(10,))
    array[:] = 1
    forks = [pickle.loads(pickle.dumps(session.fork())) for _ in range(3)]
    for number, fork in enumerate(forks):
        assert (fork.root["big"][...] == 1).all(), "a fork sees what was changed before it"
        fork.root["big"][number * 10 : number * 10 + 10] = number + 5
        fork.root.create_array(f"own{number}", shape=(100,), dtype="f8", chunks=(100,))[...] = number
        with pytest.raises(InvalidInputError):
            fork.commit("no")
    session.merge(*[pickle.loads(pickle.dumps(fork)) for fork in forks])
    session.commit("together")
    root = repo.readonly_session().root
    np.testing.assert_array_equal(root["big"][::10], [5, 6, 7, 1, 1])
    assert [float(root[f"own{number}"][0]) for number in range(3)] == [0, 1, 2]
    one, other = session.fork(), session.fork()
    one.root["big"][0] = 1
    other.root["big"][9] = 2
    with pytest.raises(ConflictError) as caught:
        session.merge(one, other)
    assert caught.value.conflicts[0].chunks.tolist() == [[0]]
    assert not session.has_changes
    session.merge(one)
    assert session.root["big"][0] == 1


@pytest.mark.rule("I31")
def test_moved_subtrees_keep_their_chunks(repo: frazil.Repository) -> None:
    with repo.transaction(message="first") as root:
        sea(root)
        root["sea"].create_group("deep")
    session = repo.writable_session()
    array = session.root["sea/temp"]
    session.root.move("sea", "ocean/north")
    array[0, 0] = 4
    session.commit("moved")
    difference = repo.diff(list(repo.history())[1].id, "main")
    assert difference.renamed == (
        ("/sea", "/ocean/north"),
        ("/sea/deep", "/ocean/north/deep"),
        ("/sea/temp", "/ocean/north/temp"),
    )
    root = repo.readonly_session().root
    assert list(root) == ["ocean"]
    assert root["ocean/north/temp"][0].tolist() == [4, 1, 1, 1]
    for path, to, error in (
        ("ocean", "ocean/x", InvalidInputError),
        ("none", "x", NotFoundError),
        ("ocean/north/temp", "ocean", AlreadyExistsError),
        ("ocean/north/deep", "ocean/north/temp/x", InvalidInputError),
    ):
        with pytest.raises(error):
            repo.writable_session().root.move(path, to)


@pytest.mark.rule("I305")
def test_two_creators_one_wins(store: Store) -> None:
    assert not frazil.Repository.exists(store)
    frazil.Repository.create(store)
    assert frazil.Repository.exists(store)
    with pytest.raises(AlreadyExistsError):
        frazil.Repository.create(store)
    repo = frazil.Repository.open_or_create(store)
    assert pickle.loads(pickle.dumps(repo)).branches == repo.branches == ["main"]
    with pytest.raises(NotFoundError):
        frazil.Repository.open(MemoryStore())


def test_small_chunks_are_inline_or_packed_and_large_ones_alone(store: Store) -> None:
    repo = frazil.Repository.create(store)
    with repo.transaction(message="first") as root:
        for name, chunk in (("tiny", 64), ("small", 1000), ("large", 2**21)):
            root.create_array(name, shape=(3 * chunk,), dtype="u1", chunks=(chunk,), codecs=["bytes"])[...] = 7
    files = [key for key in store.list() if key.startswith("chunks/")]
    assert sorted(store.sizes(files).tolist()) == [3000, 2**21, 2**21, 2**21]
    root = repo.readonly_session().root
    assert all((root[name][...] == 7).all() for name in ("tiny", "small", "large"))
    off = frazil.Repository.create(MemoryStore(), chunk_packing="off")
    with off.transaction(message="first") as root:
        root.create_array("small", shape=(3000,), dtype="u1", chunks=(1000,), codecs=["bytes"])[...] = 7
    inner = off.readonly_session().store.nodes.files.store  # type: ignore[attr-defined]
    assert len(inner.list_prefix("chunks/")) == 3


@pytest.mark.rule("I47")
def test_superseded_chunk_files_are_removed(store: Store) -> None:
    repo = frazil.Repository.create(store)
    session = repo.writable_session()
    array = session.root.create_array("a", shape=(2**21,), dtype="u1", chunks=(2**21,), codecs=["bytes"])
    for value in range(1, 40):
        array[...] = value
    session.commit("one")
    assert len(store.list_prefix("chunks/")) == 1
    array[...] = 100
    array[5] = 3
    session.discard()
    assert len(store.list_prefix("chunks/")) == 1


def test_attributes_can_have_a_file(store: Store) -> None:
    repo = frazil.Repository.create(store, attributes_file_bytes=100)
    with repo.transaction(message="first") as root:
        sea(root)
        root["sea/temp"].attrs["long"] = "x" * 200
        root.attrs["short"] = 1
    (key,) = store.list_prefix("attributes/")
    session = repo.writable_session()
    array = session.root["sea/temp"]
    assert array.attrs["long"] == "x" * 200
    array.resize((4, 4))
    session.commit("shorter")
    assert store.list_prefix("attributes/") == [key]
    assert repo.readonly_session().root["sea/temp"].attrs["long"] == "x" * 200


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"chunk_key_encoding": "v2"}, "chunk_key"),
    ],
)
def test_metadata_that_snapshots_cannot_hold_is_refused(
    repo: frazil.Repository, arguments: dict[str, object], word: str
) -> None:
    session = repo.writable_session()
    with pytest.raises(InvalidInputError, match=word) as caught:
        session.root.create_array("a", **{"shape": (4,), "dtype": "i4", "chunks": (2,), **arguments})  # type: ignore[arg-type]
    assert caught.value.hint
    assert not session.has_changes


def test_packs_lie_in_the_order_that_is_given(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    array = session.root.create_array("a", shape=(4000, 2), dtype="u1", chunks=(1000, 1), codecs=["bytes"])
    array[...] = 1 + np.arange(4000)[:, None] // 1000 * 2 + np.arange(2)
    for wrong in (lambda *_: [0] * 8, lambda *_: None, lambda *_: 1 / 0):
        with pytest.raises(InvalidInputError, match="packing_order"):
            session.commit("wrong", packing_order=wrong)  # type: ignore[arg-type]
    session.commit("columns", packing_order=lambda path, chunks: np.lexsort((chunks[:, 0], chunks[:, 1])))
    files = repo.readonly_session().store.nodes.files  # type: ignore[attr-defined]
    (key,) = files.store.list_prefix("chunks/")
    assert list(files.store.get(key)[::1000]) == [1, 3, 5, 7, 2, 4, 6, 8]
    assert repo.readonly_session().root["a"][::1000].tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]  # type: ignore[index, union-attr]


def test_an_id_is_an_id_whatever_tags_are_called(repo: frazil.Repository) -> None:
    first = repo.lookup("main")
    with repo.transaction(message="second") as root:
        root.attrs["n"] = 2
    repo.create_tag(first, "main")
    assert repo.lookup(first) == repo.lookup("main"), "names come first"
    assert repo.readonly_session(snapshot=first).snapshot_id == first
    for wrong in ("main", "nothing", "", 5):
        with pytest.raises(NotFoundError):
            repo.readonly_session(snapshot=wrong)  # type: ignore[arg-type]
