"""Runs of bytes, split: every element is in one chunk, at its place in the file."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.integrations.files import contiguous
from frazil.integrations.files.contiguous import Layout, contiguous_chunks, padded_tails, split_contiguous

shapes = st.lists(st.integers(0, 12), max_size=4).map(tuple)


@given(shapes, st.sampled_from([1, 2, 8]), st.integers(0, 20), st.integers(0, 7), st.booleans(), st.integers(1, 64))
def test_every_element_has_its_bytes(
    shape: tuple[int, ...], itemsize: int, begin: int, between: int, by_records: bool, chunk_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contiguous, "_CHUNK_BYTES", chunk_bytes)
        by_records = by_records and bool(shape)
        row = math.prod(shape[1:]) * itemsize
        layout = Layout(shape, itemsize, begin, row + between if by_records else None)
        chunk_shape = split_contiguous(shape[by_records:], itemsize, uneven=not by_records)
    chunk_shape = (1, *chunk_shape) if by_records else chunk_shape
    whole, tails = contiguous_chunks(layout, chunk_shape)
    assert len(chunk_shape) == len(shape)
    assert not (by_records and tails.offsets.size)
    elements = (np.arange(math.prod(shape)) % 251 + 1).astype(f"u{itemsize}").reshape(shape)
    file = bytearray(layout.end)
    for number in range(shape[0] if by_records else 1):
        at = begin + number * (row + between)
        part = elements[number] if by_records else elements
        file[at : at + part.nbytes] = part.tobytes()
    assert layout.end >= begin + elements.nbytes and layout.size == elements.nbytes
    size = math.prod(chunk_shape) * itemsize
    chunks = [
        (coordinates, bytes(file[offset : offset + length]))
        for coordinates, offset, length in zip(*(column.tolist() for column in whole), strict=True)
    ]
    fill = (255).to_bytes(itemsize, "little")
    chunks += padded_tails(tails, size, fill, lambda offset, length: bytes(file[offset : offset + length]))
    padded = [-(-extent // chunk) * chunk for extent, chunk in zip(shape, chunk_shape, strict=True)]
    found = np.zeros(padded, elements.dtype)
    for coordinates, value in chunks:
        assert len(value) == size
        place = tuple(slice(at * n, at * n + n) for at, n in zip(coordinates, chunk_shape, strict=True))
        assert not found[place].any()
        found[place] = np.frombuffer(value, elements.dtype).reshape(chunk_shape)
    np.testing.assert_array_equal(found[tuple(map(slice, shape))], elements)


@pytest.mark.parametrize(
    ("shape", "itemsize", "chunk"),
    [
        ((), 8, ()),
        ((), 2**21, ()),
        ((2, 3), 2**21, (1, 1)),
        ((0, 5), 8, (1, 5)),
        ((1000,), 8, (1000,)),
        ((2**20,), 8, (2**17,)),
        ((12, 721, 1440), 4, (1, 103, 1440)),
        ((365, 180, 360), 4, (5, 180, 360)),
        ((1, 20000, 20000), 8, (1, 8, 20000)),
        ((1009, 1000), 8, (131, 1000)),  # of a prime length: the last chunk is partial
        ((5000, 3000017), 8, (1, 3000017)),  # too many of those
    ],
)
def test_chunks_have_about_a_megabyte(shape: tuple[int, ...], itemsize: int, chunk: tuple[int, ...]) -> None:
    assert split_contiguous(shape, itemsize) == chunk


def test_without_uneven_chunks_a_run_stays_whole() -> None:
    assert split_contiguous((10007 * 100,), 8, uneven=False) == (100070,)
    assert split_contiguous((10000019,), 8, uneven=False) == (10000019,)


def test_large_arrays_have_a_bounded_number_of_chunks() -> None:
    chunk = split_contiguous((2**20, 2**20), 8)
    assert 2**43 // (math.prod(chunk) * 8) <= 2**17
