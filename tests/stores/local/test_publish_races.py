"""Concurrent writers, and killed writers: no update is lost, no value is ever partial, tensorstore's writers included."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.faults.concurrent_calls import fork, wait_until
from tests.stores.local_disks import Folder, has_open, run_processes

from frazil import _kernel
from frazil.stores.local.local_store import LocalStore
from frazil.stores.values import Changed
from frazil.testing.checks import run_threads

SIZE = 1 << 20


def value_of(kind: int) -> bytes:
    return bytes([kind]) * (SIZE + kind)


def assert_whole(value: bytes) -> None:
    assert value == value_of(value[0])


def add_one(old: bytes | None) -> bytes:
    return b"%08d" % (int(old or b"0") + 1)


def test_a_killed_writer_leaves_the_old_value_or_the_new(tmp_path: Path) -> None:
    folder, chance = Folder(tmp_path), random.Random(4)
    folder.publish({"a/key": value_of(0)})
    lock = folder.path / "a/key.__lock"

    def write_on() -> None:
        kind = 0
        while True:
            kind = (kind + 1) % 200
            folder.publish({"a/key": value_of(kind)})

    left = 0
    for _ in range(40):
        child = fork(write_on)
        wait_until(partial(has_open, child, lock), child)
        for _ in range(chance.randrange(200)):
            lock.exists()
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        assert_whole(folder.read("a/key"))
        assert folder.names() <= {"a/key", "a/key.__lock"}
        if lock.exists():
            left += 1
            assert LocalStore(tmp_path).list() == ["a/key"], "a reader does not see what is left"
            if chance.random() < 0.5:  # otherwise the next child takes it over
                assert folder.publish({"a/key": b"\7" + bytes(6)})[0][0] == 0
                assert folder.read("a/key") == b"\7" + bytes(6), "nothing of what was left is in it"
                assert folder.names() == {"a/key"}
                folder.publish({"a/key": value_of(9)})
    assert left, "the kills hit writers at work"


def test_readers_see_whole_values_while_files_are_replaced(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.publish({"key": value_of(0)})

    def write(kind: int) -> None:
        for _ in range(20):
            assert folder.publish({"key": value_of(kind)})[0][0] == 0

    writers = [fork(partial(write, kind)) for kind in range(3)]
    while writers:
        stat = np.empty((1, 4), np.int64)
        files = _kernel.open_files(folder.fd, ["key"], stat)
        out = np.empty(stat[0, 2], np.uint8)
        assert not _kernel.read_rows(files, [], np.array([(0, 0, -1)]), out, np.array([0, len(out)]), 1)
        assert_whole(out.tobytes())
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            assert status == 0
            writers.remove(pid)
    assert folder.names() == {"key"}


@pytest.mark.parametrize(
    ("processes", "threads", "times"), [(4, 8, 8), pytest.param(8, 16, 4, marks=pytest.mark.campaign)]
)
def test_concurrent_processes_and_threads_lose_no_update(
    processes: int, threads: int, times: int, tmp_path: Path
) -> None:
    def count() -> None:
        store = LocalStore(tmp_path)
        run_threads([lambda: [store.update("counter", add_one) for _ in range(times)]] * threads)

    run_processes([count] * processes)
    assert LocalStore(tmp_path).get("counter") == b"%08d" % (processes * threads * times)
    assert os.listdir(tmp_path) == ["counter"]


def test_conditions_hold_without_the_old_file_being_held(tmp_path: Path) -> None:
    """Versions returned by put are expected later, when the inode of that file may have been used again."""
    processes, times = 6, 60

    def count() -> None:
        store = LocalStore(tmp_path)
        version, value = b"", 0
        done = 0
        while done < times:
            answer = store.put("counter", b"%08d" % (value + 1), version)
            if isinstance(answer, Changed):
                found = store.get_versioned("counter")
                assert found is not None
                version, value = found[1] or b"", int(found[0])
            else:
                version, value, done = answer, value + 1, done + 1

    run_processes([count] * processes)
    assert LocalStore(tmp_path).get("counter") == b"%08d" % (processes * times)


def test_exactly_one_of_many_creates_and_one_erases(tmp_path: Path) -> None:
    processes = 8
    log = Folder(tmp_path / "log")

    def create(number: int) -> None:
        store = LocalStore(tmp_path / "store")
        for i in range(30):
            answer = store.put(f"deep/{i}/er/key", b"%d" % number, b"")
            if not isinstance(answer, Changed):
                log.publish({f"{i}/{number}": b""})

    run_processes([partial(create, number) for number in range(processes)])
    assert all(len(list((tmp_path / f"log/{i}").iterdir())) == 1 for i in range(30))

    def erase(number: int) -> None:
        store = LocalStore(tmp_path / "store")
        for i in range(30):
            found = store.get_versioned(f"deep/{i}/er/key")
            if found is not None and store.erase_many([f"deep/{i}/er/key"], [found[1]]) == [None]:
                log.publish({f"gone/{i}/{number}": b""})

    run_processes([partial(erase, number) for number in range(processes)])
    assert all(len(list((tmp_path / f"log/gone/{i}").iterdir())) == 1 for i in range(30))
    assert LocalStore(tmp_path / "store").is_empty()


def test_folders_are_removed_and_made_at_the_same_time(tmp_path: Path) -> None:
    def write() -> None:
        store = LocalStore(tmp_path)
        for i in range(150):
            store.set(f"a/b/{i % 3}/c", b"value")

    def clear() -> None:
        store = LocalStore(tmp_path)
        for _ in range(150):
            store.erase_prefix("a/")

    run_processes([write, clear, write, clear])
    LocalStore(tmp_path).erase_prefix("")
    assert os.listdir(tmp_path) == []


# --- tensorstore ---------------------------------------------------------------------------------------------------------------------

COUNT = """
import sys, threading
import tensorstore

