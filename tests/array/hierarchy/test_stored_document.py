"""Handles that outlive their array: a write is refused once another array, or none, is in its place; what others may change goes on working."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import ConflictError, FrazilError, NotFoundError, StoreError
from frazil.stores import LocalStore, MemoryStore, Store
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore, SlowStore

SHAPE = (20, 20)
Write = Callable[[frazil.Array], object]
WRITES: dict[str, Write] = {
    "one element": lambda array: array.__setitem__((0, 0), 5),
    "one chunk": lambda array: array.__setitem__((slice(0, 5), slice(0, 5)), 5),
    "all": lambda array: array.__setitem__(..., 5),
    "a part": lambda array: array.__setitem__((slice(1, 19), slice(1, 19)), 5),
    "points": lambda array: array.vindex.__setitem__(([0, 7], [0, 7]), 5),
    "orthogonal": lambda array: array.oindex.__setitem__(([0, 7], slice(None)), 5),
    "a block": lambda array: array.blocks.__setitem__((0, 0), 5),
    "append": lambda array: array.append(np.ones((5, 20), "i4")),
    "resize": lambda array: array.resize((30, 20)),
    "attributes": lambda array: array.attrs.update(a=1),
}
STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "local": lambda path: LocalStore(path / "store"),
    "remote": lambda _: SlowStore(MemoryStore(), 0.0),
}


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return STORES[request.param](tmp_path)


def contents(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


@pytest.mark.parametrize("name", list(WRITES))
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used before"])
@pytest.mark.parametrize(
    "layout", [{"chunks": (5, 5)}, {"chunks": (5, 5), "shards": (10, 10)}], ids=["chunks", "shards"]
)
def test_a_write_to_an_array_that_was_replaced_is_refused(
    store: Store, layout: dict[str, object], used: bool, name: str
) -> None:
    old = frazil.create_array(store, shape=SHAPE, dtype="i4", **layout)  # type: ignore[arg-type]
    if used:
        old[...] = 1
        old[0, 0] = 1
    new = frazil.create_array(store, shape=SHAPE, dtype="i4", chunks=(4, 4), overwrite=True)
    new[...] = 7
    before = contents(store)
    with pytest.raises(ConflictError, match="another array") as caught:
        WRITES[name](old)
    assert caught.value.hint == "open it anew"
    assert contents(store) == before
    assert (frazil.open_array(store)[...] == 7).all()


@pytest.mark.parametrize("name", list(WRITES))
def test_a_write_to_an_array_that_was_removed_is_refused(store: Store, name: str) -> None:
    group = frazil.create_group(store)
    array = group.create_array("a", shape=SHAPE, dtype="i4", chunks=(5, 5))
    array[...] = 1
    del group["a"]
    with pytest.raises(NotFoundError, match="gone"):
        WRITES[name](array)
    assert [key for key in store.list() if key.startswith("a/")] == []
    group.create_group("a")
    with pytest.raises(FrazilError):
        WRITES[name](array)
    assert [key for key in store.list() if key.startswith("a/")] == ["a/zarr.json"]


@pytest.mark.parametrize("zarr_format", [3, "draft", "draft-2021"])
def test_in_every_dialect(zarr_format: int | str) -> None:
    store = MemoryStore()
    old = frazil.create_array(store, shape=(8,), dtype="i4", chunks=(4,), zarr_format=zarr_format)
    old[:] = 1
    old[0] = 2
    frazil.create_array(store, shape=(8,), dtype="i4", chunks=(8,), zarr_format=zarr_format, overwrite=True)[:] = 7
    with pytest.raises(ConflictError):
        old[0] = 5
    assert (frazil.open_array(store)[:] == 7).all()


def test_lengths_and_attributes_that_others_change_are_none_of_its_business(store: Store) -> None:
    array = frazil.create_array(store, shape=(20,), dtype="i4", chunks=(5,))
    array[:] = 1
    other = frazil.open_array(store, "r+")
    other.attrs["a"] = 1
    array[0:5] = 2
    other.append(np.full(3, 9, "i4"))
    array[3:7] = 3
    other.resize(21)
    other.attrs["b"] = [1]
    array[10] = 4
    array.attrs["c"] = 2
    expected = [2, 2, 2, 3, 3, 3, 3, *[1] * 3, 4, *[1] * 9, 9]
    assert other.refresh()[:].tolist() == expected
    assert other.attrs.asdict() == {"a": 1, "b": [1], "c": 2}


def test_an_equal_array_in_its_place_is_as_good(store: Store) -> None:
    old = frazil.create_array(store, shape=(8,), dtype="i4", chunks=(4,))
    old[:] = 1
    new = frazil.create_array(store, shape=(8,), dtype="i4", chunks=(4,), overwrite=True)
    old[0] = 5
    assert new[:].tolist() == [5, *[0] * 7]


def test_a_document_of_the_same_size_is_told_from_the_old_one(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path / "a", shape=(8,), dtype="i4", chunks=(4,))
    array[:] = 1
    document = tmp_path / "a" / "zarr.json"
    stamp = document.stat()
    array[0] = 1
    frazil.create_array(tmp_path / "a", shape=(8,), dtype="i4", chunks=(2,), overwrite=True)
    assert document.stat().st_size == stamp.st_size
    os.utime(document, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    with pytest.raises(ConflictError):
        array[0] = 2


def test_a_document_that_cannot_be_read_stops_the_write() -> None:
    inner = MemoryStore()
    array = frazil.create_array(inner, shape=(8,), dtype="i4", chunks=(4,))
    array[:] = 1
    inner.set("zarr.json", b"{nonsense")
    with pytest.raises(FrazilError):
        array[:] = 2
    assert inner.get("c/0") is not None
    inner.set("zarr.json", b"")
    frazil.create_array(inner, shape=(8,), dtype="i4", chunks=(4,), overwrite=True)
    array = frazil.open_array(FaultyStore(inner, FaultPlan([Fault("fetch", 2)])), "r+")
    with pytest.raises(StoreError):
        array[:] = 2
    assert inner.list_prefix("c/") == []


def test_the_look_at_the_document_is_one_request_beside_the_others() -> None:
    """It is under way while the chunks are read, and nothing is published before it is answered."""
    inner = MemoryStore()
    frazil.create_array(inner, shape=(20,), dtype="i4", chunks=(5,))[:] = 1
    store = SlowStore(inner, 0.0)
    array = frazil.open_array(store, "r+")
    store.clear()
    store.meet(2)  # the first two wait for each other
    array[3] = 2
    assert [call.operation for call in store.calls] == ["fetch", "fetch", "put"]


def test_a_write_that_lost_a_race_looks_again() -> None:
    """The chunk may have been replaced as its array was."""
    inner = MemoryStore()

    class Replaced(CountingStore):
        armed = False

        def put_many(self, names, pieces, expect):  # type: ignore[no-untyped-def]
            if Replaced.armed:
                Replaced.armed = False
                frazil.create_array(inner, shape=(20,), dtype="i4", chunks=(20,), overwrite=True)[:] = 7
            return super().put_many(names, pieces, expect)

    array = frazil.create_array(Replaced(inner), shape=(20,), dtype="i4", chunks=(5,))
    array[:] = 1
    Replaced.armed = True
    with pytest.raises(ConflictError, match="another array"):
        array[3] = 2
    assert (frazil.open_array(inner)[:] == 7).all()


def test_pickled_handles_look_too() -> None:
    import pickle

    store = MemoryStore("test_pickled_handles_look_too")
    old = pickle.loads(pickle.dumps(frazil.create_array(store, shape=(8,), dtype="i4", chunks=(4,))))
    frazil.create_array(store, shape=(8,), dtype="i4", chunks=(8,), overwrite=True)
    with pytest.raises(ConflictError):
        old[:] = 1
    store.erase_prefix("")
