"""Boxes in columns against boxes one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.repository.boxes import boxes_of
from frazil.repository.references import Extents
from tests.repository.models import Chunk, columns_of


@st.composite
def extents_of(draw: st.DrawFn, rank: int) -> list[Extents]:
    corners = draw(st.lists(st.tuples(*[st.tuples(st.integers(0, 4), st.integers(0, 3))] * rank), max_size=6))
    return [Extents(tuple(low for low, _ in one), tuple(low + more for low, more in one), 1) for one in corners]


def chunks_of(extents: Extents) -> set[Chunk]:
    return set(product(*(range(low, high + 1) for low, high in zip(extents.first, extents.last, strict=True))))


@given(st.integers(0, 3), st.data())
def test_boxes(rank: int, data: st.DataObject) -> None:
    ours, others = data.draw(extents_of(rank)), data.draw(extents_of(rank))
    grid = data.draw(st.tuples(*[st.integers(0, 9)] * rank))
    chunks = sorted(data.draw(st.sets(st.tuples(*[st.integers(0, 8)] * rank))))
    boxes = boxes_of(ours, rank)
    inside = set(product(*map(range, grid)))
    every = [chunks_of(one) for one in ours]
    assert boxes.volumes().tolist() == [len(one) for one in every]
    assert boxes.outside(grid).tolist() == [not one & inside for one in every]
    assert boxes.inside(grid).tolist() == [one <= inside for one in every]
    near = [any(one & chunks_of(other) for other in others) for one in every]
    assert boxes.overlap(boxes_of(others, rank)).tolist() == near
    assert boxes.hold(columns_of(chunks, rank)).tolist() == [len(one & set(chunks)) for one in every]


def test_a_box_larger_than_integers_count() -> None:
    boxes = boxes_of([Extents((0,) * 4, (2**32 - 1,) * 4, 1)], 4)
    assert boxes.volumes()[0] == 2.0**128
    assert boxes.hold(np.zeros((1, 4), np.int64)).tolist() == [1]
