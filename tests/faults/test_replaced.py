"""Shards that are replaced while they are read or written: every inner chunk is entirely old or entirely new, never the bytes of another one.

The shards here are raw and have the same size. Each version has another order of inner chunks, so that the index of one version points to other chunks in the
next."""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.faults.concurrent_calls import fork, in_threads

import frazil
from frazil.base.retry import Backoff
from frazil.codecs import Bytes, ShardingIndexed
from frazil.errors import ConflictError
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.store import Store
from frazil.stores.values import Changed, Columns, Fetched, Pieces, Version
from frazil.stores.wrappers import WrappedStore

KEY = "c/0/0"
COUNT = 16  # inner chunks of 2 x 2 in a shard of 8 x 8


def shard(version: int, nested: bool = False) -> bytes:
    """Inner chunk i has the value 1000 * version + i in all its elements; its place depends on the version."""
    order = np.random.default_rng(version).permutation(COUNT)
    data, index = b"", [(0, 0)] * COUNT
    for number in order.tolist():
        index[number] = (len(data), 16)
        data += struct.pack("<4i", *[1000 * version + number] * 4)
    whole = data + b"".join(struct.pack("<2Q", *entry) for entry in index)
    return whole + struct.pack("<2Q", 0, len(whole)) if nested else whole


