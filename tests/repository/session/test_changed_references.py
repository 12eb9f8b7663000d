"""References that a session changed, against a plain dict; pending bytes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.slow_properties import search

from frazil.errors import StoreError
from frazil.repository.session.changed_references import (
    NATIVE,
    PENDING,
    SHARED,
    ChangedReferences,
    PendingBytes,
    Rows,
    removed_rows,
)
from frazil.stores.values import Pieces, Sources, pieces_of


def rows_at(coordinates: list[tuple[int, ...]], rank: int, tag: int = 0) -> Rows:
    count = len(coordinates)
    numbers = np.full(count, tag, np.int64)
    table = np.array(coordinates, np.int64).reshape(count, rank)
    return Rows(table, np.zeros(count, np.uint8), np.zeros((count, 12), np.uint8), numbers, numbers, numbers)


def coordinates_of(rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    small = st.tuples(*[st.integers(0, 5)] * rank)
    return small | st.tuples(*[st.integers(0, 2**32 - 1)] * rank)


@search(slowness=2)
@given(st.data(), st.integers(0, 4))
def test_the_last_that_was_set_counts(data: st.DataObject, rank: int) -> None:
    """Rows are compared by their tags: their numbers change when superseded rows are dropped."""
    changed, model = ChangedReferences(rank), dict[tuple[int, ...], int]()
    for tag in range(data.draw(st.integers(1, 12))):
        batch = data.draw(st.lists(coordinates_of(rank), unique=True, max_size=8))
        numbers = changed.set(rows_at(batch, rank, tag))
        model.update(dict.fromkeys(batch, tag))
        requested = data.draw(st.lists(coordinates_of(rank), max_size=8)) + list(model)
        found = changed.find(np.array(requested, np.int64).reshape(len(requested), rank)).tolist()
        assert found == [changed.find_one(one) for one in requested]
        tags = changed.columns.objects
        assert [row if row < 0 else tags[row] for row in found] == [model.get(one, -1) for one in requested]
        assert numbers.tolist() == [changed.find_one(one) for one in batch]
        if data.draw(st.booleans()):
            assert changed.columns.objects[changed.current()].tolist() == [model[one] for one in sorted(model)]
    again = pickle.loads(pickle.dumps(changed))
    for one in (again, changed.copy()):
        found = one.selected(one.current())
        assert [tuple(at) for at in found.coordinates.tolist()] == sorted(model)
        assert found.objects.tolist() == changed.columns.objects[changed.current()].tolist()


def test_a_copy_of_changed_references_is_independent() -> None:
    changed = ChangedReferences(1)
    changed.set(rows_at([(1,), (2,)], 1))
    copy = changed.copy()
    copy.set(rows_at([(1,)], 1, 9))
    changed.assign_objects(np.array([0]), np.array([7]), ids=np.ones((1, 12), np.uint8))
    assert changed.columns.kinds.tolist() == [NATIVE, PENDING]
    assert copy.columns.kinds.tolist() == [PENDING, PENDING, PENDING]
    assert changed.find(np.array([[1]])).tolist() == [0]
    assert copy.find(np.array([[1]])).tolist() == [2]


def test_own_rows_of_a_fork_are_kept_after_pickling() -> None:
    changed = ChangedReferences(1)
    changed.set(rows_at([(1,), (2,), (3,)], 1, 1))
    changed.inherited = changed.count
    changed.set(rows_at([(2,), (9,)], 1, 2))
    for one in (changed, pickle.loads(pickle.dumps(changed))):
        own = one.selected(one.own())
        assert own.coordinates.tolist() == [[2], [9]]
        assert own.objects.tolist() == [2, 2]
        assert one.selected(one.current()).coordinates.tolist() == [[1], [2], [3], [9]]


def test_rows_are_assigned_to_objects_and_files() -> None:
    changed = ChangedReferences(2)
    numbers = changed.set(rows_at([(0, 0), (0, 1)], 2, 5))
    changed.assign_objects(numbers[:1], np.array([40]), segment=3)
    changed.assign_objects(numbers[1:], np.array([16]), ids=np.full((1, 12), 8, np.uint8))
    kept = changed.columns
    assert kept.kinds.tolist() == [PENDING, NATIVE]
    assert kept.objects.tolist() == [3, SHARED]
    assert kept.offsets.tolist() == [40, 16]


@given(st.lists(st.binary(max_size=9), max_size=6), st.lists(st.binary(max_size=9), max_size=6))
def test_bytes_wait_one_after_the_other(first: list[bytes], second: list[bytes]) -> None:
    pending = PendingBytes()
    for number, values in enumerate((first, second)):
        lengths = np.array([len(value) for value in values], np.int64)
        segment, offsets = pending.add(pieces_of(values), lengths)
        assert segment == number
        held = pending.segments[segment].tobytes()
        assert [held[at : at + len(value)] for at, value in zip(offsets.tolist(), values, strict=True)] == values
    assert pending.nbytes == sum(map(len, first + second))
    copy = pending.copy()
    copy.append(np.zeros(3, np.uint8))
    assert len(pending.segments) == 2


def test_pieces_outside_of_their_buffer_are_refused() -> None:
    pieces = Pieces(Sources(None, [b"abc"]), np.array([[-1, 2, 9]]), np.array([0, 1]))
    with pytest.raises(StoreError, match="reaches outside the object"):
        PendingBytes().add(pieces, np.array([9]))


def test_rows_that_do_not_count_are_dropped() -> None:
    """For any number of writes of a chunk; references inherited by a fork stay, as they are the old state."""
    references, kept = ChangedReferences(1), ChangedReferences(1)
    coordinates = np.arange(100, dtype=np.int64).reshape(100, 1)
    kept.set(removed_rows(coordinates))
    kept.inherit()
    for turn in range(200):
        for changed in (references, kept):
            rows = removed_rows(coordinates)
            changed.set(rows._replace(offsets=np.full(100, turn)))
    for changed, most in ((references, 400), (kept, 700)):
        assert changed.count <= most
        assert len(changed.columns.lengths) == changed.count
        found = changed.selected(changed.find(coordinates))
        assert found.offsets.tolist() == [199] * 100
        assert found.coordinates.tolist() == coordinates.tolist()
    assert (kept.inherited, len(kept.own())) == (100, 100)
    assert kept.columns.pick(slice(100)).offsets.tolist() == [0] * 100
