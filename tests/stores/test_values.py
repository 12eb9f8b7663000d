"""The columns of the store port: spans against slices of bytes, rows against spans, values of any buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.stores.values import (
    ABSENT_KEY,
    FOUND,
    MISSING,
    STALE,
    clip_span,
    object_rows,
    pieces_of,
    resolve_span,
    resolve_spans,
)

SIZES = st.integers(0, 12)
STARTS = st.integers(-15, 15) | st.integers(-(2**63), 2**63 - 1)
LENGTHS = st.integers(-1, 15) | st.integers(0, 2**63 - 1)


@given(STARTS, LENGTHS, SIZES)
def test_clip_span_returns_the_existing_part_of_a_range(start: int, length: int, size: int) -> None:
    first = start if start >= 0 else size + start
    expected = range(size)[max(first, 0) : size if length < 0 else max(first + length, 0)]
    at, count = clip_span(start, length, size)
    assert 0 <= at <= at + count <= size
    assert count == len(expected)
    assert count == 0 or at == expected.start


@given(STARTS, LENGTHS, SIZES)
def test_resolve_span_leaves_plain_ranges_alone(start: int, length: int, size: int) -> None:
    at, count = resolve_span(start, length, size)
    if start >= 0 and length >= 0:
        assert (at, count) == (start, length)
    elif start < 0:
        assert (at, count) == clip_span(start, length, size)
    assert min(at, count) >= 0


@given(st.lists(st.tuples(STARTS, LENGTHS, SIZES), max_size=20))
def test_columns_agree_with_integers(spans: list[tuple[int, int, int]]) -> None:
    start, length, size = np.array(spans, np.int64).reshape(-1, 3).T
    found = resolve_spans(start, length, size)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == [resolve_span(*span) for span in spans]


@given(st.lists(st.tuples(st.integers(0, 3), STARTS, LENGTHS), max_size=20))
def test_object_rows(spans: list[tuple[int, int, int]]) -> None:
    status, sizes = [FOUND, STALE, FOUND, ABSENT_KEY], np.array([7, 5, 0, -1])
    requested = np.array(spans, np.int64).reshape(-1, 3)
    one_by_one = [object_rows(requested[i : i + 1], status, sizes)[0].tolist() for i in range(len(spans))]
    assert object_rows(requested, status, sizes).tolist() == one_by_one
    for (name, start, length), row in zip(spans, one_by_one, strict=True):
        if name in {0, 2}:
            assert row == [-1 - name, *resolve_span(start, length, int(sizes[name]))]
        else:
            assert row == [MISSING, 0, 0]


def test_pieces_of_any_buffer() -> None:
    values: list[Any] = [b"abc", bytearray(b"de"), np.arange(3, dtype=">i4")[::-1], np.zeros((0, 2)), np.float16(1.5)]
    pieces = pieces_of(values)
    assert pieces.rows.tolist() == [[-1, 0, 3], [-2, 0, 2], [-3, 0, 12], [-4, 0, 0], [-5, 0, 2]]
    assert pieces.offsets.tolist() == [0, 1, 2, 3, 4, 5]
    assert [bytes(buffer) for buffer in pieces.sources.buffers] == [np.asarray(v).tobytes() for v in values]
    assert pieces.sources.buffers[0] is values[0]


@pytest.mark.parametrize("value", ["text", 5, None, [1, 2], object()])
def test_values_other_than_buffers_are_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match=type(value).__name__):
        pieces_of([value])  # type: ignore[list-item]
