"""From rows to bytes, out of buffers and out of open files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil import _kernel
from frazil.errors import StoreError
from frazil.stores.transfer.content import as_buffers, join_pieces, read_values
from frazil.stores.values import ABSENT_KEY, FOUND, MISSING, UNKNOWN, Fetched, Pieces, Sources, object_rows, pieces_of
from frazil.testing.store_base import columns

VALUES = {"a": bytes(range(100)), "b": b"", "c": b"xyz"}
NAMES = ["a", "b", "c", "none"]
SPANS = st.lists(st.tuples(st.integers(0, 3), st.integers(-110, 110), st.integers(-1, 110)), max_size=12)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("files")
    for name, value in VALUES.items():
        (folder / name).write_bytes(value)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def from_files(root: int, spans: list[tuple[int, int, int]]) -> Fetched:
    """A fetch like that of a store of open files: rows as requested."""
    stat = np.empty((len(NAMES), 4), np.int64)
    files = _kernel.open_files(root, NAMES, stat)
    found = stat[:, 0] == 0
    rows = columns(*spans)
    rows[~found[rows[:, 0]], 0] = MISSING
    status = [FOUND if there else ABSENT_KEY for there in found]
    return Fetched(
        Sources(files, ()), status, [b"v" if there else None for there in found], np.where(found, stat[:, 2], -1), rows
    )


def from_buffers(spans: list[tuple[int, int, int]]) -> Fetched:
    status = [FOUND if name in VALUES else ABSENT_KEY for name in NAMES]
    sizes = np.array([len(VALUES[name]) if name in VALUES else -1 for name in NAMES])
    buffers = [np.frombuffer(VALUES.get(name, b""), np.uint8) for name in NAMES]
    return Fetched(Sources(None, buffers), status, [None] * 4, sizes, object_rows(columns(*spans), status, sizes))


@given(SPANS)
def test_files_and_buffers_have_the_same_content(root: int, spans: list[tuple[int, int, int]]) -> None:
    requested = columns(*spans)
    values = read_values(from_files(root, spans), NAMES, requested)
    assert values == read_values(from_buffers(spans), NAMES, requested)
    for (name, start, length), value in zip(spans, values, strict=True):
        if NAMES[name] not in VALUES:
            assert value is None
        elif start >= 0:
            assert value == VALUES[NAMES[name]][start : None if length < 0 else start + length]


@given(st.integers(0, 99), st.integers(0, 100), st.integers(0, 110), st.integers(-1, 110))
def test_values_that_lie_in_a_part_of_a_file(root: int, base: int, size: int, start: int, length: int) -> None:
    value = VALUES["a"][base : base + size]
    there = max(len(value) - start, 0) if length < 0 else length
    fetched = from_files(root, [(0, base + start, there)])
    fetched = fetched._replace(sizes=np.array([len(value), 0, 3, -1]))
    assert read_values(fetched, NAMES, columns((0, start, length))) == [
        value[start : None if length < 0 else start + length]
    ]


@given(SPANS)
def test_as_buffers_keeps_the_answer(root: int, spans: list[tuple[int, int, int]]) -> None:
    requested = columns(*spans)
    fetched = from_files(root, spans)
    plain = as_buffers(fetched, NAMES, requested)
    assert plain.sources.files is None
    assert read_values(plain, NAMES, requested) == read_values(fetched, NAMES, requested)
    assert (plain.status, plain.versions) == (fetched.status, fetched.versions)
    for row, (_, start, length), value in zip(
        plain.rows.tolist(), spans, read_values(plain, NAMES, requested), strict=True
    ):
        if value is None:
            assert row[0] == MISSING
        elif start >= 0 and length >= 0:
            assert row[1:] == [0, length], "what is too short stays too short"
        else:
            assert row[1:] == [0, len(value)]


def test_pieces_of_files_and_buffers(root: int) -> None:
    sources = Sources(_kernel.open_files(root, NAMES, np.empty((4, 4), np.int64)), [b"BUFFER", memoryview(b"view")])
    rows = columns((0, 10, 5), (-1, 0, 6), (0, 98, 2), (-2, 1, 2), (2, 0, 3), (1, 0, 0))
    joined = join_pieces(Pieces(sources, rows, np.array([0, 3, 3, 4, 6])))
    assert joined == [bytes(range(10, 15)) + b"BUFFERbc", b"", b"ie", b"xyz"]


def test_whole_bytes_are_not_copied() -> None:
    value = b"value"
    assert join_pieces(pieces_of([value]))[0] is value


@pytest.mark.parametrize("row", [(-1, 4, 3), (-1, 0, 7), (2, 1, 3), (0, 99, 2)])
def test_pieces_outside_of_their_object(root: int, row: tuple[int, int, int]) -> None:
    sources = Sources(_kernel.open_files(root, NAMES, np.empty((4, 4), np.int64)), [b"BUFFER"])
    with pytest.raises(StoreError):
        join_pieces(Pieces(sources, columns(row), np.array([0, 1])))


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    stat = np.empty((1, 4), np.int64)
    files = _kernel.open_files(descriptor, ["a"], stat)
    os.close(descriptor)
    os.truncate(tmp_path / "a", 3)
    whole = columns((0, 0, -1))
    fetched = Fetched(Sources(files, ()), [FOUND], [b"v"], stat[:, 2], whole)
    with pytest.raises(StoreError, match="changed") as caught:
        read_values(fetched, ["a"], whole)
    assert caught.value.key == "a"


def test_unopened_values_are_not_read() -> None:
    fetched = Fetched(Sources(None, ()), [UNKNOWN], [None], np.array([-1]), columns((MISSING, 0, 0)))
    with pytest.raises(StoreError, match="single_read"):
        read_values(fetched, ["a"], columns((0, 0, -1)))


def test_as_buffers_copies_no_buffer() -> None:
    """An answer is held with the one that it continues: a copy would be held twice."""
    value = np.arange(100, dtype=np.uint8)
    rows, sizes = np.array([[-1, 0, 100], [-1, 10, 20]], np.int64), np.array([100], np.int64)
    fetched = Fetched(Sources(None, [value.data]), [FOUND], [b"v"], sizes, rows)
    plain = as_buffers(fetched, ["a"], columns((0, 0, -1), (0, 10, 20)))
    assert all(np.shares_memory(np.frombuffer(buffer, np.uint8), value) for buffer in plain.sources.buffers)
