"""One cache on disk with many users: threads, forks, killed processes, and processes that trim it meanwhile."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.faults.concurrent_calls import expect_line, finish, in_processes, in_threads, running

import frazil
from frazil.stores import LocalStore
from frazil.stores.caches.cache_folder import open_folder
from frazil.stores.caches.disk_cache import DiskCache
from frazil.testing import CountingStore


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("???/*"))


def test_threads_and_forks_share_a_folder(tmp_path: Path, folder: Path) -> None:
    """Some write, all read, and each trims: no reader sees a mix of versions."""
    inner = CountingStore(LocalStore(tmp_path / "data"))
    for i in range(10):
        inner.set(f"{i}", bytes(2000))
    store = DiskCache(inner, folder, limit=12_000, small=0)

    def use(number: int) -> None:
        rng = np.random.default_rng(number)
        for step, i in enumerate(rng.integers(0, 10, 60).tolist()):
            if step % 10 == 9:
                inner.set(f"{i}", bytes([step]) * 2000)
            found = store.get_partial_values([(f"{i}", (0, 900)), (f"{i}", (900, None)), (f"{i}", (0, None))])
            assert len(set(found[2] or b"")) == 1
            assert found[2] == (found[0] or b"") + (found[1] or b"")

    in_threads(3, use)
    store._files._measuring = os.getpid()  # as another thread might do at the fork
    in_processes(3, use)
    open_folder(folder).trim(12_000)
    for i in range(10):
        assert store.get(f"{i}") == inner.get(f"{i}")


FILL = """
import sys
from frazil.stores import LocalStore
from frazil.stores.caches.disk_cache import DiskCache
from frazil.testing import CountingStore
inner = CountingStore(LocalStore(sys.argv[1]))
store = DiskCache(inner, sys.argv[2], unchanging=["chunks/"])
print("ready", flush=True)
while True:
    for i in range(50):
        assert store.get(f"chunks/{i}") == bytes([i]) * 300_000
    store._files.folder.trim(1)
"""


def test_a_process_that_is_killed_leaves_a_good_cache(tmp_path: Path, folder: Path) -> None:
    inner = CountingStore(LocalStore(tmp_path / "data"))
    for i in range(50):
        inner.set(f"chunks/{i}", bytes([i]) * 300_000)
    for attempt in range(2):
        with running(FILL, tmp_path / "data", folder) as process:
            expect_line(process.stdout, "ready")
            while len(files(folder)) < 5 + 7 * attempt:
                assert process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
        store = DiskCache(inner, folder, unchanging=["chunks/"])
        for i in range(50):
            assert store.get(f"chunks/{i}") == bytes([i]) * 300_000
    abandoned = folder / "abc" / ".123.0123456789ab"
    abandoned.parent.mkdir(exist_ok=True)
    abandoned.write_bytes(b"half")
    open_folder(folder).trim(2**30)
    assert abandoned.exists(), "somebody may be writing it"
    os.utime(abandoned, (1000, 1000))
    open_folder(folder).trim(2**30)
    assert not abandoned.exists()


READ = """
import sys, frazil
from frazil.stores import LocalStore
from frazil.testing import CountingStore
inner = CountingStore(LocalStore(sys.argv[1]))
repo = frazil.Repository.open(inner, cache=sys.argv[2])
assert (repo.readonly_session().root["a"][...] == 7).all()
print(*sorted({done.key.split("/")[0] for done in inner.requests}))
"""


def test_other_processes_read_a_repository_without_requests(tmp_path: Path, folder: Path) -> None:
    """Except those that find the tip of the branch."""
    inner = CountingStore(LocalStore(tmp_path / "repo"))
    repo = frazil.Repository.create(inner)
    with repo.transaction(message="first") as root:
        root.create_array("a", shape=(100, 100), dtype="f8", chunks=(10, 10), shards=(50, 50))[...] = 7
    cold = frazil.Repository.open(inner, cache=folder).readonly_session().root["a"]
    assert (cold[...] == 7).all()
    with running(READ, tmp_path / "repo", folder) as one, running(READ, tmp_path / "repo", folder) as other:
        assert (finish(one), finish(other)) == ("refs\n", "refs\n")
    assert open_folder(folder).trim(0).files == 0
    inner.clear()
    assert (frazil.Repository.open(inner, cache=folder).readonly_session().root["a"][...] == 7).all()
    assert {done.key.split("/")[0] for done in inner.requests} == {"chunks", "manifests", "refs", "snapshots"}
