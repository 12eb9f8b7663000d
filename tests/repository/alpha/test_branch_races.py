"""Branch files under races and lost answers: no number is assigned twice, and unknown outcomes are reported as such."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.concurrent_calls import in_processes, in_threads
from tests.no_backoff import no_pauses
from tests.repository.archived_repositories import created, info, put_snapshot, snapshot, some_id

from frazil.errors import AlreadyExistsError, CommitUnknownError, FrazilError, StoreError
from frazil.formats.alpha.refs import branch_key, parse_ref
from frazil.formats.ids import encode_id
from frazil.repository.alpha.branches import (
    create_branch,
    create_repository,
    delete_branch,
    open_tip,
    put_next,
    read_tip,
    reset_branch,
)
from frazil.repository.alpha.file_cache import Files
from frazil.repository.alpha.tags import create_tag, read_tag
from frazil.repository.format import COMMITTED, MAIN, TAKEN, UNKNOWN, Tip
from frazil.stores import LocalStore, MemoryStore
from frazil.testing import Fault, FaultPlan, FaultyStore


def faulty(files: Files, *faults: Fault) -> Files:
    return Files(FaultyStore(files.store, FaultPlan(faults)))


READS_FAIL = [Fault("fetch", call) for call in range(1, 20)]


# --- lost answers ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I182")
def test_a_lost_answer_is_read_back() -> None:
    files, first = created(MemoryStore())
    mine = some_id()
    assert put_next(faulty(files, Fault("put_many", 1, "lose")), first, mine) == (COMMITTED, Tip(MAIN, 1, mine))
    for kind in ("fail", "cut", "lose"):
        found = put_next(faulty(files, Fault("put_many", 1, kind)), first, some_id())  # type: ignore[arg-type]
        assert found == (TAKEN, Tip(MAIN, 1, mine))
    # reading back is retried
    assert put_next(
        faulty(files, Fault("put_many", 1, "lose"), Fault("fetch", 1), Fault("fetch", 2, "cut")), first, mine
    ) == (
        COMMITTED,
        Tip(MAIN, 1, mine),
    )


@pytest.mark.parametrize("kind", ["fail", "cut"])
def test_a_write_that_failed_is_repeated(kind: str) -> None:
    """It may still arrive; once a file has the number, it cannot."""
    files, first = created(MemoryStore())
    mine = some_id()
    found = put_next(faulty(files, Fault("put_many", 1, kind)), first, mine)  # type: ignore[arg-type]
    assert found == (COMMITTED, Tip(MAIN, 1, mine))
    again = [Fault("put_many", call, kind) for call in range(1, 9)]  # type: ignore[arg-type]
    assert put_next(faulty(files, *again), Tip(MAIN, 1, mine), some_id()) == (UNKNOWN, None)
    assert open_tip(files, MAIN) == Tip(MAIN, 1, mine)


@pytest.mark.parametrize("kind", ["fail", "lose"])
def test_unknown_outcomes_are_reported(kind: str) -> None:
    files, first = created(MemoryStore())
    mine = some_id()
    faults = [Fault("put_many", 1, kind), *READS_FAIL]  # type: ignore[arg-type]
    assert put_next(faulty(files, *faults), first, mine) == (UNKNOWN, None)
    tip = open_tip(files, MAIN, first)
    assert tip == (Tip(MAIN, 1, mine) if kind == "lose" else first)


def test_an_unreadable_file_after_a_lost_answer_is_not_known() -> None:
    files, first = created(MemoryStore())
    files.store.set(branch_key(MAIN, 1), b'{"snap')
    assert put_next(faulty(files, Fault("put_many", 1, "lose")), first, some_id()) == (UNKNOWN, None)


def test_creating_tells_the_outcomes_apart() -> None:
    files, first = created(MemoryStore())
    lost = Fault("put_many", 1, "lose")
    create_tag(faulty(files, lost), "t", first.snapshot)
    assert read_tag(files, "t") == first.snapshot
    assert create_branch(faulty(files, lost), "b", first.snapshot) == open_tip(files, "b")
    second = put_snapshot(files, 2, [1])
    assert reset_branch(faulty(files, lost), "b", second) == open_tip(files, "b")
    assert delete_branch(faulty(files, lost), "b") == read_tip(files, "b")

    def later(reads: int) -> list[Fault]:
        return [Fault("put_many", 1, "lose"), *[Fault("fetch", call) for call in range(reads + 1, reads + 9)]]

    with pytest.raises(CommitUnknownError):
        create_tag(faulty(files, *later(2)), "u", first.snapshot)
    with pytest.raises(CommitUnknownError):
        create_branch(faulty(files, *later(1)), "c", first.snapshot)
    with pytest.raises(CommitUnknownError):
        reset_branch(faulty(files, *later(2)), MAIN, second)
    assert open_tip(files, MAIN).snapshot == second


def test_creating_a_repository_whose_answers_are_lost() -> None:
    store = MemoryStore()
    faults = [Fault("put_many", 2, "lose")]
    files = Files(FaultyStore(store, FaultPlan(faults)), "a/")
    assert create_repository(files, info(1).id, snapshot(info(1))) == open_tip(Files(store, "a/"), MAIN)
    files = Files(FaultyStore(store, FaultPlan([*faults, *READS_FAIL[1:]])), "b/")
    with pytest.raises(CommitUnknownError):
        create_repository(files, info(1).id, snapshot(info(1)))
    assert Files(store, "b/").has_snapshot(info(1).id)  # nothing was removed
    files = Files(FaultyStore(store, FaultPlan([Fault("put_many", 1)])), "c/")
    with pytest.raises(StoreError):
        create_repository(files, info(1).id, snapshot(info(1)))
    assert store.is_empty("c/")


@given(st.integers(0, 10**6), st.floats(0, 0.6))
@no_pauses()
def test_acknowledged_commits_are_kept(seed: int, rate: float) -> None:
    """Two writers commit to a store that fails at random: acknowledged commits are there, each number once; commits that raised are not."""
    inner = MemoryStore()
    plain, first = created(inner)
    files = Files(FaultyStore(inner, FaultPlan(seed=seed, rate=rate)))
    acknowledged: dict[int, bytes] = {0: first.snapshot}
    unknown: set[bytes] = set()
    refused: set[bytes] = set()
    tips = [first, first]
    for turn in range(40):
        mine = some_id()
        try:
            tips[turn % 2] = open_tip(files, MAIN, tips[turn % 2] if turn % 3 else None)
            outcome, tip = put_next(files, tips[turn % 2], mine)
        except StoreError:
            refused.add(mine)
            continue
        if outcome == COMMITTED:
            assert tip is not None
            assert tip.sequence not in acknowledged
            acknowledged[tip.sequence] = mine
        elif outcome == UNKNOWN:
            unknown.add(mine)
        else:
            refused.add(mine)
    there = contents(plain)
    assert {number: there[number] for number in acknowledged} == acknowledged
    assert set(there.values()) - set(acknowledged.values()) <= unknown
    assert not refused & set(there.values())
    assert sorted(there) == list(range(len(there)))


def contents(files: Files) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    keys = sorted(files.store.list_prefix("refs/branch.main/"), reverse=True)
    for number, key in enumerate(keys):
        assert key == branch_key(MAIN, number)
        data = files.store.get(key)
        assert data is not None
        ref = parse_ref(data, key)
        assert ref.snapshot is not None
        found[number] = ref.snapshot
    return found


# --- races -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I148", "I171")
@pytest.mark.parametrize("sync", [False, True])
def test_processes_give_no_number_twice(tmp_path: Path, sync: bool) -> None:
    commits = 10 if sync else 40
    files, _ = created(LocalStore(tmp_path / "r", sync=sync))

    def commit(writer: int) -> None:
        tip = open_tip(files, MAIN)
        lines: list[str] = []
        for _ in range(commits):
            mine = os.urandom(12)
            while True:
                outcome, present = put_next(files, tip, mine)
                assert present is not None
                tip = present if outcome == COMMITTED else open_tip(files, MAIN, present)
                if outcome == COMMITTED:
                    break
                assert outcome == TAKEN
            lines.append(f"{tip.sequence} {encode_id(mine)}")
        (tmp_path / f"log.{writer}").write_text("\n".join(lines))

    def follow() -> None:
        """A reader sees each file whole, and increasing numbers."""
        tip = open_tip(files, MAIN)
        while tip.sequence < 4 * commits:
            later = open_tip(files, MAIN, tip)
            assert later.sequence >= tip.sequence
            assert read_tip(files, MAIN, tip._replace(sequence=0)).sequence >= later.sequence  # type: ignore[union-attr]
            tip = later

    in_processes(5, lambda number: commit(number) if number < 4 else follow())
    logs = [line.split() for writer in range(4) for line in (tmp_path / f"log.{writer}").read_text().splitlines()]
    reported = {int(number): file for number, file in logs}
    assert len(logs) == len(reported) == 4 * commits
    there = contents(files)
    assert len(there) == 4 * commits + 1
    assert {number: encode_id(file) for number, file in there.items() if number} == reported


def test_leftovers_of_a_killed_writer(tmp_path: Path) -> None:
    """A writer killed after it put its files: an unused lock file next to the branch files, and before them in order. Creating takes no lock, and leaves
    none."""
    files, first = created(LocalStore(tmp_path))
    (tmp_path / (branch_key(MAIN, 1) + ".__lock")).write_bytes(b'{"snap')
    assert open_tip(files, MAIN) == first == open_tip(files, MAIN, first)
    mine = some_id()
    assert put_next(files, first, mine) == (COMMITTED, Tip(MAIN, 1, mine))
    assert open_tip(files, MAIN) == Tip(MAIN, 1, mine)
    assert put_next(files, Tip(MAIN, 1, mine), mine)[0] == COMMITTED
    left = [path.name for path in (tmp_path / "refs/branch.main").iterdir() if path.name.endswith(".__lock")]
    assert left == [branch_key(MAIN, 1).rpartition("/")[2] + ".__lock"]


@pytest.mark.rule("I211", "I305")
def test_of_two_creators_one_wins(tmp_path: Path) -> None:
    def race(number: int, create: Callable[[Files], object]) -> None:
        won: list[int] = []

        def run(writer: int) -> None:
            try:
                create(Files(LocalStore(tmp_path / f"r{number}")))
            except AlreadyExistsError:
                return
            except FrazilError as error:
                raise AssertionError from error
            won.append(writer)

        in_threads(4, run)
        assert len(won) == 1

    for number in range(5):
        race(number, lambda files: create_repository(files, some_id(), snapshot(info(1))))
        files = Files(LocalStore(tmp_path / f"r{number}"))
        first = open_tip(files, MAIN).snapshot
        assert len(files.store.list_prefix("snapshots/")) == 1  # the losers leave nothing
        race(number, lambda files: create_branch(files, "b", first))  # noqa: B023
        race(number, lambda files: create_tag(files, "t", first))  # noqa: B023
