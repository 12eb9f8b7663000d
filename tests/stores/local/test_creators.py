"""LocalStore.create and put(ABSENT): one of all creators wins, also with programs that use no locks, on disks that lack features, and after a kill.

StoreTests has the rules of `create` for every store."""

from __future__ import annotations

import errno
import mmap
import os
import random
import signal
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.faults.concurrent_calls import fork, wait_until
from tests.few_files import few_files
from tests.stores.local_disks import Folder, mounted, run_processes
from tests.stores.refused_system_calls import lack, lack_sync_of, require_filters

from frazil import _kernel
from frazil.errors import InvalidInputError, ReadOnlyError, StoreError
from frazil.stores.local.local_store import LocalStore
from frazil.stores.values import ABSENT, CREATE_ONLY, Changed, pieces_of
from frazil.testing.checks import refusal

Make = Callable[[LocalStore, str, bytes], bool]
WAYS = [
    (),
    ("links by descriptor",),
    ("links of unnamed files",),
    ("unnamed files",),
    ("renames that replace nothing",),
    ("unnamed files", "renames that replace nothing"),
    ("links",),
]
SIZE = 1 << 20


def created(store: LocalStore, key: str, value: bytes) -> bool:
    return store.create(key, value)


def put(store: LocalStore, key: str, value: bytes) -> bool:
    return isinstance(store.put(key, value, ABSENT), bytes)


def linked(store: LocalStore, key: str, value: bytes) -> bool:
    """Creates a file like a foreign library, by a link."""
    path = Path(store.path, key)
    between = path.with_name(f"{path.name}#{os.getpid()}")
    between.write_bytes(value)
    try:
        os.link(between, path)
    except FileExistsError:
        return False
    finally:
        between.unlink()
    return True


def opened(store: LocalStore, key: str, value: bytes) -> bool:
    """Creates a file like a foreign program, by opening it."""
    try:
        with Path(store.path, key).open("xb") as file:
            file.write(value)
    except FileExistsError:
        return False
    return True


class Meeting:
    """A barrier where processes wait for each other, as close as possible."""

    def __init__(self, count: int) -> None:
        self.count, self.memory = count, mmap.mmap(-1, 8 * count)

    def reach(self, who: int, step: int) -> None:
        self.memory[8 * who : 8 * who + 8] = struct.pack("q", step)
        while min(struct.unpack(f"{self.count}q", self.memory[:])) < step:
            os.sched_yield()


def race(path: Path, makers: Sequence[Make], keys: int, lacks: Sequence[str] = ()) -> None:
    """All create the same keys at the same time; each key is created by one of them, and has that process's value."""
    (path / "d").mkdir()
    meeting = Meeting(len(makers))
    won = [mmap.mmap(-1, keys) for _ in makers]

    def run(who: int) -> None:
        store = LocalStore(path)
        if lacks and makers[who] in (created, put):
            lack(*lacks)
        for i in range(keys):
            meeting.reach(who, i + 1)
            won[who][i] = makers[who](store, f"d/{i}", b"%d" % who * 100)

    run_processes([partial(run, who) for who in range(len(makers))])
    for i in range(keys):
        winners = [who for who in range(len(makers)) if won[who][i]]
        assert len(winners) == 1
        assert (path / f"d/{i}").read_bytes() == b"%d" % winners[0] * 100
        assert (path / f"d/{i}").stat().st_nlink == 1
    assert {*os.listdir(path / "d")} == {str(i) for i in range(keys)}


# --- races ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("foreign", [linked, opened])
@pytest.mark.parametrize("ours", [created, put])
def test_beside_a_program_without_locks(tmp_path: Path, ours: Make, foreign: Make) -> None:
    race(tmp_path, [ours, foreign], 150)


def has_content(folder: Path) -> bool:
    """Whether any of the files is not empty."""
    try:
        return any(path.stat().st_size for path in folder.iterdir())
    except FileNotFoundError:  # it has another name by now
        return True


