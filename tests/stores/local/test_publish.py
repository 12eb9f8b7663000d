"""publish_files and erase_files of the kernel: whole values, conditions, locks, and the state after a failure. Races and crashes: test_publish_races.py."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faults.concurrent_calls import fork
from tests.stores.local_disks import Folder, has_open, locked, mounted, pack_version, run_processes
from tests.stores.refused_system_calls import lack, require_filters

import frazil
from frazil import _kernel
from frazil.errors import StoreError
from frazil.stores import LocalStore, ZipStore
from frazil.stores.transfer.value_copies import put_parts
from frazil.testing.checks import refusal


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "root")


def test_values_get_their_names_and_folders(folder: Folder) -> None:
    values = {"a": b"one", "b/c/d": b"", "b/c/e": bytes(3_000_000), "b/é": b"two"}
    answers = folder.publish(values)
    assert {name: folder.read(name) for name in values} == values
    assert folder.names() == set(values)
    for name, answer in zip(values, answers, strict=True):
        assert answer[0] == 0
        assert pack_version(answer[1:]) == folder.version(name)


def test_many_values_in_one_call(folder: Folder) -> None:
    values = {f"c/{i // 50}/{i}": b"%d" % i * (i % 7) for i in range(400)}
    for threads in (1, 3):
        assert {answer[0] for answer in folder.publish(values, threads=threads)} == {0}
        assert {name: folder.read(name) for name in values} == values
    assert {answer[0] for answer in folder.erase(list(values))} == {0}
    assert folder.names() == set()
    assert folder.publish({}) == folder.erase([]) == []


def test_pieces_from_buffers_and_files(folder: Folder) -> None:
    old = np.random.default_rng(3).bytes(1_500_000)
    folder.publish({"old": old, "other": b"0123456789"})
    rows = np.array(
        [
            (0, 5, 7), (0, 12, 8), (-1, 2, 2), (0, 100_000, 1_400_000), (1, -3, -1), (1, 0, 0), (0, 0, 300_000), (-2, 0, -1), (0, 0, 70_000),
            (1, 4, 2), (-2, 0, 1),
        ],
        np.int64,
    )  # fmt: skip
    parts = [
        old[5:20], b"cd", old[100_000:], b"789", old[:300_000], bytes(200_000), old[:70_000], b"45", b"\0",
    ]  # fmt: skip
    for stat_rows in (None, np.empty((2, 4), np.int64)):
        files = _kernel.open_files(folder.fd, ["old", "other"], stat_rows)
        result = np.empty((2, 4), np.int64)
        buffers = [b"abcdef", bytes(200_000)]
        offsets = np.array([0, len(rows), len(rows)], np.int64)
        _kernel.publish_files(folder.fd, ["new", "old"], files, buffers, rows, offsets, [None, None], False, 1, result)
        assert result[:, 0].tolist() == [0, 0]
        assert folder.read("new") == b"".join(parts)
        assert folder.read("old") == b""
        folder.publish({"old": old})


@pytest.mark.parametrize("row", [(0, 0, 6), (0, 6, 0), (1, 0, 1), (-1, 2, 2), (-1, -4, -1), (_kernel.MISSING, 0, 0)])
@pytest.mark.parametrize("kept_open", [False, True])
def test_a_missing_piece_changes_nothing(folder: Folder, row: tuple[int, int, int], kept_open: bool) -> None:
    folder.publish({"a": b"value"})
    before = folder.version("a")
    files = _kernel.open_files(folder.fd, ["a", "nothing"], np.empty((2, 4), np.int64) if kept_open else None)
    result = np.empty((2, 4), np.int64)
    rows, offsets = np.array([(0, 0, 1), row, (0, 1, 1)], np.int64), np.array([0, 2, 3], np.int64)
    _kernel.publish_files(folder.fd, ["a", "b"], files, [b"abc"], rows, offsets, [None, None], False, 1, result)
    code = _kernel.FAILED_IO if row[0] == 1 else _kernel.FAILED_RANGE
    assert result[0].tolist() == [-2, code, 0, 0]
    assert folder.version("a") == before
    assert folder.names() == {"a", "b"}, "the other value of the call is published, and no lock file is left"


def test_conditions(folder: Folder) -> None:
    [first] = folder.publish({"a": b"1"}, [b""])
    assert first[0] == 0
    version = pack_version(first[1:])
    assert folder.publish({"a": b"2"}, [b""]) == [[-1, *first[1:]]]
    assert folder.publish({"b": b"2", "x/y": b"", "a/b": b""}, [version] * 3) == [[-1, 0, -1, 0]] * 3
    assert os.listdir(folder.path) == ["a"], "no folder was made for it"
    [second] = folder.publish({"a": b"2"}, [version])
    assert second[0] == 0
    assert folder.publish({"a": b"3"}, [version]) == [[-1, *second[1:]]]
    assert folder.read("a") == b"2"
    assert folder.names() == {"a"}


def test_conditions_of_erasing(folder: Folder) -> None:
    [[_, *version]] = folder.publish({"a": b"1"})
    assert folder.erase(["a", "b", "x/y"], [b"", b"", b""]) == [[-1, *version], [-1, 0, -1, 0], [-1, 0, -1, 0]]
    assert folder.erase(["a"], [pack_version([1, 2, 3])]) == [[-1, *version]]
    assert folder.names() == {"a"}
    assert folder.erase(["a"], [pack_version(version)]) == [[0, *version]]
    assert folder.erase(["a", "a/b", "x/y"]) == [[-1, 0, -1, 0]] * 3
    assert list(folder.path.iterdir()) == [], "nor were folders made"


def test_versions_do_not_come_back(folder: Folder) -> None:
    seen = set()
    for i in range(300):
        [answer] = folder.publish({"a": b"same"})
        seen.add(tuple(answer))
        if i % 3 == 0:
            folder.erase(["a"])
    assert len(seen) == 300, "though inodes are used again and the clock of the disk stands still meanwhile"


def test_time_goes_on_from_version_to_version(folder: Folder) -> None:
    folder.publish({"a": b"1"})
    os.utime(folder.path / "a", ns=(0, 2**62))
    [[code, _, _, changed]] = folder.publish({"a": b"2"})
    assert (code, changed) == (0, 2**62 + 1)


def test_modes_follow_the_umask(folder: Folder) -> None:
    before = os.umask(0o027)
    try:
        folder.publish({"a/b": b""})
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder.path / "a").stat().st_mode) == 0o750
    assert stat.S_IMODE((folder.path / "a/b").stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o400, 0o777])
def test_a_value_that_is_replaced_keeps_its_mode(folder: Folder, mode: int) -> None:
    folder.publish({"a": b"1"})
    os.chmod(folder.path / "a", mode)
    for conditional in (False, True):
        expect = [folder.version("a") if conditional else None]
        assert folder.publish({"a": b"22"}, expect=expect)[0][0] == 0
        assert stat.S_IMODE((folder.path / "a").stat().st_mode) == mode
    os.chmod(folder.path / "a", 0o600)
    store = LocalStore(folder.path)
    store.set("a", b"3")
    store.append("a", b"4")
    store.update("a", lambda old: (old or b"") + b"5")
    put_parts(store, "a", 2, iter([b"6", b"7"]))
    assert store.get("a") == b"67"
    assert stat.S_IMODE((folder.path / "a").stat().st_mode) == 0o600
    store.erase("a")
    store.set("a", b"")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((folder.path / "a").stat().st_mode) == 0o666 & ~umask


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS")
def test_fewer_threads_where_the_system_has_no_more(tmp_path: Path) -> None:
    code = """
