"""Merging branches, applying commits elsewhere, and reverting them. A merge gives the same as a rebase of a session with the same changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import TypeAlias

import numpy as np
import pytest

import frazil
from frazil.errors import ConflictError, InvalidInputError, NotFoundError
from frazil.stores import MemoryStore
from frazil.stores.store import Store
from frazil.testing.simulation.hierarchy import Act, act_on, choose, read

pytestmark = pytest.mark.usefixtures("each_format")

Content: TypeAlias = "dict[str, tuple[object, dict[str, object]]]"

NAMES = ("array", "group", "attribute", "remove", "move", "swap", "write", "write", "append", "append")


def repository(store: Store | None = None) -> frazil.Repository:
    """An array of 4 ones, at main and at dev."""
    repo = frazil.Repository.create(MemoryStore() if store is None else store)
    with repo.transaction(message="first") as root:
        root.create_array("t", shape=(4,), dtype="i4", chunks=(2,))[...] = 1
    repo.create_branch("dev", "main")
    return repo


def write(repo: frazil.Repository, branch: str, at: int, value: int, message: str = "a value") -> str:
    session = repo.writable_session(branch)
    array(session)[at] = value
    return session.commit(message)


def append(repo: frazil.Repository, branch: str, *values: int) -> str:
    session = repo.writable_session(branch)
    array(session).append(values)
    return session.commit("rows")


def array(session: frazil.Session, path: str = "t") -> frazil.Array:
    found = session.open(path)
    assert isinstance(found, frazil.Array)
    return found


def values(repo: frazil.Repository, branch: str = "main") -> list[int]:
    return list(array(repo.readonly_session(branch))[...].tolist())


def messages(repo: frazil.Repository, branch: str = "main") -> list[str]:
    return [commit.message for commit in repo.history(branch)][:-1]


# --- merges ----------------------------------------------------------------------------------------------------------------------------


def test_a_branch_without_commits_of_its_own_moves_to_the_other() -> None:
    repo = repository()
    end = write(repo, "dev", 0, 7)
    assert repo.merge("dev") == end == repo.lookup_branch("main")
    assert messages(repo) == ["a value", "first"]
    assert repo.merge("dev") == end, "nothing is left to merge"
    assert repo.merge("main", into="dev") == end


def test_a_message_asks_for_a_commit() -> None:
    repo = repository()
    end = write(repo, "dev", 0, 7)
    merged = repo.merge("dev", message="a release", metadata={"by": "us"})
    assert merged != end
    newest = next(repo.history())
    assert (newest.message, newest.metadata) == ("a release", {"by": "us", "merged_snapshots": [end]})
    assert values(repo) == [7, 1, 1, 1]


def test_both_have_commits() -> None:
    repo = repository()
    write(repo, "dev", 0, 7)
    with repo.transaction("dev", message="more") as root:
        root.attrs["from"] = "dev"
        root.create_array("new", data=np.arange(300), chunks=(100,))
        root.create_group("group")
    write(repo, "main", 3, 9)
    merged = repo.merge("dev")
    assert repo.lookup_branch("main") == merged
    assert messages(repo) == ["merge dev into main", "a value", "first"]
    assert values(repo) == [7, 1, 1, 9]
    root = repo.readonly_session().root
    assert dict(root.attrs) == {"from": "dev"}
    assert sorted(root) == ["group", "new", "t"]
    new = root["new"]
    assert isinstance(new, frazil.Array)
    assert np.array_equal(new[:], np.arange(300))
    assert values(repo, "dev") == [7, 1, 1, 1], "the other branch stays as it is"
    assert repo.verify(decode=True).problems == ()


def test_later_merges_begin_where_the_last_one_ended() -> None:
    repo = repository()
    append(repo, "main", 2, 2)
    append(repo, "dev", 5)
    repo.merge("dev")
    assert values(repo) == [1, 1, 1, 1, 2, 2, 5]
    append(repo, "dev", 6)
    append(repo, "main", 3)
    repo.merge("dev")
    assert values(repo) == [1, 1, 1, 1, 2, 2, 5, 3, 6]
    append(repo, "main", 4)
    repo.merge("main", into="dev")
    assert values(repo, "dev") == values(repo), "dev had nothing that main has not"
    append(repo, "dev", 8)
    repo.merge("dev")
    assert values(repo) == [1, 1, 1, 1, 2, 2, 5, 3, 6, 4, 8]
    assert messages(repo)[0] == "rows", "main has nothing that dev has not, so it moves"


def test_a_merged_branch_may_be_deleted_and_collected() -> None:
    repo = repository()
    repo.create_branch("other", "main")
    append(repo, "dev", 5)
    append(repo, "main", 2)
    repo.merge("dev")
    append(repo, "other", 6)
    repo.delete_branch("dev")
    for _ in range(2):
        repo.garbage_collect(now=True)
    repo.merge("other")
    assert values(repo) == [1, 1, 1, 1, 2, 5, 6]
    assert repo.verify(decode=True).problems == ()


def test_later_merges_of_nodes_that_the_branch_created() -> None:
    repo = repository()
    with repo.transaction("dev", message="new") as root:
        root.create_array("g/x", shape=(4,), dtype="i4", chunks=(4,))[...] = 1
    write(repo, "main", 0, 9)
    repo.merge("dev")
    with repo.transaction("dev", message="more") as root:
        root["g/x"].append([2, 3])  # type: ignore[union-attr]
        root["g"].attrs["a"] = 1
    repo.merge("dev")
    repo.merge("main", into="dev")
    for branch in ("main", "dev"):
        group = repo.readonly_session(branch).root
        assert group["g/x"][...].tolist() == [1, 1, 1, 1, 2, 3]  # type: ignore[index, union-attr]
        assert dict(group["g"].attrs) == {"a": 1}


def test_what_was_merged_before_is_not_merged_again_though_the_branch_is_gone() -> None:
    repo = repository()
    append(repo, "dev", 5)
    repo.create_tag("early", "dev")
    append(repo, "dev", 6)
    append(repo, "main", 2)
    repo.merge("dev")
    repo.delete_branch("dev")
    for _ in range(2):
        repo.garbage_collect(now=True)
    assert repo.merge("early") == repo.lookup("main")
    repo.create_branch("later", "early")
    append(repo, "later", 7)
    repo.merge("later")
    assert values(repo) == [1, 1, 1, 1, 2, 5, 6, 7]


def test_merges_of_each_other_at_the_same_time_are_refused() -> None:
    repo = repository()
    one, other = append(repo, "main", 2), append(repo, "dev", 5)
    repo.merge(other)
    repo.merge(one, into="dev")
    append(repo, "dev", 6)
    before = repo.lookup("main")
    with pytest.raises(ConflictError, match="several common ancestors"):
        repo.merge("dev")
    assert repo.lookup("main") == before


def test_conflicts_are_named_and_solved() -> None:
    repo = repository()
    write(repo, "dev", 0, 7)
    write(repo, "main", 1, 9)
    before = repo.lookup("main")
    with pytest.raises(ConflictError, match=r'solver="ours" or solver="theirs"') as caught:
        repo.merge("dev")
    assert [str(conflict) for conflict in caught.value.conflicts] == ["/t: both changed the same chunks: (0,)"]
    assert repo.lookup("main") == before
    repo.merge("dev", solver="theirs", message="theirs")
    assert values(repo) == [1, 9, 1, 1]
    repo.reset_branch("main", before)
    repo.merge("dev", solver=lambda conflict: "ours")
    assert values(repo) == [7, 1, 1, 1]


def first(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Others do something just before the next commit."""
    commit = frazil.Session.commit

    def late(self: frazil.Session, *arguments: object, **named: object) -> str:
        monkeypatch.setattr(frazil.Session, "commit", commit)
        act()
        return commit(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(frazil.Session, "commit", late)


def test_another_merge_of_the_same_at_the_same_time_is_not_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    repo = repository()
    append(repo, "dev", 5)
    append(repo, "main", 2)
    first(monkeypatch, lambda: repo.merge("dev", message="the other"))
    assert repo.merge("dev", message="mine") == repo.lookup("main")
    assert values(repo) == [1, 1, 1, 1, 2, 5]
    assert messages(repo)[:2] == ["the other", "rows"]


def test_a_merge_follows_another_commit_that_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    repo = repository()
    append(repo, "dev", 5)
    append(repo, "main", 2)
    first(monkeypatch, lambda: append(repo, "main", 3))
    repo.merge("dev")
    assert values(repo) == [1, 1, 1, 1, 2, 3, 5]


def test_a_conflict_is_an_error_at_once_though_others_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    repo = repository()
    write(repo, "dev", 0, 7)
    write(repo, "main", 1, 9)
    calls: list[str] = []
    replay = frazil.Repository._replay

    def busy(self: frazil.Repository, *arguments: object, **named: object) -> str:
        calls.append(write(repo, "main", 3, len(calls)))
        return replay(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(frazil.Repository, "_replay", busy)
    with pytest.raises(ConflictError, match="the same chunks"):
        repo.merge("dev")
    assert len(calls) == 1


def test_a_solver_that_fails_leaves_no_pin() -> None:
    store = MemoryStore()
    repo = repository(store)
    write(repo, "dev", 0, 7)
    write(repo, "main", 1, 9)
    for error in (ZeroDivisionError, KeyboardInterrupt, MemoryError):

        def solver(_: object, error: type[BaseException] = error) -> str:
            assert store.list_prefix("gc/pins/")
            raise error

        with pytest.raises(error):
            repo.merge("dev", solver=solver)  # type: ignore[arg-type]
        assert not store.list_prefix("gc/pins/")


# --- single commits --------------------------------------------------------------------------------------------------------------------


def test_a_commit_is_applied_to_another_branch() -> None:
    repo = repository()
    write(repo, "dev", 0, 7, "not wanted")
    wanted = write(repo, "dev", 3, 8, "wanted")
    picked = repo.cherry_pick(wanted)
    assert picked == repo.lookup("main")
    assert values(repo) == [1, 1, 1, 8]
    assert messages(repo)[0] == "wanted"
    assert repo.cherry_pick(wanted) == picked, "nothing is left to change"
    write(repo, "dev", 3, 5, "another")
    assert repo.cherry_pick(wanted, "dev", solver="ours", message="again", metadata={"n": 1}) != wanted
    assert (messages(repo, "dev")[0], next(repo.history("dev")).metadata) == ("again", {"n": 1})


@pytest.mark.parametrize("length", [4, 2000, 2_000_000], ids=["inline", "packed", "in files"])
def test_what_both_sides_wrote_with_equal_bytes_is_no_conflict(length: int) -> None:
    repo = repository()
    with repo.transaction(message="longer") as root:
        root.create_array("u", shape=(2, length), dtype="i1", chunks=(1, length), codecs=["bytes"])
        root.create_group("g")
    repo.reset_branch("dev", "main")

    def change(branch: str, *values: int) -> None:
        with repo.transaction(branch, message="changes") as root:
            root["u"][0], root["u"][1] = values  # type: ignore[index, operator]
            root["g"].attrs["a"] = root.attrs["a"] = 5
            root.create_array("g/new", data=np.arange(length)[::-1], chunks=(length,), attributes={"b": 1})

    change("dev", 3, 4)
    change("main", 3, 4)
    before = repo.lookup("main")
    assert repo.cherry_pick("dev") == before
    assert repo.merge("dev") != before, "it is recorded"
    assert repo.verify(decode=True).problems == ()
    repo.reset_branch("main", next(repo.history(before)).parent or "")
    change("main", 3, 6)
    with pytest.raises(ConflictError) as caught:
        repo.merge("dev")
    assert [str(conflict) for conflict in caught.value.conflicts] == ["/u: both changed the same chunks: (1, 0)"]
    session = repo.writable_session()
    array(session, "g/new")[0] = 0
    session.commit("another value")
    with pytest.raises(ConflictError, match="g/new: both created a node"):
        repo.merge("dev", solver=lambda conflict: "theirs" if conflict.kind == "chunks" else "fail")


@pytest.mark.parametrize("length", [4, 2000])
def test_what_both_sides_removed_and_created_equally_is_no_conflict(length: int) -> None:
    repo = repository()
    with repo.transaction(message="base") as root:
        root.create_array("u", data=np.arange(length))
        root.create_array("g/v", data=np.arange(3))
    repo.reset_branch("dev", "main")
    base = repo.lookup("main")

    def replace(branch: str, last: int = 7, **member: object) -> None:
        with repo.transaction(branch, message="replaced") as root:
            root.create_array("u", data=np.arange(length) + 1.5, chunks=(2,), attributes={"b": 1}, overwrite=True)
            del root["g"]
            root.create_array("g/v", data=np.array([5, 6, last]), **member)  # type: ignore[arg-type]

    replace("dev")
    replace("main")
    repo.merge("dev")
    session = repo.readonly_session()
    assert np.array_equal(array(session, "u")[...], np.arange(length) + 1.5)
    assert array(session, "g/v")[...].tolist() == [5, 6, 7]
    assert repo.verify(decode=True).problems == ()
    for different in ({"last": 8}, {"attributes": {"c": 1}}, {"fill_value": 3}):
        repo.reset_branch("main", base)
        replace("main", **different)  # type: ignore[arg-type]
        with pytest.raises(ConflictError) as caught:
            repo.merge("dev")
        assert {conflict.path for conflict in caught.value.conflicts} == {"/g", "/g/v"}  # type: ignore[attr-defined]
        assert repo.merge("dev", solver="ours") and array(repo.readonly_session(), "g/v")[2] == 7


def test_a_session_that_counts_up_conflicts_with_another() -> None:
    repo = repository()
    one, other = repo.writable_session(), repo.writable_session()
    for session in (one, other):
        array(session)[0] = array(session)[0] + 1
    one.commit("one more")
    with pytest.raises(ConflictError, match="the same chunks"):
        other.commit("one more", rebase="disjoint")


def test_a_commit_is_reverted() -> None:
    repo = repository()
    wrong = write(repo, "main", 0, 7, "wrong")
    append(repo, "main", 2, 2)
    repo.revert(wrong)
    assert values(repo) == [1, 1, 1, 1, 2, 2]
    assert messages(repo)[0] == f"revert {wrong}: wrong"
    repo.revert("main", message="no: it was right")
    assert values(repo) == [7, 1, 1, 1, 2, 2]
    write(repo, "main", 1, 5)
    with pytest.raises(ConflictError, match="the same chunks"):
        repo.revert(wrong)
    repo.revert(wrong, solver="ours")
    assert values(repo) == [1, 1, 1, 1, 2, 2]


def test_removed_nodes_come_back() -> None:
    repo = repository()
    with repo.transaction(message="gone") as root:
        del root["t"]
    repo.revert("main")
    assert values(repo) == [1, 1, 1, 1]
    assert repo.verify(decode=True).problems == ()


def test_rows_that_a_resize_removed_do_not_come_back_behind_others() -> None:
    repo = repository()
    append(repo, "main", 2, 2)
    with repo.transaction(message="shorter") as root:
        root["t"].resize((4,))  # type: ignore[union-attr]
    shorter = repo.lookup("main")
    append(repo, "main", 3)
    with pytest.raises(ConflictError, match="its metadata or shape"):
        repo.revert(shorter)
    assert values(repo) == [1, 1, 1, 1, 3]


def test_the_first_snapshot_cannot_be_reverted() -> None:
    repo = repository()
    first = list(repo.history())[-1].id
    for call in (repo.revert, repo.cherry_pick):
        with pytest.raises(InvalidInputError, match="the first snapshot"):
            call(first)


# --- arguments -------------------------------------------------------------------------------------------------------------------------


def test_wrong_arguments() -> None:
    repo = repository()
    write(repo, "dev", 0, 7)
    before = repo.lookup("main")
    for wrong in (
        {"message": 5},
        {"metadata": {"a": object()}},
        {"solver": "mine"},
        {"metadata": {"merged_snapshots": 1}},
    ):
        with pytest.raises(InvalidInputError):
            repo.merge("dev", **wrong)  # type: ignore[arg-type]
    for names in (("nowhere",), ("dev", "nowhere")):
        for call in (repo.merge, repo.cherry_pick, repo.revert):
            with pytest.raises(NotFoundError, match="nowhere"):
                call(*names)
    assert repo.lookup("main") == before


def test_branches_that_have_nothing_in_common() -> None:
    """Only possible after an expiry."""
    repo = repository()
    write(repo, "dev", 0, 7)
    write(repo, "main", 3, 8)
    repo.expire(older_than=timedelta(0), keep_last=1)
    for _ in range(2):
        repo.garbage_collect(now=True)
    with pytest.raises((InvalidInputError, NotFoundError), match="expired"):
        repo.merge("dev")


# --- the same as a rebase --------------------------------------------------------------------------------------------------------------


def make_changes(
    repo: frazil.Repository,
    branch: str,
    commits: int,
    random: Random,
    session: frazil.Session,
    names: Sequence[str] = NAMES,
) -> None:
    """Makes random changes, each in a session and on a branch, where they are committed."""
    for _ in range(commits):
        own = repo.writable_session(branch)
        for _ in range(random.randrange(1, 4)):
            act: Act | None = None
            while act is None:
                shown = {path: None if found is None else found.shape for path, (found, _) in read(own.root).items()}
                act = choose(random, names, shown)
            act_on(own.root, act)
            act_on(session.root, act)
        own.commit("changes", allow_empty=True)


def same(one: frazil.Session, other: frazil.Session) -> bool:
    found, expected = read(one.root), read(other.root)
    return found.keys() == expected.keys() and all(
        found[path][1] == expected[path][1] and np.array_equal(found[path][0], expected[path][0]) for path in found
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_merge_is_a_rebase_of_all_commits(seed: int) -> None:
    random = Random(f"merge {seed}")
    repo = frazil.Repository.create(MemoryStore())
    make_changes(repo, "main", 2, random, repo.writable_session())
    for branch in ("dev", "expected", "picked"):
        repo.create_branch(branch, "main")
    session = repo.writable_session("expected")
    made = random.randrange(1, 4)
    make_changes(repo, "dev", made, random, session)
    others = repo.writable_session("expected")
    # nothing is created again, which is the same node for a merge, and another one for a rebase
    make_changes(repo, "main", random.randrange(1, 3), random, others, ("array", "group", *NAMES[6:], "attribute"))
    others.commit("theirs", allow_empty=True)
    conflicts: list[object] = []
    for name in ("disjoint", "theirs"):
        try:
            session.commit("ours", rebase=name, allow_empty=True)
        except ConflictError as error:
            conflicts.append(sorted({str(conflict) for conflict in error.conflicts}))
            with pytest.raises(ConflictError):
                repo.merge("dev", solver=name)
            continue
        repo.merge("dev", solver=name)
        break
    assert same(repo.readonly_session("main"), repo.readonly_session("expected"))
    history = list(repo.history("dev"))[:made]
    for commit in reversed(history):
        repo.cherry_pick(commit.id, "picked")
    assert same(repo.readonly_session("picked"), repo.readonly_session("dev"))
    for commit in history:
        repo.revert(commit.id, "dev")
    begun = history[-1].parent
    assert begun is not None
    assert same(repo.readonly_session("dev"), repo.readonly_session(snapshot=begun))
    assert repo.verify().problems == ()
