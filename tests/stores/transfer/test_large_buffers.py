"""Buffers of values in flight: their content, and that large ones are returned to the system."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import StoreError
from frazil.stores.transfer.large_buffers import empty_buffer, joined_value, value_buffers
from frazil.stores.transfer.merged_spans import SHORT, short_bytes
from frazil.stores.values import Pieces, Sources

BUFFERS = [bytes(range(200)), np.arange(99, dtype=np.uint8), b""]
LONG = [bytes(range(256)) * (5 * SHORT // 256), np.arange(5 * SHORT, dtype=np.uint32).astype(np.uint8)]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 60), st.integers(0, 39)), max_size=5))
def test_pieces_are_joined(pieces: list[tuple[int, int, int]]) -> None:
    rows = np.array([(-1 - blob, start, length) for blob, start, length in pieces], np.int64).reshape(-1, 3)
    value = joined_value(Pieces(Sources(None, BUFFERS), rows, np.array([0, len(rows)])))
    assert bytes(value) == b"".join(bytes(BUFFERS[blob])[start : start + n] for blob, start, n in pieces)


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3 * SHORT), st.integers(0, 2 * SHORT)), max_size=9),
    st.booleans(),
)
def test_only_short_pieces_are_copied(pieces: list[tuple[int, int, int]], follow: bool) -> None:
    """follow: each piece continues the one before, if both are in the same buffer."""
    rows: list[tuple[int, int, int]] = []
    for blob, start, length in pieces:
        if follow and rows and rows[-1][0] == -1 - blob and rows[-1][1] + rows[-1][2] + length <= len(LONG[blob]):
            start = rows[-1][1] + rows[-1][2]
        rows.append((-1 - blob, start, length))
    columns = np.array(rows, np.int64).reshape(-1, 3)
    value = Pieces(Sources(None, LONG), columns, np.array([0, len(rows)]))
    found = value_buffers(value)
    buffers = found if isinstance(found, list) else [found]
    expected = b"".join(bytes(LONG[-1 - blob])[start : start + length] for blob, start, length in rows)
    assert b"".join(bytes(one) for one in buffers) == expected
    if expected:
        shared = [
            any(np.shares_memory(np.asarray(one), np.asarray(memoryview(whole))) for whole in LONG) for one in buffers
        ]
        copied = sum(len(one) for one, is_shared in zip(buffers, shared, strict=True) if not is_shared)
        assert copied == short_bytes(value)


def test_pieces_outside_their_buffer_are_refused() -> None:
    rows = np.array([(-1, 0, SHORT), (-2, 10, len(LONG[1]))])
    with pytest.raises(StoreError, match="changed while it was read"):
        value_buffers(Pieces(Sources(None, LONG), rows, np.array([0, 2])))


def test_a_whole_piece_is_not_copied() -> None:
    whole = Pieces(Sources(None, BUFFERS), np.array([(-1, 0, 200)]), np.array([0, 1]))
    assert joined_value(whole) is BUFFERS[0]
    outside = Pieces(Sources(None, BUFFERS), np.array([(-1, 0, 201)]), np.array([0, 1]))
    with pytest.raises(StoreError, match="changed while it was read"):
        joined_value(outside)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has /proc/self/status")
def test_a_large_buffer_goes_back_to_the_system() -> None:
    def resident() -> int:
        found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
        assert found is not None
        return int(found[1]) >> 10

    before = resident()
    buffers = [empty_buffer(2**23) for _ in range(16)]
    for buffer in buffers:
        buffer[:] = 1
    assert resident() >= before + 100
    del buffer, buffers
    assert resident() <= before + 30
    assert empty_buffer(3).shape == (3,)
    assert empty_buffer(0).shape == (0,)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems choose the size of pages themselves")
@pytest.mark.parametrize("nbytes", [2**19, 2**21 - 1, 2**21, 5 * 2**20 + 3, 2**23])
def test_large_buffers_begin_with_a_huge_page(nbytes: int) -> None:
    """Else what lies before and behind the huge pages inside is faulted in by pages of 4 KiB: 2 MiB of each buffer."""
    buffer = empty_buffer(nbytes)
    assert buffer.shape == (nbytes,)
    assert buffer.__array_interface__["data"][0] % 2**21 == 0
    buffer[:] = 1
    assert int(buffer.sum(dtype=np.int64)) == nbytes
