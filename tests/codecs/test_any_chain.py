"""Any valid chain, of our codecs and of users', shards to three levels and codecs of each kind at each place, against NumPy."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.user_codecs import REGISTRY, Delta, Flatten, Hexadecimal, Invert, Runs
from tests.strategies import basic_selections, compressors, same, values

import frazil
from frazil.codecs import Bytes, Codec, Crc32c, ShardingIndexed, Transpose
from frazil.stores import MemoryStore
from frazil.testing import CountingStore

Shape = tuple[int, ...]
behind = st.one_of(compressors, st.just(Runs()), st.just(Invert()))


@st.composite
def before(draw: st.DrawFn, shape: Shape) -> tuple[list[Codec], Shape]:
    """Array-to-array codecs, and their output shape."""
    codecs: list[Codec] = []
    for kind in draw(st.lists(st.sampled_from(["transpose", "delta", "flatten"]), max_size=2)):
        if kind == "transpose":
            order = draw(st.permutations(range(len(shape))))
            shape = tuple(shape[axis] for axis in order)
            codecs.append(Transpose(order))
        elif kind == "delta" and shape:
            codecs.append(Delta(draw(st.integers(0, len(shape) - 1))))
        elif kind == "flatten":
            shape = (prod(shape),)
            codecs.append(Flatten())
    return codecs, shape


@st.composite
def chains(draw: st.DrawFn, shape: Shape, depth: int) -> list[Codec]:
    codecs, seen = draw(before(shape))
    if depth and draw(st.integers(0, 3)):
        inner = tuple(draw(st.sampled_from([part for part in range(1, n + 1) if n % part == 0])) for n in seen)
        chain, index = draw(chains(inner, depth - 1)), draw(index_chains(len(seen)))
        codecs.append(ShardingIndexed(inner, chain, index, draw(st.sampled_from(["start", "end"]))))
    else:
        codecs.append(draw(st.sampled_from([Bytes("little"), Bytes("big"), Hexadecimal()])))
    return [*codecs, *draw(st.lists(behind, max_size=2))]


@st.composite
def index_chains(draw: st.DrawFn, rank: int) -> list[Codec]:
    codecs: list[Codec] = [Transpose(draw(st.permutations(range(rank + 1))))] if draw(st.booleans()) else []
    codecs += [Delta(rank)] if draw(st.integers(0, 5)) == 0 else []
    codecs.append(Bytes(draw(st.sampled_from(["little", "big"]))))
    return codecs + draw(st.lists(st.sampled_from([Crc32c(), Invert()]), max_size=2))


@given(st.data(), st.sampled_from(["uint8", "int16", "float32", "uint64"]), st.integers(0, 2**32), st.booleans())
def test_any_chain(data: st.DataObject, dtype: str, seed: int, counted: bool) -> None:
    chunk = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), max_size=3)))
    shape = tuple(data.draw(st.integers(0, 9)) for _ in chunk)
    codecs = data.draw(chains(chunk, 3))
    store = CountingStore(MemoryStore()) if counted else MemoryStore()
    array = frazil.create_array(
        store, shape=shape, dtype=dtype, chunks=chunk, codecs=codecs, fill_value=seed % 2, registry=REGISTRY
    )
    expected = np.full(shape, array.fill_value)
    for turn in range(3):
        selection = data.draw(basic_selections(shape)) if turn else (...,)
        new = values(seed + turn, expected[selection].shape, array.dtype)
        array[selection], expected[selection] = new, new
    again = frazil.open_array(store, mode="r+", registry=REGISTRY)
    assert same(again[...], expected)
    selection = data.draw(basic_selections(shape))
    assert same(again[selection], expected[selection])
    half = tuple(slice(0, n // 2) for n in shape)
    again.resize([n // 2 for n in shape])
    again.resize(shape)
    kept = np.full(shape, array.fill_value)
    kept[half] = expected[half]
    assert same(again[...], kept)
    assert again.nchunks_initialized <= again.nchunks