import resource, sys
import numpy as np
from frazil.stores import LocalStore, ZipStore
store = LocalStore(sys.argv[1])
names = [f"{i}" for i in range(400)]
from frazil.stores.transfer.value_copies import put_parts
from frazil.stores.values import pieces_of
pieces = pieces_of([b"%d" % i for i in range(400)])
import frazil
from frazil import _kernel
result = np.empty((400, 4), np.int64)
store.set("first", b"")
root = store._root.fd
size = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (size + 2**20,) * 2)  # no room for a thread's stack
_kernel.publish_files(root, names, None, pieces.sources.buffers, pieces.rows, pieces.offsets, [None] * 400, False, 16, result)
assert not result[:, 0].any()
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert {int(path.read_bytes()) for path in tmp_path.iterdir() if path.name != "first"} == set(range(400))


def test_synced_values(folder: Folder) -> None:
    assert folder.publish({"a/b/c": b"1", "d": b"2"}, sync=True)[0][0] == 0
    assert folder.names() == {"a/b/c", "d"}


# --- obstacles ---------------------------------------------------------------------------------------------------------------------------


def test_prefixes_and_keys_exclude_each_other(folder: Folder) -> None:
    folder.publish({"a/b": b"1"})
    assert [answer[0] for answer in folder.publish({"a": b"", "a/b/c": b"", "a/b/c/d": b"", "e": b"2"})] == [
        errno.EISDIR, errno.ENOTDIR, errno.ENOTDIR, 0,
    ]  # fmt: skip
    assert folder.erase(["a"]) == [[errno.EISDIR, 0, 0, 0]]
    assert folder.names() == {"a/b", "e"}


