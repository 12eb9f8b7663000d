"""LocalStore: the suite of all stores, and its specifics: files, errors, links, recent versions, forks, pickles."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from tests.faults.concurrent_calls import fork
from tests.recursion_limit import few_frames
from tests.stores.local_disks import locked

from frazil import _kernel
from frazil.errors import InvalidInputError, ReadOnlyError, StoreError
from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import Store
from frazil.stores.transfer.content import read_values
from frazil.stores.values import ABSENT, ABSENT_KEY, ANY, FOUND, NO_SPANS, STALE, UNKNOWN, WHOLE, Changed
from frazil.testing.checks import refusal
from frazil.testing.store_base import columns
from frazil.testing.store_tests import StoreTests


class TestLocalStore(StoreTests):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path, self.count = tmp_path, 0

    def make_store(self) -> Store:
        self.count += 1
        return LocalStore(self.path / f"store{self.count}")


class TestSyncedLocalStore(TestLocalStore):
    def make_store(self) -> Store:
        self.count += 1
        return LocalStore(self.path / "deep" / f"store{self.count}", sync=True)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def path_of(store: LocalStore, key: str) -> Path:
    return Path(store.path, key)


# --- the root ------------------------------------------------------------------------------------------------------------------------


def test_a_missing_root(store: LocalStore) -> None:
    assert store.get("a") is None
    assert store.list() == store.list_prefix("a/") == []
    assert store.list_dir("") == ([], [])
    assert store.is_empty()
    assert store.erase_many(["a", "b"], [None, b"\1" * 24]) == [None, Changed(ABSENT)]
    store.erase_prefix("")
    fetched = store.fetch(["a", "a", "b"], columns((2, 0, -1), (0, -1, 1)), expect=[None, ABSENT, b"\1" * 24])
    assert list(fetched.status) == [ABSENT_KEY, ABSENT_KEY, STALE]
    assert list(store.fetch(["a"], WHOLE, continue_from=store.fetch(["a"], WHOLE)).status) == [ABSENT_KEY]
    assert list(store.fetch(["a"], WHOLE, single_read=True).status) == [ABSENT_KEY]
    assert store.capabilities.case_sensitive
    assert not os.path.exists(store.path), "reading makes no folder"
    store.set("a", b"1")
    assert store.get("a") == b"1"


def test_a_root_that_is_removed_and_made_again(store: LocalStore) -> None:
    store.set("a", b"1")
    held = store.fetch(["a"], WHOLE)
    shutil.rmtree(store.path)
    assert store.get("a") is None
    assert store.list() == []
    LocalStore(store.path).set("a", b"2")
    assert store.get("a") == b"2"
    shutil.rmtree(store.path)
    store.set("b/c", b"3")
    assert store.list() == ["b/c"]
    shutil.rmtree(store.path)
    LocalStore(store.path).set("b/c", b"4")
    single_read = store.fetch(["b/c"], WHOLE, single_read=True)
    out = np.empty(1, np.uint8)
    assert not _kernel.read_rows(single_read.sources.files, (), single_read.rows, out, np.array([0, 1]), 1)
    assert out.tobytes() == b"4"
    assert read_values(held, ["a"], WHOLE) == [b"1"], "what was fetched is still open"


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_root_that_is_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = LocalStore(tmp_path / name)
    calls: list[Callable[[], object]] = [lambda: store.get("a"), store.list, lambda: store.set("a", b"")]
    for call in calls:
        error = refusal(StoreError, call)
        assert error.errno == errno.ENOTDIR
        assert error.path == store.path


def test_a_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    LocalStore(tmp_path / "link").set("a", b"1")
    assert (tmp_path / "real/a").read_bytes() == b"1"


@pytest.mark.parametrize("path", ["", "a\0b", 5, None, b"bytes"])
def test_bad_paths(path: object) -> None:
    refusal(InvalidInputError, lambda: LocalStore(path))  # type: ignore[arg-type]


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore("store")
    monkeypatch.chdir("/")
    store.set("a", b"1")
    assert (tmp_path / "store/a").read_bytes() == b"1"


def test_read_only(store: LocalStore) -> None:
    store.set("a", b"1")
    reader = LocalStore(store.path, read_only=True)
    calls: list[Callable[[], object]] = [
        lambda: reader.set("a", b"2"),
        lambda: reader.erase("a"),
        lambda: reader.erase_prefix(""),
        lambda: reader.put_many(["a"], None, [None]),  # type: ignore[arg-type]
        lambda: reader.erase_many(["a"], [None]),
    ]
    for call in calls:
        refusal(ReadOnlyError, call)
    assert reader.get("a") == b"1"
    assert not (reader.capabilities.writable or reader.capabilities.erasable)
    missing = LocalStore(store.path + "2", read_only=True)
    refusal(ReadOnlyError, lambda: missing.set("a", b""))
    assert not os.path.exists(missing.path)


# --- keys ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    ["a.__lock", ".__lock", "a.__lock/b", "n" * 256, "é" * 128, "ok/" + "n" * 256, "../a", "/etc/passwd", "a\0", ""],
)
def test_keys_that_no_file_can_have(store: LocalStore, key: str) -> None:
    store.set("a", b"1")
    for call in (store.get, store.exists, store.erase, lambda key: store.set(key, b"2")):
        assert refusal(InvalidInputError, lambda call=call: call(key)).key == key  # type: ignore[misc]
    refusal(InvalidInputError, lambda: store.fetch(["a", key], WHOLE, single_read=True))
    refusal(InvalidInputError, lambda: store.erase_many(["a", key], [None, None]))
    assert store.list() == ["a"]


@pytest.mark.parametrize(
    "key", ["...", "a..b", ".hidden", "a/.b/..c", "__lock", "a.__lock.x", "a\nb", "\\", "é" * 124, "n" * 248, "a b/ "]
)
def test_keys_that_files_can_have(store: LocalStore, key: str) -> None:
    store.set(key, b"1")
    assert store.get(key) == b"1"
    assert store.list() == [key]
    store.erase(key)
    assert store.list() == []


def test_long_names_are_read_but_not_written(store: LocalStore) -> None:
    store.set("a", b"")
    path_of(store, "n" * 255).write_bytes(b"1")
    assert store.get("n" * 255) == b"1"
    error = refusal(StoreError, lambda: store.set("n" * 255, b"2"))
    assert error.errno == errno.ENAMETOOLONG
    assert error.hint is not None
    assert "248" in error.hint


# --- versions ------------------------------------------------------------------------------------------------------------------------


def test_versions_of_files_that_are_too_young_are_not_trusted(store: LocalStore) -> None:
    for key in ("young", "old", "seconds", "future"):
        store.set(key, b"1")
    second = 1_000_000_000
    now = int(os.stat(path_of(store, "young")).st_mtime_ns)
    os.utime(path_of(store, "young"), ns=(0, now + 600 * second))
    os.utime(path_of(store, "old"), ns=(0, now - 100_000_001))
    os.utime(path_of(store, "seconds"), ns=(0, now // second * second))
    fetched = store.fetch(["young", "old", "nothing"], NO_SPANS)
    assert fetched.version_may_repeat == [True, False, False]
    assert None not in fetched.versions[:2]
    assert store.fetch(["old", "nothing"], NO_SPANS).version_may_repeat is None
    assert store.put("young", b"2", fetched.versions[0]) != fetched.versions[0], "still good to expect"


def test_a_young_file_of_whole_seconds(store: LocalStore) -> None:
    store.set("a", b"1")
    now = int(os.stat(path_of(store, "a")).st_mtime)
    os.utime(path_of(store, "a"), (now, now))
    assert store.fetch(["a"], NO_SPANS).version_may_repeat == [True], (
        "disks that keep whole seconds keep young files longer"
    )


def test_versions_are_those_of_put(store: LocalStore) -> None:
    version = store.put("a", b"123")
    stat = os.stat(path_of(store, "a"))
    assert version == b"".join(number.to_bytes(8, "little") for number in (stat.st_ino, stat.st_size, stat.st_mtime_ns))
    assert store.fetch(["a"], NO_SPANS).versions == [version]
    assert store.put("a", b"4", b"of another store") == Changed(version)


def test_held_files_are_read_under_another_expectation(store: LocalStore) -> None:
    first = store.put("a", b"one")
    held = store.fetch(["a"], WHOLE, expect=[b"\1" * 24])
    assert list(held.status) == [STALE]
    store.set("a", b"two")
    again = store.fetch(["a"], WHOLE, continue_from=held, expect=[first])  # type: ignore[list-item]
    assert list(again.status) == [FOUND]
    assert read_values(again, ["a"], WHOLE) == [b"one"]


def test_once_leaves_opening_to_the_kernel(store: LocalStore) -> None:
    store.set("a", b"0123456789")
    spans = columns((1, 0, -1), (0, 2, 3))
    fetched = store.fetch(["a", "b"], spans, single_read=True)
    assert list(fetched.status) == [UNKNOWN, UNKNOWN]
    assert fetched.rows.tolist() == spans.tolist()
    suffix = store.fetch(["a", "b"], columns((0, -20, -1), (1, -2, -1)), single_read=True)
    assert list(suffix.status) == [FOUND, ABSENT_KEY], "a suffix is clipped, for which the size must be known"
    assert suffix.rows[0].tolist() == [0, 0, 10]
    assert list(store.fetch(["a", "b"], spans, single_read=True, expect=[ANY, ABSENT]).status) == [FOUND, ABSENT_KEY]
    assert list(store.fetch(["a", "b"], spans, continue_from=fetched).status) == [FOUND, ABSENT_KEY]


# --- processes -----------------------------------------------------------------------------------------------------------------------


def test_pickle(store: LocalStore) -> None:
    store.set("a", b"1")
    for one in (store, LocalStore(store.path, sync=True), LocalStore(store.path, read_only=True)):
        copy = pickle.loads(pickle.dumps(one))
        assert repr(copy) == repr(one)
        assert (copy.path, copy.sync, copy.read_only) == (one.path, one.sync, one.read_only)
        assert copy.get("a") == b"1"


def test_fork(store: LocalStore) -> None:
    store.set("a", b"1")
    fetched = store.fetch(["a"], WHOLE)

    def in_child() -> None:
        assert read_values(fetched, ["a"], WHOLE) == [b"1"]
        store.set("b", b"2")
        store.set("a", b"3")

    assert os.waitpid(fork(in_child), 0)[1] == 0
    assert (store.get("a"), store.get("b")) == (b"3", b"2")


def test_a_fork_does_not_keep_a_lock(store: LocalStore) -> None:
    """A child that was forked while its parent held a lock has the same open file; the parent's unlock still takes effect."""
    store.set("a", bytes(3_000_000))
    done = Event()

    def write() -> None:
        while not done.is_set():
            store.set("a", bytes(3_000_000))

    writing = Thread(target=write)
    writing.start()
    end, kept = os.pipe()

    def wait() -> None:
        os.close(kept)
        os.read(end, 1)

    children = [fork(wait) for _ in range(10)]
    done.set()
    writing.join()
    store.set("a", b"free")
    assert store.get("a") == b"free"
    os.close(kept)
    os.close(end)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 10


