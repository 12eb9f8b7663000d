"""Finding the newest file of a branch: cold by listing, warm by probing, past foreign files and gaps."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repository.archived_repositories import (
    Without,
    created,
    empty_files,
    info,
    put_file,
    some_id,
)

from frazil.errors import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    StoreError,
)
from frazil.formats.alpha.refs import LAST_SEQUENCE, branch_key
from frazil.repository.alpha.branches import exists, list_branches, open_tip, put_next, read_tip
from frazil.repository.alpha.file_cache import Files
from frazil.repository.alpha.tags import create_tag, read_tag
from frazil.repository.format import MAIN, Tip
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.values import Page
from frazil.stores.wrappers import WrappedStore
from frazil.testing import CountingStore

HARMLESS = [
    ".DS_Store",
    "!",
    "0",
    "00000000",
    "00000000.json/x",
    "0/ZZZZZZZZ.json",
    "ref.json",
    "ZZZZZZZ.json",
    "zzzzzzz0.json",
    "A.json~",
]


# --- tips --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I320")
@given(st.sets(st.integers(0, 40) | st.integers(0, LAST_SEQUENCE), min_size=1), st.sets(st.sampled_from(HARMLESS)))
def test_a_cold_tip_is_the_highest_number(numbers: set[int], foreign: set[str]) -> None:
    files = empty_files()
    for number in numbers:
        put_file(files, "b", number)
    for name in foreign:
        files.store.set(f"refs/branch.b/{name}", b"x")
    assert read_tip(files, "b") == Tip("b", max(numbers), info(1).id)


@given(st.integers(0, 2000), st.integers(0, 2000))
def test_a_warm_tip_is_found_however_far_behind(known: int, more: int) -> None:
    files = empty_files()
    for number in range(known, known + more + 1):
        put_file(files, "b", number)
    assert read_tip(files, "b", Tip("b", known, info(1).id)) == Tip("b", known + more, info(1).id)


@given(st.sets(st.integers(1, 60) | st.integers(1, 10**6), max_size=40))
def test_a_gap_does_not_end_the_search(numbers: set[int]) -> None:
    """The found number exists, and the next one does not; the number after the known one is checked first."""
    files = empty_files()
    for number in {0, *numbers}:
        put_file(files, "b", number)
    tip = read_tip(files, "b", Tip("b", 0, info(1).id))
    assert tip is not None
    assert tip.sequence in {0, *numbers}
    assert tip.sequence + 1 not in numbers
    if 1 not in numbers:
        assert tip.sequence == 0


def test_a_gap_right_above_a_number_does_not_hide_the_tip() -> None:
    files = empty_files()
    for number in (0, 1, *range(3, 100)):
        put_file(files, "b", number)
    assert open_tip(files, "b", Tip("b", 0, info(1).id)).sequence == 99


def test_requests_for_a_tip() -> None:
    store = CountingStore(MemoryStore())
    files = Files(store, "r/")
    for number in range(3000):
        put_file(files, "b", number)
    store.clear()
    tip = open_tip(files, "b")
    assert [done.operation for done in store.requests] == ["list", "fetch"]
    store.clear()
    assert open_tip(files, "b", tip) is tip
    assert [done.operation for done in store.requests] == ["fetch", "fetch"], (
        "its own file, and the next, which is not there"
    )
    store.clear()
    assert open_tip(files, "b", tip._replace(sequence=2998)) == tip
    assert [done.operation for done in store.requests] == ["fetch", "fetch", "list"]
    store.clear()
    assert open_tip(files, "b", tip._replace(sequence=0)) == tip
    assert [done.operation for done in store.requests] == ["fetch", "fetch", "list", "fetch"]


def test_requests_for_a_tip_without_listings() -> None:
    store = CountingStore(Without(MemoryStore(), listable=False))
    files = Files(store, "r/")
    for number in range(3000):
        put_file(files, "b", number)
    tip = Tip("b", 2999, info(1).id)
    for behind, most in ((0, 2), (1, 11), (2999, 50)):
        store.clear()
        assert open_tip(files, "b", tip._replace(sequence=2999 - behind)) == tip
        assert store.count("list") == 0
        assert store.count() <= most


def test_the_newest_of_several_files_counts_where_one_below_makes_no_sense() -> None:
    files = Files(CountingStore(MemoryStore()))
    for number in (0, 1, 3):
        put_file(files, "b", number)
    files.store.set(branch_key("b", 2), b"{")
    assert open_tip(files, "b", Tip("b", 1, info(1).id)) == Tip("b", 3, info(1).id)


@pytest.mark.rule("I48", "I320")
def test_listings_are_limited() -> None:
    limits: list[int | None] = []

    class Watched(WrappedStore):
        def list_page(self, *arguments: object, **named: object) -> Page:  # type: ignore[override]
            limits.append(named["limit"])
            return super().list_page(*arguments, **named)  # type: ignore[arg-type]

    files = Files(Watched(MemoryStore()))
    put_file(files, "b", 7)
    for number in range(100):
        files.store.set(f"refs/branch.b/.{number}", b"")
        files.store.set(f"refs/branch.b/0/{number}", b"")
    assert open_tip(files, "b").sequence == 7
    assert None not in limits
    assert len(limits) < 8


def test_foreign_folders_are_skipped() -> None:
    store = CountingStore(MemoryStore())
    files = Files(store)
    for number in range(10_000):
        store.inner.set(f"refs/branch.b/00000000/{number}", b"")
        store.inner.set(f"refs/branch.b/00000000/\U0010ffff\U0010ffff{number:02}", b"") if number < 20 else None
    put_file(files, "b", 3)
    assert open_tip(files, "b").sequence == 3
    assert store.count("list") < 6


@pytest.mark.rule("I48")
def test_a_store_that_cannot_list_is_probed() -> None:
    files = Files(Without(MemoryStore(), listable=False))
    assert read_tip(files, "b") is None
    assert not exists(files)
    for number in range(777):
        put_file(files, "b", number)
    assert open_tip(files, "b").sequence == 776
    with pytest.raises(StoreError):
        list_branches(files)


def test_a_missing_branch_has_no_tip() -> None:
    files, _ = created()
    assert read_tip(files, "x") is None
    with pytest.raises(NotFoundError, match="no branch of this name: 'x'"):
        open_tip(files, "x")
    for name in ("a/b", "", "../../etc", "a\0", "\ud800", "x" * 300):
        with pytest.raises(InvalidInputError):
            read_tip(files, name)
        with pytest.raises(InvalidInputError):
            read_tag(files, name)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"snapshot":7}', b'{"snapshot":"../../../../../x"}', b"\xff" * 40, b" " * 10**6, b"[" * 10**5],
)
def test_a_broken_branch_file_is_named(data: bytes) -> None:
    store = CountingStore(MemoryStore())
    files, tip = created(store)
    key = branch_key(MAIN, 1)
    store.set(key, data)
    store.clear()
    for known in (None, tip):
        with pytest.raises(FormatError) as caught:
            open_tip(files, MAIN, known)
        assert caught.value.key == key
    assert store.bytes_read < 2 * (2**16 + 100)
    assert list_branches(files) == [MAIN]
    with pytest.raises(FormatError):
        put_next(files, tip, some_id())
    store.set("refs/tag.t/ref.json", data)
    with pytest.raises(FormatError) as caught:
        read_tag(files, "t")
    assert caught.value.key == "refs/tag.t/ref.json"
    with pytest.raises(AlreadyExistsError):
        create_tag(files, "t", tip.snapshot)


def test_a_folder_in_the_place_of_a_file(tmp_path: Path) -> None:
    files, tip = created(LocalStore(tmp_path))
    (tmp_path / branch_key(MAIN, 1)).mkdir()
    assert open_tip(files, MAIN, tip) == tip == open_tip(files, MAIN)
