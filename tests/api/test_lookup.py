"""Snapshots by name and by time."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.api.lookup import Commit, as_of, lookup
from frazil.api.lookup import commits as ancestry
from frazil.errors import InvalidInputError, NotFoundError
from frazil.formats.ids import encode_id
from frazil.formats.snapshots import SnapshotInfo
from frazil.repository.alpha.branches import create_branch, delete_branch
from frazil.repository.alpha.format import AlphaFormat as Files
from frazil.repository.alpha.tags import create_tag
from frazil.stores import MemoryStore
from frazil.testing import CountingStore
from tests.repository.archived_repositories import (
    Without,
    created,
    empty_files,
    info,
    of_text,
    put_snapshot,
    snapshot,
)


def test_commits_are_values() -> None:
    files = empty_files()
    made = snapshot(info(7, "hello")._replace(written_at=1_700_000_000_123_456_789), [info(6)])
    files.write_new([files.encoded_snapshot(made.metadata.id, made._replace(properties={"who": "me", "n": [1, 2]}))])
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
def test_as_of_is_the_newest_that_is_old_enough(times: list[int], instant: int) -> None:
    files = empty_files()
    infos = [SnapshotInfo(info(number).id, time, "") for number, time in enumerate(times)]
    for number, own in enumerate(infos):
        files.write_new([files.encoded_snapshot(own.id, snapshot(own, infos[:number][::-1]))])
    stands_for = instant // 1000 * 1000 + 999  # including the whole microsecond
    expected = [own.id for own in infos if own.written_at <= stands_for]
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant // 1000)
    if expected:
        assert as_of(files, infos[-1].id, time) == expected[-1]
    else:
        with pytest.raises(NotFoundError):
            as_of(files, infos[-1].id, time)


def test_a_commit_is_found_by_its_own_time() -> None:
    files = empty_files()
    own = info(1)._replace(written_at=1_700_000_000_123_456_789)
    files.write_new([files.encoded_snapshot(own.id, snapshot(own))])
    assert as_of(files, own.id, next(ancestry(files, own.id)).written_at) == own.id
    assert as_of(files, own.id, "2023-11-14T22:13:20.123456789Z") == own.id
    assert as_of(files, own.id, "2023-11-14T23:13:20.2+01:00") == own.id
    with pytest.raises(NotFoundError, match="2023-11-14T22:13:20"):
        as_of(files, own.id, "2023-11-14T22:13:20Z")


@pytest.mark.parametrize("time", [datetime(2024, 1, 1), "2024-01-01", "2024-01-01T00:00:00", "yesterday", "", 0, None])  # noqa: DTZ001
def test_invalid_times_are_refused(time: object) -> None:
    files, first = created()
    with pytest.raises(InvalidInputError, match="zone"):
        as_of(files, first.snapshot, time)  # type: ignore[arg-type]


# --- common ancestors --------------------------------------------------------------------------------------------------------------------


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


def test_a_unique_beginning_of_an_id_finds_the_snapshot() -> None:
    files = Files(CountingStore(MemoryStore()), "p/")
    for text in ("ABCD0000000000000000", "ABCD1000000000000000", "ABCD1100000000000000", "0110000000000000000G"):
        files.write_new([files.encoded_snapshot(of_text(text), snapshot(info(1)))])
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
