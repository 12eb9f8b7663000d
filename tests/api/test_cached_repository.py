"""A repository that is read through caches in memory and in a folder, while others commit, trim and damage: every snapshot is unchanged, every tip is the
newest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil import Runtime
from frazil.stores import MemoryStore
from frazil.stores.caches.cache_folder import open_folder
from frazil.testing import CountingStore

SIZE = 48
BOX = st.tuples(*[st.integers(0, SIZE - 1), st.integers(0, SIZE - 1), st.integers(1, 24), st.integers(1, 24)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), BOX),
        st.tuples(st.just("commit through"), BOX),
        st.tuples(st.just("read"), BOX),
        st.tuples(st.sampled_from(["reopen", "trim", "damage", "new array"]), st.integers(0, 10)),
    ),
    max_size=8,
)


def as_slices(box: tuple[int, int, int, int]) -> tuple[slice, slice]:
    y, x, height, width = box
    return slice(y, y + height), slice(x, x + width)


@settings(max_examples=15)
@given(STEPS, st.sampled_from([0, 6000, 2**26]), st.sampled_from([None, (24, 24)]))
def test_every_read_is_that_of_its_snapshot(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, Any]],
    limit: int,
    shards: tuple[int, int] | None,
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    store = CountingStore(MemoryStore())
    plain = frazil.Repository.create(store, chunk_packing="off")

    def opened() -> frazil.Repository:
        return frazil.Repository.open(
            store, cache=folder, cache_limit=100_000, runtime=Runtime(cache_bytes=limit), chunk_packing="off"
        )

    def new_array(root: frazil.Group, fill: int) -> np.ndarray:
        root.create_array(
            "a",
            shape=(SIZE, SIZE),
            dtype="f8",
            chunks=(8, 12),
            shards=shards,
            fill_value=fill,
            codecs=[],
            overwrite=True,
        )
        return np.full((SIZE, SIZE), fill, np.float64)

    with plain.transaction(message="first") as root:
        values = new_array(root, 0)
    past = {plain.lookup_branch("main"): values}
    cached = opened()
    for number, (step, given_) in enumerate(steps):
        if step.startswith("commit"):
            values = values.copy()
            values[as_slices(given_)] = number + 100
            with (cached if "through" in step else plain).transaction(message="next") as root:
                root["a"][as_slices(given_)] = number + 100
        elif step == "new array":
            with plain.transaction(message="anew") as root:
                values = new_array(root, given_)
        elif step == "reopen":
            cached = opened()
        elif step == "trim":
            open_folder(folder).trim(given_ * 1000)
        elif step == "damage":
            for path in sorted(folder.glob("???/*"))[given_ : given_ + 3]:
                path.write_bytes(path.read_bytes()[:-1] + b"?")
        else:
            for name, then in past.items():
                there = cached.readonly_session(snapshot=name).root["a"]
                assert (there[as_slices(given_)] == then[as_slices(given_)]).all()
        past[plain.lookup_branch("main")] = values
        session = cached.readonly_session()
        assert (session.root["a"][...] == values).all()
        assert session.root["a"]._location.memory.nbytes <= limit
    assert open_folder(folder).usage().nbytes <= 100_000


def test_a_warm_chunk_costs_no_request() -> None:
    """In memory, by another session, too: only the tip of the branch is requested."""
    store = CountingStore(MemoryStore())
    repo = frazil.Repository.create(store)
    with repo.transaction(message="first") as root:
        root.create_array("a", data=np.arange(10_000), chunks=(1000,), codecs=[])
    repo = frazil.Repository.open(store)
    array = repo.readonly_session().root["a"]
    for number in range(2):
        store.clear()
        assert array[5] == 5
        assert (store.count() == 0) == (number > 0)
    store.clear()
    assert repo.readonly_session().root["a"][6] == 6
    assert {done.key.split("/")[0] for done in store.requests} <= {"refs"}
