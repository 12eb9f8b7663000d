"""Pairs of parameters."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.pairs import pairs


@pytest.mark.parametrize(
    ("lengths", "most"),
    [((3,), 3), ((4, 2), 8), ((3, 4, 5), 20), ((2, 2, 2, 2), 6), ((5, 7, 6), 44), ((3, 4, 4, 5, 2), 22)],
)
def test_any_two_values_of_different_axes_meet(lengths: tuple[int, ...], most: int) -> None:
    rows = pairs(*map(range, lengths))
    assert len(rows) <= most
    for (i, n), (j, m) in combinations(enumerate(lengths), 2):
        assert {(row[i], row[j]) for row in rows} == {*product(range(n), range(m))}
