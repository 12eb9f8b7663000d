"""Slabs: whole blocks, every element once, within the limit, and each chunk read as few times as the limit allows."""

from __future__ import annotations

import threading
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.metadata.types.variable_length import STRINGS
from frazil.operations.slabs import plan_slabs, read_slabs, text_nbytes
from frazil.stores import MemoryStore


@st.composite
def walks(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]:
    """A shape, blocks, chunks, and a limit of bytes."""
    shape = tuple(draw(st.lists(st.integers(0, 12), max_size=3)))
    blocks = tuple(draw(st.integers(1, 15)) for _ in shape)
    chunks = tuple(draw(st.integers(1, 7)) for _ in shape)
    return shape, blocks, chunks, draw(st.integers(1, 3000))


@given(walks(), st.data())
def test_every_element_once_in_whole_blocks(walk: tuple, data: st.DataObject) -> None:
    shape, blocks, chunks, limit = walk
    values = np.arange(prod(shape), dtype=np.int16).reshape(shape)
    array = frazil.create_array(MemoryStore(), data=values, chunks=chunks, codecs=[], fill_value=-1)
    plan = plan_slabs(shape, 2, blocks, chunks, limit)
    seen = np.full(shape, -1, np.int16)
    boxes = []
    ahead = data.draw(st.booleans())
    for number, slab in enumerate(read_slabs(array, plan, prefetch=ahead)):
        assert slab.number == number
        assert (seen[slab.box] == -1).all()
        for part, block, length in zip(slab.box, blocks, shape, strict=True):
            assert part.start % block == 0
            assert part.stop % block == 0 or part.stop == length
        seen[slab.box] = slab.values
        boxes.append(slab.box)
    np.testing.assert_array_equal(seen, values)
    one_block = 2 * prod(min(block, length) for block, length in zip(blocks, shape, strict=True))
    assert plan.nbytes <= max(limit, one_block)
    skip = data.draw(st.integers(0, len(boxes) + 1))
    rest = [(slab.number, slab.box, slab.values.copy()) for slab in read_slabs(array, plan, skip, prefetch=ahead)]
    assert [(number, box) for number, box, _ in rest] == list(enumerate(boxes))[skip:]
    assert all((part == values[box]).all() for _, box, part in rest)


@pytest.mark.parametrize("shape", [(2**63 - 1,), (2**40, 2**40, 2**40), (3, 2**50)])
def test_an_array_of_any_length_begins_at_once(shape: tuple[int, ...]) -> None:
    """Neither columns nor slabs are listed: there may be more than memory holds."""
    chunks = (100,) * len(shape)
    array = frazil.create_array(MemoryStore(), shape=shape, dtype="u1", chunks=chunks, codecs=[])
    array[(0,) * len(shape)] = 7
    plan = plan_slabs(shape, 1, (1,) * len(shape), chunks, 10**6)
    assert plan.slab_count > 2**20
    slabs = read_slabs(array, plan)
    first, second = (next(slabs).values.sum() for _ in range(2))
    assert (first, second) == (7, 0)
    assert next(read_slabs(array, plan, 3)).number == 3


@pytest.mark.parametrize(
    ("shape", "blocks", "chunks", "limit", "most"),
    [
        ((512, 512, 512), (64, 64, 64), (16, 16, 16), 2**25, 1.0),
        ((1000, 1000), (64, 64), (100, 100), 2**20, 1.0),  # rows of blocks are kept from slab to slab
        ((1000, 1000), (64, 64), (100, 100), 2**18, 2.0),
        ((10**12,), (2048,), (10**5,), 2**25, 1.0),
        ((3, 40, 50000), (4, 32, 32), (1, 40, 1000), 2**25, 1.0),
    ],
)
def test_chunks_are_read_few_times(
    shape: tuple[int, ...], blocks: tuple[int, ...], chunks: tuple[int, ...], limit: int, most: float
) -> None:
    plan = plan_slabs(shape, 4, blocks, chunks, limit)
    assert plan.reads(chunks) <= most
    assert plan.nbytes <= limit


