"""Writes within one chunk have a fast path, with the same result as the general one (reads: test_array.py)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.slow_properties import search

import frazil
from frazil.errors import DataError, FrazilError
from frazil.stores import MemoryStore
from frazil.testing import CountingStore

SHAPE, CHUNKS = (7, 10), (3, 4)


@st.composite
def assignments(draw: st.DrawFn) -> list[tuple[tuple[object, ...], object]]:
    """Assignments to parts, most of them within one chunk."""
    found: list[tuple[tuple[object, ...], object]] = []
    for _ in range(draw(st.integers(1, 6))):
        items: list[object] = []
        for length, chunk in zip(SHAPE, CHUNKS, strict=True):
            at = draw(st.integers(-length, length - 1))
            low = draw(st.integers(0, length - 1))
            high = draw(st.integers(low + 1, min(length, low + chunk)))
            items.append(draw(st.sampled_from([at, slice(low, high), slice(low, high, 2), slice(None)])))
        shape = np.empty(SHAPE)[tuple(items)].shape  # type: ignore[arg-type]
        kind = draw(st.sampled_from(["one", "all", "fill", "row"]))
        values = np.asarray(draw(st.integers(1, 99))) + np.arange(int(np.prod(shape))).reshape(shape)
        given_values = {"one": 5, "all": values, "fill": 0, "row": values[:1] if shape else 3}[kind]
        found.append((tuple(items), given_values))
    return found


@pytest.mark.parametrize("arguments", [{}, {"codecs": []}, {"shards": (6, 8)}], ids=["compressed", "raw", "shards"])
@pytest.mark.parametrize("place", ["memory", "repository"])
@search(slowness=3)
@given(done=assignments())
def test_parts_are_assigned_as_in_numpy(arguments: dict[str, object], place: str, done: object) -> None:
    store = MemoryStore()
    in_repository = place == "repository"
    root = frazil.Repository.create(store).writable_session().root if in_repository else frazil.create_group(store)
    array = root.create_array("a", shape=SHAPE, dtype="int32", chunks=CHUNKS, fill_value=0, **arguments)
    expected = np.zeros(SHAPE, "int32")
    for items, values in done:  # type: ignore[attr-defined]
        array[items] = values
        expected[items] = values
        assert np.array_equal(array[...], expected)


def test_requests_of_the_short_path() -> None:
    store = CountingStore(MemoryStore())
    array = frazil.create_array(store, shape=(10,), dtype="u1", chunks=(4,), codecs=[])

    def requests_of(at: object, value: object) -> list[tuple[str, str]]:
        store.clear()
        array[at] = value
        return [(done.operation, done.key) for done in store.requests if done.key != "zarr.json"]

    assert requests_of(slice(0, 4), 1) == [("put", "c/0")]
    assert requests_of(slice(8, 10), [2, 3]) == [("look up", "c/2"), ("put", "c/2")], "whole as far as the array goes"
    assert requests_of(1, 5) == [("fetch", "c/0"), ("put", "c/0")]
    assert requests_of(slice(0, 4), 0) == [("erase", "c/0")]
    assert requests_of(5, 0) == [("fetch", "c/1")], "nothing is there, and nothing is to be"
    assert array[...].tolist() == [0] * 8 + [2, 3]


def test_a_chunk_that_cannot_be_decoded_is_an_error_and_stays() -> None:
    store = MemoryStore()
    array = frazil.create_array(store, shape=(8,), dtype="int32", chunks=(8,))
    array[:] = 1
    store.set("c/0", b"nonsense")
    with pytest.raises(DataError) as caught:
        array[3] = 2
    assert (caught.value.key, caught.value.chunk) == ("c/0", (0,))
    assert store.get("c/0") == b"nonsense"
    array[:] = 2
    assert array[3] == 2


@pytest.mark.parametrize("wrong", ["text", [1, 2, 3], object(), np.ones((2, 2))])
def test_invalid_selections_raise_the_same_errors(wrong: object) -> None:
    array = frazil.create_array(MemoryStore(), shape=(8,), dtype="int32", chunks=(4,))
    for at in (1, slice(0, 2), slice(0, 8)):
        with pytest.raises((FrazilError, ValueError)):
            array[at] = wrong
    assert not array[:].any()


def test_writes_that_lose_a_race_take_the_general_path() -> None:
    """Another writer writes its part between the read of the old chunk and its replacement."""
    inner = MemoryStore()
    other = frazil.create_array(inner, shape=(8,), dtype="int32", chunks=(8,))
    other[0] = 1

    class Overtaken(CountingStore):
        overtaken = 0

        def put_many(self, names, pieces, expect):  # type: ignore[no-untyped-def]
            if self.overtaken < 2:
                self.overtaken += 1
                other[self.overtaken] = 7
            return super().put_many(names, pieces, expect)

    array = frazil.open_array(Overtaken(inner), mode="r+")
    array[5] = 5
    assert other[:].tolist() == [1, 7, 7, 0, 0, 5, 0, 0]
