"""Writers of archives that fail or are killed, at each system call: either the old or the new archive is there, whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
from tests.faults.interrupted_lines import Interrupts, first_times, open_files
from tests.stores.local_disks import run_processes
from tests.stores.refused_system_calls import lack, require_filters

from frazil.base.retry import Backoff
from frazil.errors import FormatError, StoreError
from frazil.stores import ZipStore
from frazil.stores.zip import archive_file, zip_store
from frazil.stores.zip.directory import end_records

CALLS = ("pwrite", "rename", "ftruncate", "unlink", "utime", "link")
OLD = {"a": b"old", "b/c": b"x" * 500}


class Killed(BaseException):
    """Represents the end of the process."""


@contextmanager
def failing(number: int, error: BaseException, *, half: bool) -> Iterator[list[int]]:
    """The call of this number fails; if it writes, half is written before. Returns the number of calls."""
    seen = [0]

    def wrapped(name: str) -> Callable[..., object]:
        real = getattr(os, name)

        def call(*args: object, **named: object) -> object:
            seen[0] += 1
            if seen[0] == number:
                if half and name == "pwrite":
                    real(args[0], bytes(args[1])[: len(bytes(args[1])) // 2], args[2])  # type: ignore[call-overload]
                raise error
            return real(*args, **named)

        return call

    class System:
        def __getattr__(self, name: str) -> object:
            return wrapped(name) if name in CALLS else getattr(os, name)

    with patch.object(archive_file, "os", System()):
        yield seen


def write(store: ZipStore) -> None:
    store.set("a", b"new")
    store.erase("b/c")
    store.set("large", bytes(2**21))
    store.set("large", b"small")  # and the archive is rewritten


STATES = [
    OLD,
    {**OLD, "a": b"new"},
    {"a": b"new"},
    {"a": b"new", "large": bytes(2**21)},
    {"a": b"new", "large": b"small"},
]


def content(path: Path) -> dict[str, bytes | None]:
    store = ZipStore(path)
    return {key: store.get(key) for key in store.list()}


@pytest.mark.parametrize("half", [False, True])
def test_a_writer_is_killed_at_each_call(tmp_path: Path, half: bool) -> None:
    found: list[dict[str, bytes | None]] = []
    for number in count(1):
        path = tmp_path / f"{number}.zip"
        ZipStore(path).put_many(list(OLD), _pieces(list(OLD.values())), [None, None])
        store = ZipStore(path)
        with failing(number, Killed(), half=half) as seen, patch.object(archive_file.ArchiveFile, "restore", _nothing):
            try:
                write(store)
            except Killed:
                pass
        if seen[0] < number:
            break
        found.append(content(path))
        assert found[-1] in STATES
        ZipStore(path).set("next", b"!")
        with zipfile.ZipFile(path) as file:
            assert {name: file.read(name) for name in file.namelist()} == {**found[-1], "next": b"!"}
        assert os.path.getsize(path) < 2 * 2**21 + 2**21
    assert [STATES.index(state) for state in found] == sorted(STATES.index(state) for state in found)  # type: ignore[arg-type]


def test_a_disk_is_full_at_each_call(tmp_path: Path) -> None:
    """The existing data is visible at once, to every program, and the store continues."""
    for number in count(1):
        path = tmp_path / f"{number}.zip"
        ZipStore(path).put_many(list(OLD), _pieces(list(OLD.values())), [None, None])
        store = ZipStore(path)
        with failing(number, OSError(ENOSPC, "full"), half=True) as seen:
            failed = _error_of(store)
        if seen[0] < number:
            break
        assert failed == ENOSPC or not failed, "what cannot be removed afterwards is no failure"
        found = content(path)
        assert found in STATES
        with zipfile.ZipFile(path) as file:
            assert {name: file.read(name) for name in file.namelist()} == found
        store.set("next", b"!")
        assert content(path) == {**found, "next": b"!"}


def test_a_disk_that_reports_its_quota_when_a_rewritten_archive_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As network disks do. The old archive stays."""
    path, flush, failed = tmp_path / "x.zip", archive_file._flush, list[str]()
    store = ZipStore(path)
    store.put_many(["a", "large"], _pieces([b"1", bytes(2**21)]), [None, None])

    def flushed(name: str, fd: int, sync: bool) -> None:
        if name != str(path):
            assert os.path.getsize(name) < 1000
            failed.append(name)
            raise OSError(EDQUOT, "quota")
        flush(name, fd, sync)

    monkeypatch.setattr(archive_file, "_flush", flushed)
    store.erase("large")
    assert failed == [f"{path}.frazil-new"]
    assert os.path.getsize(path) > 2**21
    assert content(path) == {"a": b"1"}
    assert os.listdir(tmp_path) == ["x.zip"]


