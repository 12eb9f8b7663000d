"""encode_chunks and encode_bytes against the reference: decoded by other libraries, and equal bytes for any number of threads."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from frazil import _kernel
from tests.kernel import reference
from tests.kernel.cases import COMPRESSORS, Draw, Stored, arrays, codecs, columns, layouts, recipes, store
from tests.kernel.reference import Recipe
from tests.kernel.test_decode import encoded, placed

Old = tuple[_kernel.Files | None, list[bytes], NDArray[np.int64]]


def old_columns(stored: Stored) -> Old:
    return stored.files, stored.buffers, stored.rows


def group_columns(draw: Draw, n: int) -> NDArray[np.int64]:
    cuts = draw(st.lists(st.integers(0, n), max_size=3))
    return np.array(sorted([0, *cuts, n]), np.int64)


def values_of(answer: tuple[Any, ...], lengths: NDArray[np.int64], groups: NDArray[np.int64]) -> list[bytes | None]:
    """The encoded chunks in the segments, after checking that these fulfil the contract."""
    segments, table, failures = answer
    assert failures == []
    assert table[0] == 0
    assert table[-1] == len(lengths)
    assert len(table) == len(segments) + 1
    values: list[bytes | None] = []
    for segment, low, high in zip(segments, table[:-1], table[1:], strict=True):
        assert any(a <= low and high <= b for a, b in itertools.pairwise(groups))
        at, view = 0, memoryview(segment)
        for length in lengths[low:high]:
            values.append(None if length < 0 else bytes(view[at : at + length]))
            at += max(int(length), 0)
        assert at == len(segment) == len(view)
    return values


def check(recipe: Recipe, values: list[bytes | None], chunks: list[NDArray[Any]], keep_fill: bool) -> None:
    fill = reference.filled(recipe).tobytes()
    for value, chunk in zip(values, chunks, strict=True):
        assert (value is None) == (not keep_fill and chunk.tobytes() == fill)
        if value is not None:
            assert reference.decode_chunk(recipe, value).tobytes() == chunk.tobytes()
            if all(codec == ("crc32c",) for codec in recipe.codecs):
                assert value == reference.encode_chunk(recipe, chunk)


@given(st.data())
def test_chunks_encode_to_what_the_reference_decodes(data: st.DataObject) -> None:
    recipe = data.draw(recipes())
    layout = data.draw(layouts(recipe, apart=False))
    n = len(layout.boxes)
    source = data.draw(arrays(layout.places, recipe.itemsize, zeros=True))
    old = encoded(data.draw, recipe, n) if data.draw(st.booleans()) else None
    keep_fill, groups = data.draw(st.booleans()), group_columns(data.draw, n)
    chunks = reference.gather_chunks(recipe, source, layout.boxes, old or [None] * n)
    box = (layout.which, layout.entries, layout.runs)
    program = _kernel.program(*recipe)
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        held = old_columns(placed(data.draw, folder, old)) if old is not None else None
        for threads in (1, 4):
            lengths = np.zeros(n, np.int64)
            answer = _kernel.encode_chunks(program, source, box, held, groups, keep_fill, threads, lengths)
            answers.append(values_of(answer, lengths, groups))
    check(recipe, answers[0], chunks, keep_fill)
    assert answers[0] == answers[1]


@given(st.data())
def test_points_encode_to_what_the_reference_decodes(data: st.DataObject) -> None:
    recipe = data.draw(recipes())
    n = data.draw(st.integers(0, 4))
    elements = int(np.prod(recipe.shape))
    positions = [data.draw(st.lists(st.integers(0, elements - 1), max_size=6)) for _ in range(n)]
    if n and elements <= 40:
        positions[0] = [*positions[0], *data.draw(st.permutations(range(elements)))]  # covers the chunk
    first = np.cumsum([0, *map(len, positions)], dtype=np.int64)
    source = data.draw(arrays((5,), recipe.itemsize, zeros=True))
    places = np.array([data.draw(st.integers(0, 4)) for _ in range(first[-1])], np.int64)
    points = np.stack([np.array([p for chunk in positions for p in chunk], np.int64), places], axis=1)
    old = encoded(data.draw, recipe, n)
    chunks = []
    for i, (value, chunk) in enumerate(zip(old, positions, strict=True)):
        whole = reference.filled(recipe) if value is None else reference.decode_chunk(recipe, value).copy()
        flat = whole.reshape(-1)
        for position, at in zip(chunk, places[first[i] : first[i + 1]], strict=True):
            flat[position] = source[at]
        chunks.append(flat.reshape(recipe.shape))
    keep_fill, groups = data.draw(st.booleans()), group_columns(data.draw, n)
    lengths = np.zeros(n, np.int64)
    with tempfile.TemporaryDirectory() as folder:
        held = old_columns(placed(data.draw, folder, old))
        answer = _kernel.encode_chunks(
            _kernel.program(*recipe), source, (first, points), held, groups, keep_fill, 3, lengths
        )
    check(recipe, values_of(answer, lengths, groups), chunks, keep_fill)


@given(codecs, st.lists(st.binary(min_size=1, max_size=500), max_size=5))
def test_bytes_encode_to_what_the_reference_decodes(chain: tuple[Any, ...], values: list[bytes]) -> None:
    for segment, value in zip(_kernel.encode_bytes(chain, values, 2), values, strict=True):
        found = bytes(segment)
        for codec in reversed(chain):
            found = reference.decode_with(codec, found)
        assert found == value


def smooth(n: int) -> NDArray[np.uint16]:
    x = np.sin(np.arange(n) / 20)
    return (1000 * (x[:, None] + x) + np.random.default_rng(0).integers(0, 8, (n, n)) + 3000).astype(np.uint16)


@pytest.mark.parametrize("codec", [*COMPRESSORS, *(("zstd", level, False) for level in range(2, 19))], ids=str)
def test_bytes_do_not_depend_on_threads_nor_on_what_came_before(codec: Any) -> None:
    image = smooth(512)
    recipe = Recipe((64, 512), 2, (0, 1), (), (codec,), b"\0\0")
    program = _kernel.program(*recipe)
    box = columns([[[(0, 64, 1, 64 * i)], [(0, 512, 1, 0)]] for i in range(8)], 2)
    groups, answers = np.array([0, 3, 8]), []
    for threads in (1, 4, 2):
        lengths = np.zeros(8, np.int64)
        answer = _kernel.encode_chunks(program, image, box, None, groups, True, threads, lengths)
        answers.append(values_of(answer, lengths, groups))
    alone = [bytes(*_kernel.encode_bytes((codec,), [image[64 * i : 64 * i + 64]], 1)) for i in (5, 0, 5)]
    assert answers[0] == answers[1] == answers[2]
    assert alone == [answers[0][i] for i in (5, 0, 5)]
    check(recipe, answers[0], [image[64 * i : 64 * i + 64].view("V2") for i in range(8)], True)


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("itemsize", [1, 2, 3, 4, 8, 16])
def test_large_transposed_chunks_are_stored_as_the_reference_stores_them(itemsize: int, swap: bool) -> None:
    shape = (70, 33, 50)
    raw = np.random.default_rng(0).integers(0, 256, int(np.prod(shape)) * itemsize, np.uint8)
    source = raw.view(f"V{itemsize}").reshape(shape)
    for order in itertools.permutations(range(3)):
        recipe = Recipe(shape, itemsize, order, ((0, itemsize, 1),) if swap else (), (), bytes(itemsize))
        program = _kernel.program(*recipe)
        box = columns([[[(0, extent, 1, 0)] for extent in shape]], 3)
        lengths, groups = np.zeros(1, np.int64), np.array([0, 1])
        answer = _kernel.encode_chunks(program, source, box, None, groups, True, 2, lengths)
        check(recipe, values_of(answer, lengths, groups), [source], True)
        out = np.zeros_like(source)
        rows = np.array([[-1, 0, -1]])
        assert _kernel.decode_chunks(program, None, answer[0], rows, None, box, out, 2) == []
        assert out.tobytes() == source.tobytes()


def test_a_zstd_frame_has_its_size() -> None:
    zstandard = pytest.importorskip("zstandard")
    for checksum in (False, True):
        (segment,) = _kernel.encode_bytes([("zstd", 3, checksum)], [b"abc" * 1000], 1)
        parameters = zstandard.get_frame_parameters(bytes(segment))
        assert (parameters.content_size, parameters.has_checksum) == (3000, checksum)


def test_fill_is_compared_by_bytes() -> None:
    box = columns([[[(0, 4, 1, 0)]]], 1)
    groups = np.array([0, 1])
    nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    for fill, values, emitted in [
        (0.0, [0.0] * 4, False),
        (0.0, [0.0, 0.0, -0.0, 0.0], True),
        (np.nan, [np.nan] * 4, False),
        (np.nan, [np.nan, nan[0], np.nan, np.nan], True),
    ]:
        program = _kernel.program((4,), 8, (0,), [(0, 8, 1)], [("crc32c",)], np.float64(fill).tobytes())
        lengths = np.zeros(1, np.int64)
        _kernel.encode_chunks(program, np.array(values), box, None, groups, False, 1, lengths)
        assert lengths[0] == (36 if emitted else -1)


def test_a_covered_chunk_does_not_read_the_old_one(tmp_path: Path) -> None:
    program = _kernel.program((4,), 2, (0,), [], [("crc32c",)], b"\0\0")
    stored = store(tmp_path, [b"not a chunk", b"not a chunk"], lambda i: "file")
    source = np.arange(8, dtype=np.uint16)
    boxes = [[[(0, 4, 1, 0)]], [[(0, 2, 2, 4), (1, 2, 2, 6)]], [[(0, 3, 1, 0)]]]
    lengths, groups = np.zeros(3, np.int64), np.array([0, 3])
    rows = np.concatenate([stored.rows, stored.rows[:1]])
    answer = _kernel.encode_chunks(
        program, source, columns(boxes, 1), (stored.files, [], rows), groups, True, 1, lengths
    )
    assert [(unit, code) for unit, code, _ in answer[2]] == [(2, _kernel.FAILED_SIZE)]
    (segment,) = answer[0]
    chunks = (source[:4].tobytes(), source[[4, 6, 5, 7]].tobytes())
    assert bytes(segment) == b"".join(chunk + _kernel.crc32c(chunk).to_bytes(4, "little") for chunk in chunks)
    assert lengths.tolist() == [12, 12, 0]


def test_a_segment_is_frozen_bytes() -> None:
    (segment,) = _kernel.encode_bytes([], [b"abc"], 1)
    view = memoryview(segment)
    del segment
    assert view.readonly
    assert bytes(view) == b"abc"
    with pytest.raises(TypeError):
        view[0] = 1
