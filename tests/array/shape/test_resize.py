"""Resizing and appending against NumPy: removed elements never reappear, for any layout; the cost of a grid depends only on its stored chunks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.local_disks import has_open, locked
from tests.strategies import Layout, create, layouts, same, values

import frazil
from frazil.errors import (
    ConflictError,
    InvalidInputError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    SelectionError,
    StoreError,
)
from frazil.stores import MemoryStore
from frazil.stores.values import Capabilities, Changed, Columns, Fetched, Page, Pieces, Version
from frazil.stores.wrappers import WrappedStore


def reshaped(array: np.ndarray, shape: tuple[int, ...], fill: np.generic) -> np.ndarray:
    new = np.full(shape, fill, array.dtype)
    both = tuple(slice(min(a, b)) for a, b in zip(array.shape, shape, strict=True))
    new[both] = array[both]
    return new


@pytest.mark.parametrize(("dtype", "fill"), [("S3", b"a"), ("U3", "a"), ("S3", b""), ("U3", None)])
@pytest.mark.parametrize("shards", [None, 4])
def test_strings_of_fixed_length_are_cut(dtype: str, fill: object, shards: int | None) -> None:
    """Their fill value as a NumPy scalar is shorter than an element."""
    array = frazil.create_array(MemoryStore(), shape=7, dtype=dtype, chunks=2, shards=shards, fill_value=fill)
    array[...] = expected = np.full(7, "xyz", dtype)
    array.resize(5)
    array.resize(7)
    expected[5:] = fill or ""
    assert array[...].tolist() == expected.tolist()


@given(layouts(), st.sampled_from(["i4", "f8", "V3", "bool"]), st.integers(0, 2**32), st.data())
def test_shrinking_growing_and_appending_as_numpy(layout: Layout, dtype: str, seed: int, data: st.DataObject) -> None:
    fill = values(seed, (), np.dtype("V3" if dtype == "V3" else dtype))[()]
    array = create(MemoryStore(), layout, dtype, fill=fill)
    rank = len(layout.shape)
    expected = np.full(layout.shape, fill, array.dtype)
    for turn in range(data.draw(st.integers(1, 5))):
        mine = frazil.open_array(array.store, "r+") if data.draw(st.booleans()) else array.refresh()
        step = data.draw(st.sampled_from(["resize", "resize", "append", "write"]))
        if step == "resize":
            shape = tuple(data.draw(st.integers(0, 13)) for _ in range(rank))
            mine.resize(shape)
            expected = reshaped(expected, shape, fill)
        elif step == "append" and rank:
            axis = data.draw(st.integers(-rank, rank - 1))
            shape = tuple(data.draw(st.integers(0, 5)) if d == axis % rank else n for d, n in enumerate(expected.shape))
            new = values(seed + turn, shape, array.dtype)
            expected = np.concatenate((expected, new), axis=axis)
            assert mine.append(new, axis=axis) == expected.shape
        else:
            new = values(seed + turn, expected.shape, array.dtype)
            mine[...], expected = new, new
        assert mine.shape == expected.shape
        assert same(mine[...], expected)
    assert same(frazil.open_array(array.store)[...], expected)
    array.refresh().resize(tuple(14 for _ in range(rank)))
    assert same(array[...], reshaped(expected, (14,) * rank, fill)), "beyond the edges there is nothing but fill value"


@pytest.mark.parametrize("shards", [None, (4, 4)])
def test_grids_of_a_million_chunks(shards: tuple[int, int] | None) -> None:
    """10^12 elements in 10^12 chunks and more: chunks that are not stored cost nothing."""
    array = frazil.create_array(
        MemoryStore(), shape=(10**6, 10**6), dtype="u1", chunks=(1, 1) if shards is None else (2, 2), shards=shards
    )
    array[0, 0] = array[999_999, 999_999] = array[5, 7] = 9
    tracemalloc.start()
    for shape in (
        (2 * 10**6, 10**6),
        (10**9, 10**9),
        (10**6, 10**6),
        (6, 10**6),
        (10**6, 10**6),
        (2**63 - 1, 2**63 - 1),
        (8, 8),
    ):
        array.resize(shape)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
    expected = np.zeros((8, 8), "u1")
    expected[0, 0] = expected[5, 7] = 9
    assert same(array[...], expected)
    assert array.nchunks_initialized == 2


def test_impossible_shapes_are_refused() -> None:
    array = frazil.create_array(MemoryStore(), shape=(4, 4), dtype="i4", chunks=(2, 2))
    array[...] = 5
    for shape in ((4,), (4, 4, 4), (-1, 4), (2**63, 4), (4.0, 4), "44", None, (True, 4), ()):
        with pytest.raises(MetadataError):
            array.resize(shape)  # type: ignore[arg-type]
    for rows in (np.zeros((1, 3)), np.zeros(4), np.zeros((1, 1, 4)), 5):
        with pytest.raises(SelectionError):
            array.append(rows)
    for axis in (2, -3):
        with pytest.raises(SelectionError):
            array.append(np.zeros((1, 4)), axis=axis)
    with pytest.raises(InvalidInputError):
        array.append([["no", "numbers", "at", "all"]])
    with pytest.raises(ReadOnlyError):
        frazil.open_array(array.store).resize((5, 5))
    with pytest.raises(ReadOnlyError):
        frazil.open_array(array.store).append([[1, 2, 3, 4]])
    assert frazil.open_array(array.store).shape == array.shape == (4, 4)
    assert (array[...] == 5).all()


def test_resize_accepts_one_length_and_numpy_integers() -> None:
    array = frazil.create_array(MemoryStore(), shape=4, dtype="i4", chunks=2)
    array.resize(6)
    array.resize(np.int64(7))
    array.resize(np.array([9]))
    assert array.shape == (9,)
    assert all(type(n) is int for n in array.shape)


def test_an_array_without_dimensions() -> None:
    array = frazil.create_array(MemoryStore(), shape=(), dtype="i4")
    array[...] = 3
    array.resize(())
    with pytest.raises(SelectionError):
        array.append(1)
    assert array[()] == 3


def test_a_handle_does_not_change_another_array_that_replaced_its_own() -> None:
    """A handle does not write chunks of one layout into an array of another layout."""
    store = MemoryStore()
    old = frazil.create_array(store, shape=(8,), dtype="i4", chunks=(2,))
    frazil.create_array(store, shape=(8,), dtype="f8", chunks=(4,), overwrite=True)[...] = 2.5
    before = {key: store.get(key) for key in store.list()}
    for change in (
        lambda: old.append([1, 2]),
        lambda: old.resize(4),
        lambda: old.resize(9),
        lambda: old.attrs.update(a=1),
        old.refresh,
    ):
        with pytest.raises(ConflictError):
            change()
    assert {key: store.get(key) for key in store.list()} == before
    frazil.create_group(store, overwrite=True)
    for change in (lambda: old.append([1, 2]), lambda: old.resize(4), lambda: old.attrs.update(a=1)):
        with pytest.raises(InvalidInputError):
            change()
    with pytest.raises(NotFoundError):
        old.refresh()
    store.erase("zarr.json")
    for change in (lambda: old.append([1, 2]), lambda: old.resize(4), lambda: old.attrs.update(a=1), old.refresh):
        with pytest.raises(NotFoundError):
            change()


class Meddling(WrappedStore):
    """Does something once, before the first request of a kind."""

    __slots__ = ("before", "meddle")

    def __init__(self, inner: MemoryStore, before: str) -> None:
        super().__init__(inner)
        self.before, self.meddle = before, lambda: None

    def _at(self, operation: str) -> None:
        if operation == self.before:
            self.before = ""
            self.meddle()

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        self._at("put document" if names[0].endswith("zarr.json") else "put chunk")
        return super().put_many(names, pieces, expect)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        self._at("erase")
        return super().erase_many(names, expect)

    def list_page(self, *arguments: object, **named: object) -> Page:  # type: ignore[override]
        self._at("list")
        return super().list_page(*arguments, **named)  # type: ignore[arg-type]

    def fetch(self, names: Sequence[str], spans: Columns, **how: object) -> Fetched:
        return super().fetch(names, spans, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("before", ["list", "erase", "put chunk", "put document"])
def test_shrinking_while_others_append(before: str) -> None:
    """At any time: rows appended before the shrink takes effect are cut off with the rest, and leave no chunks."""
    inner = MemoryStore()
    frazil.create_array(inner, shape=(10,), dtype="i4", chunks=(4,), fill_value=-1)[...] = np.arange(10)
    store = Meddling(inner, before)
    array = frazil.open_array(store, "r+")
    store.meddle = lambda: frazil.open_array(inner, "r+").append([77, 78, 79])
    array.resize(5)
    assert store.before == "", "it did happen"
    found = frazil.open_array(inner, "r+")
    assert found[...].tolist() == [0, 1, 2, 3, 4]
    found.append([55])
    found.resize(16)
    assert found[...].tolist() == [0, 1, 2, 3, 4, 55] + [-1] * 10


@pytest.mark.parametrize("lengths", [(3,), (7,), (12,)])
def test_shrinking_while_others_resize(lengths: tuple[int]) -> None:
    inner = MemoryStore()
    frazil.create_array(inner, shape=(10,), dtype="i4", chunks=(4,), fill_value=-1)[...] = np.arange(10)
    store = Meddling(inner, "put document")
    array = frazil.open_array(store, "r+")
    store.meddle = lambda: frazil.open_array(inner, "r+").resize(lengths)
    array.resize(5)
    array.resize(12)
    kept = min(lengths[0], 5)
    assert frazil.open_array(inner)[...].tolist() == [*range(kept)] + [-1] * (12 - kept)


class Interrupting(Meddling):
    """A store in which the main thread is interrupted when the document has been put: inside an append, when the array has grown."""

    __slots__ = ("direct",)

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(direct=self.direct)

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        done = super().put_many(names, pieces, expect)
        if self.before == "interrupt" and names[0].endswith("zarr.json"):
            self.before = ""
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return done


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("length", [1, 3, 9])
def test_an_append_that_is_interrupted_while_the_array_grows_is_undone(length: int, direct: bool) -> None:
    inner = MemoryStore()
    frazil.create_array(inner, shape=(10,), dtype="i4", chunks=(4,), fill_value=-1)[...] = np.arange(10)
    store = Interrupting(inner, "interrupt")
    store.direct = direct
    array = frazil.open_array(store, "r+")
    with pytest.raises(KeyboardInterrupt):
        array.append([7] * length)
    found = frazil.open_array(inner, "r+")
    assert found[...].tolist() == [*range(10)] == array[...].tolist()
    array.append([8])
    assert found.refresh()[...].tolist() == [*range(10), 8]


@pytest.mark.parametrize("shard_writes", ["rewrite", "append", "in_place"])
def test_an_append_that_is_undone_leaves_no_shards(shard_writes: str, tmp_path: Path) -> None:
    options = {"shards": (4,), "codecs": ["bytes"], "fill_value": -1, "shard_writes": shard_writes}
    array = frazil.create_array(tmp_path / "a", shape=(6,), dtype="i4", chunks=(2,), **options)
    array[...] = np.arange(6)
    (tmp_path / "a/c/3/in the way").mkdir(parents=True)
    with pytest.raises(StoreError):
        array.append([7] * 9)
    assert array[...].tolist() == [*range(6)]
    assert sorted(path.name for path in (tmp_path / "a/c").iterdir()) == ["0", "1", "3"]


def test_a_shard_at_the_edge_is_cut_in_place(tmp_path: Path) -> None:
    options = {"shards": (4,), "codecs": ["bytes"], "shard_writes": "in_place"}
    array = frazil.create_array(tmp_path / "a", shape=(8,), dtype="i4", chunks=(2,), **options)
    array[...] = np.arange(1, 9)
    edge = tmp_path / "a/c/1"
    before = edge.stat()
    array.resize(5)
    (tmp_path / "a/c/2/in the way").mkdir(parents=True)
    with pytest.raises(StoreError):
        array.append([7] * 9)
    assert array[...].tolist() == [1, 2, 3, 4, 5]
    assert (edge.stat().st_ino, edge.stat().st_size) == (before.st_ino, before.st_size)


WAIT = """
import signal, sys
import frazil
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run with the signal ignored
array = frazil.open_array(sys.argv[1], "r+")
try:
    array.append([7] * 3)