kv = tensorstore.KvStore.open({"driver": "file", "path": sys.argv[1] + "/"}).result()

def count():
    done = 0
    while done < int(sys.argv[2]):
        found = kv.read("counter").result()
        new = b"%08d" % (int(found.value) + 1)
        stamp = kv.write("counter", new, if_equal=found.stamp.generation).result()
        done += stamp.generation != b""

threads = [threading.Thread(target=count) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""

REPLACE = """
import sys
import tensorstore

kv = tensorstore.KvStore.open({"driver": "file", "path": sys.argv[1] + "/"}).result()
for kind in range(100, 140):
    kv.write("a/key", bytes([kind]) * (int(sys.argv[2]) + kind)).result()
    kv.write("a/other", b"x").result()
    kv.write("a/other", None).result()
"""


def start_tensorstore(script: str, *words: str) -> subprocess.Popen[bytes]:
    if importlib.util.find_spec("tensorstore") is None:  # not imported here: this process forks
        pytest.skip("tensorstore is not installed")
    return subprocess.Popen([sys.executable, "-c", script, *words])


def test_concurrent_tensorstore_writers_lose_no_update(tmp_path: Path) -> None:
    LocalStore(tmp_path).set("counter", b"%08d" % 0)
    others = [start_tensorstore(COUNT, str(tmp_path), "25") for _ in range(2)]

    def count() -> None:
        store = LocalStore(tmp_path)
        run_threads([lambda: [store.update("counter", add_one) for _ in range(100)]] * 2)

    run_processes([count, count])
    assert [other.wait() for other in others] == [0, 0]
    assert LocalStore(tmp_path).get("counter") == b"%08d" % (2 * 2 * 100 + 2 * 2 * 25)
    assert os.listdir(tmp_path) == ["counter"]


def test_values_stay_whole_beside_tensorstore(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.publish({"a/key": value_of(0)})
    others = [start_tensorstore(REPLACE, str(tmp_path), str(SIZE)) for _ in range(2)]
    seen = set[bool]()
    while any(other.poll() is None for other in others):
        assert folder.publish({"a/key": value_of(7)})[0][0] == 0
        folder.publish({"a/other": b"y"})
        folder.erase(["a/other"])
        value = folder.read("a/key")
        assert_whole(value)
        seen.add(value[0] >= 100)
    assert [other.wait() for other in others] == [0, 0]
    assert_whole(folder.read("a/key"))
    folder.erase(["a/other"])
    assert folder.names() == {"a/key"}
