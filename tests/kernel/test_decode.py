"""decode_chunks and decode_bytes against the reference, over random programs, boxes, arrays and locations of bytes."""

from __future__ import annotations

import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from frazil import _kernel
from tests.kernel import reference
from tests.kernel.cases import Draw, Stored, arrays, codecs, columns, layouts, recipes, store
from tests.kernel.reference import Recipe

kinds = st.sampled_from(["buffer", "file", "late"])


def random_chunk(recipe: Recipe, seed: int) -> NDArray[Any]:
    raw = np.random.default_rng(seed).integers(0, 4, (int(np.prod(recipe.shape)) * recipe.itemsize,), np.uint8)
    return raw.view(recipe.dtype).reshape(recipe.shape)


def encoded(draw: Draw, recipe: Recipe, n: int) -> list[bytes | None]:
    seeds = [draw(st.one_of(st.none(), st.integers(0, 99))) for _ in range(n)]
    return [None if seed is None else reference.encode_chunk(recipe, random_chunk(recipe, seed)) for seed in seeds]


def placed(draw: Draw, folder: str, values: list[bytes | None]) -> Stored:
    places = [draw(kinds) for _ in values]
    return store(Path(folder), values, places.__getitem__)


@given(st.data())
def test_chunks_decode_as_the_reference_does(data: st.DataObject) -> None:
    recipe = data.draw(recipes())
    layout = data.draw(layouts(recipe, apart=False))
    out = data.draw(arrays(layout.places, recipe.itemsize))
    values = encoded(data.draw, recipe, len(layout.boxes))
    expected = out.copy()
    reference.decode_chunks(recipe, values, layout.boxes, expected)
    with tempfile.TemporaryDirectory() as folder:
        stored = placed(data.draw, folder, values)
        program = _kernel.program(*recipe)
        threads = data.draw(st.integers(1, 4))
        expect = data.draw(st.sampled_from([None, stored.versions]))
        box = (layout.which, layout.entries, layout.runs)
        found = _kernel.decode_chunks(program, stored.files, stored.buffers, stored.rows, expect, box, out, threads)
    assert found == []
    assert out.tobytes() == expected.tobytes()


@given(st.data())
def test_points_decode_as_the_reference_does(data: st.DataObject) -> None:
    recipe = data.draw(recipes())
    n = data.draw(st.integers(0, 4))
    values = encoded(data.draw, recipe, n)
    elements = int(np.prod(recipe.shape))
    positions = [data.draw(st.lists(st.integers(0, elements - 1), max_size=6)) for _ in range(n)]
    first = np.cumsum([0, *map(len, positions)], dtype=np.int64)
    places = np.array(data.draw(st.permutations(range(int(first[-1])))), np.int64)
    points = np.stack([np.array([p for chunk in positions for p in chunk], np.int64), places], axis=1)
    out = data.draw(arrays((len(places),), recipe.itemsize))
    expected = out.copy()
    for i, (value, chunk) in enumerate(zip(values, positions, strict=True)):
        whole = reference.filled(recipe) if value is None else reference.decode_chunk(recipe, value)
        for position, at in zip(chunk, places[first[i] : first[i + 1]], strict=True):
            expected[at] = whole.reshape(-1)[position]
    with tempfile.TemporaryDirectory() as folder:
        s = placed(data.draw, folder, values)
        program = _kernel.program(*recipe)
        found = _kernel.decode_chunks(program, s.files, s.buffers, s.rows, s.versions, (first, points), out, 2)
    assert found == []
    assert out.tobytes() == expected.tobytes()


@given(st.data())
def test_bytes_decode_as_the_reference_does(data: st.DataObject) -> None:
    chain = data.draw(codecs)
    expected = data.draw(st.lists(st.one_of(st.none(), st.binary(min_size=1, max_size=300)), max_size=4))
    values: list[bytes | None] = []
    for value in expected:
        for codec in chain if value is not None else ():
            value = reference.encode_with(codec, value or b"")
        values.append(value)
    with tempfile.TemporaryDirectory() as folder:
        s = placed(data.draw, folder, values)
        limits = np.array([len(value or b"") + data.draw(st.sampled_from([0, 100])) for value in expected], np.int64)
        lengths = np.zeros(len(expected), np.int64)
        segments, failures = _kernel.decode_bytes(chain, s.files, s.buffers, s.rows, limits, lengths, 3)
    assert failures == []
    assert lengths.tolist() == [-1 if value is None else len(value) for value in expected]
    assert [bytes(segment) for segment in segments] == [value or b"" for value in expected]


