"""Buffers of values in flight: their content, and that large ones are returned to the system."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from frazil.errors import StoreError
from frazil.stores.transfer.large_buffers import BufferPool, joined_value, value_buffers
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


linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has /proc/self/status")


def _resident() -> int:
    """MiB"""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) >> 10


def _idle_sizes(pool: BufferPool) -> list[int] | None:
    """None: the pool has no memory, neither idle nor in use."""
    memories = None if pool._memories is None else pool._memories()
    return None if memories is None else [len(loan.memory) for loan in memories.idle()]


@linux
def test_a_large_buffer_goes_back_to_the_system() -> None:
    before, pool = _resident(), BufferPool()
    buffers = [pool.empty(2**23) for _ in range(16)]
    for buffer in buffers:
        buffer[:] = 1
    assert _resident() >= before + 100
    del buffer, buffers
    assert _resident() <= before + 30
    assert pool.empty(3).shape == (3,)
    assert pool.empty(0).shape == (0,)


@linux
def test_smaller_buffers_do_not_hold_the_memory_of_larger_ones() -> None:
    before, pool = _resident(), BufferPool()
    kept = pool.empty(2**20)
    buffers = [pool.empty(2**24) for _ in range(8)]
    for buffer in buffers:
        buffer[:] = 1
    del buffer, buffers
    smaller = [pool.empty(2**23) for _ in range(8)]
    assert _idle_sizes(pool) == []
    assert _resident() <= before + 8 * 8 + 30
    del kept, smaller


def _address(buffer: NDArray[np.uint8]) -> int:
    return int(buffer.__array_interface__["data"][0])


def test_memory_is_used_again_once_no_view_is_left() -> None:
    pool, size = BufferPool(), 2**21
    kept, first = pool.empty(size), pool.empty(size)
    address, view = _address(first), memoryview(first)[5:9]
    del first
    other = pool.empty(size)
    assert _address(other) != address  # still in use by the view
    view.release()
    second = pool.empty(size - 1)
    assert _address(second) == address
    assert second.shape == (size - 1,)
    assert _address(pool.empty(size)) not in {address, _address(kept), _address(other)}


def test_idle_memory_does_not_add_to_memory_in_use() -> None:
    """A buffer that does not fit into the idle memory frees that."""
    pool = BufferPool()
    kept = pool.empty(2**20)
    for size in (2**20, 2**22, 2**24):
        assert pool.empty(size).shape == (size,)
        assert _idle_sizes(pool) == [size]
    del kept
    assert _idle_sizes(pool) is None


def test_an_interrupt_where_a_buffer_ends_is_not_lost() -> None:
    """Python code that runs there would be interrupted, and its exception printed only."""
    pool, ran = BufferPool(), list[str]()
    kept, buffers = pool.empty(2**20), [pool.empty(2**20)]
    sys.setprofile(lambda frame, event, _: ran.append(frame.f_code.co_qualname) if event == "call" else None)
    try:
        buffers.clear()
    finally:
        sys.setprofile(None)
    assert _idle_sizes(pool) == [len(kept)]
    assert ran == []


def test_a_size_beyond_all_memory_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        BufferPool().empty(sys.maxsize)


def test_buffers_of_many_threads_are_apart() -> None:
    pool = BufferPool()

    def fill(number: int) -> bool:
        same = True
        for i in range(50):
            buffer = pool.empty(2**19 + (number * 7919 + i * 104729) % 2**20)
            buffer[:] = number
            same &= bool((buffer == number).all())
        return same

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(fill, range(8)))
    assert _idle_sizes(pool) is None