@pytest.mark.parametrize("foreign", [linked, opened])
@pytest.mark.parametrize(
    ("ours", "lacks"),
    [
        (put, ()),
        (put, ("renames that replace nothing",)),
        (created, ("unnamed files",)),
        (created, ("unnamed files", "renames that replace nothing")),
    ],
)
def test_a_program_without_locks_comes_between(
    tmp_path: Path, ours: Make, lacks: tuple[str, ...], foreign: Make
) -> None:
    """It creates the key while we write our value, after we have seen that none exists."""
    if lacks:
        require_filters()
    store, created = LocalStore(tmp_path), mmap.mmap(-1, 1)
    store.set("d/first", b"")

    def write() -> None:
        mine = LocalStore(tmp_path)
        if lacks:
            lack(*lacks)
        created[0] = ours(mine, "d/key", bytes(16 * SIZE))

    child = fork(write)
    wait_until(lambda: has_content(tmp_path / "d"), child)
    theirs = foreign(store, "d/key", b"theirs")
    assert os.waitpid(child, 0)[1] == 0
    assert theirs != bool(created[0])
    assert (store.get("d/key") == b"theirs") == theirs
    assert {*os.listdir(tmp_path / "d")} == {"first", "key"}


def test_creators_and_putters_of_many_processes(tmp_path: Path) -> None:
    race(tmp_path, [created, put, created, put, linked, created], 100)


@pytest.mark.parametrize("lacks", WAYS)
def test_on_disks_that_lack_something(tmp_path: Path, lacks: tuple[str, ...]) -> None:
    require_filters()
    race(tmp_path, [created, put, linked], 100, lacks)


def test_a_disk_that_can_neither_link_nor_rename_so(tmp_path: Path) -> None:
    require_filters()
    store = LocalStore(tmp_path)

    def run() -> None:
        lack("links", "renames that replace nothing")
        for make in (created, put):
            error = refusal(StoreError, lambda make=make: make(store, "d/a", b""))  # type: ignore[misc]
            assert (error.errno, "hard links" in str(error.hint)) == (errno.EOPNOTSUPP, True)
        assert store.put("d/a", b"")

    run_processes([run])
    assert os.listdir(tmp_path / "d") == ["a"]


# --- what others see -----------------------------------------------------------------------------------------------------------------


def has_unnamed_files(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_TMPFILE))
    except (OSError, AttributeError):
        return False
    return True


def test_temporary_files_are_never_visible(tmp_path: Path) -> None:
    if not has_unnamed_files(tmp_path):
        pytest.skip("the disk has no files without a name")
    (tmp_path / "d").mkdir()
    names = {str(i) for i in range(500)}

    def create() -> None:
        store = LocalStore(tmp_path)
        assert all(store.create(f"d/{name}", name.encode() * 50) for name in sorted(names))

    children = {fork(create)}
    while children:
        found = os.listdir(tmp_path / "d")
        assert {*found} <= names
        for name in found[-3:]:
            assert (tmp_path / "d" / name).read_bytes() == name.encode() * 50
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            assert status == 0
            children.remove(pid)
    assert {*os.listdir(tmp_path / "d")} == names


@pytest.mark.parametrize("lacks", [(), ("unnamed files",), ("unnamed files", "renames that replace nothing")])
def test_a_killed_creator_leaves_whole_values_alone(tmp_path: Path, lacks: tuple[str, ...]) -> None:
    if lacks:
        require_filters()
    store, chance = LocalStore(tmp_path), random.Random(7)
    store.set("d/first", b"")
    remains = 0

    def create(turn: int) -> None:
        mine = LocalStore(tmp_path)
        if lacks:
            lack(*lacks)
        for i in range(1000):
            mine.create(f"d/{turn}-{i}", bytes([i % 256]) * SIZE)

    for turn in range(12):
        child = fork(partial(create, turn))
        wait_until((tmp_path / f"d/{turn}-0").exists, child)
        for _ in range(chance.randrange(300)):
            os.listdir(tmp_path / "d")
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        for path in (tmp_path / "d").glob(f"{turn}-*"):
            value = path.read_bytes()
            assert value == value[:1] * SIZE
            path.unlink()
        left = [name for name in os.listdir(tmp_path / "d") if name != "first"]
        assert all(lacks and name.startswith("~") and name.endswith(".__lock") for name in left)
        remains += len(left)
        assert store.list() == ["d/first"], "a reader does not see what is left"
    assert (remains > 0) == bool(lacks), "the kills hit creators at work"
    store.erase_prefix("")
    assert os.listdir(tmp_path) == []


def test_clearing_waits_for_a_creator(tmp_path: Path) -> None:
    """No process cuts a file that is about to get its name."""
    require_filters()
    store = LocalStore(tmp_path / "store")

    def create() -> None:
        lack("unnamed files")
        for i in range(200):
            assert store.create(f"d/e/{i}", bytes([i]) * 100_000)

    child, ended = fork(create), (0, 0)
    while not ended[0]:
        ended = os.waitpid(child, os.WNOHANG)
        store.erase_prefix("d/")
        for key in store.list():
            value = store.get(key)
            assert value is None or value == value[:1] * 100_000
    assert ended[1] == 0


