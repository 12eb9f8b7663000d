"""Assignments to windows, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operations.test_window import selected

import frazil
from frazil.errors import InvalidInputError
from frazil.operations import assignment
from frazil.operations.assignment import assign
from frazil.operations.window import window
from frazil.stores import MemoryStore
from frazil.testing import CountingStore


@given(selected(), st.integers(1, 100), st.booleans())
def test_against_numpy(made: tuple[Any, ...], max_bytes: int, broadcast: bool) -> None:
    array, values, selection, expected = made
    new = np.random.default_rng(0).integers(0, 100, expected.shape[int(broadcast) :], np.int16)
    whole = window(array, selection)
    done: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assignment, "_TILE_BYTES", max_bytes)
        assign(whole, new, done.append)
    changed = values.copy()
    full = np.broadcast_to(new, expected.shape).reshape([len(picks) for picks in whole.picks])
    changed[np.ix_(*[np.array(picks, int) for picks in whole.picks])] = full
    np.testing.assert_array_equal(array[...], changed)
    assert sum(done) == whole.nbytes


def test_each_shard_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CountingStore(MemoryStore())
    array = frazil.create_array(store, shape=(64, 64), dtype="i4", chunks=(4, 4), shards=(16, 32))
    np.save(tmp_path / "a.npy", np.arange(64 * 64, dtype="i4").reshape(64, 64))
    values = np.load(tmp_path / "a.npy", mmap_mode="r")
    monkeypatch.setattr(assignment, "_TILE_BYTES", 16 * 32 * 4)
    store.clear()
    assign(window(array), values, lambda _: None)
    assert store.count("put") == 8
    np.testing.assert_array_equal(array[...], values)


@pytest.mark.parametrize(
    ("values", "dtype", "fits"),
    [
        (np.arange(4), "u1", True),
        (np.array([0, 1, 2, 300]), "u1", False),
        (np.array([0.0, 1, 2, 3]), "i4", True),
        (np.array([0.0, 1, 2, 3.5]), "i4", False),
        (np.array([0.0, 1, 2, np.nan]), "i4", False),
        (np.array([0.5, 1, 2, 3]), "f4", True),
        (np.array([1, 0, 1, 1]), "?", True),
        (np.array([1, 0, 1, 2]), "?", False),
        (np.array([1, 2, 3, 4 + 0j]), "f8", True),
        (np.array([1, 2, 3, 4j]), "f8", False),
        (np.array(["a", "bc", "d", "e"]), "U1", False),
        (np.array(["a", "b", "d", "eeeee"])[:3].repeat(2)[:4], "U1", True),
        (np.array(["2026-11-23", "NaT", "2026-11-24", "2026-11-24"], "M8[s]"), "M8[D]", True),
        (np.array(["2026-11-23T01:00:00"] * 4, "M8[s]"), "M8[D]", False),
        (np.array(["1"] * 4), "i4", False),
    ],
)
def test_values_that_have_no_equal_are_refused(values: np.ndarray, dtype: str, fits: bool) -> None:
    array = frazil.create_array(MemoryStore(), data=np.zeros(4, dtype), chunks=(2,))
    before = array[...]
    if fits:
        assign(window(array), values, lambda _: None)
        np.testing.assert_array_equal(array[...].astype(values.dtype), values)
        return
    with pytest.raises(InvalidInputError):
        assign(window(array), values, lambda _: None)
    np.testing.assert_array_equal(array[...], before)


def test_shapes_that_do_not_fit() -> None:
    array = frazil.create_array(MemoryStore(), shape=(4, 6), dtype="i4")
    with pytest.raises(InvalidInputError, match=r"shape \(4,\).*shape \(4, 6\)"):
        assign(window(array), np.arange(4), lambda _: None)