except KeyboardInterrupt:
    print("interrupted", array.shape)
"""


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_append_that_waits_for_the_document_ends_with_the_first_interrupt(zarr_format: int, tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path / "a", data=np.arange(10), chunks=(4,), zarr_format=zarr_format)
    lock = tmp_path / "a" / ("zarr.json.__lock" if zarr_format == 3 else ".zarray.__lock")
    command = [sys.executable, "-c", WAIT, str(tmp_path / "a")]
    with locked(lock), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        while child.poll() is None and not has_open(child.pid, lock):
            os.sched_yield()
        child.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(20)
        child.kill()
        assert child.communicate()[0] == "interrupted (10,)\n"
    assert array.append([8]) == (11,)
    assert frazil.open_array(tmp_path / "a")[...].tolist() == [*range(10), 8]


@pytest.mark.parametrize("dtype", ["i4", "string"])
@pytest.mark.parametrize("theirs", [0, 2])
@pytest.mark.parametrize("shards", [None, (8,)])
def test_an_append_that_fails_is_undone_unless_others_have_appended(
    dtype: str, theirs: int, shards: tuple[int] | None
) -> None:
    def those(values: Iterable[int]) -> list[object]:
        return [str(value) for value in values] if dtype == "string" else list(values)

    inner = MemoryStore()
    fill = those([-1])[0]
    array = frazil.create_array(
        inner,
        data=np.array(those(range(10)), object if dtype == "string" else dtype),
        dtype=dtype,
        chunks=(4,),
        shards=shards,
        fill_value=fill,
    )
    store = Meddling(inner, "put chunk")
    meddled = frazil.open_array(store, "r+")

    def fails() -> None:
        if theirs:
            array.append(those([55] * theirs))
        raise StoreError("no space left")

    store.meddle = fails
    with pytest.raises(StoreError, match="no space left"):
        meddled.append(those([7] * 9))
    expected = those(range(10)) + (those([-1] * 9 + [55] * theirs) if theirs else [])
    assert frazil.open_array(inner)[...].tolist() == expected
    array.refresh().resize(30)
    assert array[...].tolist() == expected + those([-1] * (30 - len(expected))), "nothing of it comes back"


def test_rows_that_others_append_while_an_append_is_undone_stay() -> None:
    inner = MemoryStore()
    other = frazil.create_array(inner, data=np.arange(10, dtype="i4"), chunks=(4,), fill_value=-1)
    store = Meddling(inner, "put chunk")
    array = frazil.open_array(store, "r+")

    def fails() -> None:
        store.before, store.meddle = "list", lambda: other.append([55, 56, 57])
        raise StoreError("no space left")

    store.meddle = fails
    with pytest.raises(StoreError, match="no space left"):
        array.append([7, 7])
    assert store.before == "", "they did append"
    assert frazil.open_array(inner)[...].tolist() == [*range(10), 55, 56, 57]
