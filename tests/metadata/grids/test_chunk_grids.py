"""Regular grids: accepted arguments, numbers of chunks, and the written form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.refusals import refused

from frazil.errors import UnknownExtensionError
from frazil.metadata.extensions import Extension, NamedExtension
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.registry import CORE_EXTENSIONS

PLACE = "chunk_grid.configuration.chunk_shape"


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 50)), max_size=4))
def test_grid_shape_counts_the_chunks_that_elements_fall_into(dimensions):
    shape, chunk_shape = tuple(n for n, _ in dimensions), tuple(c for _, c in dimensions)
    expected = tuple(len({at // chunk for at in range(length)}) for length, chunk in dimensions)
    assert RegularGrid(chunk_shape).grid_shape(shape) == expected


def test_large_lengths_do_not_overflow():
    assert RegularGrid((1, 2**63 - 1)).grid_shape((2**63 - 1, 2**63 - 1)) == (2**63 - 1, 1)


@pytest.mark.parametrize("given_shape", [(4, 5), [4, 5], np.array([4, 5]), (np.int64(4), np.uint8(5))])
def test_numpy_integers_are_accepted(given_shape):
    grid = RegularGrid(given_shape)
    assert grid == RegularGrid((4, 5))
    assert grid.extension().to_json() == {"name": "regular", "configuration": {"chunk_shape": [4, 5]}}
    assert CORE_EXTENSIONS.chunk_grid(grid.extension()) == grid


@pytest.mark.rule("K23")
@pytest.mark.parametrize("bad", [0, -1, 1.0, True, "4", None, 2**63])
def test_chunk_lengths_are_positive_integers(bad):
    with refused(f"{PLACE}[1]", "at least 1"):
        RegularGrid((4, bad))
    with refused(f"{PLACE}[1]", "at least 1"):
        CORE_EXTENSIONS.chunk_grid(Extension("regular", {"chunk_shape": [4, bad]}))


@pytest.mark.parametrize(
    ("configuration", "path"),
    [
        ({}, PLACE),
        ({"chunk_shape": 4}, PLACE),
        ({"chunk_shape": None}, PLACE),
        ({"chunk_shape": [4], "separator": "/"}, "chunk_grid.configuration.separator"),
    ],
)
def test_bad_configurations_are_refused(configuration, path):
    with refused(path):
        CORE_EXTENSIONS.chunk_grid(Extension("regular", configuration))


def test_a_grid_has_the_dimensions_of_its_array():
    RegularGrid((2, 3)).check((0, 5))
    RegularGrid(()).check(())
    with refused(PLACE, "each of the 1 dimensions", "[2, 3]"):
        RegularGrid((2, 3)).check((5,))


def test_other_grids_can_be_registered():
    with refused("chunk_grid", '"hexagonal"', "registered: regular", kind=UnknownExtensionError):
        CORE_EXTENSIONS.chunk_grid(Extension("hexagonal"))
    extensions = CORE_EXTENSIONS.with_chunk_grid(NamedExtension("hexagonal", lambda extension, path: RegularGrid(1)))
    assert extensions.chunk_grid(Extension("hexagonal")) == RegularGrid(1)
    assert extensions.chunk_grid(Extension("regular", {"chunk_shape": [2]})) == RegularGrid(2)
