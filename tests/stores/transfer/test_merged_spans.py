"""Merged spans: every row cut from them has the requested bytes, and nothing is requested twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.stores.array_storage.chunk_storage import fetch_spans
from frazil.stores.memory import MemoryStore
from frazil.stores.transfer.content import read_values
from frazil.stores.transfer.merged_spans import merge_spans
from frazil.stores.values import Columns
from frazil.testing import CountingStore

OBJECTS = [bytes(range(256)), b"", bytes(range(100))]


@st.composite
def spans(draw: st.DrawFn) -> Columns:
    rows = []
    for _ in range(draw(st.integers(0, 12))):
        name = draw(st.integers(0, 2))
        size = len(OBJECTS[name])
        start = draw(st.integers(-size, size) if draw(st.integers(0, 5)) == 0 else st.integers(0, size))
        rows.append((name, start, draw(st.integers(-1, max(size - start, 0)))))
    return np.array(rows, np.int64).reshape(-1, 3)


@given(spans(), st.integers(0, 40), st.integers(1, 300))
def test_rows_are_the_requested_bytes(requested: Columns, gap: int, largest: int) -> None:
    merged = merge_spans(requested, gap, largest)
    if merged is None:
        return
    assert len(merged.spans) < len(requested)
    rows = merged.cut(merged.spans)  # like a store that returns whole objects
    assert rows[:, 0].tolist() == requested[:, 0].tolist()
    own = merged.length < 0
    assert (rows[own] == requested[own]).all()
    assert (rows[~own] == requested[~own]).all()


@given(spans())
def test_spans_that_do_not_lie_near_each_other_stay_apart(requested: Columns) -> None:
    merged = merge_spans(requested, 10)
    found = requested if merged is None else merged.spans
    plain = sorted((name, start, start + length) for name, start, length in found.tolist() if start >= 0 <= length)
    for (name, start, end), (after, begin, _) in zip(plain, plain[1:], strict=False):
        assert start <= end
        assert name != after or begin > end + 10


def test_spans_far_apart_are_not_merged() -> None:
    assert merge_spans(np.array([[0, 0, 10], [0, 21, 5], [1, 22, 5]], np.int64), 10) is None
    assert merge_spans(np.zeros((0, 3), np.int64)) is None
    assert merge_spans(np.array([[0, -10, 10], [0, -20, 10], [0, 5, -1]], np.int64)) is None, "suffixes stay"


def test_merged_spans_have_a_bound() -> None:
    requested = np.zeros((1000, 3), np.int64)
    requested[:, 1], requested[:, 2] = np.arange(1000) * 100, 100
    merged = merge_spans(requested, 0, 5000)
    assert merged is not None
    assert len(merged.spans) == 20
    assert merged.spans[:, 2].max() == 5000


@pytest.mark.parametrize("count", [2, 40])
def test_neighbours_cost_one_request(count: int) -> None:
    store = CountingStore(MemoryStore())
    store.set("a", bytes(range(200)))
    store.set("b", b"0123456789")
    store.clear()
    requested = np.array([(i % 2, (i * 7) % 10, 1) for i in range(count)] + [(0, -5, -1)], np.int64)
    names = ["a", "b"]
    fetched = fetch_spans(store, names, requested)
    expected = [
        bytes(range(200))[-5:] if s < 0 else store.inner.get(names[n])[s : s + 1] for n, s, _ in requested.tolist()
    ]
    assert read_values(fetched, names, requested) == expected
    assert store.count("fetch") == 3
    again = fetch_spans(store, names, requested, continue_from=fetched)
    assert read_values(again, names, requested) == expected


def test_spans_of_missing_objects_are_missing() -> None:
    store = CountingStore(MemoryStore())
    requested = np.array([(0, 0, 1), (0, 1, 1)], np.int64)
    assert read_values(fetch_spans(store, ["none"], requested), ["none"], requested) == [None, None]


def test_spans_past_the_end_fail_and_their_neighbours_do_not() -> None:
    store = CountingStore(MemoryStore())
    store.set("a", b"0123")
    fetched = fetch_spans(store, ["a"], np.array([(0, 0, 2), (0, 2, 9)], np.int64))
    assert fetched.rows[:, 1:].tolist() == [[0, 2], [2, 9]], (
        "as they were asked for: where they are read the second fails"
    )
