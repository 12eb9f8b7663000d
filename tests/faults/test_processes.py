"""Processes that are killed in the middle of writes, forked, or interrupted; and objects that are sent to other processes."""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import pytest
from tests.faults.concurrent_calls import expect_line, fork, in_threads, read_pipe, running, wait_until
from tests.faults.test_writers import LAYOUTS, leftovers

import frazil
from frazil.codecs import Blosc, Bytes, Crc32c, Gzip, ShardingIndexed, Transpose, Zlib, Zstd
from frazil.errors import FrazilError, NotFoundError, StoreError
from frazil.runtime import Runtime
from frazil.stores import LocalStore, MemoryStore
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore

# --- killed ----------------------------------------------------------------------------------------------------------------------------


def check_whole(root: Path, layout: str) -> None:
    """Every inner chunk is of one write; incompletely written ones are unchanged."""
    array = frazil.open_array(root)
    values = array[...]
    for row in range(0, 64, 4):
        for column in range(0, 64, 4):
            block = values[row : row + 4, column : column + 4]
            assert (block == block[0, 0]).all()
    assert {path for path in leftovers(root) if not path.endswith(".__lock")} == set()


def work(array: frazil.Array, writer: int, report_to: int) -> None:
    """Writes for ever: whole shards, inner chunks, rows of them, only fill values; writes a byte to `report_to` for each."""
    rng = np.random.default_rng(writer)
    for turn in range(1, 10**9):
        row, column = (4 * rng.integers(0, 16, 2)).tolist()
        kind = turn % 4
        if kind == 0:
            array[32 * (row // 32) : 32 * (row // 32) + 32, 32 * (column // 32) : 32 * (column // 32) + 32] = turn
        elif kind == 1:
            array[row : row + 4, column : column + 4] = turn
        elif kind == 2:
            array[row : row + 4] = turn
        else:
            array[row : row + 4, column : column + 4] = -1
        os.write(report_to, b".")


def run_writer(root: Path, writer: int, report_to: int) -> None:
    work(frazil.open_array(root, "r+"), writer, report_to)


def kill_writers(root: Path, layout: str, rounds: int, processes: int) -> None:
    arguments = {"shape": (64, 64), "dtype": "i4", "fill_value": -1, **LAYOUTS[layout]}
    frazil.create_array(root, **arguments)[...] = 5
    rng = np.random.default_rng(rounds)
    for _ in range(rounds):
        listen, report_to = os.pipe()
        pids = [fork(partial(run_writer, root, writer, report_to)) for writer in range(processes)]
        os.close(report_to)
        remaining = int(rng.integers(1, 12)) * processes
        while remaining > 0:
            remaining -= len(read_pipe(listen, remaining))
        select.select([], [], [], float(rng.random()) * 0.003)  # anywhere in a write
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        os.close(listen)
        check_whole(root, layout)
    array = frazil.open_array(root, "r+")
    array[...] = np.arange(64 * 64).reshape(64, 64)
    array[1:, 1:] = 7
    assert (frazil.open_array(root)[1:, 1:] == 7).all()
    assert leftovers(root) == [], "the next writer takes over what the killed one left"


@pytest.mark.parametrize("layout", ["chunk", "shard", "nested", "around"])
def test_writers_that_are_killed(tmp_path: Path, layout: str) -> None:
    kill_writers(tmp_path, layout, rounds=4, processes=2)


@pytest.mark.campaign
@pytest.mark.parametrize("layout", [*LAYOUTS])
def test_many_writers_that_are_killed(tmp_path: Path, layout: str) -> None:
    kill_writers(tmp_path, layout, rounds=150, processes=4)


def test_creators_that_are_killed(tmp_path: Path) -> None:
    """A hierarchy is whole whenever its creator dies: every document can be read, and every reported node is there."""

    def make(report_to: int) -> None:
        for turn in range(10**6):
            group = frazil.open_group(tmp_path, "a", path=f"g{turn % 7}")
            group.create_array(f"x{turn}", shape=(4,), dtype="i4", data=[turn] * 4)
            group.attrs[f"{turn}"] = turn
            os.write(report_to, b".")

    done = 0
    for round_ in range(5):
        listen, report_to = os.pipe()
        pid = fork(lambda report_to=report_to: make(report_to))
        os.close(report_to)
        remaining = 3 + round_ * 2
        while remaining > 0:
            remaining -= len(read_pipe(listen, remaining))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(listen)
        done = 3 + round_ * 2
        root = frazil.open_group(tmp_path, "r+")
        members = dict(root.members(None))
        for turn in range(done):
            assert members[f"g{turn % 7}/x{turn}"][...].tolist() == [turn] * 4
            assert members[f"g{turn % 7}"].attrs[f"{turn}"] == turn
        root.clear()
        assert [path for path in leftovers(tmp_path) if not path.endswith("zarr.json.__lock")] == []


# --- forked ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_child_goes_on_with_the_objects_of_its_parent(tmp_path: Path, layout: str) -> None:
    """Forked while other threads of the parent read and write; both sides continue."""
    arguments = {"shape": (64, 64), "dtype": "i4", "fill_value": -1, **LAYOUTS[layout]}
    array = frazil.create_array(tmp_path, **arguments)
    array[...] = 5
    stop = threading.Event()

    def busy(number: int) -> None:
        while not stop.is_set():
            array[number, number:] = number
            array[...]
            array.attrs[f"{number}"] = number

    def child() -> None:
        array[32:, 32:] = os.getpid()
        assert (array[32:, 32:] == os.getpid()).all()
        in_threads(4, lambda number: array.__setitem__((number + 20, slice(0, 32)), os.getpid()))
        assert (array[20:24, :32] == os.getpid()).all()
        array.attrs["child"] = os.getpid()
        array.store.list()

    def use(number: int) -> None:
        if number:
            busy(number)
            return
        try:
            for _ in range(2):
                pid = fork(child)
                assert os.waitpid(pid, 0)[1] == 0
                assert (array[32:, 32:] == pid).all()
                assert array.refresh().attrs["child"] == pid
        finally:
            stop.set()

    in_threads(4, use)


def test_a_child_reads_a_session_that_a_thread_of_the_parent_uses(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path)
    with repo.transaction(message="a") as root:
        root.create_array("a", data=[1, 2, 3])
    session = repo.readonly_session("main")
    held, done = threading.Event(), threading.Event()

    def use() -> None:
        with session._transaction.lock:
            held.set()
            done.wait()

    def child() -> None:
        assert session.open("a")[...].tolist() == [1, 2, 3]

    thread = threading.Thread(target=use)
    thread.start()
    held.wait()
    pid = fork(child)
    status = os.waitpid(pid, 0)[1]
    done.set()
    thread.join()
    assert status == 0


def test_memory_is_the_childs_own() -> None:
    array = frazil.create_array(MemoryStore(), shape=(4, 4), dtype="i4", chunks=(2, 2), shards=(4, 4))
    array[...] = 1

    def child() -> None:
        array[1, 1] = 2
        assert array[...].sum() == 17

    assert os.waitpid(fork(child), 0)[1] == 0
    assert array[...].sum() == 16


# --- interrupted -----------------------------------------------------------------------------------------------------------------------

READ = """
import sys
import numpy as np
import frazil
array = frazil.open_array(sys.argv[1])
out = np.lib.stride_tricks.as_strided(np.zeros(2 * 10**6, "u1"), array.shape, (1, 1))
try:
    print("begin", flush=True)
    array.read(out=out)
except KeyboardInterrupt:
    print("interrupted", array[0, 5:9].tolist(), flush=True)
"""
WRITE = """
import sys
import numpy as np
import frazil
array = frazil.open_array(sys.argv[1], "r+")
new = np.broadcast_to(np.uint8(7), array.shape)
try:
    print("begin", flush=True)
    array[...] = new
except KeyboardInterrupt:
    array[0] = 9
    print("interrupted", array[0], flush=True)
"""
WAIT = """
import sys
import frazil
array = frazil.open_array(sys.argv[1], "r+")
try:
    print("begin", flush=True)
    array[0] = 7
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def interrupt(process: subprocess.Popen[str], after: Callable[[IO[str]], None] = lambda stream: None) -> list[str]:
    """Interrupts it once it has begun. Returns its output. It ends by itself, or the test fails because of the time."""
    expect_line(process.stdout, "begin")
    assert process.stdout is not None
    after(process.stdout)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return output.split()


def test_a_long_read_is_interrupted(tmp_path: Path) -> None:
    """10^11 inner chunks, none of them stored: hours."""
    shape, shards = (10**6, 10**5), (100, 100)
    frazil.create_array(tmp_path, shape=shape, dtype="u1", chunks=(1, 1), shards=shards, codecs=[])
    with running(READ, tmp_path) as process:
        assert interrupt(process) == ["interrupted", "[0,", "0,", "0,", "0]"]


@pytest.mark.parametrize("shards", [None, 16])
def test_a_long_write_is_interrupted(tmp_path: Path, shards: int | None) -> None:
    """10^8 chunks: many hours. Every chunk is the old or the new, and the array can be used."""
    shape = 8 * 10**8
    frazil.create_array(tmp_path, shape=(shape,), dtype="u1", chunks=(8,), shards=shards, codecs=[], fill_value=3)
    with running(WRITE, tmp_path) as process:

        def begun(stream: IO[str]) -> None:
            wait_until((tmp_path / "c/100").exists, process.pid)

        assert interrupt(process, begun) == ["interrupted", "9"]
    array = frazil.open_array(tmp_path, "r+")
    found = array[: 10**6].reshape(-1, 8)
    assert found[0].tolist() == [9] + [7] * 7
    assert ((found[1:] == 7) | (found[1:] == 3)).all()
    assert (found[1:] == found[1:, :1]).all()
    assert leftovers(tmp_path) == []


def test_waiting_for_another_writer_is_interrupted(tmp_path: Path) -> None:
    """The other thread holds the lock of the chunk and does not release it."""
    from tests.stores.local_disks import has_open, locked

    frazil.create_array(tmp_path, shape=(4,), dtype="u1", chunks=(4,))[...] = 1
    with locked(tmp_path / "c/0.__lock"), running(WAIT, tmp_path) as process:

        def begun(stream: IO[str]) -> None:
            wait_until(lambda: has_open(process.pid, tmp_path / "c/0.__lock"), process.pid)

        assert interrupt(process, begun) == ["interrupted"]
    assert frazil.open_array(tmp_path)[...].tolist() == [1] * 4


# --- pickled ---------------------------------------------------------------------------------------------------------------------------


def again(value: object) -> object:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        value = pickle.loads(pickle.dumps(value, protocol))
    return value


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nodes_are_pickled(tmp_path: Path, layout: str) -> None:
    for store in (LocalStore(tmp_path), MemoryStore(), MemoryStore(f"pickled {layout}")):
        group = frazil.create_group(store, attributes={"a": [1, {"b": None}]})
        array = group.create_array("x/y", **{"shape": (64, 64), "dtype": "i4", **LAYOUTS[layout]})
        array[...] = 5
        array.attrs["u"] = "m"
        array[0]
        for node in (array, group, frazil.open_array(store, path="x/y"), frazil.open_group(store, path="x")):
            other = again(node)
            assert type(other) is type(node)
            assert other.metadata == node.metadata
            assert (other.path, other.read_only, repr(other)) == (node.path, node.read_only, repr(node))
            assert dict(other.attrs) == dict(node.attrs)
        other = again(array)
        other[0, 0] = 6
        assert other[0, 0] == 6
        assert (other[1:] == 5).all()
        assert array[0, 0] == (5 if repr(store) == "MemoryStore()" else 6), "a copy of what has no place; else the same"
        assert (again(array.vindex)[[1], [1]] == 5).all()
        assert (again(array.oindex)[[1], [1]] == 5).all()
        assert again(array.blocks)[0, 0].shape[0] == (array.shards or array.chunks)[0]
        assert dict(again(array.attrs)) == {"u": "m"}
        store.erase_prefix("")


def test_values_are_pickled() -> None:
    store = MemoryStore()
    group = frazil.create_group(store)
    array = group.create_array(
        "x", shape=(4, 4), dtype="f8", chunks=(2, 2), fill_value=np.nan, dimension_names=("y", None)
    )
    info = array.info
    assert (again(info), str(again(info)), again(info).to_json()) == (info, str(info), info.to_json())
    assert str(again(group.tree())) == str(group.tree())
    for value in (
        Runtime(threads=2),
        array.metadata,
        group.metadata,
        array.codecs,
        frazil.Registry,
        array.metadata.data_type,
        Blosc("lz4", 3, "bitshuffle"),
        Bytes("big"),
        Crc32c(),
        Gzip(3),
        Zlib(3),
        Zstd(3, checksum=True),
        Transpose((1, 0)),
        ShardingIndexed((2, 2), [Transpose((1, 0)), Bytes(), Gzip(1)]),
        FaultPlan([Fault("fetch", 1)]).faults,
    ):
        assert again(value) == value
    assert again(frazil.codecs.registry.DEFAULT_REGISTRY).codecs == frazil.codecs.registry.DEFAULT_REGISTRY.codecs
    store.set("key", b"value")
    for wrapper in (CountingStore(store), FaultyStore(store), frazil.stores.ReadOnlyStore(store)):
        assert again(wrapper).get("key") == b"value"


def test_errors_are_pickled() -> None:
    kinds = [kind for kind in vars(frazil.errors).values() if isinstance(kind, type) and issubclass(kind, FrazilError)]
    assert len(kinds) > 12
    for kind in kinds:
        error = again(kind("what", key="a/c/0", path="a", chunk=(1, 2), hint="do"))
        assert type(error) is kind
        assert (error.key, error.path, error.chunk, error.hint) == ("a/c/0", "a", (1, 2), "do")
        assert str(error) == "what (path 'a', key 'a/c/0', chunk (1, 2)). Hint: do"
    assert again(StoreError("full", errno=28)).errno == 28
    with pytest.raises(NotFoundError) as caught:
        frazil.open("memory://nothing-is-there")
    assert str(again(caught.value)) == str(caught.value)
