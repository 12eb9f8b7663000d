"""Wrong ids in the lists of ancestors of several branches and tags: what a verification calls sound works, and no collection removes what a ref needs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.repository.maintenance.garbage import FORMATS
from tests.repository.repair.test_contradictions import reopened, rewrite
from tests.slow_properties import search

import frazil
from frazil.errors import FrazilError
from frazil.formats.alpha.snapshots import SnapshotFile
from frazil.formats.ids import decode_id
from frazil.stores import MemoryStore

COMMITS = 12
LISTED = 8  # ancestors that a snapshot lists
NOWHERE = bytes(12)


def branched(*, depths: list[tuple[str, int]]) -> tuple[MemoryStore, frazil.Repository, list[str]]:
    """Commits on `main`, some on a branch `side` that begins in the middle, and further refs: a kind, and how many commits before the tip. Returns the ids of
    `main`."""
    store = MemoryStore()
    repo = FORMATS[0](store)
    for number in range(COMMITS):
        with repo.transaction(message=str(number)) as root:
            root.attrs["number"] = number
    ids = [commit.id for commit in repo.history()]
    repo.create_branch("side", ids[COMMITS // 2])
    for number in range(3):
        with repo.transaction("side", message=f"side {number}") as root:
            root.attrs["number"] = number
    for number, (kind, depth) in enumerate(depths):
        name = f"{'az'[number % 2]}{number}"  # before and after `main`
        if kind == "branch":
            repo.create_branch(name, ids[depth])
        else:
            repo.create_tag(name, ids[depth])
    return store, repo, ids


def with_another(position: int, other: bytes) -> Callable[[SnapshotFile], SnapshotFile]:
    def change(snapshot: SnapshotFile) -> SnapshotFile:
        listed = list(snapshot.history)
        position_in = position % len(listed)
        listed[position_in] = listed[position_in]._replace(id=other)
        return snapshot._replace(history=tuple(listed))

    return change


def histories(repo: frazil.Repository) -> dict[str, list[str]]:
    return {name: [commit.id for commit in repo.history(name)] for name in (*repo.branches, *repo.tags)}


def works(action: Callable[[], object]) -> bool:
    refused: list[FrazilError] = []
    try:
        action()
    except FrazilError as error:
        refused.append(error)
    assert all(error.hint for error in refused), refused
    return not refused


REFS = st.lists(st.tuples(st.sampled_from(["branch", "tag"]), st.integers(0, COMMITS - 2)), max_size=3)


@search(slowness=2)
@example(refs=[], damaged=0, position=0, other=0, keep=1)  # a snapshot that names itself
@example(refs=[], damaged=12, position=0, other=12, keep=1)  # a list that continues after the first snapshot
@example(refs=[], damaged=12, position=0, other=5, keep=5)  # instead of the parent, a descendant of what is listed next
@given(
    refs=REFS,
    damaged=st.integers(0, COMMITS + 1),
    position=st.integers(0, LISTED - 1),
    other=st.none() | st.integers(0, COMMITS + 2),
    keep=st.integers(1, COMMITS),
)
def test_what_is_sound_works(
    refs: list[tuple[str, int]], damaged: int, position: int, other: int | None, keep: int
) -> None:
    """One entry in the list of a snapshot names another one, or none that exists."""
    store, repo, ids = branched(depths=refs)
    ids = [*ids, *(commit.id for commit in repo.history("side"))][: len(ids) + 3]
    before, files = histories(repo), set(store.list_prefix("snapshots/"))
    at = ids[damaged if damaged < COMMITS else damaged + 1]  # the first snapshot has no list
    rewrite(store, at, with_another(position, NOWHERE if other is None else decode_id(ids[other])))
    repo = reopened(repo)
    found = repo.verify()
    same = False
    if works(lambda: histories(repo)):
        same = histories(repo) == before
    collected = works(lambda: repo.garbage_collect(now=True))
    assert set(store.list_prefix("snapshots/")) == files
    done = repo.repair()
    assert set(store.list_prefix("snapshots/")) >= files
    assert not (found.ok and done.commits)
    expired = works(lambda: repo.expire(older_than=timedelta(0), keep_last=keep))
    if found.ok:
        assert same
        assert collected
        assert expired
    else:
        assert all(problem.key for problem in found.problems)
    kept = {name: 1 if name in repo.tags else keep - (name in done.commits) for name in before}
    needed = {at for name, history in before.items() for at in history[: kept[name]]}
    works(lambda: repo.garbage_collect(now=True))
    assert {key.rpartition("/")[2] for key in store.list_prefix("snapshots/")} >= needed


@search(slowness=2)
@example(refs=[], damaged=0, position=3, other=1)  # a cycle
@example(refs=[("branch", 8)], damaged=8, position=2, other=8)  # a cycle below a branch
@example(refs=[("branch", 1)], damaged=1, position=0, other=6)  # the list of a later snapshot has the right parent
@given(
    refs=REFS,
    damaged=st.integers(0, COMMITS + 1),
    position=st.integers(0, LISTED - 1),
    other=st.none() | st.integers(0, COMMITS + 2),
)
def test_a_repair_of_histories_is_complete(
    refs: list[tuple[str, int]], damaged: int, position: int, other: int | None
) -> None:
    """With consent to end histories, whatever one list names: no problem is left, histories can be followed and collections run, and the next repair does
    nothing. All snapshots that refs point to stay."""
    store, repo, ids = branched(depths=refs)
    ids = [*ids, *(commit.id for commit in repo.history("side"))][: len(ids) + 3]
    tips = {history[0] for history in histories(repo).values()}
    at = ids[damaged if damaged < COMMITS else damaged + 1]  # the first snapshot has no list
    rewrite(store, at, with_another(position, NOWHERE if other is None else decode_id(ids[other])))
    repo = reopened(repo)
    planned, done = repo.repair(history=True, dry_run=True), repo.repair(history=True)
    assert done.ok, str(done)
    assert [*planned.commits] == [*done.commits]
    repo = reopened(repo)
    again = repo.repair(history=True)
    assert (again.ok, again.commits, again.repaired) == (True, {}, ())
    assert tips <= {at for history in histories(repo).values() for at in history}
    repo.garbage_collect(now=True)
    assert tips <= {key.rpartition("/")[2] for key in store.list_prefix("snapshots/")}
    assert reopened(repo).verify().ok


def test_a_snapshot_that_names_itself_hinders_collections_until_its_history_is_given_up() -> None:
    store, repo, ids = branched(depths=[])
    rewrite(store, ids[0], with_another(0, decode_id(ids[0])))
    repo = reopened(repo)
    assert not works(lambda: repo.garbage_collect(now=True))
    repo.repair(history=True)
    assert works(lambda: repo.garbage_collect(now=True))


def test_an_accepted_contradiction_hides_no_other_one_in_the_same_list() -> None:
    """The newest list could not be repaired any more, as only the accepted contradiction in it was found."""
    store, repo, ids = branched(depths=[])
    rewrite(store, ids[2], with_another(0, decode_id(ids[8])))
    repo = reopened(repo)
    assert repo.repair(history=True).ok
    rewrite(store, ids[0], with_another(5, decode_id(ids[12])))
    repo = reopened(repo)
    assert ids[0] in {problem.snapshot for problem in repo.verify().problems}
    done = repo.repair()
    assert (done.ok, [*done.commits]) == (True, ["main"])


def test_a_repair_of_histories_ends_if_its_record_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    store, repo, ids = branched(depths=[])
    rewrite(store, ids[2], with_another(0, decode_id(ids[8])))
    repo = reopened(repo)
    monkeypatch.setattr("frazil.repository.repair.repair.record_expired", lambda *_: None)
    assert not repo.repair(history=True).ok
