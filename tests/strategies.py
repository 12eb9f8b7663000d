"""Random layouts of arrays, values and selections, for the property tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

import frazil
from frazil.codecs import Blosc, Bytes, Codec, Crc32c, Gzip, ShardingIndexed, Transpose, Zlib, Zstd

DTYPES = ("bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "complex64", "complex128", "V3")


class Layout(NamedTuple):
    """The arguments of create_array, except fill_value and dtype."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    codecs: tuple[Codec, ...]
    index_location: str


compressors = st.one_of(
    st.builds(Zstd, level=st.integers(-5, 5), checksum=st.booleans()),
    st.builds(Gzip, level=st.integers(0, 9)),
    st.builds(Zlib, level=st.integers(0, 9)),
    st.just(Crc32c()),
    st.builds(
        Blosc,
        cname=st.sampled_from(["blosclz", "lz4", "lz4hc", "zlib", "zstd"]),
        clevel=st.integers(0, 9),
        shuffle=st.sampled_from([None, "noshuffle", "shuffle", "bitshuffle"]),
    ),
)


@st.composite
def chains(draw: st.DrawFn, rank: int, most: int = 2) -> tuple[Codec, ...]:
    """Any valid chain without shards."""
    before = [Transpose(draw(st.permutations(range(rank)))) for _ in range(draw(st.integers(0, 1)))]
    endian = draw(st.sampled_from(["little", "big"]))
    return (*before, Bytes(endian), *draw(st.lists(compressors, max_size=most)))


@st.composite
def index_chains(draw: st.DrawFn, rank: int) -> tuple[Codec, ...]:
    """Any valid chain for a shard index."""
    before = [Transpose(draw(st.permutations(range(rank + 1)))) for _ in range(draw(st.integers(0, 1)))]
    return (*before, Bytes(draw(st.sampled_from(["little", "big"]))), *[Crc32c()] * draw(st.integers(0, 2)))


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Shapes of 0 to 3 dimensions, also of length zero; none, one or two levels of shards; codecs before and after them."""
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(0, 11)) for _ in range(rank))
    inner = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    levels = draw(st.integers(0, 2))
    codecs, extent = draw(chains(rank)), inner
    location = draw(st.sampled_from(["start", "end"]))
    if levels == 0:
        return Layout(shape, inner, None, codecs, location)
    if levels == 1 and draw(st.booleans()):
        shards = tuple(n * draw(st.integers(1, 3)) for n in inner)
        return Layout(shape, inner, shards, codecs, location)
    for _ in range(levels):  # from the inside outwards; `extent` is by the dimensions that `codecs` see
        order = draw(st.permutations(range(rank)))
        sharding = ShardingIndexed(extent, codecs, draw(index_chains(rank)), draw(st.sampled_from(["start", "end"])))
        after = draw(st.lists(compressors, max_size=1)) if draw(st.integers(0, 3)) == 0 else []
        codecs = (Transpose(order), sharding, *after)
        shard = [n * draw(st.integers(1, 3)) for n in extent]
        extent = tuple(shard[order.index(axis)] for axis in range(rank))
    return Layout(shape, extent, None, codecs, location)


@st.composite
def slices(draw: st.DrawFn, length: int) -> slice:
    bound = st.one_of(st.none(), st.integers(-length - 2, length + 2))
    step = draw(st.one_of(st.none(), st.integers(1, 4), st.integers(-4, -1)))
    return slice(draw(bound), draw(bound), step)


@st.composite
def basic_selections(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[object, ...]:
    """Integers and slices, with an Ellipsis and newaxes now and then."""
    parts: list[object] = []
    for length in shape:
        if length and draw(st.booleans()):
            parts.append(draw(st.integers(-length, length - 1)))
        else:
            parts.append(draw(slices(length)))
    if draw(st.booleans()):
        cut = draw(st.integers(0, len(parts)))
        parts = [*parts[:cut], Ellipsis]
    if draw(st.integers(0, 3)) == 0:
        parts.insert(draw(st.integers(0, len(parts))), None)
    return tuple(parts)


@st.composite
def orthogonal_selections(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[object, ...]:
    parts: list[object] = []
    for length in shape:
        kind = draw(st.integers(0, 3))
        if kind == 0 and length:
            parts.append(draw(st.integers(-length, length - 1)))
        elif kind == 1:
            parts.append(draw(slices(length)))
        elif kind == 2 or not length:
            parts.append(np.array(draw(st.lists(st.booleans(), min_size=length, max_size=length)), bool))
        else:
            parts.append(draw(st.lists(st.integers(-length, length - 1), min_size=1, max_size=6)))
    return tuple(parts)


def values(seed: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Any bit patterns (NaN payloads, negative zeros), half of them equal."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    if dtype.kind == "b":
        raw &= 1
    raw[rng.random(shape) < 0.5] = 0
    return np.ascontiguousarray(raw).view(dtype).reshape(shape)


def in_any_memory(draw: st.DrawFn, array: np.ndarray) -> np.ndarray:
    """The same values: contiguous, in Fortran order, with negative strides and gaps, of the other byte order, not aligned; and not writeable."""
    array = np.asarray(array)
    kind = draw(st.sampled_from(["C", "F", "strides", "swapped", "unaligned"]))
    if kind == "F":
        array = np.array(array, order="F")
    elif kind == "strides":
        spread = np.zeros([2 * n + 1 for n in array.shape], array.dtype)
        part = (..., *(slice(2 * n - 1, None, -2) if n else slice(0, 0) for n in array.shape))
        spread[part] = array
        array = spread[part]
    elif kind == "swapped":
        array = array.astype(array.dtype.newbyteorder())
    elif kind == "unaligned" and array.size:
        memory = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
        memory[...] = array
        array = memory
    array.flags.writeable = False
    return array


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal in shape, dtype and every bit."""
    left, right = np.asarray(left), np.asarray(right)
    return (left.shape, left.dtype) == (right.shape, right.dtype) and left.tobytes() == right.tobytes()


def create(location: object, layout: Layout, dtype: str, fill: object = None, **more: object) -> frazil.Array:
    name = "r24" if dtype == "V3" else dtype
    return frazil.create_array(location, dtype=name, fill_value=fill, **layout._asdict(), **more)