def test_a_folder_that_is_removed_meanwhile_is_made_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")

    def create() -> None:
        for i in range(300):
            assert store.create(f"d/e/{i}", b"value")

    child, ended = fork(create), (0, 0)
    while not ended[0]:
        ended = os.waitpid(child, os.WNOHANG)
        store.erase_prefix("")
    assert ended[1] == 0


# --- one file ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sync", [False, True])
def test_a_created_file_is_as_a_published_one(tmp_path: Path, sync: bool) -> None:
    before = os.umask(0o027)
    try:
        store = LocalStore(tmp_path / "deep" / "store", sync=sync)
        assert store.create("a/b/c", b"value") is True
        store.set("a/b/d", b"value")
    finally:
        os.umask(before)
    one, other = (Path(store.path, "a/b", name).stat() for name in "cd")
    assert one.st_mode == other.st_mode
    assert store.create("a/b/c", b"other") is False
    assert store.get("a/b/c") == b"value"


def test_versions_of_created_values_do_not_come_back(tmp_path: Path) -> None:
    store, seen = LocalStore(tmp_path), set()
    for _ in range(200):
        assert store.create("a", b"same")
        seen.add(store.get_versioned("a"))
        store.erase("a")
    assert len(seen) == 200


def test_a_removed_root_is_made_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    assert store.create("a", b"1")
    store.erase("a")
    (tmp_path / "store").rmdir()
    assert store.create("b/c", b"2")
    assert store.list() == ["b/c"]


@pytest.mark.parametrize("lacks", [*WAYS, ("syncing",), ("writing before a sync",)])
@pytest.mark.parametrize("sync", [False, True])
def test_many_are_created_in_one_call(tmp_path: Path, sync: bool, lacks: tuple[str, ...]) -> None:
    """Like each by itself: in several folders, created if missing, and with some names taken."""
    require_filters()
    store = LocalStore(tmp_path / "store", sync=sync, threads=3)
    keys = [f"{folder}{number}" for folder in ("", "a/", "b/c/", "b/") for number in range(20)]
    taken = {key: store.put(key, b"other") for key in keys[::7]}
    values = [key.encode() * 1000 for key in keys]

    def run() -> None:
        lack(*lacks)
        expect = [CREATE_ONLY] * len(keys)
        if sync and "syncing" in lacks:
            assert refusal(StoreError, lambda: store.put_many(keys, pieces_of(values), expect)).errno == errno.EIO
            return
        answers = store.put_many(keys, pieces_of(values), expect)
        for key, value, answer in zip(keys, values, answers, strict=True):
            if key in taken:
                assert answer == Changed(taken[key])  # type: ignore[arg-type]
            else:
                assert (value, answer) == store.get_versioned(key)

    run_processes([run])
    fails = sync and "syncing" in lacks
    assert store.list() == sorted(taken if fails else keys)
    assert not any(name.endswith(".__lock") for _, _, names in os.walk(tmp_path) for name in names)


def test_a_folder_that_cannot_be_synced_is_an_error_of_each_name(tmp_path: Path) -> None:
    require_filters()
    store = LocalStore(tmp_path, sync=True)
    assert store.create("a/0", b"")

    def run() -> None:
        free = os.open(os.devnull, os.O_RDONLY)  # the kernel opens the folder first
        os.close(free)
        lack_sync_of(free)
        for keys in (["a/1"], ["a/2", "a/3"], ["a/0"]):
            error = refusal(
                StoreError,
                lambda keys=keys: store.put_many(keys, pieces_of([b"1"] * len(keys)), [CREATE_ONLY] * len(keys)),  # type: ignore[misc]
            )
            assert (error.errno, error.done, error.key) == (errno.EIO, True, keys[0])
        calls = [lambda: store.set("a/0", b"new"), lambda: store.put("a/4", b"", ABSENT), lambda: store.erase("a/1")]
        for call in calls:
            error = refusal(StoreError, call)  # type: ignore[arg-type]
            assert (error.errno, error.done) == (errno.EIO, True)

    run_processes([run])
    assert store.list() == ["a/0", "a/2", "a/3", "a/4"]
    assert store.get("a/0") == b"new"


