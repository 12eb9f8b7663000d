"""Plans of packs: what is where, how large they are, and who lies beside whom."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.repository.session.packs import INLINE_LIMIT, PACK_BYTES, PACK_LIMIT, Pending, plan_packs, reading_order


@st.composite
def pendings(draw: st.DrawFn) -> Pending:
    lengths = draw(st.lists(st.integers(0, 30), max_size=40))
    return Pending(np.array(draw(st.permutations(range(len(lengths)))), np.int64), np.array(lengths, np.int64))


@given(pendings(), st.integers(0, 10), st.integers(1, 60))
def test_packs_hold_what_is_not_inline_side_by_side(pending: Pending, inline_limit: int, pack_bytes: int) -> None:
    packed = plan_packs(pending, inline_limit=inline_limit, pack_bytes=pack_bytes)
    assert ((packed.object < 0) == (pending.lengths <= inline_limit)).all()
    assert packed.rows.tolist() == [row for row in pending.order.tolist() if pending.lengths[row] > inline_limit]
    number, at = -1, 0
    for row in packed.rows.tolist():
        if packed.object[row] != number:
            assert number < 0 or packed.sizes[number] == at
            # it is closed because this chunk would have been too much
            assert number < 0 or at + pending.lengths[row] > pack_bytes
            number, at = number + 1, 0
        assert (packed.object[row], packed.offset[row]) == (number, at)
        at += int(pending.lengths[row])
        assert at <= max(pack_bytes, pending.lengths[row])
    assert len(packed.sizes) == number + 1
    assert packed.sizes.sum() == pending.lengths[packed.rows].sum()
    assert not packed.offset[packed.object < 0].any()
    assert {column.dtype for column in packed} == {np.dtype(np.int64)}


@given(pendings())
def test_without_packing_each_is_alone(pending: Pending) -> None:
    packed = plan_packs(pending, inline_limit=3, packing=False)
    assert not packed.offset.any()
    assert packed.sizes.tolist() == pending.lengths[packed.rows].tolist()
    assert packed.object[packed.rows].tolist() == list(range(len(packed.rows)))


def test_limits() -> None:
    lengths = np.array([INLINE_LIMIT, INLINE_LIMIT + 1, PACK_LIMIT], np.int64)
    assert plan_packs(Pending(np.arange(3), lengths)).object.tolist() == [-1, 0, 0]
    many = np.full(100, PACK_LIMIT, np.int64)
    assert plan_packs(Pending(np.arange(100), many)).sizes.tolist() == [PACK_BYTES] * 6 + [4 * PACK_LIMIT]


@pytest.mark.parametrize("order", [[0, 0], [0, 2], [-1, 0], [0], [0, 1, 2]])
def test_an_order_holds_each_row_once(order: list[int]) -> None:
    with pytest.raises(InvalidInputError):
        plan_packs(Pending(np.array(order, np.int64), np.array([1, 2], np.int64)))


coordinates = st.one_of(st.integers(0, 4), st.sampled_from([2**31, 2**32 - 1]))


@given(
    st.lists(
        st.integers(0, 4).flatmap(
            lambda rank: st.tuples(st.just(rank), st.lists(st.tuples(*[coordinates] * rank), unique=True, max_size=9))
        ),
        max_size=4,
    ),
    st.data(),
)
def test_reading_order(arrays: list[tuple[int, list[tuple[int, ...]]]], data: st.DataObject) -> None:
    nodes = data.draw(st.lists(st.integers(0, 99), min_size=len(arrays), max_size=len(arrays), unique=True))
    keys = [(node, chunk) for node, (_, chunks) in zip(nodes, arrays, strict=True) for chunk in chunks]
    order = reading_order(
        np.array([node for node, _ in keys], np.int64),
        [np.array(chunks, np.int64).reshape(len(chunks), rank) for rank, chunks in arrays],
    )
    assert [keys[row] for row in order.tolist()] == sorted(keys)
    assert order.dtype == np.int64


def test_nodes_go_with_coordinates() -> None:
    with pytest.raises(InvalidInputError):
        reading_order(np.zeros(3, np.int64), [np.zeros((2, 1), np.int64)])
