"""Boxes in columns against boxes one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repository.models import Chunk, columns_of

from frazil.repository.manifests import boxes as boxes_module
from frazil.repository.manifests.boxes import boxes_of, dropped_and_touched
from frazil.repository.manifests.references import Extents


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


@given(st.integers(1, 3), st.sampled_from([0, 64]), st.data())
def test_what_is_dropped_and_touched(rank: int, few: int, data: st.DataObject) -> None:
    grid = data.draw(st.tuples(*[st.integers(0, 9)] * rank))
    ours, inside = data.draw(extents_of(rank)), set(product(*map(range, grid)))
    leaving, written = (data.draw(st.sets(st.tuples(*[st.integers(0, 8)] * rank), max_size=4)) for _ in range(2))
    both = leaving | written
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boxes_module, "_FEW", few)
        columns = (columns_of(sorted(chunks), rank) for chunks in (both, leaving))
        dropped, touched = dropped_and_touched(ours, grid, *columns)
    every = [chunks_of(one) for one in ours]
    assert list(dropped) == [not one & inside or one <= both for one in every]
    for one, is_dropped, is_touched in zip(every, dropped, touched, strict=True):
        assert is_touched == (not is_dropped and (not one <= inside or bool(one & leaving)))


def test_a_box_larger_than_integers_count() -> None:
    boxes = boxes_of([Extents((0,) * 4, (2**32 - 1,) * 4, 1)], 4)
    assert boxes.volumes()[0] == 2.0**128
    assert boxes.hold(np.zeros((1, 4), np.int64)).tolist() == [1]
