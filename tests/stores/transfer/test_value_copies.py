"""Store.copy_in and put_stream: the same bytes under the new names, for any stores, within the given memory."""

from __future__ import annotations

import os
import threading
import tracemalloc
import weakref
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.concurrent_calls import fork
from tests.stores.refused_system_calls import lack, require_filters

from frazil.errors import InvalidInputError, ReadOnlyError, StoreError
from frazil.stores import (
    Capabilities,
    Columns,
    Fetched,
    LocalStore,
    MemoryStore,
    ObjectStore,
    Store,
    Version,
    WrappedStore,
    ZipStore,
    adapt,
)
from frazil.stores.local import new_files as files_module
from frazil.stores.transfer.content import as_buffers
from frazil.stores.transfer.value_copies import put_parts
from frazil.stores.values import Changed, Pieces, Sources, whole_spans
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore
from frazil.testing.buffered_store import BufferedStore

NAMES = st.lists(
    st.sampled_from(["a", "b", "c", "d e", "ü", "\n", ".x", "zarr.json", "~"]), min_size=1, max_size=3
).map("/".join)
VALUES = st.one_of(
    st.binary(max_size=40),
    st.integers(0, 3000).map(lambda size: bytes(range(256)) * (size // 256) + b"e" * (size % 256)),
)


def free(names: Sequence[str]) -> dict[str, str]:
    """Those of which none is the folder of another."""
    return {name: name for name in names if not any(other.startswith(name + "/") for other in names)}


@given(
    st.dictionaries(NAMES, VALUES, max_size=12),
    st.sampled_from(["memory", "local", "remote"]),
    st.sampled_from(["memory", "local"]),
    st.integers(1, 4000),
)
def test_a_copy_has_the_same_bytes_under_each_key(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, bytes], here: str, there: str, limit: int
) -> None:
    folder = tmp_path_factory.mktemp("copy")
    source: Store = LocalStore(folder / "source") if here == "local" else MemoryStore()
    target: Store = LocalStore(folder / "target") if there == "local" else MemoryStore()
    kept = {name: values[name] for name in free(list(values))}
    for name, value in kept.items():
        source.set(name, value)
    requested = [*kept, "missing", "mis/sing"]
    if here == "remote":
        source = CountingStore(source)
    sizes = target.copy_in([f"new/{name}" for name in requested], source, requested, limit=limit)
    assert sizes == [*map(len, kept.values()), -1, -1]
    assert {key: target.get(key) for key in target.list()} == {f"new/{name}": value for name, value in kept.items()}


class Watching(WrappedStore):
    """Records the maximum of bytes in one put or one part of a stream; supports streams."""

    __slots__ = ("most",)

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.most = 0

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(streams=True)

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        parts = pieces.parts
        if parts is None:
            return self.inner.put_many(names, pieces, expect)

        def seen() -> Iterator[bytes]:
            for part in parts:
                self.most = max(self.most, len(part))
                yield part

        put_parts(self.inner, names[0], int(pieces.rows[0, 2]), seen())
        return [b"?"]


@pytest.mark.parametrize("local", [True, False])
def test_large_values_are_copied_in_pieces(tmp_path: Path, local: bool) -> None:
    value = np.random.default_rng(1).bytes(5_000_000)
    memory = MemoryStore()
    memory.set("large", value)
    source = CountingStore(memory)
    target = Watching(LocalStore(tmp_path) if local else MemoryStore())
    assert target.copy_in(["x/large"], source, ["large"], limit=2**20) == [len(value)]
    assert target.inner.get("x/large") == value
    assert 0 < target.most <= 2**20
    assert max(request.nbytes for request in source.requests) <= 2**20


def test_small_objects_take_one_request_each_to_a_store_at_a_distance() -> None:
    memory = MemoryStore()
    names = [f"c/{number}" for number in range(100)]
    for name in names:
        memory.set(name, name.encode())
    source, target = CountingStore(memory), CountingStore(MemoryStore())
    target.copy_in(names, source, names, limit=2**24)
    assert source.count() == target.count() == 100


class Restless(CountingStore):
    """Replaces its object after each read of any version, a few times."""

    __slots__ = ("times",)

    def __init__(self, inner: Store, times: int) -> None:
        super().__init__(inner)
        self.times = times

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        fetched = super().fetch(names, spans, expect=expect, continue_from=continue_from, single_read=single_read)
        if self.times and expect is None:
            self.times -= 1
            self.inner.set("a", bytes([self.times]) * 5000)
        return fetched


class Living(WrappedStore):
    """Counts the bytes of its answers that are still referenced."""

    __slots__ = ("most", "now")

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.now = self.most = 0

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(direct=False)

    def fetch(self, names: Sequence[str], spans: Columns, **options: object) -> Fetched:
        fetched = as_buffers(self.inner.fetch(names, spans, **options), names, spans)  # type: ignore[arg-type]
        buffers = [np.frombuffer(buffer, np.uint8).copy() for buffer in fetched.sources.buffers]
        for buffer in buffers:
            self.now += buffer.nbytes
            weakref.finalize(buffer, self.gone, buffer.nbytes)
        self.most = max(self.most, self.now)
        return fetched._replace(sources=Sources(None, buffers))

    def gone(self, nbytes: int) -> None:
        self.now -= nbytes


def test_fetched_bytes_are_released_before_the_next_fetch(tmp_path: Path) -> None:
    limit = 2**22
    source = Living(MemoryStore())
    names = ["large 1", "large 2", "small", "tiny"]
    for name, size in zip(names, (3 * limit + 5, 2 * limit, limit // 5, 10), strict=True):
        source.set(name, os.urandom(size))
    LocalStore(tmp_path).copy_in(names, source, names, limit=limit)
    assert all(LocalStore(tmp_path).get(name) == source.inner.get(name) for name in names)
    assert source.most <= limit


@pytest.mark.parametrize("local", [True, False])
def test_deflated_entries_are_inflated_within_the_limit(tmp_path: Path, local: bool) -> None:
    """All of a batch were inflated before their sizes were compared with the limit."""
    limit, mib = 2**21, np.random.default_rng(1).integers(0, 4, 2**20, np.uint8).tobytes()
    values = {**{f"small/{number}": mib for number in range(16)}, "large": mib * 16, "empty": b""}
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for name, value in values.items():
            file.writestr(name, value)
    folder, target = LocalStore(tmp_path), LocalStore(tmp_path / "to")
    source = ZipStore("a.zip", store=folder if local else BufferedStore(folder))
    source.get("empty")
    tracemalloc.start()
    try:
        assert target.copy_in(list(values), source, list(values), limit=limit) == [*map(len, values.values())]
        assert tracemalloc.get_traced_memory()[1] < 2 * limit
    finally:
        tracemalloc.stop()
    assert all(target.get(name) == value for name, value in values.items())


def test_a_copy_is_of_one_version_though_the_source_is_replaced() -> None:
    memory, target = MemoryStore(), MemoryStore()
    memory.set("a", b"x" * 5000)
    assert target.copy_in(["b"], Restless(memory, 2), ["a"], limit=1000) == [5000]
    assert target.get("b") == bytes(5000)
    with pytest.raises(StoreError, match="replaced during each of"):
        target.copy_in(["c"], Restless(memory, 9), ["a"], limit=1000)
    assert target.get("c") is None


def test_bodies_that_come_short_are_errors() -> None:
    memory, target = MemoryStore(), MemoryStore()
    memory.set("a", b"x" * 5000)
    for limit in (10_000, 1000):
        with pytest.raises(StoreError):
            plan = FaultPlan([Fault("fetch", call, "cut") for call in range(1, 20)])
            target.copy_in(["b"], FaultyStore(memory, plan), ["a"], limit=limit)
    assert target.list() == []


# --- from folder to folder -----------------------------------------------------------------------------------------------------------------


def test_files_are_copied_over_others_and_with_their_folders(tmp_path: Path) -> None:
    value = np.random.default_rng(1).bytes(700_000)
    source, target = LocalStore(tmp_path / "a"), LocalStore(tmp_path / "b", sync=True)
    for name in ("x/1", "x/2", "y/z/1", "0"):
        source.set(name, value + name.encode())
    target.set("x/2", b"old")
    assert target.copy_in(source.list(), source, source.list()) == [700_001, 700_003, 700_003, 700_005]
    assert {key: target.get(key) for key in target.list()} == {key: source.get(key) for key in source.list()}
    assert not [path for path in (tmp_path / "b").rglob("*") if path.name.endswith(".__lock")]
    for name in source.list():
        assert (tmp_path / "b" / name).stat().st_mtime_ns == (tmp_path / "a" / name).stat().st_mtime_ns


def store_streams(folder: Path) -> None:
    target = LocalStore(folder, sync=True)
    put_parts(target, "s/t", 6, iter([b"abc", b"", b"def"]))
    os.chmod(folder / "s" / "t", 0o640)
    put_parts(target, "s/t", 2, iter([b"gh"]))
    with pytest.raises(ZeroDivisionError):
        put_parts(target, "s/t", 2, (b"%d" % (1 // number) for number in (1, 0)))
    assert target.get("s/t") == b"gh"
    assert os.listdir(folder / "s") == ["t"]
    assert os.stat(folder / "s" / "t").st_mode & 0o777 == 0o640


def test_streams_are_stored(tmp_path: Path) -> None:
    store_streams(tmp_path)


def test_streams_are_stored_on_disks_without_unnamed_files(tmp_path: Path) -> None:
    require_filters()

    def store() -> None:
        lack("unnamed files")
        store_streams(tmp_path)

    assert os.waitpid(fork(store), 0)[1] == 0


def test_a_stream_that_breaks_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"abc"
        raise StoreError("lost")

    store = LocalStore(tmp_path)
    store.set("a", b"old")
    for key in ("a", "b"):
        with pytest.raises(StoreError, match="lost"):
            put_parts(store, key, 6, broken())
    assert os.listdir(tmp_path) == ["a"]
    assert store.get("a") == b"old"


def test_folders_are_not_values_and_errors_name_the_key(tmp_path: Path) -> None:
    source, target = LocalStore(tmp_path / "a"), LocalStore(tmp_path / "b")
    source.set("a", b"1")
    source.set("f/g", b"2")
    (tmp_path / "a" / "link").symlink_to(tmp_path / "a" / "a")
    os.mkfifo(tmp_path / "a" / "pipe")
    assert target.copy_in(["x", "y"], source, ["f", "a/b"]) == [-1, -1]
    for name in ("link", "pipe"):
        with pytest.raises(StoreError) as caught:
            target.copy_in(["x"], source, [name])
        assert caught.value.key == name
    target.set("folder/a", b"")
    with pytest.raises(StoreError, match="there is a folder") as caught:
        target.copy_in(["folder"], source, ["a"])
    assert caught.value.key == "folder"
    with pytest.raises(StoreError) as caught:
        target.copy_in(["folder/a/b"], source, ["a"])
    assert caught.value.key == "folder/a/b"
    with pytest.raises(InvalidInputError):
        target.copy_in(["x.__lock"], source, ["a"])
    with pytest.raises(ReadOnlyError):
        LocalStore(tmp_path / "b", read_only=True).copy_in(["x"], source, ["a"])
    assert LocalStore(tmp_path / "c").copy_in(["x"], LocalStore(tmp_path / "nowhere"), ["a"]) == [-1]
    assert target.list() == ["folder/a"]


def test_a_copy_is_of_one_version_though_the_file_is_changed_in_place(tmp_path: Path) -> None:
    source, target = LocalStore(tmp_path / "a"), LocalStore(tmp_path / "b")
    source.set("a", b"1")
    stop = threading.Event()

    def change() -> None:
        with (tmp_path / "a" / "a").open("ab", buffering=0) as stream:
            while not stop.is_set():
                stream.truncate(0)
                for _ in range(200):
                    stream.write(b"1" * 1000)

    writer = threading.Thread(target=change)
    writer.start()
    copied: dict[str, bytes] = {}
    try:
        for number in range(100):
            name = f"copy/{number}"
            try:
                (size,) = target.copy_in([name], source, ["a"])
            except StoreError:
                continue
            copied[name] = b"1" * size
    finally:
        stop.set()
        writer.join()
    assert {name: target.get(name) for name in target.list()} == copied
    size = (tmp_path / "a" / "a").stat().st_size
    assert target.copy_in(["still"], source, ["a"]) == [size]


def test_a_file_that_is_changed_each_time_is_an_error_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = LocalStore(tmp_path / "a"), LocalStore(tmp_path / "b")
    for name in ("a", "b"):
        source.set(name, b"1")

    class Kernel:
        @staticmethod
        def copy_files(*arguments: object) -> None:
            result = arguments[-1]
            assert isinstance(result, np.ndarray)
            result[:] = [(0, 1), (-2, 0)]

    monkeypatch.setattr(files_module, "_kernel", Kernel)
    with pytest.raises(StoreError, match="changed during each attempt") as caught:
        target.copy_in(["c", "d"], source, ["a", "b"])
    assert caught.value.key == "b"


def test_many_threads_copy_into_the_same_folders(tmp_path: Path) -> None:
    source, target = LocalStore(tmp_path / "a"), LocalStore(tmp_path / "b")
    names = [f"{i}/{j}/{k}" for i in range(4) for j in range(4) for k in range(4)]
    for name in names:
        source.set(name, name.encode())
    threads = [threading.Thread(target=target.copy_in, args=(names[at::4], source, names[at::4])) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {key: target.get(key) for key in target.list()} == {name: name.encode() for name in names}


@pytest.mark.parametrize("kind", ["local", "bucket"])
@pytest.mark.parametrize("error", [OSError("file is truncated"), ValueError("no such codec"), KeyboardInterrupt()])
def test_errors_of_parts_are_not_those_of_the_store(kind: str, error: BaseException, tmp_path: Path) -> None:
    """They were reported as failures to write, without their text."""
    store = LocalStore(tmp_path) if kind == "local" else ObjectStore(obstore.store.MemoryStore())
    store.set("a", b"old")

    def parts() -> Iterator[bytes]:
        yield b"1"
        raise error

    with pytest.raises(type(error)) as caught:
        put_parts(store, "a", 2, parts())
    assert caught.value is error
    assert store.get("a") == b"old"
    assert store.list() == ["a"]


@pytest.mark.parametrize("kind", ["memory", "zip", "dict", "bucket"])
def test_a_piece_that_cannot_be_read_names_its_value(tmp_path: Path, kind: str) -> None:
    stores: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "zip": lambda: ZipStore(tmp_path / "a.zip"),
        "dict": lambda: adapt({}),
        "bucket": lambda: ObjectStore(obstore.store.MemoryStore()),
    }
    source = LocalStore(tmp_path / "source")
    for key in "ab":
        source.set(key, b"0123456789")
    fetched = source.fetch(["a", "b"], whole_spans(2))
    os.truncate(tmp_path / "source" / "b", 3)
    pieces = Pieces(fetched.sources, fetched.rows, np.array([0, 1, 2]))
    with pytest.raises(StoreError) as caught:
        stores[kind]().put_many(["x", "y"], pieces, [None, None])
    assert caught.value.key == "y"