def test_a_file_that_cannot_be_synced_gets_no_name(tmp_path: Path) -> None:
    require_filters()
    (tmp_path / "d").mkdir()

    def run() -> None:
        store = LocalStore(tmp_path, sync=True)
        lack("syncing")
        for make in (created, put):
            assert refusal(StoreError, lambda make=make: make(store, "d/a", b"1")).errno == errno.EIO  # type: ignore[misc]
        assert LocalStore(tmp_path).create("d/b", b"1")

    run_processes([run])
    assert os.listdir(tmp_path / "d") == ["b"]


def test_conflicting_paths_are_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    outside = tmp_path / "outside"
    outside.mkdir()
    store.create("a/b", b"1")
    root = Path(store.path)
    (root / "link").symlink_to(outside)
    (root / "dangling").symlink_to(outside / "new")
    os.mkfifo(root / "fifo")
    expected = {
        "a": errno.EISDIR, "a/b/c": errno.ENOTDIR, "link/x": errno.ELOOP, "link/x/y": errno.ELOOP, "dangling": errno.ELOOP,
        "fifo": errno.ENXIO, "n" * 249: errno.ENAMETOOLONG,
    }  # fmt: skip
    for key, code in expected.items():
        error = refusal(StoreError, lambda key=key: store.create(key, b"2"))  # type: ignore[misc]
        assert (error.errno, error.key) == (code, key)
    assert list(outside.iterdir()) == []
    assert store.create("n" * 248, b"")
    for key in ("", "../outside/x", "a/../b", "a/x.__lock"):
        refusal(InvalidInputError, lambda key=key: store.create(key, b""))  # type: ignore[misc]
    refusal(ReadOnlyError, lambda: LocalStore(root, read_only=True).create("b", b""))
    assert store.list() == sorted(["a/b", "n" * 248])


def test_a_full_disk(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m", "none") as path:
        store = LocalStore(path)
        assert refusal(StoreError, lambda: store.create("d/a", bytes(2_000_000))).errno == errno.ENOSPC
        assert os.listdir(path / "d") == []
        assert store.create("d/a", bytes(500_000))


def test_the_kernel_refuses_names_beyond_the_root(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "root")
    row, bounds, result = np.array([[-1, 0, -1]]), np.arange(2), np.empty((1, 4), np.int64)

    def create(root: int, name: str, value: bytes) -> None:
        _kernel.publish_files(root, [name], None, [value], row, bounds, [b"\1"], False, 1, result)

    for name in ("", "/a", "a/", "..", "../a", "a/./b", "a\0b"):
        with pytest.raises(ValueError, match="names"):
            create(folder.fd, name, b"")
    with pytest.raises(ValueError, match="root"):
        create(-1, "a", b"")
    with pytest.raises(ValueError, match="buffers"):
        create(folder.fd, "a", "text")  # type: ignore[arg-type]
    assert folder.names() == set()


def test_a_lock_file_that_is_a_value_too_is_not_cut(tmp_path: Path) -> None:
    """As in a copy of a store that is made of links."""
    store = LocalStore(tmp_path)
    store.set("a", b"value")
    os.link(tmp_path / "a", tmp_path / "b.__lock")
    store.set("b", b"x")
    assert (store.get("a"), store.get("b")) == (b"value", b"x")
    os.link(tmp_path / "a", tmp_path / "~1.__lock")
    store.erase("~1")
    assert store.get("a") == b"value"
    assert {*os.listdir(tmp_path)} == {"a", "b"}


def test_too_many_open_files_are_waited_for(tmp_path: Path) -> None:
    def run() -> None:
        store = LocalStore(tmp_path)
        assert store.create("d/0", b"")
        held: list[int] = []

        def release() -> None:
            for fd in held:
                os.close(fd)

        timer = threading.Timer(0.05, release)
        with few_files(20):
            with pytest.raises(OSError, match="open files"):
                while True:
                    held.append(os.open(tmp_path, os.O_RDONLY))
            timer.start()
            assert store.create("d/1", b"1")
            timer.join()

    run_processes([run])
    assert {*os.listdir(tmp_path / "d")} == {"0", "1"}


def test_a_creation_tells_the_version_of_its_file(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    made = store.put("a/b", b"one", CREATE_ONLY)
    assert store.get_versioned("a/b") == (b"one", made)
    assert isinstance(made, bytes)
    assert store.has_version("a/b", made)
    assert store.put("a/b", b"two", CREATE_ONLY) == Changed(made)
    assert not store.has_version("a/c", made)
    store.set("a/b", b"two")
    assert not store.has_version("a/b", made)