def test_descriptors_are_closed(store: LocalStore) -> None:
    store.set("a", b"1")
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        other = LocalStore(store.path)
        other.set("b/c", b"2")
        other.fetch(["a", "b/c", "none"], WHOLE)
        other.list()
        other.list_dir("b/")
        other.erase_prefix("b/")
        with locked(path_of(store, "x.__lock")):
            other.put("x", b"", b"\1" * 24)
        refusal(StoreError, lambda other=other: other.get("a/b") or other.set("a/b", b""))  # type: ignore[misc]
        del other
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before  # connections of other tests may end meanwhile


def test_reading_does_not_ask_whether_the_disk_folds_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LocalStore(tmp_path).set("a", b"1")

    def ask(folder: int) -> bool | None:
        raise AssertionError("the folder was looked through")

    monkeypatch.setattr("frazil.stores.local.case_folding.folds_visibly", ask)
    store = LocalStore(tmp_path)
    assert store.get("a") == b"1"
    with pytest.raises(AssertionError):
        _ = store.capabilities


@pytest.mark.rule("D107")
def test_keys_of_many_levels_are_listed_and_erased(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "deep")
    key = "/".join("a" * 250)
    with few_frames(200):
        store.set(key, b"value")
        assert store.list() == [key]
        assert store.list_dir("") == ([], ["a/"])
        assert store.list_dir("a/" * 125) == ([], ["a/" * 126])
        assert not store.is_empty("a/" * 2)
        store.erase_prefix("a/")
        assert store.list() == []
        assert store.is_empty()
    assert os.listdir(tmp_path / "deep") == []
