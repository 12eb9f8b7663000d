"""Commits whose answer is lost: what is told is true, nothing is removed, and the session finds out."""

from __future__ import annotations

import numpy as np
import pytest

import frazil
from frazil.errors import CommitUnknownError
from frazil.stores import MemoryStore
from frazil.testing import FaultyStore
from frazil.testing.faulty_store import Fault, FaultPlan


def lost(store: FaultyStore, puts: int) -> FaultPlan:
    """The answer to the put after so many is lost, and what it wrote cannot be read for a while."""
    first = store.calls["fetch"]
    return FaultPlan(
        [
            Fault("put_many", store.calls["put_many"] + puts, "lose"),
            *(Fault("fetch", first + number) for number in range(1, 4)),
        ]
    )


@pytest.mark.parametrize("act", ["commit", "discard", "change"])
def test_an_unknown_commit_keeps_everything(act: str) -> None:
    inner = MemoryStore()
    repo = frazil.Repository.create(inner)
    store = FaultyStore(inner)
    session = frazil.Repository.open(store).writable_session()
    array = session.root.create_array("a", shape=(2**21,), dtype="u1", chunks=(2**21,), codecs=["bytes"])
    array[...] = 3
    store.plan = lost(store, 2)
    with pytest.raises(CommitUnknownError) as told:
        session.commit("one")
    store.plan = FaultPlan([])
    assert told.value.snapshot == repo.lookup("main")
    assert (repo.readonly_session().root["a"][::1000] == 3).all(), "it did happen"
    if act == "discard":
        session.discard()
        session.root.create_group("later")
        session.commit("later", rebase="disjoint")
        assert list(repo.readonly_session().root) == ["a", "later"]
    elif act == "commit":
        assert session.commit("one") == repo.lookup("main")
        assert not session.has_changes
        array[0] = 4
        session.commit("two")
        assert repo.readonly_session().root["a"][0] == 4
        assert len(list(repo.history())) == 3
        array[...] = 3
    else:
        array[5] = 7
        with pytest.raises(frazil.errors.ConflictError):
            session.commit("two")
    np.testing.assert_array_equal(repo.readonly_session().root["a"][1:4], [3, 3, 3])


def test_what_did_not_happen_is_committed_again() -> None:
    inner = MemoryStore()
    repo = frazil.Repository.create(inner)
    store = FaultyStore(inner)
    session = frazil.Repository.open(store).writable_session()
    session.root.attrs["a"] = 1
    first = store.calls["fetch"]
    store.plan = FaultPlan([Fault("put_many", store.calls["put_many"] + 2), Fault("fetch", first + 1)])
    with pytest.raises(frazil.errors.StoreError):
        session.commit("one")
    store.plan = FaultPlan([])
    assert session.has_changes
    session.commit("one")
    assert repo.readonly_session().root.attrs["a"] == 1
