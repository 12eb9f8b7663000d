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
from frazil.stores.transfer.large_buffers import empty_buffer, joined_value
from frazil.stores.values import Pieces, Sources

BUFFERS = [bytes(range(200)), np.arange(99, dtype=np.uint8), b""]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 60), st.integers(0, 39)), max_size=5))
def test_pieces_are_joined(pieces: list[tuple[int, int, int]]) -> None:
    rows = np.array([(-1 - blob, start, length) for blob, start, length in pieces], np.int64).reshape(-1, 3)
    value = joined_value(Pieces(Sources(None, BUFFERS), rows, np.array([0, len(rows)])))
    assert bytes(value) == b"".join(bytes(BUFFERS[blob])[start : start + n] for blob, start, n in pieces)


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
