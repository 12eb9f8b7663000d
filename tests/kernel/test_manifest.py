"""What the kernel's functions on manifests promise besides tests/formats/alpha/test_manifests.py: columns of wrong sizes, the order of rows, many threads."""

from __future__ import annotations

import os
import resource
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from frazil import _kernel
from tests.formats import manifest_reference as reference

FILE = reference.encode({(1, (i,)): reference.Ref(bytes([i] * 12), i, 9) for i in range(200)})

keys = st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 300), max_size=3)), max_size=20)


def test_columns_are_as_the_contract_says() -> None:
    columns, failures = _kernel.decode_manifest(FILE)
    assert failures == []
    assert [len(column) for column in columns] == [1, 800, 8 * 201, 1600, 200, 2400, 1600, 1600, 0, 800, 0, 8]
    assert bytes(_kernel.encode_manifest(columns)) == FILE


def test_a_broken_file_is_a_failure_with_its_position() -> None:
    columns, [(position, code, text)] = _kernel.decode_manifest(FILE[:-1])
    assert columns == []
    assert (position, code) == (len(FILE) - 1, _kernel.FAILED_DECODE)
    assert text


@pytest.mark.parametrize("at", range(12))
def test_wrong_columns_are_value_errors(at: int) -> None:
    columns = [bytes(column) for column in _kernel.decode_manifest(FILE)[0]]
    with pytest.raises(ValueError):
        _kernel.encode_manifest([*columns[:at], columns[at] + b"\1", *columns[at + 1 :]] if at not in (8, 10) else [])
    with pytest.raises(ValueError):
        _kernel.encode_manifest(columns[:at])
    with pytest.raises(ValueError):
        _kernel.encode_manifest([*columns[:at], None, *columns[at + 1 :]])  # type: ignore[list-item]


@given(st.lists(keys, min_size=1, max_size=3))
def test_references_are_joined_in_order(parts: list[list[tuple[int, list[int]]]]) -> None:
    every = [row for rows in parts for row in rows]
    last = {(node, tuple(indices)): at for at, (node, indices) in enumerate(every)}
    columns = [_part(rows) for rows in parts]
    joined = _kernel.join_references(columns)
    assert (joined is None) == (len(parts) == 1 and [last[key] for key in sorted(last)] == list(range(len(every))))
    nodes, starts, coordinates, *_, lengths, _, _, _, _ = columns[0] if joined is None else joined
    spans = pairwise(np.frombuffer(starts, np.int64).tolist())
    indices = [tuple(np.frombuffer(coordinates, np.int64)[first:end].tolist()) for first, end in spans]
    assert list(zip(np.frombuffer(nodes, np.uint32).tolist(), indices, strict=True)) == sorted(last)
    if len(parts) == 1:
        assert np.frombuffer(lengths, np.int64).tolist() == [last[key] for key in sorted(last)]


def _part(rows: list[tuple[int, list[int]]]) -> list[NDArray[np.generic]]:
    """References without flags and locations; the length of each is its number."""
    count, indices = len(rows), [index for _, row in rows for index in row]
    return [
        np.array([node for node, _ in rows], np.uint32),
        np.cumsum([0, *(len(row) for _, row in rows)]),
        np.array(indices, np.int64),
        np.ones(count, np.uint8),
        np.zeros((count, 12), np.uint8),
        np.zeros(count, np.int64),
        np.arange(count),
        np.zeros(0, np.uint8),
        np.full(count, -1, np.int32),
        np.zeros(0, np.uint8),
        np.zeros(1, np.int64),
    ]


@pytest.mark.parametrize("at", range(11))
def test_columns_that_do_not_fit_are_not_joined(at: int) -> None:
    whole = [bytes(column) for column in _kernel.decode_manifest(FILE)[0]][1:]
    assert _kernel.join_references([whole]) is None
    for broken in ([*whole[:at], whole[at] + b"\1" * 8, *whole[at + 1 :]], whole[:at]):
        if at != 7 or len(broken) < len(whole):  # inline bytes that nothing uses
            with pytest.raises(ValueError):
                _kernel.join_references([whole, broken])


def test_many_threads_may_call_at_once() -> None:
    def work(_: int) -> bool:
        return bytes(_kernel.encode_manifest(_kernel.decode_manifest(FILE)[0])) == FILE

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(200)))


CLAIMS = [
    b"\x93\x00\x80\xdf\x00\x0f\x00\x00"
    + b"\x92\x00\xdd\xff\xff\xff\xff" * 10**6,  # a million rows, with large claimed lengths
    b"\x93\x00\x80\xdf\xff\xff\xff\xff" + bytes(10**6),
    b"\x93\x00\x80\x81\x92\x00\xdd\x00\x0f\x00\x00" + bytes(10**6),
]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say how much memory there is")
@pytest.mark.parametrize("data", CLAIMS, ids=range(len(CLAIMS)))
def test_memory_is_bounded_by_the_file(data: bytes) -> None:
    pid = os.fork()
    if pid == 0:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 8 * len(data) + 2**24,) * 2)
        columns, failures = _kernel.decode_manifest(data)
        os._exit(0 if not columns and "memory" not in failures[0][2] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
