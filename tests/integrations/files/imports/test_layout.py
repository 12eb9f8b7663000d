"""Chunks and shards chosen by an import."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.integrations.files.imports.layout import LayoutOptions, choose_chunks, choose_layout, choose_shards
from frazil.integrations.files.scanned import ScannedArray, no_chunks

MIB = 2**20
SHAPES = st.lists(st.integers(0, 5000), max_size=5).map(tuple)


def scanned(shape: tuple[int, ...], chunks: tuple[int, ...], *, chunked: bool = True) -> ScannedArray:
    names = tuple([f"d{axis}" for axis in range(len(shape))])
    dtype = np.dtype("<f4")
    fill = np.float32(0)
    return ScannedArray("a", shape, dtype, chunks, (), fill, {}, names, no_chunks(len(shape)), (), chunked)


@given(SHAPES, st.sampled_from([1, 2, 4, 8, 16]), st.data())
def test_chunks_have_about_a_megabyte_and_shards_are_multiples(
    shape: tuple[int, ...], itemsize: int, data: st.DataObject
) -> None:
    stored = data.draw(st.none() | st.tuples(*[st.integers(1, max(extent, 1)) for extent in shape]))
    chunks, reason = choose_chunks(shape, itemsize, stored)
    whole = prod(max(extent, 1) for extent in shape) * itemsize
    assert len(chunks) == len(shape) and all(extent >= 1 for extent in chunks) and reason
    assert prod(chunks) * itemsize <= 4 * MIB
    assert prod(chunks) * itemsize >= min(whole, MIB // 16)
    shards = choose_shards(shape, chunks, itemsize, stored, 2**28)
    if shards is None:
        assert all(chunk >= extent for chunk, extent in zip(chunks, shape, strict=True))
    else:
        assert all(shard % chunk == 0 for shard, chunk in zip(shards, chunks, strict=True))
        assert prod(shards) * itemsize <= 64 * MIB
        covered = all(shard >= extent for shard, extent in zip(shards, shape, strict=True))
        assert covered or prod(shards) * itemsize >= 16 * MIB


def test_maps_and_series_read_about_as_many_chunks() -> None:
    chunks, _ = choose_chunks((500, 1024, 1024), 4, None)
    maps = prod(-(-1024 // extent) for extent in chunks[1:])
    series = -(-500 // chunks[0])
    assert 1 / 4 <= maps / series <= 4
    assert choose_shards((500, 1024, 1024), chunks, 4, None, 2**28) == (chunks[0], 1024, 1024), "32 MiB"


def test_an_era_variable_is_more_than_one_chunk() -> None:
    assert choose_chunks((2, 3, 241, 480), 2, None)[0] == (1, 3, 241, 480)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ((10, 128, 128), (10, 128, 128)),  # 640 KiB
        ((1, 128, 128), (16, 128, 128)),  # 64 KiB: merged
        ((100, 512, 512), (25, 64, 128)),  # 100 MiB: split, and each part is in one chunk of the file
    ],
)
def test_chunks_of_the_file_are_kept_put_together_or_cut(stored: tuple[int, ...], expected: tuple[int, ...]) -> None:
    chunks, reason = choose_chunks((1000, 1024, 1024), 4, stored)
    assert all(a % b == 0 or b % a == 0 for a, b in zip(chunks, stored, strict=True))
    assert "file" in reason
    assert prod(chunks) * 4 <= 1.25 * MIB
    if stored[0] == 10:
        assert chunks == expected


def test_shards_hold_whole_chunks_of_the_file() -> None:
    stored = (24, 100, 100)
    chunks, _ = choose_chunks((240, 1000, 1000), 4, stored)
    shards = choose_shards((240, 1000, 1000), chunks, 4, stored, 2**28)
    assert shards is not None
    assert all(shard % part == 0 or shard >= 240 for shard, part in zip(shards, stored, strict=True))


def test_a_small_budget_makes_small_shards() -> None:
    chunks, _ = choose_chunks((500, 1024, 1024), 4, None)
    shards = choose_shards((500, 1024, 1024), chunks, 4, None, 16 * MIB)
    assert shards is not None and prod(shards) * 4 <= 4 * MIB


def test_layouts_that_the_user_gives() -> None:
    array = scanned((100, 200, 300), (10, 20, 30))
    assert choose_layout(array, LayoutOptions("same", None), 2**28)[:2] == ((10, 20, 30), None)
    assert choose_layout(array, LayoutOptions((5, 5, 5), (50, 50, 50)), 2**28)[:2] == ((5, 5, 5), (50, 50, 50))
    named = choose_layout(array, LayoutOptions({"d0": 7}, {"d1": 250}), 2**28)
    assert named.chunks == (7, 200, 300) and named.shards == (105, 400, 300)
    assert "as requested" in named.reason
    auto = choose_layout(array, LayoutOptions(), 2**28)
    assert choose_layout(array, LayoutOptions((5, 5), {"x": 5}), 2**28) == auto, "of another rank, of another name"
    for bad in ("big", 0, (1, 0, 1), {"d0": True}):
        with pytest.raises(InvalidInputError):
            choose_layout(array, LayoutOptions(bad), 2**28)  # type: ignore[arg-type]
