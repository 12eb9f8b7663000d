"""The kernel's functions for elements of variable length, against Python; and invalid arguments."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil import _kernel

VIEW = np.dtype([("offset", "u8"), ("length", "u4"), ("buffer", "u4")])
elements = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(str.encode), min_size=3, max_size=3
)


def encoded(values: list[bytes]) -> bytes:
    return struct.pack("<I", len(values)) + b"".join(struct.pack("<I", len(value)) + value for value in values)


def decoded(
    chunks: list[bytes], fill: bytes, count: int = 3, codecs: list | None = None
) -> tuple[np.ndarray, list, list, np.ndarray]:
    there = [[-1 - i, 0, len(chunk)] for i, chunk in enumerate(chunks)]
    rows = np.array([*there, [_kernel.MISSING, 0, 0]], np.int64)
    views, lengths = np.zeros(len(rows) * count, VIEW), np.empty(len(rows), np.int64)
    made, failures = _kernel.decode_elements(
        codecs or [], (count, True, fill), None, chunks, rows, 2**20, 1, views, lengths, 2
    )
    return views, [fill, *made], failures, lengths


@given(st.lists(elements, max_size=5), st.sampled_from([b"", b"x", "ü".encode()]))
def test_chunks_are_decoded_and_encoded(chunks: list[list[bytes]], fill: bytes) -> None:
    views, heap, failures, lengths = decoded([encoded(values) for values in chunks], fill)
    assert failures == []
    assert lengths.tolist() == [*[48] * len(chunks), -1]
    objects = _kernel.elements_to_objects(heap, views, False)
    assert objects[: 3 * len(chunks)] == [value for values in chunks for value in values]
    for view, value in zip(views, objects, strict=True):
        assert value != fill or view["buffer"] == 0
        assert value or view.tobytes() == bytes(16)
    before = views.tobytes()
    compacted = _kernel.compact_elements(heap, views, 1)
    assert _kernel.elements_to_objects([fill, compacted], views, False) == objects
    views = np.frombuffer(before, VIEW)
    rows = np.array([[-1, 48 * i, 48] for i in range(len(chunks))] + [[-1, 0, -1]], np.int64)
    out = np.empty(len(rows), np.int64)
    segments, table, failures = _kernel.encode_elements([("zstd", 1, False)], heap, [views], rows, 2, out)
    assert (failures, out[-1], table[-1]) == ([], -1, len(rows))
    again = [(("zstd", 1, False))]
    joined, at = b"".join(bytes(segment) for segment in segments), 0
    for values, size in zip(chunks, out.tolist(), strict=False):
        views, heap, failures, _ = decoded([joined[at : at + size]], fill, codecs=again)
        assert _kernel.elements_to_objects(heap, views, False)[:3] == values
        at += size


@given(st.binary(max_size=30), st.booleans())
def test_any_bytes_are_decoded_or_refused(data: bytes, counted: bool) -> None:
    data = struct.pack("<I", 3) + data if counted else data
    views, heap, failures, lengths = decoded([data], b"")
    if failures:
        assert failures[0][:2] == (0, _kernel.FAILED_DECODE)
        assert lengths.tolist() == [-1, -1]
    else:
        assert encoded(_kernel.elements_to_objects(heap, views, False)[:3]) == data


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_views_that_reach_outside_are_refused(offset: int, length: int, buffer: int) -> None:
    heap, views = [b"", b"abc"], np.array([(offset, length, buffer)], VIEW)
    inside = buffer < 2 and offset + length <= len(heap[buffer])
    strings = np.empty(1, np.dtypes.StringDType())
    rows, out = np.array([[-1, 0, 16]], np.int64), np.empty(1, np.int64)
    if inside:
        assert _kernel.elements_to_objects(heap, views, False) == [heap[buffer][offset : offset + length]]
        return
    with pytest.raises(ValueError, match="outside"):
        _kernel.elements_to_objects(heap, views, False)
    with pytest.raises(ValueError, match="outside"):
        _kernel.elements_to_strings(heap, views, None, strings)
    assert _kernel.encode_elements([], heap, [views], rows, 1, out)[2][0][1] == _kernel.FAILED_SIZE
    if buffer:
        with pytest.raises(ValueError, match="outside"):
            _kernel.compact_elements(heap, views, 1)


def test_strings_round_trip() -> None:
    dtype = np.dtypes.StringDType(na_object=None)
    strings = np.array(["", "short", "x" * 20, "y" * 300, None, "ü"], dtype)
    views, valid = np.empty(6, VIEW), np.empty(6, np.uint8)
    made = _kernel.elements_of_strings(strings, b"ab", 1, views, valid, 2)
    assert valid.tolist() == [1, 1, 1, 1, 0, 1]
    again = np.empty(6, dtype)
    _kernel.elements_to_strings([b"ab", *made], views, valid, again)
    assert again.tolist() == strings.tolist()
    with pytest.raises(ValueError, match="missing"):
        _kernel.elements_of_strings(strings, b"ab", 1, views, None, 1)


@pytest.mark.parametrize("threads", [1, 2, 3, 100])
def test_threads_take_parts_of_many_strings(threads: int) -> None:
    count = 50_001
    strings = np.array([f"{i:x}" * (i % 9) for i in range(count)], np.dtypes.StringDType(na_object=None))
    strings[::1000] = None
    views, valid = np.empty(count, VIEW), np.empty(count, np.uint8)
    made = _kernel.elements_of_strings(strings, b"ab", 3, views, valid, threads)
    assert len(made) == threads
    again = np.empty(count, strings.dtype)
    _kernel.elements_to_strings([b"ab", b"", b"", *made], views, valid, again)
    assert again.tolist() == strings.tolist()
    with pytest.raises(ValueError, match="missing"):
        _kernel.elements_of_strings(strings, b"ab", 3, views, None, threads)


@pytest.mark.parametrize(
    "strings",
    [
        np.zeros(2, "U3"),
        np.zeros(2, object),
        np.zeros((4,), np.dtypes.StringDType())[::2],
        np.zeros(3, np.dtypes.StringDType()),
        ["a", "b"],
    ],
)
def test_other_arrays_are_refused(strings: object) -> None:
    views = np.zeros(2, VIEW)
    with pytest.raises((ValueError, AttributeError)):
        _kernel.elements_to_strings([b""], views, None, strings)
    with pytest.raises((ValueError, AttributeError)):
        _kernel.elements_of_strings(strings, b"", 1, views, None, 1)


def test_read_only_strings_are_not_written() -> None:
    strings = np.zeros(2, np.dtypes.StringDType())
    strings.flags.writeable = False
    with pytest.raises(ValueError, match="strings"):
        _kernel.elements_to_strings([b""], np.zeros(2, VIEW), None, strings)
