"""A resumed rechunk: the source has changed meanwhile, or the interrupted slab reaches the end of the array."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import StoreError
from frazil.operations.copy.journal import JOURNAL_NAME
from frazil.runtime import Runtime
from frazil.stores import MemoryStore
from frazil.testing import Fault, FaultPlan, FaultyStore

VALUES = np.random.default_rng(0).normal(size=(30, 40, 20)).astype("f4")
ARGUMENTS = {"chunks": (30, 5, 5), "shards": (30, 10, 20), "runtime": Runtime(bytes_in_flight=40_000)}


class Stop(BaseException):
    """An interrupt."""


def stopped_at(slab: int) -> Callable[[int], None]:
    calls: list[int] = []

    def report(nbytes: int) -> None:
        calls.append(nbytes)
        if len(calls) == slab:
            raise Stop

    return report


@pytest.mark.parametrize("kind", ["memory", "folder", "draft"])
def test_a_source_that_was_written_to_meanwhile_is_read_again(tmp_path: Path, kind: str) -> None:
    """Slabs that were read before the change would stay next to those of the new elements."""
    place = tmp_path / "a.zarr" if kind == "folder" else MemoryStore()
    source = frazil.create_array(
        place, path="x", data=VALUES, chunks=(10, 10, 10), zarr_format="draft" if kind == "draft" else 3
    )
    target, expected = MemoryStore(), VALUES.copy()
    for value, slab in ((-1, 2), (-2, 3)):
        with pytest.raises(Stop):
            frazil.rechunk(source, target, progress=stopped_at(slab), **ARGUMENTS)  # type: ignore[arg-type]
        source[...] = expected[...] = value
    source[0, 0, 0] = expected[0, 0, 0] = 5
    done = frazil.rechunk(source, target, **ARGUMENTS)  # type: ignore[arg-type]
    assert done.found == 0
    np.testing.assert_array_equal(frazil.open_array(target)[...], expected)
    assert JOURNAL_NAME not in target.list()


def test_a_slab_that_was_under_way_is_written_again_at_the_end_of_the_array_too() -> None:
    """Chunks that reach beyond the end are checked before they are replaced."""
    values = VALUES[:29, :37, :19]
    source = frazil.create_array(MemoryStore(), data=values, chunks=(10, 10, 10))
    goes_on = 0
    for call in range(1, 40):
        target = MemoryStore()
        plan = FaultPlan([Fault("put_many", call, "fail")])
        try:
            frazil.rechunk(source, FaultyStore(target, plan), **ARGUMENTS)  # type: ignore[arg-type]
        except StoreError:
            frazil.rechunk(source, target, **ARGUMENTS)  # type: ignore[arg-type]
            goes_on += 1
        np.testing.assert_array_equal(frazil.open_array(target)[...], values)
    assert goes_on > 4


def test_a_slab_of_long_text_that_was_written_in_part() -> None:
    """Its parts are not counted as the slab: elements of the others would be missing."""
    values = np.array(["x" * (3000 if 1000 <= row < 1500 else 3) + str(row) for row in range(4096)], object)
    source, runtime = MemoryStore(), frazil.Runtime(bytes_in_flight=2**18)
    frazil.create_array(source, data=values, dtype="string", chunks=(32,))
    resumed = 0
    for put in range(1, 30, 2):
        target = MemoryStore()
        plan = FaultPlan([Fault("put_many", call) for call in range(put, put + 1000)])
        try:
            frazil.rechunk(source, FaultyStore(target, plan), chunks=(64,), runtime=runtime)
        except StoreError:
            frazil.rechunk(source, target, chunks=(64,), runtime=runtime)
            resumed += 1
        assert (frazil.open_array(target)[...] == values).all(), put
    assert resumed > 4