def test_an_interrupt_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive was locked as long as the process lived, also for its own stores."""
    monkeypatch.setattr(archive_file, "FREE_FILES", Backoff(2))
    monkeypatch.setattr(zip_store, "_UNUSED_LIMIT", 0)
    modules = {"archive_file.py", "zip_store.py"}

    def interrupted(number: int | None) -> list[tuple[str, int]]:
        path = tmp_path / f"{number}.zip"
        ZipStore(path).set("a", b"old")
        interrupts = Interrupts(number, modules=modules)
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            interrupts.run(partial(ZipStore(path).set, "a", b"new"))
            ZipStore(path).set("b", b"1")
        assert content(path)["a"] in (b"old", b"new")
        path.unlink()
        return interrupts.seen

    places = interrupted(None)
    files = open_files()
    for number in first_times(places)[::5]:
        interrupted(number)
        assert open_files() <= files, places[number]
    assert os.listdir(tmp_path) == []


def _error_of(store: ZipStore) -> int | None:
    try:
        write(store)
    except StoreError as error:
        return error.errno
    return None


def _nothing(_: object) -> bool:
    return False


def _pieces(values: list[bytes]) -> object:
    from frazil.stores.values import pieces_of

    return pieces_of(values)


def test_a_write_inside_of_with_fails(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with ZipStore(path) as store:
        store.set("a", b"old")
        with failing(1, OSError(ENOSPC, "full"), half=True), pytest.raises(StoreError):
            store.set("b", bytes(1000))
        assert (store.list(), store.get("a")) == (["a"], b"old")
        store.set("c", b"new")
    assert content(path) == {"a": b"old", "c": b"new"}
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None


def write_and_be_killed(path: Path) -> None:
    """Leaves an archive with half of a change, and its journal."""
    store = ZipStore(path)
    store.set("a", b"old")
    with (
        failing(2, Killed(), half=True),
        patch.object(archive_file.ArchiveFile, "restore", _nothing),
        pytest.raises(Killed),
    ):
        store.set("a", b"new")


def test_a_journal_of_an_archive_that_is_gone_does_no_harm(tmp_path: Path) -> None:
    """A later file with the name often gets the inode of the deleted one."""
    path, journal = tmp_path / "x.zip", tmp_path / "x.zip.journal"
    write_and_be_killed(path)
    before = journal.read_bytes()
    for writer in ("zipfile", "frazil"):
        path.unlink()
        if writer == "zipfile":
            with zipfile.ZipFile(path, "w") as file:
                file.writestr("b", b"new" * 100)
        else:
            journal.unlink(missing_ok=True)
            ZipStore(path).set("b", b"new" * 100)
        journal.write_bytes(before[:8] + path.stat().st_ino.to_bytes(8, "little") + before[16:])
        assert content(path) == {"b": b"new" * 100}
        ZipStore(path).set("c", b"more")
        assert content(path) == {"b": b"new" * 100, "c": b"more"}
        assert not journal.exists()


def test_the_journal_of_a_copied_archive_is_kept(tmp_path: Path) -> None:
    """It is useless for the copy, but has the only directory, until the archive is replaced."""
    path, copied = tmp_path / "x.zip", tmp_path / "copied.zip"
    write_and_be_killed(path)
    journal = Path(f"{path}.journal").read_bytes()
    copied.write_bytes(path.read_bytes())
    Path(f"{copied}.journal").write_bytes(journal)
    for use in (lambda: ZipStore(copied).get("a"), lambda: ZipStore(copied).set("b", b"1")):
        with pytest.raises(FormatError):
            use()
        assert Path(f"{copied}.journal").read_bytes() == journal
    path.unlink()
    path.write_bytes(end_records(0, 0, 0))  # another archive
    ZipStore(path).clear()
    assert not Path(f"{path}.journal").exists()


def test_a_forked_child_leaves_the_archive_to_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    ZipStore(path).set("a", b"old")
    with ZipStore(path) as store:
        store.set("a", b"new")
        child = os.fork()
        if not child:
            good = store.get("a") == b"old"
            store.close()
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert store.get("a") == b"new"
        store.set("b", b"1")
    assert content(path) == {"a": b"new", "b": b"1"}


_WRITER = """
import sys
from frazil.stores import ZipStore
store, first = ZipStore(sys.argv[1]), int(sys.argv[2])
print("begun", flush=True)
for number in range(first, first + 100_000):
    store.set(f"k/{number % 50}", b"%d" % number * 1000)
    print(number, flush=True)
