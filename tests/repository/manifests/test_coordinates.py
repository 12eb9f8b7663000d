"""Sets of coordinates in columns against sets of tuples."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from frazil.repository.manifests.coordinates import (
    ChunkIndex,
    among,
    no_coordinates,
    sorted_coordinates,
    within,
)

Rows = list[tuple[int, ...]]


@st.composite
def two(draw: st.DrawFn) -> tuple[int, Rows, Rows]:
    rank = draw(st.integers(0, 4))
    # large ones make numbers that do not fit 63 bits together
    coordinate = draw(st.sampled_from([st.integers(0, 3), st.sampled_from([0, 1, 2**31, 2**32 - 1])]))
    rows = st.lists(st.tuples(*[coordinate] * rank), max_size=20)
    return rank, draw(rows), draw(rows)


def columns(rank: int, rows: Rows) -> NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(len(rows), rank)


def tuples(rows: NDArray[np.int64]) -> Rows:
    return [tuple(row) for row in rows.tolist()]


@given(two())
def test_sets(drawn: tuple[int, Rows, Rows]) -> None:
    rank, left, right = drawn
    assert tuples(sorted_coordinates(columns(rank, left))) == sorted(set(left))
    assert among(columns(rank, left), columns(rank, right)).tolist() == [row in right for row in left]


@given(two(), st.booleans())
def test_an_index(drawn: tuple[int, Rows, Rows], full: bool) -> None:
    rank, there, requested = drawn
    if full:  # all chunks of a grid, so that a table finds them
        there = list(np.ndindex(*range(2, 2 + rank)))
    present = sorted(set(there))
    index = ChunkIndex(columns(rank, present))
    requested = [*requested, *there, (-1,) * rank, (2**62,) * rank, *(tuple(at + 1 for at in row) for row in there)]
    expected = [present.index(row) if row in present else -1 for row in requested]
    assert index.find(columns(rank, requested)).tolist() == expected
    assert [index.find_one(row) for row in requested] == expected


def test_a_grid() -> None:
    assert within(columns(2, [(0, 0), (1, 2), (2, 0), (0, 3), (-1, 0)]), (2, 3)).tolist() == [True, True] + [False] * 3
    assert within(columns(0, [()]), ()).tolist() == [True]
    assert no_coordinates(3).shape == (0, 3)
