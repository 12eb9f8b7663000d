"""Boxes against sets of chunks."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repository.models import Chunk, columns_of

from frazil.repository.manifests import boxes as boxes_module
from frazil.repository.manifests.boxes import (
    Extents,
    dropped_and_touched,
    extents_of,
    read_extents,
    room,
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
    assert [room([one]) for one in ours] == [len(one) for one in every]
    for one, own in zip(ours, every, strict=True):
        assert [one.overlaps(other) for other in others] == [bool(own & chunks_of(other)) for other in others]
        assert one.has_each(columns_of(chunks, rank)).tolist() == [chunk in own for chunk in chunks]
        assert [one.has(chunk) for chunk in chunks] == [chunk in own for chunk in chunks]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(boxes_module, "_FEW", few)
            assert one.held(columns_of(chunks, rank)) == len(own & set(chunks))


@given(st.integers(1, 3), st.sampled_from([0, 8]), st.data())
def test_what_is_dropped_and_touched(rank: int, few: int, data: st.DataObject) -> None:
    grid = data.draw(st.tuples(*[st.integers(0, 9)] * rank))
    ours, inside = data.draw(some_extents(rank)), set(product(*map(range, grid)))
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
    large = Extents((0,) * 4, (2**32 - 1,) * 4, 1)
    assert room([large]) == 2**128
    assert large.held(np.zeros((1, 4), np.int64)) == 1
    chunks = np.zeros((100, 4), np.int64)
    chunks[:, 3] = np.arange(100)
    assert dropped_and_touched([large], (2**32,) * 4, chunks, chunks) == ([False], [True])


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
def test_foreign_extents_say_nothing(extents: tuple[tuple[int, ...], ...]) -> None:
    assert read_extents(extents, 2) is None
