"""Selections of raw chunks so large that only parts of them are read: the values, and the number of reads."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil

SHAPE = (64, 64, 64)  # 512 KiB, in one chunk
VALUES = np.random.default_rng(0).integers(0, 2**16, SHAPE, np.uint16)


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> frazil.Array:
    path = tmp_path_factory.mktemp("raw") / "raw.zarr"
    made = frazil.create_array(path, shape=SHAPE, chunks=SHAPE, dtype=VALUES.dtype, compressors=None)
    made[:] = VALUES
    return made


slices = st.builds(
    slice, st.integers(0, 30), st.integers(31, 64), st.sampled_from([1, 1, 2, 7, 20])
)  # fmt: skip
lists = st.lists(st.integers(0, 63), min_size=1, max_size=40)
indexers = st.one_of(slices, lists, lists.map(sorted))


@given(st.tuples(indexers, indexers, indexers))
def test_parts_are_those_of_numpy(array: frazil.Array, selection: tuple[slice | list[int], ...]) -> None:
    places = [np.arange(64)[part] if isinstance(part, slice) else np.array(part) for part in selection]
    assert np.array_equal(array.oindex[selection], VALUES[np.ix_(*places)])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the reads of a process")
def test_a_row_is_read_at_once_however_many_places_of_it_are_selected(array: frazil.Array) -> None:
    def reads() -> int:
        counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(counters["syscr"])

    selection = ([3, 30, 60], slice(None), list(range(0, 64, 3)))
    array.oindex[selection]
    before = reads()
    array.oindex[selection]
    assert reads() - before < 3 * 64  # one for each of 4,224 elements would be more