"""


def test_writers_are_killed(tmp_path: Path) -> None:
    path, random, done = tmp_path / "x.zip", Random(3), -1
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path), str(done + 1)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"begun\n"
        for _ in range(random.randint(1, 60)):
            first_line = writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().splitlines(keepends=True)
        writer.wait()
        writer.stdout.close()
        acknowledged = max(int(line) for line in [first_line, *rest] if line.endswith(b"\n"))
        found = {key: value for key, value in content(path).items() if value is not None}
        numbers = {key: int(value[: len(value) // 1000]) for key, value in found.items()}
        assert all(found[key] == b"%d" % number * 1000 for key, number in numbers.items())
        done = max(numbers.values())
        assert done in {acknowledged, acknowledged + 1}
        assert sorted(numbers.values()) == list(range(max(0, done - 49), done + 1))


_RENAMER = """
import os, signal, sys
from frazil.stores import ZipStore
rename = os.rename
os.rename = lambda a, b: os.kill(os.getpid(), signal.SIGKILL) if b == sys.argv[2] else rename(a, b)
ZipStore(sys.argv[1]).erase("large")
"""


@pytest.mark.parametrize("file", ["x.zip", "x.zip.journal"])
def test_the_next_writer_removes_the_unfinished_file_of_a_killed_one(tmp_path: Path, file: str) -> None:
    path = tmp_path / "x.zip"
    (tmp_path / "x.zip.new").write_bytes(b"of somebody else")
    ZipStore(path).put_many(["a", "large"], _pieces([b"1", bytes(2**21)]), [None, None])
    done = subprocess.run([sys.executable, "-c", _RENAMER, str(path), str(tmp_path / file)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 3
    found = content(path)
    assert found["a"] == b"1"
    ZipStore(path).set("b", b"2")
    assert content(path) == {**found, "b": b"2"}
    assert sorted(os.listdir(tmp_path)) == ["x.zip", "x.zip.new"]


def test_the_next_writer_waits_until_a_rewrite_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its journal was removed by the writer before: if it was killed then, the archive was lost."""
    monkeypatch.setattr(archive_file, "FREE_FILES", Backoff(2))
    path, rename = tmp_path / "x.zip", os.rename
    store = ZipStore(path)
    store.put_many(["a", "large"], _pieces([b"1", bytes(2**21)]), [None, None])
    opened: list[archive_file.ArchiveFile] = []

    def renamed(old: str, new: str) -> None:
        rename(old, new)
        if new == str(path):
            with pytest.raises(StoreError, match="another writer"):
                opened.append(archive_file.open_archive(new, sync=False))

    monkeypatch.setattr(os, "rename", renamed)
    store.erase("large")
    assert os.path.getsize(path) < 1000
    assert opened == []
    assert content(path) == {"a": b"1"}


@pytest.mark.parametrize("lacks", [(), ("links", "links by Python"), ("unnamed files",)])
def test_an_archive_on_disks_that_lack_something(tmp_path: Path, lacks: tuple[str, ...]) -> None:
    require_filters()

    def write() -> None:
        lack(*lacks)
        ZipStore(tmp_path / "new/a.zip").set("a", b"1")

    run_processes([write, write])
    assert ZipStore(tmp_path / "new/a.zip").get("a") == b"1"
    assert os.listdir(tmp_path / "new") == ["a.zip"]