def version_of(values: np.ndarray, rows: slice = slice(None), columns: slice = slice(None)) -> set[int]:
    """The versions of the inner chunks of a part of the shard. Each must be whole, and in its place."""
    numbers = np.repeat(np.repeat(np.arange(COUNT).reshape(4, 4), 2, 0), 2, 1)[rows, columns]
    assert ((values % 1000 == numbers) | (values == -1)).all(), values
    found = {}
    for value, number in zip(values.reshape(-1).tolist(), numbers.reshape(-1).tolist(), strict=True):
        assert found.setdefault(number, value) == value, "an inner chunk of two versions"
    return {-1 if value == -1 else value // 1000 for value in found.values()}


def create(location: Store | Path, nested: bool = False) -> frazil.Array:
    codecs = [ShardingIndexed((2, 2), [Bytes("little")], [Bytes("little")])]
    if nested:
        codecs = [ShardingIndexed((8, 8), codecs, [Bytes("little")])]
    array = frazil.create_array(location, shape=(8, 8), dtype="i4", chunks=(8, 8), codecs=codecs, fill_value=-1)
    array.store.set(KEY, shard(1, nested))
    return array


READS: dict[str, Callable[[frazil.Array], set[int]]] = {
    "all": lambda a: version_of(a[...]),
    "part": lambda a: version_of(a[1:7, 3:], slice(1, 7), slice(3, None)),
    "one": lambda a: version_of(a[3:4, 5:6], slice(3, 4), slice(5, 6)),
    "rows": lambda a: version_of(a.oindex[[*range(8)], 1:], slice(None), slice(1, None)),
    "points": lambda a: version_of(
        a.vindex[np.indices((8, 8))[0].ravel(), np.indices((8, 8))[1].ravel()].reshape(8, 8)
    ),
}


class Meddling(WrappedStore):
    """Calls `meddle` with the number of each fetch of the shard, before it. If it does not hold objects, it relies on `expect`, as a store must that cannot
    keep an object open."""

    __slots__ = ("fetches", "holds", "meddle", "puts")

    def __init__(self, inner: Store, holds: bool) -> None:
        super().__init__(inner)
        self.holds, self.fetches, self.puts = holds, 0, 0
        self.meddle: Callable[[str, int], object] = lambda operation, number: None

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        if KEY in names:
            self.fetches += 1
            self.meddle("fetch", self.fetches)
        return self.inner.fetch(
            names, spans, expect=expect, continue_from=continue_from if self.holds else None, single_read=single_read
        )

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        if KEY in names:
            self.puts += 1
            self.meddle("put", self.puts)
        return super().put_many(names, pieces, expect)


@pytest.fixture(params=["memory", "local"])
def inner(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("holds", [True, False], ids=["holding", "not holding"])
@pytest.mark.parametrize("nested", [False, True], ids=["one level", "nested"])
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_replaced_before_any_request(inner: Store, read: str, holds: bool, nested: bool, warm: bool) -> None:
    """Before the first, the second ... request of a read the shard is replaced, erased, or replaced twice."""
    for what in ([shard(2, nested)], [None], [shard(2, nested), shard(3, nested)]):
        number = 1
        while True:
            store = Meddling(inner, holds)
            create(inner if number == 1 and what[0] and len(what) == 1 else renewed(inner), nested)
            if isinstance(inner, LocalStore):
                age(inner, 100)
            array = frazil.open_array(store)
            if warm:
                assert READS[read](array) == {1}
            before = store.fetches

            def meddle(operation: str, at: int, due: int = before + number, what: list[bytes | None] = what) -> None:
                for value in what if at == due else ():
                    if value is None:
                        inner.erase(KEY)
                    else:
                        inner.set(KEY, value)

            store.meddle = meddle
            found = READS[read](array)
            assert len(found) == 1, "one read of one shard is of one version"
            assert found <= {1, 2, 3, -1}
            last = {-1 if what[-1] is None else len(what) + 1}
            store.meddle = lambda operation, at: None
            happened = store.fetches >= before + number
            assert READS[read](array) == (last if happened else {1})
            inner.erase_prefix("")
            if not happened:
                break
            number += 1
        assert number > 1


def renewed(inner: Store) -> Store:
    inner.erase_prefix("")
    return inner


def age(store: LocalStore, seconds: int) -> None:
    """Makes the shard so old that its version can be trusted."""
    path = Path(store.path) / KEY
    then = path.stat().st_mtime_ns - seconds * 10**9
    os.utime(path, ns=(then, then))


@pytest.mark.parametrize("holds", [True, False], ids=["holding", "not holding"])
@pytest.mark.parametrize("nested", [False, True], ids=["one level", "nested"])
def test_replaced_before_a_write_lands(inner: Store, holds: bool, nested: bool) -> None:
    """A write to a part of the shard is repeated on top of the concurrent change, at whatever request that came."""
    for operation, most in (("fetch", 6), ("put", 1)):
        for number in range(1, most + 1):
            create(renewed(inner), nested)
            store = Meddling(inner, holds)
            array = frazil.open_array(store, "r+")

            def meddle(requested: str, at: int, due: tuple[str, int] = (operation, number)) -> None:
                if (requested, at) == due:
                    inner.set(KEY, shard(2, nested))

            store.meddle = meddle
            array[3, 5] = 9006  # an element of inner chunk 6
            values = frazil.open_array(inner)[...]
            assert values[3, 5] == 9006
            happened = (store.fetches if operation == "fetch" else store.puts) >= number
            values[3, 5] = values[2, 4]
            assert version_of(values) == {2 if happened else 1}


def test_a_reader_gives_up_when_an_object_is_replaced_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader does not retry for ever, and does not return wrong values."""
    monkeypatch.setattr(sys.modules["frazil.array.io.read"], "READS", Backoff(20))
    inner = MemoryStore()
    create(inner)
    store = Meddling(inner, holds=False)
    array = frazil.open_array(store)
    store.meddle = lambda operation, number: inner.set(KEY, shard(number + 2))
    for call in (lambda: array[...], lambda: array[1:3], lambda: array.vindex[[0, 5], [0, 5]]):
        with pytest.raises(ConflictError) as caught:
            call()
        assert (caught.value.key, caught.value.path) == (KEY, "/")


def test_replaced_without_end_under_a_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["frazil.array.io.write"], "WRITES", Backoff(5))
    inner = MemoryStore()
    create(inner)
    store = Meddling(inner, holds=True)
    array = frazil.open_array(store, "r+")
    store.meddle = lambda operation, number: operation == "put" and inner.set(KEY, shard(number + 2))
    with pytest.raises(ConflictError) as caught:
        array[0, 0] = 5
    assert (caught.value.key, caught.value.path) == (KEY, "/")
    store.meddle = lambda operation, number: None
    assert version_of(array[...]) == {8}
    array[...] = 5
    assert (array[...] == 5).all()


# --- real files ------------------------------------------------------------------------------------------------------------------------


def replace_file(root: Path, data: bytes) -> None:
    """As some programs do: a new file, renamed."""
    new = root / f"new-{threading.get_ident()}"
    new.write_bytes(data)
    os.replace(new, root / KEY)


def rewrite_file(root: Path, data: bytes) -> None:
    """As other programs do: in place."""
    with (root / KEY).open("r+b") as file:
        file.write(data)
        file.truncate()


@pytest.mark.parametrize("read", READS)
def test_a_remembered_index_goes_with_its_version(tmp_path: Path, read: str) -> None:
    """However the file is replaced, a handle that has read it before sees its current content."""
    array = create(tmp_path)
    store = LocalStore(tmp_path)
    number = 1
    for way in (replace_file, rewrite_file, lambda root, data: LocalStore(root).set(KEY, data)):
        for seconds in (500, 400, 300, 0):
            if seconds:
                age(store, seconds)
            assert READS[read](array) == {number}
            assert READS[read](array) == {number}
            number += 1
            way(tmp_path, shard(number))
            assert READS[read](array) == {number}
    store.erase(KEY)
    assert READS[read](array) == {-1}
    store.set(KEY, shard(1))
    assert READS[read](array) == {1}


@pytest.mark.parametrize("way", [replace_file, rewrite_file])
def test_versions_that_look_the_same(tmp_path: Path, way: Callable[[Path, bytes], None]) -> None:
    """The same size and time, and (in place) the same file: time stamps of files do not change for milliseconds. Such a version is not cached. The time stamps
    here are in the future, so that they are recent however long the test takes."""
    array = create(tmp_path)
    path = tmp_path / KEY
    stamp = path.stat().st_mtime_ns + 10**12
    for number in range(2, 40):
        way(tmp_path, shard(number))
        os.utime(path, ns=(stamp, stamp))
        read = [*READS.values()][number % len(READS)]
        assert read(array) == {number}


def test_a_reader_sees_the_object_that_another_process_replaced(tmp_path: Path) -> None:
    array = create(tmp_path)
    age(LocalStore(tmp_path), 100)
    assert READS["all"](array) == {1}

    def write() -> None:
        mine = frazil.open_array(tmp_path, "r+")
        mine[...] = np.repeat(np.repeat(5000 + np.arange(COUNT).reshape(4, 4), 2, 0), 2, 1)

    assert os.waitpid(fork(write), 0)[1] == 0
    assert READS["one"](array) == {5}
    assert READS["all"](array) == {5}


@pytest.mark.parametrize("rewrite", [lambda path: path.write_bytes(shard(2)), lambda path: os.truncate(path, 40)])
@pytest.mark.parametrize("read", READS)
def test_rewritten_in_place_between_index_and_chunks(
    tmp_path: Path, read: str, rewrite: Callable[[Path], object]
) -> None:
    """The open file itself changes: its old index is not trusted. If it is truncated, the next read finds it whole again."""
    inner = LocalStore(tmp_path)
    create(inner)
    age(inner, 100)
    store = Meddling(inner, holds=True)
    array = frazil.open_array(store)

    def meddle(operation: str, number: int) -> None:
        if number == 2:
            rewrite(tmp_path / KEY)
        elif number == 3:
            (tmp_path / KEY).write_bytes(shard(3))

    store.meddle = meddle
    assert READS[read](array) <= {2, 3}
    assert store.fetches >= 3


def replacing(root: Path, way: str, stop: threading.Event) -> Iterator[int]:
    number = 1
    while not stop.is_set():
        number = number % 30 + 1
        if way == "file":
            replace_file(root, shard(number))
        elif way == "whole":
            array = frazil.open_array(root, "r+")
            array[...] = np.repeat(np.repeat(1000 * number + np.arange(COUNT).reshape(4, 4), 2, 0), 2, 1)
        else:
            array = frazil.open_array(root, "r+")
            chunk = number % COUNT
            row, column = 2 * (chunk // 4), 2 * (chunk % 4)
            array[row : row + 2, column : column + 2] = 1000 * number + chunk
        yield number


@pytest.mark.parametrize("way", ["file", "whole", "part"])
def test_readers_beside_writers(tmp_path: Path, way: str) -> None:
    array = create(tmp_path)
    stop = threading.Event()
    done = [0, 0]

    def work(number: int) -> None:
        if number < 2:
            for _ in replacing(tmp_path, way, stop):
                done[number] += 1
            return
        mine = array if number % 2 else frazil.open_array(tmp_path)
        reads = [*READS.values()]
        try:
            turn = 0
            while turn < 100 or min(done) < 20:
                found = reads[turn % len(reads)](mine)
                assert way == "part" or len(found) == 1, "one shard is read in one version"
                assert found <= {*range(1, 31)}
                turn += 1
        finally:
            stop.set()

    in_threads(5, work)
