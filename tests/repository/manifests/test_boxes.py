"""Boxes against sets of chunks."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repository.models import Chunk, columns_of

from frazil.repository.manifests import boxes as boxes_module
from frazil.repository.manifests.boxes import (
    Extents,
    extents_of,
    read_extents,
)


@st.composite
def some_extents(draw: st.DrawFn, rank: int) -> list[Extents]:
    corners = draw(st.lists(st.tuples(*[st.tuples(st.integers(0, 4), st.integers(0, 3))] * rank), max_size=6))
    return [Extents(tuple(low for low, _ in one), tuple(low + more for low, more in one), 1) for one in corners]


def chunks_of(extents: Extents) -> set[Chunk]:
    return set(product(*(range(low, high + 1) for low, high in zip(extents.first, extents.last, strict=True))))


@given(st.integers(0, 3), st.sampled_from([0, 8]), st.data())
def test_boxes(rank: int, few: int, data: st.DataObject) -> None:
    ours, others = data.draw(some_extents(rank)), data.draw(some_extents(rank))
    chunks = sorted(data.draw(st.sets(st.tuples(*[st.integers(0, 8)] * rank))))
    every = [chunks_of(one) for one in ours]
    assert [one.capacity for one in ours] == [len(one) for one in every]
    if ours:
        assert set().union(*every) <= chunks_of(reduce(Extents.around, ours))
        assert reduce(Extents.around, ours).count <= len(ours)
    for one, own in zip(ours, every, strict=True):
        assert [one.overlaps(other) for other in others] == [bool(own & chunks_of(other)) for other in others]
        assert one.has_each(columns_of(chunks, rank)).tolist() == [chunk in own for chunk in chunks]
        assert [one.has(chunk) for chunk in chunks] == [chunk in own for chunk in chunks]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(boxes_module, "_FEW", few)
            assert one.held(columns_of(chunks, rank)) == len(own & set(chunks))


def test_a_box_larger_than_integers_count() -> None:
    large = Extents((0,) * 4, (2**32 - 1,) * 4, 1)
    assert large.capacity == 2**128
    assert large.held(np.zeros((1, 4), np.int64)) == 1


_COORDINATES = st.one_of(st.integers(0, 3), st.sampled_from([2**31, 2**32 - 1]))


@given(st.integers(0, 3).flatmap(lambda rank: st.lists(st.tuples(*[_COORDINATES] * rank), min_size=1, unique=True)))
def test_extents_come_back(chunks: list[Chunk]) -> None:
    rank = len(chunks[0])
    extents = extents_of(np.array(chunks, np.int64).reshape(len(chunks), rank))
    read = read_extents(extents.listed(), rank)
    assert read == extents and read.count == len(chunks)
    assert read_extents(extents.listed(), rank + 1) is None
    for chunk in chunks:
        assert all(low <= at <= high for low, at, high in zip(read.first, chunk, read.last, strict=True))


@pytest.mark.parametrize(
    "extents",
    [
        (),
        ((0, 0), (1, 1)),
        ((0, 0), (1, 1), ()),
        ((0, 0), (1, 1), (1, 1)),
        ((0, 0), (1,), (1,)),
        ((0, 2), (1, 1), (1,)),
        ((-1, 0), (1, 1), (1,)),
        ((0, 0), (1, 1), (0,)),
        ((0, 0), (1, 1), (5,)),
        ((0, 0), (1, 1), (4,), (4,)),
    ],
)
def test_foreign_extents_are_ignored(extents: tuple[tuple[int, ...], ...]) -> None:
    assert read_extents(extents, 2) is None
