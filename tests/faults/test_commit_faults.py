"""A store that fails, or loses its answer, at every single operation of a commit: reports are true, nothing is lost, and the session can continue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from tests.api.stored_files import check_files

import frazil
from frazil.errors import CommitUnknownError, ConflictError, DataError, NotFoundError, StoreError
from frazil.stores import LocalStore, MemoryStore, Store
from frazil.testing import Fault, FaultPlan, FaultyStore

LARGE = 2**20 + 2**18  # bytes: a separate chunk file


def fill(root: frazil.Group, value: int) -> None:
    """Chunks of all sizes, a removed array, a moved one, attributes in a file."""
    root["large"][...] = value
    root["small"][...] = value
    root["tiny"][...] = value
    root.attrs["long"] = f"{value}" * 100
    root.create_array(f"new{value}", shape=(5,), dtype="i4", chunks=(2,))[...] = value
    del root["gone"]


def begin(store: Store) -> frazil.Repository:
    repo = frazil.Repository.create(store, durable=False, attributes_file_bytes=50)
    with repo.transaction(message="first") as root:
        for name, length in (("large", LARGE), ("small", 1000), ("tiny", 100)):
            root.create_array(name, shape=(length,), dtype="u1", chunks=(length,), codecs=["bytes"])[...] = 1
        root.create_group("gone")
    return repo


def check(store: Store, value: int, name: str = "main") -> None:
    """One complete state, read with empty caches."""
    repo = frazil.Repository.open(store)
    root = repo.readonly_session(snapshot=repo.lookup(name)).root
    for array in ("large", "small", "tiny"):
        np.testing.assert_array_equal(root[array][...], value, err_msg=array)  # type: ignore[call-overload]
    assert ("gone" in root) == (value == 1)
    if value > 1:
        assert root.attrs["long"] == f"{value}" * 100
        np.testing.assert_array_equal(root[f"new{value}"][...], value)  # type: ignore[call-overload]


def plans(calls: Mapping[str, int]) -> Iterator[list[Fault]]:
    """No fault; one at each of these calls of a commit; and a lost answer after which the next reads fail, too."""
    yield []
    for call in range(1, calls["put_many"] + 1):
        for kind in ("fail", "cut", "lose"):
            yield [Fault("put_many", call, kind)]
            yield [Fault("put_many", call, kind), *(Fault("fetch", number) for number in range(2, 5))]
        yield [Fault("put_many", call), *(Fault("erase_many", number) for number in range(1, 99))]
    for operation in ("fetch", "erase_many", "list"):
        for call in range(1, calls[operation] + 1):
            yield [Fault(operation, call)]  # type: ignore[arg-type]


def shifted(store: FaultyStore, faults: list[Fault]) -> FaultPlan:
    return FaultPlan([fault._replace(call=fault.call + store.calls[fault.operation]) for fault in faults])


@pytest.mark.parametrize("rival", [False, True])
@pytest.mark.parametrize("kind", ["memory", "local"])
def test_the_outcome_of_a_commit_under_faults_is_reported_truly(kind: str, rival: bool, tmp_path: Path) -> None:
    outcomes: dict[str, int] = {}

    def prepared(name: str) -> tuple[frazil.Session, FaultyStore, Store]:
        inner: Store = MemoryStore() if kind == "memory" else LocalStore(tmp_path / name, sync=False)
        begin(inner)
        store = FaultyStore(inner)
        repo = frazil.Repository.open(store, attributes_file_bytes=50)
        session = repo.writable_session()
        fill(session.root, 2)
        if rival:
            with frazil.Repository.open(inner, durable=False).transaction(message="rival") as root:
                root.create_group("rival")
        return session, store, inner

    session, store, _ = prepared("calls")
    before = store.calls.copy()
    with pytest.raises(ConflictError) if rival else nullcontext():
        session.commit("second")
    calls = store.calls - before
    assert calls["fetch" if rival else "put_many"] > 2
    for number, faults in enumerate(plans(calls)):
        session, store, inner = prepared(f"{number}")
        outcome = attempt(session, store, inner, faults)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        store.plan = FaultPlan()
        go_on(session, inner, outcome)
        check_files(inner, reached=[commit.id for commit in frazil.Repository.open(inner).history()])
    assert {"error", "unknown"} <= outcomes.keys() | ({"unknown"} if rival else set())
    assert "committed" not in outcomes if rival else "conflict" not in outcomes


def attempt(session: frazil.Session, store: FaultyStore, inner: Store, faults: list[Fault]) -> str:
    before = frazil.Repository.open(inner).lookup("main")
    files = set(inner.list())
    store.plan = shifted(store, faults)
    try:
        identity = session.commit("second")
    except CommitUnknownError:
        outcome = "unknown"
        assert files <= set(inner.list()), "nothing was removed"
    except ConflictError:
        outcome = "conflict"
    except StoreError:
        outcome = "error"
    else:
        outcome = "committed"
    now = frazil.Repository.open(inner).lookup("main")
    if outcome == "committed":
        assert now == identity
        check(inner, 2)
    elif outcome != "unknown":
        assert now == before, "nothing was committed"
        check(inner, 1)
    else:
        check(inner, 1 if now == before else 2)
    return outcome


def go_on(session: frazil.Session, inner: Store, outcome: str) -> None:
    """The session has all its changes, and can commit."""
    np.testing.assert_array_equal(session.root["large"][:10], [2] * 10)  # type: ignore[call-overload]
    repo = frazil.Repository.open(inner)
    happened = "new2" in repo.readonly_session().root
    if session.has_changes:
        session.commit("again", rebase="disjoint")
    assert not session.has_changes
    check(inner, 2)
    assert [commit.message for commit in repo.history()].count("second") == happened
    fill_again(session)
    session.commit("third")
    check_third(inner)


def fill_again(session: frazil.Session) -> None:
    session.root["large"][...] = 3  # type: ignore[index, call-overload]
    session.root["tiny"][...] = 3  # type: ignore[index, call-overload]


def check_third(inner: Store) -> None:
    root = frazil.Repository.open(inner).readonly_session().root
    assert (root["large"][...] == 3).all()  # type: ignore[call-overload]
    assert (root["small"][...] == 2).all()  # type: ignore[call-overload]
    assert (root["tiny"][...] == 3).all()  # type: ignore[call-overload]


def random_faults(seeds: range) -> None:
    """A store that fails now and then: every commit that was reported as done is there, in order, and nothing else."""
    for seed in seeds:
        inner = MemoryStore()
        frazil.Repository.create(inner)
        with frazil.Repository.open(inner).transaction(message="first") as root:
            root.create_array("count", shape=(600, 4), dtype="i8", chunks=(100, 4))[...] = 0
        store = FaultyStore(inner, FaultPlan(seed=seed, rate=0.1))
        sure: list[str] = []
        unsure: set[str] = set()
        session: frazil.Session | None = None
        for turn in range(1, 25):
            try:
                if session is None:
                    session = frazil.Repository.open(store).writable_session()
                session.root["count"][turn % 6 * 100 : turn % 6 * 100 + 100] = turn  # type: ignore[index, call-overload]
                session.root.attrs["turn"] = turn
                session.commit(f"{turn}")
                sure.append(f"{turn}")
            except CommitUnknownError:
                unsure.add(f"{turn}")
                session = None
            except ConflictError:
                session = None
            except (StoreError, DataError, NotFoundError):
                if turn % 2:
                    session = None
        repo = frazil.Repository.open(inner)
        messages = [commit.message for commit in repo.history()][-3::-1]
        assert [one for one in messages if one in sure] == sure
        assert set(messages) <= set(sure) | unsure
        for commit in repo.history():
            root = repo.readonly_session(snapshot=commit.id).root
            if "count" in root:
                blocks = root["count"][...].reshape(6, 400)  # type: ignore[call-overload]
                assert (blocks == blocks[:, :1]).all(), "chunks are whole"
                assert blocks.max() == root.attrs.get("turn", 0)
        check_files(inner, reached=[commit.id for commit in frazil.Repository.open(inner).history()])


def test_a_store_that_fails_now_and_then() -> None:
    random_faults(range(12))


@pytest.mark.campaign
def test_many_stores_that_fail_now_and_then() -> None:
    random_faults(range(12, 3000))
