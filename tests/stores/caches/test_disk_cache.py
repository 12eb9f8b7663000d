"""DiskCache: the suite of all stores; what it caches and requests; never stale, whatever others write; folders that are wrong, damaged, full or shared."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.local_disks import run_processes

import frazil
from frazil.errors import InvalidInputError, StoreError
from frazil.stores import LocalStore, MemoryStore, Store, WrappedStore
from frazil.stores.caches.cache_folder import BLOCK, Entry, object_id, open_folder, parse_name
from frazil.stores.caches.disk_cache import DiskCache, cached
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore, StoreTests

VALUE = bytes(range(256)) * 100
UNCHANGING = ("chunks/",)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("???/*"))


def over(inner: Store, folder: Path, **options: Any) -> DiskCache:
    return DiskCache(inner, folder, **{"limit": 2**30, "small": 0, **options})


# --- as any store --------------------------------------------------------------------------------------------------------------------------


class OnDisk(StoreTests):
    folders: Callable[[str], Path]

    @pytest.fixture(autouse=True)
    def _folders(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.folders = tmp_path_factory.mktemp


class TestComparing(OnDisk):
    def make_store(self) -> Store:
        return over(CountingStore(MemoryStore()), self.folders("cache"))


class TestSmall(OnDisk):
    def make_store(self) -> Store:
        return over(CountingStore(MemoryStore()), self.folders("cache"), limit=500)


# --- what it caches and requests ---------------------------------------------------------------------------------------------------------


def test_immutable_keys_are_fetched_once(folder: Path) -> None:
    inner = CountingStore(MemoryStore())
    inner.set("chunks/a", VALUE)
    inner.set("refs/b", VALUE)
    inner.clear()
    for _ in range(3):
        store = over(inner, folder, unchanging=UNCHANGING)
        assert store.get("chunks/a") == VALUE
        assert store.get_partial_values([("chunks/a", (100, 50)), ("chunks/a", (-3, None))]) == [
            VALUE[100:150],
            VALUE[-3:],
        ]
        assert store.get("refs/b") == VALUE
    assert inner.count(key="chunks/a") == 1
    assert inner.count("fetch", "refs/b") == 3
    assert len(files(folder)) == 1, "of a key that may change nothing is kept"
    assert (store.hits, store.misses) == (3, 1)


def test_mutable_keys_are_revalidated(folder: Path) -> None:
    inner = CountingStore(MemoryStore())
    inner.set("a", VALUE)
    assert over(inner, folder).get("a") == VALUE
    inner.clear()
    store = over(inner, folder)
    assert store.get("a") == VALUE
    assert store.get_partial_values([("a", (0, 10)), ("a", (50, 10)), ("a", (20_000, None))]) == [
        VALUE[:10],
        VALUE[50:60],
        VALUE[20_000:],
    ]
    assert [request.operation for request in inner.requests] == ["look up"] * 2
    inner.set("a", VALUE[::-1])
    assert store.get("a") == VALUE[::-1]
    assert len(files(folder)) == 1, "the old version is gone"
    inner.erase("a")
    assert store.get("a") is None
    assert files(folder) == []


def test_small_ranges_of_what_may_change_are_not_kept(folder: Path) -> None:
    inner = CountingStore(MemoryStore())
    inner.set("a", bytes(2**14))
    inner.set("b", bytes(2**14 + 1))
    store = DiskCache(inner, folder)
    inner.clear()
    for _ in range(2):
        store.get("a")
        store.get("b")
    assert [(done.operation, done.key) for done in inner.requests] == [
        ("fetch", "a"), ("fetch", "b"), ("fetch", "a"), ("look up", "b"),
    ]  # fmt: skip


def test_stores_share_nothing(folder: Path) -> None:
    """Two buckets with one key, and the same version of it."""
    for value in (b"one", b"two"):
        inner = CountingStore(MemoryStore())
        inner.set("chunks/a", value)
        for _ in range(2):
            assert over(inner, folder, unchanging=UNCHANGING).get("chunks/a") == value
    assert len(files(folder)) == 2


def test_a_store_without_an_identity(folder: Path) -> None:
    class Nameless(WrappedStore):
        pass

    with pytest.raises(InvalidInputError, match="it has no identity"):
        over(Nameless(MemoryStore()), folder)
    assert not folder.exists()


def test_names_of_files_tell_no_key(folder: Path) -> None:
    inner = CountingStore(MemoryStore("secret-name"))
    inner.set("chunks/private/key", VALUE)
    store = over(inner, folder, unchanging=UNCHANGING)
    store.get("chunks/private/key")
    for path in files(folder):
        assert not {"private", "key", "secret"} & set(path.name.split("."))
        assert b"private" not in path.read_bytes()[:200]
        assert path.stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0
    inner.erase_prefix("")


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_ranges_over_blocks(folder: Path, size: int) -> None:
    value = np.random.default_rng(size).bytes(size)
    inner = CountingStore(MemoryStore())
    inner.set("chunks/a", value)
    store = over(inner, folder, unchanging=UNCHANGING)
    store.get("chunks/a")
    inner.clear()
    edges = {at for edge in range(0, size + 1, BLOCK) for at in (edge - 1, edge, edge + 1) if 0 <= at < size} | {size}
    for first in edges:
        for last in edges:
            if first < last:
                assert store.get_partial_values([("chunks/a", (first, last - first))]) == [value[first:last]]
    assert inner.count() == 0


# --- never stale -------------------------------------------------------------------------------------------------------------------------


RANGES = st.tuples(st.integers(-12, 12), st.none() | st.integers(0, 12))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.lists(st.tuples(st.sampled_from("abc"), RANGES), min_size=1, max_size=4)),
        st.tuples(st.sampled_from(["others", "through"]), st.tuples(st.sampled_from("abc"), st.binary(max_size=12))),
        st.tuples(st.sampled_from(["erase", "erase below", "damage", "trim", "reopen"]), st.sampled_from("abc")),
    ),
    max_size=25,
)


@given(STEPS)
def test_whatever_others_write_it_reads_as_the_store_does(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    inner = CountingStore(MemoryStore())
    store = over(inner, folder)
    for step, given_ in steps:
        if step == "read":
            assert store.get_partial_values(given_) == inner.get_partial_values(given_)
            for key in {key for key, _ in given_}:
                assert store.get_versioned(key) == inner.get_versioned(key)
        elif step == "others":
            inner.set(*given_)
        elif step == "through":
            store.set(*given_)
        elif step == "erase":
            inner.erase(given_)
        elif step == "erase below":
            store.erase_prefix("")
        elif step == "trim":
            open_folder(folder).trim(200)
        elif step == "reopen":
            store = over(inner, folder)
        else:
            for path in files(folder)[:1]:
                path.write_bytes(path.read_bytes()[:-1] + b"?")


def test_a_handle_reads_values_of_other_writers(folder: Path) -> None:
    """An array through a cache: cached shard indexes and chunks are compared with the current object."""
    inner = CountingStore(MemoryStore())
    values = np.random.default_rng(1).integers(0, 2**31, (64, 64))
    writer = frazil.create_array(inner, data=values, chunks=(16, 16), shards=(32, 32))
    reader = frazil.open_array(inner, cache=folder)
    for _ in range(3):
        assert (reader[...] == values).all()
        values[5, 5] += 1
        writer[5, 5] = values[5, 5]
        assert reader[5, 5] == values[5, 5]


# --- folders -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage", ["cut", "grow", "flip head", "flip table", "flip block", "empty", "another", "moved"]
)
def test_a_file_that_is_not_as_it_was_written_is_not_believed(folder: Path, damage: str) -> None:
    inner = CountingStore(MemoryStore())
    inner.set("chunks/a", VALUE)
    inner.set("chunks/b", VALUE[::-1])
    store = over(inner, folder, unchanging=UNCHANGING)
    store.get("chunks/a")
    [path] = files(folder)
    data = bytearray(path.read_bytes())
    if damage.startswith("flip"):
        data[{"head": 3, "table": 13, "block": -1}[damage.split()[1]]] ^= 1
    elif damage in ("cut", "empty"):
        data = data[: -1 if damage == "cut" else 0]
    elif damage == "grow":
        data += b"x"
    elif damage == "another":
        data = bytearray(len(data))
    else:
        store.get("chunks/b")
        [other] = set(files(folder)) - {path}
        data = bytearray(other.read_bytes())
    path.write_bytes(data)
    inner.clear()
    assert store.get("chunks/a") == VALUE
    assert inner.count("fetch") == 1
    assert store.get("chunks/a") == VALUE
    assert inner.count("fetch") == 1, "and it was mended"


@given(st.text(max_size=80) | st.from_regex(r"[0-9a-f]{29}\.(-|[0-9a-f]*)\.[0-9]+\.[0-9]+\.[0-9]+", fullmatch=True))
def test_names_of_files_identify_their_content(name: str) -> None:
    entry = parse_name("abc", name)
    assert entry is None or (entry.name == name or int(name.split(".")[2]) == entry.start)
    for version in (None, b"", b"x" * 64):
        made = Entry(object_id("s", name), version, 3, 2**62, 2**63 - 1)
        assert parse_name(made.folder, made.name) == made
        assert len(made.name) < 255


def test_foreign_files_stay_and_other_folders_are_refused(tmp_path: Path, folder: Path) -> None:
    inner = CountingStore(MemoryStore())
    inner.set("chunks/a", VALUE)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter").write_text("dear")
    (tmp_path / "tagged").mkdir()
    (tmp_path / "tagged/CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n# of another program")
    for name in ("mine", "tagged"):
        with pytest.raises(InvalidInputError, match="the folder is not a cache") as caught:
            over(inner, tmp_path / name)
        assert caught.value.hint
    with pytest.raises(StoreError) as failed:
        over(inner, tmp_path / "mine/letter")
    assert failed.value.errno in (errno.ENOTDIR, errno.EEXIST)
    store = over(inner, folder, unchanging=UNCHANGING)
    store.get("chunks/a")
    [path] = files(folder)
    for foreign in (folder / "notes", path.parent / "notes"):
        foreign.write_text("mine")
    assert open_folder(folder).trim(0).files == 0
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == ["CACHEDIR.TAG", "notes", "notes"]


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "1"])
def test_invalid_limits_are_refused(folder: Path, limit: Any) -> None:
    with pytest.raises(InvalidInputError, match="limit of a cache"):
        cached(CountingStore(MemoryStore()), folder, limit)


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800", b"bytes", 5])
def test_invalid_folders_are_refused(path: Any) -> None:
    with pytest.raises(InvalidInputError, match="a cache must be the path of a folder"):
        cached(CountingStore(MemoryStore()), path, None)


def test_a_limit_without_a_cache() -> None:
    with pytest.raises(InvalidInputError, match="cache_limit has no meaning"):
        frazil.open_array("memory://nowhere", cache_limit=5)


def test_a_local_disk_needs_no_cache(tmp_path: Path, folder: Path) -> None:
    frazil.create_array(tmp_path / "a", data=np.arange(5))
    assert isinstance(frazil.open_array(tmp_path / "a", cache=folder).store, LocalStore)
    assert not folder.exists()


def test_the_limit_holds_and_what_was_used_last_stays(folder: Path) -> None:
    inner = CountingStore(MemoryStore())
    for i in range(100):
        inner.set(f"chunks/{i}", bytes([i]) * 1000)
    store = over(inner, folder, limit=20_000, unchanging=UNCHANGING)
    kept = open_folder(folder)
    numbers = {object_id(inner.identity or "", f"chunks/{i}"): i for i in range(100)}
    store.get("chunks/0")
    for i in range(1, 100):
        store.get(f"chunks/{i}")
        for path in files(folder):  # as if used long ago, one after another, the first one again since
            used = 1000 + (numbers[kept_object(path)] or 10**8)
            os.utime(path, (used, used))
        assert kept.usage().nbytes <= 20_000
    inner.clear()
    store.get("chunks/0")
    store.get("chunks/99")
    assert inner.count() == 0
    assert 10 < kept.usage().files < 20
    store.get("chunks/1")
    assert inner.count() == 1


def kept_object(path: Path) -> str:
    entry = parse_name(path.parent.name, path.name)
    return "" if entry is None else entry.object


def test_the_limit_holds_beside_files_of_another_user() -> None:
    """As of root, which has opened the same cache once."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with TemporaryDirectory() as place:  # not beneath pytest's folders, which only their owner can enter
        os.chmod(place, 0o755)
        check_beside_files_of_root(Path(place, "cache"))


