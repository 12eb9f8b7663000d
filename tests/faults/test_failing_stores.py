"""Stores that fail at every single request, and disks with something else in place of a chunk: an error, never the fill value; afterwards each key has its old
or its new value."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.faults.concurrent_calls import fork

import frazil
from frazil.codecs import Bytes, Gzip, ShardingIndexed, Zstd
from frazil.errors import DataError, MetadataError, StoreError
from frazil.stores import MemoryStore
from frazil.testing import Fault, FaultPlan, FaultyStore

LAYOUTS: dict[str, dict[str, object]] = {
    "chunk": {"chunks": (4, 4), "codecs": []},
    "shard": {"chunks": (2, 2), "shards": (4, 4), "codecs": [Zstd(1, checksum=True)]},
    "nested": {"chunks": (4, 4), "codecs": [ShardingIndexed((4, 2), [ShardingIndexed((2, 2), [Bytes()])])]},
    "around": {"chunks": (4, 4), "codecs": [ShardingIndexed((2, 2), [Bytes()]), Gzip(1)]},
}
VALUES = np.arange(1, 101, dtype="i4").reshape(10, 10)
LAST = np.arange(201, 211, dtype="i4")


def make(layout: str) -> MemoryStore:
    store = MemoryStore()
    array = frazil.create_array(
        store, path="sea", shape=(10, 10), dtype="i4", fill_value=-1, attributes={"units": "m"}, **LAYOUTS[layout]
    )
    array[...] = VALUES
    return store


def copy(store: MemoryStore) -> MemoryStore:
    new = MemoryStore()
    for key in store.list():
        new.set(key, store.get(key) or b"")
    return new


# name: the action on an open array, and the array afterwards (None: undetermined)
Work = Callable[[frazil.Array], object]
READS: dict[str, tuple[Work, object]] = {
    "all": (lambda a: a[...], VALUES),
    "part": (lambda a: a[1:7, 2:9:3], VALUES[1:7, 2:9:3]),
    "one": (lambda a: a[5, 5], VALUES[5, 5]),
    "one twice": (lambda a: (a[5, 5], a[4, 4])[1], VALUES[4, 4]),
    "rows": (lambda a: a.oindex[[1, 9], [0, 5]], VALUES[np.ix_([1, 9], [0, 5])]),
    "points": (lambda a: a.vindex[[1, 9, 5], [0, 5, 5]], VALUES[[1, 9, 5], [0, 5, 5]]),
    "warm": (lambda a: (a[...], a[...])[1], VALUES),
    "chunks": (lambda a: a.nchunks_initialized, None),
    "bytes": (lambda a: a.nbytes_stored() > 0, True),
    "refresh": (lambda a: a.refresh().shape, (10, 10)),
}


def faults(operation: str, kinds: tuple[str, ...], calls: int) -> list[Fault]:
    return [Fault(operation, call, kind) for call in range(1, calls + 1) for kind in kinds]  # type: ignore[arg-type]


def run(store: MemoryStore, work: Work, fault: Fault | None = None) -> tuple[FaultyStore, object]:
    """Does the work on an array opened before the fault. Returns its result, or its error."""
    faulty = FaultyStore(store)
    array = frazil.open_array(faulty, "r+", path="sea")
    faulty.calls.clear()
    faulty.plan = FaultPlan([fault] if fault else [])
    try:
        return faulty, work(array)
    except (StoreError, DataError) as error:
        return faulty, error


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", READS)
def test_reads(layout: str, name: str) -> None:
    """A fetch that fails is an error; truncated bytes are detected."""
    work, expected = READS[name]
    store = make(layout)
    faulty, found = run(store, work)
    if expected is None:
        expected = found
    assert np.array_equal(found, expected)
    failed = 0
    for fault in faults("fetch", ("fail", "cut"), faulty.calls["fetch"]) + faults(
        "list", ("fail",), faulty.calls["list"]
    ):
        _, found = run(store, work, fault)
        if isinstance(found, (StoreError, DataError)):
            failed += 1
            assert found.key is not None
            assert not isinstance(found, DataError) or fault.kind == "cut"
        else:
            assert fault.kind == "cut", "an error is not passed over"
            assert np.array_equal(found, expected)
    assert failed


WRITES: dict[str, tuple[Work, Callable[[np.ndarray], np.ndarray]]] = {}


def written(name: str) -> Callable[[Callable[[np.ndarray], np.ndarray]], Callable[[np.ndarray], np.ndarray]]:
    """Registers the effect of a work on a NumPy array."""

    def register(model: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
        WRITES[name] = (WORKS[name], model)
        return model

    return register


WORKS: dict[str, Work] = {
    "all": lambda a: a.__setitem__(..., 7),
    "part": lambda a: a.__setitem__((slice(1, 7), slice(2, 9)), 7),
    "one": lambda a: a.__setitem__((5, 5), 7),
    "points": lambda a: a.vindex.__setitem__(([1, 9, 5], [0, 5, 5]), 7),
    "fill": lambda a: a.__setitem__((slice(0, 5), slice(None)), -1),
    "grow": lambda a: a.resize((12, 11)),
    "shrink": lambda a: a.resize((6, 7)),
    "append": lambda a: a.append(LAST[None]),
}


@written("all")
def _(values: np.ndarray) -> np.ndarray:
    return np.full_like(values, 7)


@written("part")
def _(values: np.ndarray) -> np.ndarray:
    values[1:7, 2:9] = 7
    return values


@written("one")
def _(values: np.ndarray) -> np.ndarray:
    values[5, 5] = 7
    return values


@written("points")
def _(values: np.ndarray) -> np.ndarray:
    values[[1, 9, 5], [0, 5, 5]] = 7
    return values


@written("fill")
def _(values: np.ndarray) -> np.ndarray:
    values[0:5] = -1
    return values


@written("grow")
def _(values: np.ndarray) -> np.ndarray:
    grown = np.full((12, 11), -1, "i4")
    grown[:10, :10] = values
    return grown


@written("shrink")
def _(values: np.ndarray) -> np.ndarray:
    return values[:6, :7]


@written("append")
def _(values: np.ndarray) -> np.ndarray:
    return np.concatenate((values, LAST[None]))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", WRITES)
def test_writes(layout: str, name: str) -> None:
    """After any failure, each element is old or new; and the same work without faults then succeeds."""
    work, model = WRITES[name]
    before = make(layout)
    expected = model(VALUES.copy())
    done = copy(before)
    faulty, _ = run(done, work)
    assert np.array_equal(frazil.open_array(done, path="sea")[...], expected)
    calls = faulty.calls
    every = faults("fetch", ("fail", "cut"), calls["fetch"]) + faults("list", ("fail",), calls["list"])
    every += faults("put_many", ("fail", "cut", "lose"), calls["put_many"])
    every += faults("erase_many", ("fail", "cut", "lose"), calls["erase_many"])
    assert every
    for fault in every:
        store = copy(before)
        _, outcome = run(store, work, fault)
        assert isinstance(outcome, (StoreError, DataError)) or fault.kind == "cut"
        if name in ("one", "points") and fault.operation == "fetch":
            assert same_keys(store, before) or not isinstance(outcome, Exception)
        array = frazil.open_array(store, "r+", path="sea")
        found = array[...]
        old = np.full((12, 11), -1, "i4")
        old[:10, :10] = VALUES
        new = np.full((12, 11), -1, "i4")
        new[tuple(slice(n) for n in expected.shape)] = expected
        shape = tuple(slice(n) for n in found.shape)
        assert ((found == old[shape]) | (found == new[shape])).all()
        if name != "append":
            work(array)
            assert np.array_equal(frazil.open_array(store, path="sea")[...], expected)
        if name == "shrink":
            array.resize((10, 10))
            assert (array[6:] == -1).all(), "nor does a shrinking that failed leave old values behind"
            assert (array[:, 7:] == -1).all()


def same_keys(one: MemoryStore, other: MemoryStore) -> bool:
    return {key: one.get(key) for key in one.list()} == {key: other.get(key) for key in other.list()}


CREATES: dict[str, Callable[[FaultyStore], object]] = {
    "array": lambda s: frazil.create_array(s, path="new/one", shape=4, dtype="i4", data=[1, 2, 3, 4]),
    "over": lambda s: frazil.create_array(s, path="sea", shape=4, dtype="i4", data=[1, 2, 3, 4], overwrite=True),
    "group": lambda s: frazil.create_group(s, path="new/one", attributes={"a": 1}),
    "arrays": lambda s: frazil.open_group(s, "r+").create_arrays(
        {f"n/{i}": {"shape": 4, "dtype": "i4"} for i in range(3)}
    ),
    "remove": lambda s: frazil.open_group(s, "r+").__delitem__("sea"),
    "attributes": lambda s: frazil.open_array(s, "r+", path="sea").attrs.update(units="km"),
    "open": lambda s: frazil.open(s, path="sea"),
    "tree": lambda s: str(frazil.open_group(s).tree()),
    "in": lambda s: "sea" in frazil.open_group(s),
}


@pytest.mark.parametrize("name", CREATES)
def test_nodes(name: str) -> None:
    """Every failure is reported. Documents are never partial, and the others are unchanged."""
    before = make("shard")
    count = FaultyStore(copy(before))
    CREATES[name](count)
    every = [
        fault
        for operation, kinds in {
            "fetch": ("fail", "cut"),
            "list": ("fail",),
            "put_many": ("fail", "lose"),
            "erase_many": ("fail", "lose"),
        }.items()
        for fault in faults(operation, kinds, count.calls[operation])
    ]
    for fault in every:
        store, error = copy(before), None
        try:
            CREATES[name](FaultyStore(store, FaultPlan([fault])))
        except (StoreError, DataError, MetadataError) as raised:
            error = raised
        assert error is None or error.key is not None
        assert error is not None or fault.kind == "cut", "only where nothing was to be cut"
        for path, node in frazil.open_group(store).members(None):
            if isinstance(node, frazil.Group):  # in the place of what was not removed whole
                assert path != "sea" or (name == "remove" and not node.nmembers())
            elif path == "sea":
                assert node.shape in ((10, 10), (4,))
                assert node.attrs.get("units", "m") in ("m", "km")


# --- disks -----------------------------------------------------------------------------------------------------------------------------


def obstruct(kind: str, path: Path) -> None:
    """Puts something else in place of a file."""
    data = path.read_bytes()
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "folder of files":
        path.mkdir()
        (path / "0").write_bytes(data)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as end:
            end.bind(f"{folder}/s")  # the address of a socket may not be long
            shutil.move(f"{folder}/s", path)
    elif kind == "link":
        path.with_name("elsewhere").write_bytes(data)
        path.symlink_to("elsewhere")
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "loop":
        path.symlink_to(path.name)
    else:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 7))  # /dev/full


OBSTACLES = ("folder", "folder of files", "fifo", "socket", "link", "dangling link", "loop", "device")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", OBSTACLES)
def test_something_else_in_a_chunks_place(tmp_path: Path, layout: str, kind: str) -> None:
    array = frazil.create_array(tmp_path, path="sea", shape=(8, 8), dtype="i4", fill_value=-1, **LAYOUTS[layout])
    array[...] = 5
    warm = frazil.open_array(tmp_path, "r+", path="sea")
    warm[...], warm[0, 0]
    try:
        obstruct(kind, tmp_path / "sea/c/0/1")
    except PermissionError:
        pytest.skip("only root makes devices")
    others = {key: array.store.get(key) for key in array.store.list()}
    for mine in (array, warm):
        for call in (
            lambda mine=mine: mine[...],
            lambda mine=mine: mine[0, 5],
            lambda mine=mine: mine.vindex[[0], [5]],
            lambda mine=mine: mine.__setitem__((0, 5), 1),
            lambda mine=mine: mine.__setitem__((slice(0, 4), slice(4, 8)), 1),
        ):
            with pytest.raises(StoreError) as caught:
                call()
            assert (caught.value.key, caught.value.path) == ("sea/c/0/1", "sea")
            assert caught.value.chunk is not None
            assert caught.value.errno is not None
        assert (mine[:, :4] == 5).all()
        assert (mine[4:] == 5).all()
    assert {key: array.store.get(key) for key in array.store.list()} == others


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_that_may_not_be_read(layout: str) -> None:
    """For root too: a child drops its privileges."""
    root = Path(tempfile.mkdtemp())
    try:
        os.chmod(root, 0o755)
        array = frazil.create_array(root, path="sea", shape=(8, 8), dtype="i4", fill_value=-1, **LAYOUTS[layout])
        array[...] = 5
        os.chmod(root / "sea/c/0/1", 0)

        def look() -> None:
            if os.geteuid() == 0:
                os.seteuid(65534)
            mine = frazil.open_array(root, "r+", path="sea")
            for call in (
                lambda: mine[...],
                lambda: mine[0, 5],
                lambda: mine.vindex[[0], [5]],
                lambda: mine.__setitem__((0, 5), 1),
            ):
                with pytest.raises(StoreError) as caught:
                    call()
                assert caught.value.errno == errno.EACCES
                assert (caught.value.key, caught.value.path) == ("sea/c/0/1", "sea")
            assert (mine[:, :4] == 5).all()

        assert os.waitpid(fork(look), 0)[1] == 0
    finally:
        shutil.rmtree(root)


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """A child may write files of at most 20 kB, and gets EFBIG for larger ones; the old chunks stay."""
    import resource
    import signal

    array = frazil.create_array(tmp_path, shape=(100, 100), dtype="i8", chunks=(10, 10), shards=(100, 100), codecs=[])
    array[...] = 5

    def write() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        for call in (lambda: array.__setitem__(..., 6), lambda: array.__setitem__((0, 0), 6)):
            with pytest.raises(StoreError) as caught:
                call()
            assert caught.value.errno == errno.EFBIG
            assert caught.value.key == "c/0/0"
        assert (array[...] == 5).all()
        array.attrs["small"] = True

    assert os.waitpid(fork(write), 0)[1] == 0
    assert (frazil.open_array(tmp_path)[...] == 5).all()
    assert [path.name for path in (tmp_path / "c/0").iterdir()] == ["0"], "nothing is left of the attempts"
