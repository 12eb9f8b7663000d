"""Random programs, boxes, arrays and locations of bytes for the kernel's property tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from frazil import _kernel
from tests.kernel.reference import Box, Codec, Recipe, Run

COMPRESSORS: list[Codec] = [
    *(("zstd", level, checksum) for level in (0, 1, 19, -5) for checksum in (False, True)),
    *((name, level) for name in ("gzip", "zlib") for level in (0, 1, 6, 9)),
    *(("lz4", acceleration) for acceleration in (-1, 1, 50)),
    *(
        ("blosc", name, 5, s, t, 0)
        for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
        for s, t in ((0, 1), (1, 2), (2, 4))
    ),
]

CHECKSUMS: list[Codec] = [("crc32c",), ("fletcher32",)]
SHUFFLES: list[Codec] = [("shuffle", size) for size in (1, 2, 3, 4, 8, 16, 1000)]

Draw = Callable[..., Any]  # the draw function, in a test: data.draw

codecs = st.lists(
    st.sampled_from(CHECKSUMS) | st.sampled_from(SHUFFLES) | st.sampled_from(COMPRESSORS), max_size=3
).map(tuple)
small = st.integers(1, 6)


@st.composite
def swaps(draw: st.DrawFn, itemsize: int) -> tuple[tuple[int, int, int], ...]:
    whole = [width for width in range(1, itemsize + 1) if itemsize % width == 0]
    if draw(st.booleans()):
        width = draw(st.sampled_from(whole))
        return draw(st.sampled_from([(), ((0, width, itemsize // width),)]))
    fields, at = [], draw(st.integers(0, 2))
    while at < itemsize:
        width = draw(st.integers(1, itemsize - at))
        count = draw(st.integers(0, (itemsize - at) // width))
        fields.append((at, width, count))
        at += max(width * count, 1)
    return tuple(fields)


@st.composite
def recipes(draw: st.DrawFn, chains: st.SearchStrategy[tuple[Codec, ...]] = codecs) -> Recipe:
    shape = tuple(draw(st.lists(small, max_size=4)))
    itemsize = draw(st.sampled_from([1, 2, 3, 4, 5, 8, 16]))
    fill = draw(st.sampled_from([b"\0" * itemsize, b"\xff" * itemsize, bytes(range(1, itemsize + 1))]))
    order = tuple(draw(st.permutations(range(len(shape)))))
    return Recipe(shape, itemsize, order, draw(swaps(itemsize)), draw(chains), fill)


@st.composite
def runs(draw: st.DrawFn, extent: int, low: int, high: int, apart: bool) -> list[Run]:
    """Runs of a dimension of a chunk whose places are in [low, high); `apart`: no element of the chunk twice."""
    if draw(st.booleans()) and high - low >= extent:
        return [(0, extent, 1, low)]
    found: list[Run] = []
    free, at = list(range(extent)), low
    for _ in range(draw(st.integers(0, 3))):
        if not free or at >= high:
            break
        start = draw(st.sampled_from(free))
        step = draw(st.integers(1, 3))
        count = draw(st.integers(1, min((extent - 1 - start) // step + 1, high - at)))
        used = range(start, start + count * step, step)
        if apart and not set(used) <= set(free):
            continue
        free = [i for i in free if not apart or i not in used]
        found.append((start, count, step, at))
        at += count + draw(st.integers(0, 1))
    return draw(st.permutations(found))


class Layout(NamedTuple):
    """Boxes of several chunks, as values and as columns, and the shape of the array that they need."""

    boxes: Sequence[Box]
    which: NDArray[np.int64]
    entries: NDArray[np.int64]
    runs: NDArray[np.int64]
    places: tuple[int, ...]


def columns(boxes: Sequence[Box], dimensions: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    entries: list[tuple[int, int]] = []
    rows: list[Run] = []
    index: list[list[int]] = []
    for box in boxes:
        index.append([])
        for along in box:
            index[-1].append(len(entries))
            entries.append((len(rows), len(along)))
            rows.extend(along)
    shaped = np.array(index, np.int64).reshape(len(boxes), dimensions)
    return shaped, np.array(entries, np.int64).reshape(-1, 2), np.array(rows, np.int64).reshape(-1, 4)


@st.composite
def layouts(draw: st.DrawFn, recipe: Recipe, *, apart: bool = True) -> Layout:
    """Each chunk has its own part of the array along dimension 0."""
    d = len(recipe.shape)
    n = draw(st.integers(0, 5)) if d else 1
    widths = [draw(st.integers(1, extent + 2)) for extent in recipe.shape]
    boxes = []
    for unit in range(n):
        low = [unit * widths[0] if i == 0 else 0 for i in range(d)]
        boxes.append([draw(runs(e, at, at + w, apart)) for e, at, w in zip(recipe.shape, low, widths, strict=True)])
    places = tuple(widths[i] * max(n, 1) if i == 0 else widths[i] for i in range(d))
    return Layout(boxes, *columns(boxes, d), places)


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...], itemsize: int, *, zeros: bool = False) -> NDArray[Any]:
    """An array with any strides: part of a larger one, its axes reversed and swapped; `zeros`: some of its strides may be 0."""
    steps = [draw(st.sampled_from([1, 1, -1, 2, -3])) for _ in shape]
    order = draw(st.permutations(range(len(shape))))
    base_shape = [shape[i] * abs(steps[i]) + 1 for i in order]
    seed = draw(st.integers(0, 2**32 - 1))
    alphabet = draw(st.sampled_from([1, 3, 256]))
    raw = np.random.default_rng(seed).integers(0, alphabet, (int(np.prod(base_shape)) * itemsize,), np.uint8)
    array = raw.view(f"V{itemsize}").reshape(base_shape).transpose(np.argsort(order).tolist() if order else ())
    for i, step in enumerate(steps):
        first = 0 if step > 0 else shape[i] * -step
        index = [slice(None)] * len(shape)
        index[i] = slice(first, None, step)
        array = array[tuple(index)]
        index[i] = slice(0, shape[i])
        array = array[tuple(index)]
    if zeros and shape and draw(st.booleans()):
        i = draw(st.integers(0, len(shape) - 1))
        array = np.broadcast_to(array[tuple(slice(0, 1) if j == i else slice(None) for j in range(len(shape)))], shape)
    assert array.shape == shape
    return array


class Stored(NamedTuple):
    """Encoded chunks in locations that the kernel supports. A chunk that is None is missing, or its file is."""

    files: _kernel.Files | None
    buffers: list[bytes]
    rows: NDArray[np.int64]
    versions: list[bytes] | None


def store(folder: Path, values: Sequence[bytes | None], where: Callable[[int], str]) -> Stored:
    """Puts each value into the location `where`: "buffer", "file" (stays open) or "late" (opened when it is read); all files are of one kind."""
    kinds = [where(i) for i in range(len(values))]
    lazy = "late" in kinds
    kinds = ["late" if lazy and kind == "file" else kind for kind in kinds]
    shared, buffers, names, rows = bytearray(b"head"), [b"unused"], ["shared"], []
    for i, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        if value is None and not (kind == "late" and i % 2):
            rows.append((_kernel.MISSING, 0, 0))
        elif value is None:
            names.append(f"folder/absent-{i}")
            rows.append((len(names) - 1, 0, -1))
        elif kind == "buffer":
            buffers.append(b"ab" + value + b"c")
            rows.append((-len(buffers), *((2, len(value)), (-1 - len(value), len(value)))[i % 2]))
        elif i % 3 == 0:
            names.append(f"folder/own-{i}")
            (folder / "folder").mkdir(exist_ok=True)
            (folder / names[-1]).write_bytes(b"ab" + value)
            rows.append((len(names) - 1, *((2, len(value)), (2, -1), (-len(value) or 2, -1))[i % 3]))
        else:
            rows.append((0, len(shared), len(value)))
            shared += value + b"gap"
    (folder / "shared").write_bytes(shared)
    root = os.open(folder, os.O_RDONLY)
    stat = None if lazy else np.zeros((len(names), 4), np.int64)
    try:
        files = _kernel.open_files(root, names, stat)
    finally:
        os.close(root)
    versions = None if stat is None else [row[1:].astype("<i8").tobytes() for row in stat]
    return Stored(files, buffers, np.array(rows, np.int64).reshape(-1, 3), versions)