def test_links_are_neither_followed_nor_replaced(folder: Folder) -> None:
    outside = Folder(folder.path.parent / "outside")
    outside.publish({"file": b"outside", "in/file": b"outside"})
    (folder.path / "link").symlink_to(outside.path)
    (folder.path / "file").symlink_to(outside.path / "file")
    (folder.path / "dangling").symlink_to(outside.path / "new")
    (folder.path / "x.__lock").symlink_to(outside.path / "new")
    names = ["link/file", "link/in/file", "link/new", "link/deep/new", "file", "dangling", "x"]
    for answers in (folder.publish(dict.fromkeys(names, b"inside")), folder.erase(names)):
        assert [answer[0] for answer in answers] == [errno.ELOOP] * len(names)
    assert outside.names() == {"file", "in/file"}
    assert {outside.read("file"), outside.read("in/file")} == {b"outside"}
    assert (folder.path / "file").is_symlink()


def test_paths_other_than_files_are_not_replaced(folder: Folder) -> None:
    os.mkfifo(folder.path / "fifo")
    os.mkfifo(folder.path / "other.__lock")
    assert folder.publish({"fifo": b""})[0][0] == errno.ENXIO
    assert folder.publish({"other": b""})[0][0] == errno.ENXIO
    assert folder.erase(["fifo"])[0][0] == errno.ENXIO
    assert folder.names() == {"fifo", "other.__lock"}


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/./b", "a\0b"])
def test_bad_names_are_refused_before_anything_is_written(folder: Folder, name: str) -> None:
    with pytest.raises(ValueError, match="names"):
        folder.publish({"good": b"", name: b""})
    with pytest.raises(ValueError, match="names"):
        folder.erase(["good", name])
    assert folder.names() == set()


def test_bad_arguments_are_refused_before_anything_is_written(folder: Folder) -> None:
    good: dict[str, Any] = {
        "root": folder.fd, "names": ["a"], "files": None, "buffers": [b"x"], "rows": np.array([(-1, 0, 1)]), "offsets": np.array([0, 1]),
        "expect": [None], "sync": False, "threads": 1, "result": np.zeros((1, 4), np.int64),
    }  # fmt: skip
    wrong: list[dict[str, Any]] = [
        {"root": -1}, {"expect": []}, {"expect": [b"short"]}, {"rows": np.array([(-2, 0, 1)])}, {"rows": np.array([(0, 0, 1)])},
        {"rows": np.zeros((1, 3))}, {"offsets": np.array([0, 2])}, {"offsets": np.array([0])}, {"offsets": np.array([1, 0])},
        {"offsets": np.array([-1, 1])}, {"result": np.zeros((2, 4), np.int64)},
    ]  # fmt: skip
    for change in wrong:
        with pytest.raises(ValueError):
            _kernel.publish_files(**{**good, **change})
    assert folder.names() == set()


def test_a_name_too_long_for_its_lock(folder: Folder) -> None:
    assert folder.publish({"n" * 248: b""})[0][0] == 0
    assert folder.publish({"n" * 249: b""})[0][0] == errno.ENAMETOOLONG
    (folder.path / ("n" * 255)).write_bytes(b"of another writer")
    assert folder.erase(["n" * 254])[0] == [-1, 0, -1, 0]


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m", "none") as path:
        folder = Folder(path)
        folder.publish({"a": bytes(400_000)})
        before = folder.version("a")
        assert folder.publish({"a": bytes(900_000), "b/c": b"2"})[0] == [errno.ENOSPC, 0, 0, 0]
        assert folder.version("a") == before
        assert folder.names() <= {"a", "b/c"}
        assert folder.publish({"a": bytes(300_000)})[0][0] == 0


