"""Plans of packs: the place of each chunk, and the sizes. And the pending chunks of a session in memory: at most bytes_in_flight, for any number of chunks and
writes."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import numpy as np
import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.base.arrays import Octets
from frazil.repository.session import changed_references, pending_chunks
from frazil.repository.session.pending_chunks import PACK_BYTES, PACK_LIMIT, plan_packs, store_pending
from frazil.repository.session.transaction import Transaction
from frazil.runtime import Runtime
from frazil.stores import MemoryStore, ObjectStore

LIMIT = 2**18
TraceFunction: TypeAlias = Callable[[FrameType, str, Any], Any]


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 60))
def test_packs_hold_chunks_side_by_side(lengths: list[int], pack_bytes: int) -> None:
    packs = plan_packs(np.array(lengths, np.int64), pack_bytes=pack_bytes)
    number, at = -1, 0
    for row, length in enumerate(lengths):
        if packs.pack[row] != number:
            assert row == packs.bounds[number + 1]
            # the last pack is closed because this chunk would have made it too large
            assert number < 0 or at + length > pack_bytes
            number, at = number + 1, 0
        assert (packs.pack[row], packs.offset[row]) == (number, at)
        at += length
        assert at <= max(pack_bytes, length)
    assert packs.bounds[-1] == len(lengths)
    assert len(packs.bounds) == number + 2
    assert {column.dtype for column in packs} == {np.dtype(np.int64)}


@given(st.lists(st.integers(0, 30), max_size=40))
def test_without_packing_each_chunk_has_its_file(lengths: list[int]) -> None:
    packs = plan_packs(np.array(lengths, np.int64), packing=False)
    assert not packs.offset.any()
    assert packs.pack.tolist() == list(range(len(lengths)))
    assert packs.bounds.tolist() == list(range(len(lengths) + 1))


def test_a_pack_has_its_size() -> None:
    packs = plan_packs(np.full(100, PACK_LIMIT, np.int64))
    assert np.diff(packs.bounds).tolist() == [PACK_BYTES // PACK_LIMIT] * 6 + [4]


def test_packs_have_arrays_and_their_chunks_in_order() -> None:
    """Arrays in order of creation, the chunks of each row by row, in any order of writing."""
    store = MemoryStore()
    session = frazil.Repository.create(store).writable_session()
    arrays = [
        session.root.create_array(name, shape=(2, 2048), dtype="u1", chunks=(1, 1024), codecs=[], fill_value=0)
        for name in "ba"
    ]
    for value, array, chunk in ((4, 0, (1, 1)), (5, 1, (0, 0)), (2, 0, (0, 1)), (3, 0, (1, 0)), (1, 0, (0, 0))):
        arrays[array][chunk[0], 1024 * chunk[1] : 1024 * (chunk[1] + 1)] = value
    session.commit("packed")
    (pack,) = [store.get(key) for key in store.list() if key.startswith("chunks/")]
    assert pack is not None
    assert list(pack[::1024]) == [1, 2, 3, 4, 5]


def test_waiting_chunks_and_those_that_are_encoded_share_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had all of it."""
    waiting: list[int] = []
    append = changed_references.PendingBytes.append

    def counted(pending: changed_references.PendingBytes, segment: Octets) -> int:
        number = append(pending, segment)
        waiting.append(pending.nbytes)
        return number

    monkeypatch.setattr(changed_references.PendingBytes, "append", counted)
    limit = 16 * LIMIT
    store = ObjectStore(obstore.store.MemoryStore())
    session = frazil.Repository.create(store, runtime=Runtime(bytes_in_flight=limit)).writable_session()
    values = np.random.default_rng(1).integers(0, 256, 4 * limit, np.uint8)
    array = session.root.create_array("a", data=values, chunks=(2**13,), codecs=[])
    assert max(waiting) <= limit // 2
    assert np.array_equal(array[:], values)
    assert array._storage.joins(2**13)
    assert not array._storage.joins(2 * PACK_LIMIT)


@pytest.mark.parametrize("compatible", [None, "alpha-library"])
@pytest.mark.parametrize(("size", "count", "turns"), [(2**15, 8, 60), (256, 64, 100), (256, 2**13, 2)], ids=str)
def test_chunks_that_are_rewritten(tmp_path: Path, size: int, count: int, turns: int, compatible: str | None) -> None:
    """Chunks that go to packs, and chunks that stay in manifests: much data is written, and little is held."""
    if compatible is not None and count > 64:
        pytest.skip("a file for each chunk")
    repo = frazil.Repository.create(
        tmp_path / "x",
        compatible=compatible,
        durable=False,
        runtime=Runtime(threads=1, bytes_in_flight=LIMIT, cache_bytes=0),
    )
    session = repo.writable_session()
    array = session.root.create_array("a", shape=(size * count,), dtype="u1", chunks=(size,), codecs=[], fill_value=0)
    values = np.zeros(size * count, "u1")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for turn in range(turns):
            values[:] = turn % 250 + 1
            array[:] = values
        held, peak = (memory - before for memory in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert session._transaction.changes.pending.nbytes <= 2 * LIMIT + values.nbytes
    assert held < 4 * LIMIT + 2 * values.nbytes
    assert peak < 12 * LIMIT + 4 * values.nbytes
    session.commit("written")
    assert np.array_equal(repo.readonly_session().open("a")[...], values)  # type: ignore[index]


@pytest.mark.parametrize("most_inline", [None, 0])
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.campaign)])
def test_interrupts_while_chunks_get_their_place(most_inline: int | None, step: int) -> None:
    """At every fifth line, other ones in both runs, as most lines run repeatedly: the session reads the written values, and so do readers of its commits."""
    line, done = 0 if most_inline is None else -2, False
    while not done:
        line += step
        if line <= 0:
            continue
        repo = frazil.Repository.create(MemoryStore())
        session = repo.writable_session()
        arrays = {
            name: session.root.create_array(name, shape=(4 * size,), dtype="u1", chunks=(size,), codecs=[])
            for name, size in (("a", 700), ("b", 700), ("c", 10), ("d", 10))
        }
        for turn in (1, 2, 3):
            for array in arrays.values():
                array[...] = np.repeat(np.arange(4) + turn, array.shape[0] // 4).astype("u1")
        done = interrupted(session._transaction, line, most_inline)
        assert values(session) == [[3, 4, 5, 6]] * 4, line
        session.commit("written")
        assert values(repo.readonly_session()) == [[3, 4, 5, 6]] * 4, line
    assert line > 100


def values(session: frazil.Session) -> list[list[int]]:
    """The value that fills the four chunks of each array."""
    found = [array[...].reshape(4, -1) for _, array in session.root.arrays()]  # type: ignore[union-attr]
    return [table[:, 0].tolist() for table in found if (table == table[:, :1]).all()]


def interrupted(transaction: Transaction, line: int, most_inline: int | None) -> bool:
    """Places chunks, with an interrupt before the line of this number. Returns whether there are fewer lines."""
    files = {pending_chunks.__file__, changed_references.__file__}
    left = line

    def trace(frame: FrameType, event: str, _: object) -> TraceFunction | None:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        left -= event == "line"
        if not left:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        store_pending(transaction.changes, transaction.files, packing=True, digests=False, most_inline=most_inline)
    except KeyboardInterrupt:
        return False
    finally:
        sys.settrace(before)
    return True
