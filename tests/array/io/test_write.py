"""Writes through handles that do not know the current length of the array: rows that others appended stay."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pairs import pairs

import frazil
from frazil import _kernel
from frazil.codecs.chain.compiled_chain import Encoded
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import DataError, InvalidInputError, StoreError
from frazil.stores import LocalStore, MemoryStore
from frazil.testing import CountingStore, SlowStore

LAYOUTS: dict[str, dict[str, object]] = {
    "chunks": {"chunks": (10,)},
    "shards": {"chunks": (5,), "shards": (20,)},
    "inner chunks that end with the array": {"chunks": (1,), "shards": (10,)},
    "nested": {"chunks": (20,), "codecs": [frazil.codecs.ShardingIndexed([10], [frazil.codecs.ShardingIndexed([5], [frazil.codecs.Bytes()])])]},
    "shards within a codec": {"chunks": (20,), "codecs": [frazil.codecs.ShardingIndexed([5], [frazil.codecs.Bytes()]), frazil.codecs.Gzip(1)]},
    "raw": {"chunks": (10,), "codecs": []},
}  # fmt: skip
# each writes 2 to all seven elements that the handle knows
WRITES: dict[str, Callable[[frazil.Array], object]] = {
    "box": lambda array: array.__setitem__(slice(None), 2),
    "box, from the general way": lambda array: array.oindex.__setitem__((slice(None),), 2),
    "list": lambda array: array.oindex.__setitem__(([6, 5, 4, 3, 2, 1, 0],), 2),
    "points": lambda array: array.vindex.__setitem__(([0, 1, 2, 3, 4, 5, 6],), 2),
    "mask": lambda array: array.vindex.__setitem__((np.ones(array.shape, bool),), 2),
    "block": lambda array: array.blocks.__setitem__(0, 2),
    "parts": lambda array: [array.__setitem__(slice(low, low + 1), 2) for low in range(7)],
}


def memory(_: Path) -> frazil.Group:
    return frazil.create_group(MemoryStore())


def local(path: Path) -> frazil.Group:
    return frazil.create_group(LocalStore(path / "store"))


def remote(_: Path) -> frazil.Group:
    return frazil.create_group(SlowStore(MemoryStore(), 0.0))


def session(_: Path) -> frazil.Group:
    return frazil.Repository.create(MemoryStore()).writable_session("main").root


def committed(_: Path) -> frazil.Group:
    """A session whose arrays are in the snapshot that it began from."""
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="arrays") as root:
        for name, layout in LAYOUTS.items():
            root.create_array(name, shape=(7,), dtype="i4", **layout)[:] = 1  # type: ignore[arg-type]
    return repo.writable_session("main").root


@pytest.mark.parametrize(
    ("make", "layout", "write"), pairs([memory, local, remote, session, committed], LAYOUTS, WRITES)
)
def test_rows_that_others_appended_stay(
    make: Callable[[Path], frazil.Group], layout: str, write: str, tmp_path: Path
) -> None:
    group = make(tmp_path)
    if layout not in group:
        group.create_array(layout, shape=(7,), dtype="i4", **LAYOUTS[layout])[:] = 1  # type: ignore[arg-type]
    mine, theirs = group[layout], group[layout]
    assert isinstance(mine, frazil.Array)
    assert isinstance(theirs, frazil.Array)
    theirs.append(np.full(2, 5, "i4"))
    WRITES[write](mine)
    assert theirs[:].tolist() == [2] * 7 + [5] * 2
    theirs.append(np.full(20, 6, "i4"))
    WRITES[write](mine)
    assert theirs[:].tolist() == [2] * 7 + [5] * 2 + [6] * 20


@pytest.mark.parametrize("layout", [{"chunks": (4, 4)}, {"chunks": (2, 2), "shards": (4, 4)}], ids=["chunks", "shards"])
def test_along_either_axis(layout: dict[str, object]) -> None:
    group = frazil.create_group(MemoryStore())
    mine = group.create_array("x", shape=(6, 7), dtype="i4", **layout)  # type: ignore[arg-type]
    mine[...] = 1
    theirs = group["x"]
    assert isinstance(theirs, frazil.Array)
    theirs.append(np.full((6, 1), 5, "i4"), axis=1)
    theirs.append(np.full((2, 8), 6, "i4"), axis=0)
    mine[...] = 2
    expected = np.full((8, 8), 2)
    expected[:, 7], expected[6:] = 5, 6
    assert theirs[...].tolist() == expected.tolist()


@given(st.data())
def test_any_writes_of_handles_that_know_less(data: st.DataObject) -> None:
    """Two handles in turns: one appends, the other keeps its outdated lengths."""
    layout = data.draw(st.sampled_from([*LAYOUTS.values()]))
    group = frazil.create_group(MemoryStore())
    length = data.draw(st.integers(0, 25))
    group.create_array("x", shape=(length,), dtype="i4", **layout)  # type: ignore[arg-type]
    mine, theirs = group["x"], group["x"]
    assert isinstance(mine, frazil.Array)
    assert isinstance(theirs, frazil.Array)
    expected = [0] * length
    for turn in range(1, data.draw(st.integers(2, 8))):
        if data.draw(st.booleans()):
            more = data.draw(st.integers(1, 12))
            theirs.append(np.full(more, turn, "i4"))
            expected += [turn] * more
            continue
        low = data.draw(st.integers(0, length))
        high = data.draw(st.integers(low, length))
        if data.draw(st.booleans()):
            mine[low:high] = turn
        else:
            mine.vindex[np.arange(low, high),] = turn
        expected[low:high] = [turn] * (high - low)
    assert theirs[:].tolist() == expected


def test_the_version_is_read_before_the_document() -> None:
    """Rows that are appended between the two reads of the document, or between the reads and the write, are seen by one of them."""
    for layout in (LAYOUTS["chunks"], LAYOUTS["shards"]):
        for moment in range(8):
            inner = MemoryStore()
            frazil.create_array(inner, shape=(7,), dtype="i4", **layout)[:] = 1  # type: ignore[arg-type]
            calls = -100  # of the opening

            class Appending(CountingStore):
                def _count(self) -> None:
                    nonlocal calls
                    calls += 1
                    if calls == moment + 1:  # noqa: B023
                        frazil.open_array(inner, "r+").append(np.full(2, 5, "i4"))  # noqa: B023

                def fetch(self, *arguments, **named):  # type: ignore[no-untyped-def]
                    self._count()
                    return super().fetch(*arguments, **named)

                def put_many(self, *arguments):  # type: ignore[no-untyped-def]
                    self._count()
                    return super().put_many(*arguments)

            mine = frazil.open_array(Appending(inner), "r+")
            calls = 0
            mine[:] = 2
            found = frazil.open_array(inner)[:].tolist()
            assert found == [2] * 7 + [5] * 2 * (calls > moment)


def test_many_threads_append_while_one_overwrites(tmp_path: Path) -> None:
    for root in (memory(tmp_path), local(tmp_path), session(tmp_path)):
        mine = root.create_array("x", shape=(7,), dtype="i4", chunks=(10,))
        mine[:] = 1

        def append(group: frazil.Group = root) -> None:
            array = group["x"]
            assert isinstance(array, frazil.Array)
            for _ in range(10):
                array.append(np.full(1, 5, "i4"))

        threads = [threading.Thread(target=append) for _ in range(3)]
        for thread in threads:
            thread.start()
        for turn in range(30):
            mine[:] = turn
        for thread in threads:
            thread.join()
        assert mine.refresh()[:].tolist() == [29] * 7 + [5] * 30


@pytest.mark.parametrize("layout", [{"chunks": (10,)}, {"chunks": (5,), "shards": (10,)}], ids=["chunks", "shards"])
def test_a_damaged_chunk_at_the_end_is_mended_by_writing_it_whole(layout: dict[str, object]) -> None:
    store = MemoryStore()
    array = frazil.create_array(store, shape=(17,), dtype="i4", **layout)  # type: ignore[arg-type]
    array[:] = 1
    for write in (lambda: array.__setitem__(slice(10, 17), 2), lambda: array.__setitem__(slice(None), 2)):
        store.set("c/1", b"nonsense")
        with pytest.raises(DataError):
            array[12] = 2
        write()
        assert array[10:].tolist() == [2] * 7


def test_fill_values_at_the_end_are_erased_on_condition() -> None:
    store = MemoryStore()
    array = frazil.create_array(store, shape=(7,), dtype="i4", chunks=(10,))
    array[:] = 1
    array[:] = 0
    assert store.list_prefix("c/") == []
    array[:] = 0
    array[:] = 1
    other = frazil.open_array(store, "r+")
    other.append(np.full(2, 5, "i4"))
    array[:] = 0
    assert other[:].tolist() == [0] * 7 + [5] * 2


def test_writes_to_stores_without_conditional_erase() -> None:
    class Unconditional(CountingStore):
        @property
        def capabilities(self):  # type: ignore[no-untyped-def]
            return super().capabilities._replace(conditional_erase=False)

        def erase_many(self, names, expect):  # type: ignore[no-untyped-def]
            assert all(version is None for version in expect)
            return super().erase_many(names, expect)

    for layout in (LAYOUTS["chunks"], LAYOUTS["shards"]):
        store = Unconditional(MemoryStore())
        array = frazil.create_array(store, shape=(7,), dtype="i4", **layout)  # type: ignore[arg-type]
        array[:] = 0
        array[:] = 1
        array[:] = 0
        assert array[:].tolist() == [0] * 7
        array[:] = 3
        assert array[:].tolist() == [3] * 7


def test_encoding_errors_are_not_reported_as_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Encoded:
        return Encoded((), np.zeros((0, 3), np.int64), [(0, _kernel.FAILED_ENCODE, "blosc: could not encode 20 bytes")])

    array = frazil.create_array(MemoryStore(), shape=(7, 9), dtype="i4", chunks=(5, 5))
    monkeypatch.setattr(sys.modules["frazil.array.io.write"], "encode_chunks", refuse)
    with pytest.raises(InvalidInputError, match="a chunk could not be encoded: blosc") as caught:
        array[:5, :9] = 1
    assert (caught.value.key, caught.value.chunk) == ("c/0/1", (0, 1))
    assert "damaged" not in str(caught.value)
    assert array.store.list() == ["zarr.json"]


def test_a_chunk_that_memory_cannot_hold_is_an_error() -> None:
    array = frazil.create_array(MemoryStore(), shape=(2**47,), dtype="u1", chunks=(2**47,), codecs=["zstd"])
    with pytest.raises(StoreError, match="not enough memory") as caught:
        array[0] = 1
    assert caught.value.errno == errno.ENOMEM


@pytest.mark.parametrize("codecs", [["zstd", "users.refuses"], ["users.refuses", "zstd"], ["users.refuses"]])
def test_encoding_errors_of_custom_codecs(codecs: list[str]) -> None:
    class Refuses(frazil.codecs.BytesToBytes):
        name = "users.refuses"

        def configuration(self) -> None:
            return None

        def encode(self, data: bytes) -> bytes:
            raise OverflowError("too much")

        def decode(self, data: bytes, limit: int) -> bytes:
            return data

    registry = DEFAULT_REGISTRY.with_codec(Refuses)
    for shards in (None, (10,)):
        array = frazil.create_array(
            MemoryStore(), shape=(7,), dtype="i4", chunks=(5,), shards=shards, codecs=codecs, registry=registry
        )
        with pytest.raises(InvalidInputError, match="too much") as caught:
            array[:] = 1
        assert "damaged" not in str(caught.value)
        assert array.store.list() == ["zarr.json"]


@pytest.mark.parametrize("codec", ["gzip", {"name": "zstd", "configuration": {"level": 1, "checksum": True}}])
def test_chunks_are_readable_if_values_change_while_they_are_written(codec: object) -> None:
    values = np.arange(2**20, dtype=np.int64).reshape(16, 2**16)
    array = frazil.create_array({}, shape=values.shape, dtype="int64", chunks=(1, 2**16), codecs=["bytes", codec])
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            values[:, ::7] += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(10):
            array[...] = values
            assert array[...].shape == values.shape
    finally:
        done.set()
        thread.join()