def check_beside_files_of_root(folder: Path) -> None:
    inner = MemoryStore()
    for number in range(40):
        inner.set(f"{number}", VALUE)
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    assert over(CountingStore(inner), folder).get("0") == VALUE

    def as_nobody() -> None:
        os.setuid(65534)
        cache = over(CountingStore(inner), folder, limit=5 * len(VALUE))
        for number in range(40):
            assert cache.get(f"{number}") == VALUE
        assert open_folder(folder).usage().nbytes <= 6 * len(VALUE)

    run_processes([as_nobody])


def test_a_use_is_noted(folder: Path) -> None:
    inner = CountingStore(MemoryStore())
    inner.set("chunks/a", VALUE)
    store = over(inner, folder, unchanging=UNCHANGING)
    store.get("chunks/a")
    [path] = files(folder)
    os.utime(path, (1000, 1000))
    store.get("chunks/a")
    assert path.stat().st_mtime > 10**9


def test_a_value_that_is_large_for_the_folder_is_not_kept(folder: Path) -> None:
    inner = CountingStore(MemoryStore())
    inner.set("chunks/a", bytes(251))
    inner.set("chunks/b", bytes(250))
    store = over(inner, folder, limit=1000, unchanging=UNCHANGING)
    store.get("chunks/a")
    assert files(folder) == []
    store.get("chunks/b")
    assert len(files(folder)) == 1


