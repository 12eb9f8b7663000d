"""Ancestors, names, times, common ancestors."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repository.stored import (
    Without,
    archive,
    created,
    empty_files,
    info,
    of_text,
    put_snapshot,
    snapshot,
    some_id,
)

from frazil.errors import FormatError, InvalidInputError, NotFoundError
from frazil.formats.alpha.snapshots import SnapshotInfo
from frazil.formats.ids import ObjectId, encode_id
from frazil.repository.alpha.format import AlphaFormat as Files
from frazil.repository.refs.branches import create_branch, create_tag, delete_branch, open_tip, read_tag
from frazil.repository.refs.history import common_ancestor, snapshot_file
from frazil.repository.refs.lookup import Commit, as_of, lookup
from frazil.repository.refs.lookup import commits as ancestry
from frazil.stores import MemoryStore
from frazil.testing import CountingStore

OLDEST = ["set virtual chunk", "fill data", "empty structure", "Repository initialized"]
ROOT_FILE, ROOT_ID = of_text("WT2Z2GQ09G0RTAEQ3D70"), of_text("6W05WADKS87N84AMH5KG")


def messages(files: Files, start: ObjectId) -> list[str]:
    return [commit.message for commit in ancestry(files, start)]


def numbers(files: Files, start: int) -> list[int]:
    return [int.from_bytes(commit.snapshot, "big") for commit in ancestry(files, info(start).id)]


def put_chain(files: Files, parents: dict[int, int | None], kept: dict[int, int] | int) -> None:
    """Snapshots 1, 2, ..., each with its parent, that list as many ancestors as is said."""
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
def test_bounded_histories_go_on(count: int, bound: int) -> None:
    store = CountingStore(MemoryStore())
    files = Files(store)
    put_chain(files, {number: number - 1 or None for number in range(1, count + 1)}, bound)
    store.clear()
    cold = Files(store)
    commits = list(ancestry(cold, info(count).id))
    assert [commit.message for commit in commits] == [f"commit {number}" for number in range(count, 0, -1)]
    assert [commit.parent for commit in commits] == [*(commit.id for commit in commits[1:]), None]
    assert store.count("fetch") == 1 + max(0, -(-(count - 1 - bound) // bound))
    assert store.count() == store.count("fetch")


def test_a_walk_reads_no_more_than_it_needs() -> None:
    store = CountingStore(MemoryStore())
    files = Files(store)
    put_chain(files, {number: number - 1 or None for number in range(1, 200)}, 32)
    store.clear()
    assert len(list(islice(ancestry(Files(store), info(199).id), 32))) == 32
    assert store.count() == 1


def test_ancestors_whose_files_are_gone() -> None:
    files = empty_files()
    put_chain(files, {number: number - 1 or None for number in range(1, 30)}, 10)
    for number in (1, 5, 9, 25):
        files.store.erase(f"snapshots/{encode_id(info(number).id)}")
    cold = Files(files.store)
    assert numbers(cold, 29) == list(range(29, 8, -1))  # 19 tells of 9, and nobody of 8
    *_, oldest = ancestry(cold, info(29).id)
    assert (oldest.snapshot, oldest.parent, oldest.metadata) == (info(9).id, None, {})
    with pytest.raises(NotFoundError):
        ancestry(cold, info(25).id)  # at once, not at the first step
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
def test_a_loop_ends(loop: dict[int, tuple[list[int], int]]) -> None:
    files = empty_files()
    for number, (history, total) in loop.items():
        put_snapshot(files, number, history, total)
    for walk in (lambda: numbers(files, 1), lambda: as_of(files, info(1).id, "1960-01-01T00:00:00Z")):
        with pytest.raises(FormatError, match="comes back to itself") as caught:
            walk()
        assert str(caught.value.key).startswith("snapshots/")


def test_commits_are_values() -> None:
    files = empty_files()
    made = snapshot(info(7, "hello")._replace(written_at=1_700_000_000_123_456_789), [info(6)])
    files.write_snapshot(made.metadata.id, made._replace(properties={"who": "me", "n": [1, 2]}))
    commit = next(ancestry(files, made.metadata.id))
    assert (commit.id, commit.snapshot, commit.parent) == (encode_id(info(7).id), info(7).id, encode_id(info(6).id))
    assert (commit.message, commit.written_ns) == ("hello", 1_700_000_000_123_456_789)
    assert commit.written_at == datetime(2023, 11, 14, 22, 13, 20, 123456, UTC)
    assert commit.metadata == {"who": "me", "n": [1, 2]}
    copy = pickle.loads(pickle.dumps(commit))
    assert copy == commit
    assert hash(copy) == hash(commit)
    assert copy.metadata == commit.metadata
    assert commit != Commit(files, info(7, "other"), None)
    assert commit != 7
    assert repr(commit) == "<Commit 0000000000000000003G 2023-11-14 22:13:20 'hello'>"
    ancient = Commit(files, info(1)._replace(written_at=-62167219200 * 10**9), None)
    assert ancient.written_at == datetime(1, 1, 1, tzinfo=UTC)


# --- times -------------------------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=20), st.integers(-5, 10**10))
def test_as_of_is_the_newest_that_is_old_enough(times: list[int], wanted: int) -> None:
    files = empty_files()
    infos = [SnapshotInfo(info(number).id, time, "") for number, time in enumerate(times)]
    for number, own in enumerate(infos):
        files.write_snapshot(own.id, snapshot(own, infos[:number][::-1]))
    stands_for = wanted // 1000 * 1000 + 999  # the whole of the microsecond
    expected = [own.id for own in infos if own.written_at <= stands_for]
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=wanted // 1000)
    if expected:
        assert as_of(files, infos[-1].id, time) == expected[-1]
    else:
        with pytest.raises(NotFoundError):
            as_of(files, infos[-1].id, time)


def test_a_commit_is_found_by_its_own_time() -> None:
    files = empty_files()
    own = info(1)._replace(written_at=1_700_000_000_123_456_789)
    files.write_snapshot(own.id, snapshot(own))
    assert as_of(files, own.id, next(ancestry(files, own.id)).written_at) == own.id
    assert as_of(files, own.id, "2023-11-14T22:13:20.123456789Z") == own.id
    assert as_of(files, own.id, "2023-11-14T23:13:20.2+01:00") == own.id
    with pytest.raises(NotFoundError, match="2023-11-14T22:13:20"):
        as_of(files, own.id, "2023-11-14T22:13:20Z")


@pytest.mark.parametrize("time", [datetime(2024, 1, 1), "2024-01-01", "2024-01-01T00:00:00", "yesterday", "", 0, None])  # noqa: DTZ001
def test_times_that_are_none(time: object) -> None:
    files, first = created()
    with pytest.raises(InvalidInputError, match="zone"):
        as_of(files, first.snapshot, time)  # type: ignore[arg-type]


# --- common ancestors --------------------------------------------------------------------------------------------------------------------


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


def test_names_come_before_ids() -> None:
    files, first = created()
    second, third = (put_snapshot(files, number, [1]) for number in (2, 3))
    text = encode_id(first.snapshot)
    assert lookup(files, text) == first.snapshot
    create_branch(files, text, second)
    assert lookup(files, text) == second
    create_tag(files, text, third)
    assert lookup(files, text) == third
    assert lookup(files, "main") == first.snapshot
    create_branch(files, "dev", second)
    delete_branch(files, "dev")
    with pytest.raises(NotFoundError, match="'dev', and the branch of this name is deleted"):
        lookup(files, "dev")


def test_beginnings_of_ids() -> None:
    files = Files(CountingStore(MemoryStore()), "p/")
    for text in ("ABCD0000000000000000", "ABCD1000000000000000", "ABCD1100000000000000", "0110000000000000000G"):
        files.write_snapshot(of_text(text), snapshot(info(1)))
    for name in ("ABCD0", "ABCD0.tmp", "ABCDUUUUUUUUUUUUUUUU", "ABCD000000000000000Z", "ABCD0/x", ".x"):
        files.store.set(f"p/snapshots/{name}", b"x")
    for text in ("ABCD0", "abcd0", "ABCDO", "abcdo00", "ABCD0000000000000000", "abcdoooooooooooooooo"):
        assert lookup(files, text) == of_text("ABCD0000000000000000")
    for text in ("OILO", "oil0", "0110"):
        assert lookup(files, text) == of_text("0110000000000000000G")
    with pytest.raises(InvalidInputError) as caught:
        lookup(files, "ABCD")
    message = str(caught.value)
    assert "ABCD0000000000000000, ABCD1000000000000000, ABCD1100000000000000." in message
    with pytest.raises(InvalidInputError, match="several"):
        lookup(files, "abcdl")
    for text in ("ABC", "ABCE", "ABCU", "ABCD2", "ABCD00000000000000000", "ſ110", "ABCD 0", "011０"):
        with pytest.raises(NotFoundError):
            lookup(files, text)
    for text in ("", "../ABCD", "refs/branch.main", "a\0", 7, None):
        with pytest.raises(InvalidInputError):
            lookup(files, text)  # type: ignore[arg-type]


def test_an_ambiguous_beginning_does_not_list_everything() -> None:
    store = CountingStore(MemoryStore())
    files = Files(store)
    for number in range(500):
        put_snapshot(files, number)
    store.clear()
    with pytest.raises(InvalidInputError, match="and more"):
        lookup(files, "0000")
    assert store.count("list") == 2  # of the branch, and of the snapshots


def test_a_store_that_cannot_list_is_looked_up_by_whole_ids() -> None:
    files, first = created(Without(MemoryStore(), listable=False))
    assert lookup(files, encode_id(first.snapshot)) == first.snapshot
    assert lookup(files, "main") == first.snapshot
    with pytest.raises(NotFoundError):
        lookup(files, "1234")


def test_a_damaged_first_branch_file_does_not_hinder() -> None:
    files, _first = created()
    files.store.set("refs/branch.main/ZZZZZZZZ.json", b"")
    for text in (encode_id(some_id()), "WXYZ"):
        with pytest.raises(NotFoundError):
            lookup(files, text)
    with pytest.raises(NotFoundError):
        snapshot_file(files, some_id())
