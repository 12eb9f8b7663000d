"""change_files and restore_files: files that are changed in place, and their state after a kill."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from frazil import _kernel
from tests.stores.local_disks import mounted
from tests.torn_shards import journal_of

OLD = bytes(range(100))
JOURNAL, LOCK = "shard.__append.__lock", "shard.__lock"
Write = tuple[int, bytes]


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    root = os.open(folder, os.O_RDONLY)
    try:
        yield root
    finally:
        os.close(root)


def version(path: Path) -> bytes:
    stat = path.stat()
    return np.array([stat.st_ino, stat.st_size, stat.st_mtime_ns], "<i8").tobytes()


def change(
    folder: Path,
    writes: Sequence[Write],
    head: int = 0,
    *,
    journal: bool = True,
    expect: bytes | None = None,
    sync: bool = False,
) -> list[int]:
    rows = np.array([(i, 0, len(data), at) for i, (at, data) in enumerate(writes)], np.int64).reshape(-1, 4)
    result, offsets = np.empty((1, 4), np.int64), np.array([0, len(writes)], np.int64)
    with opened(folder) as root:
        _kernel.change_files(
            root, ["shard"], [data for _, data in writes], rows, offsets, np.array([head], np.int64), [expect], journal, sync, result
        )  # fmt: skip
    return result[0].tolist()


def restore(folder: Path, look: bool = False) -> int:
    result = np.empty((1, 1), np.int64)
    with opened(folder) as root:
        _kernel.restore_files(root, ["shard"], look, "keep", result)
    return int(result[0, 0])


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    path = tmp_path / "shard"
    path.write_bytes(OLD)
    os.utime(path, ns=(0, 1_000_000_000))
    return path


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    ("writes", "head"), [([(100, b"new"), (103, b"index")], 0), ([(100, b"new"), (0, b"INDEX")], 5)]
)
def test_an_append(shard: Path, writes: list[Write], head: int, sync: bool) -> None:
    expected = bytearray(OLD + b"new" + (b"" if head else b"index"))
    expected[:head] = b"INDEX"[:head]
    code, inode, size, changed = change(shard.parent, writes, head, expect=version(shard), sync=sync)
    assert (code, inode, size, changed) == (0, shard.stat().st_ino, len(expected), shard.stat().st_mtime_ns)
    assert shard.read_bytes() == expected
    assert [path.name for path in shard.parent.iterdir()] == ["shard"]
    assert restore(shard.parent) == 0


def test_another_version_stays_unchanged(shard: Path) -> None:
    before = version(shard)
    os.utime(shard, ns=(0, 2_000_000_000))
    answer = change(shard.parent, [(100, b"new")], expect=before)
    assert answer == [-1, shard.stat().st_ino, 100, 2_000_000_000]
    shard.unlink()
    assert change(shard.parent, [(100, b"new")]) == [-1, 0, -1, 0]


def test_a_file_with_two_names_is_not_changed_in_place(shard: Path) -> None:
    os.link(shard, shard.parent / "other")
    for journal in (True, False):
        assert change(shard.parent, [(100, b"new")], journal=journal) == [-3, 0, 0, 0]
    assert shard.read_bytes() == OLD


def test_overwriting(shard: Path) -> None:
    answer = change(shard.parent, [(10, b"ab"), (50, b"c")], journal=False, expect=version(shard))
    assert answer[0] == 0
    assert shard.read_bytes() == OLD[:10] + b"ab" + OLD[12:50] + b"c" + OLD[51:]
    assert shard.stat().st_mtime_ns > 1_000_000_000


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="stat says the time of birth there alone")
@pytest.mark.parametrize("head", [0, 5])
def test_files_torn_by_a_kill_are_restored(shard: Path, head: int) -> None:
    (shard.parent / JOURNAL).write_bytes(journal_of(shard, [], head))
    (shard.parent / LOCK).write_bytes(b"")
    before = version(shard)
    with shard.open("r+b") as file:
        file.write(b"INDEX"[:head])
        file.seek(100)
        file.write(b"torn")
    torn = shard.read_bytes()
    assert restore(shard.parent, look=True) == 2
    assert shard.read_bytes() == torn
    assert restore(shard.parent) == 2
    assert shard.read_bytes() == OLD
    assert version(shard) != before
    assert [path.name for path in shard.parent.iterdir()] == ["shard"]


# Appends to argv[1]/shard, and is killed while it writes after the end: a file may not become longer than 1002 bytes.
_KILLED = """
import os, resource, signal, sys
import numpy as np
from frazil import _kernel

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (1002, resource.RLIM_INFINITY))
rows, offsets, heads = np.array([(0, 0, 100, 1000)], np.int64), np.array([0, 1], np.int64), np.zeros(1, np.int64)
root = os.open(sys.argv[1], os.O_RDONLY)
_kernel.change_files(root, ["shard"], [b"n" * 100], rows, offsets, heads, [None], True, False, np.empty((1, 4), np.int64))
"""


def test_a_writer_that_takes_the_lock_over_and_is_killed_too_leaves_the_journal(shard: Path) -> None:
    shard.write_bytes(OLD * 10)  # so that the journal is shorter than the limit
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(shard.parent)], check=False)
    assert killed.returncode == -signal.SIGXFSZ
    assert shard.read_bytes() == OLD * 10 + b"nn"
    (shard.parent / LOCK).write_bytes(b"a value that was to replace the shard")
    assert restore(shard.parent) == 2
    assert shard.read_bytes() == OLD * 10
    assert [path.name for path in shard.parent.iterdir()] == ["shard"]


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="stat says the time of birth there alone")
def test_a_journal_that_is_the_lock_file_is_not_cut_by_the_next_writer(shard: Path) -> None:
    (shard.parent / JOURNAL).write_bytes(journal_of(shard, [], 0))
    os.link(shard.parent / JOURNAL, shard.parent / LOCK)  # a copy of the store made of links may have both
    with shard.open("ab") as file:
        file.write(b"torn")
    assert change(shard.parent, [(104, b"new")], expect=version(shard))[0] == -1
    assert shard.read_bytes() == OLD
    assert [path.name for path in shard.parent.iterdir()] == ["shard"]


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="stat says the time of birth there alone")
@pytest.mark.parametrize(
    ("writes", "head"), [([(100, b"new"), (103, b"index")], 0), ([(100, b"new"), (0, b"INDEX")], 5)]
)
def test_an_append_that_was_written_whole_stays(shard: Path, writes: list[Write], head: int) -> None:
    (shard.parent / JOURNAL).write_bytes(journal_of(shard, writes, head))
    with shard.open("r+b") as file:
        for at, data in writes:
            file.seek(at)
            file.write(data)
    whole = shard.read_bytes()  # a reader may have seen it
    assert restore(shard.parent, look=True) == 1
    assert restore(shard.parent) == 1
    assert shard.read_bytes() == whole
    assert [path.name for path in shard.parent.iterdir()] == ["shard"]


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="stat says the time of birth there alone")
def test_the_next_append_restores_first(shard: Path) -> None:
    (shard.parent / JOURNAL).write_bytes(journal_of(shard, [], 0))
    with shard.open("ab") as file:
        file.write(b"torn")
    assert change(shard.parent, [(104, b"new")], expect=version(shard))[0] == -1
    assert shard.read_bytes() == OLD
    assert change(shard.parent, [(100, b"new")], expect=version(shard))[0] == 0
    assert shard.read_bytes() == OLD + b"new"


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="stat says the time of birth there alone")
def test_the_journal_of_another_file_does_no_harm(shard: Path) -> None:
    whole = journal_of(shard, [], 5)
    for left in (whole[:-1], b"", whole[:-5] + bytes(5)):
        (shard.parent / JOURNAL).write_bytes(left)
        assert restore(shard.parent) == 1
        assert shard.read_bytes() == OLD
    (shard.parent / JOURNAL).write_bytes(whole)
    new = shard.parent / "new"
    new.write_bytes(b"x" * 300)
    new.rename(shard)  # a writer that does not support journals
    assert restore(shard.parent) == 1
    assert shard.read_bytes() == b"x" * 300
    assert [path.name for path in shard.parent.iterdir()] == ["shard"]


def test_replacing_and_erasing_a_file_removes_its_journal(shard: Path) -> None:
    with opened(shard.parent) as root:
        result = np.empty((1, 4), np.int64)
        (shard.parent / JOURNAL).write_bytes(b"old")
        rows, offsets = np.array([(-1, 0, 3)], np.int64), np.array([0, 1], np.int64)
        _kernel.publish_files(root, ["shard"], None, [b"new"], rows, offsets, [None], False, 1, result)
        assert result[0, 0] == 0
        assert [path.name for path in shard.parent.iterdir()] == ["shard"]
        (shard.parent / JOURNAL).write_bytes(b"old")
        _kernel.erase_files(root, ["shard"], [None], False, result)
        assert list(shard.parent.iterdir()) == []


def test_a_failure_changes_nothing(shard: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
        assert change(shard.parent, [(100, bytes(2**19)), (100 + 2**19, bytes(2**20))]) == [errno.EFBIG, 0, 0, 0]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert shard.read_bytes() == OLD
    assert [path.name for path in shard.parent.iterdir()] == ["shard"]


def test_a_disk_that_keeps_whole_seconds(tmp_path: Path) -> None:
    """The system gives a write the time of the second, which may be that of the version that others have seen: stored bytes are not overwritten."""
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed")
    image = tmp_path / "image"
    image.write_bytes(bytes(4 << 20))
    subprocess.run(["mkfs.ext4", "-q", "-I", "128", image], check=True, capture_output=True)  # small inodes have no ns
    with mounted(tmp_path / "disk", "-o", "loop", str(image)) as path:
        shard = path / "shard"
        shard.write_bytes(OLD)
        for _ in range(3):
            seen = version(shard)
            assert change(path, [(10, b"x")], journal=False, expect=seen)[0] == -3, "it must be rewritten"
            seen, size = version(shard), shard.stat().st_size
            assert change(path, [(size, b"x"), (0, b"y")], head=1, expect=seen)[0] == -3, (
                "others may have seen the time of the first write"
            )
            seen = version(shard)
            assert change(path, [(size, b"x")], expect=seen)[0] == 0
            assert change(path, [(size, b"y")], expect=seen)[0] == -1
        assert shard.read_bytes() == OLD + b"xxx"