def test_a_full_or_vanished_disk_does_not_fail_a_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = CountingStore(MemoryStore())
    inner.set("chunks/a", VALUE)
    store = over(inner, folder, unchanging=UNCHANGING)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert store.get("chunks/a") == VALUE
    assert files(folder) == [], "nothing is left half written"
    for path in folder.iterdir():
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
    for _ in range(2):
        assert store.get("chunks/a") == VALUE


def test_a_fault_of_the_store_is_not_kept(folder: Path) -> None:
    inner = MemoryStore()
    inner.set("chunks/a", VALUE)
    store = over(
        FaultyStore(inner, FaultPlan([Fault("fetch", 1, "cut"), Fault("fetch", 2)])), folder, unchanging=UNCHANGING
    )
    for _ in range(2):
        with pytest.raises(StoreError):
            store.get("chunks/a")
    assert files(folder) == []
    assert store.get("chunks/a") == VALUE


def test_disk_caches_pickle(tmp_path: Path, folder: Path) -> None:
    inner = CountingStore(LocalStore(tmp_path / "data"))
    inner.set("chunks/a", VALUE)
    store = over(inner, folder, unchanging=UNCHANGING, limit=1234567, small=7)
    store.get("chunks/a")
    copy = pickle.loads(pickle.dumps(store))
    copy.inner.clear()
    assert copy.get("chunks/a") == VALUE
    assert copy.inner.count() == 0
    assert (copy.folder, copy._policy, repr(copy)) == (str(folder), store._policy, repr(store))
    assert copy._files.limit == 1234567


