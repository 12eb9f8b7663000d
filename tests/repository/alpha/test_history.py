"""Ancestors, names, times, common ancestors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repository.archived_repositories import (
    archive,
    created,
    empty_files,
    info,
    of_text,
    put_snapshot,
    some_id,
)

from frazil.api.lookup import as_of, lookup
from frazil.api.lookup import commits as ancestry
from frazil.errors import FormatError, NotFoundError
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.snapshots import SnapshotInfo
from frazil.repository.alpha.branches import open_tip
from frazil.repository.alpha.format import AlphaFormat as Files
from frazil.repository.alpha.history import ancestor_at, common_ancestor, snapshot_file
from frazil.repository.alpha.tags import read_tag
from frazil.repository.maintenance.expired import record_expired
from frazil.repository.maintenance.id_columns import id_column
from frazil.stores import MemoryStore
from frazil.testing import CountingStore

OLDEST = ["set virtual chunk", "fill data", "empty structure", "Repository initialized"]
ROOT_FILE, ROOT_ID = of_text("WT2Z2GQ09G0RTAEQ3D70"), of_text("6W05WADKS87N84AMH5KG")


def messages(files: Files, start: ObjectId) -> list[str]:
    return [commit.message for commit in ancestry(files, start)]


def numbers(files: Files, start: int) -> list[int]:
    return [int.from_bytes(commit.snapshot, "big") for commit in ancestry(files, info(start).id)]


def put_chain(files: Files, parents: dict[int, int | None], kept: dict[int, int] | int) -> None:
    """Snapshots 1, 2, ..., each with its parent, that list this many ancestors."""
    for number in parents:
        line = chain(parents, number)[1:]
        bound = kept if isinstance(kept, int) else kept.get(number, 1)
        put_snapshot(files, number, line[:bound], len(line))


def chain(parents: dict[int, int | None], number: int | None) -> list[int]:
    line: list[int] = []
    while number is not None:
        line.append(number)
        number = parents[number]
    return line


# --- the archives ------------------------------------------------------------------------------------------------------------------------


def test_histories_of_the_first_archive() -> None:
    files = archive("icechunk-alpha-repo")
    assert messages(files, open_tip(files, "main").snapshot) == OLDEST
    assert messages(files, open_tip(files, "my-branch").snapshot) == ["some more structure", "delete a chunk", *OLDEST]
    tag = read_tag(files, "it works!")
    assert tag is not None
    assert messages(files, tag) == ["delete a chunk", *OLDEST]
    tag = read_tag(files, "it also works!")
    assert tag is not None
    assert messages(files, tag) == ["some more structure", "delete a chunk", *OLDEST]
    newest, *_, root = ancestry(files, tag)
    assert (newest.id, newest.parent) == ("0XEZMR4J7SJ5QBWAYBE0", "QVY2RGJBE9DX8E525CA0")
    assert (root.id, root.parent) == (encode_id(ROOT_ID), None)
    assert root.written_at == datetime(2024, 10, 13, 18, 53, 45, 425022, UTC)
    assert newest.metadata == root.metadata == {}


@pytest.mark.parametrize("name", ["icechunk-alpha-repo", "icechunk-alpha-varied"])
def test_every_commit_of_the_archives_is_found(name: str) -> None:
    files = archive(name)
    commits = list(ancestry(files, open_tip(files, "main").snapshot))
    assert commits[-1].message == "Repository initialized"
    assert [commit.parent for commit in commits] == [*(commit.id for commit in commits[1:]), None]
    assert sorted(commits, key=lambda commit: -commit.written_ns) == commits
    for commit in commits:
        found = lookup(files, commit.id)
        assert files.snapshot(found).metadata == SnapshotInfo(commit.snapshot, commit.written_ns, commit.message)
        assert lookup(files, commit.id[:10].lower()) == found
        for time in (commit.written_at, commit.written_at.astimezone(timezone(timedelta(hours=5)))):
            assert as_of(files, commits[0].snapshot, time) == found


def test_the_first_snapshot_of_the_library_has_a_file_of_another_id() -> None:
    files = archive("icechunk-alpha-repo", "x/")
    tip = open_tip(files, "main").snapshot
    assert snapshot_file(files, ROOT_ID) == ROOT_FILE == snapshot_file(files, ROOT_FILE)
    assert lookup(files, encode_id(ROOT_ID)) == ROOT_FILE
    assert lookup(files, "6w05") == lookup(files, "WT2Z") == lookup(files, encode_id(ROOT_ID))
    assert as_of(files, tip, "2024-10-13T18:53:45.425022Z") == ROOT_FILE
    assert common_ancestor(files, tip, ROOT_FILE) == ROOT_FILE == common_ancestor(files, ROOT_FILE, tip)
    assert messages(files, ROOT_FILE) == OLDEST[-1:]
    files.store.erase("x/refs/branch.main/ZZZZZZZZ.json")
    cold = Files(files.store, "x/")
    with pytest.raises(NotFoundError):
        lookup(cold, "6W05")
    assert messages(cold, tip) == OLDEST
    assert list(ancestry(cold, tip))[-1].metadata == {}
    assert common_ancestor(cold, tip, open_tip(cold, "my-branch").snapshot) == tip


def test_common_ancestors_of_the_first_archive() -> None:
    files = archive("icechunk-alpha-repo")
    main, mine = open_tip(files, "main").snapshot, open_tip(files, "my-branch").snapshot
    assert common_ancestor(files, main, mine) == common_ancestor(files, mine, main) == main
    assert common_ancestor(files, mine, mine) == mine


# --- ancestors ---------------------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 40))
def test_histories_longer_than_their_bound_are_walked_to_the_end(count: int, bound: int) -> None:
    store = CountingStore(MemoryStore())
    files = Files(store)
    put_chain(files, {number: number - 1 or None for number in range(1, count + 1)}, bound)
    store.clear()
    cold = Files(store)
    commits = list(ancestry(cold, info(count).id))
    assert [commit.message for commit in commits] == [f"commit {number}" for number in range(count, 0, -1)]
    assert [commit.parent for commit in commits] == [*(commit.id for commit in commits[1:]), None]
    # at the end, the first snapshot of the repository is looked up
    assert store.count("fetch") == 2 + max(0, -(-(count - 1 - bound) // bound))
    # whether any snapshot has expired is looked up once
    assert store.count("list") == (count > 1)
    assert store.count() == store.count("fetch") + store.count("list")


@given(st.integers(1, 40), st.integers(1, 40), st.integers(-2, 45))
def test_an_ancestor_by_the_number_of_commits(count: int, bound: int, steps: int) -> None:
    store = CountingStore(MemoryStore())
    files = Files(store)
    put_chain(files, {number: number - 1 or None for number in range(1, count + 1)}, bound)
    store.clear()
    expected = info(count - steps).id if 0 <= steps < count else None
    assert ancestor_at(Files(store), info(count).id, steps) == expected
    assert store.count() <= min(max(steps, 0), count) // bound + 2


def test_a_walk_reads_no_more_than_it_needs() -> None:
    store = CountingStore(MemoryStore())
    files = Files(store)
    put_chain(files, {number: number - 1 or None for number in range(1, 200)}, 32)
    store.clear()
    assert len(list(islice(ancestry(Files(store), info(199).id), 32))) == 32
    assert (store.count("fetch"), store.count("list")) == (1, 1)


def test_ancestors_whose_files_are_gone() -> None:
    files = empty_files()
    put_chain(files, {number: number - 1 or None for number in range(1, 30)}, 10)
    for number in (1, 5, 9, 25):
        files.store.erase(f"snapshots/{encode_id(info(number).id)}")
    cold = Files(files.store)
    with pytest.raises(FormatError, match="no record of an expiry"):  # 19 lists 9, and no snapshot lists 8
        numbers(cold, 29)
    record_expired(cold, id_column([info(number).id for number in range(8, 0, -1)]))
    with pytest.raises(FormatError, match="no record of an expiry"):
        numbers(cold, 29)
    record_expired(cold, id_column([info(9).id]))
    assert numbers(cold, 29) == list(range(29, 9, -1))
    *_, oldest = ancestry(cold, info(29).id)
    assert (oldest.snapshot, oldest.parent) == (info(10).id, None)
    with pytest.raises(NotFoundError, match="has expired"):
        lookup(cold, encode_id(info(5).id))
    with pytest.raises(NotFoundError):
        ancestry(cold, info(25).id)  # immediately, not at the first step
    with pytest.raises(NotFoundError, match="no snapshot as old as"):
        as_of(cold, info(29).id, "1970-01-01T00:00:08Z")
    with pytest.raises(NotFoundError, match="no such snapshot"):
        as_of(cold, info(29).id, "1970-01-01T00:00:25Z")
    assert as_of(cold, info(29).id, "1970-01-01T00:00:24Z") == info(24).id


def test_a_history_may_tell_nothing() -> None:
    files = empty_files()
    put_snapshot(files, 5, [], 4)
    assert numbers(files, 5) == [5]


@pytest.mark.parametrize(
    "loop",
    [
        {1: ([1], 1)},
        {1: ([1], 2)},
        {1: ([2, 1], 2), 2: ([1], 1)},
        {1: ([2], 9), 2: ([1], 9)},
        {1: ([2], 9), 2: ([1], 8)},
        {1: ([2], 9), 2: ([3], 8), 3: ([1], 7)},
        {1: ([2, 3, 2], 3), 2: ([], 0)},
        {1: ([2], 2**32 - 1), 2: ([1], 2**32 - 2)},
    ],
)
def test_a_cycle_of_snapshots_is_an_error(loop: dict[int, tuple[list[int], int]]) -> None:
    files = empty_files()
    for number, (history, total) in loop.items():
        put_snapshot(files, number, history, total)
    for walk in (lambda: numbers(files, 1), lambda: as_of(files, info(1).id, "1960-01-01T00:00:00Z")):
        with pytest.raises(FormatError, match="is a cycle") as caught:
            walk()
        assert str(caught.value.key).startswith("snapshots/")
    ancestor_at(files, info(1).id, 2**32)


@given(st.data(), st.integers(1, 25))
def test_the_common_ancestor_is_the_newest(data: st.DataObject, count: int) -> None:
    parents: dict[int, int | None] = {}
    for number in range(1, count + 1):
        parents[number] = data.draw(st.none() | st.integers(1, number - 1) if number > 1 else st.none())
    files = empty_files()
    put_chain(files, parents, {number: data.draw(st.integers(1, 5)) for number in parents})
    left, right = (data.draw(st.integers(1, count)) for _ in range(2))
    others = chain(parents, right)
    expected = next((info(number).id for number in chain(parents, left) if number in others), None)
    assert common_ancestor(files, info(left).id, info(right).id) == expected


def test_a_common_ancestor_without_a_file() -> None:
    files = empty_files()
    put_snapshot(files, 3, [2, 1])
    put_snapshot(files, 4, [2, 1])
    assert common_ancestor(files, info(3).id, info(4).id) == info(2).id
    with pytest.raises(NotFoundError):
        common_ancestor(files, info(3).id, info(2).id)


# --- names -------------------------------------------------------------------------------------------------------------------------------


def test_a_damaged_first_branch_file_does_not_hinder() -> None:
    files, _first = created()
    files.store.set("refs/branch.main/ZZZZZZZZ.json", b"")
    for text in (encode_id(some_id()), "WXYZ"):
        with pytest.raises(NotFoundError):
            lookup(files, text)
    with pytest.raises(NotFoundError):
        snapshot_file(files, some_id())