@given(walks())
def test_the_reads_of_a_plan_are_those_that_are_done(walk: tuple) -> None:
    shape, blocks, chunks, limit = walk
    values = np.zeros(shape, np.int16)
    array = frazil.create_array(MemoryStore(), data=values, chunks=chunks, codecs=[])
    plan = plan_slabs(shape, 2, blocks, chunks, limit)
    reads: list[tuple[slice, ...]] = []

    class Watched:
        dtype = array.dtype

        def read(self, box: tuple[slice, ...] = (), *, out: np.ndarray | None = None) -> np.ndarray:
            reads.append(box)
            return array.read(box, out=out)

    for _ in read_slabs(Watched(), plan):  # type: ignore[arg-type]
        pass
    if not shape or not prod(shape):
        return
    touched = sum(
        prod(-(-part.stop // chunk) - part.start // chunk for part, chunk in zip(box, chunks, strict=True))
        for box in reads
    )
    assert touched == pytest.approx(plan.reads(chunks) * array.nchunks)


def test_all_slabs_share_one_buffer() -> None:
    """A user of a slab holds its memory while the next one is read, also at the end of a column."""
    values = np.arange(60 * 50, dtype=np.int16).reshape(60, 50)
    array = frazil.create_array(MemoryStore(), data=values, chunks=(7, 11))
    plan = plan_slabs((60, 50), 2, (10, 10), (7, 11), 800)
    slabs = list(read_slabs(array, plan))
    assert len({slab.box[1 - plan.axis].start for slab in slabs}) > 1
    assert all(np.may_share_memory(slabs[0].values, slab.values) for slab in slabs)


class _Broken(Exception):
    pass


@pytest.mark.parametrize("good", [0, 1, 3])
def test_an_error_in_reading_ahead_is_raised_when_the_slab_is_requested(good: int) -> None:
    values = np.arange(80, dtype=np.int16)
    array = frazil.create_array(MemoryStore(), data=values, chunks=(10,), codecs=[])
    reads = 0

    class Failing:
        dtype, chunks = array.dtype, array.chunks

        def read(self, box: tuple[slice, ...] = (), *, out: np.ndarray | None = None) -> np.ndarray:
            nonlocal reads
            reads += 1
            if reads > good:
                raise _Broken
            return array.read(box, out=out)

    seen = np.zeros(80, np.int16)
    with pytest.raises(_Broken):
        for slab in read_slabs(Failing(), plan_slabs((80,), 2, (10,), (10,), 20), prefetch=True):  # type: ignore[arg-type]
            seen[slab.box] = slab.values
    np.testing.assert_array_equal(seen, np.where(values < 10 * good, values, 0))


def test_stopping_early_ends_all_threads() -> None:
    array = frazil.create_array(MemoryStore(), data=np.arange(80, dtype=np.int16), chunks=(10,), codecs=[])
    before = {*threading.enumerate()}
    slabs = read_slabs(array, plan_slabs((80,), 2, (10,), (10,), 20), prefetch=True)
    next(slabs)
    with pytest.raises(KeyboardInterrupt):
        slabs.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    assert before.issuperset(threading.enumerate())


def test_stopping_early_waits_for_the_running_read(monkeypatch: pytest.MonkeyPatch) -> None:
    chunk, reads = 2**22, list[int]()
    begun, ended = threading.Event(), threading.Event()

    class Ended(threading.Event):
        def set(self) -> None:
            super().set()
            ended.set()

    class Watched:
        dtype, chunks = np.dtype("u4"), (chunk,)

        def read(self, box: tuple[slice, ...], out: np.ndarray) -> None:
            reads.append(box[0].start // chunk)
            if box[0].start >= 4 * chunk:  # of the second slab
                begun.set()
                ended.wait()

    monkeypatch.setattr("frazil.operations.slabs.Event", Ended)
    plan = plan_slabs((16 * chunk,), 4, (4 * chunk,), (chunk,), 4 * 4 * chunk)
    slabs = read_slabs(Watched(), plan, prefetch=True)  # type: ignore[arg-type]
    next(slabs)
    begun.wait()
    with pytest.raises(KeyboardInterrupt):
        slabs.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    assert reads == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", ["string", "bytes"])
@pytest.mark.parametrize("long", [0, 31, 63])
def test_slabs_count_the_bytes_of_text(dtype: str, long: int) -> None:
    """Only the 16 bytes of each element in an array were counted. Long text is in the first, the middle or the last chunk."""
    texts = [("x" if row // 64 != long else "long" * 500) * (row % 9 > 0) for row in range(4096)]
    store, limit = MemoryStore(), frazil.Runtime(bytes_in_flight=2**21)
    array = frazil.create_array(store, shape=(64, 64), dtype=dtype, chunks=(1, 64))
    array[...] = np.array(texts if dtype == "string" else [text.encode() for text in texts], object).reshape(64, 64)
    made = MemoryStore()
    report = frazil.rechunk(store, made, chunks=(4, 64), runtime=limit)
    assert report.slab_nbytes <= 2**20
    assert report.slabs >= 64 * 64 * 8 // 9 * 2000 // 2**20  # as if all were as long
    np.testing.assert_array_equal(frazil.open_array(made)[...], array[...])


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("shape", [(6000,), (60, 100)])
def test_text_that_is_longer_than_planned_is_read_in_several_parts(shape: tuple[int, ...], prefetch: bool) -> None:
    """The plan knows the lengths of some elements only."""
    values = np.array(
        ["é" * (3 if i % 3000 < 2500 else 2000) for i in range(6000)], "T" if STRINGS.kind == "T" else object
    )
    chunks = tuple([max(extent // 60, 1) for extent in shape])
    array = frazil.create_array(MemoryStore(), data=values.reshape(shape), chunks=chunks, dtype="string")
    plan = plan_slabs(shape, array.dtype.itemsize + 8, chunks, chunks, 2**18)
    row, found, numbers = text_nbytes(array[-chunks[0] :]), np.zeros(shape, object), []
    for slab in read_slabs(array, plan, prefetch=prefetch):
        assert text_nbytes(slab.values) <= plan.nbytes + 3 * row, "the last piece made it too long"
        assert all(part.start % chunk == 0 for part, chunk in zip(slab.box, chunks, strict=True))
        found[slab.box] = slab.values
        numbers.append((slab.number, slab.last))
    assert (found == values.reshape(shape)).all()
    assert [number for number, last in numbers if last] == list(range(plan.slab_count))
    assert any(not last for _, last in numbers)
    half = list(read_slabs(array, plan, plan.slab_count // 2))
    assert half[0].number == plan.slab_count // 2
