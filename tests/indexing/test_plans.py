"""Every kind of selection, read and written by executing its plan, against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.indexing import reference

from frazil.indexing.points import point_plan
from frazil.indexing.selection import BoxSelection, PointSelection, basic, blocks, orthogonal, vectorised

Shape = tuple[int, ...]
Layout = tuple[Shape, Shape, Shape]  # array, chunk (elements), shard (chunks)
Draw = st.DrawFn


@st.composite
def layouts(draw: Draw, smallest: int = 0) -> Layout:
    axes = draw(st.lists(st.tuples(st.integers(smallest, 11), st.integers(1, 5), st.integers(1, 3)), max_size=3))
    return tuple(a for a, _, _ in axes), tuple(c for _, c, _ in axes), tuple(s for _, _, s in axes)


def indices(length: int) -> st.SearchStrategy[int]:
    return st.integers(-length, length - 1)


@st.composite
def slices(draw: Draw, length: int) -> slice:
    end = st.none() | st.integers(-length - 2, length + 2)
    step = st.none() | st.sampled_from([1, 2, 3, 7, 2**70, -1, -2, -5, -(2**70)])
    return slice(draw(end), draw(end), draw(step))


def along(length: int) -> st.SearchStrategy[object]:
    """The possible indices for one dimension in a basic selection."""
    return slices(length) if length == 0 else slices(length) | indices(length) | indices(length).map(np.int32)


def lists(length: int) -> st.SearchStrategy[object]:
    listed = st.lists(indices(length), max_size=8) if length else st.just([])
    return listed | listed.map(lambda x: np.array(x, np.int16)) | masks((length,))


def masks(shape: Shape) -> st.SearchStrategy[np.ndarray]:
    size = math.prod(shape)
    chosen = st.lists(st.booleans(), min_size=size, max_size=size) | st.just([True] * size)
    return chosen.map(lambda flags: np.array(flags, bool).reshape(shape))


@st.composite
def basics(draw: Draw, shape: Shape) -> tuple[object, ...]:
    items: list[object] = [draw(along(length)) for length in shape]
    if draw(st.booleans()):
        low = draw(st.integers(0, len(items)))
        items[low : draw(st.integers(low, len(items)))] = [Ellipsis]
    else:
        del items[draw(st.integers(0, len(items))) :]
    for place in draw(st.lists(st.integers(0, len(items)), max_size=2)):
        items.insert(place, None)
    return tuple(items)


def buffer(data: st.DataObject, shape: Shape) -> np.ndarray:
    """An array of this shape, of any strides."""
    steps = [data.draw(st.sampled_from([1, 2, -1])) for _ in shape]
    base = np.zeros([2 * n for n in shape], np.int64, order=data.draw(st.sampled_from(["C", "F"])))
    stepped: Any = (*(slice(None, None, step) for step in steps), ...)
    cut: Any = (*(slice(0, n) for n in shape), ...)
    return base[stepped][cut]


def run(data: st.DataObject, layout: Layout, selection: BoxSelection | PointSelection, key: Any) -> None:
    """`key` means the same to NumPy as `selection` to us."""
    shape, chunk, shard = layout
    array = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    stored = reference.Stored(array, chunk, shard)
    for missing in data.draw(
        st.lists(st.sampled_from(sorted(stored.shards)), max_size=3) if array.size else st.just([])
    ):
        stored.shards.pop(missing, None)
    array = stored.array()
    limit = data.draw(st.sampled_from([1, 2, 3, 7, 10**6]))
    plan = reference.plan_of(selection, stored)
    reference.check(plan, stored, limit)

    expected = array[key]
    assert selection.result_shape == expected.shape
    out = buffer(data, expected.shape)
    view: Any = selection.out_view(out)
    if view is None:
        view = np.zeros(expected.size, np.int64)
        reference.read(plan, stored, view, limit)
        out = view.reshape(expected.shape)
    else:
        reference.read(plan, stored, view, limit)
    np.testing.assert_array_equal(out, expected)

    thin = tuple(data.draw(st.sampled_from([1, n])) if n else 0 for n in expected.shape)
    values = 1000 + np.arange(math.prod(thin), dtype=np.int64).reshape(thin)
    array[key] = values
    values = values.reshape(
        (1,) * data.draw(st.integers(0, 1)) + thin
    )  # leading dimensions do not matter, whether NumPy accepts them or not
    source: Any = selection.source_view(values)
    reference.write(plan, stored, source, limit)
    np.testing.assert_array_equal(stored.array(), array)


@given(layouts(), st.data())
def test_basic(layout: Layout, data: st.DataObject) -> None:
    key = data.draw(basics(layout[0]))
    run(data, layout, basic(key if len(key) != 1 or data.draw(st.booleans()) else key[0], layout[0]), key)


@given(layouts(), st.data())
def test_orthogonal(layout: Layout, data: st.DataObject) -> None:
    shape = layout[0]
    items: list[object] = [data.draw(along(length) | lists(length)) for length in shape]
    run(data, layout, orthogonal(tuple(items), shape), open_mesh(items, shape))


def open_mesh(items: list[Any], shape: Shape) -> tuple[object, ...]:
    """Index arrays that select the product; integers have no dimension in their result."""
    each = [np.arange(n)[np.array(i, int) if isinstance(i, list) else i] for i, n in zip(items, shape, strict=True)]
    dimensions = sum(e.ndim for e in each)
    mesh, seen = [], 0
    for line in each:
        seen += line.ndim
        mesh.append(line.reshape(line.shape + (1,) * (dimensions - seen)) if line.ndim else line)
    return tuple(mesh)


@given(layouts(), st.data())
def test_a_list_beside_slices(layout: Layout, data: st.DataObject) -> None:
    shape = layout[0]
    if not shape:
        return
    key: list[object] = [data.draw(slices(length)) for length in shape]
    place = data.draw(st.integers(0, len(shape) - 1))
    key[place] = data.draw(lists(shape[place]))
    for newaxis in data.draw(st.lists(st.integers(0, len(key)), max_size=1)):
        key.insert(newaxis, None)
    for_numpy = tuple(np.array(k, int) if isinstance(k, list) else k for k in key)
    run(data, layout, basic(tuple(key), shape), for_numpy)


@given(layouts(smallest=1), st.data())
def test_points(layout: Layout, data: st.DataObject) -> None:
    shape = layout[0]
    common = data.draw(st.sampled_from([(), (3,), (2, 3), (0,), (9,)]))
    items: list[Any] = []
    for length in shape:
        of_axis = common[data.draw(st.integers(0, len(common))) :]
        thin = tuple(data.draw(st.sampled_from([1, n])) if n else 0 for n in of_axis)
        size = math.prod(thin)
        items.append(
            np.array(data.draw(st.lists(indices(length), min_size=size, max_size=size)), np.int64).reshape(thin)
        )
    key = tuple(items)
    run(data, layout, vectorised(key, shape), key)
    if any(np.ndim(item) for item in items):
        run(data, layout, basic(key, shape), key)


@given(layouts(), st.data())
def test_masks(layout: Layout, data: st.DataObject) -> None:
    mask = data.draw(masks(layout[0]))
    run(data, layout, vectorised(mask, layout[0]), mask)
    run(data, layout, basic(mask, layout[0]), mask)


@given(layouts(), st.data())
def test_blocks(layout: Layout, data: st.DataObject) -> None:
    shape, chunk, _ = layout
    selection, key = [], []
    for length, extent in zip(shape, chunk, strict=True):
        grid = -(-length // extent)
        low = data.draw(st.integers(0, grid))
        high = data.draw(st.integers(low, grid))
        one = high == low + 1 and data.draw(st.booleans())
        selection.append((low if data.draw(st.booleans()) else low - grid) if one else slice(low, high))
        key.append(slice(low * extent, high * extent))
    run(data, layout, blocks(tuple(selection), shape, chunk), tuple(key))


@pytest.mark.parametrize("rows", [[], [0], [1, 3], [0, 1, 2, 3, 4, 5]])
def test_units_of_some_shards_are_those_of_all(rows: list[int]) -> None:
    shape, chunk, shard = (20, 13), (3, 2), (3, 3)
    stored = reference.Stored(np.zeros(shape, np.int64), chunk, shard)
    for selection in (basic(np.s_[2:17, ::3], shape), vectorised(([1, 5, 19, 11, 5], [12, 3, 1, 9, 3]), shape)):
        (batch,) = reference.plan_of(selection, stored).batches(2**63 - 1)
        every = batch.chunks()
        kept = [row for row in rows if row < batch.shard_count]
        some = batch.chunks(np.array(kept, np.int64))
        numbers = [number for number, row in enumerate(every.shard_rows().tolist()) if row in kept]
        np.testing.assert_array_equal(some.coordinates(), every.coordinates(np.array(numbers, np.int64)))
        np.testing.assert_array_equal(np.diff(some.offsets), np.diff(every.offsets)[kept])


@given(layouts(), st.data())
def test_numbers_of_nested_levels(layout: Layout, data: st.DataObject) -> None:
    """Shards of `outer` inner shards of `inner` chunks: computes the numbers of both levels, and from them the chunk again."""
    shape, chunk, inner = layout
    outer = tuple(data.draw(st.integers(1, 3)) for _ in shape)
    shard = tuple(o * i for o, i in zip(outer, inner, strict=True))
    stored = reference.Stored(np.zeros(shape, np.int64), chunk, shard)
    selections = [basic((slice(None, None, 2),) * len(shape), shape), vectorised(np.ones(shape, bool), shape)]
    strides = [tuple(math.prod(extents[d + 1 :]) for d in range(len(extents))) for extents in (outer, inner)]
    for selection in selections:
        for batch in reference.plan_of(selection, stored).batches(50):
            chunks = batch.chunks()
            first = chunks.numbers(inner, outer, strides[0])
            second = chunks.numbers((1,) * len(shape), inner, strides[1])
            for coords, level_1, level_2 in zip(
                chunks.coordinates().tolist(), first.tolist(), second.tolist(), strict=True
            ):
                within = [c % s for c, s in zip(coords, shard, strict=True)]
                above = np.unravel_index(level_1, outer) if shape else ()
                below = np.unravel_index(level_2, inner) if shape else ()
                assert within == [a * i + b for a, i, b in zip(above, inner, below, strict=True)]


def test_whole_chunks_among_points_are_those_with_every_element() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        points = rng.integers(0, 12, rng.integers(1, 60))
        found = next(point_plan(vectorised((points,), (11 + 1,)), (3,)).batches(2**20)).chunks()
        chunks = found.coordinates()[:, 0].tolist()
        assert found.whole_inside().tolist() == [len({p for p in points.tolist() if p // 3 == c}) == 3 for c in chunks]