@given(st.data())
def test_rows_are_read_as_they_are(data: st.DataObject) -> None:
    values = data.draw(st.lists(st.binary(max_size=200), max_size=6))
    with tempfile.TemporaryDirectory() as folder:
        s = placed(data.draw, folder, list(values))
        offsets = np.cumsum([3, *map(len, values)], dtype=np.int64)
        out = bytearray(b"x" * (int(offsets[-1]) + 2))
        assert _kernel.read_rows(s.files, s.buffers, s.rows, out, offsets, 2) == []
        assert out == b"xxx" + b"".join(values) + b"xx"
        checksums = np.full(len(values), -1)
        assert _kernel.crc32_rows(s.files, s.buffers, s.rows, checksums, 2) == []
        assert checksums.tolist() == [zlib.crc32(value) for value in values]
        if values:
            offsets[-1] += 1
            ((unit, code, _),) = _kernel.read_rows(s.files, s.buffers, s.rows, out, offsets, 2)
            assert (unit, code) == (len(values) - 1, _kernel.FAILED_RANGE)


BIG = {
    "inner": ((128, 96, 64), [[(0, 128, 1, 0)], [(0, 96, 1, 0)], [(0, 64, 1, 0)]]),
    "plane": ((128, 96, 64), [[(0, 128, 1, 0)], [(5, 1, 1, 0)], [(0, 64, 1, 0)]]),
    "column": ((1024, 1024), [[(0, 1024, 1, 0)], [(17, 1, 1, 0)]]),
    "comb": ((1024, 1024), [[(0, 64, 16, 0)], [(3, 300, 2, 0), (1000, 20, 1, 300)]]),
    "few": ((1024, 1024), [[(9, 1, 1, 0), (700, 1, 1, 1), (3, 1, 1, 2)], [(3, 1, 1, 0), (1000, 20, 1, 1)]]),
    "line": ((2**20,), [[(1000, 900_000, 1, 0)]]),
    "thin": ((2**20,), [[(1000, 9, 100_000, 0)]]),
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("chain", [(), (("zstd", 1, False),), (("crc32c",),)])
@pytest.mark.parametrize("name", BIG)
def test_large_chunks_in_files(tmp_path: Path, name: str, chain: Any, order: str) -> None:
    shape, box = BIG[name]
    axes = tuple(range(len(shape)))
    recipe = Recipe(shape, 2, axes if order == "C" else axes[::-1], (), chain, b"\0\0")
    chunks = [np.random.default_rng(seed).integers(0, 999, shape, np.uint16) for seed in range(2)]
    values: list[bytes | None] = [
        reference.encode_chunk(recipe._replace(codecs=()), chunk.view("V2")) for chunk in chunks
    ]
    if chain == (("crc32c",),):
        values = [value + _kernel.crc32c(value).to_bytes(4, "little") for value in values if value]
    elif chain:
        values = [reference.encode_with(chain[0], value) for value in values if value]
    stored = store(tmp_path, values, lambda i: "file")
    places = tuple(sum(run[1] for run in runs) for runs in box)
    out = np.zeros((*places, 2) if order == "F" else (2, *places), np.uint16)
    for unit, chunk in enumerate(chunks):
        view = out[..., unit] if order == "F" else out[unit]
        program = _kernel.program(*recipe)
        rows = stored.rows[unit : unit + 1]
        found = _kernel.decode_chunks(
            program, stored.files, [], rows, stored.versions, columns([box], len(shape)), view, 2
        )
        assert found == []
        picked = chunk[np.ix_(*[[s + i * p for s, c, p, _ in runs for i in range(c)] for runs in box])]
        assert (view == picked).all()
    program, rows = _kernel.program(*recipe), stored.rows[1:]
    positions = np.random.default_rng(1).integers(0, chunks[1].size, 50)
    points = np.stack([positions, np.arange(50)], axis=1)
    few = np.zeros(50, np.uint16)
    first = np.array([0, 50])
    assert _kernel.decode_chunks(program, stored.files, [], rows, None, (first, points), few, 2) == []
    assert (few == chunks[1].reshape(-1)[positions]).all()


def test_many_chunks_are_shared_among_threads(tmp_path: Path) -> None:
    recipe = Recipe((16, 16), 2, (0, 1), (), (("zstd", 1, True),), b"\x07\0")
    image = np.random.default_rng(0).integers(0, 50, (640, 640), np.uint16)
    values: list[bytes | None] = []
    boxes = []
    for i in range(40):
        for j in range(40):
            tile = image[16 * i : 16 * i + 16, 16 * j : 16 * j + 16]
            values.append(None if (i + j) % 7 == 0 else reference.encode_chunk(recipe, tile.view("V2")))
            tile[...] = 7 if values[-1] is None else tile
            boxes.append([[(0, 16, 1, 16 * i)], [(0, 16, 1, 16 * j)]])
    stored = store(tmp_path, values, lambda i: "buffer" if i % 5 == 0 else "file")
    program = _kernel.program(*recipe)
    for threads in (1, 2, 5):
        out = np.zeros_like(image)
        shuffled = np.random.default_rng(threads).permutation(len(values))
        index, entries, runs = columns(boxes, 2)
        found = _kernel.decode_chunks(
            program,
            stored.files,
            stored.buffers,
            stored.rows[shuffled],
            None,
            (index[shuffled], entries, runs),
            out,
            threads,
        )
        assert found == []
        assert (out == image).all()