def test_a_folder_that_may_not_be_written(folder: Folder) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    folder.publish({"a": b"1", "d/b": b"2"})
    folder.path.parent.chmod(0o755)

    def as_nobody() -> None:
        os.setuid(65534)
        assert folder.publish({"a": b"3", "d/b": b"3", "new/c": b"3"}) == [[errno.EACCES, 0, 0, 0]] * 3
        assert folder.erase(["a"]) == [[errno.EACCES, 0, 0, 0]]

    assert os.waitpid(fork(as_nobody), 0)[1] == 0
    assert folder.names() == {"a", "d/b"}
    assert (folder.read("a"), folder.read("d/b")) == (b"1", b"2")


# --- locks ---------------------------------------------------------------------------------------------------------------------------


def test_a_stale_lock_is_taken_over(folder: Folder) -> None:
    (folder.path / "a.__lock").write_bytes(b"half of a value that nobody finished")
    assert folder.publish({"a": b"whole"})[0][0] == 0
    assert folder.names() == {"a"}
    assert folder.read("a") == b"whole"


def test_erasing_clears_a_stale_lock(folder: Folder) -> None:
    (folder.path / "a.__lock").write_bytes(b"half")
    assert folder.erase(["a"]) == [[-1, 0, -1, 0]]
    assert folder.names() == set()


def test_a_held_lock_is_waited_for(folder: Folder) -> None:
    folder.publish({"a": b"0", "b": b"0"})
    waiting = [
        threading.Thread(target=folder.publish, args=({"a": b"1"},)),
        threading.Thread(target=folder.erase, args=(["b"],)),
    ]
    with locked(folder.path / "a.__lock") as a, locked(folder.path / "b.__lock"):
        for thread in waiting:
            thread.start()
        assert folder.publish({"c": b"1"}, [None])[0][0] == 0, "other names are free"
        assert (folder.read("a"), folder.read("b")) == (b"0", b"0")
        os.write(a, b"of the other writer")
        (folder.path / "a.__lock").rename(folder.path / "a")
        assert folder.read("a") == b"of the other writer"
    for thread in waiting:
        thread.join()
    assert folder.read("a") == b"1"
    assert folder.names() == {"a", "c"}


def test_permanent_errors_are_not_retried(folder: Folder) -> None:
    [[_, *version]] = folder.publish({"a": b"0"})
    with locked(folder.path / "a.__lock"):
        assert folder.publish({"a": b"1"}, [b""]) == [[-1, *version]]
        assert folder.erase(["a"], [pack_version([1, 1, 1])]) == [[-1, *version]]
    assert folder.names() == {"a", "a.__lock"}, "the lock of another is not ours to remove"