@pytest.mark.parametrize("mode", ["a", "w"])
def test_stores_resolved_at_opening_use_the_cache(folder: Path, mode: Any) -> None:
    inner = CountingStore(MemoryStore())
    array = frazil.open_array(inner, mode, path="x/y", shape=(300, 300), dtype="f8", chunks=(100, 100), cache=folder)
    array[...] = np.random.default_rng(1).random((300, 300))
    assert isinstance(array.store, DiskCache)
    group = frazil.open_group(inner, "a", path="x", cache=folder)
    for _ in range(2):
        assert (group["y"][...] == array[...]).all()
    assert len(files(folder)) == 9
    node = frazil.open(inner, path="x/y", cache=folder, cache_limit=10**6)
    inner.clear()
    assert (node[...] == array[...]).all()
    assert inner.bytes_read == 0


def test_named_pipes_in_the_place_of_files_are_not_waited_for(tmp_path: Path) -> None:
    inner, folder = MemoryStore(), tmp_path / "cache"
    inner.set("a", bytes(5000))
    assert DiskCache(inner, folder).get("a") == bytes(5000)
    for file in folder.glob("???/*"):
        file.unlink()
        os.mkfifo(file)
    assert DiskCache(inner, folder).get("a") == bytes(5000)
    (folder / "CACHEDIR.TAG").unlink()
    os.mkfifo(folder / "CACHEDIR.TAG")
    with pytest.raises(InvalidInputError, match="not a cache"):
        DiskCache(inner, folder)
