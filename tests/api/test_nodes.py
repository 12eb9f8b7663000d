"""Opening and creating by the names of zarr-python: every mode of open, and store= as an alias of the location."""

from __future__ import annotations

import numpy as np
import pytest

import frazil
from frazil.errors import AlreadyExistsError, FrazilError, InvalidInputError, NotFoundError, ReadOnlyError
from frazil.stores import MemoryStore

SHAPED = {"shape": 4, "dtype": "i4"}


@pytest.mark.parametrize("mode", ["a", "w", "w-"])
def test_open_creates_an_array_where_a_shape_is_given_and_a_group_otherwise(mode: str) -> None:
    store = MemoryStore()
    array = frazil.open(store, mode, path="x", **SHAPED, chunks=2)
    assert isinstance(array, frazil.Array)
    assert (array.shape, array.chunks, array.read_only) == ((4,), (2,), False)
    assert frazil.open(store, mode, path="y", data=np.arange(3))[...].tolist() == [0, 1, 2]
    group = frazil.open(store, mode, path="g", attributes={"k": 1})
    assert isinstance(group, frazil.Group)
    assert dict(group.attrs) == {"k": 1}


def test_open_keeps_existing_nodes_as_the_mode_requires() -> None:
    store = MemoryStore()
    frazil.open(store, "w-", **SHAPED)[...] = 5
    for mode in ("r", "r+", "a"):
        array = frazil.open(store, mode)
        assert isinstance(array, frazil.Array)
        assert array[...].tolist() == [5] * 4
        assert array.read_only == (mode == "r")
    assert frazil.open(store, "a", **SHAPED)[0] == 5
    with pytest.raises(ReadOnlyError):
        frazil.open(store, "r")[0] = 1
    with pytest.raises(AlreadyExistsError):
        frazil.open(store, "w-", **SHAPED)
    assert frazil.open(store, "w", **SHAPED)[0] == 0
    assert list(frazil.open(store, "w")) == []
    with pytest.raises(InvalidInputError, match="group is there"):
        frazil.open(store, "a", **SHAPED)


def test_open_creates_nothing_in_modes_that_read() -> None:
    store = MemoryStore()
    for mode in ("r", "r+"):
        with pytest.raises(NotFoundError):
            frazil.open(store, mode)
        with pytest.raises(InvalidInputError, match="shape"):
            frazil.open(store, mode, **SHAPED)
    for wrong in ("x", "", 1):
        with pytest.raises(InvalidInputError, match="mode"):
            frazil.open(store, wrong)  # type: ignore[arg-type] # which is the point
    with pytest.raises(InvalidInputError, match="chunks"):
        frazil.open(store, "a", chunks=4)
    assert list(store.list()) == []


def test_store_is_a_name_of_the_location() -> None:
    store = MemoryStore()
    assert frazil.create_array(store=store, name="x", **SHAPED) == frazil.open_array(store=store, path="x", mode="r+")
    assert frazil.create_group(store=store, path="g").path == "g"
    assert frazil.open_group(store=store, mode="r").nmembers() == 2
    assert frazil.open(store=store, mode="r", path="g").path == "g"
    for make in (frazil.create_array, frazil.open_array, frazil.create_group, frazil.open_group, frazil.open):
        with pytest.raises(InvalidInputError, match="location"):
            make(**(SHAPED if make is frazil.create_array else {}))
        with pytest.raises(InvalidInputError, match="twice"):
            make(store, store=store, **(SHAPED if make is frazil.create_array else {}))


def test_refused_opens_create_nothing() -> None:
    store = MemoryStore()
    with pytest.raises(FrazilError):
        frazil.open(store, "w", shape=4, dtype="none")
    assert list(store.list()) == []
