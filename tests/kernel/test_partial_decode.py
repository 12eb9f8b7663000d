"""Chunks that are decoded only in part, as a selection needs no more: against the same chunks decoded whole, over codecs, selections and damage."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from frazil import _kernel
from tests.kernel.reference import Codec

SHAPE = (40, 50, 96)  # with 8 bytes per element, a dozen blocks of zstd
PLAIN = ("zstd", 3, False)

codecs: list[Codec] = [
    *(("zstd", level, checksum) for level in (-5, 3, 15) for checksum in (False, True)),
    *(
        ("blosc", name, level, shuffle, typesize, blocksize)
        for name in ("lz4", "lz4hc", "blosclz", "zstd", "zlib", "snappy")
        for level, shuffle, typesize, blocksize in (
            (5, 1, 8, 0), (5, 1, 8, 65536), (5, 1, 4, 40_000), (5, 0, 8, 65536), (5, 2, 8, 65536), (0, 1, 8, 65536),
        )
    ),
    ("lz4", 1),
    ("gzip", 1),
]  # fmt: skip
chains = st.one_of(
    st.sampled_from(codecs).map(lambda codec: (codec,)),
    st.sampled_from(codecs).map(lambda codec: (codec, ("crc32c",))),
    st.sampled_from(codecs).map(lambda codec: (("crc32c",), codec)),
    st.sampled_from(codecs).map(lambda codec: (codec, PLAIN)),
)


class Case(NamedTuple):
    program: _kernel.Program
    values: NDArray[Any]
    encoded: bytes


@st.composite
def cases(draw: st.DrawFn, chains: st.SearchStrategy[tuple[Codec, ...]] = chains) -> Case:
    itemsize = draw(st.sampled_from([2, 8]))
    order = tuple(draw(st.permutations(range(len(SHAPE)))))
    program = _kernel.program(SHAPE, itemsize, order, (), draw(chains), b"\0" * itemsize)
    noise = draw(st.sampled_from([0, 3, 1 << 14]))
    random = np.random.default_rng(draw(st.integers(0, 9)))
    values = np.add.outer(np.add.outer(np.arange(40) ** 2, np.arange(50) * 3), np.arange(96) // 7)
    values = (values + random.integers(0, noise + 1, SHAPE)).astype(f"u{itemsize}")
    whole = tuple((0, extent, 1, 0) for extent in SHAPE)
    segments, _, failures = _kernel.encode_chunks(
        program, values, _columns(whole), None, np.array([0, 1]), True, 1, np.empty(1, np.int64)
    )
    assert not failures
    return Case(program, values, bytes(segments[0]))


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, int, int, int], ...]:
    box = []
    for extent in SHAPE:
        start, step = draw(st.integers(0, extent - 1)), draw(st.integers(1, 5))
        most = (extent - 1 - start) // step + 1
        box.append((start, draw(st.sampled_from(sorted({1, most, (most + 1) // 2}))), step, 0))
    return tuple(box)


def _columns(box: tuple[tuple[int, int, int, int], ...]) -> tuple[NDArray[np.int64], ...]:
    rank = len(box)
    entries = np.stack((np.arange(rank), np.ones(rank, np.int64)), axis=1)
    return np.arange(rank, dtype=np.int64)[None], entries, np.array(box, np.int64)


def _decoded(case: Case, encoded: bytes, box: tuple[tuple[int, int, int, int], ...]) -> NDArray[Any] | None:
    """None: it fails."""
    out = np.empty([count for _, count, _, _ in box], case.values.dtype)
    rows = np.array([(-1, 0, len(encoded))], np.int64)
    failures = _kernel.decode_chunks(case.program, None, [encoded], rows, None, _columns(box), out, 1)
    return None if failures else out


def _whole(case: Case, encoded: bytes) -> NDArray[Any] | None:
    return _decoded(case, encoded, tuple((0, extent, 1, 0) for extent in SHAPE))


def _selected(values: NDArray[Any], box: tuple[tuple[int, int, int, int], ...]) -> NDArray[Any]:
    selected: NDArray[Any] = values[tuple(slice(start, start + count * step, step) for start, count, step, _ in box)]
    return selected


@given(cases(), boxes())
def test_a_part_is_the_same_as_of_the_whole(case: Case, box: tuple[tuple[int, int, int, int], ...]) -> None:
    got = _decoded(case, case.encoded, box)
    assert got is not None
    np.testing.assert_array_equal(got, _selected(case.values, box))


@given(cases(), st.lists(st.integers(0, 40 * 50 * 96 - 1), min_size=1, max_size=5))
def test_points_are_the_same_as_of_the_whole(case: Case, positions: list[int]) -> None:
    out = np.empty(len(positions), case.values.dtype)
    points = np.stack((np.array(positions), np.arange(len(positions))), axis=1)
    rows = np.array([(-1, 0, len(case.encoded))], np.int64)
    ends = np.array([0, len(positions)])
    assert not _kernel.decode_chunks(case.program, None, [case.encoded], rows, None, (ends, points), out, 1)
    np.testing.assert_array_equal(out, case.values.ravel()[positions])


@given(cases(), boxes(), st.data())
def test_damage_gives_no_other_values_and_no_other_failures(
    case: Case, box: tuple[tuple[int, int, int, int], ...], data: st.DataObject
) -> None:
    """A part of damaged bytes fails only if the whole does, and is otherwise part of the whole."""
    encoded = bytearray(case.encoded)
    if data.draw(st.booleans()):
        del encoded[data.draw(st.integers(0, len(encoded) - 1)) :]
    for _ in range(data.draw(st.integers(0, 3))):
        if encoded:
            at = data.draw(st.one_of(st.integers(0, min(40, len(encoded) - 1)), st.integers(0, len(encoded) - 1)))
            encoded[at] ^= 1 << data.draw(st.integers(0, 7))
    whole, part = _whole(case, bytes(encoded)), _decoded(case, bytes(encoded), box)
    if whole is not None:
        assert part is not None
        np.testing.assert_array_equal(part, _selected(whole, box))


@given(cases(st.just((PLAIN,))))
def test_damage_behind_the_needed_blocks_is_not_noticed_and_before_them_it_is(case: Case) -> None:
    first = tuple((0, 1, 1, 0) for _ in SHAPE)
    cut = case.encoded[:-1]
    assert _whole(case, cut) is None
    got = _decoded(case, cut, first)
    assert got is not None
    assert got.item() == case.values[0, 0, 0]
    assert _decoded(case, cut, tuple((extent - 1, 1, 1, 0) for extent in SHAPE)) is None
    header = bytearray(case.encoded)
    header[4] ^= 1  # the size in the frame
    assert _decoded(case, bytes(header), first) is None


@pytest.mark.parametrize("chain", [(("zstd", 3, True),), (PLAIN, ("crc32c",)), (("crc32c",), PLAIN)])
@given(data=st.data())
def test_a_checksum_is_of_all_bytes(chain: tuple[Codec, ...], data: st.DataObject) -> None:
    case = data.draw(cases(st.just(chain)))
    damaged = bytearray(case.encoded)
    damaged[-1] ^= 1
    assert _decoded(case, bytes(damaged), tuple((0, 1, 1, 0) for _ in SHAPE)) is None
