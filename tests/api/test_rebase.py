"""What a rebase may and may not do: appends against writes after a resize, lost answers, handles, solvers, nothing left to commit."""

from __future__ import annotations

import numpy as np
import pytest

import frazil
from frazil.errors import CommitUnknownError, ConflictError, InvalidInputError, NotFoundError
from frazil.repository.merge.conflicts import Conflict
from frazil.stores import MemoryStore
from frazil.testing import FaultyStore
from frazil.testing.faulty_store import Fault, FaultPlan

pytestmark = pytest.mark.usefixtures("each_format")


def repository(rows: int = 4) -> frazil.Repository:
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="first") as root:
        root.create_array("t", shape=(rows,), dtype="i4", chunks=(4,))[...] = 1
    return repo


def values(repo: frazil.Repository) -> list[int]:
    return repo.readonly_session().root["t"][...].tolist()  # type: ignore[no-any-return, union-attr, index]


def two(repo: frazil.Repository) -> tuple[frazil.Session, frazil.Array, frazil.Session, frazil.Array]:
    one, other = repo.writable_session(), repo.writable_session()
    return one, one.root["t"], other, other.root["t"]  # type: ignore[return-value]


def test_rows_written_behind_a_resize_stay_where_they_were_written() -> None:
    repo = repository()
    one, mine, other, theirs = two(repo)
    mine.resize(12)
    mine[4:8] = 10
    theirs.resize(12)
    theirs[8:12] = 20
    one.commit("one")
    other.commit("other", rebase="disjoint")
    assert values(repo) == [1] * 4 + [10] * 4 + [20] * 4


def test_a_resize_against_an_append_is_a_conflict() -> None:
    repo = repository()
    one, mine, other, theirs = two(repo)
    mine.append([2] * 4)
    theirs.resize(12)
    one.commit("one")
    with pytest.raises(ConflictError) as caught:
        other.commit("other", rebase="disjoint")
    assert [conflict.kind for conflict in caught.value.conflicts] == ["metadata"]


def test_an_append_after_a_rebase_is_rebased_again() -> None:
    repo = repository()
    session = repo.writable_session()
    array = session.root["t"]
    array.append([5] * 4)
    for value in (6, 7):
        with repo.transaction(message="theirs") as root:
            root["t"].append([value] * 4)
        session.rebase()
    array.append([8] * 4)
    array[-1:] = 9
    session.commit("mine")
    assert values(repo) == [1] * 4 + [6] * 4 + [7] * 4 + [5] * 4 + [8, 8, 8, 9]


def test_handles_follow_what_becomes_of_the_session() -> None:
    repo = repository()
    session = repo.writable_session()
    array, root = session.root["t"], session.root
    root.attrs["a"] = 1
    array.append([5] * 4)
    with repo.transaction(message="theirs") as other:
        other["t"].append([6] * 4)
    session.rebase()
    assert array.shape == (12,)
    array[-4:] = 55
    session.commit("mine")
    assert values(repo) == [1] * 4 + [6] * 4 + [55] * 4
    array.resize(40)
    array.attrs["b"] = 2
    root.attrs["a"] = 3
    new = root.create_array("new", shape=(2,), dtype="i4")
    session.discard()
    assert array.shape == (12,)
    assert dict(array.attrs) == {}
    assert dict(root.attrs) == {"a": 1}
    with pytest.raises(NotFoundError):
        new[...]
    assert "new" in repr(new)
    assert not session.has_changes