WAIT = """
import sys
from pathlib import Path
from tests.stores.local_disks import Folder
folder = Folder(Path(sys.argv[1]))
try:
    folder.publish({f"k{i}": b"1" for i in range(int(sys.argv[2]))}, threads=2)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("count", [1, 200])
def test_an_interrupt_ends_the_waiting(folder: Folder, count: int) -> None:
    with locked(folder.path / "k0.__lock"):
        command = [sys.executable, "-c", WAIT, str(folder.path), str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as child:
            while child.poll() is None and not has_open(child.pid, folder.path / "k0.__lock"):
                os.sched_yield()
            child.send_signal(signal.SIGINT)
            assert child.communicate()[0] == "interrupted\n"
        assert child.returncode == 0
    assert "k0" not in folder.names()


@pytest.mark.parametrize("lacks", [(), ("links of unnamed files",), ("unnamed files",), ("links",)])
def test_streams_on_disks_that_lack_something(tmp_path: Path, lacks: tuple[str, ...]) -> None:
    require_filters()
    store, size = LocalStore(tmp_path, sync=True), 2**20

    def run() -> None:
        lack(*lacks)
        for value in (b"first", b"second"):
            put_parts(store, "d/a", 2 * size + len(value), iter([bytes(size), value, bytes(size)]))
            assert store.get("d/a") == bytes(size) + value + bytes(size)
        os.chmod(tmp_path / "d/a", 0o640)
        put_parts(store, "d/a", 1, iter([b"3"]))

    run_processes([run])
    assert (tmp_path / "d/a").stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path / "d") == ["a"]


WRITES: dict[str, Callable[[LocalStore, str], object]] = {
    "set": lambda store, key: store.set(key, b"new"),
    "create": lambda store, key: store.create(key, b"new"),
    "stream": lambda store, key: put_parts(store, key, 3, iter([b"new"])),
    "copy": lambda store, key: store.copy_in([key], LocalStore(store.path), ["source"]),
    "link": lambda store, key: store.copy_in([key], store, ["source"], shares=True),
}


@pytest.mark.parametrize("way", WRITES)
@pytest.mark.parametrize("sync", [False, True])
def test_writes_create_only_valid_names(tmp_path: Path, way: str, sync: bool) -> None:
    """Longer names than those of locks could never be erased, and a link or a device of the user would be lost."""
    (tmp_path / "outside").write_bytes(b"outside")
    store = LocalStore(tmp_path / "root", sync=sync)
    store.set("source", b"old")
    (tmp_path / "root/link").symlink_to(tmp_path / "outside")
    (tmp_path / "root/dangling").symlink_to(tmp_path / "none")
    (tmp_path / "root/folder").mkdir()
    os.mkfifo(tmp_path / "root/pipe")
    for key in ("a" * 249, "d/" + "a" * 255, "link", "dangling", "folder", "pipe"):
        assert refusal(StoreError, lambda key=key: WRITES[way](store, key)).key == key  # type: ignore[misc]
    assert (tmp_path / "root/link").is_symlink() and (tmp_path / "root/dangling").is_symlink()
    assert (tmp_path / "root/pipe").is_fifo()
    assert (tmp_path / "outside").read_bytes() == b"outside"
    WRITES[way](store, "a" * 248)
    assert store.list() == ["a" * 248, "source"]
    assert not [name for name in os.listdir(store.path) if name.endswith("__lock")]
    store.erase_prefix("")
    assert store.list() == []


def test_a_quota_that_is_reported_when_a_file_is_closed(tmp_path: Path) -> None:
    """Network file systems do so: a write that nobody checked then would lose data in silence."""
    require_filters()
    store, archive = LocalStore(tmp_path / "root"), ZipStore(tmp_path / "a.zip")
    array = frazil.create_array(tmp_path / "b", data=np.arange(16), chunks=2, shards=16, shard_writes="append")
    store.set("source", b"old")

    def writes(key: str, value: int) -> list[Callable[[], object]]:
        return [
            *(partial(WRITES[way], store, key) for way in ("set", "stream", "copy")),
            partial(store.create, f"{key} new", b"new"),
            partial(archive.set, key, b"%d" % value),
            partial(array.__setitem__, 5, value),
        ]

    for write in writes("key", 7):  # imports modules too
        write()

    def run() -> None:
        lack("quota")
        for write in writes("key", 8)[:3] + writes("other", 8)[3:]:
            assert refusal(StoreError, write).errno == errno.EDQUOT

    run_processes([run])
    assert store.list() == ["key", "key new", "source"]
    assert (store.get("key"), archive.get("key"), archive.list()) == (b"old", b"7", ["key"])
    assert np.array_equal(frazil.open_array(tmp_path / "b")[4:7], [4, 7, 6])


@pytest.mark.parametrize("key", ["link", "folder", "pipe"])
def test_a_stream_that_must_be_refused_is_not_read(tmp_path: Path, key: str) -> None:
    (tmp_path / "link").symlink_to("none")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    parts = iter([b"new"])
    refusal(StoreError, lambda: put_parts(LocalStore(tmp_path), key, 3, parts))
    assert list(parts) == [b"new"]
    assert sorted(os.listdir(tmp_path)) == ["folder", "link", "pipe"]


@pytest.mark.parametrize(("key", "done"), [(None, True), ("z", True), ("a", False)])
def test_a_failed_create_knows_whether_its_last_value_was_written(
    key: str | None, done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that names no value may be of the last one: a commit whose answer is lost must not be taken for one that failed."""
    put_many = LocalStore.put_many

    def lost(*arguments: Any) -> None:
        put_many(*arguments)
        raise StoreError("the answer is lost", done=True, key=key)

    monkeypatch.setattr(LocalStore, "put_many", lost)
    with pytest.raises(StoreError) as caught:
        LocalStore(tmp_path).create_after({"a": b"first"}, "z", b"last")
    assert caught.value.done is done