def test_both_changed_the_rows_behind_which_both_appended() -> None:
    for solver, expected in (("ours", 8), ("theirs", 1), (lambda _: "ours", 8)):
        repo = repository(6)
        one, mine, other, theirs = two(repo)
        mine[5] = 9
        mine.append([2, 2])
        theirs[4] = 8
        theirs.append([3, 3])
        one.commit("one")
        with pytest.raises(ConflictError) as caught:
            other.commit("other", rebase="disjoint")
        (conflict,) = caught.value.conflicts
        assert isinstance(conflict, Conflict)
        assert (conflict.kind, conflict.path) == ("chunks", "/t")
        assert conflict.chunks is not None
        assert conflict.chunks.tolist() == [[1]]
        assert theirs[...].tolist() == [1, 1, 1, 1, 8, 1, 3, 3], "nothing was changed"
        other.commit("other", rebase=solver)  # type: ignore[arg-type]
        last = 1 if expected == 8 else 9
        assert values(repo) == [1, 1, 1, 1, expected, last, 2, 2, 3, 3]


def test_a_rebase_without_remaining_changes_succeeds() -> None:
    repo = repository()
    with repo.transaction(message="outer", rebase="disjoint") as root:
        root.create_group("same")
        with repo.transaction(message="inner") as other:
            other.create_group("same")
    session = repo.writable_session()
    session.root["t"][0] = 5
    with repo.transaction(message="theirs") as root:
        root["t"][0] = 6
    assert session.commit("mine", rebase="theirs") == repo.lookup("main")
    assert len(list(repo.history())) == 4
    with pytest.raises(InvalidInputError):
        repo.writable_session().commit("nothing", rebase="theirs")


def test_a_commit_whose_answer_was_lost_is_not_made_twice(each_format: str) -> None:
    if each_format != "alpha":
        pytest.skip("the requests of the alpha are counted")
    inner = MemoryStore()
    frazil.Repository.create(inner)
    repo = frazil.Repository.open(inner)
    with repo.transaction(message="first") as root:
        root.create_array("t", shape=(4,), dtype="i4", chunks=(4,))[...] = 1
    for later in (False, True):
        store = FaultyStore(inner)
        session = frazil.Repository.open(store).writable_session()
        array = session.root["t"]
        before = array.shape[0]
        array.append([2] * 4)
        assert len(array[...]) == before + 4  # the data that the commit needs is cached
        puts, reads = store.calls["put_many"], store.calls["fetch"]
        store.plan = FaultPlan([Fault("put_many", puts + 2, "lose"), *(Fault("fetch", reads + n) for n in (2, 3, 4))])
        with pytest.raises(CommitUnknownError):
            session.commit("lost")
        store.plan = FaultPlan([])
        if later:
            array.append([3] * 4)
            with pytest.raises(ConflictError, match="did happen"):
                session.commit("again", rebase="disjoint")
            with pytest.raises(ConflictError, match="did happen"):
                session.rebase()
        else:
            session.rebase()
            assert not session.has_changes
        assert repo.readonly_session().root["t"].shape == (before + 4,)


def test_chunks_that_never_existed_are_not_reported_as_removed() -> None:
    repo = repository()
    session = repo.writable_session()
    array = session.root["t"]
    array.resize(12)
    array[4:] = 3
    array.resize(4)
    assert session.diff().is_empty


def test_forks_are_not_rebased() -> None:
    fork = repository().writable_session().fork()
    with pytest.raises(InvalidInputError, match="fork"):
        fork.rebase()


def test_rows_of_several_dimensions_go_behind_each_other() -> None:
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="first") as root:
        root.create_array("t", shape=(5, 6), dtype="i4", chunks=(4, 4), shards=(4, 8))[...] = 1
    one, mine, other, theirs = two(repo)
    mine.append(np.full((3, 6), 2))
    theirs.append(np.full((2, 6), 3))
    theirs[4, 5] = 7
    one.commit("one")
    other.commit("other", rebase="disjoint")
    found = repo.readonly_session().root["t"]
    assert found[:, 0].tolist() == [1] * 5 + [2] * 3 + [3] * 2  # type: ignore[union-attr, index]
    assert found[4, 4:].tolist() == [1, 7]  # type: ignore[union-attr, index]


def test_giving_way_gives_up_all_of_an_array() -> None:
    repo = repository(8)
    one, mine, other, theirs = two(repo)
    mine[4:] = 5
    theirs.resize(4)
    theirs[0] = 7
    theirs.attrs["a"] = 1
    one.commit("one")
    other.commit("other", rebase="theirs")
    assert values(repo) == [1, 1, 1, 1, 5, 5, 5, 5]
    assert repo.readonly_session().root["t"].attrs["a"] == 1


@pytest.mark.parametrize("solver", ["ours", "theirs"])
def test_a_rename_onto_a_node_that_others_created(solver: str) -> None:
    repo = repository()
    one, other = repo.writable_session(), repo.writable_session()
    one.root.create_array("u", data=np.arange(3))
    other.root["t"][0] = 9  # type: ignore[index]
    other.root.move("t", "u")
    one.commit("one")
    with pytest.raises(ConflictError):
        other.commit("other", rebase="disjoint")
    other.commit("other", rebase=solver)
    root = repo.readonly_session().root
    if solver == "ours":
        assert list(root) == ["u"]
        assert root["u"][...].tolist() == [9, 1, 1, 1]  # type: ignore[index, union-attr]
    else:
        assert list(root) == ["t", "u"]
        assert root["t"][...].tolist() == [9, 1, 1, 1]  # type: ignore[index, union-attr]
        assert root["u"][...].tolist() == [0, 1, 2]  # type: ignore[index, union-attr]


def test_two_groups_of_one_path_keep_their_members() -> None:
    repo = repository()
    one, other = repo.writable_session(), repo.writable_session()
    for session, name in ((one, "a"), (other, "b")):
        session.root.create_group("g", attributes={"by": name})
        session.root.create_group(f"g/{name}")
    one.commit("one")
    other.commit("other", rebase="ours")
    root = repo.readonly_session().root
    assert list(root["g"]) == ["a", "b"]
    assert root["g"].attrs["by"] == "b"


@pytest.mark.parametrize("wrong", [5, "typo", b"x", "", 0.5])
def test_solvers_that_are_none_are_refused_before_anything_else(wrong: object) -> None:
    session = repository().writable_session()
    session.root["t"][0] = 2  # type: ignore[index]
    for act in (lambda: session.commit("x", rebase=wrong), lambda: session.rebase(wrong)):  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError):
            act()
    with pytest.raises(InvalidInputError, match="allow_empty"):
        session.commit("x", allow_empty=wrong)  # type: ignore[arg-type]


def test_a_number_is_no_truth_value() -> None:
    repo = repository()
    session = repo.writable_session()
    session.root.attrs["a"] = 1
    session.commit("one")
    session.root.attrs["a"] = True
    assert session.diff().attributes == ("/",)
    session.commit("two")
    assert repo.readonly_session().root.attrs["a"] is True


def test_back_off_grows_with_each_lost_race(monkeypatch: pytest.MonkeyPatch) -> None:
    repo = repository()
    session = repo.writable_session()
    session.root.attrs["mine"] = 1
    pauses: list[float] = []
    rebase, left = frazil.Session.rebase, [5]

    def overtaken(self: frazil.Session, solver: str) -> None:
        rebase(self, solver)
        if left[0]:
            left[0] -= 1
            with repo.transaction(message="theirs") as root:
                root["t"].attrs["turn"] = left[0]

    monkeypatch.setattr("frazil.base.retry.time.sleep", pauses.append)
    monkeypatch.setattr(frazil.Session, "rebase", overtaken)
    with repo.transaction(message="first of them") as root:
        root["t"].attrs["turn"] = 5
    session.commit("mine", rebase="disjoint")
    assert len(pauses) == 5  # commits of this repository object are visible at once
    assert all(0.5 * 0.001 * 2**at <= one <= 0.001 * 2**at for at, one in enumerate(pauses))
    assert repo.readonly_session().root.attrs["mine"] == 1
